//! Decides how an `OpenAPI` schema is read: which shapes a value may have, which fields there are with their
//! defaults, and how lists and maps are merged. Never reads an object. Answers to
//! `k8s.io/kube-openapi/pkg/schemaconv` and, for strategic merge, to `.../pkg/util/proto`.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::schema::{Component, Fields, component};

/// What a value may be. A typed one is one of the three, one without a type may be any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// The last part of the component's name, such as `PodSpec`; empty where the schema stands inline.
    pub(crate) name: String,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListShape>,
    pub(crate) map: Option<MapShape>,
}

/// A plain value. The finer ones are all written as strings or numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    String,
    /// Base64.
    Bytes,
    Boolean,
    /// An integer of so many bits.
    Integer(u8),
    Number,
    /// RFC 3339, in whole seconds.
    Time,
    /// RFC 3339, with microseconds.
    MicroTime,
    /// As Go writes it: `1h30m`.
    Duration,
    Quantity,
    IntOrString,
    /// Whatever it is.
    Untyped,
}

/// A struct, a map, or a struct with further fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapShape {
    pub(crate) fields: Fields,
    /// What stands in fields that are not named; without it there are none.
    pub(crate) rest: Option<Link>,
    /// Owned and replaced as a whole.
    pub(crate) atomic: bool,
}

/// A named field.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) link: Link,
    pub(crate) default: Option<Value>,
    /// Whether objects always have it.
    pub(crate) required: bool,
    /// How a strategic merge patch treats it.
    pub(crate) merge: Merge,
}

/// The words of `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) merges: bool,
    pub(crate) replaces: bool,
    pub(crate) retains_keys: bool,
    /// Which field says which item is which; a list that merges without it is a set.
    pub(crate) key: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListShape {
    pub(crate) items: Link,
    pub(crate) how: Items,
}

/// What tells the items of a list apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Items {
    /// Nothing: the list is replaced as a whole.
    Atomic,
    /// Their value.
    Set,
    /// The values of these fields.
    Keyed(Vec<String>),
}

/// The way to a node: recursive schemas are followed one step at a time.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    to: To,
    /// What the referring field says of the map it refers to, against the map itself.
    atomic: Option<bool>,
}

#[derive(Clone, Debug)]
enum To {
    Here(Arc<Node>),
    Named(&'static Component),
    Untyped,
    Deduced,
}

/// Anything, owned as a whole.
static UNTYPED: LazyLock<Node> = LazyLock::new(|| Node {
    name: String::new(),
    scalar: Some(Scalar::Untyped),
    list: Some(ListShape { items: Link::to(To::Untyped), how: Items::Atomic }),
    map: Some(MapShape { rest: Some(Link::to(To::Untyped)), atomic: true, ..MapShape::default() }),
});

/// Anything, whose maps are owned field by field.
static DEDUCED: LazyLock<Node> = LazyLock::new(|| Node {
    name: String::new(),
    scalar: Some(Scalar::Untyped),
    list: Some(ListShape { items: Link::to(To::Untyped), how: Items::Atomic }),
    map: Some(MapShape { rest: Some(Link::to(To::Deduced)), ..MapShape::default() }),
});

impl Link {
    fn to(to: To) -> Self {
        Self { to, atomic: None }
    }

    pub(crate) fn named(component: &'static Component) -> Self {
        Self::to(To::Named(component))
    }

    /// A link to whatever there is, for values that nothing is known of.
    pub(crate) fn deduced() -> Self {
        Self::to(To::Deduced)
    }

    pub(crate) fn node(&self) -> &Node {
        match &self.to {
            To::Here(node) => node,
            To::Named(component) => component.node(),
            To::Untyped => &UNTYPED,
            To::Deduced => &DEDUCED,
        }
    }

    /// Whether a map that stands here is owned as a whole.
    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.unwrap_or_else(|| self.node().map.as_ref().is_some_and(|map| map.atomic))
    }
}

/// The tree of a component. Two of them are written in a way that the words of the schema don't tell.
pub(super) fn compile_named(name: &str, schema: &Value) -> Node {
    let mut node = if name == "io.k8s.apimachinery.pkg.runtime.RawExtension" {
        UNTYPED.clone()
    } else {
        compile(schema, false)
    };
    node.scalar = match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => Some(Scalar::Quantity),
        "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime" => Some(Scalar::MicroTime),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Duration" => Some(Scalar::Duration),
        _ => node.scalar,
    };
    name.rsplit('.').next().unwrap_or_default().clone_into(&mut node.name);
    node
}

/// The tree of a custom kind: its structural schema, and what every object has besides. Without a schema
/// anything goes.
pub(crate) fn custom(schema: Option<&Value>, preserve_unknown: bool) -> Link {
    let mut node = match schema {
        Some(schema) => compile(schema, preserve_unknown),
        None => DEDUCED.clone(),
    };
    let map = node.map.get_or_insert_default();
    map.atomic = false;
    let string = || Link::to(To::Here(Arc::new(scalar(Scalar::String))));
    let metadata = component("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let metadata = metadata.map_or_else(Link::deduced, Link::named);
    for (name, link) in [("apiVersion", string()), ("kind", string()), ("metadata", metadata)] {
        let field = Field { link, default: None, required: false, merge: Merge::default() };
        map.fields.insert(name, field);
    }
    Link::to(To::Here(Arc::new(node)))
}

fn scalar(scalar: Scalar) -> Node {
    Node { scalar: Some(scalar), ..Node::default() }
}

/// The tree of a schema. `preserve` says that unknown fields are kept, here and below.
fn compile(schema: &Value, preserve: bool) -> Node {
    let preserve = preserve || schema["x-kubernetes-preserve-unknown-fields"] == true;
    if schema["x-kubernetes-int-or-string"] == true || schema["format"] == "int-or-string" {
        return scalar(Scalar::IntOrString);
    }
    match schema["type"].as_str() {
        Some("object") => Node { map: Some(map_of(schema, preserve)), ..Node::default() },
        Some("array") => Node { list: Some(list_of(schema, preserve)), ..Node::default() },
        Some(plain) => scalar(plain_of(plain, schema["format"].as_str().unwrap_or_default())),
        None => Node {
            name: String::new(),
            scalar: Some(Scalar::Untyped),
            list: Some(list_of(schema, preserve)),
            map: Some(map_of(schema, preserve)),
        },
    }
}

fn plain_of(plain: &str, format: &str) -> Scalar {
    match (plain, format) {
        ("integer", "int32") => Scalar::Integer(32),
        ("integer", _) => Scalar::Integer(64),
        ("number", _) => Scalar::Number,
        ("boolean", _) => Scalar::Boolean,
        ("string", "byte") => Scalar::Bytes,
        ("string", "date-time") => Scalar::Time,
        ("string", _) => Scalar::String,
        _ => Scalar::Untyped,
    }
}

fn map_of(schema: &Value, preserve: bool) -> MapShape {
    let properties = schema["properties"].as_object();
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    let fields = properties.into_iter().flatten().map(|(name, property)| {
        let field = Field {
            link: link_of(property, preserve),
            default: property.get("default").cloned(),
            required: is_required(name),
            merge: merge_of(property),
        };
        (name.clone(), field)
    });
    let fields: Fields = fields.collect();
    let rest = match schema.get("additionalProperties") {
        None if preserve || fields.is_empty() => Some(Link::deduced()),
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some(Link::deduced()),
        Some(values) => Some(link_of(values, preserve)),
    };
    MapShape { fields, rest, atomic: schema["x-kubernetes-map-type"] == "atomic" }
}

fn list_of(schema: &Value, preserve: bool) -> ListShape {
    let items = schema.get("items").map_or_else(|| Link::to(To::Untyped), |items| link_of(items, preserve));
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let merge = merge_of(schema);
    let how = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Items::Set,
        Some("map") => {
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            Items::Keyed(keys.map(str::to_owned).collect())
        }
        // Lists that say nothing to appliers may still say something to patchers.
        None if merge.merges => merge.key.map_or(Items::Set, |key| Items::Keyed(vec![key])),
        _ => Items::Atomic,
    };
    ListShape { items, how }
}

fn merge_of(schema: &Value) -> Merge {
    let strategy = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    let says = |word: &str| strategy.split(',').any(|one| one == word);
    Merge {
        merges: says("merge"),
        replaces: says("replace"),
        retains_keys: says("retainKeys"),
        key: schema["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
    }
}

/// Follows a reference, which may stand alone or in a list of one so that it can have siblings.
fn link_of(schema: &Value, preserve: bool) -> Link {
    let reference = schema.get("$ref").or_else(|| schema["allOf"].as_array()?.first()?.get("$ref"));
    let name = reference.and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
    let to = match name {
        Some(name) => component(name).map_or(To::Deduced, To::Named),
        None => To::Here(Arc::new(compile(schema, preserve))),
    };
    let atomic = schema.get("x-kubernetes-map-type").filter(|_| name.is_some()).map(|kind| kind == "atomic");
    Link { to, atomic }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::of;

    fn field(link: &Link, path: &[&str]) -> Field {
        let (end, before) = path.split_last().unwrap();
        let mut at = link.clone();
        for step in before {
            let below = match at.node() {
                Node { list: Some(list), .. } => list.items.clone(),
                other => other.map.as_ref().unwrap().fields.get(step).unwrap().link.clone(),
            };
            at = below;
        }
        at.node().map.as_ref().unwrap().fields.get(end).unwrap().clone()
    }

    #[track_caller]
    fn check_list(api_version: &str, kind: &str, path: &[&str], how: &Items, merge_key: Option<&str>) {
        let field = field(&of(api_version, kind).unwrap(), path);
        assert_eq!(field.link.node().list.as_ref().unwrap().how, *how, "{path:?}");
        assert_eq!(field.merge.key.as_deref(), merge_key, "{path:?}");
    }

    #[test]
    fn lists_are_merged_as_the_real_server_says() {
        let keyed = |keys: &[&str]| Items::Keyed(keys.iter().map(|key| (*key).to_owned()).collect());
        check_list("v1", "Pod", &["spec", "containers"], &keyed(&["name"]), Some("name"));
        check_list(
            "v1",
            "Pod",
            &["spec", "containers", "*", "ports"],
            &keyed(&["containerPort", "protocol"]),
            Some("containerPort"),
        );
        check_list("v1", "PersistentVolumeClaim", &["spec", "accessModes"], &Items::Atomic, None);
        check_list("v1", "Pod", &["metadata", "finalizers"], &Items::Set, None);
        check_list("v1", "Pod", &["metadata", "ownerReferences"], &keyed(&["uid"]), Some("uid"));
        check_list("v1", "PersistentVolume", &["spec", "mountOptions"], &Items::Atomic, None);
    }

    #[test]
    fn plain_values_keep_what_their_format_says() {
        let claim = of("v1", "PersistentVolumeClaim").unwrap();
        let requests = field(&claim, &["spec", "resources", "requests"]);
        let rest = requests.link.node().map.as_ref().unwrap().rest.clone().unwrap();
        assert_eq!(rest.node().scalar, Some(Scalar::Quantity));
        let made = field(&claim, &["metadata", "creationTimestamp"]);
        assert_eq!(made.link.node().scalar, Some(Scalar::Time));
        let lease = of("coordination.k8s.io/v1", "Lease").unwrap();
        assert_eq!(field(&lease, &["spec", "renewTime"]).link.node().scalar, Some(Scalar::MicroTime));
        assert_eq!(
            field(&lease, &["spec", "leaseDurationSeconds"]).link.node().scalar,
            Some(Scalar::Integer(32))
        );
        let port = field(&of("v1", "Service").unwrap(), &["spec", "ports", "*", "targetPort"]);
        assert_eq!(port.link.node().scalar, Some(Scalar::IntOrString));
    }

    #[test]
    fn references_may_say_how_a_map_is_owned() {
        let volume = of("v1", "PersistentVolume").unwrap();
        let event = of("v1", "Event").unwrap();
        assert!(field(&event, &["involvedObject"]).link.is_atomic(), "as references to objects are");
        assert!(
            !field(&volume, &["spec", "claimRef"]).link.is_atomic(),
            "against what the reference itself says"
        );
        assert!(!field(&volume, &["spec", "csi"]).link.is_atomic());
    }

    #[test]
    fn a_custom_kind_has_its_schema_and_metadata() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string", "default": "x"}}},
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
                "either": {"x-kubernetes-int-or-string": true},
            }},
        }});
        let custom = custom(Some(&schema), false);
        assert_eq!(field(&custom, &["spec", "items", "*", "id"]).default, Some(json!("x")));
        assert!(field(&custom, &["spec", "free"]).link.node().map.as_ref().unwrap().rest.is_some());
        assert!(field(&custom, &["spec"]).link.node().map.as_ref().unwrap().rest.is_none());
        assert_eq!(field(&custom, &["spec", "either"]).link.node().scalar, Some(Scalar::IntOrString));
        assert_eq!(field(&custom, &["metadata", "labels"]).link.node().name, "");
    }
}
