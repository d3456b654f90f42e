//! Decides whether a value keeps the rules (`x-kubernetes-validations`) of its schema, by the crate `cel`, with the libraries and
//! within the budget of the real server. A rule that can't be read here is taken as kept and logged. Never estimates what a rule
//! costs before there is a value: `cost` does. Answers to `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel`.

use std::sync::Arc;

use cel::common::types::CelOptional;
use cel::{Context, ExecutionError};
use serde_json::Value;

use super::budget::{self, Stop};
use super::lists::counterpart;
use super::program::{ENVIRONMENT, Program, compile, to_cel};
use super::prune::child;
use super::schema::Schema;
use crate::object::text;
use crate::status::Cause;

/// One rule, compiled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(crate) text: String,
    message: String,
    reason: String,
    field_path: String,
    optional_old: bool,
    pub(crate) uses_old: bool,
    program: Option<Arc<Program>>,
    message_program: Option<Arc<Program>>,
    /// Why it is no rule at all.
    pub(crate) malformed: Option<String>,
    pub(crate) malformed_message: Option<String>,
}

impl Rule {
    pub(crate) fn read(value: &Value) -> Self {
        let rule = text(value, &["rule"]).to_owned();
        let compiled =
            |text: &str| compile(text).map_or_else(|why| (None, Some(why)), |program| (program, None));
        let (program, malformed) = compiled(&rule);
        let (message_program, malformed_message) = match text(value, &["messageExpression"]) {
            "" => (None, None),
            expression => compiled(expression),
        };
        let uses_old = program.as_ref().is_some_and(|program| program.uses_old);
        Self {
            message: text(value, &["message"]).trim().to_owned(),
            reason: text(value, &["reason"]).to_owned(),
            field_path: text(value, &["fieldPath"]).trim().trim_start_matches('.').to_owned(),
            optional_old: value["optionalOldSelf"] == true,
            uses_old,
            program,
            message_program,
            malformed,
            malformed_message,
            text: rule,
        }
    }

    /// Whether the rule could be read, and is evaluated.
    pub(crate) fn is_read(&self) -> bool {
        self.program.is_some()
    }

    /// Whether the rule holds; nothing where that cannot be told.
    fn holds(&self, variables: &Context<'_, '_>, left: &mut u64) -> Option<Result<bool, Stop>> {
        match self.program.as_ref()?.run(variables, left) {
            Ok(cel::Value::Bool(holds)) => Some(Ok(holds)),
            Ok(_) => None,
            Err(Stop::Failed(error)) if is_beyond_us(&error) => {
                tracing::warn!(rule = %self.text, %error, "a rule of a custom resource is not evaluated, and taken as kept");
                None
            }
            Err(stop) => Some(Err(stop)),
        }
    }

    fn message(&self, variables: &Context<'_, '_>, left: &mut u64) -> String {
        let made = self.message_program.as_ref().map(|program| program.run(variables, left));
        if let Some(Ok(cel::Value::String(message))) = made
            && !message.trim().is_empty()
            && !message.contains('\n')
        {
            return message.trim().to_owned();
        }
        self.plain_message()
    }

    fn plain_message(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.message.clone()
        }
    }

    /// How the rule is named where it could not be evaluated.
    fn named(&self) -> String {
        if self.message.is_empty() { self.text.trim().to_owned() } else { self.message.clone() }
    }

    fn cause(&self, schema: &Schema, value: &Value, path: &str, why: &str) -> Cause {
        let field = match (path, self.field_path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            (path, "") => path.to_owned(),
            (path, below) => child(path, below),
        };
        let whole = matches!(schema.form.as_str(), "object" | "array");
        match self.reason.as_str() {
            "FieldValueRequired" => Cause::required(field, why),
            "FieldValueForbidden" => Cause::forbidden(field, why),
            "FieldValueDuplicate" => Cause::duplicate(field, if whole { Value::Null } else { value.clone() }),
            _ if whole => Cause::invalid_whole(field, why),
            _ => Cause::invalid(field, value.clone(), why),
        }
    }
}

/// Whether it failed for want of something that the real server has.
fn is_beyond_us(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::UndeclaredReference(_) | ExecutionError::NotSupportedAsMethod { .. })
}

/// What the real server says of an evaluation that failed.
fn in_words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(cel::Value::Int(place)) => format!("index out of bounds: {place}"),
        ExecutionError::NoSuchOverload(_) => "no such overload".to_owned(),
        other => other.to_string(),
    }
}

/// The rules of a schema and all below it that a value breaks. What was broken before and has not changed is only warned of.
pub(crate) fn check(schema: &Schema, value: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<String>) {
    let mut broken = Broken { left: Some(budget::OBJECT), ..Broken::default() };
    walk(schema, value, old, "", false, &mut broken);
    (broken.causes, broken.warnings)
}

#[derive(Default)]
struct Broken {
    causes: Vec<Cause>,
    warnings: Vec<String>,
    /// What further rules may cost; nothing when no more are evaluated.
    left: Option<u64>,
}

fn walk(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    unchanged: bool,
    broken: &mut Broken,
) {
    if value.is_null() || broken.left.is_none() {
        return;
    }
    let unchanged = unchanged || old == Some(value);
    if !schema.rules.is_empty() {
        evaluate(schema, value, old, path, unchanged, broken);
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let before = old.and_then(|old| old.get(name));
                if let Some(property) = schema.properties.get(name) {
                    walk(property, field, before, &child(path, name), unchanged, broken);
                } else if let Some(like) = schema.additional_schema() {
                    walk(like, field, before, &format!("{path}[{name}]"), unchanged, broken);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                let before = counterpart(schema, old, item);
                walk(of, item, before, &format!("{path}[{index}]"), unchanged, broken);
            }
        }
        _ => {}
    }
}

fn evaluate(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    unchanged: bool,
    broken: &mut Broken,
) {
    let before = old.map(|old| to_cel(schema, old));
    let variables = |optional: bool| {
        let mut variables = Context::with_env(ENVIRONMENT.clone());
        variables.add_variable_as_val("self", to_cel(schema, value));
        match (before.as_ref().map(|before| before.clone_as_boxed()), optional) {
            (before, true) => {
                let before = before.map_or_else(CelOptional::none, CelOptional::of);
                variables.add_variable_as_val("oldSelf", Box::new(before));
            }
            (Some(before), false) => variables.add_variable_as_val("oldSelf", before),
            (None, false) => {}
        }
        variables
    };
    let plain = variables(false);
    let optional = schema.rules.iter().any(|rule| rule.optional_old).then(|| variables(true));
    for rule in &schema.rules {
        if rule.uses_old && old.is_none() && !rule.optional_old {
            continue;
        }
        let Some(mut left) = broken.left else { return };
        let variables = optional.as_ref().filter(|_| rule.optional_old).unwrap_or(&plain);
        let held = rule.holds(variables, &mut left);
        broken.left = Some(left);
        match held {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => {
                let why = rule.message(&plain, &mut left);
                broken.left = Some(left);
                let cause = rule.cause(schema, value, path, &why);
                if unchanged && !rule.uses_old {
                    broken.warnings.push(cause.sentence().to_owned());
                } else {
                    broken.causes.push(cause);
                }
            }
            Some(Err(stop)) => broken.stop(rule, schema, path, &stop),
        }
    }
}

impl Broken {
    /// Says why a rule was not evaluated to its end, and evaluates no more if it cost too much.
    fn stop(&mut self, rule: &Rule, schema: &Schema, path: &str, stop: &Stop) {
        let named = rule.named();
        let why = match stop {
            Stop::Failed(error) => match in_words(error) {
                words if words.starts_with("no such overload") => format!(
                    "'{words}': call arguments did not match a supported operator, function or macro signature for rule: {named}"
                ),
                words => format!("{words} evaluating rule: {named}"),
            },
            Stop::Call => format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {named}"
            ),
            Stop::Object => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
        };
        if !matches!(stop, Stop::Failed(_)) {
            self.left = None;
        }
        let field = if path.is_empty() { "<nil>" } else { path };
        self.causes.push(Cause::invalid(field, schema.form.as_str(), &why));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cost::Declared;
    use super::super::program::{Scope, check_types};
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(schema: Value, rule: Value, value: Value, old: Value, expected: &[&str]) {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([rule]);
        let schema = Schema::read(&json!({"type": "object", "properties": {"a": schema}}));
        let whole = |value: Value| json!({"a": value});
        let old = (!old.is_null()).then(|| whole(old));
        let (causes, _) = super::check(&schema, &whole(value), old.as_ref());
        assert_eq!(causes.iter().map(Cause::sentence).collect::<Vec<_>>(), expected, "{rule}");
    }

    #[test]
    fn rules_hold_or_say_why_not() {
        let whole = json!({"type": "integer"});
        let even = json!({"rule": "self % 2 == 0", "message": "must be even"});
        check(whole.clone(), even.clone(), json!(3), json!(null), &["a: Invalid value: 3: must be even"]);
        check(whole.clone(), even, json!(4), json!(null), &[]);
        let up = json!({"rule": "self >= oldSelf"});
        check(whole.clone(), up.clone(), json!(2), json!(null), &[]);
        check(whole, up, json!(2), json!(3), &["a: Invalid value: 2: failed rule: self >= oldSelf"]);
        let object = json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}, "in": {"type": "string"}}});
        let order = json!({"rule": "self.min <= self.max", "messageExpression": "'min ' + string(self.min) + ' is above max'"});
        check(
            object.clone(),
            order.clone(),
            json!({"min": 3, "max": 2}),
            json!(null),
            &["a: Invalid value: min 3 is above max"],
        );
        check(object.clone(), order, json!({"min": 2, "max": 2}), json!(null), &[]);
        let reason = json!({"rule": "has(self.__in__)", "fieldPath": ".in", "reason": "FieldValueRequired", "message": "say which"});
        check(object.clone(), reason.clone(), json!({}), json!(null), &["a.in: Required value: say which"]);
        check(object, reason, json!({"in": "x"}), json!(null), &[]);
    }

    #[test]
    fn an_optional_old_value_may_be_none() {
        let text = json!({"type": "string"});
        let rule = json!({"rule": "self == oldSelf.orValue('first')", "optionalOldSelf": true, "message": "keep it"});
        check(text.clone(), rule.clone(), json!("first"), json!(null), &[]);
        check(text.clone(), rule.clone(), json!("x"), json!(null), &["a: Invalid value: \"x\": keep it"]);
        check(text, rule, json!("x"), json!("y"), &["a: Invalid value: \"x\": keep it"]);
    }

    #[test]
    fn null_is_not_there_but_can_be_read() {
        let object = json!({"type": "object", "properties": {"b": {"type": "string", "nullable": true}}});
        let rule = json!({"rule": "!has(self.b) && self.b == null"});
        check(object, rule, json!({"b": null}), json!(null), &[]);
    }

    #[test]
    fn long_rules_do_no_harm() {
        let text = json!({"type": "integer"});
        for piece in ["+1", " == 1", " && true", ".a", "[0]", " ? 1 : self", ".map(x, x)", ".orValue(1)"] {
            let rule = format!("self{}", piece.repeat(16_000 / piece.len()));
            let rule = json!({"rule": rule});
            drop(Rule::read(&rule));
            let declared = Declared::default();
            let scope = Scope { schema: &text, root: false, declared: &declared };
            drop(check_types(rule["rule"].as_str().unwrap(), &scope, false));
        }
        let sum = format!("self{} > 0", "+1".repeat(40));
        check(text, json!({"rule": sum}), json!(1), json!(null), &[]);
    }

    #[test]
    fn what_fails_is_broken() {
        let list = json!({"type": "array", "items": {"type": "integer"}});
        let broken =
            |why: &str, rule: &str| format!("a: Invalid value: \"array\": {why} evaluating rule: {rule}");
        for (rule, why) in [
            ("self[3] == 1", "index out of bounds: 3"),
            ("1 / self[0] == 1", "division by zero"),
            ("1 % self[0] == 1", "modulus by zero"),
            ("self.filter(x, x > 9).max() == 1", "max called on empty list"),
            ("quantity('x').isInteger()", crate::quantity::WRONG_FORM),
        ] {
            let expected = broken(why, rule);
            check(list.clone(), json!({"rule": rule}), json!([0]), json!(null), &[expected.as_str()]);
        }
    }

    #[test]
    fn no_rule_holds_the_server_up() {
        let list = json!({"type": "array", "items": {"type": "integer"}});
        let many: Vec<usize> = (0..2_000).collect();
        let dear = |rule: &str| {
            format!(
                "a: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
            )
        };
        for rule in [
            "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))",
            "self.all(a, self.all(b, self.all(c, 1 / (a - a) == 1)))",
            "self.map(a, self.map(b, a * b)).size() == 0",
            "self.filter(a, self.filter(b, b > a).size() > 7).size() == 0",
            "self.all(a, i, self.all(b, j, self.all(c, k, i + j + k >= 0)))",
            "self.map(a, string(a)).join('x').replace('', self.map(a, string(a)).join('y')) == ''",
            "lists.range(100000000).size() == 1",
            "self.distinct().size() == 1",
            "self.exists(a, a in self.map(b, b + 1) && a > 1990)",
            "[self].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).size() == 0",
            "sets.contains(self, self)",
        ] {
            let expected = dear(rule);
            check(list.clone(), json!({"rule": rule}), json!(many), json!(null), &[expected.as_str()]);
        }
        check(list, json!({"rule": "self.all(a, a >= 0)"}), json!(many), json!(null), &[]);
    }

    #[test]
    fn what_is_no_rule_is_known_at_once() {
        for (rule, fine) in
            [("self ==", false), ("other > 1", false), ("self.all(x, x > 1)", true), ("self == ''", true)]
        {
            assert_eq!(Rule::read(&json!({"rule": rule})).malformed.is_none(), fine, "{rule}");
        }
    }
}
