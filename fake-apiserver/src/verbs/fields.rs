//! Decides which fields of an object a write gives to its writer, kind by kind and endpoint by endpoint. Never
//! merges anything itself. Answers to `k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager` and the
//! `GetResetFields` of each kind's strategy.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::apply::{self, Applied, Conflict, Other, Reset, Set, Subject, Writer};
use crate::autoscalers;
use crate::kinds::{Kind, split_api_version};
use crate::object::metadata_mut;
use crate::routes::Target;
use crate::schema::{self, Link};
use crate::server::Server;
use crate::shapes;
use crate::verbs::strategy;

/// What becomes of the managers of an object that is written.
pub(crate) enum Fields<'a> {
    /// This one gets what is changed, through this subresource.
    By { manager: &'a str, subresource: &'a str },
    /// They are known already.
    Settled(Option<Value>),
}

const RESIZED: &[&[&str]] = &[
    &["spec", "containers", "*", "resources"],
    &["spec", "containers", "*", "resizePolicy"],
    &["spec", "initContainers", "*", "resources"],
    &["spec", "initContainers", "*", "resizePolicy"],
];
const EPHEMERAL: &[&[&str]] = &[&["spec", "ephemeralContainers"]];

/// Sets of fields that endpoints leave alone, each made once.
struct Left {
    nothing: Set,
    status: Set,
    spec: Set,
    deployment: Set,
    pod: Set,
    metadata: Set,
}

static LEFT: LazyLock<Left> = LazyLock::new(|| Left {
    nothing: Set::default(),
    status: Set::of(&[&["status"]]),
    spec: Set::of(&[&["spec"]]),
    deployment: Set::of(&[&["spec"], &["metadata", "labels"]]),
    pod: Set::of(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]),
    metadata: Set::of(&[&["spec"], &["metadata"]]),
});

/// The fields that an endpoint leaves alone.
fn reset(kind: &Kind, subresource: &str) -> Reset {
    Reset::Only(match (&*kind.kind, subresource) {
        ("Pod", "resize") => return Reset::AllBut(RESIZED),
        ("Pod", "ephemeralcontainers") => return Reset::AllBut(EPHEMERAL),
        (_, "scale") => &LEFT.nothing,
        ("Deployment", "status") => &LEFT.deployment,
        ("Pod", "status") => &LEFT.pod,
        ("VolumeAttachment" | "ResourceClaim", "status") => &LEFT.metadata,
        (_, "status") if kind.custom => &LEFT.metadata,
        (_, "status") => &LEFT.spec,
        _ if kind.has_subresource("status") => &LEFT.status,
        _ => &LEFT.nothing,
    })
}

/// Whether managers that name fields in another version are about the same object.
fn knows(kind: &Kind, api_version: &str) -> bool {
    let (group, version) = split_api_version(api_version);
    let event = |group: &str| matches!(group, "" | "events.k8s.io") && kind.kind == "Event";
    let same_version = version == kind.version || kind.custom || kind.group == "autoscaling";
    same_version && (group == kind.group || event(group) && event(&kind.group))
}

/// The version and form in which a writer sees an object.
fn seen(kind: &Kind, value: &Value) -> Value {
    kind.view(value).unwrap_or_else(|| value.clone())
}

/// What an object of a kind is before anything is set.
fn nothing(kind: &Kind, schema: &Link) -> Cow<'static, Value> {
    match shapes::nothing(kind).filter(|_| !kind.is_events_view()) {
        Some(nothing) => kind.view(nothing).map_or(Cow::Borrowed(nothing), Cow::Owned),
        None => Cow::Owned(apply::empty(schema)),
    }
}

/// Fields that the server derives after the writer has got what it wrote: nobody owns them unless they were
/// given. The fields of a row are given together.
const DERIVED: &[(&str, &[&[&str]])] = &[
    ("Namespace", &[&["finalizers"]]),
    (
        "Pod",
        &[&["preemptionPolicy"], &["priority"], &["serviceAccountName", "serviceAccount"], &["tolerations"]],
    ),
    ("PersistentVolumeClaim", &[&["dataSource"], &["dataSourceRef"]]),
];

/// The fields of a new object's spec that will be derived.
pub(crate) fn derived(kind: &Kind, value: &Value) -> Vec<&'static str> {
    let rows = DERIVED.iter().filter(|(name, _)| *name == kind.kind).flat_map(|(_, rows)| *rows);
    let is_given = |field: &&str| value["spec"].get(*field).is_some_and(|given| !given.is_null());
    rows.filter(|row| !row.iter().any(is_given)).flat_map(|row| *row).copied().collect()
}

/// The managers of a new object, of which some fields are derived.
pub(crate) fn after_create(
    server: &Server,
    target: &Target,
    new: &Value,
    derived: &[&str],
    manager: &str,
) -> Option<Value> {
    let daemons = target.kind.kind == "DaemonSet" && !target.kind.custom;
    if derived.is_empty() && !daemons {
        return after_update(server, target, None, new, manager, "");
    }
    // Most of what is derived comes later, so that most objects have none of it yet.
    let spec = new["spec"].as_object().filter(|spec| !spec.is_empty());
    if !daemons && spec.is_some_and(|spec| !derived.iter().any(|name| spec.contains_key(*name))) {
        return after_update(server, target, None, new, manager, "");
    }
    let mut given = new.clone();
    let spec = crate::object::map_mut(&mut given, "spec");
    spec.retain(|name, _| !derived.contains(&name.as_str()));
    if spec.is_empty() {
        crate::object::as_map_mut(&mut given).remove("spec");
    }
    if daemons {
        strategy::count_templates(&target.kind, None, &mut given);
    }
    after_update(server, target, None, &given, manager, "")
}

/// The managers after an object was written other than by applying; without `old` it is new.
pub(crate) fn after_update(
    server: &Server,
    target: &Target,
    old: Option<&Value>,
    new: &Value,
    manager: &str,
    subresource: &str,
) -> Option<Value> {
    on_behalf(server, target, manager, subresource, |subject, writer| {
        let kind = &target.kind;
        let old = old.map_or_else(|| (subject.nothing)(), Cow::Borrowed);
        if kind.is_view() {
            return apply::update(subject, writer, &seen(kind, &old), &seen(kind, new));
        }
        apply::update(subject, writer, &old, new)
    })
}

/// Does a step that knows the kind's fields, and who writes where and when.
fn on_behalf<T>(
    server: &Server,
    target: &Target,
    manager: &str,
    subresource: &str,
    step: impl FnOnce(&Subject, &Writer) -> T,
) -> T {
    let kind = &target.kind;
    let schema = schema::of_kind(kind);
    let (api_version, now) = (kind.api_version(), server.timestamp());
    let other = autoscalers::other(kind);
    let other = other.as_ref().map(|(api_version, schema, to, from)| Other { api_version, schema, to, from });
    let subject = Subject {
        schema,
        api_version: &api_version,
        reset: &reset(kind, subresource),
        nothing: &|| nothing(kind, schema),
        knows: &|version| knows(kind, version),
        other,
    };
    let writer = Writer { manager, subresource, now: &now };
    step(&subject, &writer)
}

/// What an applied configuration makes of an object; without `old` it is new.
pub(crate) fn apply(
    server: &Server,
    target: &Target,
    old: Option<&Value>,
    configuration: &Value,
    manager: &str,
    force: bool,
) -> Result<Applied, Vec<Conflict>> {
    let kind = &target.kind;
    let old = old.map_or_else(|| Value::Object(Map::new()), |old| seen(kind, old));
    let mut applied = on_behalf(server, target, manager, &target.subresource, |subject, writer| {
        apply::apply(subject, writer, &old, configuration, force)
    })?;
    applied.object = applied.object.map(|object| kind.kept(object));
    Ok(applied)
}

/// Writes the managers down.
pub(crate) fn store(value: &mut Value, managers: Option<Value>) {
    match managers {
        Some(managers) => metadata_mut(value).insert("managedFields".into(), managers),
        None => metadata_mut(value).remove("managedFields"),
    };
}

/// Takes the times of the managers back when nothing but them would change.
pub(crate) fn keep_times(old: &Value, value: &mut Value) {
    let (metadata, new_metadata) = (&old["metadata"], &value["metadata"]);
    let (before, after) = (&metadata["managedFields"], &new_metadata["managedFields"]);
    if before != after
        && same_but("managedFields", metadata, new_metadata)
        && same_but("metadata", old, value)
        && same_but_for_times(before, after)
    {
        store(value, Some(before.clone()));
    }
}

/// Whether two maps say the same, one field left aside.
fn same_but(aside: &str, a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let size = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(aside));
    size(a) == size(b) && a.iter().all(|(name, value)| name == aside || b.get(name) == Some(value))
}

fn same_but_for_times(a: &Value, b: &Value) -> bool {
    let (Value::Array(a), Value::Array(b)) = (a, b) else { return false };
    // The order follows the times, so that it does not count either.
    a.len() == b.len() && a.iter().all(|one| b.iter().any(|other| same_but("time", one, other)))
}
