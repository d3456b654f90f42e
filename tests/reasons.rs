//! The page of reason codes is complete: it lists the codes that the program can give, and no others.

use std::collections::BTreeSet;

/// The codes that the functions called `code` can return: the text behind each of their arrows.
fn given(source: &str) -> BTreeSet<&str> {
    let functions = source.split("fn code(").skip(1);
    let bodies = functions.map(|rest| rest.split("\n    }\n").next().unwrap_or_default());
    let arms = bodies.flat_map(|body| body.split("=> \"").skip(1));
    arms.filter_map(|arm| arm.split('"').next()).collect()
}

#[test]
fn every_code_is_documented_once() {
    let given: BTreeSet<&str> =
        [include_str!("../src/decide/reason.rs"), include_str!("../src/decide/prose.rs")]
            .into_iter()
            .flat_map(given)
            .collect();
    assert!(given.contains("Bound") && given.contains("VolumeTooSmall") && given.contains("NoNodes"));
    let page = include_str!("../docs/reasons.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: Vec<&str> = rows.collect();
    let documented: BTreeSet<&str> = rows.iter().copied().collect();
    assert_eq!(documented, given);
    assert_eq!(rows.len(), documented.len(), "a code is documented twice");
}

#[test]
fn what_waits_by_design_is_what_is_good() {
    let page = include_str!("../docs/reasons.md");
    let marked = page.lines().filter(|line| line.starts_with("| `") && line.contains("**Waits by design**"));
    let marked: BTreeSet<&str> = marked.filter_map(|line| line.split('`').nth(1)).collect();
    let source = include_str!("../src/simulate/report.rs");
    let list = source.split("BY_DESIGN: ").nth(1).and_then(|rest| rest.split(';').nth(1)).unwrap_or_default();
    let listed: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
    assert_eq!(marked, listed);
}
