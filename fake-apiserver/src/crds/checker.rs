//! Decides whether the types in a rule fit together, before there is a value: functions that there are, fields that the schema has,
//! operands that can be compared. What is not known here fits everything. Never evaluates anything. Answers to
//! `cel-go/checker` and to `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go`.

mod signatures;
#[cfg(test)]
mod tests;
mod types;

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use regex::Regex;
use serde_json::Value;

pub(super) use self::types::Type;
use self::types::{BOOL, INT, STRING};
use super::libraries;

/// What is wrong, and with which part.
pub(super) type Mistake = (u64, String);

/// What a rule comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comes {
    Bool,
    Text,
    Other,
    /// What it comes to is known when there is a value.
    Anything,
}

/// The types of all parts of a rule, by where they stand: some parts that are made of others share a number.
#[derive(Default)]
pub(super) struct Types(HashMap<*const IdedExpr, Type>);

impl Types {
    /// The type of a part; of what was not looked at, anything.
    pub(super) fn of(&self, part: &IdedExpr) -> &Type {
        self.0.get(&std::ptr::from_ref(part)).unwrap_or(&Type::Dyn)
    }
}

/// What a rule on values of a schema comes to, its mistakes, and the types of its parts.
pub(super) fn check(
    expr: &IdedExpr,
    schema: &Value,
    root: bool,
    optional_old: bool,
) -> (Comes, Vec<Mistake>, Types) {
    let own = Type::of(schema, root).unwrap_or(Type::Dyn);
    let old = if optional_old { Type::optional(own.clone()) } else { own.clone() };
    let names = vec![("self".to_owned(), own), ("oldSelf".to_owned(), old)];
    let mut checker = Checker { names, mistakes: Vec::new(), types: Types::default() };
    let comes = match checker.type_of(expr) {
        Type::Dyn => Comes::Anything,
        found if found == BOOL => Comes::Bool,
        found if found == STRING => Comes::Text,
        _ => Comes::Other,
    };
    (comes, checker.mistakes, checker.types)
}

/// The name of a function with a longer one, such as `sets.contains`, whose first part stands where a target would.
pub(super) fn full_name(call: &CallExpr) -> Option<String> {
    match call.target.as_deref() {
        Some(IdedExpr { expr: Expr::Ident(space), .. }) => {
            Some(format!("{space}.{}", call.func_name)).filter(|name| !signatures::of(name).is_empty())
        }
        _ => None,
    }
}

struct Checker {
    /// What is named where we are, with its type; the last of a name counts.
    names: Vec<(String, Type)>,
    mistakes: Vec<Mistake>,
    types: Types,
}

impl Checker {
    /// Notes a mistake; what comes of it fits everything.
    fn wrong(&mut self, at: &IdedExpr, why: String) -> Type {
        self.mistakes.push((at.id, why));
        Type::Dyn
    }

    fn type_of(&mut self, expr: &IdedExpr) -> Type {
        let found = self.find_type(expr);
        self.types.0.insert(expr, found.clone());
        found
    }

    fn find_type(&mut self, expr: &IdedExpr) -> Type {
        match &expr.expr {
            Expr::Unspecified | Expr::Struct(_) => Type::Dyn,
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.of_name(expr, name),
            Expr::Select(select) => {
                let operand = self.type_of(&select.operand);
                let field = self.of_field(expr, &operand, &select.field);
                if select.test { BOOL } else { field }
            }
            Expr::List(list) => self.of_list(list),
            Expr::Map(map) => {
                let (mut keys, mut values) = (Type::Dyn, Type::Dyn);
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys = self.same(&entry.key, keys);
                        let value = self.type_of(&entry.value);
                        values =
                            if entry.optional { Type::Dyn } else { self.like(&entry.value, values, value) };
                    }
                }
                Type::Map(Box::new(keys), Box::new(values))
            }
            Expr::Call(call) => self.of_call(expr, call),
            Expr::Comprehension(inner) => self.of_loop(inner),
        }
    }

    fn of_name(&mut self, expr: &IdedExpr, name: &str) -> Type {
        if let Some((_, found)) = self.names.iter().rev().find(|(one, _)| one == name) {
            return found.clone();
        }
        match name {
            "bool" | "int" | "uint" | "double" | "string" | "bytes" | "list" | "map" | "null_type"
            | "type" => Type::Of(Box::new(Type::Dyn)),
            _ if name.starts_with('@') => Type::Dyn,
            _ => self.wrong(expr, format!("undeclared reference to '{name}' (in container '')")),
        }
    }

    fn of_field(&mut self, expr: &IdedExpr, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Object(fields) => match fields.get(field) {
                Some(found) => found.clone(),
                None => self.wrong(expr, format!("undefined field '{field}'")),
            },
            Type::Map(_, value) => (**value).clone(),
            Type::Optional(inner) => Type::optional(self.of_field(expr, &inner.clone(), field)),
            Type::Dyn | Type::Open(_) => Type::Dyn,
            other => self.wrong(expr, format!("type '{other}' does not support field selection")),
        }
    }

    /// The type of an item that is to be like those before it.
    fn same(&mut self, item: &IdedExpr, before: Type) -> Type {
        let found = self.type_of(item);
        self.like(item, before, found)
    }

    fn like(&mut self, item: &IdedExpr, before: Type, found: Type) -> Type {
        if before == Type::Dyn {
            return found;
        }
        if !before.takes(&found, &mut [None, None]) {
            self.wrong(item, format!("expected type '{before}' but found '{found}'"));
        }
        before
    }

    fn of_list(&mut self, list: &ListExpr) -> Type {
        let mut of = Type::Dyn;
        for (place, item) in list.elements.iter().enumerate() {
            if list.optional_indices.contains(&place) {
                self.type_of(item);
            } else {
                of = self.same(item, of);
            }
        }
        Type::list(of)
    }

    fn of_call(&mut self, expr: &IdedExpr, call: &CallExpr) -> Type {
        match (call.func_name.as_str(), &call.args[..]) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, args) => {
                for arg in args {
                    self.same(arg, BOOL);
                }
                return BOOL;
            }
            (
                operators::OPT_SELECT,
                [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }],
            ) => {
                let operand = self.type_of(operand);
                let found = self.of_field(expr, &operand, field.inner());
                return if matches!(found, Type::Optional(_)) { found } else { Type::optional(found) };
            }
            (operators::INDEX, [pair, IdedExpr { expr: Expr::Literal(LiteralValue::Int(place)), .. }]) => {
                if let Expr::Ident(name) = &pair.expr
                    && let Some((_, Type::Pair(first, second))) =
                        self.names.iter().rev().find(|(one, _)| one == name)
                {
                    return if *place.inner() == 0 { (**first).clone() } else { (**second).clone() };
                }
            }
            ("@pairs", [range]) => {
                let range = self.type_of(range);
                return Type::list(pair_of(&range));
            }
            ("@pair", [key, value]) => {
                return Type::Pair(Box::new(self.type_of(key)), Box::new(self.type_of(value)));
            }
            ("@mapOf" | "@merged", [list]) => return map_of(&self.type_of(list)),
            _ => {}
        }
        self.of_function(expr, call)
    }

    fn of_function(&mut self, expr: &IdedExpr, call: &CallExpr) -> Type {
        let space = full_name(call);
        let target = call.target.as_deref().filter(|_| space.is_none());
        let name = space.as_deref().unwrap_or(&call.func_name);
        let given: Vec<Type> =
            target.into_iter().chain(&call.args).map(|arg| self.of_argument(name, arg)).collect();
        let ways = signatures::of(name);
        if ways.is_empty() {
            return self.wrong(expr, format!("undeclared reference to '{name}' (in container '')"));
        }
        self.check_literals(call);
        if let Some(result) = result_of(name, ways, target.is_some(), &given) {
            return result;
        }
        let shown = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        let applied = match (target, &given[..]) {
            (Some(_), [first, rest @ ..]) => format!("{first}.({})", shown(rest)),
            (_, all) => format!("({})", shown(all)),
        };
        self.wrong(expr, format!("found no matching overload for '{name}' applied to '{applied}'"))
    }

    /// The type of an argument: what is put into a text may be of all types at once.
    fn of_argument(&mut self, name: &str, arg: &IdedExpr) -> Type {
        match &arg.expr {
            Expr::List(list) if name == "format" => {
                list.elements.iter().for_each(|item| drop(self.type_of(item)));
                Type::list(Type::Dyn)
            }
            _ => self.type_of(arg),
        }
    }

    /// Texts that functions read can be looked at now.
    fn check_literals(&mut self, call: &CallExpr) {
        let [.., arg @ IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }] = &call.args[..]
        else {
            return;
        };
        let bad = match call.func_name.as_str() {
            "matches" => Regex::new(text.inner()).is_err(),
            "duration" => libraries::duration(text.inner()).is_none(),
            "timestamp" => libraries::timestamp(text.inner()).is_none(),
            _ => false,
        };
        if bad {
            self.wrong(arg, format!("invalid {} argument", call.func_name));
        }
    }

    fn of_loop(&mut self, inner: &ComprehensionExpr) -> Type {
        let range = self.type_of(&inner.iter_range);
        let item = match &range {
            Type::List(of) => (**of).clone(),
            Type::Map(key, _) => (**key).clone(),
            Type::Object(_) | Type::Dyn | Type::Open(_) => Type::Dyn,
            other => {
                let why = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.wrong(&inner.iter_range, format!("expression of type '{other}' {why}"))
            }
        };
        let so_far = self.type_of(&inner.accu_init);
        let outer = self.names.len();
        self.names.push((inner.accu_var.clone(), so_far.clone()));
        self.names.push((inner.iter_var.clone(), item));
        self.type_of(&inner.loop_cond);
        let step = self.type_of(&inner.loop_step);
        if so_far == Type::list(Type::Dyn) {
            // A list that starts with nothing is one of what is added to it.
            self.names[outer].1 = step.clone();
        }
        let result = self.type_of(&inner.result);
        self.names.truncate(outer);
        result
    }
}

fn of_literal(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => BOOL,
        LiteralValue::Bytes(_) => Type::Plain("bytes"),
        LiteralValue::Double(_) => Type::Plain("double"),
        LiteralValue::Int(_) => INT,
        LiteralValue::Null => Type::Plain("null"),
        LiteralValue::String(_) => STRING,
        LiteralValue::UInt(_) => Type::Plain("uint"),
    }
}

/// What becomes of a list of pairs, or of maps.
fn map_of(list: &Type) -> Type {
    match list {
        Type::List(of) => match &**of {
            Type::Pair(key, value) => Type::Map(key.clone(), value.clone()),
            other => other.clone(),
        },
        _ => Type::Dyn,
    }
}

/// What a loop with two variables goes through.
fn pair_of(range: &Type) -> Type {
    let (first, second) = match range {
        Type::List(of) => (INT, (**of).clone()),
        Type::Map(key, value) => ((**key).clone(), (**value).clone()),
        _ => return Type::Dyn,
    };
    Type::Pair(Box::new(first), Box::new(second))
}

/// What comes of a call, if there is a way to call so.
fn result_of(name: &str, ways: &[signatures::Signature], member: bool, given: &[Type]) -> Option<Type> {
    // Numbers of all kinds can be compared by size.
    if let ("_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) = (name, given) {
        let ordered = |one: &Type| match one {
            Type::Dyn => true,
            Type::Plain(name) => {
                !name.starts_with("kubernetes") && !name.starts_with("net") && *name != "null"
            }
            _ => false,
        };
        let fits = one.is_number() && other.is_number() || one.takes(other, &mut [None, None]);
        return (ordered(one) && ordered(other) && fits).then_some(BOOL);
    }
    let mut found: Option<Type> = None;
    for way in ways.iter().filter(|way| way.member == member && way.parameters.len() == given.len()) {
        let mut open = [None, None];
        if way.parameters.iter().zip(given).all(|(wanted, given)| wanted.takes(given, &mut open)) {
            let result = way.result.settled(&open);
            // Where several ways fit, since something is not known, neither is what comes of them.
            found =
                Some(if found.as_ref().is_none_or(|before| *before == result) { result } else { Type::Dyn });
        }
    }
    found
}
