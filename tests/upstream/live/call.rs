//! One call: one turn of the production decider about one key, with all that belongs to it and nothing else.

use std::collections::BTreeSet;

use futures::StreamExt;
use pvbind::act::events;
use pvbind::act::execute::{self, Executor};
use pvbind::act::watch::{Change, watch};
use pvbind::act::{self, Decider, Job, Roles, StorageMode};
use pvbind::cluster::{Key, Kind};
use tokio::time::Instant;

use super::server::Server;
use crate::record::{Placement, Record};

struct Caller {
    decider: Decider,
    executor: Executor,
}

/// Makes the calls of the record; says of each whether it failed.
pub async fn run(record: &Record, server: &mut Server) -> Vec<bool> {
    let client = server.client();
    let (sink, poster) = events::channel(client.clone());
    let decider = Decider::new(record.settings(), Roles::controller());
    let executor = Executor { client, events: sink, storage: StorageMode::Pretended };
    let mut caller = Caller { decider, executor };
    place(record, server, &mut caller).await;
    let mut failed = Vec::new();
    for step in &record.call.steps {
        assert!(step.op.starts_with("sync"), "{} is a call", step.op);
        failed.push(caller.call(&step.target_key()).await);
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
    async fn call(&mut self, key: &Key) -> bool {
        let mut job = self.turn(key);
        while let Some(this) = job {
            let id = this.id;
            let outcome = execute::perform(&self.executor, this).await;
            assert!(outcome.error.is_none(), "{:?}", outcome.error);
            let read = !outcome.reads.is_empty();
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
            if placement == Placement::Both && matches!(key.kind(), Kind::Claim | Kind::Volume) {
                assert_eq!(self.decider.cluster().known(&key), objects.get(&key), "{key} as it is known");
                assert_eq!(self.decider.cluster().object(&key), objects.get(&key), "{key} as it is assumed");
            }
        }
    }
}
