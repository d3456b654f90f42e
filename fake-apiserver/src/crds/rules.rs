//! Decides whether a value keeps the rules (`x-kubernetes-validations`) of its schema, by the crate `cel`. A rule that
//! the crate cannot evaluate, since it uses a function of the real server's own or a time, is taken as kept and
//! logged: it is not modelled. Never estimates what a rule costs. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel`.

use std::sync::Arc;

use cel::{Context, ExecutionError, Program};
use serde_json::Value;

use super::lists::counterpart;
use super::program::{ENVIRONMENT, compile, to_cel};
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
        let (program, malformed) = match compile(&rule) {
            Ok(program) => (program, None),
            Err(why) => (None, Some(why)),
        };
        let (message_program, malformed_message) = match text(value, &["messageExpression"]) {
            "" => (None, None),
            expression => match compile(expression) {
                Ok(program) => (program, None),
                Err(why) => (None, Some(why)),
            },
        };
        let uses_old = program.as_ref().is_some_and(|program| program.references().has_variable("oldSelf"));
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
    fn holds(&self, variables: &Context<'_, '_>) -> Option<Result<bool, String>> {
        let program = self.program.as_ref()?;
        match program.execute(variables) {
            Ok(cel::Value::Bool(holds)) => Some(Ok(holds)),
            Ok(_) => None,
            Err(error) if is_beyond_us(&error) => {
                tracing::warn!(rule = %self.text, %error, "a rule of a custom resource is not evaluated, and taken as kept");
                None
            }
            Err(error) => Some(Err(error.to_string())),
        }
    }

    fn message(&self, variables: &Context<'_, '_>) -> String {
        if let Some(Ok(cel::Value::String(message))) =
            self.message_program.as_ref().map(|program| program.execute(variables))
            && !message.trim().is_empty()
        {
            return message.trim().to_owned();
        }
        if self.message.is_empty() {
            format!("failed rule: {}", self.text.trim())
        } else {
            self.message.clone()
        }
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
    matches!(
        error,
        ExecutionError::UndeclaredReference(_)
            | ExecutionError::NoSuchOverload(_)
            | ExecutionError::NotSupportedAsMethod { .. }
            | ExecutionError::FunctionError { .. }
            | ExecutionError::UnexpectedType { .. }
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::ValuesNotComparable(..)
    )
}

/// The rules of a schema and all below it that a value breaks. What was broken before and has not changed is only warned of.
pub(crate) fn check(schema: &Schema, value: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<String>) {
    let mut broken = Broken::default();
    walk(schema, value, old, "", false, &mut broken);
    (broken.causes, broken.warnings)
}

#[derive(Default)]
struct Broken {
    causes: Vec<Cause>,
    warnings: Vec<String>,
}

fn walk(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    unchanged: bool,
    broken: &mut Broken,
) {
    if value.is_null() {
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
    let mut variables = Context::with_env(ENVIRONMENT.clone());
    variables.add_variable_from_value("self", to_cel(schema, value));
    if let Some(old) = old {
        variables.add_variable_from_value("oldSelf", to_cel(schema, old));
    }
    for rule in &schema.rules {
        // An optional old value has functions of its own, which the crate does not know.
        if rule.uses_old && (old.is_none() || rule.optional_old) {
            continue;
        }
        let cause = match rule.holds(&variables) {
            None | Some(Ok(true)) => continue,
            Some(Ok(false)) => rule.cause(schema, value, path, &rule.message(&variables)),
            Some(Err(error)) => {
                let field = if path.is_empty() { "<nil>" } else { path };
                let why = format!("{error} evaluating rule: {}", rule.message(&variables));
                Cause::invalid(field, schema.form.as_str(), &why)
            }
        };
        if unchanged && !rule.uses_old {
            broken.warnings.push(cause.sentence().to_owned());
        } else {
            broken.causes.push(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
    fn what_cannot_be_evaluated_is_taken_as_kept() {
        let text = json!({"type": "string"});
        for rule in [
            "quantity(self).isGreaterThan(quantity('1'))",
            "self.?a.orValue('') == ''",
            "timestamp(self) > timestamp('x')",
        ] {
            check(text.clone(), json!({"rule": rule}), json!("1"), json!(null), &[]);
        }
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
