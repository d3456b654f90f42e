//! How much room the stand-in driver has, by its `CSIStorageCapacity` objects.
//!
//! Decides whether a claim fits where its node is, and what is left after it. A driver that does not track capacity, or
//! publishes none for the place, is never full. It answers to a CSI driver whose external-provisioner publishes capacity.

use super::call::{Call, Kind, Name, Target};
use super::selector::matches_labels;
use super::world::World;
use crate::objects::quantity::Amount;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use std::collections::BTreeMap;

/// There is no room for the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// The capacity object that says so, as `NAMESPACE/NAME`.
    pub capacity: String,
}

/// What has to be taken off a capacity object before a volume of `size` is made on `node`.
///
/// # Errors
/// [`Full`] when the first capacity that covers the node has less than `size`, or allows only smaller volumes.
pub fn debit(
    world: &World,
    driver: &str,
    class: &StorageClass,
    node: Option<&Node>,
    size: i64,
) -> Result<Option<Call>, Full> {
    let tracked =
        world.csi_drivers.get(&Name::new("", driver)).and_then(|d| d.spec.storage_capacity) == Some(true);
    let Some(node) = node.filter(|_| tracked) else { return Ok(None) };
    let nothing = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&nothing);
    let class = class.metadata.name.clone().unwrap_or_default();
    for capacity in world.capacities_of_class.of(&class).filter_map(|name| world.capacities.get(name)) {
        let (Some(topology), Some(room)) = (&capacity.node_topology, &capacity.capacity) else { continue };
        let Some(room) =
            Amount::parse(&room.0).map(Amount::value).filter(|_| matches_labels(topology, labels))
        else {
            continue;
        };
        let largest =
            capacity.maximum_volume_size.as_ref().and_then(|q| Amount::parse(&q.0)).map(Amount::value);
        let name = Name::of(&capacity.metadata);
        if room < size || largest.is_some_and(|largest| largest < size) {
            return Err(Full { capacity: format!("{}/{}", name.namespace, name.name) });
        }
        let left = format!("{}Mi", (room - size) >> 20);
        let target = Target::of(Kind::Capacity, &capacity.metadata);
        return Ok(Some(Call::merge(target, json!({ "capacity": left }))));
    }
    Ok(None)
}
