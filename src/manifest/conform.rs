//! Whether an object is of its type, told by deserialising it into that type and watching.
//!
//! A serde `Deserializer` over the JSON value that knows where it is. Decides where a value has the wrong type, where
//! a quantity is malformed, and which fields the type doesn't know. Never decides how that reads, nor on which line
//! it stands.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Value, map};

use super::nearest::nearest;
use super::node::Step;
use super::rules::{self, Rule};

/// Something at a path of the object.
pub(super) struct At<'a, T> {
    pub(super) path: Vec<Step<'a>>,
    pub(super) what: T,
}

/// What was found out about an object.
#[derive(Default)]
pub(super) struct Conformity<'a> {
    /// The first value of a wrong type: after it, nothing more is known.
    pub(super) mismatch: Option<At<'a, Mismatch>>,
    /// Values that break a rule, with the reason and the way out.
    pub(super) broken: Vec<At<'a, String>>,
    /// Fields the type doesn't have, with the known one that is nearest.
    pub(super) unknown: Vec<At<'a, Option<&'static str>>>,
    /// Nulls that stand for empty strings, as the API server takes them.
    pub(super) nulls: Vec<Vec<Step<'a>>>,
}

/// A value that is not what its field takes.
#[derive(Debug)]
pub(super) enum Mismatch {
    /// What the field takes instead.
    Expected(&'static str),
    /// Why the value is refused, in the type's own words.
    Refused(String),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Expected(what) => write!(f, "must be {what}"),
            Mismatch::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Mismatch {}

impl serde::de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Mismatch::Refused(message.to_string())
    }
}

/// Watches how an object becomes a `T`.
pub(super) fn conforms<T: DeserializeOwned>(object: &Value) -> Conformity<'_> {
    let state = RefCell::new(State::default());
    let result = T::deserialize(Watched { value: object, state: &state });
    let State { path, mut found } = state.into_inner();
    found.mismatch = result.err().map(|what| At { path, what });
    found
}

#[derive(Default)]
struct State<'a> {
    /// Where we are; after an error, where it happened.
    path: Vec<Step<'a>>,
    found: Conformity<'a>,
}

struct Watched<'a, 's> {
    value: &'a Value,
    state: &'s RefCell<State<'a>>,
}

impl<'a> Watched<'a, '_> {
    fn check_quantity(&self) {
        if let Value::String(text) = self.value
            && !rules::is_quantity(text)
        {
            self.broke(format!("{text:?} is not a quantity; {}", rules::quantity_advice(text)));
        }
    }

    fn broke(&self, what: String) {
        let mut state = self.state.borrow_mut();
        let path = state.path.clone();
        state.found.broken.push(At { path, what });
    }

    fn unknown(&self, fields: &'static [&'static str]) {
        let mut state = self.state.borrow_mut();
        let path = state.path.clone();
        let nearest = match path.last() {
            Some(Step::Key(key)) => nearest(key, fields),
            _ => None,
        };
        state.found.unknown.push(At { path, what: nearest });
    }

    fn within(&self, step: Step<'a>, value: &'a Value) -> Watched<'a, '_> {
        self.state.borrow_mut().path.push(step);
        Watched { value, state: self.state }
    }

    fn apply(&self, rule: &Rule) {
        match (rule, self.value) {
            (Rule::OneOf(allowed), value) => self.must_be_one_of(value, allowed),
            (Rule::EachOf(allowed), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(Step::Index(index), item).must_be_one_of(item, allowed);
                    self.state.borrow_mut().path.pop();
                }
            }
            (Rule::Storage, Value::Object(amounts)) => {
                let Some((name, amount)) = amounts.get_key_value("storage") else { return };
                if rules::sign(amount).is_some_and(std::cmp::Ordering::is_le) {
                    let message = format!(
                        "{} is not more than zero; ask for a positive size, such as 5Gi",
                        plain(amount)
                    );
                    self.within(Step::Key(name), amount).broke(message);
                    self.state.borrow_mut().path.pop();
                }
            }
            (Rule::NotNegative, amount) if rules::sign(amount).is_some_and(std::cmp::Ordering::is_lt) => {
                self.broke(format!("{} is negative; write zero or more, such as 5Gi", plain(amount)));
            }
            _ => {}
        }
    }

    fn must_be_one_of(&self, value: &Value, allowed: &[&str]) {
        if let Some(why) = rules::not_one_of(value, allowed) {
            self.broke(why);
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl<'a> Deserializer<'a> for Watched<'a, '_> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (.., Some(value)) => visitor.visit_f64(value),
                _ => Err(Mismatch::invalid_type(Unexpected::Other("number"), &visitor)),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.value.is_boolean() {
            self.deserialize_any(visitor)
        } else {
            Err(Mismatch::Expected("true or false"))
        }
    }

    fn deserialize_i32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value.as_i64() {
            Some(value) if i32::try_from(value).is_err() => {
                Err(Mismatch::Expected("a whole number between -2147483648 and 2147483647"))
            }
            _ => self.deserialize_i64(visitor),
        }
    }

    fn deserialize_i64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value.as_i64() {
            Some(value) => visitor.visit_i64(value),
            None => Err(Mismatch::Expected("a whole number")),
        }
    }

    fn deserialize_f64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.value.is_number() {
            self.deserialize_any(visitor)
        } else {
            Err(Mismatch::Expected("a number"))
        }
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Null => {
                let mut state = self.state.borrow_mut();
                let path = state.path.clone();
                state.found.nulls.push(path);
                drop(state);
                visitor.visit_borrowed_str("")
            }
            _ => Err(Mismatch::Expected("a string")),
        }
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        if name == "Quantity" {
            if !matches!(self.value, Value::String(_) | Value::Number(_)) {
                return Err(Mismatch::Expected("a quantity, such as 5Gi"));
            }
            self.check_quantity();
        }
        if name == "IntOrString" && !matches!(self.value, Value::String(_) | Value::Number(_)) {
            return Err(Mismatch::Expected("a whole number or a string"));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Value::Array(items) = self.value else { return Err(Mismatch::Expected("a list")) };
        visitor.visit_seq(Items { items: items.iter().enumerate(), watched: &self })
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let Value::Object(fields) = self.value else { return Err(Mismatch::Expected("a mapping")) };
        let fields = Fields { rest: fields.iter(), next: None, holder: None, watched: &self };
        visitor.visit_map(fields)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        let Value::Object(fields) = self.value else { return Err(Mismatch::Expected("a mapping")) };
        let holder = Some(Holder { name, known });
        visitor.visit_map(Fields { rest: fields.iter(), next: None, holder, watched: &self })
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <W: Visitor<'a>>
        i8 i16 u8 u16 u32 u64 f32 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Items<'a, 'w, 's> {
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    watched: &'w Watched<'a, 's>,
}

impl<'a> SeqAccess<'a> for Items<'a, '_, '_> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some((index, item)) = self.items.next() else { return Ok(None) };
        let element = seed.deserialize(self.watched.within(Step::Index(index), item))?;
        self.watched.state.borrow_mut().path.pop();
        Ok(Some(element))
    }
}

/// The type that holds the fields.
struct Holder {
    name: &'static str,
    known: &'static [&'static str],
}

struct Fields<'a, 'w, 's> {
    rest: map::Iter<'a>,
    next: Option<(&'a str, &'a Value)>,
    holder: Option<Holder>,
    watched: &'w Watched<'a, 's>,
}

impl<'a> MapAccess<'a> for Fields<'a, '_, '_> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        self.next = self.rest.next().map(|(key, value)| (key.as_str(), value));
        let Some((key, _)) = self.next else { return Ok(None) };
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let Some((key, value)) = self.next.take() else {
            return Err(Mismatch::custom("a value without a key"));
        };
        let field = self.watched.within(Step::Key(key), value);
        if let Some(holder) = &self.holder {
            if !holder.known.contains(&key) {
                field.unknown(holder.known);
            }
            if let Some(rule) = rules::rule(holder.name, key) {
                field.apply(&rule);
            }
        }
        let value = seed.deserialize(field)?;
        self.watched.state.borrow_mut().path.pop();
        Ok(value)
    }
}
