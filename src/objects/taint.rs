//! Which taints of a node a pod puts up with.
//!
//! Answers to upstream's `v1helper.TolerationsTolerateTaint` and `FindMatchingUntoleratedTaint`.

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

/// The first taint of the node with one of `effects` that the tolerations do not cover.
#[must_use]
pub fn untolerated<'a>(tolerations: &[Toleration], node: &'a Node, effects: &[&str]) -> Option<&'a Taint> {
    all_untolerated(tolerations, node, effects).next()
}

/// The taints of the node with one of `effects` that the tolerations do not cover.
pub fn all_untolerated<'a>(
    tolerations: &[Toleration],
    node: &'a Node,
    effects: &[&str],
) -> impl Iterator<Item = &'a Taint> {
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let taints = taints.filter(|taint| effects.contains(&taint.effect.as_str()));
    taints.filter(|taint| !is_tolerated(taint, tolerations))
}

/// Whether one of the tolerations covers the taint.
#[must_use]
pub fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if !(effect.is_empty() || effect == taint.effect) || !(key.is_empty() || key == taint.key) {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => {
            toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        other => {
            tracing::debug!(operator = other, "a toleration with an unknown operator tolerates nothing");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn node() -> Node {
        let taint = json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"});
        from_value(json!({"metadata": {"name": "n1"}, "spec": {"taints": [taint]}})).unwrap()
    }

    #[rstest]
    #[case(json!([]), false)]
    #[case(json!([{"operator": "Exists"}]), true)]
    #[case(json!([{"key": "gpu", "value": "yes"}]), true)]
    #[case(json!([{"key": "gpu", "value": "no"}]), false)]
    #[case(json!([{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]), false)]
    #[case(json!([{"key": "cpu", "operator": "Exists"}]), false)]
    #[case(json!([{"value": "yes"}]), true)]
    #[case(json!([{"key": "gpu", "operator": "Gt", "value": "1"}]), false)]
    fn taints(#[case] tolerations: Value, #[case] tolerated: bool) {
        let tolerations: Vec<Toleration> = from_value(tolerations).expect("as the API spells it");
        assert_eq!(untolerated(&tolerations, &node(), &["NoSchedule"]).is_none(), tolerated);
    }
}
