//! `assumeCacheTrace`: what is reserved of an object, and for how long.
//!
//! Upstream's newer cache looks at the informer's store, of whose changes it is told later on; here the store is the
//! cluster, which is told once: `store.…` are its changes then, and `event.…` say nothing new. The older cache has events
//! alone.

use std::collections::{BTreeMap, BTreeSet};

use pvbind::cluster::{Cluster, Key, Object};
use pvbind::objects::{Claim, Volume, annotation, volume};
use serde_json::Value;

use crate::record::Record;
use crate::story::Story;

/// One cache, and the objects that the steps speak of.
struct Cache {
    cluster: Cluster,
    objects: BTreeMap<String, Object>,
}

pub fn run(record: &Record) -> String {
    let mut story = Story::default();
    let objects = record.objects.as_object().expect("objects");
    let named = objects.iter().map(|(name, value)| (name.clone(), object(value)));
    let mut cache = Cache { cluster: Cluster::new(), objects: named.collect() };
    for (name, object) in &cache.objects {
        let version = object.metadata().resource_version.as_deref().unwrap_or_default();
        story.line(format_args!("{name} is {} @{version}", object.key()));
    }
    let told_apart = record.steps.iter().any(|step| op(step).starts_with("store."));
    let mut assumed = None;
    for step in &record.steps {
        match op(step) {
            "assume" => {
                let object = cache.named(step);
                let done = cache.cluster.reserve(object).map(drop).map_err(|error| error.to_string());
                story.line(format_args!("assume {} -> {done:?}", text(step, "object")));
                check_assume(record, step, done.as_ref().err());
                if record.differs.is_some() {
                    // What this source takes is refused here: the object stays what it was.
                    cache.keep(step);
                }
                assumed = Some(done.is_ok());
            }
            "event.add" | "event.update" | "event.delete" if told_apart => {}
            op => {
                let answer = cache.step(op, step);
                story.line(format_args!("{op} {}{answer}", about(step)));
            }
        }
    }
    if let Some(succeeds) = record.want.get("assumeSucceeds").and_then(Value::as_bool) {
        assert_eq!(assumed, Some(succeeds), "assumeSucceeds");
    }
    story.text()
}

fn op(step: &Value) -> &str {
    step["op"].as_str().expect("an operation")
}

fn text<'a>(step: &'a Value, field: &str) -> &'a str {
    step[field].as_str().unwrap_or_default()
}

fn about(step: &Value) -> String {
    ["object", "key", "value"].map(|field| text(step, field)).concat()
}

/// The text is compared with that of the behaviour; another source only says whether it fails.
fn check_assume(record: &Record, step: &Value, error: Option<&String>) {
    let recorded = step["error"].as_str();
    if let Some(wanted) = record.differs.as_ref() {
        // This source takes newer versions, too.
        assert_eq!((wanted["assumeSucceeds"].as_bool(), recorded), (Some(true), None));
        let wanted = "is out of sync (stored: 5, assume: 6)";
        assert!(error.is_some_and(|error| error.ends_with(wanted)), "{error:?}");
    } else if record.is_behaviour() {
        // The records' objects are of a kind of their own.
        let recorded = recorded.map(|error| error.replace("tests ", "persistentvolumeclaims "));
        assert_eq!(error, recorded.as_ref(), "assume");
    } else {
        assert_eq!(error.is_some(), recorded.is_some(), "assume");
    }
}

/// What has a namespace is a claim here, what has none a volume.
fn object(value: &Value) -> Object {
    let mut value = value.clone();
    let fields = value.as_object_mut().expect("an object");
    fields.remove("apiVersion");
    fields.remove("kind");
    if value["metadata"]["namespace"].is_string() {
        Object::from(serde_json::from_value::<Claim>(value).expect("a claim"))
    } else {
        Object::from(serde_json::from_value::<Volume>(value).expect("a volume"))
    }
}

fn key(path: &str) -> Key {
    match path.split_once('/') {
        Some((namespace, name)) => Key::claim(namespace, name),
        None => Key::volume(path),
    }
}

impl Cache {
    fn named(&self, step: &Value) -> Object {
        self.objects[text(step, "object")].clone()
    }

    /// Lets the name of an object that was refused stand for the one that stayed.
    fn keep(&mut self, step: &Value) {
        let stayed = self.cluster.object(&self.named(step).key()).cloned().expect("it was shown");
        self.objects.insert(text(step, "object").to_owned(), stayed);
    }

    /// Does one step, and compares what is recorded of it.
    fn step(&mut self, op: &str, step: &Value) -> String {
        match op {
            "newCache" => {
                // A new cache on the same store: what is assumed is forgotten.
                let mut cluster = Cluster::new();
                for object in self.cluster.volumes().cloned() {
                    cluster.show(Object::Volume(object));
                }
                self.cluster = cluster;
            }
            "store.add" | "store.update" | "event.add" | "event.update" => {
                self.cluster.show(self.named(step));
            }
            "store.delete" | "event.delete" => {
                self.cluster.gone(&self.named(step).key());
            }
            "restore" => match step["key"].as_str() {
                Some(path) => {
                    if let Some(object) = self.cluster.object(&key(path)).cloned() {
                        self.cluster.release(&object);
                    }
                }
                None => {
                    self.cluster.release(&self.named(step));
                }
            },
            "get" | "getPV" | "getPVC" => return self.get(step),
            "byIndex" => {
                let value = text(step, "value");
                self.list(step, |v| annotation(&v.metadata, "test").unwrap_or_default() == value);
            }
            "listPVs" => {
                let class = step["value"].as_str().or(step["storageClass"].as_str()).unwrap_or_default();
                self.list(step, |v| volume::class(v) == class);
            }
            other => panic!("unknown step {other}"),
        }
        String::new()
    }

    fn get(&self, step: &Value) -> String {
        let found = self.cluster.object(&key(text(step, "key")));
        let wanted = step["returns"].as_str().map(|name| &self.objects[name]);
        assert_eq!(found, wanted, "{step}");
        assert_eq!(found.is_none(), step["error"].is_string(), "{step}");
        step["returns"].as_str().map_or(" -> nothing".to_owned(), |name| format!(" -> {name}"))
    }

    fn list(&self, step: &Value, has: impl Fn(&Volume) -> bool) {
        let found = self.cluster.volumes().filter(|volume| has(volume));
        let found: BTreeSet<_> = found.map(|v| Object::Volume(v.clone()).key()).collect();
        let names = step["returnsUnordered"].as_array().into_iter().flatten();
        let wanted: Vec<&Object> = names.map(|name| &self.objects[name.as_str().expect("a name")]).collect();
        assert_eq!(found, wanted.iter().map(|object| object.key()).collect(), "{step}");
        for object in wanted {
            assert_eq!(self.cluster.object(&object.key()), Some(object), "{step}");
        }
    }
}
