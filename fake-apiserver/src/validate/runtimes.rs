//! Decides whether a class of runtimes may be stored. Answers to `kubernetes/pkg/apis/node/validation`.

use serde_json::{Value, json};

use super::field::{Causes, Field};
use super::pods::{affinity, amounts};
use super::{names, selectors};
use crate::status::Cause;

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    root.at("handler").need_and_follow(names::label, &mut causes);
    // What is fixed is limited: the rules are those of a container's limits.
    let limits = json!({"limits": value["overhead"]["podFixed"]});
    amounts::resources(&Field::new(&limits, "overhead"), &mut causes);
    let places = root.at("scheduling");
    selectors::labels(&places.at("nodeSelector"), &mut causes);
    affinity::tolerations(&places, &mut causes);
    let mut seen = Vec::new();
    for one in places.at("tolerations").items() {
        let key = ["key", "operator", "value", "effect"].map(|field| one.at(field).text());
        if seen.contains(&key) {
            causes.push(Cause::duplicate(one.path.as_str(), one.value.clone()));
        }
        seen.push(key);
    }
    causes
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = create(new);
    if old["handler"] != new["handler"] {
        causes.push(Field::root(new).at("handler").invalid("field is immutable"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handler_stays_and_tolerations_are_said_once() {
        let class = |handler: &str| json!({"handler": handler, "scheduling": {"tolerations": []}});
        assert!(update(&class("a"), &class("a")).is_empty());
        assert_eq!(update(&class("a"), &class("b")).len(), 1);
        assert_eq!(create(&class("A.b")).len(), 1);
        let one = json!({"key": "k", "operator": "Exists"});
        let twice = json!({"handler": "h", "scheduling": {"tolerations": [one, one]}});
        assert_eq!(create(&twice).len(), 1);
    }
}
