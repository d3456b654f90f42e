//! What a driver reports of the storage that it has left somewhere.
//!
//! A report speaks of one class at the nodes that its topology selects. It is an estimate: it may be old, and unless it
//! stands for one pool, what is left of it need not be in one piece. Answers to upstream's `capacitySufficient` and
//! `nodeHasAccess`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Capacity, Claim, Node, claim, quantity::Amount, topology};

fn parse(quantity: Option<&Quantity>) -> Option<Amount> {
    Amount::parse(&quantity?.0)
}

/// All that is left.
#[must_use]
pub fn whole(capacity: &Capacity) -> Option<Amount> {
    parse(capacity.capacity.as_ref())
}

/// The largest size that one volume may have.
#[must_use]
pub fn largest(capacity: &Capacity) -> Option<Amount> {
    parse(capacity.maximum_volume_size.as_ref()).or(whole(capacity))
}

/// Whether the node can use the storage. One without a topology is used by nobody.
#[must_use]
pub fn is_accessible(capacity: &Capacity, node: &Node) -> bool {
    let selector = capacity.node_topology.as_ref();
    selector.is_some_and(|s| topology::selector_matches(s, node.metadata.labels.as_ref()) == Some(true))
}

/// Whether one more volume of this size fits: alone under the largest size that a volume may have, and together with
/// what is promised already under the whole.
#[must_use]
pub fn holds(capacity: &Capacity, size: Amount, promised: Amount) -> bool {
    let fits_alone = largest(capacity).is_some_and(|limit| size <= limit);
    // A report of the largest size alone says nothing of the whole.
    fits_alone && (promised <= Amount::ZERO || whole(capacity).is_none_or(|whole| promised + size <= whole))
}

/// What a volume for the claim takes, in whole bytes; `None` for a claim that asks for no size.
#[must_use]
pub fn taken_by(claim: &Claim) -> Option<Amount> {
    claim::requested_if_any(claim).map(|requested| Amount::units(requested.value()))
}
