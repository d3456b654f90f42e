//! Decides how rules go through lists and maps with two variables: place and item, or key and value. Each such loop becomes one of
//! the language's over pairs. Answers to `cel-go/ext/comprehensions.go`.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use cel::common::types::{CelInt, CelMap, CelMapKey, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env};

use super::{Result, failed, items, list};
use crate::crds::parts::parts_mut;

/// A name that no rule can write.
const RESULT: &str = "@result";
/// What puts what a loop goes through in order.
pub(in crate::crds) const ORDERED: &str = "@ordered";
pub(in crate::crds) const PAIRS: &str = "@pairs";
const PAIR: &str = "@pair";
pub(in crate::crds) const MAP_OF: &str = "@mapOf";
pub(in crate::crds) const MERGED: &str = "@merged";

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_overload(ORDERED, ORDERED, vec![DYN_TYPE], ordered)?;
    env.add_overload(PAIRS, PAIRS, vec![DYN_TYPE], |args| pairs(&args))?;
    env.add_overload(PAIR, PAIR, vec![DYN_TYPE, DYN_TYPE], |args| {
        Ok(CowVal::owned(list(args.into_iter().map(CowVal::into_owned).collect())))
    })?;
    env.add_overload(MAP_OF, MAP_OF, vec![LIST_TYPE], |args| map_of(&args))?;
    env.add_overload(MERGED, MERGED, vec![LIST_TYPE], |args| merged(&args))?;
    for name in ["all", "exists", "existsOne", "exists_one"] {
        env.add_macro(Macro::receiver(name, 3, move |helper, target, args| {
            Ok(Some(judged(name, helper, target, args)?))
        }))?;
    }
    for (name, makes) in
        [("transformList", Makes::List), ("transformMap", Makes::Map), ("transformMapEntry", Makes::Entries)]
    {
        for count in [3, 4] {
            let expand = move |helper: &mut MacroExprHelper<'_>,
                               target: &mut Option<IdedExpr>,
                               args: &mut Vec<IdedExpr>| {
                Ok(Some(transformed(makes, helper, target, args)?))
            };
            env.add_macro(Macro::receiver(name, count, expand))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    List,
    Map,
    Entries,
}

/// A loop over pairs: the range, the name of a pair, and what is asked of each.
struct Loop {
    range: IdedExpr,
    pair: String,
    asked: Vec<IdedExpr>,
}

impl Loop {
    fn read(
        helper: &mut MacroExprHelper<'_>,
        target: &mut Option<IdedExpr>,
        args: &mut Vec<IdedExpr>,
    ) -> std::result::Result<Self, ParseError> {
        let name = |arg: &IdedExpr| match &arg.expr {
            Expr::Ident(name) => Some(name.clone()),
            _ => None,
        };
        let (Some(first), Some(second), Some(range)) =
            (args.first().and_then(name), args.get(1).and_then(name), target.take())
        else {
            let at = args.first().map_or(0, |arg| arg.id);
            return Err(helper.new_error(at, "argument must be a simple name".to_owned()));
        };
        let pair = format!("@{first}:{second}");
        let mut asked = args.split_off(2);
        for one in &mut asked {
            replace(one, &first, &pair, 0);
            replace(one, &second, &pair, 1);
        }
        let range = call(helper, PAIRS, vec![range]);
        Ok(Self { range, pair, asked })
    }
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

/// Puts a part of the pair in place of a variable, wherever that is not another one of the same name.
fn replace(expr: &mut IdedExpr, name: &str, pair: &str, part: i64) {
    if matches!(&expr.expr, Expr::Ident(found) if found == name) {
        let id = expr.id;
        let pair = IdedExpr { id, expr: Expr::Ident(pair.to_owned()) };
        let part = IdedExpr { id, expr: Expr::Literal(LiteralValue::Int(CelInt::from(part))) };
        expr.expr = Expr::Call(CallExpr {
            func_name: operators::INDEX.to_owned(),
            target: None,
            args: vec![pair, part],
        });
        return;
    }
    if let Expr::Comprehension(inner) = &mut expr.expr
        && inner.iter_var == name
    {
        // Below its range the name is this loop's own.
        replace(&mut inner.iter_range, name, pair, part);
        replace(&mut inner.accu_init, name, pair, part);
        return;
    }
    for inner in parts_mut(expr) {
        replace(inner, name, pair, part);
    }
}

fn ident(helper: &mut MacroExprHelper<'_>) -> IdedExpr {
    helper.next_expr(Expr::Ident(RESULT.to_owned()))
}

fn literal(helper: &mut MacroExprHelper<'_>, value: LiteralValue) -> IdedExpr {
    helper.next_expr(Expr::Literal(value))
}

/// Whether all, some or one of the pairs keep what is asked.
fn judged(
    name: &str,
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> std::result::Result<IdedExpr, ParseError> {
    let Loop { range, pair, mut asked } = Loop::read(helper, target, args)?;
    let asked = asked.pop().unwrap_or_default();
    let so_far = ident(helper);
    let (init, cond, step, result) = match name {
        "all" => {
            let init = literal(helper, LiteralValue::Boolean(true.into()));
            let cond = call(helper, operators::NOT_STRICTLY_FALSE, vec![so_far.clone()]);
            (init, cond, call(helper, operators::LOGICAL_AND, vec![so_far.clone(), asked]), so_far)
        }
        "exists" => {
            let init = literal(helper, LiteralValue::Boolean(false.into()));
            let not = call(helper, operators::LOGICAL_NOT, vec![so_far.clone()]);
            let cond = call(helper, operators::NOT_STRICTLY_FALSE, vec![not]);
            (init, cond, call(helper, operators::LOGICAL_OR, vec![so_far.clone(), asked]), so_far)
        }
        _ => {
            let init = literal(helper, LiteralValue::Int(0.into()));
            let cond = literal(helper, LiteralValue::Boolean(true.into()));
            let one = literal(helper, LiteralValue::Int(1.into()));
            let more = call(helper, operators::ADD, vec![so_far.clone(), one.clone()]);
            let step = call(helper, operators::CONDITIONAL, vec![asked, more, so_far.clone()]);
            (init, cond, step, call(helper, operators::EQUALS, vec![so_far, one]))
        }
    };
    Ok(through(helper, range, pair, [init, cond, step, result]))
}

/// A loop over pairs that comes to a result.
fn through(
    helper: &mut MacroExprHelper<'_>,
    iter_range: IdedExpr,
    iter_var: String,
    [accu_init, loop_cond, loop_step, result]: [IdedExpr; 4],
) -> IdedExpr {
    helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range,
        iter_var,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    })))
}

/// What is made of each pair, or of those that keep what is asked first.
fn transformed(
    makes: Makes,
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> std::result::Result<IdedExpr, ParseError> {
    let Loop { range, pair, mut asked } = Loop::read(helper, target, args)?;
    let mut made = asked.pop().unwrap_or_default();
    if makes == Makes::Map {
        let whole = helper.next_expr(Expr::Ident(pair.clone()));
        let nought = literal(helper, LiteralValue::Int(0.into()));
        let key = call(helper, operators::INDEX, vec![whole, nought]);
        made = call(helper, PAIR, vec![key, made]);
    }
    let so_far = ident(helper);
    let one = helper.next_expr(Expr::List(ListExpr::new(vec![made])));
    let mut step = call(helper, operators::ADD, vec![so_far.clone(), one]);
    if let Some(kept) = asked.pop() {
        step = call(helper, operators::CONDITIONAL, vec![kept, step, so_far.clone()]);
    }
    let init = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let cond = literal(helper, LiteralValue::Boolean(true.into()));
    let all = through(helper, range, pair, [init, cond, step, so_far]);
    Ok(match makes {
        Makes::List => all,
        Makes::Map => call(helper, MAP_OF, vec![all]),
        Makes::Entries => call(helper, MERGED, vec![all]),
    })
}

/// The keys of a map, from the least on: the same rule says the same each time. All else stays as it is.
fn ordered<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>> {
    let range = args.pop().ok_or_else(|| failed("no such overload"))?;
    if range.as_ref().downcast_ref::<CelMap>().is_none() {
        return Ok(range);
    }
    let keys = keys(range.as_ref())?;
    Ok(CowVal::owned(list(keys.into_iter().map(Val::clone_as_boxed).collect())))
}

fn keys<'b, 'v>(map: &'b (dyn Val + 'v)) -> Result<Vec<&'b (dyn Val + 'v)>> {
    let mut keys = items(map)?;
    let order = |one: &dyn Val, other: &dyn Val| one.as_comparer().and_then(|one| one.compare(other).ok());
    keys.sort_by(|one, other| order(*one, *other).unwrap_or(std::cmp::Ordering::Equal));
    Ok(keys)
}

/// The items of a list with their places, or the values of a map with their keys.
fn pairs<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let range = args.first().ok_or_else(|| failed("no such overload"))?.as_ref();
    let mut found: Vec<Box<dyn Val + 'v>> = Vec::new();
    let is_map = range.downcast_ref::<CelMap>().is_some();
    let all = if is_map { keys(range)? } else { items(range)? };
    for (place, item) in all.into_iter().enumerate() {
        let (first, second): (Box<dyn Val + 'v>, Box<dyn Val + 'v>) = if is_map {
            let value = range.as_indexer().ok_or_else(|| failed("no such overload"))?.get(item)?;
            (item.clone_as_boxed(), value.into_owned())
        } else {
            let place = i64::try_from(place).unwrap_or(i64::MAX);
            (Box::new(CelInt::from(place)), item.clone_as_boxed())
        };
        found.push(Box::new(list(vec![first, second])));
    }
    Ok(CowVal::owned(list(found)))
}

fn put<'v>(
    map: &mut HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>,
    key: Box<dyn Val + 'v>,
    value: Box<dyn Val + 'v>,
) -> Result<()> {
    let shown = format!("{key:?}");
    let key = CelMapKey::try_from(key).map_err(|_| failed("unsupported key type"))?;
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => Err(failed(format!("insert failed: key {shown} already exists"))),
    }
}

/// A map of a list of pairs.
fn map_of<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let mut map = HashMap::new();
    for pair in items(args.first().ok_or_else(|| failed("no such overload"))?.as_ref())? {
        if let [key, value] = items(pair)?[..] {
            put(&mut map, key.clone_as_boxed(), value.clone_as_boxed())?;
        }
    }
    Ok(CowVal::owned(CelMap::from(map)))
}

/// One map of a list of them.
fn merged<'b, 'v>(args: &[CowVal<'b, 'v>]) -> Result<CowVal<'b, 'v>> {
    let mut map = HashMap::new();
    for entry in items(args.first().ok_or_else(|| failed("no such overload"))?.as_ref())? {
        let get = entry.as_indexer().ok_or_else(|| failed("no such overload"))?;
        for key in items(entry)? {
            put(&mut map, key.clone_as_boxed(), get.get(key)?.into_owned())?;
        }
    }
    Ok(CowVal::owned(CelMap::from(map)))
}
