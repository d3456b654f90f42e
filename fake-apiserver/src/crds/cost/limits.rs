//! Decides whether rules cost too much: each by itself, as often as its values can be there, and all of a schema together. Never
//! estimates a rule. Answers to `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/{validation,cel_validation}.go`.

use serde_json::Value;

use crate::status::Cause;

/// What one rule may cost, and all of a schema.
const ONE: u64 = 10_000_000;
const ALL: u64 = 100_000_000;
/// How many of the dearest rules are named.
const NAMED: usize = 4;

/// How many values of a place there can be; nothing where nothing bounds that.
#[derive(Clone, Copy, Debug)]
pub(in crate::crds) struct Limits(Option<u64>);

impl Limits {
    pub(in crate::crds) fn root() -> Self {
        Self(Some(1))
    }

    /// How many there can be of what stands in the values of a schema.
    pub(in crate::crds) fn below(self, schema: &Value) -> Self {
        let bound = |name: &str| {
            schema.get(name).filter(|bound| !bound.is_null()).map(|bound| bound.as_u64().unwrap_or(0))
        };
        let each = match schema["type"].as_str() {
            Some("object") if schema.get("additionalProperties").is_some() => bound("maxProperties"),
            Some("array") => bound("maxItems"),
            _ => Some(1),
        };
        Self(self.0.zip(each).map(|(here, each)| here.saturating_mul(each)))
    }

    /// What all evaluations of a rule cost; `otherwise` is how many there are where nothing bounds them.
    pub(in crate::crds) fn of_all(self, once: u64, otherwise: u64) -> u64 {
        once.saturating_mul(self.0.unwrap_or(otherwise))
    }
}

/// What the rules of a schema cost so far.
#[derive(Debug, Default)]
pub(in crate::crds) struct Spent {
    /// Whether each rule by itself is taken as it is: it was there before.
    forgiven: bool,
    total: u64,
    dearest: Vec<(String, u64)>,
}

impl Spent {
    pub(in crate::crds) fn new(forgiven: bool) -> Self {
        Self { forgiven, ..Self::default() }
    }

    /// Takes down what an expression costs; says so if it is too much.
    pub(in crate::crds) fn note(&mut self, path: &str, what: &str, cost: u64) -> Option<Cause> {
        self.total = self.total.saturating_add(cost);
        if cost >= ALL / 100 {
            self.dearest.push((path.to_owned(), cost));
            self.dearest.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            self.dearest.truncate(NAMED);
        }
        let why = || exceeded(&format!("estimated {what} cost"), cost, ONE);
        (cost > ONE && !self.forgiven).then(|| Cause::forbidden(path, &why()))
    }

    /// What is wrong with all of it together.
    pub(in crate::crds) fn judge(self, path: &str) -> Vec<Cause> {
        if self.total <= ALL {
            return Vec::new();
        }
        let part =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut causes: Vec<Cause> =
            self.dearest.into_iter().map(|(path, _)| Cause::forbidden(path, part)).collect();
        let all = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(Cause::forbidden(path, &exceeded(all, self.total, ALL)));
        causes
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_in_lists_is_there_as_often_as_they_have_items() {
        let list = |more: Value| {
            let mut list = json!({"type": "array"});
            list.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            list
        };
        let map = json!({"type": "object", "additionalProperties": {}, "maxProperties": 5});
        let bounded =
            Limits::root().below(&json!({"type": "object"})).below(&list(json!({"maxItems": 3}))).below(&map);
        assert_eq!(bounded.of_all(2, 1000), 30);
        assert_eq!(Limits::root().below(&list(json!({}))).below(&map).of_all(2, 1000), 2000);
    }

    #[test]
    fn too_much_is_said_with_how_much() {
        let said =
            |cost: u64| Spent::default().note("a", "rule", cost).map(|cause| cause.sentence().to_owned());
        assert_eq!(said(ONE), None);
        assert!(
            said(ONE + 1)
                .unwrap()
                .starts_with("a: Forbidden: estimated rule cost exceeds budget by factor of 1.000000x (try")
        );
        assert!(said(ONE * 25).unwrap().contains("factor of 25.0x (try"));
        assert!(said(u64::MAX).unwrap().contains("factor of more than 100x (try"));
        assert!(Spent::new(true).note("a", "rule", u64::MAX).is_none());
    }

    #[test]
    fn the_dearest_of_what_is_too_much_together_are_named() {
        let mut spent = Spent::new(true);
        for (path, cost) in [("a", 1), ("b", 30), ("c", 60), ("d", 20), ("e", 9), ("f", 10)] {
            spent.note(path, "rule", cost * ALL / 100);
        }
        let causes = spent.judge("all");
        let fields: Vec<&str> =
            causes.iter().filter_map(|cause| cause.sentence().split(':').next()).collect();
        assert_eq!(fields, ["c", "b", "d", "f", "all"]);
        assert!(
            causes[4].sentence().contains("entire OpenAPIv3 schema exceeds budget by factor of 1.300000x")
        );
        let mut little = Spent::default();
        little.note("a", "rule", ONE);
        assert!(little.judge("all").is_empty());
    }
}
