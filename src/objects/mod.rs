//! What Kubernetes objects mean: questions on the API types, without state.
//!
//! Everything here is a pure function of one object or of a pair. Nothing here decides what to do; that is
//! [`crate::decide`]. The names are the field's: a *claim* is a `PersistentVolumeClaim`, a *volume* a
//! `PersistentVolume`, a *class* a `StorageClass`.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod access;
pub mod annotations;
pub mod attachment;
pub mod capacity;
pub mod claim;
pub mod class;
pub mod difference;
pub mod kept;
pub mod plugin;
pub mod pod;
pub mod quantity;
pub mod requests;
pub mod taint;
pub mod topology;
pub mod translation;
pub mod volume;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use kept::Volume;

/// A `PersistentVolumeClaim`.
pub type Claim = k8s_openapi::api::core::v1::PersistentVolumeClaim;

/// A `StorageClass`.
pub type Class = k8s_openapi::api::storage::v1::StorageClass;
/// A `Pod`.
pub type Pod = k8s_openapi::api::core::v1::Pod;
/// A `Node`.
pub type Node = k8s_openapi::api::core::v1::Node;
/// A `CSINode`.
pub type CsiNode = k8s_openapi::api::storage::v1::CSINode;
/// A `CSIDriver`.
pub type CsiDriver = k8s_openapi::api::storage::v1::CSIDriver;
/// A `CSIStorageCapacity`.
pub type Capacity = k8s_openapi::api::storage::v1::CSIStorageCapacity;

/// An object's name, or `""` for an object that has none yet.
#[must_use]
pub fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// An object's namespace, or `""` for a cluster-scoped one.
#[must_use]
pub fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// An object's uid, or `""` where the server has not given one.
#[must_use]
pub fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

/// The object's version as a number; versions are compared as numbers since Kubernetes 1.35 made that part of
/// the API. A version that is no number counts as the oldest.
#[must_use]
pub fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Whether the object is being deleted.
#[must_use]
pub fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// The annotation's value, if the object has it.
#[must_use]
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}
