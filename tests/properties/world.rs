//! Random small worlds, also in every half-done state of a binding.

use std::fmt;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use pvbind::cluster::{Cluster, Object};
use pvbind::decide::Write;
use pvbind::decide::write::ClaimIdentity;
use pvbind::objects::kept::Amounts;
use pvbind::objects::{Claim, Class, Node, Pod, Volume, volume};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::render;
use crate::shapes::{self, named};

/// Some objects, each with a version of its own.
#[derive(Clone, PartialEq)]
pub struct World {
    pub objects: Vec<Object>,
}

impl fmt::Debug for World {
    /// The world as manifests, so that a failure can be played with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", render::manifests(&self.objects))
    }
}

impl World {
    /// A cluster to which everything has been shown.
    pub fn cluster(&self) -> Cluster {
        cluster_of(&self.objects)
    }
}

/// A cluster to which these objects have been shown.
pub fn cluster_of<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Cluster {
    let mut cluster = Cluster::new();
    for object in objects {
        cluster.show(object.clone());
    }
    cluster
}

/// A volume and a claim that belong together, and how far their binding has come.
#[derive(Clone, Debug)]
struct Pair {
    claim: usize,
    volume: usize,
    /// How many of the steps of a binding have been made.
    steps: usize,
    /// Whether the volume is what the claim asks for.
    fits: bool,
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let pair = (0usize..6, 0usize..6, 0usize..7, proptest::bool::weighted(0.7));
    vec(pair.prop_map(|(claim, volume, steps, fits)| Pair { claim, volume, steps, fits }), 0..=3)
}

/// Random small worlds.
pub fn worlds() -> impl Strategy<Value = World> {
    let volumes = vec(shapes::volume(), 0..=6);
    let (claims, pods) = (vec(shapes::claim(), 0..=6), vec(shapes::pod(), 0..=3));
    let nodes = vec(shapes::node(), 0..=3);
    (volumes, claims, shapes::classes(), pods, nodes, pairs()).prop_map(
        |(volumes, claims, classes, pods, nodes, pairs)| {
            let mut volumes: Vec<Arc<Volume>> = read(named('p', volumes)).collect();
            let mut claims: Vec<Arc<Claim>> = read(named('c', claims)).collect();
            for pair in pairs {
                advance(&mut volumes, &mut claims, &pair);
            }
            let objects = read::<Class>(classes)
                .map(Object::Class)
                .chain(read::<Node>(named('n', nodes)).map(Object::Node))
                .chain(volumes.into_iter().map(Object::Volume))
                .chain(claims.into_iter().map(Object::Claim))
                .chain(read::<Pod>(named('w', pods)).map(Object::Pod));
            let objects =
                objects.zip(101..).map(|(object, version)| with_version(&object, version)).collect();
            World { objects }
        },
    )
}

fn read<T: DeserializeOwned>(values: Vec<Value>) -> impl Iterator<Item = Arc<T>> {
    values.into_iter().map(|value| Arc::new(serde_json::from_value(value).expect("an object of the kind")))
}

/// Makes the steps of a binding: the four writes in their order, then half of its rolling back.
fn advance(volumes: &mut [Arc<Volume>], claims: &mut [Arc<Claim>], pair: &Pair) {
    let (Some(volume), Some(claim)) = (volumes.get_mut(pair.volume), claims.get_mut(pair.claim)) else {
        return;
    };
    if pair.fits {
        fit(volume, claim);
    }
    let identity = ClaimIdentity::of(claim);
    let (claim_key, volume_object) = (identity.key.clone(), Object::Volume(volume.clone()));
    let volume_key = volume_object.key();
    let steps = [
        Write::ReserveVolume { volume: volume_key.clone(), claim: identity },
        Write::SetVolumePhase { volume: volume_key.clone(), phase: volume::BOUND, message: String::new() },
        Write::BindClaim { claim: claim_key.clone(), volume: volume_key.name().to_owned() },
        Write::SetClaimStatus {
            claim: claim_key,
            phase: pvbind::objects::claim::BOUND,
            volume: Some(volume.clone()),
            attributes_class: true,
        },
        Write::SetVolumePhase { volume: volume_key.clone(), phase: volume::RELEASED, message: String::new() },
        Write::UnbindVolume { volume: volume_key },
    ];
    for step in &steps[..pair.steps] {
        match step.apply(&Object::Volume(volume.clone())) {
            Some(Object::Volume(after)) => *volume = after,
            _ => {
                if let Some(Object::Claim(after)) = step.apply(&Object::Claim(claim.clone())) {
                    *claim = after;
                }
            }
        }
    }
}

/// Makes the volume what the claim asks for, and nobody's.
fn fit(volume: &mut Arc<Volume>, claim: &Claim) {
    let wanted = claim.spec.as_ref().expect("a spec");
    let volume = Arc::make_mut(volume);
    let spec = volume.spec.as_mut().expect("a spec");
    spec.storage_class_name.clone_from(&wanted.storage_class_name);
    spec.capacity = wanted.resources.as_ref().and_then(|r| r.requests.clone()).map(Amounts::from);
    spec.access_modes.clone_from(&wanted.access_modes);
    spec.volume_mode.clone_from(&wanted.volume_mode);
    spec.volume_attributes_class_name.clone_from(&wanted.volume_attributes_class_name);
    spec.claim_ref = None;
}

/// The object with another version.
pub fn with_version(object: &Object, version: u64) -> Object {
    let version = Some(version.to_string());
    macro_rules! versioned {
        ($object:expr) => {{
            let mut object = (**$object).clone();
            object.metadata.resource_version = version;
            Object::from(object)
        }};
    }
    match object {
        Object::Claim(o) => versioned!(o),
        Object::Volume(o) => versioned!(o),
        Object::Class(o) => versioned!(o),
        Object::Pod(o) => versioned!(o),
        Object::Node(o) => versioned!(o),
        Object::CsiNode(o) => versioned!(o),
        Object::CsiDriver(o) => versioned!(o),
        Object::Capacity(o) => versioned!(o),
    }
}
