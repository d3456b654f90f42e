//! The decider with the API server's answers played by hand: what is assumed, taken back, and decided again.

use std::collections::VecDeque;

use serde_json::json;

use super::*;
use crate::act::Outcome;
use crate::decide;
use crate::objects::{Claim, Class, Node, Pod, Volume};

fn volume(name: &str, mode: &str, reference: &serde_json::Value) -> Object {
    let volume = json!({
        "metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [mode], "claimRef": reference},
        "status": {"phase": "Available"},
    });
    Object::from(serde_json::from_value::<Volume>(volume).unwrap())
}

#[tokio::test(start_paused = true)]
async fn no_volume_is_taken_from_a_claim_for_what_is_only_assumed_of_the_claim() {
    let mut decider = Decider::new(Settings::default(), Roles::controller());
    let claim = json!({
        "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let reserved = json!({"namespace": "default", "name": "c", "uid": "u"});
    decider.show(volume("reserved", "ReadWriteOnce", &reserved));
    decider.show(volume("fitting", "ReadWriteMany", &json!(null)));
    decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
    let now = Instant::now();
    let job = decider.next(now).unwrap();
    assert_eq!(job.key, Key::claim("default", "c"), "the claim is bound to the volume that fits");
    // The claim is bound elsewhere only when the API server says so: its job may still fail.
    assert!(decider.next(now).is_none());
    let error = Some(Error::Conflict { key: Key::volume("fitting") });
    assert!(decider.finish(job.id, Outcome { error, ..Outcome::default() }, now).is_empty());
    assert!(decider.next(now).is_none());

    let mut outcome = Outcome::default();
    let job = decider.next(decider.due().unwrap()).unwrap();
    for write in job.actions.iter().filter_map(|action| match action {
        Action::Write(write) => Some(write),
        _ => None,
    }) {
        let before = outcome.answers.get(write.target()).unwrap_or(&job.objects[write.target()]);
        let after = write.apply(before).unwrap();
        outcome.answers.insert(write.target().clone(), after);
    }
    assert!(decider.finish(job.id, outcome, now).is_empty());
    let job = decider.next(now).unwrap();
    let unbind = decide::Write::UnbindVolume { volume: Key::volume("reserved") };
    assert!(job.actions.contains(&Action::Write(unbind)), "{job:?}");
}

/// Somebody else has changed everything, and the watches have not told yet: until they do, or a pause is over, there is
/// nothing to try again.
#[tokio::test(start_paused = true)]
async fn what_is_refused_is_not_tried_again_at_once() {
    for executors in [1, 64] {
        refused_for_ever(executors);
    }
}

fn refused_for_ever(executors: usize) {
    let mut decider = Decider::new(Settings::default(), Roles::controller());
    let volume = json!({
        "metadata": {"name": "v", "resourceVersion": "1"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Pending"},
    });
    // Another controller has bound it to the volume; of the volume that is not known yet.
    let claim = json!({
        "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "v",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    });
    decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
    decider.show(Object::from(serde_json::from_value::<Volume>(volume).unwrap()));
    let (now, mut jobs, mut refused) = (Instant::now(), VecDeque::new(), Vec::new());
    loop {
        while jobs.len() < executors
            && let Some(job) = decider.next(now)
        {
            jobs.push_back(job);
        }
        let Some(job) = jobs.pop_front() else { break };
        let written = job.actions.iter().find_map(|action| match action {
            Action::Write(write) => Some(write.target().clone()),
            _ => None,
        });
        refused.extend(written.clone().map(|target| (job.key.clone(), target)));
        assert!(refused.len() < 10, "it goes on and on: {refused:?}");
        let error = written.map(|key| Error::Conflict { key });
        jobs.extend(decider.finish(job.id, Outcome { error, ..Outcome::default() }, now));
    }
    assert!(!refused.is_empty());
}

/// A scheduler that knows one node with room for so many pods, a volume, a claim that waits for a pod, and the pod.
fn scheduler(pods: &str) -> (Decider, impl Fn(&str) -> Object) {
    let roles = Roles { controller: false, scheduler: Some(binder::Pods::All) };
    let mut decider = Decider::new(Settings::default(), roles);
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": pods}}});
    decider.show(Object::from(serde_json::from_value::<Node>(node).unwrap()));
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    decider.show(Object::from(serde_json::from_value::<Class>(class).unwrap()));
    let claim = json!({
        "metadata": {"namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1"},
        "spec": {"storageClassName": "late"},
    });
    decider.show(Object::from(serde_json::from_value::<Claim>(claim).unwrap()));
    let pod = json!({
        "metadata": {"namespace": "default", "name": "w"},
        "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    });
    decider.show(Object::from(serde_json::from_value::<Pod>(pod).unwrap()));
    let offered = |version: &str| {
        let volume = json!({
            "metadata": {"name": "v", "resourceVersion": version},
            "spec": {"storageClassName": "late", "capacity": {"storage": "1Gi"}},
            "status": {"phase": "Available"},
        });
        Object::from(serde_json::from_value::<Volume>(volume).unwrap())
    };
    decider.show(offered("1"));
    (decider, offered)
}

fn reserves(job: &Job) -> bool {
    job.actions.iter().any(|action| matches!(action, Action::Write(_)))
}

#[tokio::test(start_paused = true)]
async fn where_a_pod_is_not_to_run_after_all_another_one_may() {
    let (mut decider, _) = scheduler("1");
    let now = Instant::now();
    let job = decider.next(now).unwrap();
    assert!(reserves(&job), "{job:?}");
    let pod = json!({"metadata": {"namespace": "default", "name": "x"}, "spec": {"containers": []}});
    decider.show(Object::from(serde_json::from_value::<Pod>(pod).unwrap()));
    let refused = decider.next(now).unwrap();
    assert_eq!((refused.reason.code(), refused.key.name()), ("NodeDoesNotFit", "x"));
    decider.finish(refused.id, Outcome::default(), now);
    let error = Some(Error::Conflict { key: Key::volume("v") });
    decider.finish(job.id, Outcome { error, ..Outcome::default() }, now);
    let placed = decider.next(now).unwrap();
    assert_eq!(placed.key.name(), "x");
    let binds = |action: &Action| matches!(action, Action::Write(decide::Write::BindPod { .. }));
    assert!(placed.actions.iter().any(binds), "{placed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_binding_failed_is_placed_again_after_a_pause() {
    let (mut decider, offered) = scheduler("9");
    let now = Instant::now();
    let job = decider.next(now).unwrap();
    assert!(reserves(&job), "{job:?}");
    // Somebody took the reservation back before the claim was bound.
    let answers = BTreeMap::from([(Key::volume("v"), offered("3"))]);
    decider.finish(job.id, Outcome { answers, ..Outcome::default() }, now);
    assert!(decider.next(now).is_none());
    let job = decider.next(decider.due().unwrap()).unwrap();
    assert!(reserves(&job), "{job:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_went_while_it_was_read_stays_gone() {
    let settings = Settings { plugins: decide::plugin::PROVISIONING, ..Settings::default() };
    let mut decider = Decider::new(settings, Roles::controller());
    let reference = json!({"namespace": "default", "name": "gone", "uid": "u"});
    let volume = json!({
        "metadata": {"name": "v", "resourceVersion": "1"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "claimRef": reference, "hostPath": {"path": "/tmp/v"},
            "persistentVolumeReclaimPolicy": "Delete",
        },
        "status": {"phase": "Released"},
    });
    let volume = Object::from(serde_json::from_value::<Volume>(volume).unwrap());
    decider.show(volume.clone());
    let (key, now) = (volume.key(), Instant::now());
    // Before its storage is deleted, the volume is asked for once more.
    let job = decider.next(now).unwrap();
    assert!(job.actions.contains(&Action::Read(key.clone())), "{job:?}");
    decider.gone(&key);
    let reads = Reads::from([(key.clone(), Some(volume))]);
    decider.finish(job.id, Outcome { reads, ..Outcome::default() }, now);
    assert_eq!(decider.cluster().volume(&key), None);
}
