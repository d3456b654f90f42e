//! Decides whether the text of a rule is one, and how a value looks to it. Never decides what a rule that is broken means.
//! Answers to `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,values}.go`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use cel::objects::{Key, Map};
use cel::{Env, Program};
use regex::Regex;
use serde_json::Value;

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

/// The language with the libraries that the crate has.
pub(super) static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    for extension in [cel::extensions::strings, cel::extensions::lists] {
        // A library that does not fit leaves its functions out: rules with them are not evaluated.
        let _ = env.add_extension(extension);
    }
    Arc::new(env)
});

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
    match ENVIRONMENT.compile(rule) {
        Ok(program) => {
            let references = program.references();
            let bound = bound(rule);
            let unknown =
                references.variables().into_iter().find(|name| !is_known(name) && !bound.contains(name));
            if let Some(unknown) = unknown {
                let why = format!("undeclared reference to '{unknown}' (in container '')");
                return Err(format!("compilation failed: ERROR: <input>:1:1: {why}"));
            }
            Ok(Some(Arc::new(program)))
        }
        Err(errors) => {
            let text = errors.to_string();
            // Optional fields (`a.?b`) are in the language, and not in the crate.
            if text.contains("unsupported") || rule.contains(".?") || rule.contains("[?") {
                tracing::warn!(%rule, "a rule of a custom resource is not read, and taken as kept");
                return Ok(None);
            }
            Err(format!("compilation failed: {}", text.lines().next().unwrap_or_default()))
        }
    }
}

/// The names that a rule gives to the items it goes through.
fn bound(rule: &str) -> Vec<&str> {
    static NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let macros = "all|exists|exists_one|existsOne|map|filter|sortBy|bind|transformList|transformMap|transformMapEntry";
        Regex::new(&format!(r"\.(?:{macros})\(\s*([A-Za-z_]\w*)\s*,(?:\s*([A-Za-z_]\w*)\s*,)?")).ok()
    });
    let Some(names) = NAMES.as_ref() else { return Vec::new() };
    let found = names.captures_iter(rule).flat_map(|found| [found.get(1), found.get(2)]);
    found.flatten().map(|name| name.as_str()).collect()
}

/// What a rule may name without declaring it: its value, types, and the libraries' namespaces.
fn is_known(name: &str) -> bool {
    const TYPES: &[&str] =
        &["int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"];
    const NAMESPACES: &[&str] = &[
        "self", "oldSelf", "optional", "sets", "format", "math", "cel", "google", "lists", "strings",
        "base64",
    ];
    TYPES.contains(&name) || NAMESPACES.contains(&name) || name.contains('@') || name.starts_with("__")
}

/// A value as rules see it: numbers by their schema, fields under names that rules can write.
pub(super) fn to_cel(schema: &Schema, value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) if schema.form != "number" => cel::Value::Int(whole),
            _ => cel::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let unknown = Schema::default();
            let of = schema.items.as_deref().unwrap_or(&unknown);
            cel::Value::List(Arc::new(items.iter().map(|item| to_cel(of, item)).collect()))
        }
        Value::Object(fields) => {
            let unknown = Schema::default();
            let mut map: HashMap<Key, cel::Value> = HashMap::with_capacity(fields.len());
            for (name, field) in fields {
                let of = schema.field(name).unwrap_or(&unknown);
                let name = if schema.properties.contains_key(name) { escape(name) } else { name.clone() };
                map.insert(Key::String(Arc::new(name)), to_cel(of, field));
            }
            cel::Value::Map(Map { map: Arc::new(map) })
        }
    }
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
