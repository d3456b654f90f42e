//! What an account asked of a kube-apiserver, by its audit log, beside what its roles permit.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::shipped::{list, name, of_kind, texts};

/// Which requests are written down: those of the accounts of kube-system.
pub fn policy() -> String {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "Metadata", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "None"},
        ],
    })
    .to_string()
}

/// A request.
#[derive(Debug)]
pub struct Asked {
    user: String,
    /// The program that asked.
    agent: String,
    verb: String,
    group: String,
    /// With its subresource.
    resource: String,
    /// Whose permission it was, in the words of the API server.
    reason: String,
    /// Whether it was not permitted.
    pub forbidden: bool,
    uri: String,
}

impl Asked {
    fn read(line: &str) -> Self {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text =
            |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut resource = text("/objectRef/resource");
        let sub = text("/objectRef/subresource");
        if !sub.is_empty() {
            resource = format!("{resource}/{sub}");
        }
        let annotation = |name: &str| text(&format!("/annotations/authorization.k8s.io~1{name}"));
        let forbidden = annotation("decision") == "forbid" || event["responseStatus"]["code"] == 403;
        Asked {
            user: text("/user/username"),
            agent: text("/userAgent"),
            verb: text("/verb"),
            group: text("/objectRef/apiGroup"),
            resource,
            reason: annotation("reason"),
            forbidden,
            uri: text("/requestURI"),
        }
    }
}

/// What an account has asked so far.
pub fn of(account: &str, log: &Path) -> Vec<Asked> {
    let text = std::fs::read_to_string(log).expect("the API server writes down what is asked");
    // The last line may still be under way.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let user = format!("system:serviceaccount:kube-system:{account}");
    whole.lines().map(Asked::read).filter(|asked| asked.user == user).collect()
}

/// One thing that a role permits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The role's kind and name.
    pub role: String,
    /// `verb resource.group`.
    pub what: String,
}

/// All that the roles among the objects permit.
pub fn permitted(objects: &[Value]) -> BTreeSet<Permission> {
    let mut all = BTreeSet::new();
    for kind in ["ClusterRole", "Role"] {
        for role in of_kind(objects, kind) {
            for rule in list(role, "/rules") {
                for group in texts(rule, "/apiGroups") {
                    for resource in texts(rule, "/resources") {
                        for verb in texts(rule, "/verbs") {
                            let role = format!("{kind} \"{}\"", name(role));
                            all.insert(Permission { role, what: what(verb, resource, group) });
                        }
                    }
                }
            }
        }
    }
    all
}

fn what(verb: &str, resource: &str, group: &str) -> String {
    if group.is_empty() { format!("{verb} {resource}") } else { format!("{verb} {resource}.{group}") }
}

/// What is permitted and was never asked for by that permission.
pub fn unused(permitted: &BTreeSet<Permission>, asked: &[Asked]) -> BTreeSet<Permission> {
    let mut left = permitted.clone();
    for asked in asked {
        let what = what(&asked.verb, &asked.resource, &asked.group);
        left.retain(|permission| !(permission.what == what && asked.reason.contains(&permission.role)));
    }
    left
}

/// The requests that were refused, in words.
pub fn refused(asked: &[Asked]) -> BTreeSet<String> {
    let refused = asked.iter().filter(|asked| asked.forbidden);
    refused.map(|asked| format!("{} {} by {}", asked.verb, asked.uri, asked.agent)).collect()
}

#[test]
fn a_permission_is_used_by_what_is_asked_because_of_it() {
    let role = json!({
        "kind": "Role", "metadata": {"name": "r"},
        "rules": [{"apiGroups": ["g"], "resources": ["things", "things/status"], "verbs": ["get", "patch"]}],
    });
    let permitted = permitted(&[role]);
    assert_eq!(permitted.len(), 4);
    let line = |verb: &str, role: &str| {
        json!({
            "user": {"username": "u"}, "verb": verb, "requestURI": "/",
            "objectRef": {"resource": "things", "subresource": "status", "apiGroup": "g"},
            "annotations": {
                "authorization.k8s.io/decision": "allow",
                "authorization.k8s.io/reason": format!("RBAC: allowed by RoleBinding \"b\" of Role \"{role}\" to User \"u\""),
            },
        })
        .to_string()
    };
    let asked = [line("patch", "r"), line("get", "other")].map(|line| Asked::read(&line));
    let left: Vec<_> = unused(&permitted, &asked).into_iter().map(|left| left.what).collect();
    assert_eq!(left, ["get things.g", "get things/status.g", "patch things.g"]);
    assert_eq!(refused(&asked), BTreeSet::new());
}
