//! The API writes, each as an intent.
//!
//! [`Write::apply`] is the only place that edits objects: the executor, simulations and tests all use it, and the
//! patch that is sent is the difference that it makes (see [`super::patch`]). A write that would change nothing
//! is never sent. Answers to upstream's `bindVolumeToClaim`, `updateVolumePhase`, `bindClaimToVolume`,
//! `updateClaimStatus`, `unbindVolume`, `setClaimProvisioner` and the scheduler's `bindAPIUpdate`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cluster::{Key, Object};
use crate::objects::{
    Claim, Pod, Volume, annotation, annotations, claim, name, namespace, pod, quantity::Amount, translation,
    translation::Drivers, uid, volume,
};

/// Who a claim is, for the reference on its volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimIdentity {
    /// The claim's namespace and name.
    pub key: Key,
    /// The claim's uid.
    pub uid: String,
    /// The version of the claim that the decision was made on.
    pub resource_version: Option<String>,
}

impl ClaimIdentity {
    /// Who this claim is.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        ClaimIdentity {
            key: Key::claim(namespace(&claim.metadata), name(&claim.metadata)),
            uid: uid(&claim.metadata).to_owned(),
            resource_version: claim.metadata.resource_version.clone(),
        }
    }
}

/// One API write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Reserve the volume for the claim: set `spec.claimRef`.
    ReserveVolume {
        /// The volume.
        volume: Key,
        /// The claim.
        claim: ClaimIdentity,
    },
    /// Roll a reservation back; of one that the user made only the uid goes.
    UnbindVolume {
        /// The volume.
        volume: Key,
    },
    /// Set `status.phase` and `status.message` of the volume.
    SetVolumePhase {
        /// The volume.
        volume: Key,
        /// The phase.
        phase: &'static str,
        /// What users should know about it, `""` for nothing.
        message: String,
    },
    /// Set the volume's `migrated-to` annotation and finalizers.
    AnnealVolume {
        /// The volume.
        volume: Key,
        /// The CSI driver that serves it now; `None` takes the annotation away.
        migrated_to: Option<String>,
        /// The finalizers as they should be.
        finalizers: Vec<String>,
    },
    /// Set the claim's `migrated-to` annotation; `None` takes it away.
    AnnealClaim {
        /// The claim.
        claim: Key,
        /// The CSI driver that serves it now.
        migrated_to: Option<String>,
    },
    /// Bind the claim to the volume: set `spec.volumeName` and the annotations.
    BindClaim {
        /// The claim.
        claim: Key,
        /// The volume's name.
        volume: String,
    },
    /// Set the claim's phase, and what it has of its volume.
    SetClaimStatus {
        /// The claim.
        claim: Key,
        /// The phase.
        phase: &'static str,
        /// The volume whose capacity and access modes the claim now has; `None` clears them.
        volume: Option<Arc<Volume>>,
        /// Whether `status.currentVolumeAttributesClassName` follows the volume.
        attributes_class: bool,
    },
    /// Give the claim a class.
    SetClaimClass {
        /// The claim.
        claim: Key,
        /// The class.
        class: String,
    },
    /// Ask a provisioner for a volume for the claim.
    SetProvisioner {
        /// The claim.
        claim: Key,
        /// The provisioner.
        provisioner: String,
        /// Which in-tree plugins are served by CSI drivers.
        drivers: Drivers,
    },
    /// Tell provisioners on which node the claim's pod will run; `None` asks the scheduler to choose again.
    SelectNode {
        /// The claim.
        claim: Key,
        /// The node.
        node: Option<String>,
    },
    /// Place the pod on the node.
    BindPod {
        /// The pod.
        pod: Key,
        /// The node.
        node: String,
    },
    /// Say in the pod's `PodScheduled` condition why it is not placed.
    SetPodUnschedulable {
        /// The pod.
        pod: Key,
        /// Why, in a sentence.
        message: String,
    },
    /// Delete the volume object.
    DeleteVolume {
        /// The volume.
        volume: Key,
    },
    /// Take a finalizer off the volume.
    DropFinalizer {
        /// The volume.
        volume: Key,
        /// The finalizer.
        finalizer: &'static str,
    },
    /// Create a volume whose storage has just been made.
    CreateVolume {
        /// The volume's key.
        volume: Key,
        /// The volume.
        object: Arc<Volume>,
    },
    /// Create the pod that scrubs a volume.
    CreatePod {
        /// The pod's key.
        pod: Key,
        /// The pod.
        object: Arc<Pod>,
    },
    /// Delete the pod that scrubbed a volume.
    DeletePod {
        /// The pod.
        pod: Key,
    },
}

impl Write {
    /// The object that is written.
    #[must_use]
    pub fn target(&self) -> &Key {
        match self {
            Write::ReserveVolume { volume, .. }
            | Write::UnbindVolume { volume }
            | Write::SetVolumePhase { volume, .. }
            | Write::AnnealVolume { volume, .. }
            | Write::DropFinalizer { volume, .. }
            | Write::CreateVolume { volume, .. }
            | Write::DeleteVolume { volume } => volume,
            Write::AnnealClaim { claim, .. }
            | Write::BindClaim { claim, .. }
            | Write::SetClaimStatus { claim, .. }
            | Write::SetClaimClass { claim, .. }
            | Write::SetProvisioner { claim, .. }
            | Write::SelectNode { claim, .. } => claim,
            Write::BindPod { pod, .. }
            | Write::SetPodUnschedulable { pod, .. }
            | Write::CreatePod { pod, .. }
            | Write::DeletePod { pod } => pod,
        }
    }

    /// Whether the write goes to the status subresource.
    #[must_use]
    pub fn is_status(&self) -> bool {
        match self {
            Write::SetVolumePhase { .. }
            | Write::SetClaimStatus { .. }
            | Write::SetPodUnschedulable { .. } => true,
            Write::ReserveVolume { .. }
            | Write::UnbindVolume { .. }
            | Write::AnnealVolume { .. }
            | Write::AnnealClaim { .. }
            | Write::BindClaim { .. }
            | Write::SetClaimClass { .. }
            | Write::SetProvisioner { .. }
            | Write::SelectNode { .. }
            | Write::BindPod { .. }
            | Write::DropFinalizer { .. }
            | Write::CreateVolume { .. }
            | Write::CreatePod { .. }
            | Write::DeletePod { .. }
            | Write::DeleteVolume { .. } => false,
        }
    }

    /// The object that the write creates, if it creates one.
    #[must_use]
    pub fn created(&self) -> Option<Object> {
        match self {
            Write::CreateVolume { object, .. } => Some(Object::Volume(object.clone())),
            Write::CreatePod { object, .. } => Some(Object::Pod(object.clone())),
            Write::ReserveVolume { .. }
            | Write::UnbindVolume { .. }
            | Write::SetVolumePhase { .. }
            | Write::AnnealVolume { .. }
            | Write::AnnealClaim { .. }
            | Write::BindClaim { .. }
            | Write::SetClaimStatus { .. }
            | Write::SetClaimClass { .. }
            | Write::SetProvisioner { .. }
            | Write::SelectNode { .. }
            | Write::BindPod { .. }
            | Write::SetPodUnschedulable { .. }
            | Write::DropFinalizer { .. }
            | Write::DeletePod { .. }
            | Write::DeleteVolume { .. } => None,
        }
    }

    /// The object after the write; `None` when the write would change nothing or is not for this object.
    #[must_use]
    pub fn apply(&self, before: &Object) -> Option<Object> {
        match before {
            Object::Volume(before) => self.changed(before, Write::edit_volume),
            Object::Claim(before) => self.changed(before, Write::edit_claim),
            Object::Pod(before) => self.changed(before, Write::edit_pod),
            Object::Class(_)
            | Object::Node(_)
            | Object::CsiNode(_)
            | Object::CsiDriver(_)
            | Object::Capacity(_) => None,
        }
    }

    fn changed<T: Clone + PartialEq>(
        &self,
        before: &Arc<T>,
        edit: impl FnOnce(&Write, &mut T),
    ) -> Option<Object>
    where
        Object: From<T>,
    {
        let mut after = T::clone(before);
        edit(self, &mut after);
        (after != **before).then(|| Object::from(after))
    }

    fn edit_volume(&self, object: &mut Volume) {
        match self {
            Write::ReserveVolume { claim, .. } => reserve(object, claim),
            Write::UnbindVolume { .. } => unbind(object),
            Write::SetVolumePhase { phase, message, .. } => {
                if volume::phase(object) != *phase {
                    let status = object.status.get_or_insert_with(PersistentVolumeStatus::default);
                    status.phase = Some((*phase).to_owned());
                    status.message = (!message.is_empty()).then(|| message.clone());
                }
            }
            Write::DropFinalizer { finalizer, .. } => {
                if let Some(finalizers) = &mut object.metadata.finalizers {
                    finalizers.retain(|f| f != finalizer);
                    if finalizers.is_empty() {
                        object.metadata.finalizers = None;
                    }
                }
            }
            Write::AnnealVolume { migrated_to, finalizers, .. } => {
                set_annotation(&mut object.metadata, annotations::MIGRATED_TO, migrated_to.as_deref());
                if object.metadata.finalizers.as_deref().unwrap_or_default() != finalizers.as_slice() {
                    object.metadata.finalizers = (!finalizers.is_empty()).then(|| finalizers.clone());
                }
            }
            Write::AnnealClaim { .. }
            | Write::BindClaim { .. }
            | Write::SetClaimStatus { .. }
            | Write::SetClaimClass { .. }
            | Write::SetProvisioner { .. }
            | Write::SelectNode { .. }
            | Write::BindPod { .. }
            | Write::SetPodUnschedulable { .. }
            | Write::CreateVolume { .. }
            | Write::CreatePod { .. }
            | Write::DeletePod { .. }
            | Write::DeleteVolume { .. } => {}
        }
    }

    fn edit_claim(&self, object: &mut Claim) {
        match self {
            Write::AnnealClaim { migrated_to, .. } => {
                set_annotation(&mut object.metadata, annotations::MIGRATED_TO, migrated_to.as_deref());
            }
            Write::BindClaim { volume, .. } => bind(object, volume),
            Write::SetClaimStatus { phase, volume, attributes_class, .. } => {
                set_status(object, phase, volume.as_deref(), *attributes_class);
            }
            Write::SetClaimClass { class, .. } => {
                object.spec.get_or_insert_default().storage_class_name = Some(class.clone());
            }
            Write::SetProvisioner { provisioner, drivers, .. } => {
                set_provisioner(object, provisioner, drivers);
            }
            Write::SelectNode { node, .. } => {
                set_annotation(&mut object.metadata, annotations::SELECTED_NODE, node.as_deref());
            }
            Write::ReserveVolume { .. }
            | Write::UnbindVolume { .. }
            | Write::SetVolumePhase { .. }
            | Write::AnnealVolume { .. }
            | Write::BindPod { .. }
            | Write::SetPodUnschedulable { .. }
            | Write::DropFinalizer { .. }
            | Write::CreateVolume { .. }
            | Write::CreatePod { .. }
            | Write::DeletePod { .. }
            | Write::DeleteVolume { .. } => {}
        }
    }

    fn edit_pod(&self, object: &mut Pod) {
        match self {
            Write::BindPod { node, .. } => {
                if pod::node_name(object).is_empty() {
                    object.spec.get_or_insert_default().node_name = Some(node.clone());
                }
            }
            Write::SetPodUnschedulable { message, .. } => pod::set_unschedulable(object, message),
            Write::ReserveVolume { .. }
            | Write::UnbindVolume { .. }
            | Write::SetVolumePhase { .. }
            | Write::AnnealVolume { .. }
            | Write::AnnealClaim { .. }
            | Write::BindClaim { .. }
            | Write::SetClaimStatus { .. }
            | Write::SetClaimClass { .. }
            | Write::SetProvisioner { .. }
            | Write::SelectNode { .. }
            | Write::DropFinalizer { .. }
            | Write::CreateVolume { .. }
            | Write::CreatePod { .. }
            | Write::DeletePod { .. }
            | Write::DeleteVolume { .. } => {}
        }
    }
}

/// Sets an annotation or, with `None`, takes it away; an empty map becomes none, as users see it.
fn set_annotation(meta: &mut ObjectMeta, key: &str, value: Option<&str>) {
    match value {
        Some(value) => {
            meta.annotations.get_or_insert_with(BTreeMap::new).insert(key.to_owned(), value.to_owned());
        }
        None => {
            if let Some(map) = &mut meta.annotations
                && map.remove(key).is_some()
                && map.is_empty()
            {
                meta.annotations = None;
            }
        }
    }
}

/// The reference to a claim, for the volume that is for it.
#[must_use]
pub fn reference(claim: &ClaimIdentity) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: Some(claim.key.namespace().to_owned()),
        name: Some(claim.key.name().to_owned()),
        uid: Some(claim.uid.clone()),
        resource_version: claim.resource_version.clone(),
        field_path: None,
    }
}

fn reserve(object: &mut Volume, claim: &ClaimIdentity) {
    let wanted = (claim.key.namespace(), claim.key.name());
    let present = volume::claim_ref(object);
    let by_name = present.is_some_and(|r| volume::referred(r) == wanted);
    let referred_uid = present.map_or("", volume::referred_uid).to_owned();
    if !by_name || referred_uid != claim.uid {
        object.spec.get_or_insert_default().claim_ref = Some(reference(claim));
    }
    // A volume that already named the claim was reserved by the user.
    let by_user = by_name && (referred_uid.is_empty() || referred_uid == claim.uid);
    if !by_user && !volume::is_bound_by_controller(object) {
        set_annotation(&mut object.metadata, annotations::BOUND_BY_CONTROLLER, Some("yes"));
    }
}

fn unbind(object: &mut Volume) {
    let by_controller = volume::is_bound_by_controller(object);
    let Some(spec) = &mut object.spec else { return };
    if by_controller {
        spec.claim_ref = None;
        set_annotation(&mut object.metadata, annotations::BOUND_BY_CONTROLLER, None);
    } else if let Some(reference) = &mut spec.claim_ref {
        reference.uid = None;
    }
}

fn bind(object: &mut Claim, volume: &str) {
    if claim::volume_name(object) != volume {
        object.spec.get_or_insert_default().volume_name = Some(volume.to_owned());
        if annotation(&object.metadata, annotations::BOUND_BY_CONTROLLER).is_none() {
            set_annotation(&mut object.metadata, annotations::BOUND_BY_CONTROLLER, Some("yes"));
        }
    }
    if !claim::is_bind_completed(object) {
        set_annotation(&mut object.metadata, annotations::BIND_COMPLETED, Some("yes"));
    }
}

fn set_provisioner(object: &mut Claim, provisioner: &str, drivers: Drivers) {
    if annotation(&object.metadata, annotations::STORAGE_PROVISIONER) == Some(provisioner) {
        return;
    }
    for key in [annotations::BETA_STORAGE_PROVISIONER, annotations::STORAGE_PROVISIONER] {
        set_annotation(&mut object.metadata, key, Some(provisioner));
    }
    let migrated_to = translation::annealed_claim(drivers, &object.metadata);
    set_annotation(&mut object.metadata, annotations::MIGRATED_TO, migrated_to.as_deref());
}

fn set_status(object: &mut Claim, phase: &str, volume: Option<&Volume>, attributes_class: bool) {
    let phase_before = claim::phase(object).to_owned();
    let status = object.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    let Some(volume) = volume else {
        status.access_modes = None;
        status.capacity = None;
        status.current_volume_attributes_class_name = None;
        return;
    };
    let spec = volume.spec.as_ref();
    status.access_modes = spec.and_then(|s| s.access_modes.clone());
    if phase_before == phase {
        // A capacity that differs later on is meant: the file system may lag behind the device.
        return;
    }
    if let Some(before_resize) = annotation(&volume.metadata, annotations::PRE_RESIZE_CAPACITY) {
        let quantity = match Amount::parse(before_resize) {
            Some(_) => before_resize,
            None => volume::capacity_text(volume),
        };
        let capacity = status.capacity.get_or_insert_with(BTreeMap::new);
        capacity.insert("storage".to_owned(), Quantity(quantity.to_owned()));
    } else if Amount::of(status.capacity.as_ref(), "storage") != Some(volume::capacity(volume)) {
        status.capacity = spec.and_then(|s| s.capacity.clone()).map(BTreeMap::from);
    }
    if attributes_class && phase_before == claim::PENDING && phase == claim::BOUND {
        status.current_volume_attributes_class_name =
            spec.and_then(|s| s.volume_attributes_class_name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    /// The claim says which class of attributes it has once: when it becomes bound, and where such classes are known.
    #[rstest::rstest]
    #[case(claim::PENDING, claim::BOUND, true, Some("gold"))]
    #[case(claim::PENDING, claim::BOUND, false, None)]
    #[case(claim::LOST, claim::BOUND, true, None)]
    #[case(claim::PENDING, claim::LOST, true, None)]
    fn the_class_of_attributes_is_taken_over_when_the_claim_becomes_bound(
        #[case] before: &str,
        #[case] phase: &'static str,
        #[case] known: bool,
        #[case] taken_over: Option<&str>,
    ) {
        let claim = json!({"metadata": {"namespace": "ns", "name": "c"}, "status": {"phase": before}});
        let mut claim: Claim = from_value(claim).unwrap();
        let volume = json!({"metadata": {"name": "v"}, "spec": {"volumeAttributesClassName": "gold"}});
        let volume: Volume = from_value(volume).unwrap();
        set_status(&mut claim, phase, Some(&volume), known);
        let status = claim.status.unwrap();
        assert_eq!(status.current_volume_attributes_class_name.as_deref(), taken_over);
    }
}
