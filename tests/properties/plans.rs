//! A sync is a function, and what is sent is exactly the difference that a write makes.

use pvbind::cluster::{Cluster, Key, Kind, Object};
use pvbind::decide::patch::Request;
use pvbind::decide::write::ClaimIdentity;
use pvbind::decide::{self, Plan, Reads, Settings, Write, binder};
use pvbind::objects::{claim, translation, volume};
use serde_json::{Value, json};

use crate::world::worlds;
use crate::{check, render};

/// Every decision that can be made about the key, with every answer to a read.
fn plans(cluster: &Cluster, settings: &Settings, key: &Key) -> Vec<Plan> {
    if key.kind() == Kind::Pod {
        return vec![binder::schedule(cluster, settings, &binder::Pods::All, key)];
    }
    let plan = decide::sync(cluster, settings, key, &Reads::new());
    let Some(decide::Action::Read(read)) = plan.actions.last() else { return vec![plan] };
    let answers = [None, cluster.object(read).cloned()].into_iter();
    let mut plans: Vec<Plan> = answers
        .map(|answer| Reads::from([(read.clone(), answer)]))
        .map(|reads| decide::sync(cluster, settings, key, &reads))
        .collect();
    plans.push(plan);
    plans
}

#[test]
fn a_sync_is_a_function_and_its_writes_change_something() {
    check(400, &worlds(), |world| {
        let (cluster, again) = (world.cluster(), world.cluster());
        let strict = Settings { strict: true, volume_attributes_class: false, ..Settings::default() };
        for settings in [Settings::default(), strict] {
            for object in &world.objects {
                let key = object.key();
                let plans_made = plans(&cluster, &settings, &key);
                assert_eq!(plans_made, plans(&again, &settings, &key));
                for plan in plans_made {
                    follow(&cluster, &plan);
                }
            }
        }
    });
}

/// Makes the writes of a plan, one on what the other left.
fn follow(cluster: &Cluster, plan: &Plan) {
    let mut cluster = cluster.clone();
    for write in plan.writes() {
        if matches!(write, Write::DeleteVolume { .. } | Write::DeletePod { .. }) {
            continue;
        }
        let before = cluster.object(write.target()).expect("what is written exists").clone();
        let after = write.apply(&before).unwrap_or_else(|| panic!("{write:?} changes nothing"));
        check_request(write, &before);
        cluster.assume(after);
    }
}

/// What is sent, merged onto the object, is what the write makes of it.
fn check_request(write: &Write, before: &Object) {
    let after = write.apply(before);
    let mut merged = render::json(before);
    match write.request(before) {
        None => assert_eq!(after, None, "{write:?} changes {before:?} but is not sent"),
        Some(Request::Create { object }) => assert_eq!(Some(object), write.created()),
        Some(Request::Delete { uid, resource_version }) => {
            let meta = before.metadata();
            assert_eq!((&uid, &resource_version), (&meta.uid, &meta.resource_version));
        }
        Some(Request::Bind { node }) => {
            merged["spec"]["nodeName"] = json!(node);
            assert_eq!(merged, render::json(&after.expect("a change")));
        }
        Some(Request::Patch { status, body }) => {
            assert_eq!(body["metadata"]["resourceVersion"], json!(before.metadata().resource_version));
            let allowed = if status { ["metadata", "status"] } else { ["metadata", "spec"] };
            let parts: Vec<&String> = body.as_object().expect("a map").keys().collect();
            assert!(parts.iter().all(|part| allowed.contains(&part.as_str())), "{write:?} sends {parts:?}");
            assert_smallest(&merged, &body);
            json_patch::merge(&mut merged, &body);
            render::strip(&mut merged);
            assert_eq!(merged, render::json(&after.expect("a change")), "{write:?} sends {body}");
        }
    }
}

/// No part of the patch, the version aside, says what is so already.
fn assert_smallest(before: &Value, patch: &Value) {
    for (key, part) in patch.as_object().expect("a map") {
        match (before.get(key), part) {
            (Some(before @ Value::Object(_)), Value::Object(_)) => assert_smallest(before, part),
            (before, _) => {
                assert!(key == "resourceVersion" || before.unwrap_or(&Value::Null) != part, "{key}: {part}");
            }
        }
    }
}

/// Every write that there is, for the world's objects.
fn all_writes(objects: &[Object]) -> Vec<Write> {
    let mut writes = Vec::new();
    for object in objects {
        match object.kind() {
            Kind::Volume => volume_writes(&object.key(), objects, &mut writes),
            Kind::Claim => claim_writes(&object.key(), objects, &mut writes),
            Kind::Pod => {
                let pod = object.key();
                writes.push(Write::BindPod { pod: pod.clone(), node: "n0".to_owned() });
                writes.push(Write::DeletePod { pod: pod.clone() });
                writes.push(Write::SetPodUnschedulable { pod, message: "no node".to_owned() });
            }
            _ => {}
        }
    }
    writes
}

fn volume_writes(key: &Key, objects: &[Object], writes: &mut Vec<Write>) {
    let volume = || key.clone();
    for claim in objects.iter().filter_map(Object::as_claim) {
        writes.push(Write::ReserveVolume { volume: volume(), claim: ClaimIdentity::of(claim) });
    }
    writes.push(Write::UnbindVolume { volume: volume() });
    writes.push(Write::DeleteVolume { volume: volume() });
    writes.push(Write::DropFinalizer { volume: volume(), finalizer: "other/finalizer" });
    for phase in [volume::AVAILABLE, volume::BOUND, volume::RELEASED, volume::FAILED] {
        for message in ["", "why"] {
            writes.push(Write::SetVolumePhase { volume: volume(), phase, message: message.to_owned() });
        }
    }
    for migrated_to in [None, Some("pd.csi.storage.gke.io".to_owned())] {
        for finalizers in [vec![], vec!["one".to_owned(), "kubernetes.io/pv-controller".to_owned()]] {
            writes.push(Write::AnnealVolume {
                volume: volume(),
                migrated_to: migrated_to.clone(),
                finalizers,
            });
        }
    }
}

fn claim_writes(key: &Key, objects: &[Object], writes: &mut Vec<Write>) {
    let claim = || key.clone();
    for phase in [claim::PENDING, claim::BOUND, claim::LOST] {
        let volumes = objects.iter().filter_map(Object::as_volume).map(|volume| Some(volume.clone()));
        for volume in volumes.chain([None]) {
            for attributes_class in [false, true] {
                let volume = volume.clone();
                writes.push(Write::SetClaimStatus { claim: claim(), phase, volume, attributes_class });
            }
        }
    }
    for text in ["p0", "p9"] {
        let text = text.to_owned();
        writes.push(Write::BindClaim { claim: claim(), volume: text.clone() });
        writes.push(Write::SetClaimClass { claim: claim(), class: text.clone() });
        writes.push(Write::SetProvisioner {
            claim: claim(),
            provisioner: text.clone(),
            drivers: translation::DRIVERS,
        });
        writes.push(Write::SelectNode { claim: claim(), node: Some(text.clone()) });
        writes.push(Write::AnnealClaim { claim: claim(), migrated_to: Some(text) });
    }
    let provisioner = "kubernetes.io/aws-ebs".to_owned();
    writes.push(Write::SetProvisioner { claim: claim(), provisioner, drivers: translation::DRIVERS });
    writes.push(Write::SelectNode { claim: claim(), node: None });
    writes.push(Write::AnnealClaim { claim: claim(), migrated_to: None });
}

#[test]
fn what_is_sent_is_exactly_the_difference() {
    check(150, &worlds(), |world| {
        for write in all_writes(&world.objects) {
            for object in world.objects.iter().filter(|object| object.key() == *write.target()) {
                check_request(&write, object);
                if let Some(after) = write.apply(object) {
                    assert_eq!(write.apply(&after), None, "{write:?} made twice changes something");
                }
            }
        }
    });
}
