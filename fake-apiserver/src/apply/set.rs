//! Decides what a set of field paths contains, and how it is written as `fieldsV1`. A path and what lies below
//! it are different members. Never looks at an object. Answers to
//! `sigs.k8s.io/structured-merge-diff/fieldpath/set.go` and `serialize.go`.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::apply::element::Element;
use crate::schema::Link;

/// A set of paths, as a tree: the steps that are members or lead to members, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(Vec<Step>);

/// One step; it is a member, or something is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    element: Element,
    member: bool,
    below: Set,
}

impl Step {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
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
        self.0.is_empty()
    }

    fn find(&self, element: &Element) -> Option<&Step> {
        let place = self.0.binary_search_by(|step| step.element.cmp(element)).ok()?;
        self.0.get(place)
    }

    /// The step, made when it is missing: whoever asks for it fills it.
    fn step(&mut self, element: Element) -> &mut Step {
        // Most come in order.
        let place = match self.0.last().map(|last| last.element.cmp(&element)) {
            None | Some(Ordering::Less) => Err(self.0.len()),
            _ => self.0.binary_search_by(|step| step.element.cmp(&element)),
        };
        let place = place.unwrap_or_else(|place| {
            self.0.insert(place, Step { element, member: false, below: Self::default() });
            place
        });
        &mut self.0[place]
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.insert_step(last.clone()),
            [first, rest @ ..] => self.step(first.clone()).below.insert(rest),
        }
    }

    /// Inserts a path of one step.
    pub(crate) fn insert_step(&mut self, element: Element) {
        self.step(element).member = true;
    }

    /// Inserts paths below a step; there has to be one.
    pub(crate) fn insert_below(&mut self, element: Element, below: Self) {
        let there = &mut self.step(element).below;
        *there = std::mem::take(there).union(below);
    }

    /// Inserts a path of field names.
    pub(crate) fn insert_fields(&mut self, path: &[&str]) {
        let path: Vec<Element> = path.iter().map(|name| Element::Field((*name).to_owned())).collect();
        self.insert(&path);
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.find(element).is_some_and(|step| step.member)
    }

    /// Whether the set has a whole path.
    pub(crate) fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|below| below.contains(rest)),
        }
    }

    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.find(element).map(|step| &step.below).filter(|below| !below.is_empty())
    }

    pub(crate) fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut all = Vec::with_capacity(self.0.len() + other.0.len());
        let mut others = other.0.into_iter().peekable();
        for mut step in self.0 {
            while let Some(before) = others.next_if(|next| next.element < step.element) {
                all.push(before);
            }
            if let Some(same) = others.next_if(|next| next.element == step.element) {
                step.member |= same.member;
                step.below = step.below.union(same.below);
            }
            all.push(step);
        }
        all.extend(others);
        Self(all)
    }

    /// The paths of this set that the other has not.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// Takes out the paths that the other has.
    pub(crate) fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain_mut(|step| {
            if let Some(other) = other.find(&step.element) {
                step.member &= !other.member;
                step.below.subtract(&other.below);
            }
            !step.is_empty()
        });
    }

    /// The same, where a path of the other takes everything below it away too.
    pub(crate) fn leave_out(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.0.retain_mut(|step| match other.find(&step.element) {
            Some(other) if other.member => false,
            Some(other) => {
                step.below.leave_out(&other.below);
                !step.is_empty()
            }
            None => true,
        });
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let both = self.0.iter().filter_map(|step| {
            let other = other.find(&step.element)?;
            let (member, below) = (step.member && other.member, step.below.intersection(&other.below));
            let both = Step { element: step.element.clone(), member, below };
            (!both.is_empty()).then_some(both)
        });
        Self(both.collect())
    }

    /// The set with every declared field that something is below of.
    pub(crate) fn with_named_fields(&self, schema: Option<&Link>) -> Self {
        let node = schema.map(Link::node);
        let map = node.and_then(|node| node.map.as_ref());
        let steps = self.0.iter().map(|Step { element, member, below }| {
            if below.is_empty() {
                return Step { element: element.clone(), member: *member, below: Self::default() };
            }
            let field = match element {
                Element::Field(name) => map.and_then(|map| map.fields.get(name)),
                Element::Key(_) | Element::Value(_) | Element::Index(_) => None,
            };
            let link = match element {
                Element::Field(_) => field.map(|field| &field.link).or_else(|| map?.rest.as_ref()),
                Element::Key(_) => node.and_then(|node| node.list.as_ref()).map(|list| &list.items),
                Element::Value(_) | Element::Index(_) => None,
            };
            let member = *member || field.is_some();
            Step { element: element.clone(), member, below: below.with_named_fields(link) }
        });
        Self(steps.collect())
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
        for step in self.0.iter().filter(|step| step.member) {
            let mut path = at.clone();
            path.push(step.element.clone());
            found.push(path);
        }
        for step in &self.0 {
            at.push(step.element.clone());
            step.below.collect(at, found);
            at.pop();
        }
    }

    /// The set as `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let mut fields = Map::new();
        for step in &self.0 {
            let mut inner = step.below.encode();
            if step.member
                && let Value::Object(inner) = &mut inner
                && !inner.is_empty()
            {
                inner.insert(".".into(), Value::Object(Map::new()));
            }
            fields.insert(step.element.encode(), inner);
        }
        Value::Object(fields)
    }

    /// Reads `fieldsV1`.
    pub(crate) fn decode(fields: &Value) -> Result<Self, String> {
        let Value::Object(fields) = fields else {
            return Err(format!("fieldsV1 must be an object: {fields}"));
        };
        let mut steps = Vec::with_capacity(fields.len());
        for (name, inner) in fields {
            if name == "." {
                continue;
            }
            let Some(element) = Element::decode(name)? else { continue };
            let below = Self::decode(inner)?;
            let member = below.is_empty() || inner.get(".").is_some();
            steps.push(Step { element, member, below });
        }
        // Names come in order, numbers in that of their digits, and what is one step may be written in two ways.
        if !steps.is_sorted_by(|a, b| a.element < b.element) {
            steps.sort_by(|a, b| a.element.cmp(&b.element));
            steps.dedup_by(|again, first| {
                let same = again.element == first.element;
                if same {
                    first.member |= again.member;
                    if !again.below.is_empty() {
                        first.below = std::mem::take(&mut again.below);
                    }
                }
                same
            });
        }
        Ok(Self(steps))
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
        let numbers = json!({"i:1": {}, "v:10": {}, "v:9": {}, "v:9.0": {"f:a": {}}});
        let set = Set::decode(&numbers).unwrap();
        assert_eq!(set.encode(), json!({"i:1": {}, "v:9": {".": {}, "f:a": {}}, "v:10": {}}));
        assert!(set.has(&Element::Index(1)) && set.has(&Element::Value(json!(10))));
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
