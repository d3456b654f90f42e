//! Decides what there is to warn of in what leads to pods over the network. Never refuses. Answers to the strategies of
//! `kubernetes/pkg/registry/{networking,discovery}`.

use super::addresses;
use crate::object::text;
use crate::validate::field::Field;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Addresses of a slice that are names, or are written in more than one way. The controllers that make slices know that.
pub(super) fn of_slice(is_new: bool, slice: &Field<'_>, said: &mut Vec<String>) {
    if is_new && slice.at("addressType").text() == "FQDN" {
        said.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    let by = text(slice.value, &["metadata", "labels", "endpointslice.kubernetes.io/managed-by"]);
    if matches!(by, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
        return;
    }
    for endpoint in slice.at("endpoints").items() {
        for address in endpoint.at("addresses").items() {
            addresses::address(&address, said);
        }
    }
}

/// The same of the older endpoints.
pub(super) fn of_endpoints(endpoints: &Field<'_>, said: &mut Vec<String>) {
    let by = text(endpoints.value, &["metadata", "labels", "endpoints.kubernetes.io/managed-by"]);
    if by == "endpoint-controller" {
        return;
    }
    for subset in endpoints.at("subsets").items() {
        for list in ["addresses", "notReadyAddresses"] {
            for address in subset.at(list).items() {
                addresses::address(&address.at("ip"), said);
            }
        }
    }
}

/// A class that is named the way in which it was before there were classes.
pub(super) fn of_class(ingress: &Field<'_>) -> Option<String> {
    let annotated = ingress.value["metadata"]["annotations"].get(CLASS_ANNOTATION).is_some();
    (annotated && !ingress.at("spec.ingressClassName").is_set()).then(|| {
        format!("annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead")
    })
}

/// Where an ingress or a service is reached.
pub(super) fn of_status(ingress: &Field<'_>, said: &mut Vec<String>) {
    for point in ingress.at("status.loadBalancer.ingress").items() {
        // Upstream names the point and not its address.
        addresses::address(&Field::new(point.at("ip").value, point.path), said);
    }
}

pub(super) fn of_policy(policy: &Field<'_>, said: &mut Vec<String>) {
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in policy.at("spec").at(rules).items() {
            for block in rule.at(peers).items().iter().map(|peer| peer.at("ipBlock")) {
                addresses::range(&block.at("cidr"), said);
                for except in block.at("except").items() {
                    addresses::range(&except, said);
                }
            }
        }
    }
}
