//! Binding a claim and a volume to each other, and rolling that back.
//!
//! The volume is written first: whoever reserves it wins, and a crash between any two of the four writes is a
//! state from which the next sync goes on. Answers to upstream's `bind` and `unbindVolume`.

use std::sync::Arc;

use crate::cluster::{Key, Object};
use crate::decide::write::ClaimIdentity;
use crate::decide::{Plan, Reason, Settings, Write};
use crate::objects::{Claim, Volume, claim, name, volume};

/// Adds the writes that bind claim and volume to each other, leaving out those that would change nothing.
pub fn bind(plan: &mut Plan, settings: &Settings, volume: &Arc<Volume>, claim: &Arc<Claim>) {
    let identity = ClaimIdentity::of(claim);
    let claim_key = identity.key.clone();
    let volume_key = Key::volume(name(&volume.metadata));
    let object = Object::Volume(volume.clone());
    let object = plan.write(&object, Write::ReserveVolume { volume: volume_key.clone(), claim: identity });
    set_phase(plan, &object, volume::BOUND, "");
    let object = Object::Claim(claim.clone());
    let volume_name = name(&volume.metadata).to_owned();
    let bind_claim = Write::BindClaim { claim: claim_key.clone(), volume: volume_name };
    let object = plan.write(&object, bind_claim);
    if claim::phase(claim) != claim::BOUND && volume::capacity_written(volume).is_none() {
        plan.reason = Reason::VolumeWithoutCapacity { volume: volume_key };
        return;
    }
    let status = Write::SetClaimStatus {
        claim: claim_key,
        phase: claim::BOUND,
        volume: Some(volume.clone()),
        attributes_class: settings.volume_attributes_class,
    };
    plan.write(&object, status);
}

/// Adds the write of a volume's phase, if that is another; returns the volume as it will be.
pub fn set_phase(plan: &mut Plan, object: &Object, phase: &'static str, message: &str) -> Object {
    let write = Write::SetVolumePhase { volume: object.key(), phase, message: message.to_owned() };
    plan.write(object, write)
}

/// Adds the writes that roll the volume's binding back.
pub fn unbind(plan: &mut Plan, object: &Object) {
    let object = plan.write(object, Write::UnbindVolume { volume: object.key() });
    set_phase(plan, &object, volume::AVAILABLE, "");
}
