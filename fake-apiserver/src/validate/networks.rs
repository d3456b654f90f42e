//! Decides whether a network policy may be stored. Answers to `kubernetes/pkg/apis/networking/validation`.

use serde_json::Value;

use super::field::{Causes, Field};
use super::{addresses, selectors};
use crate::status::Cause;

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const TYPES: &[&str] = &["Ingress", "Egress"];

pub(super) fn policy(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let spec = Field::root(value).at("spec");
    selectors::selector(&spec.at("podSelector"), &mut causes);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(rules).items() {
            for one in rule.at("ports").items() {
                port(&one, &mut causes);
            }
            for one in rule.at(peers).items() {
                peer(&one, &mut causes);
            }
        }
    }
    let types = spec.at("policyTypes");
    if types.len() > TYPES.len() {
        causes.push(types.invalid("may not specify more than two policyTypes"));
        return causes;
    }
    for one in types.items() {
        one.must_be_one_of(TYPES, &mut causes);
    }
    causes
}

fn port(rule: &Field<'_>, causes: &mut Causes) {
    let (protocol, port, end) = (rule.at("protocol"), rule.at("port"), rule.at("endPort"));
    if protocol.is_set() {
        protocol.must_be_one_of(PROTOCOLS, causes);
    }
    let why = match port.value {
        Value::Null => "may not be specified when `port` is not specified",
        Value::String(_) => "may not be specified when `port` is non-numeric",
        _ => "",
    };
    if port.is_set() {
        port.port_or_name(causes);
    }
    if !end.is_set() {
        return;
    }
    if !why.is_empty() {
        causes.push(end.invalid(why));
        return;
    }
    if end.number() < port.number() {
        let why = "must be greater than or equal to `port`";
        causes.push(Cause::invalid(end.path.as_str(), port.value.clone(), why));
    }
    end.port(causes);
}

fn peer(peer: &Field<'_>, causes: &mut Causes) {
    let selectors = ["podSelector", "namespaceSelector"].map(|field| peer.at(field));
    let block = peer.at("ipBlock");
    for selector in selectors.iter().filter(|selector| selector.is_set()) {
        selectors::selector(selector, causes);
    }
    let selects = selectors.iter().any(Field::is_set);
    if block.is_set() {
        block_of(&block, causes);
        if selects {
            causes.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
    } else if !selects {
        causes.push(peer.required("must specify a peer"));
    }
}

fn block_of(block: &Field<'_>, causes: &mut Causes) {
    let whole = block.at("cidr");
    if whole.is_empty() {
        causes.push(whole.required(""));
        return;
    }
    let Some(range) = addresses::range(&whole, causes) else { return };
    for except in block.at("except").items() {
        let smaller = addresses::range(&except, causes);
        if smaller.is_some_and(|smaller| !range.holds(smaller)) {
            causes.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "the tables below are read more easily")]
    fn check(rule: Value, fields: &[&str]) {
        let causes = policy(&json!({"spec": {"podSelector": {}, "egress": [rule]}}));
        let found: Vec<&str> =
            causes.iter().filter_map(|cause| cause.sentence().split(": ").next()).collect();
        let shown: Vec<String> = fields.iter().map(|field| format!("spec.egress[0].{field}")).collect();
        assert_eq!(found, shown);
    }

    #[test]
    fn a_peer_is_selected_or_a_block() {
        check(json!({"to": [{"podSelector": {}, "namespaceSelector": {}}]}), &[]);
        check(json!({"to": [{}]}), &["to[0]"]);
        check(json!({"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}), &["to[0]"]);
        let block = |except: &str| json!({"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": [except]}}]});
        check(block("10.1.0.0/16"), &[]);
        check(block("10.0.0.0/8"), &["to[0].ipBlock.except[0]"]);
        check(block("11.0.0.0/16"), &["to[0].ipBlock.except[0]"]);
    }

    #[test]
    fn ports_end_where_they_begin_or_later() {
        check(json!({"ports": [{"port": 80, "endPort": 90}, {"port": "http"}]}), &[]);
        check(json!({"ports": [{"port": 80, "endPort": 79}]}), &["ports[0].endPort"]);
        check(json!({"ports": [{"port": "http", "endPort": 79}]}), &["ports[0].endPort"]);
        check(json!({"ports": [{"endPort": 79}]}), &["ports[0].endPort"]);
    }
}
