//! Reading a file of settings: one mapping of names to values, each of which knows its line.
//!
//! Decides nothing about names and values: whoever asks for them knows which there are.

use std::path::Path;

use serde_json::Value;

use super::node::Data;
use super::problem::{InputError, Origin, Problem};
use super::{each_document, source};

/// One entry of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The file, and the line of the name.
    pub origin: Origin,
    /// The name.
    pub name: String,
    /// The value, as JSON.
    pub value: Value,
}

impl Setting {
    /// Something that is wrong with it.
    #[must_use]
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::at(self.origin.clone(), message).field(self.name.clone())
    }
}

/// Reads such a file, which may be empty.
///
/// # Errors
/// When it cannot be read, is no YAML, or holds anything but one mapping.
pub fn settings(file: &Path) -> Result<Vec<Setting>, InputError> {
    let source = source::read(file)?;
    let mut found = Vec::new();
    let mut problem = None;
    each_document(&source, |origin, node| {
        let no_mapping = "is no mapping of options to values, such as executors: 64";
        match node.data() {
            _ if origin.document > 1 => {
                problem.get_or_insert(Problem::at(origin, "is a second document; one file has one mapping"));
            }
            Data::Mapping(entries) => found.extend(entries.iter().map(|entry| {
                let line = usize::try_from(entry.line).unwrap_or_default();
                let origin = Origin { file: file.to_owned(), line, ..Origin::default() };
                Setting { origin, name: entry.key.as_ref().to_owned(), value: entry.value.to_value() }
            })),
            _ if node.is_null() => {}
            Data::Plain(_) | Data::Text(_) | Data::List(_) | Data::Shared(_) => {
                problem.get_or_insert(Problem::at(origin, no_mapping));
            }
        }
    })?;
    match problem {
        Some(problem) => Err(Box::new(problem).into()),
        None => Ok(found),
    }
}
