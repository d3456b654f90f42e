//! Decides whether a lease may be stored. Answers to `ValidateLease` and its update.

use serde_json::Value;

use crate::object::text;
use crate::status::Cause;

pub(super) fn spec(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &value["spec"];
    let mut bounded = |field: &str, least: i64, why: &str| {
        if spec[field].as_i64().is_some_and(|number| number < least) {
            causes.push(Cause::invalid(format!("spec.{field}"), spec[field].clone(), why));
        }
    };
    bounded("leaseDurationSeconds", 1, "must be greater than 0");
    bounded("leaseTransitions", 0, "must be greater than or equal to 0");
    let preferred = text(value, &["spec", "preferredHolder"]);
    if !preferred.is_empty() && text(value, &["spec", "strategy"]).is_empty() {
        causes
            .push(Cause::forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"));
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_that_make_no_sense_and_a_preference_without_a_strategy_are_refused() {
        let refused = |fields: Value| {
            let causes = spec(&json!({"spec": fields}));
            causes.iter().map(|cause| cause.sentence().to_owned()).collect::<Vec<_>>()
        };
        assert!(
            refused(json!({"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0}))
                .is_empty()
        );
        assert_eq!(
            refused(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        assert_eq!(
            refused(json!({"preferredHolder": "a"})),
            ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
        );
    }
}
