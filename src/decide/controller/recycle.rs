//! Scrubbing a released volume, so that it can be offered again.
//!
//! A pod of a well-known name empties the volume. Upstream starts it and watches it to its end in one go; here its
//! state is looked at like any other, so a restart goes on where the last process stopped. The pod is deleted
//! before the volume is offered: if that is where everything stops, the volume is scrubbed once more, and never
//! offered unscrubbed. Answers to upstream's `recycleVolumeOperation`, `recyclerclient` and the recyclers of the
//! hostPath and NFS plugins.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, HostPathVolumeSource, NFSVolumeSource, PodSpec, Volume as Mounted, VolumeMount,
};

use super::{bind, reclaim};
use crate::cluster::{Cluster, Key, Object};
use crate::decide::plugin::{Answer, Call, Failure, Recycling, Scrubber};
use crate::decide::{Action, Event, Plan, Reads, Reason, Settings, Write};
use crate::objects::{Pod, Volume, annotation, is_deleting, name, pod, uid, volume};

/// The uid of the volume that a pod scrubs, on the pod: one without it, or with another, is not ours.
const SCRUBS: &str = "pvbind/scrubs-volume";
/// The image of upstream's recycler pods.
const IMAGE: &str = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6";
/// What upstream's recycler pods run.
const SCRUB: &str =
    r#"test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1"#;

/// What a pod mounts to scrub a volume.
fn mounted(volume: &Volume) -> Option<Mounted> {
    let spec = volume.spec.as_ref()?;
    let mounted = Mounted::default();
    if let Some(source) = &spec.host_path {
        let host_path = Some(HostPathVolumeSource { path: source.path.clone(), type_: None });
        return Some(Mounted { host_path, ..mounted });
    }
    let source = spec.nfs.as_ref()?;
    let nfs =
        Some(NFSVolumeSource { path: source.path.clone(), server: source.server.clone(), read_only: None });
    Some(Mounted { nfs, ..mounted })
}

/// The pod that scrubs the volume.
fn recycler(volume: &Volume, mounted: Mounted, scrubber: &Scrubber) -> Pod {
    let mut pod = scrubber.template.map_or_else(template, Pod::clone);
    let meta = &mut pod.metadata;
    meta.name = Some(pod::recycler_name(name(&volume.metadata)));
    meta.generate_name = None;
    meta.namespace = Some(pod::RECYCLER_NAMESPACE.to_owned());
    let marks = meta.annotations.get_or_insert_with(BTreeMap::new);
    marks.insert(SCRUBS.to_owned(), uid(&volume.metadata).to_owned());
    let gibibytes = volume::capacity(volume).value() / (1 << 30);
    let spec = pod.spec.get_or_insert_default();
    let limit = scrubber.at_least.max(gibibytes.saturating_mul(scrubber.per_gibibyte));
    spec.active_deadline_seconds = Some(limit);
    if let Some(first) = spec.volumes.as_mut().and_then(|volumes| volumes.first_mut()) {
        // The containers mount it by the name that it has there.
        *first = Mounted { name: std::mem::take(&mut first.name), ..mounted };
    }
    pod
}

/// Upstream's own.
fn template() -> Pod {
    let volume = "vol".to_owned();
    let mount =
        VolumeMount { name: volume.clone(), mount_path: "/scrub".to_owned(), ..VolumeMount::default() };
    let container = Container {
        name: "pv-recycler".to_owned(),
        image: Some(IMAGE.to_owned()),
        command: Some(vec!["/bin/sh".to_owned()]),
        args: Some(vec!["-c".to_owned(), SCRUB.to_owned()]),
        volume_mounts: Some(vec![mount]),
        ..Container::default()
    };
    let spec = PodSpec {
        restart_policy: Some("Never".to_owned()),
        containers: vec![container],
        volumes: Some(vec![Mounted { name: volume, ..Mounted::default() }]),
        ..PodSpec::default()
    };
    Pod { spec: Some(spec), ..Pod::default() }
}

/// The next step of the recycle operation. Before anything is destroyed the API server is asked whether the volume is
/// still to be scrubbed.
#[must_use]
pub fn recycle(cluster: &Cluster, settings: &Settings, key: &Key, reads: &Reads) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(known) = cluster.volume(key).filter(|volume| reclaim::is_released(cluster, volume)) else {
        return plan;
    };
    plan.reason = reclaim::released(key, known);
    let pod_key = Key::pod(pod::RECYCLER_NAMESPACE, &pod::recycler_name(key.name()));
    let plugin =
        settings.plugins.iter().find(|plugin| plugin.recycles != Recycling::Never && plugin.supports(known));
    let by_pod = plugin.is_some_and(|plugin| matches!(plugin.recycles, Recycling::Pod(_)));
    let object = Object::Volume(known.clone());
    if let Some(pod) = cluster.pod(&pod_key).filter(|_| by_pod) {
        follow(&mut plan, key, &object, &pod_key, pod);
        return plan;
    }
    let volume = match reads.get(key) {
        None => {
            plan.actions.push(Action::Read(key.clone()));
            return plan;
        }
        Some(read) => read.as_ref().and_then(Object::as_volume),
    };
    let Some(volume) = volume.filter(|volume| reclaim::is_released(cluster, volume)) else { return plan };
    let (namespace, claim) = volume::claim_ref(volume).map_or(("", ""), volume::referred);
    let claim = Key::claim(namespace, claim);
    let users = users(cluster, &claim);
    // A claim of that name is another one, on another volume: the pods are its users, not this volume's.
    if !users.is_empty() && cluster.claim(&claim).is_none() {
        let message = format!("Volume is used by pods: {}", users.join(","));
        plan.emit(Event::normal(key, "VolumeFailedRecycle", message));
        return plan;
    }
    match plugin.map(|plugin| (plugin.recycles, mounted(volume), plugin.name)) {
        Some((Recycling::Call, _, plugin)) => {
            plan.actions.push(Action::Ask(Call::Recycle { plugin, volume: volume.clone() }));
        }
        Some((Recycling::Pod(scrubber), Some(mounted), _)) => {
            let pod = Arc::new(recycler(volume, mounted, &scrubber));
            plan.push(Write::CreatePod { pod: pod_key, object: pod });
        }
        Some((Recycling::Pod(_) | Recycling::Never, _, _)) | None => {
            let message = "No recycler plugin found for the volume!";
            reclaim::fail(&mut plan, &object, "VolumeFailedRecycle", message);
        }
    }
    plan
}

/// What follows when a plugin has scrubbed the volume, or has not.
#[must_use]
pub fn recycled(cluster: &Cluster, key: &Key, answer: Answer) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(volume) = cluster.volume(key) else { return plan };
    plan.reason = reclaim::released(key, volume);
    let object = Object::Volume(volume.clone());
    match answer {
        Ok(_) => {
            plan.emit(Event::normal(key, "VolumeRecycled", "Volume recycled"));
            bind::unbind(&mut plan, &object);
        }
        Err(Failure::Setup(why) | Failure::InUse(why) | Failure::Failed(why)) => {
            let message = format!("Recycle failed: {why}");
            reclaim::fail(&mut plan, &object, "VolumeFailedRecycle", &message);
            plan.actions.push(Action::BackOff);
        }
    }
    plan
}

/// The pods that still use a claim, by name.
fn users(cluster: &Cluster, claim: &Key) -> Vec<String> {
    let running = cluster.pods_using(claim).filter(|(_, pod)| !pod::is_terminated(pod));
    running.map(|(key, _)| key.path()).collect()
}

/// The pod is there: wait for it, or draw the conclusion.
fn follow(plan: &mut Plan, key: &Key, object: &Object, pod_key: &Key, pod: &Pod) {
    if is_deleting(&pod.metadata) {
        return;
    }
    let failed = |plan: &mut Plan, why: &str| {
        plan.push(Write::DeletePod { pod: pod_key.clone() });
        reclaim::fail(plan, object, "VolumeFailedRecycle", &format!("Recycle failed: {why}"));
    };
    if annotation(&pod.metadata, SCRUBS) != Some(uid(object.metadata())) {
        failed(plan, "old recycler pod found, will retry later");
        return;
    }
    let node = pod::node_name(pod);
    if !node.is_empty() {
        let message = format!("Recycler pod: Successfully assigned {} to {node}", pod_key.path());
        plan.emit(Event::normal(key, "RecyclerPod", message));
    }
    match pod::phase(pod) {
        "Succeeded" => {
            plan.push(Write::DeletePod { pod: pod_key.clone() });
            plan.emit(Event::normal(key, "VolumeRecycled", "Volume recycled"));
            bind::unbind(plan, object);
        }
        "Failed" => {
            let message = pod.status.as_ref().and_then(|s| s.message.as_deref());
            let why = message.filter(|m| !m.is_empty()).unwrap_or("pod failed, pod.Status.Message unknown");
            failed(plan, &format!("failed to recycle volume: {why}"));
        }
        other => tracing::debug!(pod = %pod_key, phase = other, "scrubbing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn a_template_is_kept_but_for_its_first_volume_its_name_and_its_time() {
        let volume = json!({
            "metadata": {"name": "v", "uid": "u"},
            "spec": {"capacity": {"storage": "100Gi"}, "nfs": {"server": "s", "path": "/p"}},
        });
        let volume: Volume = from_value(volume).unwrap();
        let template = json!({
            "metadata": {"generateName": "x-", "labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "serviceAccountName": "scrubber", "containers": [{"name": "c", "image": "mine"}],
                "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
            },
        });
        let template: &'static Pod = Box::leak(Box::new(from_value(template).unwrap()));
        let scrubber = Scrubber { at_least: 60, per_gibibyte: 7, template: Some(template) };
        let pod = recycler(&volume, mounted(&volume).unwrap(), &scrubber);
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "recycler-for-v", "namespace": "default", "labels": {"a": "b"},
                "annotations": {"c": "d", SCRUBS: "u"},
            },
            "spec": {
                "serviceAccountName": "scrubber", "containers": [{"name": "c", "image": "mine"}],
                "activeDeadlineSeconds": 700,
                "volumes": [{"name": "data", "nfs": {"server": "s", "path": "/p"}}, {"name": "tmp", "emptyDir": {}}],
            },
        });
        assert_eq!(to_value(pod).unwrap(), expected);
        let least = Scrubber { at_least: 900, ..scrubber };
        let pod = recycler(&volume, mounted(&volume).unwrap(), &least);
        assert_eq!(pod.spec.unwrap().active_deadline_seconds, Some(900));
    }
}
