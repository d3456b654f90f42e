//! Decides how much rules pay for functions that may make far more of something than it is. No rule can name them: they stand in
//! place of the libraries' own. Answers to `cel-go/ext/strings.go` and the cost estimator of `k8s.io/apiserver/pkg/cel/library`.

use cel::common::types::{CelInt, CelString, DYN_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env};

use super::{Result, failed, given, text};
use crate::crds::budget::charge;

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    cel::add_overload!(env, fn replace: (CelString, CelString, CelString) -> Result<CelString>, name = "@replace")?;
    cel::add_overload!(env, fn replace_some: (CelString, CelString, CelString, CelInt) -> Result<CelString>, name = "@replace")?;
    env.add_overload("@squared", "@squared", vec![DYN_TYPE], squared)?;
    env.add_overload("@counted", "@counted", vec![DYN_TYPE], counted)
}

fn replace(within: &CelString<'_>, old: &CelString<'_>, new: &CelString<'_>) -> Result<CelString<'static>> {
    replace_some(within, old, new, &(-1).into())
}

/// Replaces the first so many; all where that is less than none.
fn replace_some(
    within: &CelString<'_>,
    old: &CelString<'_>,
    new: &CelString<'_>,
    most: &CelInt,
) -> Result<CelString<'static>> {
    let (within, old, new) = (within.inner(), old.inner(), new.inner());
    let most = usize::try_from(*most.inner()).unwrap_or(usize::MAX);
    let places = within.matches(old).take(most).count();
    charge(places.saturating_mul(new.len()) / 10)?;
    Ok(text(within.replacen(old, new, most)))
}

/// Every item may be compared to every other one.
fn squared<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>> {
    let value = args.pop().ok_or_else(|| failed("no such overload"))?;
    let size = value.as_sizer().map_or(0, |sizer| usize::try_from(*sizer.size().inner()).unwrap_or(0));
    charge(size.saturating_mul(size))?;
    Ok(value)
}

/// As many items as a number says.
fn counted<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>> {
    let count = given::<CelInt>(&args, 0).map(|count| usize::try_from(*count.inner()).unwrap_or(0));
    charge(count.unwrap_or(0))?;
    args.pop().ok_or_else(|| failed("no such overload"))
}
