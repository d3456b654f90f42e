//! The recorded cases as they stand in `testdata/upstream/binder`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pvbind::cluster::{Binding, Cluster, Object, PodVolumes, Provision};
use pvbind::decide::Settings;
use pvbind::objects::{Capacity, Claim, Class, CsiDriver, CsiNode, Node, Pod, Volume, name};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where the recorded files are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/upstream/binder");
/// The file that holds no records.
const DIFFERENCES: &str = "seed-on-k8s-1.36.3.differences.json";
/// The source whose outcome is the behaviour.
const BEHAVIOUR: &str = "k8s-1.36.3";
/// The source that differs from it here and there.
const SEED: &str = "seed-volcano-1.9.0";
/// Another one, of which few cases are recorded.
const OLDER: &str = "k8s-1.28.4";

/// One case.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub id: String,
    pub source: String,
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
    /// What another source wants of the same case, where the behaviour is another one; `want` and `got` are the
    /// behaviour's then.
    #[serde(skip)]
    pub differs: Option<Value>,
}

/// All that the binder sees.
#[derive(Clone, Debug, Default, Deserialize)]
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

    /// The cluster as decisions see it.
    pub fn cluster(&self) -> Cluster {
        let mut cluster = self.shown();
        for object in shown(&self.assumed_volumes).chain(shown(&self.assumed_claims)) {
            cluster.reserve(object).expect("a version that was shown");
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
        self.source == BEHAVIOUR || self.differs.is_some()
    }

    /// A claim whose volume is made, as the source keeps it: the older ones keep nothing of its capacity.
    pub fn as_recorded(&self, provision: &Provision) -> Provision {
        let capacity = provision.capacity.clone().filter(|_| self.is_behaviour());
        Provision { capacity, ..provision.clone() }
    }

    /// The settings of upstream's tests: each claim is compared alone with the whole of a capacity.
    pub fn settings(&self) -> Settings {
        let features = self.config.get("features").cloned().unwrap_or_default();
        let attributes = part(&features, "enableVolumeAttributesClass").unwrap_or(false);
        Settings { volume_attributes_class: attributes, strict_capacity: false, ..Settings::default() }
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

/// A recorded value in which upstream takes any of some volumes that are equally good, as it is when it takes those that were
/// `chosen` here; where it would take none of them, the first.
pub fn with_choice(value: &Value, chosen: &PodVolumes) -> Value {
    let is_chosen = |choice: &&Value| {
        let mut names = chosen.bindings.iter().map(|binding| name(&binding.volume.metadata));
        names.any(|name| choice["metadata"]["name"] == name)
    };
    match value {
        Value::Object(fields) => match fields.get("$anyOf").and_then(Value::as_array) {
            Some(choices) => choices.iter().find(is_chosen).unwrap_or(&choices[0]).clone(),
            None => fields.iter().map(|(key, value)| (key.clone(), with_choice(value, chosen))).collect(),
        },
        Value::Array(values) => values.iter().map(|value| with_choice(value, chosen)).collect(),
        other => other.clone(),
    }
}

/// A field of a recorded value.
pub fn part<T: DeserializeOwned>(of: &Value, field: &str) -> Option<T> {
    let value = of.get(field).filter(|value| !value.is_null())?;
    Some(serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{field}: {error}")))
}

/// A recorded field that is there, `null` included, if it is asserted.
pub fn asserted<T: Recorded>(of: &Value, field: &str) -> Option<Vec<T>> {
    let list = of.get(field)?.as_array();
    Some(list.into_iter().flatten().map(T::read).collect())
}

/// What records write in their own way.
pub trait Recorded {
    fn read(value: &Value) -> Self;
}

impl Recorded for Binding {
    fn read(value: &Value) -> Self {
        let claim = Arc::new(part::<Claim>(value, "pvc").expect("a claim"));
        Binding { claim, volume: Arc::new(part::<Volume>(value, "pv").expect("a volume")) }
    }
}

impl Recorded for Provision {
    fn read(value: &Value) -> Self {
        let claim = Arc::new(part::<Claim>(value, "pvc").expect("a claim"));
        Provision { claim, capacity: part::<Capacity>(value, "nodeCapacity").map(Arc::new) }
    }
}

/// What a pod's claims get, as it is recorded.
pub fn pod_volumes(value: &Value) -> PodVolumes {
    PodVolumes {
        bindings: asserted(value, "staticBindings").unwrap_or_default(),
        provisions: asserted(value, "dynamicProvisions").unwrap_or_default(),
    }
}

/// All records, file by file. Where a source differs from the behaviour, its record wants what the behaviour's does.
pub fn load() -> Vec<Record> {
    let mut records = all();
    let behaviour: BTreeMap<String, Record> =
        records.iter().filter(|r| r.is_behaviour()).map(|r| (r.id.clone(), r.clone())).collect();
    for (other, id) in differing() {
        let wanted = behaviour.get(&id).unwrap_or_else(|| panic!("{id} is not recorded"));
        // Some cases are the behaviour's own: the seed was only asked them.
        let Some(record) = records.iter_mut().find(|record| record.id == other) else { continue };
        record.differs = Some(std::mem::replace(&mut record.want, wanted.want.clone()));
        record.got = wanted.got.clone();
    }
    records
}

/// Where another source differs: its record, and the behaviour's. What the seed's base differs in, the older one does, too.
fn differing() -> Vec<(String, String)> {
    let differences: Vec<Value> = read(&Path::new(FOLDER).join(DIFFERENCES));
    let ids = differences.iter().map(|difference| difference["id"].as_str().expect("an id").to_owned());
    let replayed =
        ids.flat_map(|id| [SEED, OLDER].map(|source| (id.replacen(BEHAVIOUR, source, 1), id.clone())));
    // The seed's cache takes versions that are newer than what is known; its tests are not those of the behaviour.
    let caches = ["TestAssumePV", "TestAssumePVC"].map(|func| {
        let seed = format!("{SEED}/{func}/success-new-higher-version");
        (seed, format!("{BEHAVIOUR}/TestAssume/fail-new-higher-version"))
    });
    replayed.chain(caches).collect()
}

/// How many records there are, in all files.
pub fn count() -> usize {
    files().iter().map(|path| read::<Vec<Value>>(path).len()).sum()
}

fn all() -> Vec<Record> {
    files().iter().flat_map(|path| read::<Vec<Record>>(path)).collect()
}

/// The files that hold records.
fn files() -> Vec<PathBuf> {
    let files = std::fs::read_dir(FOLDER).unwrap_or_else(|error| panic!("{FOLDER}: {error}"));
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    paths.retain(|path| path.file_name().is_some_and(|name| name != DIFFERENCES));
    paths
}

fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // The API of capacities had not left its beta when the older sources were written; the fields are the same.
    let text = text.replace("storage.k8s.io/v1beta1", "storage.k8s.io/v1");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
