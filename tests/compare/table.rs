//! The differences that were seen, as a table.

use std::fmt::Write;
use std::path::Path;

use crate::differ::Difference;

/// Names the file in which the differences are to be told.
const WHERE: &str = "COMPARE_TABLE";

/// What stands above the table.
const HEAD: &str = "# Differences from upstream on a real API server

As the last full run of `tests/compare` saw them; `just compare-table` writes this. `docs/compare.md` says what is compared, and
ARCHITECTURE.md has the rows.

| world | side | object | field | upstream | pvbind | row |
|---|---|---|---|---|---|---|
";

/// A text as a cell takes it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

/// Writes all differences into the file that is named for it, if one is.
pub fn write(explained: &[(Difference, String)]) {
    let Some(path) = std::env::var_os(WHERE) else { return };
    let mut lines: Vec<String> = explained
        .iter()
        .map(|(difference, row)| {
            let mut line = String::new();
            let side = format!("{:?}", difference.side).to_lowercase();
            let cells = [
                difference.world.as_str(),
                &side,
                &difference.object,
                &difference.field,
                &difference.upstream(),
                &difference.ours(),
                row,
            ];
            for text in cells {
                write!(line, "| {} ", cell(text)).expect("a text takes all");
            }
            line + "|\n"
        })
        .collect();
    lines.sort();
    std::fs::write(Path::new(&path), HEAD.to_owned() + &lines.concat()).expect("the table is written");
}
