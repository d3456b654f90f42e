//! Decides how much work a rule may do: each step of it costs something, and beyond the real server's limits it ends. So no rule,
//! whatever it says of however large an object, holds the server up. Never decides what a rule means. Answers to
//! `k8s.io/apiserver/pkg/apis/cel/config.go` and the cost tracker of `cel-go/interpreter`.

use std::cell::Cell;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{CelInt, CelString, DYN_TYPE, INT_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, Env, ExecutionError};

use super::libraries::ORDERED;
use super::parts::parts_mut;

/// What one rule may cost once.
const CALL: u64 = 1_000_000;
/// What all rules may cost for one object.
pub(super) const OBJECT: u64 = 10_000_000;

/// What a list and a map cost that a rule makes.
const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;

const STEP: &str = "@step";
const SIZED: &str = "@sized";

/// The names before a dot that are no values, but parts of a function's name.
const NAMESPACES: &[&str] = &["sets", "format", "optional", "lists", "strings", "ip"];

thread_local! {
    /// What may still be spent; nothing once it was too much.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Why an evaluation ended without a value.
#[derive(Debug)]
pub(super) enum Stop {
    /// It failed.
    Failed(ExecutionError),
    /// It cost more than one may.
    Call,
    /// With what others have cost, it was too much for one object.
    Object,
}

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(STEP, STEP, vec![DYN_TYPE, INT_TYPE], step)?;
    env.add_overload(SIZED, SIZED, vec![DYN_TYPE], sized)
}

/// Takes something off what may be spent.
pub(super) fn charge(cost: usize) -> Result<(), ExecutionError> {
    let left = LEFT.get().and_then(|left| left.checked_sub(u64::try_from(cost).unwrap_or(u64::MAX)));
    LEFT.set(left);
    let why = "operation cancelled: actual cost limit exceeded";
    left.map(|_| ()).ok_or_else(|| ExecutionError::function_error("", why))
}

/// Evaluates an expression that was woven, within what is left of an object's budget.
pub(super) fn run(
    expr: &IdedExpr,
    base: u64,
    variables: &Context<'_, '_>,
    left: &mut u64,
) -> Result<cel::Value, Stop> {
    LEFT.set(CALL.checked_sub(base));
    let value = if LEFT.get().is_some() {
        cel::Value::resolve(expr, variables).map_err(Stop::Failed)
    } else {
        Err(Stop::Call)
    };
    let rest = LEFT.take();
    let spent = CALL - rest.unwrap_or(0);
    *left = left.checked_sub(spent).ok_or(Stop::Object)?;
    if rest.is_none() { Err(Stop::Call) } else { value }
}

/// Lets a value through for a price.
fn step<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let cost = args.pop().and_then(|cost| cost.downcast_ref::<CelInt>().map(|cost| *cost.inner()));
    charge(usize::try_from(cost.unwrap_or(1)).unwrap_or(usize::MAX))?;
    args.pop().ok_or_else(ExecutionError::missing_argument_or_target)
}

/// Lets a value through that a function is going to read, or to make another one of.
fn sized<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    charge(size(value.as_ref()))?;
    Ok(value)
}

fn size(value: &dyn Val) -> usize {
    if let Some(text) = value.downcast_ref::<CelString>() {
        return text.inner().len() / 10;
    }
    // Of optional values and the like there is one.
    value.as_sizer().map_or(0, |sizer| usize::try_from(*sizer.size().inner()).unwrap_or(0))
}

/// Makes an expression pay for what it does; returns what it costs in any case.
pub(super) fn weave(expr: &mut IdedExpr) -> u64 {
    let own = match &mut expr.expr {
        Expr::Call(call) => return weave_call(call),
        Expr::Comprehension(inner) => return weave_loop(inner),
        Expr::Unspecified | Expr::Literal(_) => 0,
        Expr::Ident(_) | Expr::Select(_) => 1,
        Expr::List(_) => NEW_LIST,
        Expr::Map(_) | Expr::Struct(_) => NEW_MAP,
    };
    own + parts_mut(expr).into_iter().map(weave).sum::<u64>()
}

fn weave_call(call: &mut CallExpr) -> u64 {
    let names_a_function = matches!(call.target.as_deref(), Some(IdedExpr { expr: Expr::Ident(name), .. }) if NAMESPACES.contains(&name.as_str()));
    let mut cost = 1;
    if !names_a_function && let Some(target) = call.target.as_deref_mut() {
        cost += weave(target);
        wrap(target, SIZED, None);
    }
    cost += call.args.iter_mut().map(weave).sum::<u64>();
    match call.func_name.as_str() {
        operators::IN => call.args.iter_mut().skip(1).for_each(|arg| wrap(arg, SIZED, None)),
        operators::ADD | operators::EQUALS | operators::NOT_EQUALS => {
            call.args.iter_mut().for_each(|arg| wrap(arg, SIZED, None));
        }
        name if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '@') => {
            call.args.iter_mut().for_each(|arg| wrap(arg, SIZED, None));
            // Each place where something is put in may take all of it.
            if name == "replace"
                && let Some(target) = call.target.take()
            {
                call.args.insert(0, *target);
                "@replace".clone_into(&mut call.func_name);
            } else if name == "distinct"
                && let Some(target) = call.target.as_deref_mut()
            {
                wrap(target, "@squared", None);
            } else if name == "range" {
                call.args.iter_mut().for_each(|arg| wrap(arg, "@counted", None));
            }
        }
        _ => {}
    }
    cost
}

/// A loop pays for each round, before it.
fn weave_loop(inner: &mut ComprehensionExpr) -> u64 {
    let once = weave(&mut inner.iter_range) + weave(&mut inner.accu_init) + weave(&mut inner.result);
    wrap(&mut inner.iter_range, ORDERED, None);
    let lists = matches!(inner.accu_init.expr, Expr::List(_));
    let mut round = 0;
    if lists && let Expr::Call(step) = &mut inner.loop_step.expr {
        // What is added to a list is told by its form, which stays.
        let parts = if step.func_name == operators::CONDITIONAL { 0..2 } else { 1..2 };
        let parts = step.args.get_mut(parts).unwrap_or_default();
        round += parts.iter_mut().map(weave_part).sum::<u64>();
        let price = Some(round + 2);
        match parts {
            [IdedExpr { expr: Expr::List(added), .. }] => {
                added.elements.iter_mut().take(1).for_each(|made| wrap(made, STEP, price));
            }
            [kept, ..] => wrap(kept, STEP, price),
            [] => {}
        }
        return once;
    }
    round += weave(&mut inner.loop_step) + weave(&mut inner.loop_cond);
    wrap(&mut inner.loop_cond, STEP, Some(round + 1));
    once
}

/// A part of the step of a loop that makes a list: what is added to it, or the condition.
fn weave_part(part: &mut IdedExpr) -> u64 {
    match &mut part.expr {
        Expr::List(list) => list.elements.iter_mut().map(weave).sum(),
        Expr::Call(add)
            if add.func_name == operators::ADD
                && matches!(
                    add.args[..],
                    [IdedExpr { expr: Expr::Ident(_), .. }, IdedExpr { expr: Expr::List(_), .. }]
                ) =>
        {
            weave_part(&mut add.args[1])
        }
        _ => weave(part),
    }
}

/// Puts a call of a function around an expression.
fn wrap(expr: &mut IdedExpr, function: &str, price: Option<u64>) {
    let id = expr.id;
    let inner = std::mem::take(expr);
    let price = price.map(|price| IdedExpr {
        id,
        expr: Expr::Literal(LiteralValue::Int(CelInt::from(i64::try_from(price).unwrap_or(i64::MAX)))),
    });
    let args = std::iter::once(inner).chain(price).collect();
    *expr =
        IdedExpr { id, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) };
}
