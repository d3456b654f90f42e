//! Decides what a list or watch shows, from which revision, and in what portions. Never holds the store while
//! it writes an answer: it works on a snapshot. Answers to `Store.List`, the cacher's `GetList` and the watch
//! list of KEP-3157.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::json;

use crate::answer::Answer;
use crate::continuation::Continuation;
use crate::object::Object;
use crate::request::Request;
use crate::routes::Target;
use crate::selectors::Filter;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::store::{Objects, Store};
use crate::verbs::read::parse_version;
use crate::watch::{Initial, WatchBody};

/// What a version is called that a list can't read.
fn in_list(refusal: &Status) -> Box<Status> {
    Status::bad_request(format!("invalid resource version: {}", refusal.message))
}

/// The parameters of a list or watch.
struct Parameters<'a> {
    version: Option<u64>,
    version_match: &'a str,
    limit: usize,
    token: &'a str,
    initial_events: Option<bool>,
}

impl<'a> Parameters<'a> {
    fn parse(request: &'a Request, watch: bool) -> Result<Self> {
        let query = &request.query;
        let version = query.get("resourceVersion");
        let limit = query.number("limit")?.unwrap_or(0);
        // Watches look at it again; lists only read it.
        query.number("timeoutSeconds")?;
        let initial_events = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        let parameters = Self {
            version: None,
            version_match: query.get("resourceVersionMatch"),
            limit: usize::try_from(limit).unwrap_or(0),
            token: query.get("continue"),
            initial_events,
        };
        let causes = if watch { parameters.wrong_for_watch() } else { parameters.wrong_for_list(version) };
        if !causes.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &causes));
        }
        let refused = |why: Box<Status>| if watch { why } else { in_list(&why) };
        // A watch from the current state, which names no version, is a streaming list in all but its parameters.
        let initial_events = match (parameters.initial_events, parameters.version_match, version) {
            (None, "", "" | "0") if watch => Some(true),
            (given, ..) => given,
        };
        let version = if version.is_empty() { None } else { Some(parse_version(version).map_err(refused)?) };
        Ok(Self { version, initial_events, ..parameters })
    }

    fn wrong_for_watch(&self) -> Vec<Cause> {
        let field = "resourceVersionMatch";
        let mut causes = Vec::new();
        if !self.token.is_empty() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
            return causes;
        }
        let newer = self.version_match == "NotOlderThan";
        if self.initial_events.is_some() {
            if !newer {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                causes.push(Cause::forbidden(field, why));
            }
            if !newer && !self.version_match.is_empty() {
                causes.push(Cause::unsupported(field, self.version_match, &["NotOlderThan"]));
            }
        } else if !self.version_match.is_empty() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(Cause::forbidden(field, why));
            if !newer {
                causes.push(Cause::unsupported(field, self.version_match, &["NotOlderThan"]));
            }
        }
        causes
    }

    fn wrong_for_list(&self, version: &str) -> Vec<Cause> {
        let field = "resourceVersionMatch";
        let mut causes = Vec::new();
        if self.initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        if self.version_match.is_empty() {
            return causes;
        }
        if version.is_empty() {
            causes.push(Cause::forbidden(
                field,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !self.token.is_empty() {
            causes
                .push(Cause::forbidden(field, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(self.version_match, "Exact" | "NotOlderThan") {
            causes.push(Cause::unsupported(field, self.version_match, &["Exact", "NotOlderThan", ""]));
        }
        if self.version_match == "Exact" && version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(Cause::forbidden(field, why));
        }
        causes
    }
}

fn filter(request: &Request, target: &Target) -> Result<Filter> {
    let query = &request.query;
    Filter::new(&target.kind, &target.namespace, query.get("labelSelector"), query.get("fieldSelector"))
}

pub(crate) fn list_or_watch(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let query = &request.query;
    let filter = filter(request, target)?;
    if query.flag("watch") {
        let parameters = Parameters::parse(request, true)?;
        return watch(server, request, target, filter, &parameters);
    }
    let parameters = Parameters::parse(request, false)?;
    list(server, target, &filter, &parameters)
}

fn list(server: &Server, target: &Target, filter: &Filter, parameters: &Parameters<'_>) -> Result<Answer> {
    let found = snapshot(&server.lock(), target, filter, parameters)?;
    Ok(Answer::bytes(page(target, filter, parameters, found, |_| {}).finish()))
}

/// The objects of a list, the revision they are from, and after which key the page starts.
type Snapshot = (Objects, u64, Option<String>);

/// A page of a list; whoever wants to is shown each object of it.
fn page<'a>(
    target: &'a Target,
    filter: &Filter,
    parameters: &Parameters<'_>,
    (objects, revision, start): Snapshot,
    mut show: impl FnMut(&Arc<Object>),
) -> Page<'a> {
    // A list "from any version" comes whole from the cache, as upstream; an object that is named is read by itself.
    let single = filter.single().is_some_and(|_| !target.kind.namespaced || !target.namespace.is_empty());
    let whole = parameters.version == Some(0) || single && start.is_none();
    let limit = if whole { 0 } else { parameters.limit };
    let mut page = Page::new(target, objects.len());
    let from = start
        .as_ref()
        .map_or(Bound::Included(filter.prefix.as_str()), |start| Bound::Excluded(start.as_str()));
    let mut rest = 0_usize;
    let mut next = None;
    let in_range = objects.range::<_, str>((from, Bound::Unbounded));
    for (key, object) in in_range.take_while(|(key, _)| key.starts_with(&filter.prefix)) {
        if next.is_some() {
            rest += 1;
            continue;
        }
        // Whether anything of the rest would be picked is not known without reading on, so there is a next
        // page.
        if limit > 0 && page.count == limit {
            next.clone_from(&page.last);
            rest = 1;
            if filter.is_selective() {
                break;
            }
            continue;
        }
        if !filter.picks_once(object) {
            continue;
        }
        page.push(key, object);
        show(object);
    }
    page.revision = revision;
    page.next = next.map(|last| {
        let remaining = (!filter.is_selective()).then_some(rest);
        (Continuation::encode(revision, last.strip_prefix(&filter.prefix).unwrap_or(&last)), remaining)
    });
    page
}

fn snapshot(
    store: &Store,
    target: &Target,
    filter: &Filter,
    parameters: &Parameters<'_>,
) -> Result<Snapshot> {
    let current = store.revision();
    if !parameters.token.is_empty() {
        let token = Continuation::decode(parameters.token)?;
        if parameters.version.is_some_and(|version| version != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let start = Some(format!("{}{}", filter.prefix, token.start));
        let Some(revision) = token.revision else {
            return Ok((store.list(target.index), current, start));
        };
        if revision > current {
            return Err(Status::too_large_version(revision, current));
        }
        let objects = store.list_at(target.index, revision).map_err(|mut refusal| {
            refusal.message = Continuation::EXPIRED.into();
            refusal.continue_token = Some(Continuation::encode_inconsistent(&token.start));
            refusal
        })?;
        return Ok((objects, revision, start));
    }
    match parameters.version {
        Some(version) if version > current => Err(Status::too_large_version(version, current)),
        Some(version) if version > 0 && parameters.is_exact() => {
            let objects = store.list_at(target.index, version).map_err(|mut refusal| {
                "The resourceVersion for the provided list is too old.".clone_into(&mut refusal.message);
                refusal
            })?;
            Ok((objects, version, None))
        }
        _ => Ok((store.list(target.index), current, None)),
    }
}

impl Parameters<'_> {
    /// A limit without a match has always meant the very version.
    fn is_exact(&self) -> bool {
        self.version_match == "Exact" || self.version_match.is_empty() && self.limit > 0
    }
}

/// A list answer while it is written.
struct Page<'a> {
    target: &'a Target,
    items: Vec<u8>,
    count: usize,
    last: Option<String>,
    revision: u64,
    /// The token of the next page, and how many objects are left, if that is known.
    next: Option<(String, Option<usize>)>,
}

impl<'a> Page<'a> {
    fn new(target: &'a Target, expected: usize) -> Self {
        let items = Vec::with_capacity(expected.min(10_000) * 256);
        Self { target, items, count: 0, last: None, revision: 0, next: None }
    }

    fn push(&mut self, key: &str, object: &Object) {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.count += 1;
        self.last = Some(key.into());
        let kind = &self.target.kind;
        let view = kind.view_of(object).map(|view| Object::new(view, object.revision));
        let object = view.as_ref().unwrap_or(object);
        if kind.custom {
            self.items.extend_from_slice(object.bytes());
        } else {
            object.write_item(&mut self.items);
        }
    }

    fn finish(self) -> Vec<u8> {
        let kind = &self.target.kind;
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if kind.custom {
            metadata["continue"] = "".into();
        }
        if let Some((token, remaining)) = self.next {
            metadata["continue"] = token.into();
            if let Some(remaining) = remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            kind.list_kind(),
            kind.api_version()
        );
        let mut list = Vec::with_capacity(head.len() + self.items.len() + 2);
        list.extend_from_slice(head.as_bytes());
        list.extend_from_slice(&self.items);
        list.extend_from_slice(b"]}");
        list
    }
}

fn watch(
    server: &Server,
    request: &Request,
    target: &Target,
    filter: Filter,
    parameters: &Parameters<'_>,
) -> Result<Answer> {
    let query = &request.query;
    let bookmarks = query.flag("allowWatchBookmarks");
    let timeout = query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let filter = Arc::new(filter);
    let mut store = server.lock();
    let current = store.revision();
    let version = parameters.version.unwrap_or(0);
    if version > current && parameters.initial_events == Some(true) {
        let status = Status::too_large_version(version, current);
        return Ok(Answer::watch(WatchBody::failed(server.store.clone(), target.kind.clone(), &status)));
    }
    // Without a version, or with "0", the current state comes first; a streaming list always starts with it.
    let from_state = parameters.initial_events.unwrap_or(version == 0);
    let after = if from_state || version == 0 { current } else { version };
    let subscription = match store.watch(target.index, &filter, after) {
        Ok(subscription) => subscription,
        Err(status) => {
            drop(store);
            return Ok(Answer::watch(WatchBody::failed(server.store.clone(), target.kind.clone(), &status)));
        }
    };
    let objects = if from_state { picked(&store.list(target.index), &filter) } else { Vec::new() };
    let end = (bookmarks && parameters.initial_events == Some(true)).then_some(current);
    drop(store);
    let initial = Initial { objects, end };
    let body =
        WatchBody::new(server.store.clone(), target.kind.clone(), initial, subscription, bookmarks, timeout);
    Ok(Answer::watch(body))
}

/// The objects of a snapshot that a filter picks, in order.
pub(crate) fn picked(objects: &Objects, filter: &Filter) -> Vec<Arc<Object>> {
    let range = objects.range::<_, str>((Bound::Included(filter.prefix.as_str()), Bound::Unbounded));
    let range = range.take_while(|(key, _)| key.starts_with(&filter.prefix));
    range.filter(|(_, object)| filter.picks_once(object)).map(|(_, object)| object.clone()).collect()
}

/// The objects that a deletion of a collection means, which are those that a list would show, and that list.
pub(crate) fn to_delete(
    store: &Store,
    request: &Request,
    target: &Target,
) -> Result<(Vec<Arc<Object>>, Vec<u8>)> {
    let mut parameters = Parameters::parse(request, false)?;
    if parameters.version_match.is_empty() && parameters.version.is_some_and(|version| version > 0) {
        // The real server deletes page by page, and a page is of the very version.
        parameters.version_match = "Exact";
    }
    let filter = filter(request, target)?;
    let found = snapshot(store, target, &filter, &parameters)?;
    let mut objects = Vec::new();
    let page = page(target, &filter, &parameters, found, |object| objects.push(object.clone()));
    Ok((objects, page.finish()))
}
