//! Shows the World objects that came as JSON: the answers to our own writes.
//!
//! What is of no kind that is watched, or can't be read, is passed over: the watch brings it again.

use super::call::Kind;
use super::key::Key;
use super::world::{Watched, World};
use crate::objects;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Shows the object, or with `gone` hides it.
pub fn take(world: &mut World, object: Value, gone: bool, keys: &mut BTreeSet<Key>) {
    let take = match Kind::of(&object) {
        Some(Kind::Namespace) => typed::<Namespace>,
        Some(Kind::Node) => typed::<Node>,
        Some(Kind::Pod) => typed::<Pod>,
        Some(Kind::Claim) => typed::<PersistentVolumeClaim>,
        Some(Kind::Volume) => typed::<objects::Volume>,
        Some(Kind::StorageClass) => typed::<StorageClass>,
        Some(Kind::AttributesClass) => typed::<VolumeAttributesClass>,
        Some(Kind::CsiNode) => typed::<CSINode>,
        Some(Kind::CsiDriver) => typed::<CSIDriver>,
        Some(Kind::Capacity) => typed::<CSIStorageCapacity>,
        Some(Kind::StatefulSet) => typed::<StatefulSet>,
        Some(Kind::Deployment) => typed::<Deployment>,
        Some(Kind::ReplicaSet) => typed::<ReplicaSet>,
        Some(Kind::DaemonSet) => typed::<DaemonSet>,
        Some(Kind::Job) => typed::<Job>,
        Some(Kind::Event) | None => return,
    };
    take(world, object, gone, keys);
}

fn typed<T: Watched + DeserializeOwned>(
    world: &mut World,
    object: Value,
    gone: bool,
    keys: &mut BTreeSet<Key>,
) {
    match serde_json::from_value::<T>(object) {
        Ok(object) if gone => world.hide(&object, keys),
        Ok(object) => world.show(&Arc::new(object), keys),
        Err(error) => {
            tracing::debug!(kind = T::KIND.name(), %error, "passed over an answer that can't be read");
        }
    }
}
