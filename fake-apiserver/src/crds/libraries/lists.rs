//! Decides what rules may ask of whole lists. Answers to `k8s.io/apiserver/pkg/cel/library/lists.go`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env};

use super::{Result, failed, items};

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list.isSorted()", LIST_TYPE, vec![], |all| is_sorted(&all))?;
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, vec![], |all| sum(&all))?;
    env.add_member_overload("min", "list.min()", LIST_TYPE, vec![], |all| {
        most(&all, "min", Ordering::Greater)
    })?;
    env.add_member_overload("max", "list.max()", LIST_TYPE, vec![], |all| most(&all, "max", Ordering::Less))?;
    env.add_member_overload("indexOf", "list.indexOf(dyn)", LIST_TYPE, vec![DYN_TYPE], |all| index_of(&all))?;
    env.add_member_overload("lastIndexOf", "list.lastIndexOf(dyn)", LIST_TYPE, vec![DYN_TYPE], |all| {
        last_index_of(&all)
    })
}

fn compare(one: &dyn Val, other: &dyn Val) -> Result<Ordering> {
    one.as_comparer().ok_or_else(|| failed("no such overload"))?.compare(other)
}

fn list<'b, 'v>(args: &'b [CowVal<'b, 'v>]) -> Result<Vec<&'b (dyn Val + 'v)>> {
    items(args.first().ok_or_else(|| failed("no such overload"))?.as_ref())
}

fn is_sorted<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let all = list(args)?;
    for pair in all.windows(2) {
        if compare(pair[0], pair[1])?.is_gt() {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

/// The sum; of nothing it is the whole number nought, as types are not known here.
fn sum<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let all = list(args)?;
    let Some((first, rest)) = all.split_first() else { return Ok(CowVal::owned(CelInt::from(0))) };
    let mut sum: Box<dyn Val + 'v> = first.clone_as_boxed();
    for item in rest {
        let next = sum.as_adder().ok_or_else(|| failed("no such overload"))?.add(*item)?.into_owned();
        sum = next;
    }
    Ok(CowVal::from(sum))
}

/// The first item to which all others compare as they should not; `replaced` is how the best so far compares to a better one.
fn most<'b, 'v>(args: &[CowVal<'b, 'v>], name: &str, replaced: Ordering) -> Result<CowVal<'b, 'v>> {
    let all = list(args)?;
    let (first, rest) = all.split_first().ok_or_else(|| failed(format!("{name} called on empty list")))?;
    let mut best = *first;
    for item in rest {
        if compare(best, *item)? == replaced {
            best = *item;
        }
    }
    Ok(CowVal::from(best.clone_as_boxed()))
}

fn place(at: Option<usize>) -> CelInt {
    at.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1).into()
}

fn index_of<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let all = list(args)?;
    Ok(CowVal::owned(place(all.iter().position(|item| item.equals(args[1].as_ref())))))
}

fn last_index_of<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let all = list(args)?;
    Ok(CowVal::owned(place(all.iter().rposition(|item| item.equals(args[1].as_ref())))))
}
