//! Decides how rules search in texts by patterns. Answers to `k8s.io/apiserver/pkg/cel/library/regex.go`.

use cel::common::types::{CelInt, CelList, CelString};
use cel::{DeclarationError, Env};
use regex::Regex;

use super::{Result, failed, text, texts};

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    cel::add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>)?;
    cel::add_member_overload!(env, fn find_all: (CelString, CelString) -> Result<CelList>, name = "findAll")?;
    cel::add_member_overload!(env, fn find_some: (CelString, CelString, CelInt) -> Result<CelList>, name = "findAll")
}

fn compiled(pattern: &CelString<'_>) -> Result<Regex> {
    Regex::new(pattern.inner()).map_err(|error| failed(format!("Illegal regex: {error}")))
}

fn find(within: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelString<'static>> {
    let found = compiled(pattern)?.find(within.inner()).map_or("", |found| found.as_str()).to_owned();
    Ok(text(found))
}

fn find_all(within: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelList<'static>> {
    find_some(within, pattern, &(-1).into())
}

/// The first so many; all where that is less than none.
fn find_some(within: &CelString<'_>, pattern: &CelString<'_>, most: &CelInt) -> Result<CelList<'static>> {
    let most = usize::try_from(*most.inner()).unwrap_or(usize::MAX);
    let pattern = compiled(pattern)?;
    Ok(texts(pattern.find_iter(within.inner()).take(most).map(|found| found.as_str().to_owned())))
}
