//! Decides what a rule can cost at most, by the bounds of its schema, before there is a value: how large each part of it can be,
//! how often each loop turns. Never evaluates a rule, and never says whether that is too much. Answers to
//! `cel-go/checker/cost.go`, part by part.

mod calls;
mod declared;
mod limits;
mod size;
#[cfg(test)]
mod tests;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use self::size::Size;
use super::checker::{Type, Types, full_name};
use super::libraries::{MAP_OF, MERGED, PAIRS};

pub(super) use self::declared::Declared;
pub(super) use self::limits::{Limits, Spent};

/// What reading a name or a field costs, and making a list, a map and an object.
const READ: u64 = 1;
const NEW_LIST: u64 = 10;
const NEW_MAP: u64 = 30;
const NEW_OBJECT: u64 = 40;

/// What an expression costs at most.
pub(super) fn estimate(expr: &IdedExpr, types: &Types, declared: &Declared) -> u64 {
    Estimator { declared, types, locals: Vec::new() }.known(expr).cost
}

/// What is known of an expression.
#[derive(Clone, Debug)]
struct Known {
    cost: u64,
    /// How it is reached from the value of the rule; empty when it is not part of that.
    path: Vec<String>,
    form: Type,
    size: Option<Size>,
    entries: Option<Entries>,
    /// The number that it is, where it is written down.
    number: Option<i64>,
}

impl Known {
    fn size(&self) -> Size {
        self.size.unwrap_or(Size::UNKNOWN)
    }
}

/// What is known of the parts of a list or map that the rule makes.
#[derive(Clone, Copy, Debug)]
struct Entries {
    keyed: bool,
    key: Size,
    value: Size,
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { key: self.key.or(other.key), value: self.value.or(other.value), ..self }
    }
}

/// A name that a loop gives.
struct Local {
    name: String,
    path: Vec<String>,
    size: Option<Size>,
    entries: Option<Entries>,
}

/// What a loop with two names comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    /// Whatever its step makes.
    Step,
    /// A map of a key and a value each.
    Pairs,
    /// A map of maps.
    Maps,
}

struct Estimator<'a> {
    declared: &'a Declared,
    types: &'a Types,
    /// The names of the loops that we are in; the last of a name counts.
    locals: Vec<Local>,
}

impl Estimator<'_> {
    fn known(&mut self, expr: &IdedExpr) -> Known {
        let mut known = Known {
            cost: 0,
            path: Vec::new(),
            form: self.types.of(expr).clone(),
            size: None,
            entries: None,
            number: None,
        };
        let mut by_name = None;
        match &expr.expr {
            Expr::Unspecified => {}
            Expr::Literal(literal) => {
                known.size = Some(size_of_literal(literal));
                known.number =
                    if let LiteralValue::Int(number) = literal { Some(*number.inner()) } else { None };
            }
            Expr::Ident(name) => by_name = self.read(name, &mut known),
            Expr::Select(select) => {
                let operand = self.known(&select.operand);
                known.cost = operand.cost;
                if !select.test {
                    if matches!(operand.form, Type::Map(..) | Type::Object(_)) {
                        known.cost = known.cost.saturating_add(READ);
                    }
                    known.path = below(&operand.path, &select.field);
                }
            }
            Expr::List(list) => {
                let parts = list.elements.iter().map(|item| self.known(item)).collect::<Vec<_>>();
                known.cost = parts.iter().fold(NEW_LIST, |sum, part| sum.saturating_add(part.cost));
                known.size = Some(count(parts.len()));
                let value = widest(parts.iter().map(Known::size));
                known.entries = Some(Entries { keyed: false, key: Size::exactly(1), value });
            }
            Expr::Map(map) => self.new_map(map.entries.iter().map(|entry| &entry.expr), &mut known),
            Expr::Struct(new) => {
                known.cost = NEW_OBJECT;
                for entry in &new.entries {
                    if let EntryExpr::StructField(field) = &entry.expr {
                        known.cost = known.cost.saturating_add(self.known(&field.value).cost);
                    }
                }
            }
            Expr::Call(call) => self.call(call, &mut known),
            Expr::Comprehension(inner) => self.turns(inner, Makes::Step, &mut known),
        }
        if known.size.is_none() {
            known.size = self.declared.size_at(&known.path).or_else(|| size_of_type(&known.form)).or(by_name);
        }
        known
    }

    /// Reads a name: one that a loop gave, or that of the value. Comes to the size that a loop knows of it.
    fn read(&self, name: &str, known: &mut Known) -> Option<Size> {
        known.cost = READ;
        let Some(local) = self.locals.iter().rev().find(|local| local.name == name) else {
            known.path = vec![name.to_owned()];
            return None;
        };
        known.path.clone_from(&local.path);
        known.entries = local.entries;
        local.size
    }

    fn new_map<'e>(&mut self, entries: impl Iterator<Item = &'e EntryExpr>, known: &mut Known) {
        known.cost = NEW_MAP;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            let EntryExpr::MapEntry(entry) = entry else { continue };
            let (key, value) = (self.known(&entry.key), self.known(&entry.value));
            known.cost = known.cost.saturating_add(key.cost).saturating_add(value.cost);
            keys.push(key.size());
            values.push(value.size());
        }
        known.size = Some(count(keys.len()));
        let (key, value) = (widest(keys.into_iter()), widest(values.into_iter()));
        known.entries = Some(Entries { keyed: true, key, value });
    }

    fn call(&mut self, call: &CallExpr, known: &mut Known) {
        match (call.func_name.as_str(), &call.args[..]) {
            (MAP_OF | MERGED, [IdedExpr { expr: Expr::Comprehension(inner), .. }]) => {
                let makes = if call.func_name == MAP_OF { Makes::Pairs } else { Makes::Maps };
                return self.turns(inner, makes, known);
            }
            (operators::INDEX, [IdedExpr { expr: Expr::Ident(name), .. }, place]) => {
                // One of two names of a loop.
                let place = if matches!(&place.expr, Expr::Literal(LiteralValue::Int(one)) if *one.inner() == 0)
                {
                    KEY
                } else {
                    VALUE
                };
                let of_pair = format!("{name}{place}");
                if self.locals.iter().any(|local| local.name == of_pair) {
                    let size = self.read(&of_pair, known);
                    known.size =
                        self.declared.size_at(&known.path).or_else(|| size_of_type(&known.form)).or(size);
                    return;
                }
            }
            ("dyn", [arg]) => {
                let arg = self.known(arg);
                (known.size, known.entries) = (arg.size, arg.entries);
                known.cost = arg.cost.saturating_add(1);
                return;
            }
            _ => {}
        }
        let space = full_name(call);
        let args: Vec<Known> = call.args.iter().map(|arg| self.known(arg)).collect();
        let target = call.target.as_deref().filter(|_| space.is_none()).map(|target| self.known(target));
        let name = space.as_deref().unwrap_or(&call.func_name);
        let made = calls::cost(self.declared, name, target.as_ref(), &args);
        known.cost = target.map_or(0, |target| target.cost).saturating_add(made.cost);
        (known.size, known.entries, known.path) = (made.size, made.entries, made.path);
    }

    /// A loop: its step and its condition as often as it can turn.
    fn turns(&mut self, inner: &ComprehensionExpr, makes: Makes, known: &mut Known) {
        let paired = match &inner.iter_range.expr {
            Expr::Call(call) if call.func_name == PAIRS => call.args.first(),
            _ => None,
        };
        let range = self.known(paired.unwrap_or(&inner.iter_range));
        let first = self.known(&inner.accu_init);
        let keyed = range.entries.map_or(!matches!(range.form, Type::List(_)), |entries| entries.keyed);
        let outer = self.locals.len();
        let mut local = |name: String, path: Vec<String>, size: Option<Size>, entries: Option<Entries>| {
            self.locals.push(Local { name, path, size, entries });
        };
        local(inner.accu_var.clone(), first.path.clone(), first.size, first.entries);
        let key = range.entries.map(|entries| entries.key);
        let value = range.entries.map(|entries| entries.value);
        let name = &inner.iter_var;
        let (key_step, value_step) = if keyed { ("@keys", "@values") } else { ("@indices", "@items") };
        if paired.is_some() {
            local(format!("{name}{KEY}"), below(&range.path, key_step), key, None);
            local(format!("{name}{VALUE}"), below(&range.path, value_step), value, None);
        } else if keyed {
            local(name.clone(), below(&range.path, key_step), key, None);
        } else {
            local(name.clone(), below(&range.path, value_step), value, None);
        }
        let condition = self.known(&inner.loop_cond);
        let (step, entries) = self.step(&inner.loop_step, makes);
        self.locals.truncate(outer + 1);
        let result = self.known(&inner.result);
        self.locals.truncate(outer);
        let starts = if makes == Makes::Step { first.cost } else { NEW_MAP };
        let turns = range.size().max.saturating_mul(step.saturating_add(condition.cost));
        known.cost = [range.cost, starts, result.cost, turns].into_iter().fold(0, u64::saturating_add);
        match &inner.accu_init.expr {
            Expr::Literal(_) => known.size = first.size,
            Expr::List(_) | Expr::Map(_) => (known.size, known.entries) = (Some(range.size()), entries),
            _ => {}
        }
    }

    /// What the step of a loop costs; one that makes a map is written here as one that makes a list.
    fn step(&mut self, step: &IdedExpr, makes: Makes) -> (u64, Option<Entries>) {
        if makes == Makes::Step {
            let known = self.known(step);
            return (known.cost, known.entries);
        }
        let (mut asked, mut made) = (0, step);
        if let Expr::Call(CallExpr { func_name, args, .. }) = &step.expr
            && let (operators::CONDITIONAL, [condition, then, _]) = (func_name.as_str(), &args[..])
        {
            (asked, made) = (self.known(condition).cost, then);
        }
        let mut cost = READ + 1;
        if let Expr::Call(CallExpr { args, .. }) = &made.expr
            && let [_, IdedExpr { expr: Expr::List(list), .. }] = &args[..]
            && let Some(item) = list.elements.first()
        {
            let parts = match &item.expr {
                Expr::Call(pair) if makes == Makes::Pairs => &pair.args[..],
                _ => std::slice::from_ref(item),
            };
            cost = parts.iter().fold(cost, |sum, part| sum.saturating_add(self.known(part).cost));
        }
        (asked.saturating_add(cost), None)
    }
}

/// What is put behind the name of a pair for each of its two.
const KEY: &str = "@0";
const VALUE: &str = "@1";

fn below(path: &[String], step: &str) -> Vec<String> {
    path.iter().cloned().chain([step.to_owned()]).collect()
}

fn count(items: usize) -> Size {
    Size::exactly(u64::try_from(items).unwrap_or(u64::MAX))
}

/// The bounds that hold all; of nothing, nothing.
fn widest(sizes: impl Iterator<Item = Size>) -> Size {
    sizes.reduce(Size::or).unwrap_or(Size::exactly(0))
}

fn size_of_literal(literal: &LiteralValue) -> Size {
    match literal {
        LiteralValue::String(text) => count(text.inner().chars().count()),
        LiteralValue::Bytes(bytes) => count(bytes.inner().len()),
        _ => Size::exactly(1),
    }
}

/// The size of all values of a type, where it is the same.
fn size_of_type(form: &Type) -> Option<Size> {
    match form {
        Type::Optional(of) => size_of_type(of),
        Type::Plain(name) => {
            let scalar =
                ["bool", "int", "uint", "double", "google.protobuf.Duration", "google.protobuf.Timestamp"];
            scalar.contains(name).then_some(Size::exactly(1))
        }
        _ => None,
    }
}
