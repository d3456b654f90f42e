//! `bindAPIUpdate`, `bindPodVolumes` and `checkBindings`: the requests, and what is made of what happens next.

use std::collections::{BTreeMap, VecDeque};

use pvbind::binder::{Bind, Cycle, PodVolumes, Progress, Request};
use pvbind::cluster::{Cluster, Key, Object};
use pvbind::decide::binder::check;
use pvbind::decide::{Write, patch};
use pvbind::objects::{Claim, Pod, Volume, annotations, name, namespace, pod};
use serde_json::{Value, json};

use crate::assume::changed;
use crate::record::{Record, State, asserted, part};
use crate::state;
use crate::story::{Story, told, told_claim};

/// What the API server of upstream's tests says of an update of another version than it has.
const CONFLICT: &str = "VersionError";

/// The API server of upstream's tests: it knows volumes and claims, and their versions.
struct Served(BTreeMap<Key, Object>);

impl Served {
    fn new(state: &State) -> Self {
        let volumes = state.served_volumes.iter().cloned().map(Object::from);
        let claims = state.served_claims.iter().cloned().map(Object::from);
        Served(volumes.chain(claims).map(|object| (object.key(), object)).collect())
    }

    /// Does what the request asks for, as its body says.
    fn send(&mut self, request: &Request) -> Result<Object, &'static str> {
        let Some(patch::Request::Patch { status: false, body }) = request.body() else {
            panic!("{request:?} is no patch of an object");
        };
        let served = self.0.get_mut(request.write.target()).ok_or("not found")?;
        let mut value = json(served);
        if body["metadata"]["resourceVersion"] != value["metadata"]["resourceVersion"] {
            return Err(CONFLICT);
        }
        json_patch::merge(&mut value, &body);
        *served = next_version(value);
        Ok(served.clone())
    }

    /// What another client does.
    fn call(&mut self, cluster: &mut Cluster, call: &Value) {
        let (verb, resource) = (call["verb"].as_str(), call["resource"].as_str());
        match (verb, resource) {
            (Some("create"), Some("persistentvolumes")) => {
                let object = sent(call);
                self.0.insert(object.key(), object.clone());
                cluster.show(object);
            }
            (Some("update"), Some("persistentvolumes" | "persistentvolumeclaims")) => {
                let served = self.0.get(&sent(call).key()).map_or(0, Object::version);
                let mut value = call["object"].clone();
                value["metadata"]["resourceVersion"] = json!(served.to_string());
                let object = next_version(value);
                self.0.insert(object.key(), object.clone());
                cluster.show(object);
            }
            (Some("delete"), Some("persistentvolumeclaims")) => {
                let text = |field: &str| call[field].as_str().expect("a name");
                let key = Key::claim(text("namespace"), text("name"));
                self.0.remove(&key);
                cluster.gone(&key);
            }
            // The pods of upstream's tests stay in the lister.
            (Some("delete"), Some("pods")) => {}
            other => panic!("unknown call {other:?}"),
        }
    }
}

fn json(object: &Object) -> Value {
    match object {
        Object::Volume(volume) => serde_json::to_value(&**volume),
        Object::Claim(claim) => serde_json::to_value(&**claim),
        other => panic!("{} is not served", other.key()),
    }
    .expect("an object is a value")
}

fn next_version(mut value: Value) -> Object {
    let version: u64 =
        value["metadata"]["resourceVersion"].as_str().map_or(0, |v| v.parse().expect("a number"));
    value["metadata"]["resourceVersion"] = json!((version + 1).to_string());
    if value["kind"] == "PersistentVolume" {
        Object::from(serde_json::from_value::<Volume>(value).expect("a volume"))
    } else {
        Object::from(serde_json::from_value::<Claim>(value).expect("a claim"))
    }
}

/// The records have objects as they were assumed; here they are kept as they were found.
fn as_found(state: &State, mut volumes: PodVolumes) -> PodVolumes {
    for binding in &mut volumes.bindings {
        let mut volume = Volume::clone(&binding.volume);
        let same = |v: &&Volume| v.metadata.name == volume.metadata.name;
        let shown = state.volumes.iter().find(same);
        if let Some(shown) = shown.filter(|s| s.metadata.resource_version == volume.metadata.resource_version)
        {
            volume = shown.clone();
        } else {
            volume.spec.as_mut().expect("a spec").claim_ref = None;
            if let Some(of_volume) = &mut volume.metadata.annotations {
                of_volume.remove(annotations::BOUND_BY_CONTROLLER);
            }
        }
        binding.volume = volume.into();
    }
    for provision in &mut volumes.provisions {
        let same = |c: &&Claim| c.metadata.name == provision.claim.metadata.name;
        let version = &provision.claim.metadata.resource_version;
        let shown = state.claims.iter().find(same).filter(|s| s.metadata.resource_version == *version);
        if let Some(shown) = shown {
            provision.claim = shown.clone().into();
            continue;
        }
        let mut claim = Claim::clone(&provision.claim);
        if let Some(of_claim) = &mut claim.metadata.annotations {
            of_claim.remove(annotations::SELECTED_NODE);
        }
        provision.claim = claim.into();
    }
    volumes
}

/// What the operation is given; `None` where upstream is given nil, which stands for a pod that was never reserved.
fn given(record: &Record) -> Option<PodVolumes> {
    if let Some(volumes) = record.input.get("podVolumes") {
        return Some(crate::record::pod_volumes(volumes));
    }
    let claims: Option<Vec<Claim>> = record.input("claimsToProvision");
    let provisions =
        claims?.into_iter().map(|claim| pvbind::binder::Provision { claim: claim.into(), capacity: None });
    record.input.get("bindings").filter(|bindings| bindings.is_array())?;
    Some(PodVolumes {
        bindings: asserted(&record.input, "bindings").unwrap_or_default(),
        provisions: provisions.collect(),
    })
}

/// There is no reserved pod without its volumes here: who has none has not been reserved.
fn nothing_reserved(record: &Record, mut story: Story) -> String {
    let refused = Cycle::default().pre_bind("node1").map(|_| ());
    assert!(refused.is_err());
    assert_eq!(part(&record.want, "fail"), Some(true), "fail");
    assert_ne!(part(&record.want, "allBound"), Some(true), "allBound");
    story.line(format_args!("-> nothing was reserved: {refused:?}"));
    story.text()
}

/// Sends what is to be sent, until one is refused; compares the requests with the recorded ones.
fn send(
    record: &Record,
    bind: &mut Bind,
    cluster: &mut Cluster,
    served: &mut Served,
    story: &mut Story,
) -> Option<String> {
    let mut recorded: VecDeque<Value> = calls(record, served).into();
    while let Some(request) = bind.next().cloned() {
        let after = request.write.apply(&request.before).expect("it changes something");
        if record.is_behaviour() {
            let call = recorded.pop_front().unwrap_or_else(|| panic!("upstream does not send {request:?}"));
            assert_eq!(sent(&call), after, "what is sent");
        }
        match served.send(&request) {
            Ok(answer) => {
                story.line(format_args!("sent {} -> {}", said(&request.write), told_object(&answer)));
                bind.answered(cluster, &answer);
            }
            Err(error) => {
                story.line(format_args!("sent {} -> {error}", said(&request.write)));
                bind.refused(cluster);
                assert!(recorded.is_empty() || !record.is_behaviour(), "upstream sends {recorded:?}");
                return Some(error.to_owned());
            }
        }
    }
    assert!(recorded.is_empty() || !record.is_behaviour(), "upstream sends {recorded:?}");
    None
}

/// The recorded calls that change something.
fn calls(record: &Record, served: &Served) -> Vec<Value> {
    let calls = record.got["apiCalls"].as_array().cloned().unwrap_or_default();
    let changes = |call: &Value| served.0.get(&sent(call).key()) != Some(&sent(call));
    calls.into_iter().filter(changes).collect()
}

/// The object that a recorded call sends.
fn sent(call: &Value) -> Object {
    let value = call["object"].clone();
    if call["resource"] == "persistentvolumes" {
        Object::from(serde_json::from_value::<Volume>(value).expect("a volume"))
    } else {
        Object::from(serde_json::from_value::<Claim>(value).expect("a claim"))
    }
}

fn said(write: &Write) -> String {
    match write {
        Write::ReserveVolume { volume, claim } => {
            format!("reserve {} for {}", volume.name(), claim.key.path())
        }
        Write::SelectNode { claim, node } => format!("select {node:?} for {}", claim.path()),
        other => panic!("binding sends no {other:?}"),
    }
}

fn told_object(object: &Object) -> String {
    match object {
        Object::Volume(volume) => told(volume),
        Object::Claim(claim) => told_claim(claim),
        other => other.key().to_string(),
    }
}

fn key_of(pod: &Pod) -> Key {
    Key::pod(namespace(&pod.metadata), name(&pod.metadata))
}

/// The volumes and claims with no version, as upstream compares them.
fn unversioned(objects: impl IntoIterator<Item = Object>) -> BTreeMap<Key, Value> {
    let unversioned = objects.into_iter().map(|object| {
        let mut value = json(&object);
        value["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        if let Some(reference) = value["spec"]["claimRef"].as_object_mut() {
            reference.remove("resourceVersion");
        }
        (object.key(), value)
    });
    unversioned.collect()
}

fn recorded_objects<T: serde::de::DeserializeOwned>(want: &Value, field: &str) -> Vec<Object>
where
    Object: From<T>,
{
    part::<Vec<T>>(want, field).unwrap_or_default().into_iter().map(Object::from).collect()
}

pub fn api_update(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let Some(volumes) = given(record) else { return nothing_reserved(record, story) };
    let pod: Pod = record.given("pod");
    let (mut cluster, mut served) = (record.state.cluster(), Served::new(&record.state));
    let node = pod::node_name(&pod);
    let mut bind = Bind::new(key_of(&pod), node, as_found(&record.state, volumes));
    let error = send(record, &mut bind, &mut cluster, &mut served, &mut story);
    let (want, got) = (&record.want, &record.got);
    assert_eq!(part(want, "fail"), Some(error.is_some()), "fail: {error:?}");
    let of_kind = |kind| move |object: &Object| object.kind() == kind;
    for (field, cached, kind) in [
        ("apiPVs", "cachedPVs", pvbind::cluster::Kind::Volume),
        ("apiPVCs", "cachedPVCs", pvbind::cluster::Kind::Claim),
    ] {
        let read = |field| match kind {
            pvbind::cluster::Kind::Volume => recorded_objects::<Volume>(want, field),
            _ => recorded_objects::<Claim>(want, field),
        };
        let found = served.0.values().filter(|object| of_kind(kind)(object)).cloned();
        assert_eq!(unversioned(found), unversioned(read(field)), "{field}");
        for wanted in read(cached) {
            let found = cluster.object(&wanted.key()).cloned();
            assert_eq!(unversioned(found), unversioned([wanted]), "{cached}");
        }
    }
    if record.is_behaviour() {
        assert_eq!(error, part(got, "error"), "error");
        let after = changed(node, bind.volumes());
        assert_eq!(after.bindings, asserted(got, "bindings").expect("recorded"), "bindings");
        let claims: Vec<Claim> = part(got, "claimsToProvision").expect("recorded");
        let made: Vec<&Claim> = after.provisions.iter().map(|provision| &*provision.claim).collect();
        assert_eq!(made, claims.iter().collect::<Vec<_>>(), "claimsToProvision");
        state::check(record, &cluster, "stateAfter");
    }
    state::tell(&mut story, &cluster);
    story.text()
}

pub fn bind(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let volumes = given(record).expect("volumes");
    let pod: Pod = record.given("pod");
    let (mut cluster, mut served) = (record.state.cluster(), Served::new(&record.state));
    let node = pod::node_name(&pod);
    let mut bind = Bind::new(key_of(&pod), node, as_found(&record.state, volumes));
    let mut error = send(record, &mut bind, &mut cluster, &mut served, &mut story);
    let mut events: VecDeque<&Value> = record.events.iter().collect();
    while error.is_none() {
        let progress = bind.progress(&cluster);
        story.line(format_args!("-> {progress:?}"));
        match progress {
            Ok(Progress::Bound) => break,
            Err(why) => error = Some(format!("binding volumes: {why}")),
            Ok(Progress::Waiting) => match events.pop_front() {
                Some(event) => {
                    for call in event["apiCalls"].as_array().into_iter().flatten() {
                        story.line(format_args!("others {} {}", call["verb"], call["resource"]));
                        served.call(&mut cluster, call);
                    }
                }
                // Nothing else is going to happen: whoever has the clock gives up.
                None => error = Some(format!("binding volumes: {}", check::Failed::Overdue)),
            },
        }
    }
    story.line(format_args!("-> {error:?}"));
    assert_eq!(part(&record.want, "fail"), Some(error.is_some()), "fail: {error:?}");
    if record.is_behaviour() {
        assert_eq!(error, part(&record.got, "error"), "error");
        // The new source keeps the claims as they were before the request.
        let (after, recorded) =
            (changed(node, bind.volumes()), crate::record::pod_volumes(&record.got["podVolumes"]));
        assert_eq!(after.bindings, recorded.bindings, "podVolumes");
        let names = |volumes: &PodVolumes| -> Vec<Key> {
            volumes.provisions.iter().map(pvbind::binder::Provision::claim_key).collect()
        };
        assert_eq!(names(&after), names(&recorded), "podVolumes");
        state::check(record, &cluster, "stateAfter");
    }
    story.text()
}

pub fn check(record: &Record) -> String {
    let mut story = Story::default();
    story.state(&record.state);
    let Some(volumes) = given(record) else { return nothing_reserved(record, story) };
    let pod: Pod = record.given("pod");
    let cluster = record.state.cluster();
    story.volumes(&volumes);
    let progress = check::progress(&cluster, &key_of(&pod), pod::node_name(&pod), &volumes);
    story.line(format_args!("-> {progress:?}"));
    assert_eq!(part(&record.want, "fail"), Some(progress.is_err()), "fail: {progress:?}");
    assert_eq!(part(&record.want, "allBound"), Some(progress == Ok(Progress::Bound)), "allBound");
    if record.is_behaviour() {
        assert_eq!(progress.err().map(|why| why.to_string()), part(&record.got, "error"), "error");
    }
    story.text()
}
