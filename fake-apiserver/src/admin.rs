//! Decides what a test in another process may ask of the server beside the API: faults, the journal, the watches. Never served
//! unless asked for, since it lets anybody break anything. Answers to no upstream piece.

use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::faults::Faults;
use crate::journal::Journal;
use crate::request::Request;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::verbs::import::kind_named;

const PREFIX: &str = "/_pvbind/";
const PATHS: &str =
    "faults, journal, watches, watches/cut, watches/hold?kind=KIND, watches/release?kind=KIND";

/// The answer, if the request is for this and this is served.
pub(crate) fn answer(server: &Server, request: &Request) -> Option<Answer> {
    if !server.options.admin {
        return None;
    }
    let path = request.path.strip_prefix(PREFIX)?;
    Some(dispatch(server, request, path).unwrap_or_else(Answer::from))
}

fn dispatch(server: &Server, request: &Request, path: &str) -> Result<Answer> {
    match (request.method.as_str(), path) {
        ("GET", "faults") => {
            let active = server.faults.get();
            Ok(shown(&active.map(|active| active.faults.clone()).unwrap_or_default()))
        }
        ("PUT", "faults") => {
            let text = std::str::from_utf8(&request.body);
            let text = text.map_err(|_| Status::bad_request("faults: a script is text in UTF-8"))?;
            let faults = Faults::parse(text).map_err(|error| Status::bad_request(error.to_string()))?;
            server.script(Some(faults.clone())).map_err(|error| Status::bad_request(error.to_string()))?;
            Ok(shown(&faults))
        }
        ("DELETE", "faults") => {
            server.script(None).map_err(|error| Status::bad_request(error.to_string()))?;
            Ok(done())
        }
        ("GET", "journal") => Ok(shown(&picked(server, request))),
        ("DELETE", "journal") => {
            server.journal.clear();
            Ok(done())
        }
        ("GET", "watches") => {
            let watches = server.lock().watches().into_iter();
            let watches = watches.map(|(kind, open, held)| json!({"kind": kind, "open": open, "held": held}));
            Ok(Answer::json(200, &watches.collect::<Value>()))
        }
        ("POST", "watches/cut") => {
            server.lock().cut_watches();
            Ok(done())
        }
        ("POST", "watches/hold") => hold(server, request, true),
        ("POST", "watches/release") => hold(server, request, false),
        (_, "faults" | "journal" | "watches" | "watches/cut" | "watches/hold" | "watches/release") => {
            Err(Status::method_not_allowed())
        }
        _ => {
            let why = format!("there is no {PREFIX}{path}; there are {PATHS}");
            Err(Box::new(Status::new(404, "NotFound", why)))
        }
    }
}

fn hold(server: &Server, request: &Request, hold: bool) -> Result<Answer> {
    let kind = request.query.get("kind");
    let mut store = server.lock();
    let index = kind_named(&store, kind).ok_or_else(|| {
        Status::bad_request(format!("kind: {kind:?} is not served; say kind=PersistentVolume, or such"))
    })?;
    store.hold_watches(index, hold);
    Ok(done())
}

/// The requests that the parameters pick.
fn picked(server: &Server, request: &Request) -> Journal {
    let wanted = |name: &str, value: &str| !request.query.has(name) || request.query.get(name) == value;
    server.journal.read().only(|entry| {
        wanted("verb", &entry.verb)
            && wanted("resource", &entry.resource)
            && wanted("subresource", &entry.subresource)
            && wanted("namespace", &entry.namespace)
            && wanted("name", &entry.name)
            && wanted("userAgent", &entry.user_agent)
            && wanted("code", &entry.code.to_string())
    })
}

fn shown(what: &impl Serialize) -> Answer {
    // Neither a script nor a journal has anything that JSON can't say.
    Answer::json(200, &serde_json::to_value(what).unwrap_or_default())
}

fn done() -> Answer {
    Answer::json(200, &json!({}))
}
