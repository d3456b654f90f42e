//! Decides the addresses and node ports of services: what a writer left open is given from the server's own
//! ranges, always the first that is free. Never gives one twice, and never takes one away that is kept. Answers
//! to `kubernetes/pkg/registry/core/service/storage/alloc.go` and the service strategy.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::object::{as_map_mut, map_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::store::Store;

const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

fn is_service(target: &Target) -> bool {
    target.kind.kind == "Service" && target.kind.group.is_empty()
}

/// Makes the service by which pods reach the server.
pub(crate) fn bootstrap(server: &Server, store: &mut Store) {
    let Some(index) = store.kinds.named("Service") else { return };
    let key = crate::object::key_of("default", "kubernetes");
    if store.get(index, &key).is_some() {
        return;
    }
    let range = Range::of(server);
    let address = range.at(1).to_string();
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "uid": server.uid(),
            "creationTimestamp": server.timestamp(),
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
            "clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    });
    store.put(index, key, service);
}

/// The addresses that services may have.
struct Range {
    first: u32,
    size: u32,
}

impl Range {
    fn of(server: &Server) -> Self {
        let (first, bits) = server.options.service_range;
        let size = 1_u32.checked_shl(32 - u32::from(bits.clamp(1, 32))).unwrap_or(u32::MAX);
        Self { first: u32::from(first) & !(size.wrapping_sub(1)), size }
    }

    fn at(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.first.wrapping_add(offset))
    }

    fn holds(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.first);
        offset > 0 && offset < self.size.saturating_sub(1)
    }

    /// The first free address, of the upper part first: the lower is for those who ask for one by name.
    fn free(&self, taken: &HashSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let last = self.size.saturating_sub(1);
        let lower = (self.size / 16).clamp(16, 256).min(last);
        let mut candidates = (lower..last).chain(1..lower).map(|offset| self.at(offset));
        candidates.find(|address| !taken.contains(address))
    }
}

fn needs_address(spec: &Value) -> bool {
    spec["type"] != "ExternalName"
}

fn needs_ports(spec: &Value) -> bool {
    match text(spec, &["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn needs_health_port(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Brings the single address and the list of addresses together, and keeps or drops what was given before.
pub(crate) fn normalise(target: &Target, old: Option<&Value>, value: &mut Value) {
    if !is_service(target) || !matches!(target.subresource.as_str(), "") {
        return;
    }
    if let Some(old) = old {
        keep(&old["spec"], map_mut(value, "spec"));
    }
    let spec = map_mut(value, "spec");
    let single = spec.get("clusterIP").cloned().filter(|ip| *ip != "");
    let many = spec.get("clusterIPs").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    match (single, many) {
        (Some(single), false) => drop(spec.insert("clusterIPs".into(), json!([single]))),
        (Some(single), true) => {
            let before = old.map(|old| &old["spec"]);
            let same = before.is_some_and(|before| spec.get("clusterIPs") == before.get("clusterIPs"));
            if same && before.is_some_and(|before| before["clusterIP"] != single) {
                spec.insert("clusterIPs".into(), json!([single]));
            }
        }
        _ => {}
    }
    if let Some(old) = old {
        drop_unneeded(&old["spec"], value);
    }
}

/// What an update leaves out stays as it was given.
fn keep(old: &Value, spec: &mut serde_json::Map<String, Value>) {
    let new = Value::Object(spec.clone());
    if needs_address(old) && needs_address(&new) {
        for field in ["clusterIP", "clusterIPs"] {
            let missing = spec.get(field).is_none_or(|ip| *ip == "" || *ip == json!([]));
            if let Some(before) = old.get(field).filter(|_| missing) {
                spec.insert(field.into(), before.clone());
            }
        }
    }
    if needs_ports(old) && needs_ports(&new) {
        let before = old["ports"].as_array().cloned().unwrap_or_default();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter(|port| port["nodePort"].as_i64().unwrap_or(0) == 0) {
            let same = |one: &&Value| one["protocol"] == port["protocol"] && one["port"] == port["port"];
            if let Some(number) = before.iter().find(same).and_then(|one| one.get("nodePort")) {
                as_map_mut(port).insert("nodePort".into(), number.clone());
            }
        }
    }
    if needs_health_port(old) && needs_health_port(&new) && !spec.contains_key("healthCheckNodePort") {
        spec.extend(
            old.get("healthCheckNodePort").map(|port| ("healthCheckNodePort".to_owned(), port.clone())),
        );
    }
}

/// What the new type has no use for goes, unless the writer changed it too.
fn drop_unneeded(old: &Value, value: &mut Value) {
    let new = value["spec"].clone();
    let spec = map_mut(value, "spec");
    let mut drop_same = |fields: &[&str]| {
        if fields.iter().all(|field| new.get(*field) == old.get(*field)) {
            spec.retain(|name, _| !fields.contains(&name.as_str()));
        }
    };
    if needs_address(old) && !needs_address(&new) {
        drop_same(&["clusterIP", "clusterIPs"]);
        drop_same(&["ipFamilies"]);
        drop_same(&["ipFamilyPolicy"]);
    }
    if needs_health_port(old) && !needs_health_port(&new) {
        drop_same(&["healthCheckNodePort"]);
    }
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if balanced(old) && !balanced(&new) {
        drop_same(&["allocateLoadBalancerNodePorts"]);
        drop_same(&["loadBalancerClass"]);
    }
    let reachable = |spec: &Value| {
        let external = spec["externalIPs"].as_array().is_some_and(|all| !all.is_empty());
        matches!(text(spec, &["type"]), "LoadBalancer" | "NodePort")
            || spec["type"] == "ClusterIP" && external
    };
    if reachable(old) && !reachable(&new) {
        drop_same(&["externalTrafficPolicy"]);
    }
    let numbers = |spec: &Value| {
        let ports = spec["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().map(|port| port["nodePort"].as_i64().unwrap_or(0)).collect::<Vec<_>>()
    };
    let uses_ports = |spec: &Value| matches!(text(spec, &["type"]), "LoadBalancer" | "NodePort");
    if uses_ports(old) && !uses_ports(&new) && numbers(old) == numbers(&new) {
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            as_map_mut(port).remove("nodePort");
        }
    }
    if !balanced(&new) {
        as_map_mut(value).insert("status".into(), json!({"loadBalancer": {}}));
    }
}

/// Gives a service what it lacks, or says why that can't be.
pub(crate) fn assign(
    server: &Server,
    store: &Store,
    target: &Target,
    old: Option<&Value>,
    value: &mut Value,
) -> Result<()> {
    if !is_service(target) {
        return Ok(());
    }
    let name = text(value, &["metadata", "name"]).to_owned();
    let refuse = |causes: &[Cause]| Err(Status::invalid_object(&target.kind, &name, causes));
    if needs_address(&value["spec"]) {
        let causes = families(old, value);
        if !causes.is_empty() {
            return refuse(&causes);
        }
        if let Some(cause) = address(server, store, target, old, value) {
            return refuse(&[cause]);
        }
    }
    if !needs_address(&value["spec"]) {
        map_mut(value, "spec").remove("internalTrafficPolicy");
    }
    let causes = node_ports(store, target, old, value);
    if causes.is_empty() { Ok(()) } else { refuse(&causes) }
}

/// The families of addresses; this cluster has the older one alone.
fn families(old: Option<&Value>, value: &mut Value) -> Vec<Cause> {
    let spec = map_mut(value, "spec");
    let headless = spec.get("clusterIP").is_some_and(|ip| *ip == "None");
    let selects = spec.get("selector").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    if !spec.contains_key("ipFamilyPolicy") {
        let before = old.and_then(|old| old["spec"].get("ipFamilyPolicy").cloned());
        let default = if headless && !selects { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".into(), before.unwrap_or_else(|| default.into()));
    }
    let policy = spec["ipFamilyPolicy"].clone();
    let list = |field: &str| spec.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let (ips, mut given) = (list("clusterIPs"), list("ipFamilies"));
    let mut causes = Vec::new();
    if policy == "SingleStack" {
        for (all, what) in [(&ips, "cluster IPs"), (&given, "IP families")] {
            if all.len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                causes.push(Cause::invalid("spec.ipFamilyPolicy", policy.clone(), &why));
            }
        }
    }
    for (index, ip) in ips.iter().enumerate().skip(given.len()).take_while(|(_, ip)| **ip != "None") {
        if ip.as_str().is_some_and(|ip| ip.contains(':')) {
            let field = format!("spec.clusterIPs[{index}]");
            causes.push(Cause::invalid(field, ips.clone(), "IPv6 is not configured on this cluster"));
        } else {
            given.push("IPv4".into());
        }
    }
    if !causes.is_empty() {
        return causes;
    }
    if headless && !selects {
        if given.is_empty() {
            given.push("IPv4".into());
        }
        if given.len() < 2 && policy != "SingleStack" {
            given.push(if given[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
        }
        spec.insert("ipFamilies".into(), given.into());
        return causes;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        causes.push(Cause::invalid("spec.ipFamilyPolicy", policy, why));
    }
    for (index, family) in given.iter().enumerate().filter(|(_, family)| **family != "IPv4") {
        let field = format!("spec.ipFamilies[{index}]");
        causes.push(Cause::invalid(field, family.clone(), "not configured on this cluster"));
    }
    if given.is_empty() {
        given.push("IPv4".into());
    }
    spec.insert("ipFamilies".into(), given.into());
    causes
}

fn address(
    server: &Server,
    store: &Store,
    target: &Target,
    old: Option<&Value>,
    value: &mut Value,
) -> Option<Cause> {
    let range = Range::of(server);
    let spec = map_mut(value, "spec");
    let given = spec.get("clusterIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let kept = old.is_some_and(|old| text(old, &["spec", "clusterIP"]) == given);
    if given == "None" || kept && !given.is_empty() {
        return None;
    }
    let others = store.list(target.index);
    let taken: HashSet<Ipv4Addr> =
        others.values().filter_map(|other| text(&other.value, &["spec", "clusterIP"]).parse().ok()).collect();
    let why = |why: &str| {
        Some(Cause::invalid(
            "spec.clusterIPs",
            json!([given]),
            &format!("failed to allocate IP {given}: {why}"),
        ))
    };
    let chosen = if given.is_empty() {
        range.free(&taken)
    } else {
        match given.parse() {
            Ok(address) if !range.holds(address) => {
                return why("the provided network does not match the current range");
            }
            Ok(address) if taken.contains(&address) => return why("provided IP is already allocated"),
            other => other.ok(),
        }
    };
    let Some(chosen) = chosen.map(|address| address.to_string()) else { return why("range is full") };
    spec.insert("clusterIP".into(), chosen.as_str().into());
    spec.insert("clusterIPs".into(), json!([chosen]));
    None
}

fn node_ports(store: &Store, target: &Target, old: Option<&Value>, value: &mut Value) -> Vec<Cause> {
    let own: Vec<(String, i64)> = old.map(ports_of).unwrap_or_default();
    let others = store.list(target.index);
    let mine =
        (text(value, &["metadata", "namespace"]).to_owned(), text(value, &["metadata", "name"]).to_owned());
    // A new service of a name that is taken finds the ports of the one that has it taken too.
    let others = others
        .values()
        .filter(|other| old.is_none() || (other.namespace(), other.name()) != (&mine.0, &mine.1));
    let mut taken: HashSet<(String, i64)> = others.flat_map(|other| ports_of(&other.value)).collect();
    let mut causes = Vec::new();
    let (gives, health) = (needs_ports(&value["spec"]), needs_health_port(&value["spec"]));
    let spec = map_mut(value, "spec");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    for (index, port) in ports.enumerate() {
        let protocol = text(port, &["protocol"]).to_owned();
        let number = port["nodePort"].as_i64().unwrap_or(0);
        let asked = (protocol.clone(), number);
        let field = format!("spec.ports[{index}].nodePort");
        if number == 0 {
            let free = gives
                .then(|| NODE_PORTS.into_iter().find(|port| !taken.contains(&(protocol.clone(), *port))));
            if let Some(free) = free.flatten() {
                taken.insert((protocol, free));
                as_map_mut(port).insert("nodePort".into(), free.into());
            }
        } else if !own.contains(&asked) && !NODE_PORTS.contains(&number) {
            let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            causes.push(Cause::invalid(field, number, why));
        } else if taken.contains(&asked) {
            causes.push(Cause::invalid(field, number, "provided port is already allocated"));
        } else {
            taken.insert(asked);
        }
    }
    if health && !spec.contains_key("healthCheckNodePort") {
        let free = NODE_PORTS.into_iter().find(|port| !taken.contains(&("TCP".to_owned(), *port)));
        spec.extend(free.map(|port| ("healthCheckNodePort".to_owned(), port.into())));
    }
    causes
}

/// The node ports that a service has, with their protocols.
fn ports_of(service: &Value) -> Vec<(String, i64)> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut all: Vec<(String, i64)> = ports
        .filter_map(|port| Some((text(port, &["protocol"]).to_owned(), port["nodePort"].as_i64()?)))
        .collect();
    all.extend(service["spec"]["healthCheckNodePort"].as_i64().map(|port| ("TCP".to_owned(), port)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_part_of_the_range_is_given_last() {
        let range = Range { first: u32::from(Ipv4Addr::new(10, 0, 0, 0)), size: 256 };
        let mut taken = HashSet::new();
        assert_eq!(range.free(&taken), Some(Ipv4Addr::new(10, 0, 0, 16)));
        taken.extend((16..255).map(|last| Ipv4Addr::new(10, 0, 0, last)));
        assert_eq!(range.free(&taken), Some(Ipv4Addr::new(10, 0, 0, 1)));
        taken.extend((1..16).map(|last| Ipv4Addr::new(10, 0, 0, last)));
        assert_eq!(range.free(&taken), None);
        assert!(!range.holds(Ipv4Addr::new(10, 0, 0, 255)) && !range.holds(Ipv4Addr::new(10, 0, 1, 1)));
    }
}
