//! Decides whether a service may be stored. Never gives it an address. Answers to `ValidateServiceCreate` and
//! `ValidateServiceUpdate`.

use std::net::IpAddr;

use serde_json::Value;

use super::field::{Causes, Field};
use super::{names, selectors};
use crate::object::text;
use crate::status::Cause;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const DAY: i64 = 86_400;

pub(super) fn create(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    let kind = spec.at("type").text();
    let headless = text(value, &["spec", "clusterIP"]) == "None"
        || spec.at("clusterIPs").items().first().is_some_and(|ip| ip.text() == "None");
    if spec.at("ports").is_empty() && !headless && kind != "ExternalName" {
        causes.push(spec.at("ports").required(""));
    }
    by_type(&spec, kind, headless, &mut causes);
    ports(&spec, kind, &mut causes);
    selectors::labels(&spec.at("selector"), &mut causes);
    affinity(&spec, &mut causes);
    if kind != "ExternalName" {
        addresses(&spec, &mut causes);
    }
    for ip in spec.at("externalIPs").items() {
        reachable(&ip, &mut causes);
    }
    if kind.is_empty() {
        causes.push(spec.at("type").required(""));
    } else {
        spec.at("type").must_be_one_of(TYPES, &mut causes);
    }
    balancer(&spec, kind, &mut causes);
    traffic(&spec, kind, &mut causes);
    causes
}

fn by_type(spec: &Field<'_>, kind: &str, headless: bool, causes: &mut Causes) {
    if matches!(kind, "LoadBalancer" | "NodePort") && headless {
        let why = format!("may not be set to 'None' for {kind} services");
        causes.push(Cause::invalid("spec.clusterIPs[0]", "None", &why));
    }
    if kind != "ExternalName" {
        return;
    }
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.at(field).is_empty() {
            causes.push(spec.at(field).forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.at("externalName");
    let bare = name.text().strip_suffix('.').unwrap_or(name.text());
    if bare.is_empty() {
        causes.push(name.required(""));
    } else {
        causes.extend(names::subdomain(bare).iter().map(|why| Cause::invalid(name.path.as_str(), bare, why)));
    }
}

fn ports(spec: &Field<'_>, kind: &str, causes: &mut Causes) {
    let ports = spec.at("ports").items();
    let (mut seen, mut nodes, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for port in &ports {
        let name = port.at("name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(name.required(""));
        } else if !name.is_empty() {
            name.follow(names::label, causes);
            if seen.contains(&name.text()) {
                causes.push(name.duplicate());
            }
            seen.push(name.text());
        }
        port.at("port").port(causes);
        port.at("protocol").must_be_one_of(PROTOCOLS, causes);
        port.at("targetPort").port_or_name(causes);
        if port.at("appProtocol").is_set() {
            port.at("appProtocol").follow(names::qualified_name, causes);
        }
    }
    for port in &ports {
        let node = port.at("nodePort");
        if kind == "ClusterIP" && node.number().unwrap_or(0) != 0 {
            causes.push(node.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
    }
    for port in &ports {
        let protocol = port.at("protocol").text();
        let node = (protocol, port.at("nodePort").number().unwrap_or(0));
        if node.1 != 0 {
            if nodes.contains(&node) {
                causes.push(port.at("nodePort").duplicate());
            }
            nodes.push(node);
        }
        let pair = (protocol, port.at("port").number());
        if pairs.contains(&pair) {
            causes.push(port.duplicate());
        }
        pairs.push(pair);
    }
}

fn affinity(spec: &Field<'_>, causes: &mut Causes) {
    let (affinity, config) = (spec.at("sessionAffinity"), spec.at("sessionAffinityConfig"));
    affinity.must_be_one_of(&["ClientIP", "None"], causes);
    let timeout = config.at("clientIP.timeoutSeconds");
    match affinity.text() {
        "ClientIP" if !timeout.is_set() => {
            causes.push(config.required("when session affinity type is ClientIP"));
        }
        "ClientIP" if !(1..=DAY).contains(&timeout.number().unwrap_or(0)) => {
            causes.push(timeout.invalid(&format!("must be greater than 0 and less than {DAY}")));
        }
        "None" if config.is_set() => {
            causes.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// The addresses, their families, and that they go together.
pub(super) fn addresses(spec: &Field<'_>, causes: &mut Causes) {
    let (single, all) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    let items = all.items();
    if single.is_empty() {
        if !items.is_empty() {
            causes.push(all.invalid("must be empty when `clusterIP` is not specified"));
        }
    } else if items.is_empty() {
        causes.push(all.required(""));
    } else if items[0].text() != single.text() {
        causes.push(all.invalid("first value must match `clusterIP`"));
    }
    let mut families = Vec::new();
    for family in spec.at("ipFamilies").items() {
        family.must_be_one_of(FAMILIES, causes);
        if families.contains(&family.text()) {
            causes.push(family.duplicate());
        }
        families.push(family.text());
    }
    if spec.at("ipFamilyPolicy").is_set() {
        spec.at("ipFamilyPolicy").must_be_one_of(POLICIES, causes);
    }
    let before = causes.len();
    for (index, ip) in items.iter().enumerate() {
        if index == 0 && ip.text() == "None" {
            if items.len() > 1 {
                causes.push(all.invalid("'None' must be the first and only value"));
            }
        } else {
            super::addresses::address(ip, causes);
        }
    }
    let wrong = causes.len() > before;
    if items.len() > 2 {
        causes.push(all.invalid("may only hold up to 2 values"));
    }
    if wrong || items.first().is_some_and(|ip| ip.text() == "None") {
        return;
    }
    let family = |ip: &Field<'_>| match ip.text().parse() {
        Ok(IpAddr::V6(_)) => "IPv6",
        _ => "IPv4",
    };
    if items.len() > 1 && items.iter().all(|ip| family(ip) == family(&items[0])) {
        causes.push(all.invalid("may specify no more than one IP for each IP family"));
    }
    for (index, (ip, wanted)) in items.iter().zip(&families).enumerate() {
        if FAMILIES.contains(wanted) && family(ip) != *wanted {
            let why = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            causes.push(ip.invalid(&why));
        }
    }
}

fn balancer(spec: &Field<'_>, kind: &str, causes: &mut Causes) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let balanced = kind == "LoadBalancer";
    let ranges = Field::new(spec.at("loadBalancerSourceRanges").value, "spec.LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        causes.push(ranges.forbidden(ONLY));
    }
    for range in ranges.items() {
        let text = Value::from(range.text().trim());
        super::addresses::range(&Field::new(&text, range.path), causes);
    }
    let (allocate, class) = (spec.at("allocateLoadBalancerNodePorts"), spec.at("loadBalancerClass"));
    if allocate.is_set() && !balanced {
        causes.push(allocate.forbidden(ONLY));
    }
    if class.is_set() {
        if balanced {
            class.follow(names::qualified_name, causes);
        } else {
            causes.push(class.forbidden(ONLY));
        }
    }
}

fn traffic(spec: &Field<'_>, kind: &str, causes: &mut Causes) {
    let (external, internal) = (spec.at("externalTrafficPolicy"), spec.at("internalTrafficPolicy"));
    let reachable = matches!(kind, "LoadBalancer" | "NodePort")
        || kind == "ClusterIP" && !spec.at("externalIPs").is_empty();
    if reachable {
        if external.is_empty() {
            causes.push(external.required(""));
        } else {
            external.must_be_one_of(&["Cluster", "Local"], causes);
        }
    } else if !external.is_empty() {
        causes.push(external.invalid("may only be set for externally-accessible services"));
    }
    let health = spec.at("healthCheckNodePort");
    if !(kind == "LoadBalancer" && external.text() == "Local") && health.number().unwrap_or(0) != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(health.invalid(why));
    }
    if internal.is_set() {
        internal.must_be_one_of(&["Cluster", "Local"], causes);
    } else if matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
        causes.push(internal.required(""));
    }
    let spread = spec.at("trafficDistribution");
    if spread.is_set() {
        spread.must_be_one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"], causes);
    }
}

/// An address that is well written, and may be behind a service.
fn reachable(ip: &Field<'_>, causes: &mut Causes) {
    if let Some(address) = super::addresses::address(ip, causes) {
        super::addresses::endpoint(address, ip, causes);
    }
}

/// What a load balancer says of itself, which only one may.
pub(super) fn status(new: &Value) -> Causes {
    let ingress = Field::root(new).at("status.loadBalancer.ingress");
    let mut causes = Causes::new();
    if !ingress.is_empty() && text(new, &["spec", "type"]) != "LoadBalancer" {
        causes.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return causes;
    }
    for one in ingress.items() {
        let (address, mode, host) = (one.at("ip"), one.at("ipMode"), one.at("hostname"));
        if !address.is_empty() {
            super::addresses::address(&address, &mut causes);
        }
        match (mode.is_set(), address.is_empty()) {
            (false, false) => causes.push(mode.required("must be specified when `ip` is set")),
            (true, true) => causes.push(mode.forbidden("may not be specified when `ip` is not set")),
            (true, false) => mode.must_be_one_of(&["Proxy", "VIP"], &mut causes),
            (false, true) => {}
        }
        if !host.is_empty() {
            host.follow(names::subdomain, &mut causes);
            if super::addresses::sloppy(host.text()).is_some() {
                causes.push(host.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
    causes
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::new();
    let (before, after) = (Field::root(old).at("spec"), Field::root(new).at("spec"));
    let named = |spec: &Field<'_>| spec.at("type").text() == "ExternalName";
    if !named(&before) && !named(&after) {
        let (old, new) = (before.at("clusterIPs").items(), after.at("clusterIPs").items());
        if let (Some(old), Some(new)) = (old.first(), new.first())
            && old.value != new.value
        {
            causes.push(new.invalid("may not change once set"));
        }
        if let (Some(old), Some(new)) = (old.get(1), new.get(1))
            && old.value != new.value
        {
            causes.push(new.invalid("may not change once set"));
        }
        if !old.is_empty() && new.is_empty() {
            causes.push(Cause::invalid(
                "spec.clusterIPs[0]",
                Value::Null,
                "primary clusterIP can not be unset",
            ));
        }
        let (old, new) = (before.at("ipFamilies").items(), after.at("ipFamilies").items());
        if let (Some(old), Some(new)) = (old.first(), new.first())
            && old.value != new.value
        {
            causes.push(new.invalid("may not change once set"));
        }
    }
    let (old_class, new_class) = (before.at("loadBalancerClass"), after.at("loadBalancerClass"));
    let balanced = |spec: &Field<'_>| spec.at("type").text() == "LoadBalancer";
    if balanced(&before) && balanced(&after) && old_class.value != new_class.value {
        causes.push(new_class.invalid("may not change once set"));
    }
    causes.extend(create(new));
    causes
}

/// The addresses behind a service.
pub(super) fn endpoints(value: &Value) -> Causes {
    let mut causes = Causes::new();
    for subset in Field::root(value).at("subsets").items() {
        let (ready, not_ready) = (subset.at("addresses"), subset.at("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            causes.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in ready.items().into_iter().chain(not_ready.items()) {
            let ip = address.at("ip");
            super::addresses::address(&ip, &mut causes);
            // Upstream looks at it twice, however it is written.
            match super::addresses::sloppy(ip.text()) {
                Some(address) => super::addresses::endpoint(address, &ip, &mut causes),
                None => causes.push(ip.invalid("must be a valid IP address")),
            }
            if !address.at("hostname").is_empty() {
                address.at("hostname").follow(names::label, &mut causes);
            }
            let node = address.at("nodeName");
            if node.is_set() {
                node.follow(names::subdomain, &mut causes);
            }
        }
        let several = subset.at("ports").len() > 1;
        for port in subset.at("ports").items() {
            let name = port.at("name");
            if name.is_empty() {
                if several {
                    causes.push(name.required(""));
                }
            } else {
                name.follow(names::label, &mut causes);
            }
            port.at("port").port(&mut causes);
            if port.at("protocol").is_empty() {
                causes.push(port.at("protocol").required(""));
            } else {
                port.at("protocol").must_be_one_of(PROTOCOLS, &mut causes);
            }
            if port.at("appProtocol").is_set() {
                port.at("appProtocol").follow(names::qualified_name, &mut causes);
            }
        }
    }
    causes
}
