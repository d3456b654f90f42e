//! Decides nothing: it is a place in an object together with its path, so that a check reads the value and
//! names the field in one breath. Null counts as missing, as in every typed field. Answers to
//! `k8s.io/apimachinery/pkg/util/validation/field`.

use serde_json::Value;

use crate::status::Cause;

static NOTHING: Value = Value::Null;

/// What is wrong so far.
pub(crate) type Causes = Vec<Cause>;

/// A field, be it there or not.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
}

impl<'a> Field<'a> {
    /// The whole object, whose fields' paths begin with their names.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    pub(crate) fn new(value: &'a Value, path: impl Into<String>) -> Self {
        Self { value, path: path.into() }
    }

    /// A field by its name, or by several names with dots between.
    pub(crate) fn at(&self, names: &str) -> Self {
        let mut path = String::with_capacity(self.path.len() + 1 + names.len());
        path.push_str(&self.path);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(names);
        let step = |value: &'a Value, name| value.get(name).unwrap_or(&NOTHING);
        // Most are one name, in which a search is not worth its beginning.
        let several = names.bytes().any(|byte| byte == b'.');
        let value = if several { names.split('.').fold(self.value, step) } else { step(self.value, names) };
        Self { value, path }
    }

    pub(crate) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, value)| Self { value, path: format!("{}[{index}]", self.path) }).collect()
    }

    /// The entries of a map, each at `path[key]`.
    pub(crate) fn entries(&self) -> Vec<(&'a str, Self)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries
            .map(|(key, value)| (key.as_str(), Self { value, path: format!("{}[{key}]", self.path) }))
            .collect()
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is nothing in it: no text, no item, no entry.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(crate) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(crate) fn is_true(&self) -> bool {
        *self.value == Value::Bool(true)
    }

    pub(crate) fn required(&self, why: &str) -> Cause {
        Cause::required(self.path.as_str(), why)
    }

    pub(crate) fn invalid(&self, why: &str) -> Cause {
        Cause::invalid(self.path.as_str(), self.value.clone(), why)
    }

    pub(crate) fn forbidden(&self, why: &str) -> Cause {
        Cause::forbidden(self.path.as_str(), why)
    }

    pub(crate) fn duplicate(&self) -> Cause {
        Cause::duplicate(self.path.as_str(), self.value.clone())
    }

    pub(crate) fn unsupported(&self, supported: &[&str]) -> Cause {
        let shown = if self.is_set() { self.value.clone() } else { "".into() };
        Cause::unsupported(self.path.as_str(), shown, supported)
    }

    /// The text has to be there.
    pub(crate) fn need(&self, causes: &mut Causes) {
        if self.is_empty() {
            causes.push(self.required(""));
        }
    }

    /// The text, where there is one, has to be one of these.
    pub(crate) fn one_of(&self, supported: &[&str], causes: &mut Causes) {
        if !self.is_empty() {
            self.must_be_one_of(supported, causes);
        }
    }

    /// The text has to be one of these.
    pub(crate) fn must_be_one_of(&self, supported: &[&str], causes: &mut Causes) {
        if !supported.contains(&self.text()) {
            causes.push(self.unsupported(supported));
        }
    }

    /// The text has to keep a rule that says what is wrong.
    pub(crate) fn follow<I: IntoIterator<Item = String>>(&self, rule: fn(&str) -> I, causes: &mut Causes) {
        let text = self.text();
        causes.extend(rule(text).into_iter().map(|why| Cause::invalid(self.path.as_str(), text, &why)));
    }

    /// The text has to be there and keep a rule.
    pub(crate) fn need_and_follow<I: IntoIterator<Item = String>>(
        &self,
        rule: fn(&str) -> I,
        causes: &mut Causes,
    ) {
        if self.is_empty() {
            causes.push(self.required(""));
        } else {
            self.follow(rule, causes);
        }
    }

    /// The number, where there is one, has to be at least this.
    pub(crate) fn at_least(&self, least: i64, causes: &mut Causes) {
        if self.number().is_some_and(|number| number < least) {
            let why = match least {
                0 => "must be greater than or equal to 0".to_owned(),
                1 => "must be greater than 0".to_owned(),
                _ => format!("must be greater than or equal to {least}"),
            };
            causes.push(self.invalid(&why));
        }
    }

    /// The number has to be between two others, both of them allowed.
    pub(crate) fn between(&self, least: i64, most: i64, causes: &mut Causes) {
        if !(least..=most).contains(&self.number().unwrap_or(0)) {
            causes.push(self.invalid(&format!("must be between {least} and {most}, inclusive")));
        }
    }

    pub(crate) fn port(&self, causes: &mut Causes) {
        self.between(1, 65535, causes);
    }

    /// A port by number or by name, as `targetPort` has it.
    pub(crate) fn port_or_name(&self, causes: &mut Causes) {
        match self.value {
            Value::String(_) => self.follow(super::names::port_name, causes),
            _ => self.port(causes),
        }
    }
}
