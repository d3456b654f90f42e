//! Decides what is known of each kind's fields: the components of a real server's `OpenAPI` documents, as
//! `schemas/fetch.py` wrote them down, and the trees compiled from them. Never holds an object and never
//! judges one. Answers to the `OpenAPI` definitions of `kubernetes/pkg/generated/openapi`.
//!
//! Two ways in:
//! - raw, for those who serve `OpenAPI`: [`components`] gives what belongs to one group and version, as the
//!   real document has it (version 3, references and defaults included); [`component`] gives one by name;
//! - compiled, for those who decode, merge and compare: [`of`] gives the tree of a served kind, and
//!   [`custom`] makes one of the structural schema of a `CustomResourceDefinition`.
//!
//! Everything is read when it is first asked for, and once: starting a server reads nothing.

#![allow(dead_code, reason = "the documents are served, and the trees walked, from elsewhere")]
#![allow(unused_imports, reason = "as above")]

mod fields;
mod tree;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::{LazyLock, OnceLock};

use flate2::read::DeflateDecoder;
use serde_json::{Map, Value};

use crate::kinds::Kind;

pub(crate) use fields::Fields;
pub(crate) use tree::{Field, Items, Link, ListShape, MapShape, Merge, Node, Scalar, custom};

/// A line a component: name, kind or "-", JSON. `build.rs` has packed it.
static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::new();
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/components")).as_slice();
    // What was packed here can be unpacked here; without it no kind would have fields, which every test would tell.
    let _ = DeflateDecoder::new(packed).read_to_string(&mut text);
    text
});

static COMPONENTS: LazyLock<HashMap<&'static str, Component>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter_map(|line| {
        let (name, rest) = line.split_once('\t')?;
        let (kind, text) = rest.split_once('\t')?;
        Some((name, Component { name, kind, text, value: OnceLock::new(), node: OnceLock::new() }))
    });
    lines.collect()
});

/// The names of components by the kind they are the schema of, such as `apps/v1/Deployment`.
static KINDS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let kinds = COMPONENTS.values().filter(|component| component.kind != "-");
    kinds.map(|component| (component.kind, component.name)).collect()
});

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// One component, parsed and compiled when it is first needed.
pub(crate) struct Component {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
    value: OnceLock<Value>,
    node: OnceLock<Node>,
}

impl Component {
    /// The component as the real server's document has it.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| serde_json::from_str(self.text).unwrap_or_default())
    }

    pub(crate) fn node(&self) -> &Node {
        self.node.get_or_init(|| tree::compile_named(self.name, self.value()))
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The component of that full name.
pub(crate) fn component(name: &str) -> Option<&'static Component> {
    COMPONENTS.get(name)
}

/// The full name of the component that is the schema of a kind, lists (`PodList`) included.
pub(crate) fn name_of(api_version: &str, kind: &str) -> Option<&'static str> {
    KINDS.get(format!("{api_version}/{kind}").as_str()).copied()
}

/// The tree of a kind, if it is not a custom one.
pub(crate) fn of(api_version: &str, kind: &str) -> Option<Link> {
    let name = KINDS.get(format!("{api_version}/{kind}").as_str())?;
    Some(Link::named(component(name)?))
}

/// The tree of a kind as it is served.
pub(crate) fn of_kind(kind: &Kind) -> &Link {
    if let Some(version) = &kind.definition {
        return &version.tree;
    }
    let tree = || of(&kind.api_version(), &kind.kind).unwrap_or_else(|| custom(None, true));
    kind.found.tree.get_or_init(tree)
}

/// The components of the document of one group and version, by name.
pub(crate) fn components(group: &str, version: &str) -> Map<String, Value> {
    let prefix = if group.is_empty() { format!("{version}/") } else { format!("{group}/{version}/") };
    let kinds = KINDS.iter().filter(|(kind, name)| {
        // The kinds of discovery have the version v1 too, and only the list of resources is in each document.
        // A scale has a group and version, and no paths there.
        let own = |kind: &str| !kind.contains('/') && kind != "Scale";
        kind.strip_prefix(prefix.as_str()).is_some_and(own) && !name.starts_with(META)
    });
    let mut wanted: Vec<&str> = kinds.map(|(_, name)| *name).collect();
    let common = ["APIResourceList", "DeleteOptions", "Patch", "Status", "WatchEvent"];
    let common = common.iter().filter_map(|name| COMPONENTS.get_key_value(format!("{META}{name}").as_str()));
    wanted.extend(common.map(|(name, _)| *name));
    wanted.extend(subresources(group));
    let kept = closure(wanted).into_iter();
    kept.map(|component| (component.name.to_owned(), narrowed(component.value(), group, version))).collect()
}

/// These components and all that they refer to, by name.
pub(crate) fn with_references(names: &[&'static str]) -> Map<String, Value> {
    let kept = closure(names.to_vec()).into_iter();
    kept.map(|component| (component.name.to_owned(), component.value().clone())).collect()
}

fn closure(mut wanted: Vec<&str>) -> Vec<&'static Component> {
    let mut kept = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if let Some(component) = component(name)
            && kept.insert(component.name)
        {
            references(component.value(), &mut wanted);
        }
    }
    kept.into_iter().filter_map(component).collect()
}

/// Kinds of other groups that the subresources of a group take and give.
fn subresources(group: &str) -> &'static [&'static str] {
    match group {
        "" => &[
            "io.k8s.api.authentication.v1.TokenRequest",
            "io.k8s.api.autoscaling.v1.Scale",
            "io.k8s.api.policy.v1.Eviction",
        ],
        "apps" => &["io.k8s.api.autoscaling.v1.Scale"],
        _ => &[],
    }
}

/// Adds the names that a schema refers to.
fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str().and_then(|text| text.strip_prefix("#/components/schemas/")) {
                    Some(reference) if name == "$ref" => found.push(reference),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// The few components that belong to every group say in each document only that they belong to that one, in that version.
fn narrowed(schema: &Value, group: &str, version: &str) -> Value {
    let mut schema = schema.clone();
    if let Some(Value::Array(kinds)) = schema.get_mut("x-kubernetes-group-version-kind")
        && kinds.len() > 1
    {
        let own = |kind: &Value| kind["group"] == group && kind["version"] == version;
        kinds.retain(|kind| kind["group"] == "" || own(kind));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kinds;

    #[test]
    fn each_served_kind_has_its_schema() {
        for kind in Kinds::served().all() {
            let list = format!("{}List", kind.kind);
            for name in [&*kind.kind, &list] {
                let found = name_of(&kind.api_version(), name);
                assert!(found.is_some(), "{}/{name} has no schema: run `just schemas`", kind.api_version());
            }
        }
    }

    #[test]
    fn every_component_can_be_read_and_compiled() {
        for component in COMPONENTS.values() {
            assert!(component.value().is_object(), "{component:?}");
            let node = component.node();
            assert!(node.scalar.is_some() || node.map.is_some() || node.list.is_some(), "{component:?}");
        }
    }

    #[test]
    fn a_document_has_what_its_kinds_lead_to_and_no_more() {
        let storage = components("storage.k8s.io", "v1");
        assert!(storage.contains_key("io.k8s.api.storage.v1.StorageClass"));
        assert!(
            storage.contains_key("io.k8s.api.core.v1.PersistentVolumeSpec"),
            "attachments have one inline"
        );
        assert!(!storage.contains_key("io.k8s.api.core.v1.PodSpec"));
        let options = &storage["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"];
        let groups: Vec<&Value> = options["x-kubernetes-group-version-kind"]
            .as_array()
            .unwrap()
            .iter()
            .map(|kind| &kind["group"])
            .collect();
        assert_eq!(groups, ["", "storage.k8s.io"]);
        let core = components("", "v1");
        assert!(core.contains_key("io.k8s.api.policy.v1.Eviction"));
        assert!(!core.contains_key("io.k8s.api.apps.v1.Deployment"));
        let mut found = Vec::new();
        for value in core.values() {
            references(value, &mut found);
        }
        assert!(found.iter().all(|name| core.contains_key(*name)), "nothing refers to what is not there");
    }
}
