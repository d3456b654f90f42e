//! Decides the answer to a GET of one object: its newest version. Never waits for a version. Answers to
//! `Store.Get`.

use crate::answer::Answer;
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};

pub(crate) fn get(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    if request.query.flag("export") {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(why));
    }
    let store = server.lock();
    let wanted = request.query.get("resourceVersion");
    if !wanted.is_empty() {
        let wanted = parse_version(wanted)?;
        if wanted > store.revision() {
            return Err(Status::too_large_version(wanted, store.revision()));
        }
    }
    let object = store.get(target.index, &target.key()).cloned();
    drop(store);
    let object =
        object.ok_or_else(|| Status::not_found(&target.kind.group, &target.kind.plural, &target.name))?;
    Ok(Answer::object(200, &target.kind, &object))
}

/// A resource version, refused in Go's words when it is none.
pub(crate) fn parse_version(text: &str) -> Result<u64> {
    text.parse().map_err(|_| {
        let shown = serde_json::Value::from(text);
        let why = format!("strconv.ParseUint: parsing {shown}: invalid syntax");
        Status::untranslated(format!("resourceVersion: Invalid value: {shown}: {why}"))
    })
}
