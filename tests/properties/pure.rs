//! A world on the pure core: no client, no server, no clock. The API server is a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use pvbind::cluster::{Cluster, Key, Kind, Object};
use pvbind::decide::controller::operation;
use pvbind::decide::plugin::Call;
use pvbind::decide::{self, Action, Operation, Plan, Reads, Settings, Write};
use pvbind::objects::Volume;
use serde_json::json;

use crate::safety::{self, Api, Safety};
use crate::world::{World, cluster_of, with_version};

/// More rounds than a small world needs: one that does not settle within them never does.
const ROUNDS: usize = 20;

/// A running world.
#[derive(Clone)]
pub struct Run {
    pub cluster: Cluster,
    pub api: Api,
    pub settings: Settings,
    pub writes: usize,
    /// Every version that was written, in order.
    pub history: Vec<Object>,
    /// Whether a volume was taken from its claim, and may be another's or the same one's again.
    pub unbound: bool,
    /// After this many writes everything stops.
    pub limit: usize,
    versions: u64,
    safety: Safety,
}

/// What ended a plan early.
enum Stop {
    /// It asks for an object.
    Read(Key),
    /// It asks a plugin.
    Ask(Call),
    /// The limit of writes is reached.
    Limit,
}

/// What a plugin answers that does everything at once.
pub fn made(call: &Call) -> Option<Arc<Volume>> {
    let Call::Provision(wanted) = call else { return None };
    let volume = json!({"metadata": {"name": wanted.name}, "spec": {"hostPath": {"path": "/tmp/made"}}});
    Some(Arc::new(serde_json::from_value(volume).expect("a volume")))
}

impl Run {
    pub fn new(world: &World) -> Self {
        Run {
            cluster: world.cluster(),
            api: world.objects.iter().map(|object| (object.key(), object.clone())).collect(),
            settings: Settings::default(),
            writes: 0,
            history: world.objects.clone(),
            unbound: false,
            limit: usize::MAX,
            versions: 0,
            safety: Safety::default(),
        }
    }

    /// Forgets everything that is not stored.
    pub fn crash(&mut self) {
        self.cluster = cluster_of(self.api.values());
        self.limit = usize::MAX;
    }

    /// The keys that are decided about, volumes first.
    pub fn keys(&self) -> Vec<Key> {
        let keys = self.cluster.known_keys(Kind::Volume).chain(self.cluster.known_keys(Kind::Claim));
        keys.cloned().collect()
    }

    /// Syncs everything, each round in the order that `order` makes, until a whole round writes nothing.
    pub fn settle(&mut self, mut order: impl FnMut(&mut Vec<Key>)) {
        for _ in 0..ROUNDS {
            let before = self.writes;
            let mut keys = self.keys();
            order(&mut keys);
            for key in keys {
                if !self.sync(&key) {
                    return;
                }
            }
            if self.writes == before {
                return;
            }
        }
        panic!("not settled after {ROUNDS} rounds");
    }

    /// Syncs one key; false when the limit of writes is reached.
    fn sync(&mut self, key: &Key) -> bool {
        let mut reads = Reads::new();
        loop {
            let plan = decide::sync(&self.cluster, &self.settings, key, &reads);
            match self.perform(plan) {
                Ok(()) => return true,
                Err(Stop::Limit) => return false,
                Err(Stop::Ask(call)) => panic!("a sync asks no plugin: {call:?}"),
                Err(Stop::Read(read)) => {
                    let answer = self.api.get(&read).cloned();
                    assert!(reads.insert(read, answer).is_none(), "the same object is read twice");
                }
            }
        }
    }

    fn perform(&mut self, plan: Plan) -> Result<(), Stop> {
        for action in plan.actions {
            match action {
                Action::Write(write) => self.write(&write)?,
                Action::Start(operation) => {
                    safety::operation(&self.api, &operation);
                    self.operate(&operation)?;
                }
                Action::Read(key) => return Err(Stop::Read(key)),
                Action::Ask(call) => return Err(Stop::Ask(call)),
                Action::Emit(_) | Action::Enqueue(_) | Action::Offer(_) | Action::BackOff => {}
                Action::Assume(..) | Action::Forget(_) | Action::Park(..) => panic!("no pod is placed here"),
            }
        }
        Ok(())
    }

    /// Performs an operation, step after step, with a plugin that does everything at once.
    fn operate(&mut self, operation: &Operation) -> Result<(), Stop> {
        let mut reads = Reads::new();
        let mut plan = operation::operate(&self.cluster, &self.settings, operation, &reads);
        loop {
            plan = match self.perform(plan) {
                Ok(()) => return Ok(()),
                Err(Stop::Limit) => return Err(Stop::Limit),
                Err(Stop::Read(key)) => {
                    // Reads are asked for together: what is missing is read with the first.
                    reads.insert(key.clone(), self.api.get(&key).cloned());
                    operation::operate(&self.cluster, &self.settings, operation, &reads)
                }
                Err(Stop::Ask(call)) => {
                    let answer = Ok(made(&call));
                    operation::answered(&self.cluster, operation, &call, answer)
                }
            };
        }
    }

    fn write(&mut self, write: &Write) -> Result<(), Stop> {
        if self.writes >= self.limit {
            return Err(Stop::Limit);
        }
        self.writes += 1;
        let key = write.target();
        if let Some(after) = self.outcome(write) {
            self.versions += 1;
            let after = with_version(&after, 1000 + self.versions);
            self.history.push(after.clone());
            self.cluster.show(after.clone());
            self.api.insert(key.clone(), after);
        } else {
            self.cluster.gone(key);
            self.api.remove(key);
            self.history.retain(|object| object.key() != *key);
        }
        safety::state(&self.api, &self.safety);
        Ok(())
    }

    /// What a write makes of its target: `None` when it is gone.
    fn outcome(&mut self, write: &Write) -> Option<Object> {
        let key = write.target();
        if matches!(write, Write::DeleteVolume { .. } | Write::DeletePod { .. }) {
            safety::deletion(&self.api, key);
            return deleting(&self.api[key]);
        }
        if let Some(created) = write.created() {
            assert_eq!(self.api.get(key), None, "{key} is created twice");
            return Some(finished(&created, true));
        }
        let after = write.apply(&self.api[key]).expect("a change");
        self.safety.write(&self.api, write, &after);
        self.unbound |= matches!(write, Write::UnbindVolume { .. });
        Some(after)
    }

    /// Everything that is stored, versions aside.
    pub fn result(&self) -> BTreeMap<Key, Object> {
        self.api.iter().map(|(key, object)| (key.clone(), unversioned(object))).collect()
    }
}

/// What a deletion leaves: an object that is being deleted, or with no finalizers nothing.
pub fn deleting(object: &Object) -> Option<Object> {
    let Object::Volume(volume) = object else { return None };
    let mut volume = (**volume).clone();
    volume.metadata.finalizers.as_ref()?;
    volume
        .metadata
        .deletion_timestamp
        .get_or_insert_with(|| serde_json::from_value(json!("2026-01-02T03:04:05Z")).expect("a time"));
    Some(Object::from(volume))
}

/// A pod that has run to its end; other objects stay as they are.
pub fn finished(object: &Object, succeeded: bool) -> Object {
    let Object::Pod(pod) = object else { return object.clone() };
    let mut pod = (**pod).clone();
    let phase = if succeeded { "Succeeded" } else { "Failed" };
    pod.status.get_or_insert_default().phase = Some(phase.to_owned());
    Object::from(pod)
}

/// The object without its version and without the version of the claim that it was reserved for.
fn unversioned(object: &Object) -> Object {
    match with_version(object, 0) {
        Object::Volume(volume) => {
            let mut volume = (*volume).clone();
            if let Some(reference) = volume.spec.as_mut().and_then(|s| s.claim_ref.as_mut()) {
                reference.resource_version = None;
            }
            Object::from(volume)
        }
        other => other,
    }
}
