//! Decides which objects a request means: label selectors, field selectors and the namespace. Never looks at
//! a store. Answers to `k8s.io/apimachinery/pkg/labels` and `.../pkg/fields`, parse errors included.

mod fields;
mod labels;

use serde_json::Value;

use crate::kinds::Kind;
use crate::object::Object;
use crate::status::Result;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;

/// What a list or watch shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    /// `namespace/`, or empty for everything.
    pub(crate) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    pub(crate) fn new(kind: &Kind, namespace: &str, labels: &str, fields: &str) -> Result<Self> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        Ok(Self {
            prefix,
            labels: LabelSelector::parse(labels)?,
            fields: FieldSelector::parse(kind, fields)?,
        })
    }

    /// The name of the one object that is picked at most.
    pub(crate) fn single(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Whether objects are picked by more than their namespace.
    pub(crate) fn is_selective(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether the selectors pick the object; the namespace is checked by the key.
    pub(crate) fn picks(&self, object: &Object) -> bool {
        !self.is_selective() || self.matches(&object.value)
    }

    /// The same for somebody who asks about each object once, and not about one object for each watcher.
    pub(crate) fn picks_once(&self, object: &Object) -> bool {
        !self.is_selective() || object.look(|value| self.matches(value))
    }

    fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }
}
