//! Decides who owns which field, and what an applied configuration makes of an object: fields are merged by
//! the schema, those that their owner gives up go, and those of others are a conflict. Pure: it knows neither
//! requests nor the store. Answers to `k8s.io/apimachinery/pkg/util/managedfields` and
//! `sigs.k8s.io/structured-merge-diff/merge/update.go`.

mod compare;
mod element;
#[cfg(test)]
mod laws;
mod managers;
mod merge;
mod scale;
mod set;
mod walk;

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use crate::apply::compare::{Comparison, compare, set_of};
use crate::apply::managers::{Entry, Identity, Managers};
use crate::apply::merge::{merge, remove};
use crate::apply::set::show;
use crate::schema::Link;

pub(crate) use crate::apply::merge::mistakes;
pub(crate) use crate::apply::scale::Replicas;
pub(crate) use crate::apply::set::Set;
pub(crate) use crate::apply::walk::empty;

/// The annotation in which `kubectl apply` keeps what it applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What the server keeps, and nobody owns.
static NOBODYS: LazyLock<Set> = LazyLock::new(|| {
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert_fields(&[name]);
    }
    for name in NOBODYS_METADATA {
        set.insert_fields(&["metadata", name]);
    }
    set
});
const NOBODYS_METADATA: &[&str] = &[
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// What is known of the kind that is written.
pub(crate) struct Subject<'a> {
    pub(crate) schema: &'a Link,
    pub(crate) api_version: &'a str,
    /// Fields that this endpoint does not write.
    pub(crate) reset: &'a Reset,
    /// What an object of the kind is before anything is set.
    pub(crate) nothing: &'a dyn Fn() -> Cow<'static, Value>,
    /// Whether managers of another version name the same fields.
    pub(crate) knows: &'a dyn Fn(&str) -> bool,
    /// A version that names fields of its own, and in which the same objects are shown too.
    pub(crate) other: Option<Other<'a>>,
}

/// Another version of a kind.
pub(crate) struct Other<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) schema: &'a Link,
    /// An object of the subject's version in this one.
    pub(crate) to: &'a dyn Fn(&Value) -> Value,
    /// One of this version in the subject's.
    pub(crate) from: &'a dyn Fn(&Value) -> Value,
}

/// What was changed, in each version's own fields.
struct Changes<'a> {
    own: Comparison,
    other: Option<(&'a str, Comparison)>,
}

impl<'a> Changes<'a> {
    fn between(subject: &'a Subject, old: &Value, new: &Value) -> Self {
        let compare = |schema: &Link, old: &Value, new: &Value| {
            let mut changes = compare(schema, old, new);
            changes.filter(|set| subject.reset.filter(set));
            changes
        };
        let other = subject
            .other
            .as_ref()
            .map(|other| (other.api_version, compare(other.schema, &(other.to)(old), &(other.to)(new))));
        Self { own: compare(subject.schema, old, new), other }
    }

    /// The changes of the fields that a version names.
    fn of(&self, api_version: &str) -> &Comparison {
        match &self.other {
            Some((version, changes)) if *version == api_version => changes,
            _ => &self.own,
        }
    }
}

/// The fields that an endpoint leaves alone, whatever is written.
pub(crate) enum Reset {
    /// These, and what is below them.
    Only(&'static Set),
    /// All but those below these paths, where `*` is any step.
    AllBut(&'static [&'static [&'static str]]),
}

/// Who writes.
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
}

/// A field that belongs to somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The other manager, in words.
    pub(crate) manager: String,
    pub(crate) path: String,
    steps: Vec<element::Element>,
}

/// What an applied configuration made of an object.
#[derive(Debug)]
pub(crate) struct Applied {
    /// Nothing when the object stays as it is, but for its managers.
    pub(crate) object: Option<Value>,
    pub(crate) managers: Option<Value>,
}

impl Reset {
    fn filter(&self, set: &mut Set) {
        match self {
            Self::Only(reset) => set.leave_out(reset),
            Self::AllBut(kept) => *set = set.below_any(kept),
        }
    }
}

impl Writer<'_> {
    fn identity(&self, applies: bool, api_version: &str) -> Identity {
        let manager = if self.manager.is_empty() { "unknown" } else { self.manager };
        Identity {
            manager: manager.to_owned(),
            applies,
            api_version: if applies { String::new() } else { api_version.to_owned() },
            subresource: self.subresource.to_owned(),
        }
    }
}

/// The managers after an object was written other than by applying. `old` is what nothing is for a new one.
pub(crate) fn update(subject: &Subject, writer: &Writer, old: &Value, new: &Value) -> Option<Value> {
    let managers = decode_either(writer, old, new);
    let is_new = old["metadata"].get("uid").and_then(Value::as_str).is_none_or(str::is_empty);
    if managers.is_empty() && !is_new {
        // Somebody has emptied the list, and an object that nobody applied to stays without one.
        return None;
    }
    let mut managers = managers;
    track(subject, writer, &mut managers, old, new);
    managers.cap();
    managers.encode()
}

/// The managers that an update goes on from: those it brings along, which may have been edited, else those
/// that there were.
fn decode_either(writer: &Writer, old: &Value, new: &Value) -> Managers {
    let stored = || Managers::decode(&old["metadata"]["managedFields"]).unwrap_or_default();
    if !writer.subresource.is_empty() {
        return stored();
    }
    let brought = &new["metadata"]["managedFields"];
    if brought
        .as_array()
        .is_some_and(|list| list.is_empty() || *list == [Value::Object(serde_json::Map::new())])
    {
        return Managers::default();
    }
    match Managers::decode(brought) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => stored(),
    }
}

/// Gives the writer what it changed, and takes it from the others.
fn track(subject: &Subject, writer: &Writer, managers: &mut Managers, old: &Value, new: &Value) {
    managers.retain(|entry| (subject.knows)(&entry.api_version));
    let changes = Changes::between(subject, old, new);
    release(managers, None, &changes);
    let mut owned = changes.own.modified.union(changes.own.added);
    owned.subtract(&NOBODYS);
    if owned.is_empty() {
        return;
    }
    let identity = writer.identity(false, subject.api_version);
    let fields = managers.take(&identity).map(|entry| entry.fields).unwrap_or_default();
    managers.put(Entry {
        identity,
        api_version: subject.api_version.to_owned(),
        time: Some(writer.now.to_owned()),
        fields: fields.union(owned),
    });
}

/// Takes what was changed from all managers but one.
fn release(managers: &mut Managers, but: Option<&Identity>, changes: &Changes) {
    if changes.own.is_empty() && changes.other.as_ref().is_none_or(|(_, changes)| changes.is_empty()) {
        return;
    }
    for entry in managers.iter_mut().filter(|entry| Some(&entry.identity) != but) {
        let changes = changes.of(&entry.api_version);
        for gone in [&changes.modified, &changes.added, &changes.removed] {
            entry.fields.subtract(gone);
        }
    }
    managers.retain(|entry| !entry.fields.is_empty());
}

/// Applies a configuration.
pub(crate) fn apply(
    subject: &Subject,
    writer: &Writer,
    old: &Value,
    configuration: &Value,
    force: bool,
) -> Result<Applied, Vec<Conflict>> {
    let applied = apply_once(subject, writer, old, configuration, force);
    let mut applied = match applied {
        // What kubectl applied on the client's side before belongs to it: no conflict.
        Err(conflicts) if writer.manager == "kubectl" => {
            let Some(allowed) = last_applied(subject, old) else { return Err(conflicts) };
            let left: Vec<Conflict> =
                conflicts.into_iter().filter(|one| !allowed.contains(&one.steps)).collect();
            if !left.is_empty() {
                return Err(left);
            }
            apply_once(subject, writer, old, configuration, true)?
        }
        other => other?,
    };
    if writer.manager == "kubectl" {
        refresh_last_applied(&mut applied, old, configuration);
    }
    Ok(applied)
}

fn apply_once(
    subject: &Subject,
    writer: &Writer,
    old: &Value,
    configuration: &Value,
    force: bool,
) -> Result<Applied, Vec<Conflict>> {
    let mut managers = Managers::decode(&old["metadata"]["managedFields"]).unwrap_or_default();
    if managers.is_empty() {
        let before = Writer { manager: "before-first-apply", ..*writer };
        track(subject, &before, &mut managers, &(subject.nothing)(), old);
    }
    managers.retain(|entry| (subject.knows)(&entry.api_version));
    let identity = writer.identity(true, subject.api_version);
    let last = managers.get(&identity).cloned();
    let mut owned = set_of(subject.schema, configuration);
    subject.reset.filter(&mut owned);
    let mut time = last.as_ref().and_then(|entry| entry.time.clone());
    managers.put(Entry {
        identity: identity.clone(),
        api_version: subject.api_version.to_owned(),
        time: time.clone(),
        fields: owned,
    });
    let mut old = old.clone();
    crate::object::metadata_mut(&mut old).remove("managedFields");
    let merged = merge(subject.schema, &old, configuration);
    let new = prune(subject, merged, &managers, last.as_ref());
    let changes = Changes::between(subject, &old, &new);
    if !force {
        let conflicts = conflicts(&managers, &identity, &changes);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    release(&mut managers, Some(&identity), &changes);
    let differs = element::compare(&old, &new).is_ne();
    if differs {
        time = Some(writer.now.to_owned());
    }
    if let Some(entry) = managers.get_mut(&identity) {
        entry.time = time;
        entry.fields.subtract(&NOBODYS);
    }
    managers.retain(|entry| !entry.fields.is_empty());
    Ok(Applied { object: differs.then_some(new), managers: managers.encode() })
}

/// What of the changes belongs to others.
fn conflicts(managers: &Managers, but: &Identity, changes: &Changes) -> Vec<Conflict> {
    let mut others: Vec<&Entry> = managers.iter().filter(|entry| entry.identity != *but).collect();
    others.sort_by(|a, b| a.identity.cmp(&b.identity));
    let mut found = Vec::new();
    for entry in others {
        let changes = changes.of(&entry.api_version);
        let wanted = changes.modified.clone().union(changes.added.clone());
        for steps in entry.fields.intersection(&wanted).paths() {
            found.push(Conflict { manager: entry.identity.shown(), path: show(&steps), steps });
        }
    }
    found
}

/// Takes out what the writer applied last time, does not apply now, and nobody else owns.
fn prune(subject: &Subject, merged: Value, managers: &Managers, last: Option<&Entry>) -> Value {
    let Some(last) = last.filter(|last| !last.fields.is_empty()) else { return merged };
    let schema = Some(subject.schema);
    let named = |set: &Set| set.with_named_fields(schema);
    let last = named(&last.fields);
    let pruned = remove(schema, &merged, &last);
    let everything = named(&set_of(subject.schema, &merged));
    // What others own comes back, be it inside of what was taken out.
    let mut pruned = with_owned(subject.schema, &merged, &pruned, managers, |version| {
        subject.other.as_ref().is_none_or(|other| other.api_version != version)
    });
    if let Some(other) = &subject.other
        && managers.iter().any(|entry| entry.api_version == other.api_version)
    {
        let (merged, left) = ((other.to)(&merged), (other.to)(&pruned));
        let left = with_owned(other.schema, &merged, &left, managers, |version| version == other.api_version);
        pruned = (other.from)(&left);
    }
    // And so does what nobody owns: only what was applied last time may go.
    let left = named(&set_of(subject.schema, &pruned));
    remove(schema, &merged, &everything.difference(&left).intersection(&last))
}

/// What is left of an object when what its managers of some versions own comes back.
fn with_owned(
    schema: &Link,
    merged: &Value,
    pruned: &Value,
    managers: &Managers,
    counts: impl Fn(&str) -> bool,
) -> Value {
    let named = |set: &Set| set.with_named_fields(Some(schema));
    let managed = managers.iter().filter(|entry| counts(&entry.api_version));
    let managed = managed.fold(Set::default(), |all, entry| all.union(entry.fields.clone()));
    let kept = named(&set_of(schema, pruned)).union(named(&managed));
    let everything = named(&set_of(schema, merged));
    remove(Some(schema), merged, &everything.difference(&kept))
}

/// What of the configuration in kubectl's annotation the object still has.
fn last_applied(subject: &Subject, old: &Value) -> Option<Set> {
    let text = old["metadata"]["annotations"].get(LAST_APPLIED)?.as_str()?;
    let configuration: Value = serde_json::from_str(text).ok()?;
    if configuration["apiVersion"] != subject.api_version
        || !mistakes(subject.schema, &configuration).is_empty()
    {
        return None;
    }
    let changes = compare(subject.schema, &configuration, old);
    let set = set_of(subject.schema, &configuration);
    Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
}

/// Keeps kubectl's annotation up to date, where there is one.
fn refresh_last_applied(applied: &mut Applied, old: &Value, configuration: &Value) {
    let object = applied.object.as_ref().unwrap_or(old);
    let has = object["metadata"]["annotations"].get(LAST_APPLIED).and_then(Value::as_str);
    let Some(before) = has.filter(|text| !text.is_empty()) else { return };
    let mut shown = configuration.clone();
    if let Some(Value::Object(annotations)) = shown.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{shown}\n");
    if text != before {
        let object = applied.object.get_or_insert_with(|| old.clone());
        object["metadata"]["annotations"][LAST_APPLIED] = text.into();
    }
}
