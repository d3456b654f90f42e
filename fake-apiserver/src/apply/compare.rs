//! Decides which fields two versions of an object differ in. Never changes either. Answers to
//! `sigs.k8s.io/structured-merge-diff/typed/compare.go` and `tofieldset.go`.

use serde_json::Value;

use crate::apply::element::{Element, compare as order};
use crate::apply::set::Set;
use crate::apply::walk::{Form, as_list, as_map, by_step, field, form, same_form};
use crate::schema::{Items, Link, ListShape, MapShape};

/// What became of each field.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: Set,
    pub(crate) modified: Set,
    pub(crate) added: Set,
}

impl Comparison {
    /// Whether the two are the same.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.removed, &self.modified, &self.added].iter().all(|set| set.is_empty())
    }

    /// Lets a filter take away from each set.
    pub(crate) fn filter(&mut self, filter: impl Fn(&mut Set)) {
        filter(&mut self.removed);
        filter(&mut self.modified);
        filter(&mut self.added);
    }

    /// Takes over what became of the value behind a step, and of what is below it. Most steps lead to one change, so that one is
    /// made for each.
    fn put(&mut self, step: impl Fn() -> Element, own: Own, below: Self) {
        let sets = [
            (&mut self.removed, own.removed, below.removed),
            (&mut self.modified, own.modified, below.modified),
            (&mut self.added, own.added, below.added),
        ];
        for (set, own, below) in sets {
            if own {
                set.insert_step(step());
            }
            if !below.is_empty() {
                set.insert_below(step(), below);
            }
        }
    }
}

/// What became of one value, what is below it left aside.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    removed: bool,
    modified: bool,
    added: bool,
}

/// Compares two objects of one kind.
pub(crate) fn compare(link: &Link, old: &Value, new: &Value) -> Comparison {
    let mut found = Comparison::default();
    if old != new {
        values(link, Some(old), Some(new), &mut found);
    }
    found
}

/// Compares two values that differ: says what became of the value, and puts down what became of what is below it.
fn values(link: &Link, old: Option<&Value>, new: Option<&Value>, below: &mut Comparison) -> Own {
    let node = link.node();
    let (before, after) = (form(node, old), form(node, new));
    let mut own = Own::default();
    let leaf = if new.is_none() {
        shape(before, link, old, new, &mut own, below)
    } else if old.is_none() || same_form(before, after) {
        shape(after, link, old, new, &mut own, below)
    } else {
        shape(before, link, old, new, &mut own, below);
        shape(after, link, old, new, &mut own, below)
    };
    if !leaf {
        own.added |= old.is_none();
        own.removed |= old.is_some() && new.is_none();
    }
    own
}

/// Compares under one shape; says whether it was the end of a path.
fn shape(
    form: Form,
    link: &Link,
    old: Option<&Value>,
    new: Option<&Value>,
    own: &mut Own,
    below: &mut Comparison,
) -> bool {
    let no_items = |value| as_list(value).is_none_or(Vec::is_empty);
    let no_fields = |value| as_map(value).is_none_or(serde_json::Map::is_empty);
    match form {
        Form::List(list) if !(list.how == Items::Atomic || no_items(old) && no_items(new)) => {
            items(list, old, new, below);
            false
        }
        Form::Map(map) if !(link.is_atomic() || no_fields(old) && no_fields(new)) => {
            fields(map, old, new, below);
            false
        }
        Form::Scalar | Form::List(_) | Form::Map(_) => {
            leaf(old, new, own);
            true
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, own: &mut Own) {
    match (old, new) {
        (None, _) => own.added = true,
        (_, None) => own.removed = true,
        (Some(old), Some(new)) => own.modified |= order(old, new).is_ne(),
    }
}

fn fields(map: &MapShape, old: Option<&Value>, new: Option<&Value>, found: &mut Comparison) {
    let (old, new) = (as_map(old), as_map(new));
    let mut differs = |name: &String, before, after| {
        if let Some(link) = field(map, name) {
            let mut below = Comparison::default();
            let own = values(link, before, after, &mut below);
            found.put(|| Element::Field(name.clone()), own, below);
        }
    };
    let mut kept = 0;
    for (name, before) in old.into_iter().flatten() {
        let after = new.and_then(|new| new.get(name));
        kept += usize::from(after.is_some());
        if after != Some(before) {
            differs(name, Some(before), after);
        }
    }
    // What is in both was met already.
    if new.is_some_and(|new| new.len() > kept) {
        for (name, after) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                differs(name, None, Some(after));
            }
        }
    }
}

fn items(list: &ListShape, old: Option<&Value>, new: Option<&Value>, found: &mut Comparison) {
    let (old, new) = (by_step(list, as_list(old)), by_step(list, as_list(new)));
    let steps = old.keys().chain(new.keys().filter(|step| !old.contains_key(*step)));
    for step in steps {
        let before = old.get(step).map_or(&[][..], Vec::as_slice);
        let after = new.get(step).map_or(&[][..], Vec::as_slice);
        if before == after {
            continue;
        }
        let mut below = Comparison::default();
        // Items that can't be told apart are compared as one, and belong to whoever wrote them last.
        let own = match (before, after) {
            ([] | [_], [] | [_]) => {
                values(&list.items, before.first().copied(), after.first().copied(), &mut below)
            }
            ([_, _, ..], [_, _, ..]) => Own { modified: true, ..Own::default() },
            ([_, _, ..], after) => {
                let one = after.first().map(|one| values(&list.items, None, Some(one), &mut below));
                Own { removed: true, ..one.unwrap_or_default() }
            }
            (before, _) => {
                let one = before.first().map(|one| values(&list.items, Some(one), None, &mut below));
                Own { added: true, ..one.unwrap_or_default() }
            }
        };
        found.put(|| step.clone(), own, below);
    }
}

/// Every leaf and item that an object mentions.
pub(crate) fn set_of(link: &Link, value: &Value) -> Set {
    let mut set = Set::default();
    mention(link, value, &mut Vec::new(), &mut set);
    set
}

fn mention(link: &Link, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    match form(link.node(), Some(value)) {
        Form::Scalar => set.insert(path),
        Form::List(list) if list.how == Items::Atomic => set.insert(path),
        Form::List(list) => {
            for (step, items) in by_step(list, as_list(Some(value))) {
                path.push(step);
                if let [once] = items[..] {
                    mention(&list.items, once, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Form::Map(_) if link.is_atomic() => set.insert(path),
        Form::Map(map) => {
            for (name, value) in as_map(Some(value)).into_iter().flatten() {
                let Some(link) = field(map, name) else { continue };
                path.push(Element::Field(name.clone()));
                mention(link, value, path, set);
                let nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                if nothing || !map.fields.contains(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::of;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "literals read better")]
    fn check(old: Value, new: Value, removed: Value, modified: Value, added: Value) {
        let found = compare(&of("v1", "Pod").unwrap(), &old, &new);
        let found = [found.removed, found.modified, found.added].map(|set| set.encode());
        assert_eq!(found, [removed, modified, added]);
    }

    #[test]
    fn each_field_is_removed_modified_or_added() {
        check(
            json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"hostname": "x"}}),
            json!({"metadata": {"labels": {"b": "2", "c": "1"}, "annotations": {"d": "1"}}, "spec": {}}),
            json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:hostname": {}}}),
            json!({"f:metadata": {"f:labels": {"f:b": {}}}}),
            json!({"f:metadata": {"f:labels": {"f:c": {}}, "f:annotations": {".": {}, "f:d": {}}}}),
        );
    }

    #[test]
    fn items_are_told_apart_by_their_keys_and_their_defaults() {
        check(
            json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}}),
            json!({"spec": {"containers": [{"name": "a", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}),
            json!({}),
            json!({}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
                "f:image": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {"f:protocol": {}}},
            }}}}),
        );
    }

    #[test]
    fn atomic_fields_change_as_a_whole() {
        check(
            json!({"spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "a"}]}}),
            json!({"spec": {"nodeSelector": {"b": "1"}, "tolerations": [{"key": "a"}, {"key": "b"}]}}),
            json!({}),
            json!({"f:spec": {"f:nodeSelector": {}, "f:tolerations": {}}}),
            json!({}),
        );
    }

    #[test]
    fn duplicates_count_as_one() {
        let port = json!({"containerPort": 80});
        check(
            json!({"spec": {"containers": [{"name": "a", "ports": [port, port]}]}}),
            json!({"spec": {"containers": [{"name": "a", "ports": [port]}]}}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}}}}}}),
            json!({}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            }}}}}),
        );
    }

    #[test]
    fn an_object_mentions_its_leaves_and_items() {
        let class = of("storage.k8s.io/v1", "StorageClass").unwrap();
        let value = json!({"provisioner": "p", "parameters": {"a": "b"}, "mountOptions": ["x"], "metadata": {"labels": {}}});
        assert_eq!(
            set_of(&class, &value).encode(),
            json!({"f:provisioner": {}, "f:parameters": {"f:a": {}}, "f:mountOptions": {}, "f:metadata": {"f:labels": {}}})
        );
    }
}
