//! The recorded cases as they stand in `testdata/upstream`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use pvbind::cluster::{Key, Object};
use pvbind::objects::{Claim, Class, Node, Pod, Volume, translation};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::mock;

/// Where the recorded files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/upstream/pv-controller");

/// One controller case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub key: String,
    pub func: String,
    #[serde(default)]
    pub mode: String,
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    #[serde(default)]
    pub controller_options: ControllerOptions,
    #[serde(default)]
    pub call: Call,
    #[serde(default)]
    pub api_errors: Vec<ApiError>,
    #[serde(default)]
    pub storage_classes: Vec<Class>,
    #[serde(default)]
    pub pods: Vec<Pod>,
    #[serde(default)]
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub initial_volumes: Vec<Volume>,
    #[serde(default)]
    pub initial_volumes_placement: Vec<Placement>,
    #[serde(default)]
    pub initial_claims: Vec<Claim>,
    #[serde(default)]
    pub initial_claims_placement: Vec<Placement>,
    #[serde(default)]
    pub expected_volumes: Vec<Volume>,
    #[serde(default)]
    pub expected_claims: Vec<Claim>,
    #[serde(default)]
    pub expected_events: Vec<String>,
    #[serde(default)]
    pub observed: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllerOptions {
    pub enable_dynamic_provisioning: bool,
}

#[derive(Debug, Default, Deserialize)]
pub struct Call {
    pub steps: Vec<Step>,
    #[serde(default)]
    pub wrappers: Vec<Wrapper>,
}

/// What upstream's test code put around the call.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Wrapper {
    PluginCalls(PluginCalls),
    InjectedOperation { invocations: Vec<Injection> },
    CsiMigration {},
}

/// What the plugin answers, call by call; `None` is a success.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PluginCalls {
    #[serde(rename = "provisionCalls")]
    pub provision: Option<Vec<ProvisionCall>>,
    #[serde(rename = "deleteCalls")]
    pub delete: Option<Vec<Option<String>>>,
    #[serde(rename = "recycleCalls")]
    pub recycle: Option<Vec<Option<String>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvisionCall {
    pub error: Option<String>,
    #[serde(default)]
    pub expected_parameters: BTreeMap<String, String>,
}

/// What happens just before the k-th operation begins.
#[derive(Clone, Debug, Deserialize)]
pub struct Injection {
    pub effect: BTreeMap<String, Effect>,
}

/// What happens to the objects of one kind in one place, such as `api.persistentvolumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Effect {
    pub added: Vec<Value>,
    pub changed: Vec<Changed>,
    pub removed: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Changed {
    pub after: Value,
}

impl Injection {
    /// The objects that appear or change in a place (`api`, `cache` or `lister`).
    pub fn shown(&self, place: &str) -> Vec<Object> {
        let of_place = self.effect.iter().filter(|(name, _)| name.starts_with(&format!("{place}.")));
        let effects = of_place.flat_map(|(_, effect)| {
            effect.added.iter().chain(effect.changed.iter().map(|changed| &changed.after))
        });
        effects.map(object).collect()
    }

    /// The volumes that go from the API server.
    pub fn removed(&self) -> Vec<Key> {
        let effect = self.effect.get("api.persistentvolumes").cloned().unwrap_or_default();
        effect.removed.iter().map(|name| Key::volume(name)).collect()
    }
}

fn object(value: &Value) -> Object {
    let parsed = "a recorded object";
    let value = value.clone();
    match value["kind"].as_str() {
        Some("PersistentVolume") => serde_json::from_value::<Volume>(value).expect(parsed).into(),
        Some("PersistentVolumeClaim") => serde_json::from_value::<Claim>(value).expect(parsed).into(),
        Some("Node") => serde_json::from_value::<Node>(value).expect(parsed).into(),
        other => panic!("unknown kind {other:?}"),
    }
}

/// What goes wrong with the first API call that matches.
#[derive(Clone, Debug, Deserialize)]
pub struct ApiError {
    pub verb: String,
    pub resource: String,
    pub error: ErrorText,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorText {
    pub text: String,
    pub api_status: Option<ApiStatus>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ApiStatus {
    pub code: u16,
    pub reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub op: String,
    pub target: Option<String>,
    #[serde(default)]
    pub expect_error: bool,
    pub name: Option<String>,
    pub object: Option<Value>,
    pub condition: Option<String>,
    pub key: Option<String>,
    pub resource: Option<String>,
    pub phase: Option<String>,
}

/// Where an object is before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    Both,
    Api,
    Cache,
}

impl Placement {
    pub fn in_api(self) -> bool {
        self != Placement::Cache
    }

    pub fn in_cache(self) -> bool {
        self != Placement::Api
    }
}

impl Record {
    /// The objects with their places. Only volumes and claims are anywhere but in both.
    pub fn objects(&self) -> Vec<(Object, Placement)> {
        let both = |object| (object, Placement::Both);
        let volumes = self.initial_volumes.iter().cloned().map(Object::from);
        let claims = self.initial_claims.iter().cloned().map(Object::from);
        let classes = self.storage_classes.iter().cloned().map(Object::from).map(both);
        let pods = self.pods.iter().cloned().map(Object::from).map(both);
        let nodes = self.nodes.iter().cloned().map(Object::from).map(both);
        assert_eq!(self.initial_volumes.len(), self.initial_volumes_placement.len());
        assert_eq!(self.initial_claims.len(), self.initial_claims_placement.len());
        classes
            .chain(nodes)
            .chain(volumes.zip(self.initial_volumes_placement.iter().copied()))
            .chain(claims.zip(self.initial_claims_placement.iter().copied()))
            .chain(pods)
            .collect()
    }

    pub fn settings(&self) -> pvbind::decide::Settings {
        pvbind::decide::Settings {
            volume_attributes_class: self.feature_gates.get("VolumeAttributesClass").copied().unwrap_or(true),
            provisioning: self.controller_options.enable_dynamic_provisioning,
            plugins: if self.call.wrappers.iter().any(Wrapper::has_plugin) { mock::PLUGINS } else { &[] },
            drivers: if self.call.wrappers.iter().any(Wrapper::is_migration) {
                mock::DRIVERS
            } else {
                translation::DRIVERS
            },
            ..pvbind::decide::Settings::default()
        }
    }

    /// What the plugin answers, if there is one.
    pub fn plugin_calls(&self) -> Option<&PluginCalls> {
        self.call.wrappers.iter().find_map(|wrapper| match wrapper {
            Wrapper::PluginCalls(calls) => Some(calls),
            Wrapper::InjectedOperation { .. } | Wrapper::CsiMigration {} => None,
        })
    }

    /// What happens just before each operation begins.
    pub fn injections(&self) -> VecDeque<Injection> {
        let injections = self.call.wrappers.iter().find_map(|wrapper| match wrapper {
            Wrapper::InjectedOperation { invocations } => Some(invocations.iter().cloned().collect()),
            Wrapper::PluginCalls(_) | Wrapper::CsiMigration {} => None,
        });
        injections.unwrap_or_default()
    }

    /// The volumes that upstream's plugin made, in order.
    pub fn made_volumes(&self) -> VecDeque<Volume> {
        let trace = self.observed.get("trace").and_then(Value::as_array);
        let made = trace.into_iter().flatten().filter_map(|entry| entry.get("returnedVolume"));
        made.filter(|volume| !volume.is_null())
            .map(|volume| serde_json::from_value(volume.clone()).expect("a volume"))
            .collect()
    }

    /// How often each of the plugin's results was used.
    pub fn used(&self) -> Option<mock::Used> {
        let used = self.observed.get("pluginCallsUsed").filter(|used| !used.is_null())?;
        let count =
            |what: &str| used[what].as_u64().and_then(|count| usize::try_from(count).ok()).expect("a count");
        Some(mock::Used { provision: count("provision"), delete: count("delete"), recycle: count("recycle") })
    }

    /// The volumes that were created, where that was recorded.
    pub fn observed_creates(&self) -> Option<Vec<Value>> {
        let trace = self.observed.get("trace")?.as_array()?;
        let created = trace.iter().filter(|call| call["api"] == "create" && call.get("error").is_none());
        Some(created.map(|call| call["object"].clone()).collect())
    }

    /// The events with their full texts, where they were recorded.
    pub fn observed_events(&self) -> Option<Vec<String>> {
        let events = self.observed.get("events")?.as_array()?;
        Some(events.iter().map(|event| event.as_str().expect("an event is a text").to_owned()).collect())
    }

    /// The writes in their order, where they were recorded: (resource, subresource, name, change).
    pub fn observed_writes(&self) -> Option<Vec<(String, String, String, Value)>> {
        let text = |call: &Value, field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let trace = self.observed.get("trace")?.as_array()?;
        let updates = trace.iter().filter(|call| call["api"] == "update" && call.get("error").is_none());
        Some(
            updates
                .map(|call| {
                    let change = call.get("change").cloned().unwrap_or_default();
                    (text(call, "resource"), text(call, "subresource"), text(call, "name"), change)
                })
                .collect(),
        )
    }

    /// All API calls in their order, where they were recorded: (verb, resource, subresource, name).
    pub fn observed_calls(&self) -> Option<Vec<(String, String, String, String)>> {
        let text = |call: &Value, field: &str| call[field].as_str().unwrap_or_default().to_owned();
        let calls = self.observed.get("trace")?.as_array()?.iter().filter(|call| call["api"].is_string());
        let parts =
            |call| (text(call, "api"), text(call, "resource"), text(call, "subresource"), text(call, "name"));
        // Upstream reads a volume again before each step of an operation; we read it once, and write it only in the
        // version that was read.
        let mut read = BTreeSet::new();
        // What is being deleted already goes with its last finalizer: upstream deletes it once more.
        let terminating = |name: &str| {
            let mut volumes = self.initial_volumes.iter().map(|volume| &volume.metadata);
            volumes.any(|meta| meta.name.as_deref() == Some(name) && meta.deletion_timestamp.is_some())
        };
        let mut is_new = |call: &(String, String, String, String)| match (call.0.as_str(), call.1.as_str()) {
            ("get", "persistentvolumes") => read.insert(call.3.clone()),
            ("delete", "persistentvolumes") => !terminating(&call.3),
            _ => true,
        };
        Some(calls.map(parts).filter(|call| is_new(call)).collect())
    }
}

impl Wrapper {
    fn has_plugin(&self) -> bool {
        matches!(self, Wrapper::PluginCalls(_) | Wrapper::CsiMigration {})
    }

    fn is_migration(&self) -> bool {
        matches!(self, Wrapper::CsiMigration {})
    }
}

impl Step {
    /// The key of the claim or volume that the step syncs.
    pub fn target_key(&self) -> Key {
        key_of(self.target.as_deref().expect("a sync has a target"))
    }

    /// The key of the claim or volume of whose operation the step asks whether it has begun, with the answer that
    /// upstream wants.
    pub fn begun(&self) -> Option<(Key, bool)> {
        let exists = match self.condition.as_deref()? {
            "operationTimestampExists" => true,
            "operationTimestampAbsent" => false,
            _ => return None,
        };
        Some((key_of(self.key.as_deref().expect("an operation has a key")), exists))
    }
}

fn key_of(path: &str) -> Key {
    match path.split_once('/') {
        Some((namespace, name)) => Key::claim(namespace, name),
        None => Key::volume(path),
    }
}

/// Whether this program runs the record's set.
pub fn is_run(record: &Record) -> bool {
    matches!(
        record.func.as_str(),
        "TestSync"
            | "TestSyncBlockVolume"
            | "TestMultiSync"
            | "TestControllerSync"
            | "TestRetroactiveStorageClassAssignment"
            | "TestRecycleSync"
            | "TestRecycleMultiSync"
            | "TestDeleteSync"
            | "TestDeleteMultiSync"
            | "TestProvisionSync"
            | "TestProvisionMultiSync"
    )
}

/// The records of one upstream test file.
pub fn load<T: DeserializeOwned>(file: &str) -> Vec<T> {
    read(&Path::new(FOLDER).join(file).with_extension("json"))
}

/// The rows of a file's function tables, each of which asks one function something.
pub fn load_rows<T: DeserializeOwned>(file: &str, asks: impl Fn(&str) -> bool) -> Vec<T> {
    let records: Vec<Value> = load(file);
    let rows = records.into_iter().filter(|record| record["op"].as_str().is_some_and(&asks));
    rows.map(|row| serde_json::from_value(row).unwrap_or_else(|e| panic!("{file}: {e}"))).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// How many records there are, in all files.
pub fn count() -> usize {
    let files = std::fs::read_dir(FOLDER).unwrap_or_else(|e| panic!("{FOLDER}: {e}"));
    files.map(|file| read::<Value>(&file.expect("a file").path()).len()).sum()
}
