//! Decides which objects a text of YAML holds. Never judges them: the API server does.

use std::path::Path;

use fake_apiserver::FakeApiServer;
use serde_json::Value;

use crate::Error;

pub(crate) fn add_file(server: &FakeApiServer, path: &Path) -> Result<(), Error> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Manifest { place: place.clone(), problem: error.to_string() })?;
    add(server, &place, &text)
}

/// Adds every document; empty ones are passed over, and lists are taken apart.
pub(crate) fn add(server: &FakeApiServer, place: &str, text: &str) -> Result<(), Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| Error::Manifest { place: place.to_owned(), problem: error.to_string() })?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        match document {
            Value::Object(mut fields) if fields.get("kind").and_then(Value::as_str) == Some("List") => {
                let items = fields.remove("items");
                for item in items.as_ref().and_then(Value::as_array).into_iter().flatten() {
                    add_object(server, place, item.clone())?;
                }
            }
            document => add_object(server, place, document)?,
        }
    }
    Ok(())
}

pub(crate) fn add_object(server: &FakeApiServer, place: &str, object: Value) -> Result<(), Error> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("?").to_owned();
    let what = format!("{} {}", text("/kind"), text("/metadata/name"));
    let stored = server.import(object);
    stored.map(drop).map_err(|status| Error::Refused { place: place.to_owned(), what, status })
}
