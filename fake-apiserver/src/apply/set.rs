//! Decides what a set of field paths contains, and how it is written as `fieldsV1`. A path and what lies below
//! it are different members. Never looks at an object. Answers to
//! `sigs.k8s.io/structured-merge-diff/fieldpath/set.go` and `serialize.go`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::apply::element::Element;
use crate::schema::Link;

/// A set of paths, as a tree: the members of one step, and what is below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    members: BTreeSet<Element>,
    /// No child is empty.
    children: BTreeMap<Element, Set>,
}

impl Set {
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert_fields(path);
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Inserts a path of one step.
    pub(crate) fn insert_step(&mut self, step: Element) {
        self.members.insert(step);
    }

    /// Inserts paths below a step; there has to be one.
    pub(crate) fn insert_below(&mut self, step: Element, below: Self) {
        match self.children.entry(step) {
            Entry::Vacant(place) => drop(place.insert(below)),
            Entry::Occupied(mut place) => {
                let there = std::mem::take(place.get_mut());
                place.insert(there.union(below));
            }
        }
    }

    /// Inserts a path of field names.
    pub(crate) fn insert_fields(&mut self, path: &[&str]) {
        let path: Vec<Element> = path.iter().map(|name| Element::Field((*name).to_owned())).collect();
        self.insert(&path);
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    /// Whether the set has a whole path.
    pub(crate) fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|below| below.contains(rest)),
        }
    }

    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.children.get(element)
    }

    pub(crate) fn union(mut self, mut other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        self.members.append(&mut other.members);
        for (element, below) in other.children {
            let ours = self.children.entry(element).or_default();
            *ours = std::mem::take(ours).union(below);
        }
        self
    }

    /// The paths of this set that the other has not.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Takes out the paths that the other has.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.members.retain(|one| !other.members.contains(one));
        self.children.retain(|element, below| {
            if let Some(other) = other.children.get(element) {
                below.subtract(other);
            }
            !below.is_empty()
        });
    }

    /// The same, where a path of the other takes everything below it away too.
    pub(crate) fn leave_out(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.members.retain(|one| !other.members.contains(one));
        self.children.retain(|element, below| {
            if other.members.contains(element) {
                return false;
            }
            if let Some(other) = other.children.get(element) {
                below.leave_out(other);
            }
            !below.is_empty()
        });
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let members = self.members.intersection(&other.members).cloned().collect();
        let children = self.children.iter().filter_map(|(element, below)| {
            let both = below.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members, children: children.collect() }
    }

    /// The set with every declared field that something is below of.
    pub(crate) fn with_named_fields(&self, schema: Option<&Link>) -> Self {
        let mut members = self.members.clone();
        let node = schema.map(Link::node);
        let map = node.and_then(|node| node.map.as_ref());
        let children = self.children.iter().map(|(element, below)| {
            let link = match element {
                Element::Field(name) => {
                    let field = map.and_then(|map| map.fields.get(name));
                    if field.is_some() {
                        members.insert(element.clone());
                    }
                    field.map(|field| &field.link).or_else(|| map?.rest.as_ref())
                }
                Element::Key(_) => node.and_then(|node| node.list.as_ref()).map(|list| &list.items),
                Element::Value(_) | Element::Index(_) => None,
            };
            (element.clone(), below.with_named_fields(link))
        });
        let children = children.collect();
        Self { members, children }
    }

    /// The paths below any of these, where `*` is any step.
    pub(crate) fn below_any(&self, kept: &[&[&str]]) -> Self {
        let matches = |path: &[Element], pattern: &[&str]| {
            path.len() >= pattern.len()
                && path.iter().zip(pattern).all(|(step, wanted)| {
                    *wanted == "*" || matches!(step, Element::Field(name) if name == wanted)
                })
        };
        let mut set = Self::default();
        for path in self.paths() {
            if kept.iter().any(|pattern| matches(&path, pattern)) {
                set.insert(&path);
            }
        }
        set
    }

    /// All paths, in order; what is a member comes before what is below it.
    pub(crate) fn paths(&self) -> Vec<Vec<Element>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, at: &mut Vec<Element>, found: &mut Vec<Vec<Element>>) {
        // Members first, then what is below: the order in which upstream goes through a set.
        for element in &self.members {
            let mut path = at.clone();
            path.push(element.clone());
            found.push(path);
        }
        for (element, below) in &self.children {
            at.push(element.clone());
            below.collect(at, found);
            at.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let mut fields = Map::new();
        for element in &self.members {
            if !self.children.contains_key(element) {
                fields.insert(element.encode(), Value::Object(Map::new()));
            }
        }
        for (element, below) in &self.children {
            let mut inner = below.encode();
            if self.members.contains(element)
                && let Value::Object(inner) = &mut inner
            {
                inner.insert(".".into(), Value::Object(Map::new()));
            }
            fields.insert(element.encode(), inner);
        }
        Value::Object(fields)
    }

    /// Reads `fieldsV1`.
    pub(crate) fn decode(fields: &Value) -> Result<Self, String> {
        let Value::Object(fields) = fields else {
            return Err(format!("fieldsV1 must be an object: {fields}"));
        };
        let mut set = Self::default();
        for (name, inner) in fields {
            if name == "." {
                continue;
            }
            let Some(element) = Element::decode(name)? else { continue };
            let below = Self::decode(inner)?;
            if below.is_empty() {
                set.members.insert(element);
                continue;
            }
            if inner.get(".").is_some() {
                set.members.insert(element.clone());
            }
            set.children.insert(element, below);
        }
        Ok(set)
    }
}

/// A path as people read it.
pub(crate) fn show(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let fields = json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}}, "f:data": {}});
        assert_eq!(Set::decode(&fields).unwrap().encode(), fields);
        assert!(Set::decode(&json!({"spec": {}})).is_err());
        assert!(Set::decode(&json!({"f:a": 1})).is_err());
    }

    #[test]
    fn a_path_and_what_is_below_it_are_two_things() {
        let both = Set::of(&[&["a"], &["a", "b"], &["c", "d"]]);
        let one = Set::of(&[&["a"]]);
        assert_eq!(both.difference(&one), Set::of(&[&["a", "b"], &["c", "d"]]));
        let mut left = both.clone();
        left.leave_out(&one);
        assert_eq!(left, Set::of(&[&["c", "d"]]));
        assert_eq!(both.intersection(&Set::of(&[&["a"], &["c"]])), one);
        assert_eq!(one.clone().union(Set::of(&[&["a", "b"], &["c", "d"]])), both);
    }

    #[test]
    fn declared_fields_count_where_something_is_below_them() {
        let class = crate::schema::of("storage.k8s.io/v1", "StorageClass").unwrap();
        let set = Set::of(&[&["parameters", "a"]]).with_named_fields(Some(&class));
        assert_eq!(set, Set::of(&[&["parameters"], &["parameters", "a"]]));
    }
}
