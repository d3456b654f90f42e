//! One call: one turn of the production decider about one key, with all that belongs to it and nothing else.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use pvbind::act::events;
use pvbind::act::execute::{self, Executor};
use pvbind::act::watch::{Change, watch};
use pvbind::act::{self, Clock, Decider, Error, Job, Plugins, Roles, VolumePlugin};
use pvbind::cluster::{Key, Kind, Object};
use pvbind::decide::{Action, Write};
use tokio::time::Instant;

use super::server::{Request, Server};
use crate::mock::Mock;
use crate::record::{Injection, Placement, Record};

struct Caller {
    decider: Decider,
    executor: Executor,
    injections: VecDeque<Injection>,
    /// What has changed at the server only.
    behind: Vec<Key>,
}

/// Makes the calls of the record; says of each whether it failed.
pub async fn run(record: &Record, server: &mut Server, mock: &Mock) -> Vec<bool> {
    let client = server.client();
    let (sink, poster) = events::channel(client.clone());
    let decider = Decider::new(record.settings(), Roles::controller());
    let plugins = Plugins::new([Arc::new(mock.clone()) as Arc<dyn VolumePlugin>]);
    let executor =
        Executor { client, events: sink, plugins, clock: Clock::machine(), lead: act::Lead::always() };
    let mut caller = Caller { decider, executor, injections: record.injections(), behind: Vec::new() };
    place(record, server, &mut caller).await;
    let mut failed = Vec::new();
    for step in &record.call.steps {
        assert!(step.op.starts_with("sync"), "{} is a call", step.op);
        failed.push(caller.call(&step.target_key(), server).await);
    }
    caller.agrees_with(record, server);
    // The poster ends when its last sink is gone.
    drop(caller);
    poster.run().await;
    failed
}

/// Puts every object where it was: what the decider knows is what the production watches list, and what only the
/// cache or only the server has is taken away or hidden behind its back.
async fn place(record: &Record, server: &mut Server, caller: &mut Caller) {
    for (object, placement) in record.objects() {
        if placement.in_cache() {
            server.put(&object);
        }
    }
    caller.list().await;
    for (object, placement) in record.objects() {
        if placement == Placement::Cache {
            server.forget(&object.key());
        }
    }
    for (object, placement) in record.objects() {
        if placement == Placement::Api {
            server.hide(&object);
        }
    }
}

/// Whether the job is the first step of an operation.
fn begins_operation(job: &Job) -> bool {
    job.actions.iter().any(|action| match action {
        Action::Read(key) => key.kind() == Kind::Volume,
        Action::Write(write) => matches!(write, Write::SetProvisioner { .. }),
        _ => false,
    })
}

impl Caller {
    /// Shows the decider what the watches deliver until every kind is listed. What that woke stays in the queue,
    /// which nobody asks for more.
    async fn list(&mut self) {
        let kinds = act::run::kinds(&Roles::controller());
        let mut unlisted: BTreeSet<Kind> = kinds.iter().copied().collect();
        let mut watches = watch(&self.executor.client, &kinds);
        while !unlisted.is_empty() {
            match watches.next().await.expect("watches do not end") {
                Change::Show(object) => self.decider.show(object),
                Change::Gone(object) => panic!("{} is gone", object.key()),
                Change::Listed(kind, keys) => {
                    self.decider.listed(kind, &keys);
                    unlisted.remove(&kind);
                }
                Change::Trouble(kind, error) => panic!("watch of {kind:?}: {error}"),
            }
        }
    }

    /// One call; says whether it failed.
    async fn call(&mut self, key: &Key, server: &mut Server) -> bool {
        let mut job = self.turn(key);
        while let Some(this) = job {
            let id = this.id;
            let operates = begins_operation(&this);
            if operates && let Some(injection) = self.injections.pop_front() {
                self.inject(&injection, server);
            }
            let outcome = execute::perform(&self.executor, this).await;
            let unexpected = outcome.error.as_ref().filter(|error| !matches!(error, Error::Unsaved { .. }));
            assert!(unexpected.is_none(), "{unexpected:?}");
            let read = !outcome.reads.is_empty() && !operates;
            let mut next = self.decider.finish(id, outcome, Instant::now()).into_iter();
            job = next.next();
            assert!(next.next().is_none(), "one call leads to one thing after the other");
            self.tell();
            if read {
                assert!(job.is_none(), "what was read is decided about before anything else");
                job = self.turn(key);
            }
        }
        self.decider.reasons()[key].is_failure()
    }

    /// What happens before an operation begins. The decider is shown what upstream's cache has of it.
    fn inject(&mut self, injection: &Injection, server: &mut Server) {
        let cached: BTreeSet<Key> = injection.shown("cache").iter().map(Object::key).collect();
        for key in injection.removed() {
            server.forget(&key);
            self.behind.push(key);
        }
        for object in injection.shown("api").into_iter().chain(injection.shown("lister")) {
            let key = object.key();
            server.put(&object);
            if cached.contains(&key) {
                self.decider.show(server.objects()[&key].clone());
            } else {
                self.behind.push(key);
            }
        }
    }

    fn turn(&mut self, key: &Key) -> Option<Job> {
        let job = self.decider.turn(key, Instant::now());
        self.tell();
        job
    }

    /// Sends the events of plans that write nothing, as the loop does between its jobs.
    fn tell(&mut self) {
        for event in self.decider.take_events() {
            self.executor.events.send(&event, self.decider.cluster().object(&event.regarding));
        }
    }

    /// Fails where the decider believes something else than what the server holds, or still assumes anything.
    fn agrees_with(&self, record: &Record, server: &Server) {
        assert_eq!(self.executor.events.dropped(), 0);
        let objects = server.objects();
        for (object, placement) in record.objects() {
            let key = object.key();
            let deletes = |r: &Request| r.method == "DELETE" || r.body["metadata"]["finalizers"].is_null();
            let is_gone = !objects.contains_key(&key)
                && server.requests().iter().any(|r| r.name == key.name() && deletes(r));
            if placement == Placement::Both
                && matches!(key.kind(), Kind::Claim | Kind::Volume)
                && !self.behind.contains(&key)
                && !is_gone
            {
                assert_eq!(self.decider.cluster().known(&key), objects.get(&key), "{key} as it is known");
                assert_eq!(self.decider.cluster().object(&key), objects.get(&key), "{key} as it is assumed");
            }
        }
    }
}
