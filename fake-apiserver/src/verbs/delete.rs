//! Decides whether a deleted object goes at once or waits, for finalizers or for a grace period. Never
//! deletes what the preconditions don't describe. Answers to `Store.Delete`, `rest.BeforeDelete` and the
//! propagation policies.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::crds;
use crate::kinds::{Kind, Trait};
use crate::object::{Object, at, metadata_mut, strings, text};
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::store::Store;
use crate::verbs::list::to_delete;
use crate::verbs::{TYPE_META, dry_run, form_of};

const JOB_ORPHANS: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
    them or set propagationPolicy=Orphan to suppress this warning";

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    grace: Option<i64>,
    policy: Option<String>,
    orphan: Option<bool>,
    uid: Option<String>,
    version: Option<String>,
    dry: bool,
}

impl DeleteOptions {
    /// From the body, or from the query when there is no body.
    fn parse(request: &Request) -> Result<Self> {
        let query = &request.query;
        let options = if request.body.is_empty() {
            Self {
                grace: query.number("gracePeriodSeconds")?,
                policy: query.has("propagationPolicy").then(|| query.get("propagationPolicy").to_owned()),
                orphan: query.has("orphanDependents").then(|| query.flag("orphanDependents")),
                uid: None,
                version: None,
                dry: dry_run(query.all("dryRun"), "DeleteOptions")?,
            }
        } else {
            Self::parse_body(request)?
        };
        options.check()?;
        Ok(options)
    }

    fn parse_body(request: &Request) -> Result<Self> {
        let body: Value = request.decode()?.map_err(Status::bad_request)?;
        check_forms(&body)?;
        let kind = text(&body, &["kind"]);
        if !kind.is_empty() && kind != "DeleteOptions" {
            let version = text(&body, &["apiVersion"]);
            let why = format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
            );
            return Err(Status::bad_request(why));
        }
        let string = |value: &Value| value.as_str().map(str::to_owned);
        let in_body: Vec<&str> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        Ok(Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            policy: string(&body["propagationPolicy"]),
            orphan: body["orphanDependents"].as_bool(),
            uid: string(&body["preconditions"]["uid"]),
            version: string(&body["preconditions"]["resourceVersion"]),
            // With a body, nobody reads the query.
            dry: dry_run(in_body.into_iter(), "DeleteOptions")?,
        })
    }

    fn check(&self) -> Result<()> {
        let field = "propagationPolicy";
        let cause = match self.policy.as_deref() {
            Some(policy) if self.orphan.is_some() => {
                Cause::invalid(field, policy, "orphanDependents and deletionPropagation cannot be both set")
            }
            None | Some("Foreground" | "Background" | "Orphan") => return Ok(()),
            Some(policy) => Cause::unsupported(field, policy, &["Foreground", "Background", "Orphan", "nil"]),
        };
        Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &[cause]))
    }

    /// The finalizers with which the garbage collector would be told what to do with dependents.
    fn finalizers(&self, present: Vec<&str>, kind: &Kind) -> Vec<String> {
        let asked = present.iter().any(|one| matches!(*one, "orphan" | "foregroundDeletion"));
        let mut finalizers: Vec<String> = present.into_iter().map(str::to_owned).collect();
        let wanted = match (self.policy.as_deref(), self.orphan) {
            // Nothing depends on an event.
            _ if kind.kind == "Event" && !kind.custom => None,
            (Some("Orphan"), _) | (None, Some(true)) => Some("orphan"),
            (Some("Foreground"), _) => Some("foregroundDeletion"),
            (None, None) if kind.has(Trait::OrphansByDefault) && !asked => Some("orphan"),
            (None, None) => return finalizers,
            _ => None,
        };
        finalizers.retain(|one| one != "orphan" && one != "foregroundDeletion");
        finalizers.extend(wanted.map(str::to_owned));
        finalizers
    }
}

/// Refuses options of other types than they have: what says something else must not delete anything.
fn check_forms(body: &Value) -> Result<()> {
    let wrong = |value: &Value, place: &str, fits: bool| {
        let why = format!("json: cannot unmarshal {} into {place}", form_of(value));
        if fits || value.is_null() { Ok(()) } else { Err(Status::bad_request(why)) }
    };
    if !body.is_object() && !body.is_null() {
        let why = format!("json: cannot unmarshal {} into {TYPE_META}", form_of(body));
        return Err(Status::bad_request(format!("couldn't get version/kind; json parse error: {why}")));
    }
    let at = |field: &str, of: &str| format!("Go struct field DeleteOptions.{field} of type {of}");
    let field = |name: &str| &body[name];
    let grace = field("gracePeriodSeconds");
    wrong(grace, &at("gracePeriodSeconds", "int64"), grace.is_i64())?;
    let policy = field("propagationPolicy");
    wrong(policy, &at("propagationPolicy", "v1.DeletionPropagation"), policy.is_string())?;
    let orphan = field("orphanDependents");
    wrong(orphan, &at("orphanDependents", "bool"), orphan.is_boolean())?;
    let dry = field("dryRun");
    wrong(dry, &at("dryRun", "[]string"), dry.is_array())?;
    for one in dry.as_array().into_iter().flatten() {
        wrong(one, &at("dryRun", "string"), one.is_string())?;
    }
    let conditions = field("preconditions");
    wrong(conditions, &at("preconditions", "v1.Preconditions"), conditions.is_object())?;
    for (name, of) in [("uid", "types.UID"), ("resourceVersion", "string")] {
        let path = format!("preconditions.{name}");
        wrong(&conditions[name], &at(&path, of), conditions[name].is_string())?;
    }
    Ok(())
}

/// What a delete came to.
enum Outcome {
    Gone(Arc<Object>),
    Terminating(Arc<Object>),
}

pub(crate) fn delete(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let options = DeleteOptions::parse(request)?;
    let mut store = server.lock();
    let outcome = remove(server, &mut store, target, &options)
        .map_err(|refusal| refusal.warned(preserved(&target.kind, &options)))?;
    server.announce(&store);
    let answer = match outcome {
        Outcome::Gone(object) if !target.kind.has(Trait::ReturnsDeleted) => {
            Answer::json(200, &Status::deleted(&target.kind, &target.name, object.uid()))
        }
        Outcome::Gone(object) => Answer::object(200, &target.kind, &object),
        Outcome::Terminating(object) => {
            let code = if options.orphan == Some(false) { 202 } else { 200 };
            Answer::object(code, &target.kind, &object)
        }
    };
    Ok(answer.with_warnings(preserved(&target.kind, &options)))
}

/// What is said to those who may not expect that pods stay.
fn preserved(kind: &Kind, options: &DeleteOptions) -> Option<String> {
    let silent = kind.kind != "Job" || kind.custom || options.policy.is_some() || options.orphan.is_some();
    (!silent).then(|| JOB_ORPHANS.to_owned())
}

pub(crate) fn delete_collection(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    if target.kind.has(Trait::NoDeleteCollection) || target.kind.namespaced && target.namespace.is_empty() {
        return Err(Status::method_not_allowed());
    }
    let options = DeleteOptions::parse(request)?;
    let mut store = server.lock();
    let (objects, list) = to_delete(&store, request, target)?;
    for object in &objects {
        let one = Target::of(&store.kinds, target.index, object.namespace(), object.name());
        remove(server, &mut store, &one, &options)?;
    }
    server.announce(&store);
    Ok(Answer::bytes(list).with_warnings(preserved(&target.kind, &options)))
}

/// Whether the pod is the one that an eviction means.
pub(crate) fn check_eviction(target: &Target, pod: &Object, options: &Value) -> Result<()> {
    let precondition = |field: &str| options["preconditions"][field].as_str().map(str::to_owned);
    check_forms(options)?;
    let options = DeleteOptions {
        uid: precondition("uid"),
        version: precondition("resourceVersion"),
        policy: options["propagationPolicy"].as_str().map(str::to_owned),
        orphan: options["orphanDependents"].as_bool(),
        ..DeleteOptions::default()
    };
    options.check()?;
    check_preconditions(target, pod, &options)
}

/// Deletes a pod that may be evicted.
pub(crate) fn evicted(
    server: &Server,
    store: &mut Store,
    target: &Target,
    options: &Value,
    dry: bool,
) -> Result<()> {
    let policy = options["propagationPolicy"].as_str().map(str::to_owned);
    let options = DeleteOptions {
        grace: options["gracePeriodSeconds"].as_i64(),
        policy,
        dry,
        ..DeleteOptions::default()
    };
    remove(server, store, target, &options).map(|_| ())
}

fn remove(server: &Server, store: &mut Store, target: &Target, options: &DeleteOptions) -> Result<Outcome> {
    let key = target.key();
    let current = store.get(target.index, &key).map(Object::apart);
    let current =
        current.ok_or_else(|| Status::not_found(&target.kind.group, &target.kind.plural, &target.name))?;
    check_preconditions(target, &current, options)?;
    crate::admission::on_delete(target)?;
    if let Some(marked) = crds::on_delete(server, store, target, &current, options.dry) {
        return Ok(Outcome::Terminating(marked));
    }
    let grace = grace_period(target, &current.value, options);
    let namespace = target.kind.kind == "Namespace" && !target.kind.custom;
    let held = namespace && !strings(&current.value, &["spec", "finalizers"]).is_empty();
    let was = at(&current.value, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
    if held && was {
        return Ok(Outcome::Terminating(current));
    }
    let finalizers = options.finalizers(strings(&current.value, &["metadata", "finalizers"]), &target.kind);
    let mut value = Value::clone(&current.value);
    set_finalizers(&mut value, &finalizers);
    let waits = !finalizers.is_empty() || grace > 0 || held;
    if was {
        shorten(server, &mut value, grace);
    } else if waits || target.kind.has(Trait::Graceful) {
        terminate(server, target, &mut value, grace);
    }
    if waits || was && still_graceful(&value) {
        if value == *current.value {
            return Ok(Outcome::Terminating(current));
        }
        let object = if options.dry {
            Arc::new(Object::new(value, current.revision))
        } else {
            store.put(target.index, key, value)
        };
        return Ok(Outcome::Terminating(object));
    }
    if options.dry {
        return Ok(Outcome::Gone(Arc::new(Object::new(value, current.revision))));
    }
    if target.kind.has(Trait::Graceful) {
        // A pod is marked before it goes, even when it goes at once: watches see both.
        let marked =
            if value == *current.value { current } else { store.put(target.index, key.clone(), value) };
        store.remove(target.index, &key);
        return Ok(Outcome::Gone(marked));
    }
    let gone = store.remove(target.index, &key).unwrap_or(current);
    crds::removed(server, store, target, &gone);
    Ok(Outcome::Gone(gone))
}

fn still_graceful(value: &Value) -> bool {
    value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0
}

fn check_preconditions(target: &Target, current: &Object, options: &DeleteOptions) -> Result<()> {
    let kind = &target.kind;
    let other_uid = options.uid.as_deref().filter(|uid| *uid != current.uid());
    let other_version = options.version.as_deref().filter(|version| version.parse() != Ok(current.revision));
    let (revision, name) = (current.revision, &target.name);
    // Two kinds look for themselves before anything else is done.
    let looks = kind.kind == "Namespace" && !kind.custom || crds::is_definition(kind);
    if looks {
        let (what, given, stored) = match (other_uid, other_version) {
            (Some(uid), _) => ("UID", uid, current.uid().to_owned()),
            (None, Some(version)) => ("ResourceVersion", version, revision.to_string()),
            (None, None) => return Ok(()),
        };
        let why =
            format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {stored}");
        return Err(Status::conflict(&kind.group, &kind.plural, name, &why));
    }
    let why = match (other_uid, other_version) {
        (Some(uid), _) => format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.uid()
        ),
        (None, Some(version)) => format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object might have been modified",
        ),
        (None, None) => return Ok(()),
    };
    let group = if kind.is_events_view() { "" } else { &kind.group };
    Err(Status::conflict(group, &kind.kind, name, &why))
}

/// How long the object may take to go; only pods that a node runs take any time.
fn grace_period(target: &Target, value: &Value, options: &DeleteOptions) -> i64 {
    if !target.kind.has(Trait::Graceful) {
        return 0;
    }
    let unscheduled = text(value, &["spec", "nodeName"]).is_empty();
    let over = matches!(text(value, &["status", "phase"]), "Succeeded" | "Failed");
    let own = at(value, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    match options.grace {
        _ if unscheduled || over && options.grace.is_none() => 0,
        Some(seconds) if seconds < 0 => 1,
        Some(seconds) => seconds,
        None => own.unwrap_or(30),
    }
}

fn set_finalizers(value: &mut Value, finalizers: &[String]) {
    let metadata = metadata_mut(value);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(finalizers));
    }
}

/// Marks an object as terminating.
fn terminate(server: &Server, target: &Target, value: &mut Value, grace: i64) {
    let time = server.timestamp_in(grace);
    let metadata = metadata_mut(value);
    metadata.insert("deletionTimestamp".into(), time.into());
    if target.kind.kind != "Namespace" || target.kind.custom {
        metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    if let Some(generation) =
        metadata.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0)
    {
        metadata.insert("generation".into(), generation.saturating_add(1).into());
    }
    if target.kind.kind == "Namespace" {
        crate::object::map_mut(value, "status").insert("phase".into(), "Terminating".into());
    }
}

/// A second delete can make the wait shorter, never longer.
fn shorten(server: &Server, value: &mut Value, grace: i64) {
    let present = value["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if present.is_none_or(|present| grace >= present) {
        return;
    }
    let time = server.timestamp_in(grace);
    let metadata = metadata_mut(value);
    metadata.insert("deletionTimestamp".into(), time.into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}
