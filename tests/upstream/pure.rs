//! A case on the pure core: no client, no server, no clock. The API server is a map.

use std::collections::BTreeMap;

use pvbind::cluster::{Cluster, Key, Kind, Object};
use pvbind::decide::controller::{provision, reclaim, recycle};
use pvbind::decide::patch::Request;
use pvbind::decide::{self, Action, Operation, Plan, Reads, Settings, Write};
use pvbind::objects::{Claim, claim};

use crate::check::{self, Run};
use crate::record::{Record, Step};
use crate::story::Story;

/// More rounds than any case needs: a case that does not settle within them never does.
const ROUNDS: usize = 100;

struct World {
    cluster: Cluster,
    api: BTreeMap<Key, Object>,
    settings: Settings,
    run: Run,
    story: Story,
}

/// Runs the case and returns its story.
pub fn run(record: &Record) -> Story {
    let mut world = World {
        cluster: Cluster::new(),
        api: BTreeMap::new(),
        settings: record.settings(),
        run: Run::default(),
        story: Story::of(record),
    };
    for (object, placement) in record.objects() {
        if placement.in_cache() {
            world.cluster.show(object.clone());
        }
        if placement.in_api() && matches!(object.kind(), Kind::Claim | Kind::Volume) {
            world.api.insert(object.key(), object);
        }
    }
    if record.mode == "controller" {
        world.settle();
    }
    for step in &record.call.steps {
        world.step(step);
        if !check::is_single_call(record) {
            world.settle();
        }
    }
    world.run.objects = std::mem::take(&mut world.api);
    check::all(record, &world.run);
    world.story.result(&world.run);
    world.story
}

impl World {
    fn step(&mut self, step: &Step) {
        match step.op.as_str() {
            "syncClaim" | "syncVolume" => {
                let failed = self.sync(&step.target_key());
                self.run.failed.push(failed);
            }
            "AddClaimEvent" => {
                let claim: Claim =
                    serde_json::from_value(step.object.clone().expect("an object")).expect("a claim");
                let object = Object::from(claim);
                self.story.line(&format!("the claim {} appears", object.key().path()));
                self.cluster.show(object.clone());
                self.api.insert(object.key(), object);
            }
            "DeleteClaimEvent" | "DeleteVolumeEvent" => {
                let name = step.name.as_deref().expect("a name");
                let key = if step.op == "DeleteClaimEvent" {
                    Key::claim("default", name)
                } else {
                    Key::volume(name)
                };
                self.story.line(&format!("{key} is deleted"));
                self.cluster.gone(&key);
                self.api.remove(&key);
            }
            "waitUntil" | "assert" => check_condition(step, &self.cluster),
            other => panic!("unknown step {other}"),
        }
    }

    /// Syncs everything until nothing is written any more.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let before = self.run.writes.len();
            let keys: Vec<Key> = self
                .cluster
                .known_keys(Kind::Volume)
                .chain(self.cluster.known_keys(Kind::Claim))
                .cloned()
                .collect();
            for key in keys {
                self.sync(&key);
            }
            if self.run.writes.len() == before {
                return;
            }
        }
        panic!("not settled after {ROUNDS} rounds");
    }

    /// One call; says whether it failed.
    fn sync(&mut self, key: &Key) -> bool {
        let mut reads = Reads::new();
        loop {
            let plan = decide::sync(&self.cluster, &self.settings, key, &reads);
            self.story.plan(key, &plan);
            let failed = plan.reason.is_failure();
            match self.perform(plan) {
                None => return failed,
                Some(read) => {
                    let answer = self.api.get(&read).cloned();
                    assert!(reads.insert(read, answer).is_none(), "the same object is read twice");
                }
            }
        }
    }

    /// Performs a plan; returns the key to read, if it asks for one.
    fn perform(&mut self, plan: Plan) -> Option<Key> {
        for action in plan.actions {
            match action {
                Action::Write(write) => self.write(&write),
                Action::Emit(event) => {
                    let line = format!("{} {} {}", event.severity.as_str(), event.reason, event.message);
                    self.run.events.push(line);
                }
                Action::Start(operation) => {
                    let plan = match &operation {
                        Operation::Provision(claim) => {
                            provision::operate(&self.cluster, &self.settings, claim)
                        }
                        Operation::Delete(volume) => reclaim::delete(&self.cluster, volume),
                        Operation::Recycle(volume) => recycle::recycle(&self.cluster, volume),
                    };
                    self.story.operation(&operation, &plan);
                    assert_eq!(self.perform(plan), None, "an operation of these sets reads nothing");
                }
                Action::Read(key) => return Some(key),
                Action::Enqueue(_) | Action::Offer(_) => {}
                Action::Assume(..) | Action::Forget(_) | Action::Park(_) => panic!("no pod is placed here"),
                Action::Storage(_) => panic!("no storage is made here"),
            }
        }
        None
    }

    fn write(&mut self, write: &Write) {
        let key = write.target().clone();
        let stored = self.api.get(&key).expect("what is written exists");
        assert_eq!(Some(stored), self.cluster.known(&key), "the decision was made on the stored version");
        let Some(Request::Patch { status, body }) = write.request(stored) else {
            panic!("{write:?} is no patch, or changes nothing")
        };
        let resource = match key.kind() {
            Kind::Claim => "persistentvolumeclaims",
            Kind::Volume => "persistentvolumes",
            other => panic!("{other:?} is written"),
        };
        let subresource = if status { "status" } else { "" };
        self.run.writes.push((resource.to_owned(), subresource.to_owned(), key.name().to_owned(), body));
        let after = bump(write.apply(stored).expect("a change"));
        self.cluster.show(after.clone());
        self.api.insert(key, after);
    }
}

/// The object with its next version.
fn bump(object: Object) -> Object {
    let next = Some((object.version() + 1).to_string());
    match object {
        Object::Claim(claim) => {
            let mut claim = (*claim).clone();
            claim.metadata.resource_version = next;
            Object::from(claim)
        }
        Object::Volume(volume) => {
            let mut volume = (*volume).clone();
            volume.metadata.resource_version = next;
            Object::from(volume)
        }
        other => panic!("{} is written", other.key()),
    }
}

/// Fails where a condition that upstream waits for does not hold once all is settled.
pub fn check_condition(step: &Step, cluster: &Cluster) {
    match step.condition.as_deref() {
        Some("controllerCacheEmpty") => match step.resource.as_deref() {
            Some("persistentvolumeclaims") => assert_eq!(cluster.claims().count(), 0),
            Some("persistentvolumes") => assert_eq!(cluster.volumes().count(), 0),
            other => panic!("unknown resource {other:?}"),
        },
        Some("firstCachedClaimPhase") => {
            let first = cluster.claims().next().expect("a claim");
            assert_eq!(Some(claim::phase(first)), step.phase.as_deref());
        }
        // The pure core records nothing; the live run of the case looks at the metrics.
        Some("operationTimestampExists" | "operationTimestampAbsent") => {}
        other => panic!("unknown condition {other:?}"),
    }
}
