//! Reading a simulated cluster out.

use std::collections::BTreeMap;

use fake_apiserver::FakeApiServer;
use serde_json::Value;

use super::report::{Claim, Event, Pod, Reason, Report, Volume};
use crate::cluster::{Cluster, Key};
use crate::decide::{self, Settings};
use crate::explain;
use crate::manifest::field::{at, text};

fn tell(reasons: &[decide::Reason], about: &Key) -> Vec<Reason> {
    reasons
        .iter()
        .map(|reason| Reason {
            code: reason.code().to_owned(),
            subject: reason.subject().unwrap_or_else(|| about.to_string()),
            message: reason.to_string(),
            fix: reason.fix(),
        })
        .collect()
}

/// What became of everything: the objects from the server, the reasons from the cluster as the program knew it.
#[must_use]
pub fn report(
    server: &FakeApiServer,
    cluster: &Cluster,
    settings: &Settings,
    settled: bool,
    virtual_seconds: f64,
    warnings: Vec<String>,
) -> Report {
    let mut report = Report { settled, virtual_seconds, warnings, ..Report::default() };
    let mut events = Vec::new();
    for object in server.objects() {
        let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        match text(&object, "/kind") {
            "PersistentVolumeClaim" => {
                let key = Key::claim(namespace, name);
                report.claims.push(Claim {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    phase: text(&object, "/status/phase").to_owned(),
                    volume: text(&object, "/spec/volumeName").to_owned(),
                    reasons: tell(&explain::claim(cluster, settings, &key), &key),
                });
            }
            "PersistentVolume" => {
                let key = Key::volume(name);
                report.volumes.push(Volume {
                    name: name.to_owned(),
                    phase: text(&object, "/status/phase").to_owned(),
                    claim: claim_of(&object),
                    reasons: tell(&explain::volume(cluster, settings, &key), &key),
                });
            }
            "Pod" => {
                let key = Key::pod(namespace, name);
                report.pods.push(Pod {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    node: text(&object, "/spec/nodeName").to_owned(),
                    reasons: tell(&explain::pod(cluster, settings, &key), &key),
                });
            }
            "Event" => {
                events.push(event(&object));
                continue;
            }
            _ => {}
        }
        // Events have a list of their own; their names depend on the wall clock.
        report.objects.push(Value::clone(&object));
    }
    report.events = gather(events);
    report.sort();
    report
}

fn claim_of(volume: &Value) -> String {
    match at(volume, "/spec/claimRef") {
        Some(reference) => format!("{}/{}", text(reference, "/namespace"), text(reference, "/name")),
        None => String::new(),
    }
}

/// An event, in whichever of the two APIs' forms it is stored.
fn event(object: &Value) -> Event {
    let reference = object.get("involvedObject").or_else(|| object.get("regarding")).unwrap_or(&Value::Null);
    let (kind, namespace, name) =
        (text(reference, "/kind"), text(reference, "/namespace"), text(reference, "/name"));
    let regarding = match (kind, namespace) {
        ("PersistentVolume" | "Node" | "StorageClass", _) | (_, "") => format!("{kind}/{name}"),
        _ => format!("{kind}/{namespace}/{name}"),
    };
    let message = object.get("message").or_else(|| object.get("note")).and_then(Value::as_str);
    let count = |path: &str| at(object, path).and_then(Value::as_u64).filter(|count| *count > 0);
    let count =
        count("/series/count").or_else(|| count("/count")).or_else(|| count("/deprecatedCount")).unwrap_or(1);
    Event {
        kind: text(object, "/type").to_owned(),
        reason: text(object, "/reason").to_owned(),
        regarding,
        message: message.unwrap_or_default().to_owned(),
        count: u32::try_from(count).unwrap_or(u32::MAX),
    }
}

/// Counts equal events together, so that the order in which they were stored does not matter.
fn gather(events: Vec<Event>) -> Vec<Event> {
    let mut counts: BTreeMap<(String, String, String, String), u32> = BTreeMap::new();
    for Event { kind, reason, regarding, message, count } in events {
        let sum = counts.entry((regarding, kind, reason, message)).or_default();
        *sum = sum.saturating_add(count);
    }
    counts
        .into_iter()
        .map(|((regarding, kind, reason, message), count)| Event { kind, reason, regarding, message, count })
        .collect()
}
