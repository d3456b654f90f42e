//! Decides what a writer asks for besides the object: whether anything is stored, in whose name, and what is
//! made of fields that the kind does not have. Answers to
//! `k8s.io/apimachinery/pkg/apis/meta/v1/validation` and the query parameters of the handlers.

use crate::request::Request;
use crate::status::{Cause, Result, Status};

/// The longest name of a manager, in bytes.
const LONGEST_MANAGER: usize = 128;

/// What becomes of fields that the kind does not have, or that are given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of a create, an update or a patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry: bool,
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    /// Whether an applied configuration takes fields from others.
    pub(crate) force: bool,
}

impl WriteOptions {
    /// Reads the options; `kind` is what the real server calls them.
    pub(crate) fn read(request: &Request, kind: &str) -> Result<Self> {
        let applies = request.content_type == "application/apply-patch+yaml" && kind == "PatchOptions";
        let mut causes = Vec::new();
        let given = request.query.get("fieldManager");
        if applies && given.is_empty() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
        if !applies && kind == "PatchOptions" && request.query.has("force") {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        check_manager(given, &mut causes);
        let dry_runs: Vec<&str> = request.query.all("dryRun").collect();
        if dry_runs.iter().any(|value| *value != "All") {
            causes.push(Cause::unsupported("dryRun", dry_runs.clone(), &["All"]));
        }
        let validation = match request.query.get("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::unsupported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Ignore
            }
        };
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", kind, "", &causes));
        }
        let manager = if given.is_empty() { manager_of(&request.user_agent) } else { given.to_owned() };
        let force = request.query.flag("force");
        Ok(Self { dry: !dry_runs.is_empty(), manager, validation, force })
    }
}

fn check_manager(name: &str, causes: &mut Vec<Cause>) {
    if name.len() > LONGEST_MANAGER {
        causes.push(Cause::too_long("fieldManager", LONGEST_MANAGER));
    }
    for (place, letter) in name.char_indices().filter(|(_, letter)| letter.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
        causes.push(Cause::invalid("fieldManager", name, &why));
    }
}

/// The manager of those who don't say who they are: the program, as it names itself.
fn manager_of(agent: &str) -> String {
    let mut name = String::new();
    let program = agent.split('/').next().unwrap_or_default();
    for letter in program.chars().filter(|letter| !letter.is_control()) {
        if name.len() + letter.len_utf8() > LONGEST_MANAGER {
            break;
        }
        name.push(letter);
    }
    name
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn read(query: &str, content_type: &str) -> Result<WriteOptions> {
        let request = Request::new("PATCH", &format!("/x?{query}"), content_type, Bytes::new());
        WriteOptions::read(&request.by("agent/v1 (linux)"), "PatchOptions")
    }

    #[test]
    fn the_manager_is_who_it_says_or_its_program() {
        assert_eq!(read("fieldManager=me", "application/merge-patch+json").unwrap().manager, "me");
        assert_eq!(read("", "application/merge-patch+json").unwrap().manager, "agent");
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let apply = "application/apply-patch+yaml";
        for (query, content_type) in [
            ("", apply),
            ("force=true", "application/merge-patch+json"),
            ("fieldManager=a%0ab", apply),
            ("fieldManager=a&dryRun=Some", apply),
            ("fieldManager=a&fieldValidation=strict", apply),
        ] {
            assert_eq!(read(query, content_type).unwrap_err().code, 422, "{query}");
        }
        assert!(read(&format!("fieldManager={}", "a".repeat(129)), apply).is_err());
        assert!(read("fieldManager=a&force=true", apply).unwrap().force);
    }
}
