//! Decides in which form objects of a kind are stored, and how those of one form are shown as another kind's or in another
//! version. Never judges one. Answers to the conversions of `kubernetes/pkg/apis/*/v*/conversion.go`.

use serde_json::Value;

use super::{CORE, Kind};
use crate::object::Object;
use crate::{autoscalers, events};

impl Kind {
    /// How a stored object is shown as one of this kind; nothing when it is shown as it is stored.
    pub(crate) fn view(&self, stored: &Value) -> Option<Value> {
        if self.is_events_view() {
            return Some(events::to_view(stored));
        }
        if self.is_view() {
            return Some(autoscalers::to_older(stored));
        }
        self.definition.as_ref()?.shown(stored)
    }

    /// The same of an object of the store, which is not parsed for nothing.
    pub(crate) fn view_of(&self, stored: &Object) -> Option<Value> {
        let differs = self.is_view() || self.definition.is_some();
        if differs { self.view(&stored.value) } else { None }
    }

    /// An object of this kind in the form in which it is stored.
    pub(crate) fn kept(&self, value: Value) -> Value {
        match self.kept_as() {
            Some((_, _, "Event")) => events::to_core(&value),
            Some(_) => autoscalers::to_newer(&value),
            None => value,
        }
    }

    /// The kind with which this one shares its objects, and in whose form they are stored, where that is another one.
    pub(crate) fn kept_as(&self) -> Option<(&'static str, &'static str, &'static str)> {
        match (&*self.group, &*self.version, &*self.kind) {
            ("events.k8s.io", ..) => Some((CORE, "v1", "Event")),
            ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
                Some(("autoscaling", "v2", "HorizontalPodAutoscaler"))
            }
            _ => None,
        }
    }

    /// Whether its objects are stored as another kind's.
    pub(crate) fn is_view(&self) -> bool {
        self.kept_as().is_some()
    }

    /// The two event APIs are two views of one store.
    pub(crate) fn is_events_view(&self) -> bool {
        self.group == "events.k8s.io"
    }
}
