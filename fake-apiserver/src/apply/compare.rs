//! Decides which fields two versions of an object differ in. Never changes either. Answers to
//! `sigs.k8s.io/structured-merge-diff/typed/compare.go` and `tofieldset.go`.

use serde_json::Value;

use crate::apply::element::{Element, compare as order};
use crate::apply::set::Set;
use crate::apply::walk::{Form, as_list, as_map, by_step, field, form, same_form, step};
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

    /// Leaves out what a filter takes away.
    pub(crate) fn filtered(self, filter: impl Fn(&Set) -> Set) -> Self {
        Self { removed: filter(&self.removed), modified: filter(&self.modified), added: filter(&self.added) }
    }
}

/// Compares two objects of one kind.
pub(crate) fn compare(link: &Link, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk { path: Vec::new(), found: Comparison::default() };
    walk.values(link, Some(old), Some(new));
    walk.found
}

struct Walk {
    path: Vec<Element>,
    found: Comparison,
}

impl Walk {
    fn values(&mut self, link: &Link, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        let node = link.node();
        let (before, after) = (form(node, old), form(node, new));
        let leaf = if new.is_none() {
            self.form(before, link, old, new)
        } else if old.is_none() || same_form(before, after) {
            self.form(after, link, old, new)
        } else {
            self.form(before, link, old, new);
            self.form(after, link, old, new)
        };
        if !leaf {
            if old.is_none() {
                self.found.added.insert(&self.path);
            } else if new.is_none() {
                self.found.removed.insert(&self.path);
            }
        }
    }

    /// Compares under one shape; says whether it was the end of a path.
    fn form(&mut self, form: Form, link: &Link, old: Option<&Value>, new: Option<&Value>) -> bool {
        match form {
            Form::Scalar => self.leaf(old, new),
            Form::List(list) => {
                let nothing = |value| as_list(value).is_none_or(Vec::is_empty);
                if list.how == Items::Atomic || nothing(old) && nothing(new) {
                    return self.leaf(old, new);
                }
                self.items(list, old, new);
                false
            }
            Form::Map(map) => {
                let nothing = |value| as_map(value).is_none_or(serde_json::Map::is_empty);
                if link.is_atomic() || nothing(old) && nothing(new) {
                    return self.leaf(old, new);
                }
                self.fields(map, old, new);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if order(old, new).is_ne() => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn fields(&mut self, map: &MapShape, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (as_map(old), as_map(new));
        let names = old.into_iter().flat_map(|old| old.keys());
        let more = new.into_iter().flat_map(|new| new.keys());
        let more = more.filter(|name| old.is_none_or(|old| !old.contains_key(*name)));
        for name in names.chain(more) {
            let (before, after) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            if before != after
                && let Some(link) = field(map, name)
            {
                self.path.push(Element::Field(name.clone()));
                self.values(link, before, after);
                self.path.pop();
            }
        }
    }

    fn items(&mut self, list: &ListShape, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (by_step(list, as_list(old)), by_step(list, as_list(new)));
        let steps = old.keys().chain(new.keys().filter(|step| !old.contains_key(*step)));
        for step in steps {
            let before = old.get(step).map_or(&[][..], Vec::as_slice);
            let after = new.get(step).map_or(&[][..], Vec::as_slice);
            self.path.push(step.clone());
            // Items that can't be told apart are compared as one, and belong to whoever wrote them last.
            match (before, after) {
                ([] | [_], [] | [_]) => {
                    self.values(&list.items, before.first().copied(), after.first().copied());
                }
                ([_, _, ..], [_, _, ..]) => {
                    if before != after {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], after) => {
                    if let Some(one) = after.first() {
                        self.values(&list.items, None, Some(one));
                    }
                    self.found.removed.insert(&self.path);
                }
                (before, _) => {
                    if let Some(one) = before.first() {
                        self.values(&list.items, Some(one), None);
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
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
            let counted = by_step(list, as_list(Some(value)));
            for item in as_list(Some(value)).into_iter().flatten() {
                let Ok(step) = step(list, item) else { continue };
                let once = counted.get(&step).is_some_and(|items| items.len() == 1);
                path.push(step);
                if once {
                    mention(&list.items, item, path, set);
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
                if nothing || !map.fields.contains_key(name) {
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
