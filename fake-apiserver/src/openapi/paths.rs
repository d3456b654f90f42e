//! Decides which operations a kind has at which paths, and which parameters they take. Answers to
//! `k8s.io/apiserver/pkg/endpoints/installer.go`.

use serde_json::{Map, Value, json};

use super::{META, component_name};
use crate::kinds::{Kind, Trait};

/// Names of parameters, by type.
type Parameters = &'static [(&'static str, &'static str)];

const LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: Parameters =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_ALL: Parameters = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// One operation of a kind.
struct Operation<'a> {
    kind: &'a Kind,
    /// The kind that goes in and out: group, version, kind and the name of its schema.
    about: (String, String, String, String),
    /// The end of the operation's id.
    suffix: String,
}

/// The paths of the kinds of one group and version.
pub(super) fn of(kinds: &[&Kind]) -> Map<String, Value> {
    let mut paths = Map::new();
    for kind in kinds {
        let root = if kind.group.is_empty() {
            format!("/api/{}", kind.version)
        } else {
            format!("/apis/{}/{}", kind.group, kind.version)
        };
        let namespace = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{namespace}/{}", kind.plural);
        let own = Operation::of(kind);
        if kind.namespaced {
            let list = own.make("list", "list", "ForAllNamespaces", LIST);
            paths.insert(
                format!("{root}/{}", kind.plural),
                json!({"get": list, "parameters": shared(&["pretty"])}),
            );
        }
        paths.insert(collection.clone(), own.collection());
        paths.insert(format!("{collection}/{{name}}"), own.item());
        for subresource in kind.subresources {
            let path = format!("{collection}/{{name}}/{subresource}");
            paths.insert(path, Operation::below(kind, subresource).subresource(subresource));
        }
    }
    paths
}

/// The one path of the version's document.
pub(super) fn version() -> Map<String, Value> {
    let answer = json!({"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}});
    let get = json!({"tags": ["version"], "operationId": "getCodeVersion", "responses": answer});
    Map::from_iter([("/version/".to_owned(), json!({"get": get}))])
}

/// Parameters that all operations of a path share.
fn shared(names: &[&str]) -> Value {
    let one = |name: &&str| match *name {
        "pretty" => json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}),
        name => {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
        }
    };
    names.iter().map(one).collect()
}

impl<'a> Operation<'a> {
    fn of(kind: &'a Kind) -> Self {
        let about = (
            kind.group.to_string(),
            kind.version.to_string(),
            kind.kind.to_string(),
            component_name(kind, ""),
        );
        Self { kind, about, suffix: String::new() }
    }

    /// An operation on a subresource, which may have a kind of its own.
    fn below(kind: &'a Kind, subresource: &str) -> Self {
        let mut operation = Self::of(kind);
        let own = match subresource {
            "binding" => Some(("", "v1", "Binding", "io.k8s.api.core.v1.Binding")),
            "eviction" => Some(("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction")),
            "scale" => Some(("autoscaling", "v1", "Scale", "io.k8s.api.autoscaling.v1.Scale")),
            "token" => Some((
                "authentication.k8s.io",
                "v1",
                "TokenRequest",
                "io.k8s.api.authentication.v1.TokenRequest",
            )),
            _ => None,
        };
        if let Some((group, version, kind, schema)) = own {
            operation.about = (group.into(), version.into(), kind.into(), schema.into());
        }
        operation.suffix = capitalized(subresource);
        operation
    }

    fn names(&self, item: bool) -> Value {
        match (item, self.kind.namespaced) {
            (true, true) => shared(&["name", "namespace", "pretty"]),
            (true, false) => shared(&["name", "pretty"]),
            (false, true) => shared(&["namespace", "pretty"]),
            (false, false) => shared(&["pretty"]),
        }
    }

    fn collection(&self) -> Value {
        let mut path = json!({
            "get": self.make("list", "list", "", LIST), "post": self.make("create", "post", "", WRITE),
            "parameters": self.names(false),
        });
        if !self.kind.has(Trait::NoDeleteCollection) {
            path["delete"] = self.make("delete", "deletecollection", "", DELETE_ALL);
        }
        path
    }

    fn item(&self) -> Value {
        json!({
            "get": self.make("read", "get", "", &[]), "put": self.make("replace", "put", "", WRITE),
            "patch": self.make("patch", "patch", "", PATCH), "delete": self.make("delete", "delete", "", DELETE),
            "parameters": self.names(true),
        })
    }

    fn subresource(&self, name: &str) -> Value {
        let mut path = json!({"parameters": self.names(true)});
        match name {
            "binding" | "eviction" | "token" => path["post"] = self.make("create", "post", "", WRITE),
            "finalize" => path["put"] = self.make("replace", "put", "", WRITE),
            _ => {
                path["get"] = self.make("read", "get", "", &[]);
                path["put"] = self.make("replace", "put", "", WRITE);
                path["patch"] = self.make("patch", "patch", "", PATCH);
            }
        }
        path
    }

    fn make(&self, verb: &str, action: &str, ending: &str, parameters: Parameters) -> Value {
        let (group, version, kind, own) = &self.about;
        let schema = |name: &str| json!({"schema": {"$ref": format!("#/components/schemas/{name}")}});
        let shown = match action {
            "list" => component_name(self.kind, "List"),
            "delete" | "deletecollection" => format!("{META}Status"),
            _ => own.clone(),
        };
        let answer = json!({"application/json": schema(&shown), "application/yaml": schema(&shown)});
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
            .collect();
        let mut operation = json!({
            "tags": [tag(self.kind)], "operationId": self.id(verb, action, ending), "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": answer}, "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        let body = match action {
            "post" | "put" => Some(json!({"*/*": schema(own)})),
            "delete" | "deletecollection" => Some(json!({"*/*": schema(&format!("{META}DeleteOptions"))})),
            "patch" => {
                let of = |form: &&str| ((*form).to_owned(), schema(&format!("{META}Patch")));
                Some(PATCH_TYPES.iter().map(of).collect::<Map<String, Value>>().into())
            }
            _ => None,
        };
        if let Some(content) = body {
            operation["requestBody"] = json!({"content": content});
        }
        operation
    }

    /// Such as `readStorageV1StorageClass`, by which generated clients name their functions.
    fn id(&self, verb: &str, action: &str, ending: &str) -> String {
        let kind = self.kind;
        let collection = if action == "deletecollection" { "Collection" } else { "" };
        let namespaced = if kind.namespaced && ending.is_empty() { "Namespaced" } else { "" };
        let version = format!("{}{}", group_name(kind), capitalized(&kind.version));
        format!("{verb}{version}{collection}{namespaced}{}{}{ending}", kind.kind, self.suffix)
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `RbacAuthorization`, or `Core`.
fn group_name(kind: &Kind) -> String {
    if kind.group.is_empty() {
        return "Core".to_owned();
    }
    let group = kind.group.strip_suffix(".k8s.io").unwrap_or(&kind.group);
    group.split('.').map(capitalized).collect()
}

fn tag(kind: &Kind) -> String {
    let name = group_name(kind);
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_lowercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}_{}", letters.as_str(), kind.version)
}
