//! Decides which operations a kind has at which paths, and which parameters they take. Answers to
//! `k8s.io/apiserver/pkg/endpoints/installer.go`.

use serde_json::{Map, Value, json};

use super::{META, component_name, list_name};
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
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH: Parameters =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const DELETE_ALL: Parameters = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
];
/// What the paths of definitions say of reading one object, and the others don't.
const GET_OF_DEFINITIONS: Parameters = &[("resourceVersion", "string")];
/// The last is only for kinds that are not from a definition.
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
            paths.insert(format!("{root}/{}", kind.plural), alone("get", list, shared(&["pretty"])));
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

/// A path with one operation, whose parameters are the path's.
fn alone(method: &str, mut operation: Value, mut shared: Value) -> Value {
    let own = operation.as_object_mut().and_then(|operation| operation.remove("parameters"));
    if let (Some(Value::Array(own)), Value::Array(all)) = (own, &mut shared) {
        all.extend(own);
        all.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    json!({method: operation, "parameters": shared})
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
        let shared = self.names(true);
        match name {
            "binding" | "eviction" | "token" => {
                return alone("post", self.make("create", "post", "", WRITE), shared);
            }
            "finalize" => return alone("put", self.make("replace", "put", "", WRITE), shared),
            _ => {}
        }
        json!({
            "get": self.make("read", "get", "", &[]), "put": self.make("replace", "put", "", WRITE),
            "patch": self.make("patch", "patch", "", PATCH), "parameters": shared,
        })
    }

    fn make(&self, verb: &str, action: &str, ending: &str, parameters: Parameters) -> Value {
        let (group, version, kind, own) = &self.about;
        let defined = self.kind.definition.is_some();
        let parameters = match action {
            // Upstream gives definitions one set of options for both.
            "deletecollection" if defined => LIST,
            "get" if defined => GET_OF_DEFINITIONS,
            _ => parameters,
        };
        let shown = match action {
            "list" => list_name(self.kind),
            "delete" if self.kind.has(Trait::ReturnsDeleted) => own.clone(),
            "delete" | "deletecollection" => format!("{META}Status"),
            _ => own.clone(),
        };
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}))
            .collect();
        let mut operation = json!({
            "description": self.description(action), "tags": [tag(self.kind)],
            "operationId": self.id(verb, action, ending), "responses": self.responses(action, &shown),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if defined {
            operation["x-kubernetes-group-version-kind"] =
                json!({"group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind});
        }
        if let Some(body) = self.body(action) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn responses(&self, action: &str, shown: &str) -> Value {
        let defined = self.kind.definition.is_some();
        let mut forms = vec!["application/json", "application/yaml"];
        if !defined {
            forms.push("application/vnd.kubernetes.protobuf");
            if action == "list" {
                forms.extend([
                    "application/json;stream=watch",
                    "application/vnd.kubernetes.protobuf;stream=watch",
                ]);
            }
        }
        let answer = |description: &str| {
            let content: Map<String, Value> =
                forms.iter().map(|form| ((*form).to_owned(), schema(shown))).collect();
            json!({"description": description, "content": content})
        };
        let mut responses = json!({"200": answer("OK"), "401": {"description": "Unauthorized"}});
        if matches!(action, "post" | "put") || action == "patch" && !defined {
            responses["201"] = answer("Created");
        }
        if matches!(action, "post" | "delete") {
            responses["202"] = answer("Accepted");
        }
        responses
    }

    fn body(&self, action: &str) -> Option<Value> {
        let options = format!("{META}DeleteOptions");
        let defined = self.kind.definition.is_some();
        let taken = match action {
            "post" | "put" => &self.about.3,
            "delete" => &options,
            "deletecollection" if !defined => &options,
            "patch" => {
                let of = |form: &&str| ((*form).to_owned(), schema(&format!("{META}Patch")));
                let types = PATCH_TYPES.iter().take(if defined { 3 } else { 4 });
                let content = Value::from(types.map(of).collect::<Map<String, Value>>());
                return Some(json!({"content": content, "required": true}));
            }
            _ => return None,
        };
        let content = if defined {
            json!({"application/json": schema(taken), "application/yaml": schema(taken)})
        } else {
            json!({"*/*": schema(taken)})
        };
        let body = json!({"content": content, "required": true});
        Some(if action.starts_with("delete") { json!({"content": body["content"]}) } else { body })
    }

    /// What an operation does, in words.
    fn description(&self, action: &str) -> String {
        let kind = &self.kind.kind;
        let sub = match self.suffix.as_str() {
            "" => String::new(),
            suffix => format!(" {} of", suffix.to_lowercase()),
        };
        match action {
            "list" if self.kind.definition.is_some() => format!("list objects of kind {kind}"),
            "list" => format!("list or watch objects of kind {kind}"),
            "get" => format!("read{sub} the specified {kind}"),
            "put" => format!("replace{sub} the specified {kind}"),
            "patch" => format!("partially update{sub} the specified {kind}"),
            "deletecollection" => format!("delete collection of {kind}"),
            _ => {
                let verb = if action == "post" { "create" } else { "delete" };
                format!("{verb}{sub}{} {kind}", article(kind))
            }
        }
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

fn schema(name: &str) -> Value {
    json!({"schema": {"$ref": format!("#/components/schemas/{name}")}})
}

/// ` a` or ` an`, by the first letter; nothing for what looks like many.
fn article(noun: &str) -> &'static str {
    let vowel = noun.chars().next().is_some_and(|first| "aeiou".contains(first.to_ascii_lowercase()));
    match vowel {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => "",
        true => " an",
        false => " a",
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
