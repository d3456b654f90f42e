//! The recorded cases as they stand in `testdata/upstream/binder`.

use std::path::Path;

use pvbind::cluster::{Cluster, Object};
use pvbind::objects::{Capacity, Claim, Class, CsiDriver, CsiNode, Node, Pod, Volume};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where the recorded files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/upstream/binder");
/// The file that holds no records.
const DIFFERENCES: &str = "seed-on-k8s-1.36.3.differences.json";
/// The source whose outcome is the behaviour.
const BEHAVIOUR: &str = "k8s-1.36.3";

/// One case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub id: String,
    pub source: String,
    pub func: String,
    pub op: String,
    #[serde(default)]
    pub config: Value,
    #[serde(default)]
    pub state: State,
    /// The arguments.
    #[serde(default)]
    pub input: Value,
    /// What other clients write after the call has begun.
    #[serde(default)]
    pub events: Vec<Value>,
    #[serde(default)]
    pub objects: Value,
    #[serde(default)]
    pub steps: Vec<Value>,
    /// What upstream asserts.
    pub want: Value,
    /// What upstream's code did.
    pub got: Value,
}

/// All that the binder sees.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct State {
    pub storage_classes: Vec<Class>,
    pub csi_drivers: Vec<CsiDriver>,
    pub csi_storage_capacities: Vec<Capacity>,
    pub nodes: Vec<Node>,
    pub csi_nodes: Vec<CsiNode>,
    pub pods: Vec<Pod>,
    #[serde(rename = "pvs")]
    pub volumes: Vec<Volume>,
    #[serde(rename = "assumedPVs")]
    pub assumed_volumes: Vec<Volume>,
    #[serde(rename = "pvcs")]
    pub claims: Vec<Claim>,
    #[serde(rename = "assumedPVCs")]
    pub assumed_claims: Vec<Claim>,
    #[serde(rename = "apiPVs")]
    pub served_volumes: Vec<Volume>,
    #[serde(rename = "apiPVCs")]
    pub served_claims: Vec<Claim>,
}

impl State {
    /// The cluster as the watches have shown it, without what is assumed.
    pub fn shown(&self) -> Cluster {
        let mut cluster = Cluster::new();
        let objects = shown(&self.storage_classes)
            .chain(shown(&self.csi_drivers))
            .chain(shown(&self.csi_storage_capacities))
            .chain(shown(&self.nodes))
            .chain(shown(&self.csi_nodes))
            .chain(shown(&self.pods))
            .chain(shown(&self.volumes))
            .chain(shown(&self.claims));
        for object in objects {
            cluster.show(object);
        }
        cluster
    }
}

fn shown<T: Clone>(objects: &[T]) -> impl Iterator<Item = Object>
where
    Object: From<T>,
{
    objects.iter().cloned().map(Object::from)
}

impl Record {
    /// Whether the source is the one whose outcome is the behaviour.
    pub fn is_behaviour(&self) -> bool {
        self.source == BEHAVIOUR
    }

    /// An argument; `null` and what is absent are nothing.
    pub fn input<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        part(&self.input, field)
    }

    /// An argument that is always there.
    pub fn given<T: DeserializeOwned>(&self, field: &str) -> T {
        self.input(field).unwrap_or_else(|| panic!("no {field}"))
    }
}

/// A field of a recorded value.
pub fn part<T: DeserializeOwned>(of: &Value, field: &str) -> Option<T> {
    let value = of.get(field).filter(|value| !value.is_null())?;
    Some(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{field}: {error}")))
}

/// All records, file by file.
pub fn load() -> Vec<Record> {
    let files = std::fs::read_dir(FOLDER).unwrap_or_else(|error| panic!("{FOLDER}: {error}"));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let is_records = |path: &&std::path::PathBuf| path.file_name().is_some_and(|name| name != DIFFERENCES);
    paths.iter().filter(is_records).flat_map(|path| read::<Vec<Record>>(path)).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // The older source reads capacities of a version that nothing else knows, and that says the same.
    let text = text.replace("storage.k8s.io/v1beta1", "storage.k8s.io/v1");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
