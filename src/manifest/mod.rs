//! Reading manifests: from files, folders and standard input to objects whose every line is known.
//!
//! Paths become texts (`source`), texts become documents that keep their lines (`yaml`, `mapping`, `json`, `node`, `scalar`),
//! documents become objects (`object`), and objects of known kinds are checked against their schema (`kind`,
//! `check`, `conform`, `rules`, `nearest`). `stage` reads what comes after: merge patches, deletes and pauses.
//!
//! Nothing is half-loaded: either every document is good, or there is an error that names the file, the document,
//! the line, the object, the field and the way out. Never talks to a server, never defaults a field other than the
//! namespace, and never judges whether an object makes sense beside the others, but for being there twice.

mod check;
mod conform;
pub mod field;
mod json;
mod kind;
mod mapping;
mod nearest;
mod node;
mod object;
mod problem;
mod rules;
mod scalar;
mod settings;
mod source;
mod stage;
mod yaml;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::PathBuf;

use serde_json::Value;

pub(crate) use self::nearest::nearest;
pub use self::problem::{InputError, Origin, Problem};
pub use self::settings::{Setting, settings};
pub use self::stage::{Stage, Step, load_stage};

use self::node::Node;
use self::object::Reader;
use self::problem::Problems;
use self::source::Source;
use self::yaml::Unreadable;

/// Everything that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// The objects in input order; the items of a list each stand alone.
    pub documents: Vec<Document>,
    /// What is odd but harmless: unknown fields, inert kinds, empty files.
    pub warnings: Vec<String>,
}

/// One object and the place it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Where it was read.
    pub origin: Origin,
    /// The object, with its namespace filled in where its kind has one.
    pub object: Value,
}

/// Reads all manifests that the paths name: files, folders (recursively, in the order of their paths) and `-` for
/// standard input. `namespace` is given to objects of namespaced kinds that name none.
///
/// # Errors
/// When anything of it can't be used, with up to ten of the reasons; nothing is loaded then.
pub fn load<R: Read>(
    paths: &[PathBuf],
    namespace: &str,
    stdin: impl FnOnce() -> R,
) -> Result<Loaded, InputError> {
    let mut problems = Problems::default();
    let sources = source::read_all(paths, stdin, &mut problems);
    let mut loading =
        Loading { problems, warnings: Warnings::default(), documents: Vec::new(), places: HashMap::new() };
    if paths.is_empty() {
        loading.warnings.add("no input was named; name files, folders or - with -f".to_owned());
    }
    for source in sources {
        loading.source(&source, namespace);
    }
    loading.problems.into_result()?;
    Ok(Loaded { documents: loading.documents, warnings: loading.warnings.lines })
}

/// Warnings in the order they came up, each once.
#[derive(Debug, Default)]
struct Warnings {
    lines: Vec<String>,
    seen: BTreeSet<String>,
}

impl Warnings {
    /// Says this once.
    fn add(&mut self, line: String) {
        self.add_once_per(line.clone(), || line);
    }

    /// Says the line unless something with the same topic was said before.
    fn add_once_per(&mut self, topic: String, line: impl FnOnce() -> String) {
        if self.seen.insert(topic) {
            self.lines.push(line());
        }
    }
}

/// What makes an object the same object.
type Identity = (String, String, String, String);

struct Loading {
    problems: Problems,
    warnings: Warnings,
    documents: Vec<Document>,
    /// Where each object was first seen.
    places: HashMap<Identity, Origin>,
}

impl Loading {
    fn source(&mut self, source: &Source, namespace: &str) {
        let before = self.documents.len();
        let broken = each_document(source, |origin, node| {
            let mut reader = Reader {
                namespace,
                partial: false,
                problems: &mut self.problems,
                warnings: &mut self.warnings,
                documents: &mut self.documents,
            };
            reader.document(origin, node);
        });
        let is_broken = broken.is_err();
        if let Err(problem) = broken {
            self.problems.push(*problem);
        }
        if self.documents.len() == before && !is_broken {
            let file = Origin { file: source.file.clone(), ..Origin::default() };
            self.warnings.add(format!("{file} holds no objects"));
        }
        for document in &self.documents[before..] {
            let Some(identity) = identity(&document.object) else { continue };
            if let Some(first) = self.places.get(&identity) {
                let name = object::name_of(&document.object);
                let message = format!("is there twice, first in {first}; keep one of them");
                let problem = Problem { object: Some(name), ..Problem::at(document.origin.clone(), message) };
                self.problems.push(problem);
            } else {
                self.places.insert(identity, document.origin.clone());
            }
        }
    }
}

/// Group, kind, namespace and name; none while the server is to make up the name.
fn identity(object: &Value) -> Option<Identity> {
    let text = |path: &str| field::text(object, path);
    let name = text("/metadata/name");
    if name.is_empty() {
        return None;
    }
    let group = kind::group(text("/apiVersion"));
    Some((
        group.to_owned(),
        text("/kind").to_owned(),
        text("/metadata/namespace").to_owned(),
        name.to_owned(),
    ))
}

/// Parses a source and hands over its documents one by one, so that only one is in memory as nodes.
fn each_document(source: &Source, mut take: impl FnMut(Origin, &Node<'_>)) -> Result<(), Box<Problem>> {
    let origin =
        |document: usize, line: usize| Origin { file: source.file.clone(), document, line, item: None };
    let text = source.text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with(['{', '[']) {
        for (index, node) in json_or_yaml(source, text, origin)?.iter().enumerate() {
            take(origin(index + 1, node.line as usize), node);
        }
        return Ok(());
    }
    let mut documents = yaml::Documents::new(&source.text);
    let mut number = 0;
    while let Some(document) = documents.next_document() {
        number += 1;
        match document {
            Ok(node) => take(origin(number, node.line as usize), &node),
            Err(unreadable) => {
                return misread(origin(number, unreadable.line), rendered_first(source, unreadable));
            }
        }
    }
    Ok(())
}

/// Reads text that starts like JSON: as YAML, which keeps the lines, or else as the part of JSON that is no YAML.
fn json_or_yaml<'a>(
    source: &'a Source,
    text: &str,
    origin: impl Fn(usize, usize) -> Origin,
) -> Result<Vec<Node<'a>>, Box<Problem>> {
    let mut nodes = Vec::new();
    let mut documents = yaml::Documents::new(&source.text);
    while let Some(document) = documents.next_document() {
        let in_yaml = match document {
            Ok(node) => {
                nodes.push(node);
                continue;
            }
            Err(in_yaml) => in_yaml,
        };
        let is_json = source.file.extension().is_some_and(|extension| extension == "json");
        let read = if in_yaml.syntax { json::documents(text) } else { Err(in_yaml.clone()) };
        return read.or_else(|in_json| {
            let unreadable = if is_json { in_json } else { in_yaml };
            misread(origin(nodes.len() + 1, unreadable.line), rendered_first(source, unreadable))
        });
    }
    Ok(nodes)
}

/// Where there are double braces, what is no YAML is mostly a template.
fn rendered_first(source: &Source, mut unreadable: Unreadable) -> Unreadable {
    if unreadable.syntax && source.text.contains("{{") {
        unreadable.message.push_str("; if {{ … }} is a template, render it first, as with helm template");
    }
    unreadable
}

fn misread<T>(origin: Origin, unreadable: Unreadable) -> Result<T, Box<Problem>> {
    Err(Box::new(Problem::at(origin, unreadable.message)))
}
