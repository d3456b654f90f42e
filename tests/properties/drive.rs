//! The decider, driven step by step against an API server that is a map: jobs advance in any order, watch events
//! come late and in batches, and requests fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pvbind::act::execute::placed;
use pvbind::act::{Decider, Error, Job, Outcome, Roles};
use pvbind::cluster::{Key, Kind, Object};
use pvbind::decide::patch::Request;
use pvbind::decide::plugin::Failure;
use pvbind::decide::{Action, Settings, Write};
use pvbind::objects::{Claim, Pod, Volume};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::pure::{deleting, finished, made};
use crate::safety::{self, Api, Safety};
use crate::world::{World, with_version};
use crate::{Dice, render};

/// More steps than any small world needs.
const STEPS: usize = 20_000;
/// So often the clock may move on without a write before the world counts as at rest: what fails for good goes on.
const QUIET: usize = 40;
const KINDS: [Kind; 5] = [Kind::Node, Kind::Class, Kind::Volume, Kind::Claim, Kind::Pod];

enum Watch {
    Show(Object),
    Gone(Object),
}

/// The API server.
pub struct Server {
    pub objects: Api,
    version: u64,
    watches: BTreeMap<Kind, VecDeque<Watch>>,
    created: usize,
    safety: Safety,
}

impl Server {
    fn tell(&mut self, watch: Watch) {
        let kind = match &watch {
            Watch::Show(object) => object.kind(),
            Watch::Gone(object) => object.kind(),
        };
        self.watches.entry(kind).or_default().push_back(watch);
    }

    fn store(&mut self, object: &Object) -> Object {
        self.version += 1;
        let object = with_version(object, self.version);
        self.objects.insert(object.key(), object.clone());
        self.tell(Watch::Show(object.clone()));
        object
    }

    fn delete(&mut self, key: &Key) {
        if let Some(object) = self.objects.remove(key) {
            self.version += 1;
            self.tell(Watch::Gone(with_version(&object, self.version)));
        }
    }

    /// Serves a request.
    fn serve(&mut self, write: &Write, before: &Object, request: Request) -> Result<Option<Object>, Error> {
        let key = write.target();
        if let Request::Create { object } = &request {
            return self.create(key, object).map(Some);
        }
        let Some(stored) = self.objects.get(key).cloned() else {
            return Err(Error::Api {
                verb: "patch",
                key: key.clone(),
                message: "gone".to_owned(),
                code: 404,
            });
        };
        match request {
            Request::Patch { body, .. } => {
                if body["metadata"]["resourceVersion"] != json!(stored.metadata().resource_version) {
                    return Err(Error::Conflict { key: key.clone() });
                }
                let mut value = render::json(&stored);
                json_patch::merge(&mut value, &body);
                let after = parse(key.kind(), value);
                self.safety.write(&self.objects, write, &after);
                let after = self.store(&after);
                safety::state(&self.objects, &self.safety);
                Ok(Some(after))
            }
            Request::Bind { node } => {
                let mut value = render::json(&stored);
                if value["spec"].get("nodeName").is_some() {
                    return Err(Error::Conflict { key: key.clone() });
                }
                value["spec"]["nodeName"] = json!(node);
                self.store(&parse(key.kind(), value));
                Ok(placed(write, before))
            }
            Request::Delete { uid, resource_version } => {
                if (&uid, &resource_version) != (&stored.metadata().uid, &stored.metadata().resource_version)
                {
                    return Err(Error::Conflict { key: key.clone() });
                }
                safety::deletion(&self.objects, key);
                match deleting(&stored) {
                    // What is being deleted already stays as it is.
                    Some(deleting) if deleting == stored => {}
                    Some(deleting) => drop(self.store(&deleting)),
                    None => self.delete(key),
                }
                Ok(None)
            }
            Request::Create { .. } => unreachable!("served above"),
        }
    }

    /// Creates an object. Pods that are created here scrub volumes, and are done in no time.
    fn create(&mut self, key: &Key, object: &Object) -> Result<Object, Error> {
        if self.objects.contains_key(key) {
            let message = "already exists".to_owned();
            return Err(Error::Api { verb: "create", key: key.clone(), message, code: 409 });
        }
        self.created += 1;
        let succeeded = !self.created.is_multiple_of(4);
        Ok(self.store(&finished(object, succeeded)))
    }
}

fn parse(kind: Kind, value: Value) -> Object {
    match kind {
        Kind::Claim => Object::from(serde_json::from_value::<Claim>(value).expect("a claim")),
        Kind::Volume => Object::from(serde_json::from_value::<Volume>(value).expect("a volume")),
        Kind::Pod => Object::from(serde_json::from_value::<Pod>(value).expect("a pod")),
        other => panic!("{other:?} is written"),
    }
}

struct Task {
    job: Job,
    done: usize,
    outcome: Outcome,
}

impl Task {
    /// Everything that the job may write or that it was decided for.
    fn keys(&self) -> BTreeSet<&Key> {
        let targets = self.job.actions.iter().filter_map(|action| match action {
            Action::Write(write) => Some(write.target()),
            _ => None,
        });
        targets.chain([&self.job.key]).collect()
    }
}

/// What goes wrong, and what others do.
#[derive(Clone, Copy, Debug)]
pub struct Troubles {
    /// How many requests fail.
    pub faults: usize,
    /// How many things users do.
    pub users: usize,
}

/// A decider and its surroundings.
pub struct Drive {
    pub decider: Decider,
    pub server: Server,
    tasks: Vec<Task>,
    now: Instant,
    dice: Dice,
    troubles: Troubles,
    pub writes: usize,
}

impl Drive {
    /// Everything has been listed, and nothing has been decided yet.
    pub fn new(world: &World, roles: Roles, troubles: Troubles, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut decider = Decider::new(Settings::default(), roles);
        let mut objects = world.objects.clone();
        dice.shuffle(&mut objects);
        for object in objects {
            decider.show(object);
        }
        let server = Server {
            objects: world.objects.iter().map(|object| (object.key(), object.clone())).collect(),
            version: 1000,
            watches: BTreeMap::new(),
            created: 0,
            safety: Safety::new(troubles.users > 0),
        };
        Drive { decider, server, tasks: Vec::new(), now: Instant::now(), dice, troubles, writes: 0 }
    }

    /// Runs until nothing moves any more.
    pub fn run(&mut self) {
        let (mut quiet, mut writes) = (0, 0);
        for _ in 0..STEPS {
            if self.writes > writes {
                (quiet, writes) = (0, self.writes);
            }
            let moved = match self.dice.below(8) {
                0 => self.watch(),
                1 | 2 => self.decide(),
                3 => self.use_it(),
                4 if self.dice.once_in(8) => self.relist(),
                _ => self.work(),
            };
            if moved || self.decide() || self.work() || self.watch() || self.use_it() {
                continue;
            }
            match self.decider.due() {
                Some(due) if quiet < QUIET => self.now = due.max(self.now),
                _ => return,
            }
            quiet += 1;
        }
        panic!("still moving after {STEPS} steps: {:?}", self.decider.reasons());
    }

    /// Delivers some events of one kind.
    fn watch(&mut self) -> bool {
        let kind = KINDS[self.dice.below(KINDS.len())];
        let waiting = |queue: &VecDeque<Watch>| !queue.is_empty();
        let kind = if self.server.watches.get(&kind).is_some_and(waiting) {
            kind
        } else {
            let found = KINDS.into_iter().find(|k| self.server.watches.get(k).is_some_and(waiting));
            let Some(kind) = found else { return false };
            kind
        };
        let queue = self.server.watches.get_mut(&kind).expect("a queue");
        let batch = queue.len().min(1 + self.dice.below(4));
        for watch in queue.drain(..batch) {
            match watch {
                Watch::Show(object) => self.decider.show(object),
                Watch::Gone(object) => self.decider.went(&object),
            }
        }
        true
    }

    /// A watch was cut: what it had to say is lost, and everything is listed again.
    fn relist(&mut self) -> bool {
        let kind = KINDS[self.dice.below(KINDS.len())];
        self.server.watches.remove(&kind);
        let objects = self.server.objects.values().filter(|object| object.kind() == kind);
        let mut listed = BTreeSet::new();
        for object in objects {
            listed.insert(object.key());
            self.decider.show(object.clone());
        }
        self.decider.listed(kind, &listed);
        true
    }

    fn decide(&mut self) -> bool {
        let job = self.decider.next(self.now);
        let found = job.is_some();
        self.take(job);
        found
    }

    /// Takes a job, which must not touch what another one has in its hands.
    fn take(&mut self, job: Option<Job>) {
        let Some(job) = job else { return };
        let task = Task { job, done: 0, outcome: Outcome::default() };
        for other in &self.tasks {
            let both: Vec<_> = task.keys().intersection(&other.keys()).map(|key| (*key).clone()).collect();
            assert!(both.is_empty(), "{both:?} is in the hands of {:?} and {:?}", task.job, other.job);
        }
        self.tasks.push(task);
    }

    /// Does one action of some job.
    fn work(&mut self) -> bool {
        if self.tasks.is_empty() {
            return false;
        }
        let index = self.dice.below(self.tasks.len());
        let mut task = self.tasks.swap_remove(index);
        if let Some(action) = task.job.actions.get(task.done).cloned() {
            task.done += 1;
            match self.perform(&action, &mut task) {
                Ok(()) => {
                    self.tasks.push(task);
                    return true;
                }
                Err(error) => task.outcome.error = Some(error),
            }
        }
        for job in self.decider.finish(task.job.id, task.outcome, self.now) {
            self.take(Some(job));
        }
        true
    }

    fn perform(&mut self, action: &Action, task: &mut Task) -> Result<(), Error> {
        match action {
            Action::Write(write) => self.write(write, task),
            Action::Ask(call) => {
                let failure = self.fails().then(|| Failure::Failed("no space".to_owned()));
                task.outcome.answer = Some((call.clone(), failure.map_or(Ok(made(call)), Err)));
                Ok(())
            }
            Action::Read(key) => {
                if self.fails() {
                    return Err(failure(key));
                }
                task.outcome.reads.insert(key.clone(), self.server.objects.get(key).cloned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn fails(&mut self) -> bool {
        let fails = self.troubles.faults > 0 && self.dice.once_in(4);
        self.troubles.faults -= usize::from(fails);
        fails
    }

    fn write(&mut self, write: &Write, task: &mut Task) -> Result<(), Error> {
        let key = write.target();
        let created = write.created();
        let before = task.outcome.answers.get(key).or_else(|| task.job.objects.get(key));
        let before = before.or(created.as_ref()).expect("an object");
        let request = write.request(before).unwrap_or_else(|| panic!("{write:?} changes nothing"));
        let fault = self.fails().then(|| self.dice.below(3));
        match fault {
            Some(0) => return Err(failure(key)),
            Some(1) => {
                // Somebody else was there first.
                if let Some(stored) = self.server.objects.get(key).cloned() {
                    self.server.store(&stored);
                }
            }
            _ => {}
        }
        let deletes = matches!(request, Request::Delete { .. });
        let answer = self.server.serve(write, before, request)?;
        self.writes += 1;
        if deletes {
            // The answer to a deletion is not looked at: only the watch says what has become of the object.
            while self.watch() {}
        }
        if fault == Some(2) {
            // The write is made, but the answer is lost.
            return Err(Error::Api { verb: "patch", key: key.clone(), message: "lost".to_owned(), code: 0 });
        }
        task.outcome.writes += 1;
        if let Some(answer) = answer {
            task.outcome.answers.insert(key.clone(), answer);
        }
        Ok(())
    }

    /// Somebody else does something.
    fn use_it(&mut self) -> bool {
        if self.troubles.users == 0 || self.server.objects.is_empty() {
            return false;
        }
        self.troubles.users -= 1;
        let index = self.dice.below(self.server.objects.len());
        let (key, object) = self.server.objects.iter().nth(index).expect("an object");
        let (key, object) = (key.clone(), object.clone());
        match self.dice.below(3) {
            0 => drop(self.server.store(&object)),
            1 => self.server.delete(&key),
            _ => {
                self.server.delete(&key);
                let again = made_again(&object, self.server.version);
                self.server.store(&again);
            }
        }
        true
    }
}

/// The object as a user would make it anew: with another uid, and without what controllers wrote.
fn made_again(object: &Object, version: u64) -> Object {
    let Object::Claim(claim) = object else { return object.clone() };
    let mut claim = (**claim).clone();
    claim.metadata.uid = Some(format!("uid-{version}"));
    claim.metadata.annotations = None;
    claim.metadata.deletion_timestamp = None;
    claim.status = None;
    // A malformed claim may have no spec; there is no volume to forget then.
    if let Some(spec) = &mut claim.spec {
        spec.volume_name = None;
    }
    Object::from(claim)
}

fn failure(key: &Key) -> Error {
    Error::Api { verb: "patch", key: key.clone(), message: "try later".to_owned(), code: 500 }
}
