//! What a pod's claims get on a node, as data.
//!
//! It is found by a search ([`crate::decide::binder::find`]), held while the pod's volumes are being bound
//! ([`super::Assumption`]), and keeps the objects as they were when they were found: whoever uses it later can tell that one
//! of them has changed since. It decides nothing. Answers to upstream's `PodVolumes`, `BindingInfo` and
//! `DynamicProvision`.

use std::sync::Arc;

use super::Key;
use crate::objects::quantity::Amount;
use crate::objects::{Capacity, Claim, Volume, claim, name, namespace, volume};

/// A claim and the free volume that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The claim.
    pub claim: Arc<Claim>,
    /// The volume.
    pub volume: Arc<Volume>,
}

/// A claim whose volume is to be made for the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Provision {
    /// The claim.
    pub claim: Arc<Claim>,
    /// The storage from which it is to be made, if the driver tells what it has left.
    pub capacity: Option<Arc<Capacity>>,
}

/// What a pod's claims get on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodVolumes {
    /// The claims that take free volumes, the smallest request first.
    pub bindings: Vec<Binding>,
    /// The claims whose volumes are to be made.
    pub provisions: Vec<Provision>,
}

/// The key of a claim.
fn claim_key(claim: &Claim) -> Key {
    Key::claim(namespace(&claim.metadata), name(&claim.metadata))
}

impl Binding {
    /// The claim's key.
    #[must_use]
    pub fn claim_key(&self) -> Key {
        claim_key(&self.claim)
    }

    /// The volume's key.
    #[must_use]
    pub fn volume_key(&self) -> Key {
        Key::volume(name(&self.volume.metadata))
    }
}

impl Provision {
    /// The claim's key.
    #[must_use]
    pub fn claim_key(&self) -> Key {
        claim_key(&self.claim)
    }
}

impl PodVolumes {
    /// Whether there is nothing to bind and nothing to make.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }

    /// What the bindings waste: the sum of capacity that is not asked for.
    #[must_use]
    pub fn waste(&self) -> Amount {
        let wasted = |binding: &Binding| volume::capacity(&binding.volume) - claim::requested(&binding.claim);
        self.bindings.iter().map(wasted).fold(Amount::ZERO, |sum, waste| sum + waste)
    }
}
