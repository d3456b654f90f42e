//! Decides when what a test waits for is there, and what it is told when it is not. Never polls on a timer: it looks after each
//! write. The time is tokio's, so a paused clock governs it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::{Error, FakeCluster, PATIENCE};

impl FakeCluster {
    /// Waits until an object is as it should be; `what` completes "waited for KIND NAME …". The namespace counts only for
    /// kinds that have one.
    ///
    /// # Errors
    /// When the time is over; the error shows the object as it is instead.
    pub async fn wait_for(
        &self,
        (kind, namespace, name): (&str, &str, &str),
        what: &str,
        is: impl Fn(&Value) -> bool,
        patience: Duration,
    ) -> Result<Arc<Value>, Error> {
        let mut changes = self.server.changes();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Some(object) = self.get(kind, namespace, name).filter(|object| is(object)) {
                    return Some(object);
                }
                // The sender lives as long as the server, and this holds a handle to it.
                changes.changed().await.ok()?;
            }
        };
        let found = tokio::time::timeout(patience, found).await.ok().flatten();
        found.ok_or_else(|| self.waited((kind, namespace, name), what, patience))
    }

    /// Waits until an object is gone.
    ///
    /// # Errors
    /// When the time is over; the error shows the object.
    pub async fn wait_gone(
        &self,
        (kind, namespace, name): (&str, &str, &str),
        patience: Duration,
    ) -> Result<(), Error> {
        let mut changes = self.server.changes();
        let gone = async {
            loop {
                changes.mark_unchanged();
                if self.get(kind, namespace, name).is_none() || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let gone = tokio::time::timeout(patience, gone).await;
        gone.map_err(|_| self.waited((kind, namespace, name), "to be gone", patience))
    }

    /// Waits until a claim is bound, and returns the name of its volume.
    ///
    /// # Errors
    /// After [`PATIENCE`]; the error shows the claim as it is instead.
    pub async fn await_bound(&self, namespace: &str, claim: &str) -> Result<String, Error> {
        let bound = |claim: &Value| claim["status"]["phase"] == "Bound";
        let id = ("PersistentVolumeClaim", namespace, claim);
        let claim = self.wait_for(id, "to be Bound", bound, PATIENCE).await?;
        Ok(claim["spec"]["volumeName"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a pod is on a node, and returns the node's name.
    ///
    /// # Errors
    /// After [`PATIENCE`]; the error shows the pod as it is instead.
    pub async fn await_scheduled(&self, namespace: &str, pod: &str) -> Result<String, Error> {
        let placed = |pod: &Value| pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let pod = self.wait_for(("Pod", namespace, pod), "to be scheduled", placed, PATIENCE).await?;
        Ok(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an object's `status.phase` is what it should be: `Running`, `Available`, `Bound`.
    ///
    /// # Errors
    /// After [`PATIENCE`]; the error shows the object as it is instead.
    pub async fn await_phase(&self, id: (&str, &str, &str), phase: &str) -> Result<Arc<Value>, Error> {
        self.wait_for(id, &format!("to be {phase}"), |object| object["status"]["phase"] == phase, PATIENCE)
            .await
    }

    fn waited(&self, (kind, namespace, name): (&str, &str, &str), what: &str, patience: Duration) -> Error {
        let instead = match self.get(kind, namespace, name) {
            Some(object) => format!("it is {}", shown(&object)),
            None => format!("there is none; {}", self.others(kind)),
        };
        let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        Error::Waited { patience, what: format!("{kind} {place} {what}"), instead }
    }

    /// What of a kind there is.
    fn others(&self, kind: &str) -> String {
        let objects = self.server.objects();
        let of_kind = objects.iter().filter(|object| object["kind"] == kind);
        let names: Vec<String> = of_kind
            .map(|object| {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                format!("{}/{}", text("namespace"), text("name")).trim_start_matches('/').to_owned()
            })
            .take(10)
            .collect();
        if names.is_empty() {
            format!("nor any other {kind}")
        } else {
            format!("there are {}", names.join(", "))
        }
    }
}

/// An object as a reader wants it: without what only servers read.
fn shown(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    serde_json::to_string_pretty(&object).unwrap_or_default()
}
