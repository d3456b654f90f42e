//! Decides how the managers of an object appear on its scale, and what a written scale makes of them: only who owns the number
//! of replicas is carried over, under another path and version. Never merges anything. Answers to
//! `k8s.io/apimachinery/pkg/util/managedfields/scalehandler.go`.

use serde_json::Value;

use crate::apply::element::Element;
use crate::apply::managers::{Entry, Managers};
use crate::apply::set::Set;

/// The version of every scale.
const SCALE: &str = "autoscaling/v1";

/// Where the versions of a kind keep the number of replicas.
pub(crate) struct Replicas<'a> {
    /// The version that was asked.
    pub(crate) api_version: &'a str,
    /// The path to the number in a version: nothing where the version is unknown, an empty one where it has no scale.
    pub(crate) path: &'a dyn Fn(&str) -> Option<Vec<String>>,
}

impl Replicas<'_> {
    fn steps(&self, api_version: &str) -> Option<Vec<Element>> {
        let path = (self.path)(api_version)?;
        Some(path.into_iter().map(Element::Field).collect())
    }

    /// The managers of an object as its scale has them.
    pub(crate) fn to_scale(&self, managers: &Value) -> Option<Value> {
        let managers = Managers::decode(managers).unwrap_or_default();
        let mut scale = Managers::default();
        for entry in managers.iter() {
            let Some(path) = self.steps(&entry.api_version).filter(|path| !path.is_empty()) else { continue };
            if entry.fields.contains(&path) {
                let mut entry = entry.clone();
                if !entry.identity.applies {
                    entry.identity.api_version = SCALE.into();
                }
                scale.push(Entry { api_version: SCALE.into(), fields: replicas_of_scale(), ..entry });
            }
        }
        scale.encode()
    }

    /// The managers of an object after its scale was written. The time of a manager who comes from the scale is not known.
    pub(crate) fn to_object(&self, managers: &Value, scale: &Value) -> Option<Value> {
        let before = Managers::decode(managers).unwrap_or_default();
        let mut scale = Managers::decode(scale).unwrap_or_default();
        let mut after = Managers::default();
        for entry in before.iter() {
            let Some(path) = self.steps(&entry.api_version) else { continue };
            let mut entry = entry.clone();
            if !path.is_empty() && entry.fields.contains(&path) {
                if scale.get(&entry.identity).is_some() {
                    scale.retain(|other| other.identity != entry.identity);
                } else {
                    let mut number = Set::default();
                    number.insert(&path);
                    entry.fields = entry.fields.difference(&number);
                }
            }
            if !entry.fields.is_empty() {
                after.push(entry);
            }
        }
        let path = self.steps(self.api_version).unwrap_or_default();
        for entry in scale.iter().filter(|entry| !entry.fields.intersection(&replicas_of_scale()).is_empty())
        {
            let time = before.get(&entry.identity).and_then(|entry| entry.time.clone());
            let mut fields = Set::default();
            fields.insert(&path);
            let api_version = self.api_version.to_owned();
            after.push(Entry { identity: entry.identity.clone(), api_version, time, fields });
        }
        after.encode()
    }
}

fn replicas_of_scale() -> Set {
    Set::of(&[&["spec", "replicas"]])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, version: &str, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    fn size(version: &str) -> Option<Vec<String>> {
        match version {
            "g/v1" => Some(vec!["spec".into(), "size".into()]),
            "g/v2" => Some(Vec::new()),
            _ => None,
        }
    }

    const REPLICAS: Replicas = Replicas { api_version: "g/v1", path: &size };

    #[test]
    fn a_scale_shows_who_owns_the_number() {
        let both = json!({"f:spec": {"f:size": {}, "f:other": {}}});
        let managers = json!([
            entry("a", "Apply", "g/v1", &both),
            entry("u", "Update", "g/v1", &both),
            entry("other", "Update", "g/v1", &json!({"f:spec": {"f:other": {}}})),
            entry("elsewhere", "Update", "g/v2", &both),
        ]);
        let number = json!({"f:spec": {"f:replicas": {}}});
        let expected = json!([
            entry("a", "Apply", "autoscaling/v1", &number),
            entry("u", "Update", "autoscaling/v1", &number),
        ]);
        assert_eq!(REPLICAS.to_scale(&managers), Some(expected));
    }

    #[track_caller]
    fn check(managers: &Value, scale: &Value, expected: &Value) {
        assert_eq!(REPLICAS.to_object(managers, scale).unwrap_or_default(), *expected);
    }

    #[test]
    fn whoever_writes_the_scale_takes_the_number() {
        let (both, rest) =
            (json!({"f:spec": {"f:size": {}, "f:other": {}}}), json!({"f:spec": {"f:other": {}}}));
        let (number, size) = (json!({"f:spec": {"f:replicas": {}}}), json!({"f:spec": {"f:size": {}}}));
        let owner = |fields: &Value| entry("owner", "Update", "g/v1", fields);
        let applier = |version, fields: &Value| entry("hpa", "Apply", version, fields);
        check(
            &json!([owner(&both)]),
            &json!([applier("autoscaling/v1", &number)]),
            &json!([applier("g/v1", &size), owner(&rest)]),
        );
        // One who applied before keeps what it has, and one whose only field is gone goes.
        check(
            &json!([applier("g/v1", &both), owner(&size)]),
            &json!([applier("autoscaling/v1", &number)]),
            &json!([applier("g/v1", &both)]),
        );
        check(&json!([owner(&size)]), &Value::Null, &Value::Null);
        // Who says nothing of the number owns nothing of the object, and unknown versions are dropped.
        let labels = json!({"f:metadata": {"f:labels": {}}});
        let strange = entry("strange", "Update", "h/v1", &both);
        check(&json!([strange]), &json!([applier("autoscaling/v1", &labels)]), &Value::Null);
    }
}
