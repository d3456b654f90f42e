//! Decides whether a slice of the endpoints of a service may be stored. Answers to
//! `kubernetes/pkg/apis/discovery/validation`.

use serde_json::Value;

use super::addresses;
use super::field::{Causes, Field};
use super::{names, selectors};
use crate::status::Cause;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MOST_ENDPOINTS: i64 = 1000;
const MOST_PORTS: i64 = 20_000;
const MOST_ADDRESSES: i64 = 100;
const MOST_HINTS: i64 = 8;

pub(super) fn create(value: &Value) -> Causes {
    checked(None, value)
}

pub(super) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = checked(Some(old), new);
    if old["addressType"] != new["addressType"] {
        causes.push(Field::root(new).at("addressType").invalid("field is immutable"));
    }
    causes
}

fn checked(old: Option<&Value>, value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    let kind = root.at("addressType");
    if kind.is_empty() {
        causes.push(kind.required(""));
    } else {
        kind.must_be_one_of(&["FQDN", "IPv4", "IPv6"], &mut causes);
    }
    ports(&root.at("ports"), &mut causes);
    // What is stored already was good once.
    if old.is_none_or(|old| old["endpoints"] != value["endpoints"]) {
        endpoints(&root.at("endpoints"), kind.text(), &mut causes);
    }
    causes
}

/// Whether a list is longer than it may be, which is said alone.
fn is_too_long(list: &Field<'_>, most: i64, causes: &mut Causes) -> bool {
    let too_long = i64::try_from(list.len()).is_ok_and(|count| count > most);
    if too_long {
        causes.push(Cause::too_many(list.path.as_str(), list.len(), most));
    }
    too_long
}

fn endpoints(list: &Field<'_>, kind: &str, causes: &mut Causes) {
    if is_too_long(list, MOST_ENDPOINTS, causes) {
        return;
    }
    for endpoint in list.items() {
        let all = endpoint.at("addresses");
        if all.is_empty() {
            causes.push(all.required("must contain at least 1 address"));
        }
        is_too_long(&all, MOST_ADDRESSES, causes);
        for address in all.items() {
            address_of(kind, &address, &all, causes);
        }
        let (node, host) = (endpoint.at("nodeName"), endpoint.at("hostname"));
        if node.is_set() {
            node.follow(names::subdomain, causes);
        }
        selectors::labels(&endpoint.at("deprecatedTopology"), causes);
        if host.is_set() {
            host.follow(names::label, causes);
        }
        hints(&endpoint.at("hints"), causes);
    }
}

fn address_of(kind: &str, address: &Field<'_>, all: &Field<'_>, causes: &mut Causes) {
    let parsed = match kind {
        "IPv4" => addresses::address(address, causes),
        "IPv6" => addresses::strict(address, causes),
        "FQDN" => return full_name(address, causes),
        _ => return,
    };
    let Some(parsed) = parsed else { return };
    if parsed.is_ipv4() != (kind == "IPv4") {
        let why = format!("must be an {kind} address");
        causes.push(Cause::invalid(all.path.as_str(), address.value.clone(), &why));
    }
    addresses::endpoint(parsed, address, causes);
}

/// A name of two parts at least.
fn full_name(field: &Field<'_>, causes: &mut Causes) {
    if field.is_empty() {
        return causes.push(field.required(""));
    }
    let name = field.text().strip_suffix('.').unwrap_or(field.text());
    let mut wrong = names::subdomain(name);
    if wrong.is_empty() && !name.contains('.') {
        wrong.push("should be a domain with at least two segments separated by dots".to_owned());
    }
    if wrong.is_empty() {
        wrong = name.split('.').map(names::label).find(|wrong| !wrong.is_empty()).unwrap_or_default();
    }
    if !wrong.is_empty() {
        causes.push(Cause::invalid(field.path.as_str(), name, &wrong.join(",")));
    }
}

fn hints(hints: &Field<'_>, causes: &mut Causes) {
    for list in ["forZones", "forNodes"] {
        let rule = if list == "forZones" { names::label_values } else { names::subdomain };
        let list = hints.at(list);
        if is_too_long(&list, MOST_HINTS, causes) {
            return;
        }
        let mut seen = Vec::new();
        for name in list.items().iter().map(|hint| hint.at("name")) {
            if seen.contains(&name.text()) {
                causes.push(name.duplicate());
            }
            seen.push(name.text());
            name.follow(rule, causes);
        }
    }
}

fn ports(list: &Field<'_>, causes: &mut Causes) {
    if is_too_long(list, MOST_PORTS, causes) {
        return;
    }
    let mut seen = std::collections::BTreeSet::new();
    for port in list.items() {
        let name = port.at("name");
        if !name.is_empty() {
            name.follow(names::label, causes);
        }
        if !seen.insert(name.text()) {
            causes.push(name.duplicate());
        }
        let protocol = port.at("protocol");
        if protocol.is_set() {
            protocol.must_be_one_of(PROTOCOLS, causes);
        } else {
            causes.push(protocol.required(""));
        }
        if port.at("appProtocol").is_set() {
            port.at("appProtocol").follow(names::qualified_names, causes);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
    fn check(kind: &str, endpoint: Value, fields: &[&str]) {
        let causes = create(&json!({"addressType": kind, "endpoints": [endpoint]}));
        let found: Vec<&str> =
            causes.iter().filter_map(|cause| cause.sentence().split(": ").next()).collect();
        assert_eq!(found, fields);
    }

    #[test]
    fn addresses_are_of_the_type_of_their_slice() {
        let first = "endpoints[0].addresses[0]";
        check("IPv4", json!({"addresses": ["10.0.0.1"]}), &[]);
        check("IPv4", json!({"addresses": ["2001:db8::1"]}), &["endpoints[0].addresses"]);
        check("IPv4", json!({"addresses": ["127.0.0.1"]}), &[first]);
        check("IPv6", json!({"addresses": ["2001:DB8::1"]}), &[first]);
        check("FQDN", json!({"addresses": ["a.b."]}), &[]);
        check("FQDN", json!({"addresses": ["a"]}), &[first]);
        check("IPv4", json!({}), &["endpoints[0].addresses"]);
    }

    #[test]
    fn what_is_stored_is_not_judged_again_and_the_type_stays() {
        let slice = |kind: &str| json!({"addressType": kind, "endpoints": [{"addresses": ["127.0.0.1"]}]});
        assert_eq!(create(&slice("IPv4")).len(), 1);
        assert!(update(&slice("IPv4"), &slice("IPv4")).is_empty());
        assert_eq!(update(&slice("IPv4"), &slice("IPv6")).len(), 1);
    }
}
