//! Performing a job at the API server, one write after the other.
//!
//! Each write is made on the object that the one before it left, so a job needs no reads between its writes. The
//! first failure ends the job: what comes after rests on it. A conflict is never answered by sending again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;

use super::clock::Clock;
use super::decider::Job;
use super::error::Error;
use super::events::EventSink;
use super::lease::Lead;
use super::metrics::Sent;
use super::plugin::{ATTEMPTS, PAUSE, Plugins};
use crate::cluster::{Key, Kind, Object};
use crate::decide::patch::Request;
use crate::decide::plugin::{Answer, Call};
use crate::decide::{Action, Reads, Write};
use crate::objects::{Claim, Node, Pod, Volume};

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How a job ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The objects as the API server returned them, the last answer for each.
    pub answers: BTreeMap<Key, Object>,
    /// The answers to the reads.
    pub reads: Reads,
    /// What a plugin was asked and answered.
    pub answer: Option<(Call, Answer)>,
    /// What ended the job early.
    pub error: Option<Error>,
    /// The number of writes that the API server took.
    pub writes: u64,
    /// Every request that stood for a write.
    pub sent: Vec<Sent>,
}

/// What jobs are performed with. Cheap to clone.
#[derive(Clone)]
pub struct Executor {
    /// The API server.
    pub client: Client,
    /// Where events go.
    pub events: EventSink,
    /// The in-tree plugins.
    pub plugins: Plugins,
    /// Whether anything may be touched.
    pub lead: Lead,
    /// What time it is.
    pub clock: Clock,
}

/// Performs a job.
pub async fn perform(executor: &Executor, mut job: Job) -> Outcome {
    let Executor { client, events, plugins, clock, lead } = executor;
    let mut outcome = Outcome::default();
    for action in std::mem::take(&mut job.actions) {
        let done = match action {
            Action::Write(write) => perform_write(client, clock, &job, &write, &mut outcome).await,
            Action::Ask(_) if !lead.holds() => Err(Error::NotLeading { key: job.key.clone() }),
            Action::Ask(call) => {
                let answer = plugins.call(&call).await;
                outcome.answer = Some((call, answer));
                Ok(())
            }
            Action::Emit(event) => {
                let regarding =
                    outcome.answers.get(&event.regarding).or_else(|| job.objects.get(&event.regarding));
                events.send(&event, regarding);
                Ok(())
            }
            Action::Read(key) => match read(client, &key).await {
                Ok(object) => {
                    outcome.reads.insert(key, object);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Action::Enqueue(_)
            | Action::Offer(_)
            | Action::Start(_)
            | Action::Assume(..)
            | Action::Forget(_)
            | Action::Park(..)
            | Action::BackOff => Ok(()),
        };
        if let Err(error) = done {
            outcome.error = Some(error);
            break;
        }
    }
    outcome
}

/// Sends one write that was decided on `before`, as a request of exactly what changes with that version as its
/// precondition; returns the object as the API server has it now, `None` when nothing would change or nothing is left.
///
/// # Errors
/// When the server does not take it: [`Error::Conflict`] when the object has changed since.
pub async fn write(client: &Client, before: &Object, write: &Write) -> Result<Option<Object>, Error> {
    match write.request(before) {
        Some(request) => send(client, write.target(), before, request, write).await,
        None => Ok(None),
    }
}

async fn perform_write(
    client: &Client,
    clock: &Clock,
    job: &Job,
    write: &Write,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let key = write.target();
    if let Write::CreateVolume { object, .. } = write {
        let answer = save(client, key, object, &mut outcome.sent).await?;
        outcome.writes += 1;
        outcome.answers.extend(answer.map(|answer| (key.clone(), answer)));
        return Ok(());
    }
    let created = write.created();
    let before = outcome.answers.get(key).or_else(|| job.objects.get(key)).or(created.as_ref());
    let Some(before) = before else { return Ok(()) };
    let Some(mut request) = write.request(before) else { return Ok(()) };
    if let Request::Patch { body, .. } = &mut request {
        clock.stamp(body);
    }
    let sent = Sent::about(key, before, &request);
    let answer = send(client, key, before, request, write).await;
    let sent = sent.answered(&answer);
    tracing::debug!(%key, verb = sent.verb, from = sent.from, answer = ?sent.answer, "sent");
    outcome.sent.push(sent);
    let answer = answer?;
    outcome.writes += 1;
    if let Some(answer) = answer {
        outcome.answers.insert(key.clone(), answer);
    }
    Ok(())
}

/// Saves a volume whose storage has been made, trying again for a while; `None` when it has been saved before.
async fn save(
    client: &Client,
    key: &Key,
    volume: &Arc<Volume>,
    sent: &mut Vec<Sent>,
) -> Result<Option<Object>, Error> {
    let object = Object::Volume(volume.clone());
    let request = Request::Create { object: object.clone() };
    let mut attempt = 1;
    loop {
        let answer = create(client, key, &object).await.map(Some);
        sent.push(Sent::about(key, &object, &request).answered(&answer));
        let message = match answer {
            Ok(saved) => return Ok(saved),
            // A name that was not conflicting can only be taken by the same volume.
            Err(Error::Api { code: 409, .. }) => return Ok(None),
            Err(Error::Api { message, .. }) => message,
            Err(other) => other.to_string(),
        };
        if attempt == ATTEMPTS {
            return Err(Error::Unsaved { volume: volume.clone(), message });
        }
        tracing::debug!(%key, attempt, %message, "not saved yet");
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Gives a request its time limit and its errors their object.
async fn limited<T>(
    verb: &'static str,
    key: &Key,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    if let Ok(answer) = tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        return answer.map_err(|error| Error::of(verb, key, &error));
    }
    let message = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
    Err(Error::Api { verb, key: key.clone(), message, code: 0 })
}

async fn send(
    client: &Client,
    key: &Key,
    before: &Object,
    request: Request,
    write: &Write,
) -> Result<Option<Object>, Error> {
    match request {
        Request::Patch { status, body } => {
            let patch = Patch::Merge(&body);
            let params = PatchParams::default();
            let name = key.name();
            match key.kind() {
                Kind::Volume => {
                    let api: Api<Volume> = Api::all(client.clone());
                    let answer = async {
                        if status {
                            api.patch_status(name, &params, &patch).await
                        } else {
                            api.patch(name, &params, &patch).await
                        }
                    };
                    limited("patch", key, answer).await.map(|volume| Some(Object::from(volume)))
                }
                Kind::Claim => {
                    let api: Api<Claim> = Api::namespaced(client.clone(), key.namespace());
                    let answer = async {
                        if status {
                            api.patch_status(name, &params, &patch).await
                        } else {
                            api.patch(name, &params, &patch).await
                        }
                    };
                    limited("patch", key, answer).await.map(|claim| Some(Object::from(claim)))
                }
                Kind::Pod => {
                    let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace());
                    let answer = api.patch_status(name, &params, &patch);
                    limited("patch", key, answer).await.map(|pod| Some(Object::from(pod)))
                }
                Kind::Class | Kind::Node | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => Ok(None),
            }
        }
        Request::Bind { node } => bind(client, key, before, &node).await.map(|()| placed(write, before)),
        Request::Create { object } => create(client, key, &object).await.map(Some),
        Request::Delete { uid, resource_version } => {
            let preconditions = Some(Preconditions { uid, resource_version });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            delete(client, key, &params).await
        }
    }
}

async fn create(client: &Client, key: &Key, object: &Object) -> Result<Object, Error> {
    let params = PostParams::default();
    match object {
        Object::Volume(volume) => {
            let api: Api<Volume> = Api::all(client.clone());
            limited("create", key, api.create(&params, volume)).await.map(Object::from)
        }
        Object::Pod(pod) => {
            let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace());
            limited("create", key, api.create(&params, pod)).await.map(Object::from)
        }
        other => Ok(other.clone()),
    }
}

/// Deletes an object; what comes back is what is left of it while somebody keeps it. A server may also show one that is
/// gone: of that only the watch tells.
async fn delete(client: &Client, key: &Key, params: &DeleteParams) -> Result<Option<Object>, Error> {
    let left = match key.kind() {
        Kind::Volume => {
            let api: Api<Volume> = Api::all(client.clone());
            limited("delete", key, api.delete(key.name(), params)).await?.left().map(Object::from)
        }
        Kind::Pod => {
            let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace());
            limited("delete", key, api.delete(key.name(), params)).await?.left().map(Object::from)
        }
        Kind::Claim | Kind::Class | Kind::Node | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => None,
    };
    let is_kept = |object: &Object| {
        let meta = object.metadata();
        meta.deletion_timestamp.is_some()
            && (meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
                || meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0))
    };
    Ok(left.filter(is_kept))
}

/// The pod as it is once it is placed, for want of an answer that says so. It is newer than what was known before,
/// so that a late event of that older version does not take it off its node again.
#[must_use]
pub fn placed(write: &Write, before: &Object) -> Option<Object> {
    let Object::Pod(pod) = write.apply(before)? else { return None };
    let mut pod = Pod::clone(&pod);
    pod.metadata.resource_version = Some((before.version() + 1).to_string());
    Some(Object::from(pod))
}

/// Places a pod. The answer carries no pod: the watch shows its new version.
async fn bind(client: &Client, key: &Key, before: &Object, node: &str) -> Result<(), Error> {
    let meta = before.metadata();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": key.name(), "namespace": key.namespace(), "uid": meta.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace());
    let params = PostParams::default();
    let request = api.create_subresource::<_, serde_json::Value>("binding", key.name(), &params, &binding);
    limited("bind", key, request).await.map(|_| ())
}

/// Asks the API server for an object; `None` when there is none.
///
/// # Errors
/// When the server does not answer, or answers otherwise.
pub async fn read(client: &Client, key: &Key) -> Result<Option<Object>, Error> {
    match key.kind() {
        Kind::Claim => {
            let api: Api<Claim> = Api::namespaced(client.clone(), key.namespace());
            limited("get", key, api.get_opt(key.name())).await.map(|claim| claim.map(Object::from))
        }
        Kind::Volume => {
            let api: Api<Volume> = Api::all(client.clone());
            limited("get", key, api.get_opt(key.name())).await.map(|volume| volume.map(Object::from))
        }
        Kind::Node => {
            let api: Api<Node> = Api::all(client.clone());
            limited("get", key, api.get_opt(key.name())).await.map(|node| node.map(Object::from))
        }
        Kind::Pod | Kind::Class | Kind::CsiNode | Kind::CsiDriver | Kind::Capacity => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;

    #[test]
    fn a_late_event_takes_no_pod_off_its_node() {
        let pod =
            json!({"metadata": {"namespace": "default", "name": "w", "resourceVersion": "7"}, "spec": {}});
        let pod = Object::from(serde_json::from_value::<Pod>(pod).unwrap());
        let mut cluster = Cluster::new();
        cluster.show(pod.clone());
        let write = Write::BindPod { pod: pod.key(), node: "n".to_owned() };
        cluster.confirm(&pod.key(), placed(&write, &pod));
        cluster.show(pod.clone());
        let known = cluster.pod(&pod.key()).unwrap();
        assert_eq!(crate::objects::pod::node_name(known), "n");
    }
}
