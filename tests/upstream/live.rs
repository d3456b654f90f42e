//! A case live: the production watch, decider and executor against the bundled API server, under a paused clock.
//!
//! What is compared is what went over the wire and what the server holds afterwards. A record of one call is one
//! turn of the decider ([`call`]); a record of a loop is the program itself, from its start to its end ([`whole`]).

mod call;
mod server;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use pvbind::cluster::{Kind, Object};
use pvbind::objects::{annotations, volume};

use crate::check::{self, Run};
use crate::mock::Mock;
use crate::record::Record;
use server::{Request, Server};

/// Virtual time within which every case ends: one that hangs fails instead of waiting for ever.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);
/// Binding takes one write each of the volume, its status, the claim and its status.
const WRITES_OF_A_BIND: usize = 4;

/// Runs the case.
pub fn run(record: &Record) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    let mut server = Server::new();
    server.fail(record.api_errors.clone());
    let mock = Mock::new(record);
    let failed = runtime.block_on(async {
        let case = async {
            if check::is_single_call(record) {
                call::run(record, &mut server, &mock).await
            } else {
                whole::run(record, &mut server, &mock).await
            }
        };
        tokio::time::timeout(LIMIT, case).await.expect("the case ends")
    });
    let requests = server.requests();
    budget(record, &requests);
    gets(record, &requests);
    let run = Run {
        objects: server
            .objects()
            .into_iter()
            .map(|(key, object)| (key, as_users_see_it(record, object)))
            .collect(),
        events: requests.iter().filter_map(Request::event).collect(),
        writes: requests.iter().filter_map(|request| request.write(&server)).collect(),
        created: requests.iter().filter_map(Request::created).collect(),
        deletes: requests.iter().filter(|request| request.method == "DELETE").count(),
        reads: requests.iter().filter(|request| request.method == "GET").count(),
        used: mock.used(),
        failed,
    };
    check::all(record, &run);
}

/// Fails where the server refused a write, or binding took more writes than it has to.
fn budget(record: &Record, requests: &[Request]) {
    let refused: Vec<_> =
        requests.iter().filter(|r| r.method != "GET" && !(200..300).contains(&r.code)).collect();
    assert_eq!(refused.len(), record.api_errors.len(), "refused: {refused:?}");
    // Making a volume available is a decision of its own, before any claim takes the volume.
    // So is asking a provisioner.
    let asks =
        |r: &Request| r.body["metadata"]["annotations"].get(annotations::STORAGE_PROVISIONER).is_some();
    let binds = |r: &&Request| {
        r.is_of_claim_or_volume() && r.body["status"]["phase"] != volume::AVAILABLE && !asks(r)
    };
    let writes: Vec<_> = requests.iter().filter(|r| r.method == "PATCH").filter(binds).collect();
    assert!(writes.len() <= WRITES_OF_A_BIND, "{writes:?}");
}

/// Fails where an object was asked for that upstream did not ask for.
fn gets(record: &Record, requests: &[Request]) {
    let gets = requests.iter().filter(|request| request.method == "GET");
    if let Some(calls) = record.observed_calls().filter(|_| check::is_single_call(record)) {
        let ours: Vec<_> = requests.iter().filter_map(Request::call).collect();
        assert_eq!(ours, calls, "calls");
    } else {
        // No trace is recorded of a loop. Upstream asks whether a claim that it does not know is gone indeed.
        let needless: Vec<_> = gets
            .filter(|r| {
                !is_asked_first(record, r) && (r.resource != "persistentvolumeclaims" || r.code != 404)
            })
            .collect();
        assert!(needless.is_empty(), "needless: {needless:?}");
    }
}

/// An operation of a plugin asks for the volume before it makes or destroys anything.
fn is_asked_first(record: &Record, request: &Request) -> bool {
    record.plugin_calls().is_some() && request.resource == "persistentvolumes"
}

/// A server that stores objects as they are keeps an annotation map that a patch has emptied; a real one leaves it
/// out of its answers.
fn as_users_see_it(record: &Record, mut object: Object) -> Object {
    let is_recorded = |(recorded, _): &(Object, _)| recorded.key() == object.key();
    let is_new = object.kind() == Kind::Volume && !record.objects().iter().any(is_recorded);
    let meta = match &mut object {
        Object::Claim(claim) => &mut Arc::make_mut(claim).metadata,
        Object::Volume(volume) => &mut Arc::make_mut(volume).metadata,
        other => panic!("{} is neither claim nor volume", other.key()),
    };
    meta.annotations.take_if(|annotations| annotations.is_empty());
    if is_new {
        // The server of the records gives neither to what is created.
        meta.uid = None;
        meta.creation_timestamp = None;
    }
    object
}
