//! The mock external provisioner: makes volumes for claims and takes released ones away.
//!
//! It serves every class whose provisioner does not start with `kubernetes.io/`, once the volume controller has asked
//! for it by annotation, and answers to sig-storage-lib-external-provisioner with csi-provisioner. It never binds a
//! claim and never touches a volume whose policy is not Delete. Differences from a real driver are those of the
//! provisioner the reference worlds were recorded with: a volume is there at once, and in a class that waits for its
//! consumer the topology is the chosen node's, key by key as its `CSINode` lists them.

use super::call::{Call, Kind, Name, Remark, Target};
use super::room::{self, Full};
use super::world::{World, annotation, finalizers_without, has_finalizer};
use crate::objects::quantity::Amount;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

/// The node that the scheduler chose for a claim.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The driver whose provisioner is asked for a volume.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";
const CLASS_BETA: &str = "volume.beta.kubernetes.io/storage-class";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// What keeps a provisioned volume until the driver has deleted it.
pub const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// The driver that a claim asks, empty when it asks none or one that is built in.
#[must_use]
pub fn driver_of(claim: &PersistentVolumeClaim) -> &str {
    let driver = match annotation(&claim.metadata, PROVISIONER) {
        "" => annotation(&claim.metadata, PROVISIONER_BETA),
        driver => driver,
    };
    if driver.starts_with("kubernetes.io/") { "" } else { driver }
}

/// The class that a claim names, in the old way or the new.
#[must_use]
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    match annotation(&claim.metadata, CLASS_BETA) {
        "" => claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()).unwrap_or(""),
        class => class,
    }
}

/// A claim that wants a volume, with everything that is needed to make it.
struct Request<'a> {
    claim: &'a PersistentVolumeClaim,
    target: Target,
    driver: &'a str,
    class: &'a StorageClass,
    node: Option<&'a Node>,
}

/// What to do about a claim that waits for a volume.
#[must_use]
pub fn plan_claim(world: &World, name: &Name) -> Vec<Call> {
    let Some(claim) = world.claims.get(name) else { return Vec::new() };
    let Some(spec) = &claim.spec else { return Vec::new() };
    let driver = driver_of(claim);
    let bound = spec.volume_name.as_ref().is_some_and(|v| !v.is_empty());
    let target = Target::of(Kind::Claim, &claim.metadata);
    let made = world.volumes.contains_key(&Name::new("", format!("pvc-{}", target.uid)));
    if driver.is_empty() || bound || made || claim.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let Some(class) = world.classes.get(&Name::new("", class_of(claim))).filter(|c| c.provisioner == driver)
    else {
        return Vec::new();
    };
    if spec.selector.is_some() {
        return vec![failed(target, driver, "claim Selector is not supported")];
    }
    let mut request = Request { claim, target, driver, class, node: None };
    if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") {
        let selected = annotation(&claim.metadata, SELECTED_NODE);
        if selected.is_empty() {
            return Vec::new();
        }
        request.node = world.node(selected).map(|n| &**n);
        if request.node.is_none() {
            let why = format!("failed to get target node: node \"{selected}\" not found");
            return reschedule(request.target, driver, &why);
        }
    }
    provision(world, &request)
}

fn provision(world: &World, request: &Request) -> Vec<Call> {
    let (target, driver) = (&request.target, request.driver);
    let size =
        request.claim.spec.as_ref().and_then(|s| s.resources.as_ref()?.requests.as_ref()?.get("storage"));
    let Some((size, number)) = size.and_then(|q| Some((q.0.as_str(), Amount::parse(&q.0)?.value()))) else {
        return vec![failed(target.clone(), driver, "the claim requests no storage")];
    };
    let debit = match room::debit(world, driver, request.class, request.node, number) {
        Ok(debit) => debit,
        Err(Full { capacity }) => {
            let why = format!("not enough free storage: CSIStorageCapacity {capacity} has less than {size}");
            return reschedule(target.clone(), driver, &why);
        }
    };
    let key = format!("{}/{}", target.name.namespace, target.name.name);
    let began = format!("External provisioner is provisioning volume for claim \"{key}\"");
    let done = format!("Successfully provisioned volume pvc-{}", target.uid);
    let mut calls = vec![Call::Event(Remark::normal(target.clone(), driver, "Provisioning", began))];
    calls.extend(debit);
    calls.push(Call::create(volume(request, size, affinity(world, request))));
    calls.push(Call::Event(Remark::normal(target.clone(), driver, "ProvisioningSucceeded", done)));
    calls
}

fn failed(claim: Target, driver: &str, why: &str) -> Call {
    let message = format!("failed to provision volume with StorageClass: {why}");
    Call::Event(Remark::warning(claim, driver, "ProvisioningFailed", message))
}

/// Gives the claim back to the scheduler, which chooses another node.
fn reschedule(claim: Target, driver: &str, why: &str) -> Vec<Call> {
    let patch = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
    vec![Call::merge(claim.clone(), patch), failed(claim, driver, why)]
}

/// The node selector terms that say where the volume can be reached, if anything limits it.
fn affinity(world: &World, request: &Request) -> Option<Value> {
    let Some(node) = request.node else {
        let topologies = request.class.allowed_topologies.as_ref().filter(|t| !t.is_empty())?;
        let terms = topologies.iter().map(|t| {
            let expressions = t.match_label_expressions.iter().flatten();
            let expressions =
                expressions.map(|e| json!({ "key": e.key, "operator": "In", "values": e.values }));
            json!({ "matchExpressions": expressions.collect::<Vec<_>>() })
        });
        return Some(terms.collect());
    };
    let name = node.metadata.name.clone().unwrap_or_default();
    let drivers = world.csi_nodes.get(&Name::new("", name)).map(|n| &n.spec.drivers);
    let driver = drivers.into_iter().flatten().find(|d| d.name == request.driver);
    let keys = driver.into_iter().flat_map(|d| d.topology_keys.iter().flatten());
    let label =
        |key: &String| node.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned().unwrap_or_default();
    let terms: Vec<_> = keys.map(|k| json!({ "key": k, "operator": "In", "values": [label(k)] })).collect();
    (!terms.is_empty()).then(|| json!([{ "matchExpressions": terms }]))
}

fn volume(request: &Request, size: &str, affinity: Option<Value>) -> Value {
    let (claim, target, class) = (request.claim, &request.target, request.class);
    let spec = claim.spec.as_ref();
    let name = format!("pvc-{}", target.uid);
    let policy = class.reclaim_policy.as_deref().unwrap_or("Delete");
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name, "annotations": { PROVISIONED_BY: request.driver } },
        "spec": {
            "capacity": { "storage": size },
            "accessModes": spec.and_then(|s| s.access_modes.clone()).unwrap_or_default(),
            "volumeMode": spec.and_then(|s| s.volume_mode.as_deref()).unwrap_or("Filesystem"),
            "storageClassName": class.metadata.name,
            "persistentVolumeReclaimPolicy": policy,
            "csi": { "driver": request.driver, "volumeHandle": name },
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": target.name.namespace,
                "name": target.name.name, "uid": target.uid, "resourceVersion": target.resource_version,
            },
        },
    });
    if policy == "Delete" {
        volume["metadata"]["finalizers"] = json!([FINALIZER]);
    }
    if let Some(attributes) =
        spec.and_then(|s| s.volume_attributes_class_name.as_ref()).filter(|a| !a.is_empty())
    {
        volume["spec"]["volumeAttributesClassName"] = json!(attributes);
    }
    if let Some(options) = class.mount_options.as_ref().filter(|o| !o.is_empty()) {
        volume["spec"]["mountOptions"] = json!(options);
    }
    if let Some(terms) = affinity {
        volume["spec"]["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
    }
    volume
}

/// What to do about a released volume: delete it, and once it is being deleted let it go.
#[must_use]
pub fn plan_volume(world: &World, name: &Name) -> Vec<Call> {
    let Some(volume) = world.volumes.get(name) else { return Vec::new() };
    let released = volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Released");
    let policy = volume.spec.as_ref().and_then(|s| s.persistent_volume_reclaim_policy.as_deref());
    let by = match (annotation(&volume.metadata, PROVISIONED_BY), annotation(&volume.metadata, MIGRATED_TO)) {
        ("", _) => "",
        (by, "") => by,
        (_, migrated) => migrated,
    };
    if !released || policy != Some("Delete") || by.is_empty() || by.starts_with("kubernetes.io/") {
        return Vec::new();
    }
    let target = Target::of(Kind::Volume, &volume.metadata);
    if volume.metadata.deletion_timestamp.is_none() {
        return vec![Call::delete(target)];
    }
    if !has_finalizer(&volume.metadata, FINALIZER) {
        return Vec::new();
    }
    let finalizers = finalizers_without(&volume.metadata, FINALIZER);
    vec![Call::merge(target, json!({ "metadata": { "finalizers": finalizers } }))]
}
