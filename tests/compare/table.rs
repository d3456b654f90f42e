//! The differences that were seen, as a table.

use std::fmt::Write;
use std::path::Path;

use crate::differ::Difference;

/// Names the file in which the differences are to be told.
const WHERE: &str = "COMPARE_TABLE";

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
    std::fs::write(Path::new(&path), lines.concat()).expect("the table is written");
}
