//! Decides which kind, namespace, name and subresource a URL means. Never looks at objects. Answers to the
//! request info resolver of `k8s.io/apiserver/pkg/endpoints/request/requestinfo.go`.

use std::borrow::Cow;
use std::sync::Arc;

use crate::kinds::{Kind, Kinds};
use crate::object::{Key, key_of};
use crate::request::percent_decode;

/// What a URL points at.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) index: usize,
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    /// Empty for the collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
}

/// Where a URL leads.
#[derive(Debug)]
pub(crate) enum Route {
    Resource(Target),
    /// Discovery and the like: the path's segments.
    Other(Vec<String>),
}

impl Target {
    pub(crate) fn key(&self) -> Key {
        key_of(&self.namespace, &self.name)
    }

    /// The kind of a collection or object in a namespace.
    pub(crate) fn of(kinds: &Kinds, index: usize, namespace: &str, name: &str) -> Self {
        let kind = kinds.get(index).clone();
        let namespace = if kind.namespaced { namespace.to_owned() } else { String::new() };
        Self { index, kind, namespace, name: name.to_owned(), subresource: String::new() }
    }
}

/// Finds the route, or nothing when no such resource is served.
pub(crate) fn route(kinds: &Kinds, path: &str) -> Option<Route> {
    let mut segments: Vec<Cow<str>> = Vec::with_capacity(8);
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        // Most segments are what they say.
        let plain = !segment.contains('%');
        segments.push(if plain { segment.into() } else { percent_decode(segment, false).into() });
    }
    let parts: Vec<&str> = segments.iter().map(Cow::as_ref).collect();
    let (group, version, rest) = match parts[..] {
        ["api", version, ref rest @ ..] if !rest.is_empty() => ("", version, rest),
        ["apis", group, version, ref rest @ ..] if !rest.is_empty() => (group, version, rest),
        _ => return Some(Route::Other(segments.into_iter().map(Cow::into_owned).collect())),
    };
    let (namespace, rest) = match *rest {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, ref rest @ ..] => (namespace, rest),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match *rest {
        [plural] => (plural, "", ""),
        [plural, name] => (plural, name, ""),
        [plural, name, subresource] => (plural, name, subresource),
        _ => return None,
    };
    if plural == "bindings" && group.is_empty() && name.is_empty() {
        // The older way to bind: the pod's name is in the body.
        let index = kinds.by_plural("", "v1", "pods")?;
        let mut target = Target::of(kinds, index, namespace, "");
        target.subresource = "bindings".into();
        return Some(Route::Resource(target));
    }
    let index = kinds.by_plural(group, version, plural)?;
    let mut target = Target::of(kinds, index, namespace, name);
    let kind = &target.kind;
    let misplaced = !kind.namespaced && !namespace.is_empty()
        || kind.namespaced && namespace.is_empty() && !name.is_empty();
    if misplaced || !subresource.is_empty() && !kind.has_subresource(subresource) {
        return None;
    }
    target.subresource = subresource.into();
    Some(Route::Resource(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<(&str, &str, &str, &str)>) {
        let found = match route(&Kinds::served(), path) {
            Some(Route::Resource(target)) => Some(target),
            Some(Route::Other(_)) | None => None,
        };
        let found = found
            .as_ref()
            .map(|target| (&*target.kind.plural, &*target.namespace, &*target.name, &*target.subresource));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn urls_name_resources() {
        check("/api/v1/persistentvolumes/p1/status", Some(("persistentvolumes", "", "p1", "status")));
        check("/api/v1/namespaces/ns/pods/a/binding", Some(("pods", "ns", "a", "binding")));
        check("/api/v1/namespaces/ns/pods/", Some(("pods", "ns", "", "")));
        check("/api/v1/pods", Some(("pods", "", "", "")));
        check("/api/v1/namespaces/ns", Some(("namespaces", "", "ns", "")));
        check("/api/v1/namespaces/ns/finalize", Some(("namespaces", "", "ns", "finalize")));
        check("/api/v1/namespaces/ns/bindings", Some(("pods", "ns", "", "bindings")));
        check("/apis/storage.k8s.io/v1/storageclasses/a", Some(("storageclasses", "", "a", "")));
    }

    #[test]
    fn other_urls_do_not() {
        for path in [
            "/api/v1/nosuch",
            "/apis/apps/v2/deployments",
            "/api/v1/pods/a",
            "/api/v1/pods/a/b/c/d",
            "/api/v1",
        ] {
            check(path, None);
        }
        check("/api/v1/namespaces/ns/persistentvolumes/a", None);
        check("/apis/storage.k8s.io/v1/storageclasses/a/status", None);
    }
}
