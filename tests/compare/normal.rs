//! An end state in a form in which two runs can be compared: all fields, but what is a time, a version or a random part of a
//! name is told by what it stands for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::cluster::text;
use crate::quiet::{Census, Snapshot};

/// What is compared: object, field, value.
pub type Normal = BTreeMap<(String, String), Value>;

/// What names and uids of one run are called in both.
struct Names {
    /// Longest first, so that no name is found within another.
    known: Vec<(String, String)>,
}

fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

impl Names {
    fn new(snapshot: &Snapshot, census: &Census) -> Self {
        let mut known = Self::pods(snapshot);
        let alive: Vec<&str> = snapshot.objects().map(|(_, object)| text(object, "/metadata/uid")).collect();
        let pods = Names { known: known.clone() };
        for (uid, whose) in census {
            let whose = pods.replace(whose);
            let gone = if alive.contains(&uid.as_str()) { "" } else { "(gone)" };
            if let Some(claim) = whose.strip_prefix("PersistentVolumeClaim ") {
                known.push((format!("pvc-{uid}"), format!("provisioned:{claim}{gone}")));
            }
            known.push((uid.clone(), format!("<uid of {whose}{gone}>")));
        }
        known.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        Names { known }
    }

    /// Pods whose names are made up are numbered by their nodes.
    fn pods(snapshot: &Snapshot) -> Vec<(String, String)> {
        let mut groups: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for pod in &snapshot.pods {
            let stem = text(pod, "/metadata/generateName");
            // A replica of a StatefulSet has a name that is its own.
            let name = text(pod, "/metadata/name");
            let node = text(pod, "/spec/nodeName");
            if !stem.is_empty() && pod.pointer("/metadata/labels/apps.kubernetes.io~1pod-index").is_none() {
                groups.entry(stem).or_default().push((if node.is_empty() { "~" } else { node }, name));
            }
        }
        let mut names = Vec::new();
        for (stem, mut pods) in groups {
            pods.sort_unstable();
            let numbered = pods.into_iter().enumerate();
            names.extend(numbered.map(|(number, (_, name))| (name.to_owned(), format!("{stem}{number}"))));
        }
        names
    }

    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, symbol) in &self.known {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), symbol);
            }
        }
        text
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => Value::from("<time>"),
            Value::String(text) if is_uid(text) => {
                let symbol = self.replace(text);
                Value::from(if symbol == *text { "<uid of nobody>".to_owned() } else { symbol })
            }
            Value::String(text) => Value::from(self.replace(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| {
                    let version = key == "resourceVersion";
                    (key.clone(), if version { Value::from("<version>") } else { self.value(value) })
                });
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Lists of which the order says nothing.
fn sort(object: &mut Value) {
    for (pointer, key) in
        [("/metadata/finalizers", ""), ("/status/conditions", "/type"), ("/metadata/ownerReferences", "/uid")]
    {
        if let Some(Value::Array(items)) = object.pointer_mut(pointer) {
            items
                .sort_by_key(|item| item.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned());
        }
    }
}

/// Every field that is no mapping, by its path.
fn flatten(value: &Value, path: &str, object: &str, normal: &mut Normal) {
    match value {
        // Conditions, each by its type.
        Value::Array(items) if !items.is_empty() && items.iter().all(|item| item.get("type").is_some()) => {
            for item in items {
                flatten(item, &format!("{path}[{}]", text(item, "/type")), object, normal);
            }
        }
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(value, &path, object, normal);
            }
        }
        _ => {
            normal.insert((object.to_owned(), path.to_owned()), value.clone());
        }
    }
}

/// Fields in which no two runs are alike.
const OWN: [&str; 4] = ["uid", "resourceVersion", "managedFields", "creationTimestamp"];

fn object(kind: &str, object: &Value, names: &Names, normal: &mut Normal) {
    let mut object = object.clone();
    for field in OWN {
        object["metadata"].as_object_mut().expect("an object has metadata").remove(field);
    }
    let mut object = names.value(&object);
    sort(&mut object);
    let (namespace, name) = (text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
    let whose =
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") };
    normal.insert((whose.clone(), "exists".to_owned()), Value::Bool(true));
    flatten(&object, "", &whose, normal);
}

/// An event is there or not; how often it was repeated says how long one has waited.
fn event(event: &Value, names: &Names, normal: &mut Normal) {
    let of = |pointer: &str| names.replace(text(event, pointer));
    let (kind, namespace, name) =
        (of("/involvedObject/kind"), of("/involvedObject/namespace"), of("/involvedObject/name"));
    let whose =
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") };
    let message = of("/message");
    let field = format!("event {} {}: {message}", of("/type"), of("/reason"));
    let by = match text(event, "/reportingComponent") {
        "" => of("/source/component"),
        component => component.to_owned(),
    };
    normal.insert((whose, field), Value::from(format!("by {by}")));
}

/// The end state of a run. Events about objects of runs before are left out.
pub fn normal(snapshot: &Snapshot, census: &Census, before: &Census) -> Normal {
    let names = Names::new(snapshot, census);
    let mut normal = Normal::new();
    for (kind, found) in snapshot.objects() {
        object(kind, found, &names, &mut normal);
    }
    for found in &snapshot.events {
        if !before.contains_key(text(found, "/involvedObject/uid")) {
            event(found, &names, &mut normal);
        }
    }
    normal
}
