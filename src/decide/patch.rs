//! How a write is sent: as the smallest merge patch that makes the difference, on the version that was decided on.
//!
//! Only fields that a [`Write`] may touch are compared, so fields that this program does not know survive, and a
//! late or second instance can only get a conflict. Answers to no upstream function: upstream sends whole objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::cluster::Object;
use crate::decide::Write;
use crate::objects::{Claim, Pod, Volume, pod};

/// One request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A JSON merge patch of the object, or of its status.
    Patch {
        /// Whether it goes to the status subresource.
        status: bool,
        /// The patch, with `metadata.resourceVersion` as its precondition.
        body: Value,
    },
    /// `POST …/binding`.
    Bind {
        /// The node.
        node: String,
    },
    /// `POST` of the object to its collection.
    Create {
        /// The object.
        object: Object,
    },
    /// `DELETE`, if uid and version are still these.
    Delete {
        /// The uid.
        uid: Option<String>,
        /// The version.
        resource_version: Option<String>,
    },
}

impl Write {
    /// The request that makes this write on `before`; `None` when it would change nothing. A write that creates
    /// needs no object before it, see [`Write::created`].
    #[must_use]
    pub fn request(&self, before: &Object) -> Option<Request> {
        match self {
            Write::CreateVolume { .. } | Write::CreatePod { .. } => {
                return self.created().map(|object| Request::Create { object });
            }
            Write::DeleteVolume { .. } | Write::DeletePod { .. } => {
                let meta = before.metadata();
                let (uid, resource_version) = (meta.uid.clone(), meta.resource_version.clone());
                return Some(Request::Delete { uid, resource_version });
            }
            Write::BindPod { node, .. } => {
                self.apply(before)?;
                return Some(Request::Bind { node: node.clone() });
            }
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
            | Write::SetPodUnschedulable { .. } => {}
        }
        let after = self.apply(before)?;
        Some(Request::Patch { status: self.is_status(), body: difference(before, &after) })
    }
}

/// The merge patch that turns `before` into `after` in every field that a write may touch.
#[must_use]
pub fn difference(before: &Object, after: &Object) -> Value {
    let mut patch = Map::new();
    let metadata = metadata_difference(before.metadata(), after.metadata());
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    match (before, after) {
        (Object::Volume(before), Object::Volume(after)) => volume_difference(before, after, &mut patch),
        (Object::Claim(before), Object::Claim(after)) => claim_difference(before, after, &mut patch),
        (Object::Pod(before), Object::Pod(after)) => pod_difference(before, after, &mut patch),
        (
            Object::Volume(_)
            | Object::Claim(_)
            | Object::Pod(_)
            | Object::Class(_)
            | Object::Node(_)
            | Object::CsiNode(_)
            | Object::CsiDriver(_)
            | Object::Capacity(_),
            _,
        ) => {}
    }
    Value::Object(patch)
}

fn metadata_difference(before: &ObjectMeta, after: &ObjectMeta) -> Map<String, Value> {
    let mut patch = Map::new();
    if let Some(version) = &before.resource_version {
        patch.insert("resourceVersion".to_owned(), json!(version));
    }
    let none = BTreeMap::new();
    let (old, new) =
        (before.annotations.as_ref().unwrap_or(&none), after.annotations.as_ref().unwrap_or(&none));
    let changed = new.iter().filter(|(k, v)| old.get(*k) != Some(v)).map(|(k, v)| (k.clone(), json!(v)));
    let removed = old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), Value::Null));
    let annotations: Map<String, Value> = changed.chain(removed).collect();
    if !annotations.is_empty() {
        patch.insert("annotations".to_owned(), Value::Object(annotations));
    }
    put(&mut patch, "finalizers", before.finalizers.as_ref(), after.finalizers.as_ref());
    patch
}

fn volume_difference(before: &Volume, after: &Volume, patch: &mut Map<String, Value>) {
    let (old, new) = (before.spec.as_ref(), after.spec.as_ref());
    let mut spec = Map::new();
    let old = old.and_then(|s| s.claim_ref.as_ref());
    put(&mut spec, "claimRef", old, new.and_then(|s| s.claim_ref.as_ref()));
    insert(patch, "spec", spec);
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let mut status = Map::new();
    put(&mut status, "phase", old.and_then(|s| s.phase.as_ref()), new.and_then(|s| s.phase.as_ref()));
    put(&mut status, "message", old.and_then(|s| s.message.as_ref()), new.and_then(|s| s.message.as_ref()));
    insert(patch, "status", status);
}

fn claim_difference(before: &Claim, after: &Claim, patch: &mut Map<String, Value>) {
    let (old, new) = (before.spec.as_ref(), after.spec.as_ref());
    let mut spec = Map::new();
    let name = |s: Option<&'_ _>| volume_name(s).cloned();
    put(&mut spec, "volumeName", name(old).as_ref(), name(new).as_ref());
    let old = old.and_then(|s| s.storage_class_name.as_ref());
    put(&mut spec, "storageClassName", old, new.and_then(|s| s.storage_class_name.as_ref()));
    insert(patch, "spec", spec);
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let mut status = Map::new();
    put(&mut status, "phase", old.and_then(|s| s.phase.as_ref()), new.and_then(|s| s.phase.as_ref()));
    let modes = old.and_then(|s| s.access_modes.as_ref());
    put(&mut status, "accessModes", modes, new.and_then(|s| s.access_modes.as_ref()));
    let capacity = old.and_then(|s| s.capacity.as_ref());
    put(&mut status, "capacity", capacity, new.and_then(|s| s.capacity.as_ref()));
    let class = old.and_then(|s| s.current_volume_attributes_class_name.as_ref());
    let new_class = new.and_then(|s| s.current_volume_attributes_class_name.as_ref());
    put(&mut status, "currentVolumeAttributesClassName", class, new_class);
    insert(patch, "status", status);
}

fn volume_name(spec: Option<&k8s_openapi::api::core::v1::PersistentVolumeClaimSpec>) -> Option<&String> {
    spec.and_then(|s| s.volume_name.as_ref())
}

fn pod_difference(before: &Pod, after: &Pod, patch: &mut Map<String, Value>) {
    let mut status = Map::new();
    let (old, new) = (pod::conditions(before), pod::conditions(after));
    put(&mut status, "conditions", old, new);
    insert(patch, "status", status);
}

fn insert(patch: &mut Map<String, Value>, field: &str, part: Map<String, Value>) {
    if !part.is_empty() {
        patch.insert(field.to_owned(), Value::Object(part));
    }
}

/// Puts the difference of one field into a patch. Maps are compared key by key, as a merge patch needs; all else
/// is replaced whole.
fn put<T: Serialize + PartialEq>(
    patch: &mut Map<String, Value>,
    field: &str,
    old: Option<&T>,
    new: Option<&T>,
) {
    if old == new {
        return;
    }
    // These types always serialise; an unrepresentable one would be sent as null, and refused by the server.
    let value =
        |part: Option<&T>| part.and_then(|part| serde_json::to_value(part).ok()).unwrap_or(Value::Null);
    let mut new = value(new);
    if let (Value::Object(old), Value::Object(new)) = (value(old), &mut new) {
        for key in old.keys() {
            if !new.contains_key(key) {
                new.insert(key.clone(), Value::Null);
            }
        }
        new.retain(|key, value| old.get(key) != Some(value));
    }
    patch.insert(field.to_owned(), new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Key;
    use crate::decide::write::ClaimIdentity;

    fn volume(json: Value) -> Object {
        Object::from(serde_json::from_value::<Volume>(json).unwrap())
    }

    #[test]
    fn a_reservation_is_a_patch_of_the_reference_and_the_annotation_alone() {
        let before = volume(json!({
            "metadata": {"name": "p1", "resourceVersion": "7", "annotations": {"mine": "x"}},
            "spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/p"}},
        }));
        let claim = ClaimIdentity {
            key: Key::claim("default", "c1"),
            uid: "u1".to_owned(),
            resource_version: Some("3".to_owned()),
        };
        let write = Write::ReserveVolume { volume: Key::volume("p1"), claim };
        let body = json!({
            "metadata": {"resourceVersion": "7", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1",
                "uid": "u1", "resourceVersion": "3",
            }},
        });
        assert_eq!(write.request(&before), Some(Request::Patch { status: false, body }));
        let after = write.apply(&before).unwrap();
        assert_eq!(write.request(&after), None, "the same reservation again changes nothing");
    }

    #[test]
    fn what_goes_away_is_set_to_null() {
        let before = volume(json!({
            "metadata": {"name": "p1", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {"namespace": "default", "name": "c1", "uid": "u1"}},
        }));
        let write = Write::UnbindVolume { volume: Key::volume("p1") };
        let body = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}},
            "spec": {"claimRef": null},
        });
        assert_eq!(write.request(&before), Some(Request::Patch { status: false, body }));
    }

    #[test]
    fn of_a_reservation_by_the_user_only_the_uid_goes() {
        let before = volume(json!({
            "metadata": {"name": "p1"},
            "spec": {"claimRef": {"namespace": "default", "name": "c1", "uid": "u1"}},
        }));
        let write = Write::UnbindVolume { volume: Key::volume("p1") };
        let body = json!({"metadata": {}, "spec": {"claimRef": {"uid": null}}});
        assert_eq!(write.request(&before), Some(Request::Patch { status: false, body }));
    }
}
