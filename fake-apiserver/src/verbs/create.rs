//! Decides what becomes of a new object. Never overwrites one that exists. Answers to `Store.Create` and
//! `rest.BeforeCreate`.

use std::sync::Arc;

use serde_json::Value;

use crate::admission;
use crate::answer::Answer;
use crate::crds;
use crate::defaults;
use crate::object::{Object, at, key_of, metadata_mut, text};
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;
use crate::verbs::fields::{self, Fields};
use crate::verbs::options::WriteOptions;
use crate::verbs::{addresses, body, settle_namespace, strategy};
use crate::warnings;

/// How often another generated name is tried when one is taken.
const ATTEMPTS: usize = 8;

pub(crate) fn create(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let options = WriteOptions::read(request, "CreateOptions")?;
    let (mut value, warned) = body::object(server, request, &target.kind, &options)?;
    settle_namespace(target, &mut value)?;
    let mut store = server.lock();
    let mut said: Vec<String> = warned.into_iter().chain(warnings::repeated_owners(&value, false)).collect();
    let fields = Fields::By { manager: &options.manager, subresource: "" };
    let object = insert(server, &mut store, target, value, fields, options.dry, &mut said);
    server.announce(&store);
    match object {
        Ok(object) => Ok(Answer::object(201, &target.kind, &object).with_warnings(said)),
        Err(refusal) => Err(refusal.warned(said)),
    }
}

/// Stores a new object that is typed and in its namespace. What there is to warn of is said of a valid object, also when it is
/// not stored after all.
pub(crate) fn insert(
    server: &Server,
    store: &mut Store,
    target: &Target,
    value: Value,
    fields: Fields,
    dry: bool,
    said: &mut Vec<String>,
) -> Result<Arc<Object>> {
    let version = text(&value, &["metadata", "resourceVersion"]);
    if !version.is_empty() && version != "0" && version.parse::<u64>().is_ok() {
        return Err(Status::untranslated("resourceVersion should not be set on objects to be created"));
    }
    let mut value = value;
    let brought = metadata_mut(&mut value).remove("managedFields");
    let generated = begin_metadata(server, &mut value);
    if !server.is_raw() {
        let derived = fields::derived(&target.kind, &value);
        strategy::prepare(&target.kind, &mut value)?;
        if server.options.managed_fields {
            let managers = match fields {
                Fields::Settled(managers) => managers,
                Fields::By { manager, .. } => {
                    fields::store(&mut value, brought);
                    fields::after_create(server, target, &value, &derived, manager)
                }
            };
            fields::store(&mut value, managers);
        }
        admission::on_create(server, store, target, &mut value)?;
        crds::forbids_create(store, target, text(&value, &["metadata", "name"]))?;
        strategy::prepare_create(server, target, &mut value);
        let causes = crate::validate::create(&target.kind, &value);
        if !causes.is_empty() {
            let name = text(&value, &["metadata", "name"]);
            return Err(Status::invalid_object(&target.kind, name, &causes));
        }
        said.extend(crds::warnings(&target.kind, None, &value));
        said.extend(warnings::of(&target.kind, None, &value));
        if server.options.plugins.pod_security {
            said.extend(admission::security::warning(store, target, &value));
        }
        defaults::apply_last(&target.kind, &mut value);
        addresses::assign(server, store, target, None, &mut value)?;
        admission::charge(server, store, target, &value, None, dry)?;
    }
    put_new(server, store, target, value, generated, dry)
}

/// Gives the object what the server gives every new object; says whether its name was generated.
fn begin_metadata(server: &Server, value: &mut Value) -> bool {
    let raw = server.is_raw();
    let metadata = metadata_mut(value);
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    if !raw {
        metadata.remove("deletionTimestamp");
        metadata.remove("deletionGracePeriodSeconds");
    }
    let is_empty = |field: &str| metadata.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
    let (unnamed, based) = (is_empty("name"), !is_empty("generateName"));
    if !raw || is_empty("uid") {
        metadata.insert("uid".into(), server.uid().into());
    }
    if !raw || metadata.get("creationTimestamp").is_none_or(Value::is_null) {
        metadata.insert("creationTimestamp".into(), server.timestamp().into());
    }
    if unnamed && based {
        generate_name(server, value);
    }
    unnamed && based
}

fn generate_name(server: &Server, value: &mut Value) {
    let name = server.generate_name(text(value, &["metadata", "generateName"]));
    metadata_mut(value).insert("name".into(), name.into());
}

fn put_new(
    server: &Server,
    store: &mut Store,
    target: &Target,
    mut value: Value,
    generated: bool,
    dry: bool,
) -> Result<Arc<Object>> {
    for attempt in 1.. {
        let name = text(&value, &["metadata", "name"]);
        if name.is_empty() {
            let cause = crate::status::Cause::required("metadata.name", "name or generateName is required");
            return Err(Status::invalid_object(&target.kind, "", &[cause]));
        }
        let key = key_of(&target.namespace, name);
        let Some(existing) = store.get(target.index, &key) else {
            if dry {
                return Ok(Arc::new(Object::new(value, 0)));
            }
            if let Some(version) = &target.kind.definition {
                version.to_stored(&mut value);
            }
            let object = store.put(target.index, key, value);
            crds::written(server, store, target, object.name());
            return Ok(object);
        };
        if !generated || attempt == ATTEMPTS {
            let mut refusal = Status::already_exists(&target.kind, name);
            if at(&existing.value, &["metadata", "deletionTimestamp"]).is_some() {
                refusal.message = format!("object is being deleted: {}", refusal.message);
            }
            return Err(refusal);
        }
        generate_name(server, &mut value);
    }
    Err(Status::untranslated("no free name was found"))
}
