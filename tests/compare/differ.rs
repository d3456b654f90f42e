//! Where two end states differ, field by field.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::normal::Normal;
use crate::stack::Side;

/// One difference between upstream's end state and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub world: String,
    pub side: Side,
    pub object: String,
    pub field: String,
    /// Nothing where the field is not there.
    pub upstream: Option<Value>,
    pub ours: Option<Value>,
}

fn told(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

impl Difference {
    /// The value on upstream's side, in words.
    pub fn upstream(&self) -> String {
        told(self.upstream.as_ref())
    }

    /// The value on ours, in words.
    pub fn ours(&self) -> String {
        told(self.ours.as_ref())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (upstream, ours) = (self.upstream(), self.ours());
        write!(f, "{:?}: {}: {}: upstream {upstream}, ours {ours}", self.side, self.object, self.field)
    }
}

/// All differences. Of an object that is on one side alone only that is said.
pub fn differences(world: &str, side: Side, upstream: &Normal, ours: &Normal) -> Vec<Difference> {
    let exists =
        |normal: &Normal, object: &str| normal.contains_key(&(object.to_owned(), "exists".to_owned()));
    let keys: BTreeSet<&(String, String)> = upstream.keys().chain(ours.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (object, field) = key;
        let lone = exists(upstream, object) != exists(ours, object);
        let (theirs, mine) = (upstream.get(key), ours.get(key));
        if theirs != mine && (!lone || field == "exists" || field.starts_with("event ")) {
            differences.push(Difference {
                world: world.to_owned(),
                side,
                object: object.clone(),
                field: field.clone(),
                upstream: theirs.cloned(),
                ours: mine.cloned(),
            });
        }
    }
    differences
}
