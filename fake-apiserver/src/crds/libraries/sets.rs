//! Decides how rules compare lists as sets. Answers to `cel-go/ext/sets.go`.

use cel::common::types::{CelBool, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};

use super::{Result, failed, items};

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    let both = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload("sets.contains", "sets.contains", both(), |args| {
        judge(&args, |one, other| contains(one, other))
    })?;
    env.add_overload("sets.equivalent", "sets.equivalent", both(), |args| {
        judge(&args, |one, other| contains(one, other) && contains(other, one))
    })?;
    env.add_overload("sets.intersects", "sets.intersects", both(), |args| {
        judge(&args, |one, other| other.iter().any(|item| has(one, *item)))
    })
}

type Items<'b, 'v> = [&'b (dyn Val + 'v)];

fn has(list: &Items, item: &dyn Val) -> bool {
    list.iter().any(|one| one.equals(item))
}

/// Whether every item of the other is one of these.
fn contains(list: &Items, other: &Items) -> bool {
    other.iter().all(|item| has(list, *item))
}

fn judge<'b, 'v>(args: &[CowVal<'b, 'v>], holds: impl Fn(&Items, &Items) -> bool) -> Result<CowVal<'b, 'v>> {
    let [one, other] = args else { return Err(failed("no such overload")) };
    let (one, other) = (items(one.as_ref())?, items(other.as_ref())?);
    crate::crds::budget::charge(one.len().saturating_mul(other.len()))?;
    Ok(CowVal::owned(CelBool::from(holds(&one, &other))))
}
