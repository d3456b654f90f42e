//! Decides what rules may do with URLs. Answers to `k8s.io/apiserver/pkg/cel/library/urls.go` and the parser of Go's `net/url`.

use std::collections::BTreeMap;

use cel::common::types::{CelBool, CelMap, CelMapKey, CelString, Type};
use cel::common::value::Val;
use cel::{DeclarationError, Env};

use super::{Kind, Opaque, Result, failed, text, texts};
use crate::crds::formats::holds;
use crate::request::percent_decode;

static URL: Type = Type::new_unspecified_type("kubernetes.URL");

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

type Url = Opaque<Parts>;

impl Kind for Parts {
    fn kind() -> &'static Type {
        &URL
    }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(URL.to_owned())?;
    cel::add_overload!(env, fn url: (CelString) -> Result<Url>)?;
    cel::add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    cel::add_member_overload!(env, fn scheme: (Url) -> CelString, name = "getScheme")?;
    cel::add_member_overload!(env, fn host: (Url) -> CelString, name = "getHost")?;
    cel::add_member_overload!(env, fn hostname: (Url) -> CelString, name = "getHostname")?;
    cel::add_member_overload!(env, fn port: (Url) -> CelString, name = "getPort")?;
    cel::add_member_overload!(env, fn path: (Url) -> CelString, name = "getEscapedPath")?;
    cel::add_member_overload!(env, fn query: (Url) -> CelMap, name = "getQuery")
}

/// Why a text is no URL, in Go's words.
pub(super) fn mistake(raw: &str) -> Option<String> {
    let why = if raw.is_empty() { "empty url" } else { "invalid URI for request" };
    (!holds("uri", raw)).then(|| format!("parse {raw:?}: {why}"))
}

fn url(raw: &CelString<'_>) -> Result<Url> {
    let raw = raw.inner();
    if let Some(why) = mistake(raw) {
        return Err(failed(format!("URL parse error during conversion from string: {why}")));
    }
    let rest = raw.split_once('#').map_or(raw, |(rest, _)| rest);
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, after)) if !scheme.contains('/') => (scheme.to_lowercase(), after),
        _ => (String::new(), rest),
    };
    let (host, path) = match rest.strip_prefix("//") {
        Some(after) => after.find('/').map_or((after, ""), |at| after.split_at(at)),
        None => ("", rest),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_owned();
    Ok(Opaque(Parts { scheme, host, path: path.to_owned(), query: query.to_owned() }))
}

fn is_url(raw: &CelString<'_>) -> CelBool {
    mistake(raw.inner()).is_none().into()
}

/// Name and port of a host; what stands in brackets has colons of its own.
fn apart(host: &str) -> (&str, &str) {
    if let Some((name, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        return (name, rest.strip_prefix(':').unwrap_or(""));
    }
    host.rsplit_once(':').unwrap_or((host, ""))
}

fn scheme(url: &Url) -> CelString<'static> {
    text(url.0.scheme.as_str())
}

fn host(url: &Url) -> CelString<'static> {
    text(url.0.host.as_str())
}

fn hostname(url: &Url) -> CelString<'static> {
    text(apart(&url.0.host).0)
}

fn port(url: &Url) -> CelString<'static> {
    text(apart(&url.0.host).1)
}

fn path(url: &Url) -> CelString<'static> {
    text(url.0.path.as_str())
}

/// Each name with its values.
fn query(url: &Url) -> CelMap<'static> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in url.0.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        all.entry(percent_decode(name, true)).or_default().push(percent_decode(value, true));
    }
    let all = all
        .into_iter()
        .map(|(name, values)| (CelMapKey::from(name), Box::new(texts(values)) as Box<dyn Val>));
    CelMap::from(all.collect::<std::collections::HashMap<_, _>>())
}
