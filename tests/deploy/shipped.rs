//! Reading what is shipped.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The plain manifests, and the component that each is for.
pub const MANIFESTS: [(&str, &str); 3] = [
    ("controller", "deploy/manifests/controller.yaml"),
    ("scheduler", "deploy/manifests/scheduler.yaml"),
    ("extender", "deploy/manifests/extender.yaml"),
];

/// A path of the repository.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The text of a file of the repository.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The objects of a manifest.
pub fn objects(manifest: &str) -> Vec<Value> {
    let documents = manifest.trim_start_matches("---\n").split("\n---\n");
    let has_content = |text: &&str| {
        text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line != "---")
    };
    let read =
        |text: &str| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}, in:\n{text}"));
    documents.filter(has_content).map(read).collect()
}

/// What a path within an object holds; fails where there is nothing.
#[track_caller]
pub fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is missing in {object}"))
}

/// The items of a list.
#[track_caller]
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a Vec<Value> {
    at(object, pointer).as_array().unwrap_or_else(|| panic!("{pointer} is no list in {object}"))
}

/// A list of texts.
#[track_caller]
pub fn texts<'a>(object: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(object, pointer).iter().map(|item| item.as_str().expect("text")).collect()
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// An object's name.
pub fn name(object: &Value) -> &str {
    at(object, "/metadata/name").as_str().expect("a name")
}
