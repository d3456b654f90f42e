//! A case on the pure core: no client, no server, no clock. The API server is a map.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pvbind::act::plugin::ATTEMPTS;
use pvbind::cluster::{Cluster, Key, Kind, Object};
use pvbind::decide::controller::operation;
use pvbind::decide::patch::Request;
use pvbind::decide::plugin::{Answer, Call};
use pvbind::decide::{self, Action, Operation, Plan, Reads, Settings, Write};
use pvbind::objects::{Claim, Volume, claim};

use crate::check::{self, Run};
use crate::mock::Mock;
use crate::record::{ApiError, Injection, Record, Step};
use crate::story::Story;

/// More rounds than any case needs: a case that does not settle within them never does.
const ROUNDS: usize = 100;

struct World {
    cluster: Cluster,
    api: BTreeMap<Key, Object>,
    settings: Settings,
    run: Run,
    story: Story,
    mock: Mock,
    injections: VecDeque<Injection>,
    api_errors: Vec<ApiError>,
    /// How often anything changed at the API server.
    changes: usize,
}

/// What a performed plan leads to.
#[derive(Default)]
struct Next {
    reads: Vec<Key>,
    answer: Option<(Call, Answer)>,
    /// A volume that could not be saved, and why.
    unsaved: Option<(Arc<Volume>, String)>,
}

/// Runs the case and returns its story.
pub fn run(record: &Record) -> Story {
    let mut world = World {
        cluster: Cluster::new(),
        api: BTreeMap::new(),
        settings: record.settings(),
        run: Run::default(),
        story: Story::of(record),
        mock: Mock::new(record),
        injections: record.injections(),
        api_errors: record.api_errors.clone(),
        changes: 0,
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
    world.run.used = world.mock.used();
    world.api.retain(|key, _| key.kind() != Kind::Node);
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
            let before = self.changes;
            let keys: Vec<Key> = self
                .cluster
                .known_keys(Kind::Volume)
                .chain(self.cluster.known_keys(Kind::Claim))
                .cloned()
                .collect();
            for key in keys {
                self.sync(&key);
            }
            if self.changes == before {
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
            let next = self.perform(plan);
            if next.reads.is_empty() {
                return failed;
            }
            self.read(next.reads, &mut reads);
        }
    }

    fn read(&mut self, keys: Vec<Key>, reads: &mut Reads) {
        for key in keys {
            self.run.reads += 1;
            let answer = self.api.get(&key).cloned();
            assert!(reads.insert(key, answer).is_none(), "the same object is read twice");
        }
    }

    /// Performs a plan.
    fn perform(&mut self, plan: Plan) -> Next {
        says_what_it_leaves(&self.cluster, &plan);
        let mut next = Next::default();
        for action in plan.actions {
            match action {
                Action::Write(Write::CreateVolume { object, .. }) => {
                    if let Err(why) = self.save(&object) {
                        next.unsaved = Some((object, why));
                        return next;
                    }
                }
                Action::Write(write) => self.write(&write),
                Action::Emit(event) => {
                    let line = format!("{} {} {}", event.severity.as_str(), event.reason, event.message);
                    self.run.events.push(line);
                }
                Action::Start(operation) => self.operate(&operation),
                Action::Read(key) => next.reads.push(key),
                Action::Ask(call) => {
                    let answer = self.mock.call(&call);
                    next.answer = Some((call, answer));
                }
                Action::Enqueue(_) | Action::Offer(_) | Action::BackOff => {}
                Action::Assume(..) | Action::Forget(_) | Action::Park(..) => panic!("no pod is placed here"),
            }
        }
        next
    }

    /// Performs an operation, step after step.
    fn operate(&mut self, operation: &Operation) {
        if let Some(injection) = self.injections.pop_front() {
            self.inject(&injection);
        }
        let mut reads = Reads::new();
        let mut plan = operation::operate(&self.cluster, &self.settings, operation, &reads);
        loop {
            self.story.operation(operation, &plan);
            let next = self.perform(plan);
            plan = if let Some((call, answer)) = next.answer {
                operation::answered(&self.cluster, operation, &call, answer)
            } else if let Some((volume, why)) = next.unsaved {
                operation::unsaved(&self.settings, operation, &volume, &why)
            } else if next.reads.is_empty() {
                return;
            } else {
                self.read(next.reads, &mut reads);
                for object in reads.values().flatten().filter(|object| object.key() == *operation.key()) {
                    self.cluster.show(object.clone());
                }
                operation::operate(&self.cluster, &self.settings, operation, &reads)
            };
        }
    }

    fn inject(&mut self, injection: &Injection) {
        self.story.line("  meanwhile, before the operation begins");
        for object in injection.shown("api").into_iter().chain(injection.shown("lister")) {
            self.story.line(&format!("    {} appears or changes", object.key()));
            self.api.insert(object.key(), object);
            self.changes += 1;
        }
        for key in injection.removed() {
            self.story.line(&format!("    {key} goes"));
            self.api.remove(&key);
        }
        for object in injection.shown("cache") {
            self.cluster.show(object);
        }
    }

    /// Saves a volume as the executor does, which tries again for a while.
    fn save(&mut self, volume: &Arc<Volume>) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let of_create =
                |error: &ApiError| error.verb == "create" && error.resource == "persistentvolumes";
            if let Some(index) = self.api_errors.iter().position(of_create) {
                let error = self.api_errors.remove(index).error;
                if error.api_status.is_some_and(|status| status.code == 409) {
                    return Ok(());
                }
                last = error.text;
                continue;
            }
            let object = Object::Volume(volume.clone());
            self.run.created.push(serde_json::to_value(&**volume).expect("a volume serialises"));
            self.changes += 1;
            self.cluster.show(object.clone());
            assert!(self.api.insert(object.key(), object).is_none(), "a new volume");
            return Ok(());
        }
        Err(last)
    }

    fn write(&mut self, write: &Write) {
        let key = write.target().clone();
        self.changes += 1;
        if let Write::DeleteVolume { .. } = write {
            self.run.deletes += 1;
            assert!(self.api.remove(&key).is_some(), "{key} is deleted once");
            self.cluster.gone(&key);
            return;
        }
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
        let meta = after.metadata();
        if meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty) {
            // Nothing keeps it any more.
            self.api.remove(&key);
            self.cluster.gone(&key);
            return;
        }
        self.cluster.show(after.clone());
        self.api.insert(key, after);
    }
}

/// Fails where a plan says that it leaves something else than its writes do.
fn says_what_it_leaves(cluster: &Cluster, plan: &Plan) {
    let mut left: BTreeMap<Key, Object> = BTreeMap::new();
    for write in plan.writes() {
        let before = left.get(write.target()).or_else(|| cluster.object(write.target()));
        if let Some(after) = write.created().or_else(|| write.apply(before.expect("what is written exists")))
        {
            left.insert(write.target().clone(), after);
        }
    }
    assert_eq!(left, plan.after);
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
