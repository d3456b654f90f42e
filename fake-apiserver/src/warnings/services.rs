//! Decides what there is to warn of in a service: fields that its type ignores, and forms of addresses that are on their way
//! out. Never refuses. Answers to `kubernetes/pkg/api/service/warnings.go`.

use super::addresses;
use crate::validate::field::Field;

pub(super) fn of(service: &Field<'_>) -> Vec<String> {
    let mut said = Vec::new();
    let annotation = "service.kubernetes.io/topology-aware-hints";
    if service.value["metadata"]["annotations"].get(annotation).is_some() {
        let instead = "service.kubernetes.io/topology-mode";
        said.push(format!("annotation {annotation} is deprecated, please use {instead} instead"));
    }
    let spec = service.at("spec");
    let external = spec.at("type").text() == "ExternalName";
    let headless = spec.at("type").text() == "ClusterIP" && spec.at("clusterIP").text() == "None";
    let outside = !spec.at("externalIPs").is_empty();
    if !headless && !external {
        for ip in spec.at("clusterIPs").items() {
            addresses::address(&ip, &mut said);
        }
    }
    if headless {
        if !spec.at("loadBalancerIP").is_empty() {
            said.push("spec.loadBalancerIP is ignored for headless services".to_owned());
        }
        if outside {
            said.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if spec.at("sessionAffinity").text() != "None" {
            said.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    for ip in spec.at("externalIPs").items() {
        addresses::address(&ip, &mut said);
    }
    if !headless && outside && !external {
        said.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned(),
        );
    }
    addresses::address(&spec.at("loadBalancerIP"), &mut said);
    for range in spec.at("loadBalancerSourceRanges").items() {
        addresses::range(&range, &mut said);
    }
    if external && outside {
        said.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external && !spec.at("externalName").is_empty() {
        said.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at("trafficDistribution").text() == "PreferClose" {
        said.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned(),
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the table below is read more easily")]
    fn check(spec: Value, expected: &[&str]) {
        let said = of(&Field::root(&json!({"spec": spec})));
        assert_eq!(said.len(), expected.len(), "{said:?}");
        assert!(said.iter().zip(expected).all(|(one, words)| one.contains(words)), "{said:?}");
    }

    #[test]
    fn what_the_type_ignores_is_named() {
        check(json!({"type": "ClusterIP", "externalIPs": ["192.0.2.1"]}), &["externalIPs is deprecated"]);
        check(
            json!({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["192.0.2.1"]}),
            &["externalIPs is ignored for headless", "SessionAffinity is ignored"],
        );
        check(
            json!({"type": "ExternalName", "externalName": "a.b", "externalIPs": ["192.0.2.1"]}),
            &["externalIPs is ignored when"],
        );
        check(json!({"type": "ClusterIP", "externalName": "a.b"}), &["externalName is ignored"]);
        check(json!({"type": "ClusterIP", "trafficDistribution": "PreferClose"}), &["PreferSameZone"]);
        check(
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.1.2.3/8", "10.0.0.0/8"]}),
            &["should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?"],
        );
    }
}
