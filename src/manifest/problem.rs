//! What is wrong with an input, and where: every problem names its place down to the line and the field.
//!
//! Decides how problems read and that no more than ten are told at once. Never decides what is a problem.

use std::fmt;
use std::path::PathBuf;

/// More problems than this help nobody: the first ones are mended first.
pub(super) const MOST_PROBLEMS: usize = 10;

/// The place an object came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The file as it was named or found; `-` for standard input.
    pub file: PathBuf,
    /// Which document of the file, from 1.
    pub document: usize,
    /// The line in the file on which the object starts, from 1.
    pub line: usize,
    /// Which item of a list, from 1, where the document is a list.
    pub item: Option<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file =
            if self.file.as_os_str() == "-" { "standard input".into() } else { self.file.to_string_lossy() };
        f.write_str(&file)?;
        if self.document > 0 {
            write!(f, ", document {}", self.document)?;
        }
        if let Some(item) = self.item {
            write!(f, ", item {item}")?;
        }
        if self.line > 0 {
            write!(f, ", line {}", self.line)?;
        }
        Ok(())
    }
}

/// One thing that is wrong with the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it is; the line is the field's where the field is known.
    pub origin: Origin,
    /// The object as `Kind namespace/name`, where that much is known.
    pub object: Option<String>,
    /// The field as a path, such as `spec.accessModes[0]`.
    pub field: Option<String>,
    /// What is wrong and the way out.
    pub message: String,
}

impl Problem {
    /// A problem of a place, before any object is known.
    pub(super) fn at(origin: Origin, message: impl Into<String>) -> Self {
        Problem { origin, object: None, field: None, message: message.into() }
    }

    /// The same problem, pinned to a field.
    pub(super) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if let Some(field) = self.field.as_ref().filter(|field| !field.is_empty()) {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// The input can't be used, and nothing of it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The first problems, in input order; at least one, at most ten.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

impl From<Box<Problem>> for InputError {
    fn from(problem: Box<Problem>) -> Self {
        InputError { problems: vec![*problem], more: 0 }
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems {
    first: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.first.len() < MOST_PROBLEMS {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// How many there are by now.
    pub(super) fn count(&self) -> usize {
        self.first.len() + self.more
    }

    /// The error, if anything was wrong.
    pub(super) fn into_result(self) -> Result<(), InputError> {
        if self.first.is_empty() { Ok(()) } else { Err(InputError { problems: self.first, more: self.more }) }
    }
}
