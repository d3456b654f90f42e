//! Decides whether the text of a rule is one, and how a value looks to it. Never decides what a rule that is broken means.
//! Answers to `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,values}.go`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString,
};
use cel::common::value::Val;
use cel::{Context, Env};
use serde_json::Value;

use super::budget::{self, Stop};
use super::checker::{self, Comes};
use super::cost::{self, Declared};
use super::libraries;
use super::parts::{parts, parts_mut};
use super::room;
use super::schema::Schema;

/// The longest rule that is read, and how deep its brackets may go: beyond that it is taken as kept.
const LONGEST: usize = 16 * 1024;
const DEEPEST: usize = 64;

/// The names that rules may not use for fields as they are.
const KEYWORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The language with the libraries of the real server.
pub(super) static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    let declared = env.add_extension(libraries::declare).and_then(|()| env.add_extension(budget::declare));
    if let Err(error) = declared {
        // A library that does not fit leaves its functions out; the tests of this module name each of them.
        tracing::error!(%error, "the libraries of rules are not complete");
    }
    Arc::new(env)
});

/// A rule that was read.
#[derive(Debug)]
pub(super) struct Program {
    expr: IdedExpr,
    /// What it costs in any case.
    base: u64,
    depth: usize,
    pub(super) uses_old: bool,
}

impl Program {
    /// What it comes to, within what is left of an object's budget.
    pub(super) fn run(&self, variables: &Context<'_, '_>, left: &mut u64) -> Result<cel::Value, Stop> {
        room::at_depth(self.depth, || budget::run(&self.expr, self.base, variables, left))
            .unwrap_or(Err(Stop::Call))
    }
}

/// A program; nothing where the rule may be fine, but not for us; or what is wrong with it.
pub(super) fn compile(rule: &str) -> Result<Option<Arc<Program>>, String> {
    let mut depth = 0_usize;
    for letter in rule.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Ok(None);
        }
    }
    if rule.trim().is_empty() || rule.len() > LONGEST {
        return Ok(None);
    }
    room::at_length(rule.len(), || read(rule)).unwrap_or(Ok(None))
}

fn read(rule: &str) -> Result<Option<Arc<Program>>, String> {
    let program = ENVIRONMENT.compile(rule).map_err(|errors| {
        // The same as upstream's, but for a space.
        format!("compilation failed: {}", errors.to_string().replace("\n| ", "\n | "))
    })?;
    let depth = room::depth_of(program.expression());
    if depth > room::DEEPEST {
        tracing::warn!(%rule, "a rule of a custom resource goes too deep, and is taken as kept");
        return Ok(None);
    }
    let mut names = Names::default();
    names.read(program.expression(), &mut Vec::new());
    if let Some((id, name)) = names.unknown.first() {
        let at = program.source_info().offset_for(*id).map_or(0, |(start, _)| start);
        let why = format!("undeclared reference to '{name}' (in container '')");
        return Err(format!("compilation failed: {}", mistake_at(rule, at as usize, &why)));
    }
    let mut expr = program.expression().clone();
    heed_nulls(&mut expr);
    let base = budget::weave(&mut expr);
    Ok(Some(Arc::new(Program { expr, base, depth, uses_old: names.uses_old })))
}

/// What is null can be read, but is not there for `has`.
fn heed_nulls(expr: &mut IdedExpr) {
    parts_mut(expr).into_iter().for_each(heed_nulls);
    let id = expr.id;
    let Expr::Select(select) = &expr.expr else { return };
    if !select.test {
        return;
    }
    let call = |name: &str, args: [Expr; 2]| {
        let args = args.map(|expr| IdedExpr { id, expr }).into();
        Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args })
    };
    let read = Expr::Select(SelectExpr { test: false, ..select.clone() });
    let given = call(operators::NOT_EQUALS, [read, Expr::Literal(LiteralValue::Null)]);
    expr.expr = call(operators::LOGICAL_AND, [std::mem::take(&mut expr.expr), given]);
}

/// What a rule or a message is written for.
pub(super) struct Scope<'a> {
    pub(super) schema: &'a Value,
    pub(super) root: bool,
    pub(super) declared: &'a Declared,
}

/// What a text comes to where its types fit together, and what it costs at most; nothing where it can't be read.
pub(super) fn check_types(
    rule: &str,
    scope: &Scope<'_>,
    optional_old: bool,
) -> Result<Option<(Comes, u64)>, String> {
    if rule.len() > LONGEST {
        return Ok(None);
    }
    room::at_length(rule.len(), || check_here(rule, scope, optional_old)).unwrap_or(Ok(None))
}

fn check_here(rule: &str, scope: &Scope<'_>, optional_old: bool) -> Result<Option<(Comes, u64)>, String> {
    let Ok(program) = ENVIRONMENT.compile(rule) else { return Ok(None) };
    let expr = program.expression();
    if room::depth_of(expr) > room::DEEPEST {
        return Ok(None);
    }
    let (comes, mistakes, types) = checker::check(expr, scope.schema, scope.root, optional_old);
    let place = |id: u64| program.source_info().offset_for(id).map_or(0, |(start, _)| start as usize);
    let mut mistakes: Vec<(usize, String)> = mistakes.into_iter().map(|(id, why)| (place(id), why)).collect();
    mistakes.sort();
    mistakes.dedup();
    if mistakes.is_empty() {
        return Ok(Some((comes, cost::estimate(expr, &types, scope.declared))));
    }
    let shown: Vec<String> = mistakes.iter().map(|(at, why)| mistake_at(rule, *at, why)).collect();
    Err(format!("compilation failed: {}", shown.join("\n")))
}

/// A mistake with the line that it is in, and a mark below its place.
fn mistake_at(rule: &str, at: usize, why: &str) -> String {
    let before = rule.get(..at).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let text = rule.lines().nth(line).unwrap_or_default();
    format!("ERROR: <input>:{}:{}: {why}\n | {text}\n | {}^", line + 1, column + 1, ".".repeat(column))
}

/// What a rule names.
#[derive(Default)]
struct Names {
    uses_old: bool,
    /// What nobody declares, with its place.
    unknown: Vec<(u64, String)>,
}

impl Names {
    fn read(&mut self, expr: &IdedExpr, bound: &mut Vec<String>) {
        match &expr.expr {
            Expr::Ident(name) => {
                self.uses_old |= name == "oldSelf";
                if !bound.contains(name) && !is_known(name) {
                    self.unknown.push((expr.id, name.clone()));
                }
            }
            Expr::Comprehension(inner) => {
                self.read(&inner.iter_range, bound);
                self.read(&inner.accu_init, bound);
                let outer = bound.len();
                bound.extend([inner.iter_var.clone(), inner.accu_var.clone()]);
                for one in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.read(one, bound);
                }
                bound.truncate(outer);
            }
            _ => parts(expr).into_iter().for_each(|one| self.read(one, bound)),
        }
    }
}

/// What a rule may name without declaring it: its value, types, and the libraries' namespaces.
fn is_known(name: &str) -> bool {
    const TYPES: &[&str] =
        &["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];
    const NAMESPACES: &[&str] = &[
        "self",
        "oldSelf",
        "optional",
        "sets",
        "format",
        "lists",
        "strings",
        "ip",
        "net",
        "kubernetes",
        "google",
    ];
    TYPES.contains(&name) || NAMESPACES.contains(&name) || name.starts_with('@')
}

/// A value as rules see it: numbers by their schema, times as times, fields under names that rules can write.
pub(super) fn to_cel(schema: &Schema, value: &Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if schema.form != "number" => Box::new(CelInt::from(whole)),
            _ => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => text_to_cel(schema, text),
        Value::Array(items) => {
            let unknown = Schema::default();
            let of = schema.items.as_deref().unwrap_or(&unknown);
            Box::new(CelList::from(items.iter().map(|item| to_cel(of, item)).collect::<Vec<_>>()))
        }
        Value::Object(fields) => {
            let unknown = Schema::default();
            let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::with_capacity(fields.len());
            for (name, field) in fields {
                let of = schema.field(name).unwrap_or(&unknown);
                let name = if schema.properties.contains_key(name) { escape(name) } else { name.clone() };
                map.insert(CelMapKey::from(name), to_cel(of, field));
            }
            Box::new(CelMap::from(map))
        }
    }
}

/// A text, or what its format makes of it.
fn text_to_cel(schema: &Schema, text: &str) -> Box<dyn Val> {
    let made = match schema.format.as_str() {
        "duration" => libraries::duration(text).map(|length| Box::new(length) as Box<dyn Val>),
        "date" | "date-time" => libraries::timestamp(text).map(|moment| Box::new(moment) as Box<dyn Val>),
        "byte" => STANDARD.decode(text).ok().map(|bytes| Box::new(CelBytes::from(bytes)) as Box<dyn Val>),
        _ => None,
    };
    // One that is not of its format has been refused for that.
    made.unwrap_or_else(|| Box::new(CelString::from(text.to_owned())))
}

/// The name under which rules find a field.
pub(super) fn escape(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
