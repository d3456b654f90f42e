//! The recorded cases as they stand in `testdata/upstream`.

use std::collections::BTreeMap;

use pvbind::cluster::{Key, Object};
use pvbind::objects::{Claim, Class, Node, Pod, Volume};
use serde::Deserialize;
use serde_json::Value;

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
    pub api_errors: Vec<Value>,
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
    pub wrappers: Vec<Value>,
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
            ..pvbind::decide::Settings::default()
        }
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
        Some(calls.map(parts).collect())
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
    )
}

/// The records of one upstream test file.
pub fn load(file: &str) -> Vec<Record> {
    let path = format!("{}/testdata/upstream/pv-controller/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}
