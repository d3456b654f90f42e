//! Decides what rules may do with quantities. Never rounds one. Answers to `k8s.io/apiserver/pkg/cel/library/quantity.go`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelDouble, CelInt, CelString, Type};
use cel::{DeclarationError, Env};

use super::{Kind, Opaque, Result, failed};
use crate::quantity::Quantity;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");

type Amount = Opaque<Quantity>;

impl Kind for Quantity {
    fn kind() -> &'static Type {
        &QUANTITY
    }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(QUANTITY.to_owned())?;
    cel::add_overload!(env, fn quantity: (CelString) -> Result<Amount>)?;
    cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool, name = "isQuantity")?;
    // The real server declares this one alone of them as no method.
    cel::add_overload!(env, fn sign: (Amount) -> CelInt)?;
    cel::add_member_overload!(env, fn is_greater_than: (Amount, Amount) -> CelBool, name = "isGreaterThan")?;
    cel::add_member_overload!(env, fn is_less_than: (Amount, Amount) -> CelBool, name = "isLessThan")?;
    cel::add_member_overload!(env, fn compare_to: (Amount, Amount) -> CelInt, name = "compareTo")?;
    cel::add_member_overload!(env, fn as_float: (Amount) -> CelDouble, name = "asApproximateFloat")?;
    cel::add_member_overload!(env, fn as_integer: (Amount) -> Result<CelInt>, name = "asInteger")?;
    cel::add_member_overload!(env, fn is_integer: (Amount) -> CelBool, name = "isInteger")?;
    cel::add_member_overload!(env, fn plus: (Amount, Amount) -> Amount, name = "add")?;
    cel::add_member_overload!(env, fn plus_whole: (Amount, CelInt) -> Amount, name = "add")?;
    cel::add_member_overload!(env, fn minus: (Amount, Amount) -> Amount, name = "sub")?;
    cel::add_member_overload!(env, fn minus_whole: (Amount, CelInt) -> Amount, name = "sub")
}

fn quantity(text: &CelString<'_>) -> Result<Amount> {
    Quantity::parse(text.inner()).map(Opaque).map_err(failed)
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    Quantity::parse(text.inner()).is_ok().into()
}

fn order(one: &Amount, other: &Amount) -> Ordering {
    one.0.nanos().cmp(&other.0.nanos())
}

fn sign(amount: &Amount) -> CelInt {
    i64::try_from(amount.0.nanos().signum()).unwrap_or_default().into()
}

fn is_greater_than(one: &Amount, other: &Amount) -> CelBool {
    order(one, other).is_gt().into()
}

fn is_less_than(one: &Amount, other: &Amount) -> CelBool {
    order(one, other).is_lt().into()
}

fn compare_to(one: &Amount, other: &Amount) -> CelInt {
    (order(one, other) as i64).into()
}

#[expect(clippy::cast_precision_loss, reason = "it is asked for approximately")]
fn as_float(amount: &Amount) -> CelDouble {
    (amount.0.nanos() as f64 / 1e9).into()
}

/// The number, if it is whole and not too large.
fn whole(amount: &Amount) -> Option<i64> {
    let nanos = amount.0.nanos();
    i64::try_from(nanos / 1_000_000_000).ok().filter(|_| nanos % 1_000_000_000 == 0)
}

fn as_integer(amount: &Amount) -> Result<CelInt> {
    whole(amount).map(CelInt::from).ok_or_else(|| failed("cannot convert value to integer"))
}

fn is_integer(amount: &Amount) -> CelBool {
    whole(amount).is_some().into()
}

fn plus(one: &Amount, other: &Amount) -> Amount {
    Opaque(one.0.plus(other.0))
}

fn plus_whole(one: &Amount, other: &CelInt) -> Amount {
    Opaque(one.0.plus(Quantity::whole(i128::from(*other.inner()))))
}

fn minus(one: &Amount, other: &Amount) -> Amount {
    Opaque(one.0.minus(other.0))
}

fn minus_whole(one: &Amount, other: &CelInt) -> Amount {
    Opaque(one.0.minus(Quantity::whole(i128::from(*other.inner()))))
}
