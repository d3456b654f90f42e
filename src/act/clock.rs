//! What time it is, for the few fields that say since when something is so.
//!
//! Decisions never ask: what they leave open is filled in where it is sent. Tests and simulations bring a clock of their
//! own. Answers to the `metav1.Now` of upstream's `podutil.UpdatePodCondition`.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

/// A clock. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The one that asks here.
    #[must_use]
    pub fn new(now: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Clock(now)
    }

    /// The machine's.
    #[must_use]
    pub fn machine() -> Self {
        Clock(Arc::new(Timestamp::now))
    }

    /// The time, as objects spell it.
    fn spelled(&self) -> String {
        (self.0)().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Says since when each condition of a status is so, where that was left open.
    pub fn stamp(&self, patch: &mut Value) {
        let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if condition.get("lastTransitionTime").is_none_or(Value::is_null) {
                condition["lastTransitionTime"] = json!(self.spelled());
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
