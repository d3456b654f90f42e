//! What every namespace has, and how one goes.
//!
//! Sees to it that each namespace has its service account `default` and, where the server shows a certificate, the config map
//! of what pods have to trust; empties a namespace that is being deleted, whatever kinds it has, and lets it go when nothing
//! is left. Never touches anything else. Answers to the serviceaccount, root-ca-cert-publisher and namespace controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use fake_apiserver::FakeApiServer;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::stage::{self, Route};
use crate::manifest::field;

/// How long to wait before what could not be done is tried again, and at least between two looks at what is left of a
/// namespace.
const PAUSE: Duration = Duration::from_millis(100);
/// The account of pods that name none.
const ACCOUNT: &str = "default";
/// The config map of what pods have to trust.
const AUTHORITY: &str = "kube-root-ca.crt";

/// Tends all namespaces, and never ends by itself.
pub(super) async fn keep(server: &FakeApiServer, client: &Client, authority: Option<&str>) {
    let mut due = names(client);
    let mut open = BTreeSet::new();
    let mut changes = server.changes();
    loop {
        // What is left of a namespace changes with the server; what was refused may be taken later.
        let again = async {
            if open.is_empty() {
                std::future::pending::<()>().await;
            }
            sleep(PAUSE).await;
            // A server that is gone answers nobody either.
            let _ = changes.changed().await;
        };
        tokio::select! {
            name = due.next() => match name {
                Some(name) => { open.insert(name); }
                None => return,
            },
            () = again => {}
        }
        open.retain(|name| !tend(server, name, authority));
    }
}

/// The namespaces that come or change, and those that lose what each has.
fn names(client: &Client) -> stream::BoxStream<'static, String> {
    let all = watcher(Api::<Namespace>::all(client.clone()), watcher::Config::default()).default_backoff();
    let all = all.filter_map(async |event| match event {
        Ok(Event::Apply(namespace) | Event::InitApply(namespace)) => Some(namespace.name_any()),
        Ok(Event::Delete(_) | Event::Init | Event::InitDone) => None,
        Err(error) => trouble(&error),
    });
    let accounts = lost::<ServiceAccount>(client, ACCOUNT);
    let maps = lost::<ConfigMap>(client, AUTHORITY);
    stream::select_all([all.boxed(), accounts, maps]).boxed()
}

/// The namespaces that lose their object of this name.
fn lost<K>(client: &Client, name: &str) -> stream::BoxStream<'static, String>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let all = watcher(Api::<K>::all(client.clone()), named).default_backoff();
    let lost = all.filter_map(async |event| match event {
        Ok(Event::Delete(object)) => object.namespace(),
        Ok(Event::Apply(_) | Event::InitApply(_) | Event::Init | Event::InitDone) => None,
        Err(error) => trouble(&error),
    });
    lost.boxed()
}

fn trouble(error: &watcher::Error) -> Option<String> {
    tracing::debug!(%error, "watch failed, trying again");
    None
}

/// Does what a namespace needs; says whether that is all.
fn tend(server: &FakeApiServer, name: &str, authority: Option<&str>) -> bool {
    let Some(namespace) = server.get("Namespace", "", name) else { return true };
    if field::text(&namespace, "/metadata/deletionTimestamp").is_empty() {
        return furnish(server, name, authority);
    }
    empty(server, name) && finalize(server, &namespace)
}

/// Makes what every namespace has.
fn furnish(server: &FakeApiServer, namespace: &str, authority: Option<&str>) -> bool {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    let published = authority.map(|authority| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": AUTHORITY}, "data": {"ca.crt": authority},
        })
    });
    let mut done = true;
    for (kind, resource, object) in
        [("ServiceAccount", "serviceaccounts", Some(account)), ("ConfigMap", "configmaps", published)]
    {
        let Some(object) = object else { continue };
        if server.get(kind, namespace, field::text(&object, "/metadata/name")).is_none() {
            let path = format!("/api/v1/namespaces/{namespace}/{resource}");
            let made = stage::send(server, "POST", &path, "application/json", object.to_string().as_bytes());
            done &= made.inspect_err(|error| tracing::debug!(namespace, kind, error, "not made")).is_ok();
        }
    }
    done
}

/// Deletes what a namespace has; says whether nothing is left.
fn empty(server: &FakeApiServer, namespace: &str) -> bool {
    let mut routes: BTreeMap<(String, String), Option<Route>> = BTreeMap::new();
    let mut is_empty = true;
    for object in server.objects() {
        let text = |path: &str| field::text(&object, path);
        if text("/metadata/namespace") != namespace {
            continue;
        }
        is_empty = false;
        if !text("/metadata/deletionTimestamp").is_empty() {
            continue;
        }
        let (api_version, kind) = (text("/apiVersion").to_owned(), text("/kind").to_owned());
        let route = routes
            .entry((api_version, kind))
            .or_insert_with_key(|(api_version, kind)| stage::route(server, api_version, kind));
        let Some(route) = route else { continue };
        let body = br#"{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}"#;
        let path = route.object(namespace, text("/metadata/name"));
        if let Err(error) = stage::send(server, "DELETE", &path, "application/json", body) {
            tracing::debug!(path, error, "not deleted");
        }
    }
    is_empty
}

/// Takes the last thing away that keeps a namespace.
fn finalize(server: &FakeApiServer, namespace: &Value) -> bool {
    let mut namespace = namespace.clone();
    namespace["spec"]["finalizers"] = json!([]);
    let path = format!("/api/v1/namespaces/{}/finalize", field::text(&namespace, "/metadata/name"));
    stage::send(server, "PUT", &path, "application/json", namespace.to_string().as_bytes()).is_ok()
}
