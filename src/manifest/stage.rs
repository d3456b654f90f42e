//! Reading what comes after: a stream of merge patches, deletes and pauses.
//!
//! Decides what each document of a stage asks for. Never decides whether what it names exists.

use std::path::Path;

use serde_json::Value;

use super::node::{self, Data, Node};
use super::object::{Reader, pin, quoting};
use super::problem::{InputError, Origin, Problem, Problems};
use super::{Document, Warnings, each_document, kind, source};

/// One thing to do, once what was there has settled.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create the object, or merge it into the one that exists: a null removes a field.
    Apply(Document),
    /// Delete an object, in the background as `kubectl delete --wait=false` does.
    Delete {
        /// Its kind.
        kind: String,
        /// Its namespace; empty where the kind has none.
        namespace: String,
        /// Its name.
        name: String,
        /// Where this was asked for.
        origin: Origin,
    },
    /// Wait until nothing moves.
    Settle,
}

/// A stage: its steps in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// What to do.
    pub steps: Vec<Step>,
    /// What is odd but harmless.
    pub warnings: Vec<String>,
}

/// Reads the stage in a file. `namespace` is given to objects and deletes that name none, where their kind has one.
///
/// # Errors
/// When anything of it can't be used, with up to ten of the reasons.
pub fn load_stage(path: &Path, namespace: &str) -> Result<Stage, InputError> {
    let source = source::read(path)?;
    let (mut problems, mut warnings, mut steps) = (Problems::default(), Warnings::default(), Vec::new());
    let read = each_document(&source, |origin, node| {
        if let Some(asked) = node.get("delete") {
            steps.extend(delete(&origin, node, asked, namespace, &mut problems));
        } else if let Some(asked) = node.get("settle") {
            steps.extend(settle(&origin, node, asked, &mut problems));
        } else {
            let mut documents = Vec::new();
            let mut reader = Reader {
                namespace,
                partial: true,
                problems: &mut problems,
                warnings: &mut warnings,
                documents: &mut documents,
            };
            reader.document(origin, node);
            steps.extend(documents.into_iter().map(Step::Apply));
        }
    });
    let is_broken = read.is_err();
    if let Err(problem) = read {
        problems.push(*problem);
    }
    if steps.is_empty() && !is_broken {
        let file = Origin { file: source.file.clone(), ..Origin::default() };
        warnings.add(format!("{file} asks for nothing"));
    }
    problems.into_result()?;
    Ok(Stage { steps, warnings: warnings.lines })
}

fn settle(origin: &Origin, node: &Node<'_>, asked: &Node<'_>, problems: &mut Problems) -> Option<Step> {
    if asked.to_value() == Value::Bool(true) && only(node, "settle") {
        return Some(Step::Settle);
    }
    let place = pin(origin, node, &[node::Step::Key("settle")]);
    let message = "takes true and stands alone in its document; write settle: true";
    problems.push(Problem::at(place, message).field("settle"));
    None
}

fn delete(
    origin: &Origin,
    node: &Node<'_>,
    asked: &Node<'_>,
    namespace: &str,
    problems: &mut Problems,
) -> Option<Step> {
    let form = "delete: {kind: Pod, name: d1, namespace: default}";
    let Data::Mapping(entries) = asked.data() else {
        let place = pin(origin, node, &[node::Step::Key("delete")]);
        problems.push(Problem::at(place, format!("must be a mapping, such as {form}")).field("delete"));
        return None;
    };
    let before = problems.count();
    if !only(node, "delete") {
        let message = format!("stands beside other fields; a document does one thing, such as {form}");
        problems.push(Problem::at(origin.clone(), message).field("delete"));
    }
    for entry in entries {
        if !matches!(entry.key.as_ref(), "kind" | "name" | "namespace" | "apiVersion") {
            let place = pin(origin, node, &[node::Step::Key("delete"), node::Step::Key(&entry.key)]);
            let message = format!("is not a field of delete; write it as {form}");
            problems.push(Problem::at(place, message).field(format!("delete.{}", entry.key)));
        }
    }
    let mut text = |field: &str, needed: bool| {
        let message = match asked.get(field).filter(|value| !value.is_null()) {
            Some(value) => match value.string() {
                Some("") if needed => "is empty".to_owned(),
                Some(text) => return text.to_owned(),
                None => quoting(value),
            },
            None if needed => format!("is missing; write it as {form}"),
            None => return String::new(),
        };
        let place = pin(origin, node, &[node::Step::Key("delete"), node::Step::Key(field)]);
        problems.push(Problem::at(place, message).field(format!("delete.{field}")));
        String::new()
    };
    let (kind, name, given) = (text("kind", true), text("name", true), text("namespace", false));
    let known = kind::named(&kind);
    if known.is_none() && !kind.is_empty() {
        let place = pin(origin, node, &[node::Step::Key("delete"), node::Step::Key("kind")]);
        let message = format!("{kind:?} is not a kind that can be deleted; use one of {}", kind::names());
        problems.push(Problem::at(place, message).field("delete.kind"));
    }
    let namespace = match known {
        Some(known) if !known.namespaced => String::new(),
        _ if given.is_empty() => namespace.to_owned(),
        _ => given,
    };
    (problems.count() == before).then(|| Step::Delete { kind, namespace, name, origin: origin.clone() })
}

/// Whether a document holds nothing but this field.
fn only(node: &Node<'_>, field: &str) -> bool {
    matches!(node.data(), Data::Mapping(entries) if entries.iter().all(|entry| entry.key == field))
}
