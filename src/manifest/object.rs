//! From a document to objects: what every Kubernetes object must have, lists taken apart, namespaces filled in.
//!
//! Decides whether something is an object at all and by which version it is served. Leaves the schema of known kinds
//! to `check`, and never compares objects with each other.

use serde_json::{Map, Value};

use super::field;
use super::kind::{self, Kind, Served};
use super::node::{Data, Node, PathText, Step};
use super::problem::{Origin, Problem, Problems};
use super::{Document, Warnings, check};

/// What to do about a file from which manifests are made, and which is none itself.
fn unrendered(origin: &Origin, node: &Node<'_>) -> Option<String> {
    let file = origin.file.file_name()?.to_str()?;
    let folder = origin.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string());
    match file {
        "kustomization.yaml" | "kustomization.yml" | "Kustomization" => Some(format!(
            "is a kustomization, from which manifests are made: kubectl kustomize {folder} | pvbind simulate -f -"
        )),
        "Chart.yaml" if node.get("metadata").is_none() => Some(format!(
            "belongs to a Helm chart, from which manifests are made: helm template {folder} | pvbind simulate -f -"
        )),
        _ => None,
    }
}

/// Takes documents and keeps the objects.
pub(super) struct Reader<'r> {
    /// The namespace of namespaced objects that name none.
    pub(super) namespace: &'r str,
    /// Whether objects are merge patches, in which everything but the name may be missing or null.
    pub(super) partial: bool,
    pub(super) problems: &'r mut Problems,
    pub(super) warnings: &'r mut Warnings,
    pub(super) documents: &'r mut Vec<Document>,
}

/// What a typed list lends to items that don't say their kind, as the API server's own lists don't.
#[derive(Clone, Copy)]
struct Lent<'a> {
    api_version: &'a str,
    kind: &'a str,
}

/// `Kind namespace/name`, as far as an object tells.
pub(super) fn name_of(object: &Value) -> String {
    let text = |path: &str| field::text(object, path);
    let name = Some(text("/metadata/name")).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| text("/metadata/generateName"));
    match text("/metadata/namespace") {
        "" => format!("{} {name}", text("/kind")),
        namespace => format!("{} {namespace}/{name}", text("/kind")),
    }
}

impl Reader<'_> {
    /// Takes one document; an empty one is nothing. Of lists in lists the outermost item counts.
    pub(super) fn document(&mut self, origin: Origin, node: &Node<'_>) {
        if node.is_null() {
            return;
        }
        match unrendered(&origin, node) {
            Some(message) => self.problems.push(Problem::at(origin, message)),
            None => self.object(origin, node, None),
        }
    }

    fn object(&mut self, mut origin: Origin, node: &Node<'_>, lent: Option<Lent<'_>>) {
        let Data::Mapping(_) = node.data() else {
            let message = "is not an object; an object is a mapping with apiVersion, kind and metadata";
            return self.problems.push(Problem::at(origin, message));
        };
        let kind = self.header(&origin, node, "kind", lent.map(|lent| lent.kind));
        let api_version = self.header(&origin, node, "apiVersion", lent.map(|lent| lent.api_version));
        let (Some(kind), Some(api_version)) = (kind, api_version) else { return };
        if let Some(of) = kind.strip_suffix("List")
            && (of.is_empty() || node.get("items").is_some())
        {
            let lent = Lent { api_version, kind: of };
            return self.list(&origin, node, Some(lent).filter(|_| !of.is_empty()));
        }
        if !self.has_name(&origin, node, kind) {
            return;
        }
        origin.line = if node.line == 0 { origin.line } else { node.line as usize };
        let mut object = node.to_value();
        if let Some(fields) = object.as_object_mut().filter(|_| lent.is_some()) {
            fields.insert("apiVersion".to_owned(), Value::from(api_version));
            fields.insert("kind".to_owned(), Value::from(kind));
        }
        self.served(origin, node, object);
    }

    fn header<'a>(
        &mut self,
        origin: &Origin,
        node: &'a Node<'_>,
        field: &str,
        lent: Option<&'a str>,
    ) -> Option<&'a str> {
        let message = match node.get(field).filter(|value| !value.is_null()) {
            None if lent.is_some() => return lent,
            None => {
                "is missing; every object says its apiVersion and kind, such as apiVersion: v1, kind: Pod"
                    .to_owned()
            }
            Some(value) => match value.string() {
                Some("") => "is empty; every object says its apiVersion and kind".to_owned(),
                Some(text) => return Some(text),
                None => "must be a string; put it in quotes if it is one".to_owned(),
            },
        };
        let origin = pin(origin, node, &[Step::Key(field)]);
        self.problems.push(Problem::at(origin, message).field(field));
        None
    }

    fn list(&mut self, origin: &Origin, node: &Node<'_>, lent: Option<Lent<'_>>) {
        let items = match node.get("items").map(Node::data) {
            Some(Data::List(items)) => items,
            None => return,
            Some(Data::Plain(_)) if node.get("items").is_some_and(Node::is_null) => return,
            Some(_) => {
                let origin = pin(origin, node, &[Step::Key("items")]);
                return self.problems.push(Problem::at(origin, "must be a list of objects").field("items"));
            }
        };
        for (index, item) in items.iter().enumerate() {
            let line = if item.line == 0 { origin.line } else { item.line as usize };
            let origin = Origin { item: origin.item.or(Some(index + 1)), line, ..origin.clone() };
            self.object(origin, item, lent);
        }
    }

    /// Whether `metadata.name` is there and can be a name, or `generateName` stands in for it.
    fn has_name(&mut self, origin: &Origin, node: &Node<'_>, kind: &str) -> bool {
        let metadata = node.get("metadata");
        if let Some(other) = metadata.filter(|it| !it.is_null() && !matches!(it.data(), Data::Mapping(_))) {
            let is = check::described(other, "a mapping");
            let origin = pin(origin, node, &[Step::Key("metadata")]);
            let problem = Problem::at(origin, format!("must be a mapping, such as {{name: a}}, and is {is}"));
            self.problems.push(Problem { object: Some(kind.to_owned()), ..problem.field("metadata") });
            return false;
        }
        let part =
            |field: &str| metadata.and_then(|metadata| metadata.get(field)).filter(|value| !value.is_null());
        let (field, message) = match (part("name"), part("generateName")) {
            (None, Some(prefix)) if !self.partial => match prefix.string() {
                Some(prefix) if !prefix.is_empty() => return true,
                _ => ("generateName", "must be a string that is not empty".to_owned()),
            },
            (None, _) if metadata.is_none() => ("name", "is missing; every object has a name".to_owned()),
            (None, _) => ("name", "is missing; give the object a name".to_owned()),
            (Some(name), _) => match name.string() {
                Some(name) if !needs_dns_name(kind) || is_dns_name(name) => return true,
                Some(name) => (
                    "name",
                    format!(
                        "{name:?} is no name; use a-z, 0-9, - and ., at most 253 of them, a letter or digit at both ends"
                    ),
                ),
                None => ("name", quoting(name)),
            },
        };
        let origin = pin(origin, node, &[Step::Key("metadata"), Step::Key(field)]);
        let problem = Problem::at(origin, message).field(format!("metadata.{field}"));
        self.problems.push(Problem { object: Some(kind.to_owned()), ..problem });
        false
    }

    /// Goes by how the kind is served: known kinds are checked, others kept with a word.
    fn served(&mut self, origin: Origin, node: &Node<'_>, mut object: Value) {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        let file = Origin { file: origin.file.clone(), ..Origin::default() };
        match kind::served(&api_version, &name) {
            Served::Known(kind) => self.known(origin, node, object, kind),
            Served::Old(kind) => {
                let line = format!(
                    "{file}: {name} is read as {}; {api_version} has the same fields but is not served any more",
                    kind.api_version
                );
                self.warnings.add(line);
                object["apiVersion"] = Value::from(kind.api_version);
                self.known(origin, node, object, kind);
            }
            Served::Gone(kind) => {
                let message =
                    format!("{api_version} does not serve {name}; write {} and its fields", kind.api_version);
                let origin = pin(&origin, node, &[Step::Key("apiVersion")]);
                let problem = Problem::at(origin, message).field("apiVersion");
                self.problems.push(Problem { object: Some(name_of(&object)), ..problem });
            }
            Served::Inert => {
                let line = format!("{file}: kind {name} ({api_version}) is stored but inert");
                self.warnings.add_once_per(format!("inert {name} {api_version}"), || line);
                self.documents.push(Document { origin, object });
            }
        }
    }

    fn known(&mut self, origin: Origin, node: &Node<'_>, mut object: Value, kind: &'static Kind) {
        self.place_in_namespace(&origin, &mut object, kind);
        let before = self.problems.count();
        check::check(&origin, node, &mut object, kind, self.partial, self.problems, self.warnings);
        if self.problems.count() == before {
            self.documents.push(Document { origin, object });
        }
    }

    /// Namespaced objects get the default namespace, the others none, as the API server does it.
    fn place_in_namespace(&mut self, origin: &Origin, object: &mut Value, kind: &Kind) {
        let name = name_of(object);
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        let given =
            metadata.get("namespace").is_some_and(|given| !given.is_null() && given.as_str() != Some(""));
        if kind.namespaced && !given {
            metadata.insert("namespace".to_owned(), Value::from(self.namespace));
        } else if !kind.namespaced && remove(metadata, "namespace") && given {
            let line = format!(
                "{origin}: {name}: metadata.namespace is ignored; a {} lives in no namespace",
                kind.name
            );
            self.warnings.add_once_per(format!("namespace {} {}", kind.name, origin.file.display()), || line);
        }
    }
}

fn remove(fields: &mut Map<String, Value>, key: &str) -> bool {
    fields.remove(key).is_some()
}

/// The origin with the line of a field.
pub(super) fn pin(origin: &Origin, node: &Node<'_>, path: &[Step<'_>]) -> Origin {
    let (_, line) = node.follow(path);
    let line = if line == 0 { origin.line } else { line as usize };
    Origin { line, ..origin.clone() }
}

/// What to say of a scalar that should have been a string.
pub(super) fn quoting(node: &Node<'_>) -> String {
    let written = node.text().unwrap_or_default();
    match node.to_value() {
        Value::Bool(value) => {
            format!("must be a string, and {written} is the boolean {value}; write \"{written}\"")
        }
        Value::Number(_) => format!("must be a string, and {written} is a number; write \"{written}\""),
        Value::Null => "must be a string, and is null; write \"\" or leave it out".to_owned(),
        Value::Array(_) => "must be a string, and is a list".to_owned(),
        Value::Object(_) => "must be a string, and is a mapping".to_owned(),
        Value::String(_) => "must be a string".to_owned(),
    }
}

/// Known kinds have names that can stand in a host name; other kinds, such as a Role, make their own rules.
fn needs_dns_name(kind: &str) -> bool {
    kind::named(kind).is_some()
}

fn is_dns_name(name: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

/// The path as it is shown.
pub(super) fn shown(path: &[Step<'_>]) -> String {
    PathText(path).to_string()
}
