//! Which volume a claim gets, and why the others do not fit.
//!
//! [`judge`] is the one rule: matching keeps the volumes that it lets pass and takes the least, explaining prints
//! what it says of the others. Cost: [`find`] asks the index for the least volume of each set of access modes, so
//! it looks at no volume that another is better than, unless a selector refuses the better ones. Answers to
//! upstream's `FindMatchingVolume` and `findByClaim`.

mod on_node;

use std::sync::Arc;

use crate::cluster::{Cluster, Key};
use crate::decide::{Reason, Settings};
use crate::objects::access::ModeSet;
use crate::objects::topology::Labels;
use crate::objects::{Claim, Volume, claim, class, is_deleting, name, topology, volume};

pub use on_node::NodeSearch;

/// Why a volume is not for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It is reserved for, or bound to, another claim.
    ClaimedByOther {
        /// `NAMESPACE/NAME` of the other claim.
        other: String,
        /// Whether the names agree and only the uid differs: the claim was deleted and made anew.
        same_name: bool,
    },
    /// It is smaller than the request.
    TooSmall {
        /// What it holds.
        capacity: String,
        /// What is requested.
        requested: String,
    },
    /// One is a block device, the other a file system.
    Mode {
        /// The volume's.
        volume: String,
        /// The claim's.
        claim: String,
    },
    /// The `VolumeAttributesClass` differs.
    AttributesClass {
        /// The volume's.
        volume: String,
        /// The claim's.
        claim: String,
    },
    /// It is being deleted.
    BeingDeleted,
    /// It is not Available.
    Phase {
        /// The phase it is in.
        phase: String,
    },
    /// The claim's selector does not match its labels.
    Selector,
    /// It is of another class.
    Class {
        /// The volume's.
        volume: String,
        /// The claim's.
        claim: String,
    },
    /// It cannot be reached from the node.
    NodeAffinity {
        /// The node.
        node: String,
    },
    /// It does not offer an access mode that the claim asks for.
    AccessModes {
        /// The volume's.
        volume: Vec<String>,
        /// The claim's.
        claim: Vec<String>,
    },
}

/// What a volume is judged for: a claim, and on the scheduler's path a node.
#[derive(Clone, Copy, Debug)]
pub struct For<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The node's name and labels.
    pub node: Option<(&'a str, Option<&'a Labels>)>,
    /// Whether `VolumeAttributesClass` takes part.
    pub attributes_class: bool,
}

/// What holds for any volume of the claim, also for one that is reserved for it.
fn judge_always(volume: &Volume, wanted: &For) -> Result<(), Mismatch> {
    let claim = wanted.claim;
    if let Some(reference) = volume::claim_ref(volume)
        && !volume::is_for(volume, claim)
    {
        let (namespace, other) = volume::referred(reference);
        let same_name = (namespace, other)
            == (crate::objects::namespace(&claim.metadata), crate::objects::name(&claim.metadata));
        return Err(Mismatch::ClaimedByOther { other: format!("{namespace}/{other}"), same_name });
    }
    if volume::capacity(volume) < claim::requested(claim) {
        let capacity = volume::capacity_text(volume).to_owned();
        return Err(Mismatch::TooSmall { capacity, requested: claim::requested_text(claim).to_owned() });
    }
    if volume::mode(volume) != claim::mode(claim) {
        let (volume, claim) = (volume::mode(volume).to_owned(), claim::mode(claim).to_owned());
        return Err(Mismatch::Mode { volume, claim });
    }
    let (of_volume, of_claim) = (volume::attributes_class(volume), claim::attributes_class(claim));
    // With the feature off no volume that has such a class is given to anybody.
    let refused = if wanted.attributes_class { of_volume != of_claim } else { !of_volume.is_empty() };
    if refused {
        return Err(Mismatch::AttributesClass { volume: of_volume.to_owned(), claim: of_claim.to_owned() });
    }
    if is_deleting(&volume.metadata) {
        return Err(Mismatch::BeingDeleted);
    }
    Ok(())
}

/// Whether the volume fits. One that is reserved for the claim is not asked for its phase, class and selector.
///
/// # Errors
/// The first thing that does not fit, in upstream's order.
pub fn judge(volume: &Volume, wanted: &For) -> Result<(), Mismatch> {
    judge_always(volume, wanted)?;
    let claim = wanted.claim;
    let reached = wanted.node.is_none_or(|(_, labels)| topology::reaches(volume, labels));
    let unreached = || Mismatch::NodeAffinity { node: wanted.node.map_or("", |(node, _)| node).to_owned() };
    if volume::is_for(volume, claim) {
        return if reached { Ok(()) } else { Err(unreached()) };
    }
    if volume::phase(volume) != volume::AVAILABLE {
        return Err(Mismatch::Phase { phase: volume::phase(volume).to_owned() });
    }
    let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    if selector.is_some_and(|s| topology::selector_matches(s, volume.metadata.labels.as_ref()) != Some(true))
    {
        return Err(Mismatch::Selector);
    }
    if volume::class(volume) != claim::class(claim) {
        let (volume, claim) = (volume::class(volume).to_owned(), claim::class(claim).to_owned());
        return Err(Mismatch::Class { volume, claim });
    }
    if !reached {
        return Err(unreached());
    }
    judge_modes(volume, claim)
}

/// Whether the volume offers the access modes. [`judge`] does not ask one that is reserved for the claim, as upstream
/// does not on the scheduler's path; the controller looks at no other volumes than those that offer them.
///
/// # Errors
/// [`Mismatch::AccessModes`].
pub fn judge_modes(volume: &Volume, claim: &Claim) -> Result<(), Mismatch> {
    if claim::access_modes_fit(claim, volume) {
        return Ok(());
    }
    let (volume, claim) = (volume::access_modes(volume).to_vec(), claim::access_modes(claim).to_vec());
    Err(Mismatch::AccessModes { volume, claim })
}

/// Why no volume may be looked for at all.
///
/// # Errors
/// A [`Reason`] that is a failure: the claim asks for something that is switched off, or its selector is invalid.
fn check_claim(key: &Key, wanted: &For) -> Result<(), Reason> {
    if !wanted.attributes_class && !claim::attributes_class(wanted.claim).is_empty() {
        return Err(Reason::AttributesClassUnsupported { claim: key.clone() });
    }
    let selector = wanted.claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    if selector.is_some_and(|selector| topology::selector_matches(selector, None).is_none()) {
        return Err(Reason::InvalidSelector { claim: key.clone() });
    }
    Ok(())
}

/// Whether the scheduler, not the controller, chooses among free volumes for the claim.
///
/// # Errors
/// A failure, when the class does not say.
pub fn delays_binding(cluster: &Cluster, claim: &Claim) -> Result<bool, Reason> {
    let name = claim::class(claim);
    match cluster.class(name).filter(|_| !name.is_empty()) {
        None => Ok(false),
        Some(class) => class::delays_binding(class)
            .ok_or_else(|| Reason::ClassWithoutBindingMode { class: name.to_owned() }),
    }
}

/// The volume that the controller gives to a claim: sets of access modes from the smallest on; within a set a
/// volume that is reserved for the claim, else the smallest that fits, by name among equals.
///
/// With `delayed` binding only reserved volumes count: the scheduler chooses among the others.
///
/// # Errors
/// A failure, when no volume may be looked for at all.
pub fn find<'a>(
    cluster: &'a Cluster,
    settings: &Settings,
    key: &Key,
    claim: &Claim,
    delayed: bool,
) -> Result<Option<&'a Arc<Volume>>, Reason> {
    let wanted = For { claim, node: None, attributes_class: settings.volume_attributes_class };
    check_claim(key, &wanted)?;
    let (class, mode, modes) = (claim::class(claim), claim::mode(claim), claim::access_modes(claim));
    let mut reserved: Vec<(ModeSet, &Arc<Volume>)> = cluster
        .volumes_for(key)
        .filter(|(_, volume)| volume::is_for(volume, claim) && judge_always(volume, &wanted).is_ok())
        .map(|(_, volume)| (ModeSet::new(volume::access_modes(volume)), volume))
        .filter(|(set, _)| set.offers(modes))
        .collect();
    // The sort is stable: among volumes of one set the first by name stays the first.
    reserved.sort_by_key(|(set, _)| *set);
    let first = reserved.first().map(|(set, volume)| (set, *volume));
    if delayed {
        return Ok(first.map(|(_, volume)| volume));
    }
    for (set, shelf) in cluster.free_volumes().offering(class, mode, modes) {
        if let Some((reserved_set, volume)) = first
            && reserved_set <= set
        {
            return Ok(Some(volume));
        }
        let candidates = shelf.at_least(claim::requested(claim), None);
        let best =
            candidates.filter_map(|key| cluster.volume(key)).find(|volume| judge(volume, &wanted).is_ok());
        if best.is_some() {
            return Ok(best);
        }
    }
    Ok(first.map(|(_, volume)| volume))
}

/// Everything in which a volume is not what the claim asks for, in upstream's words and order; the labels that the
/// claim selects are not looked at.
///
/// Answers to upstream's `checkVolumeSatisfyClaim`, which compares whole bytes.
fn differences(volume: &Volume, claim: &Claim, settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    if is_deleting(&volume.metadata) {
        found.push(format!("the volume is marked for deletion {:?}", name(&volume.metadata)));
    }
    let mut unless = |same: bool, what: &str| {
        if !same {
            found.push(what.to_owned());
        }
    };
    unless(volume::capacity(volume).value() >= claim::requested(claim).value(), "requested PV is too small");
    unless(volume::class(volume) == claim::class(claim), "storageClassName does not match");
    let (of_volume, of_claim) = (volume::attributes_class(volume), claim::attributes_class(claim));
    if settings.volume_attributes_class {
        unless(of_volume == of_claim, "volumeAttributesClassName does not match");
    } else {
        let what = "volumeAttributesClassName is not supported when the feature-gate VolumeAttributesClass is disabled";
        unless(of_volume.is_empty() && of_claim.is_empty(), what);
    }
    unless(volume::mode(volume) == claim::mode(claim), "incompatible volumeMode");
    unless(claim::access_modes_fit(claim, volume), "incompatible accessMode");
    found
}

/// Whether a volume that the claim names satisfies it; the message is upstream's.
///
/// # Errors
/// The first thing that does not fit.
pub fn check_named(volume: &Volume, claim: &Claim, settings: &Settings) -> Result<(), String> {
    differences(volume, claim, settings).into_iter().next().map_or(Ok(()), Err)
}

/// Everything in which a volume that a user reserved for the claim is not what the claim asks for; `None` when there
/// is nothing, and for volumes that were chosen or made for it: those were judged then, and the claim may have
/// grown since.
#[must_use]
pub fn reserved_differences(volume: &Volume, claim: &Claim, settings: &Settings) -> Option<String> {
    if !volume::is_reserved_by_user(volume) {
        return None;
    }
    let mut found = differences(volume, claim, settings);
    let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref());
    if selector.is_some_and(|s| topology::selector_matches(s, volume.metadata.labels.as_ref()) != Some(true))
    {
        found.push("the claim's selector does not match".to_owned());
    }
    (!found.is_empty()).then(|| found.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{from_value, json};

    #[rstest]
    #[case("default", "c", "another", Some(true))]
    #[case("default", "other", "u", Some(false))]
    #[case("elsewhere", "c", "u", Some(false))]
    #[case("default", "c", "u", None)]
    #[case("default", "c", "", None)]
    fn whose_a_volume_is_goes_by_namespace_name_and_uid(
        #[case] namespace: &str,
        #[case] other: &str,
        #[case] uid: &str,
        #[case] others: Option<bool>,
    ) {
        let claim = json!({"metadata": {"namespace": "default", "name": "c", "uid": "u"}, "spec": {}});
        let volume = json!({
            "metadata": {"name": "v"},
            "spec": {"claimRef": {"namespace": namespace, "name": other, "uid": uid}},
        });
        let (claim, volume): (Claim, Volume) = (from_value(claim).unwrap(), from_value(volume).unwrap());
        let judged = judge(&volume, &For { claim: &claim, node: None, attributes_class: true });
        let expected = others.map_or(Ok(()), |same_name| {
            Err(Mismatch::ClaimedByOther { other: format!("{namespace}/{other}"), same_name })
        });
        assert_eq!(judged, expected);
    }

    /// With classes of attributes switched off, either side that has one is refused.
    #[rstest]
    #[case("", "", true)]
    #[case("gold", "", false)]
    #[case("", "gold", false)]
    #[case("gold", "gold", false)]
    fn without_classes_of_attributes_nobody_may_have_one(
        #[case] of_volume: &str,
        #[case] of_claim: &str,
        #[case] satisfied: bool,
    ) {
        let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let claim = json!({"metadata": {"name": "c"}, "spec": {"volumeAttributesClassName": some(of_claim)}});
        let volume =
            json!({"metadata": {"name": "v"}, "spec": {"volumeAttributesClassName": some(of_volume)}});
        let (claim, volume): (Claim, Volume) = (from_value(claim).unwrap(), from_value(volume).unwrap());
        let settings = Settings { volume_attributes_class: false, ..Settings::default() };
        assert_eq!(check_named(&volume, &claim, &settings).is_ok(), satisfied);
    }
}
