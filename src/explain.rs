//! Why something is as it is: the same decisions, asked for their reasons.
//!
//! Reads the cluster, changes nothing. A claim's reasons are the one that its sync would give and, for each volume
//! that could have been meant, what does not fit; a pod's are those of its claims and of the nodes.

use crate::cluster::{Cluster, Key};
use crate::decide::binder::fit::Wanted;
use crate::decide::binder::place;
use crate::decide::matching::{self, For, Mismatch};
use crate::decide::reason::PodReason;
use crate::decide::{self, Reads, Reason, Settings};
use crate::objects::{claim, name, pod, volume};

/// How many volumes, or nodes, are told about for one thing.
pub const TOLD: usize = 10;

/// Why the claim is not bound, or what is odd about the volume that it has; empty when all is well.
#[must_use]
pub fn claim(cluster: &Cluster, settings: &Settings, key: &Key) -> Vec<Reason> {
    let Some(found) = cluster.claim(key) else { return Vec::new() };
    let plan = decide::sync(cluster, settings, key, &Reads::new());
    let mut reasons = match plan.reason {
        Reason::Bound { volume, .. } => {
            let differs = cluster
                .volume(&volume)
                .and_then(|found_volume| matching::reserved_differences(found_volume, found, settings));
            let told = differs.map(|what| Reason::BoundThoughDiffers { claim: key.clone(), volume, what });
            return told.into_iter().collect();
        }
        Reason::Gone => return Vec::new(),
        reason => vec![reason],
    };
    let looks_for_any = claim::volume_name(found).is_empty() && !claim::is_bind_completed(found);
    if looks_for_any {
        reasons.extend(mismatches(cluster, settings, key));
    }
    reasons
}

/// Why the volumes that could have been meant are not for the claim: those of its class first, those of others
/// last, and never those that simply belong to another claim.
fn mismatches(cluster: &Cluster, settings: &Settings, key: &Key) -> Vec<Reason> {
    let Some(claim) = cluster.claim(key) else { return Vec::new() };
    let wanted = For { claim, node: None, attributes_class: settings.volume_attributes_class };
    let (class, of_class) = (claim::class(claim), |v: &crate::objects::Volume| volume::class(v).to_owned());
    let judge = |volume: &crate::objects::Volume| {
        matching::judge(volume, &wanted).and_then(|()| matching::judge_modes(volume, claim))
    };
    let unfit = cluster.volumes().filter_map(|volume| match judge(volume) {
        Ok(()) | Err(Mismatch::ClaimedByOther { same_name: false, .. }) => None,
        Err(mismatch) => Some((of_class(volume) != class, volume, mismatch)),
    });
    let mut unfit: Vec<_> = unfit.take(TOLD * TOLD).collect();
    unfit.sort_by(|a, b| (a.0, name(&a.1.metadata)).cmp(&(b.0, name(&b.1.metadata))));
    unfit
        .into_iter()
        .take(TOLD)
        .map(|(_, volume, mismatch)| {
            let volume = Key::volume(name(&volume.metadata));
            Reason::Mismatch { claim: key.clone(), volume, mismatch }
        })
        .collect()
}

/// Why the volume is neither free nor bound; empty when it is.
#[must_use]
pub fn volume(cluster: &Cluster, settings: &Settings, key: &Key) -> Vec<Reason> {
    if cluster.volume(key).is_none() {
        return Vec::new();
    }
    let mut reads = Reads::new();
    let mut reason = decide::sync(cluster, settings, key, &reads).reason;
    if let Reason::ClaimUnknown { claim, .. } = &reason {
        // Nobody is there to ask: what the watches have shown is all that is known.
        reads.insert(claim.clone(), cluster.object(claim).cloned());
        reason = decide::sync(cluster, settings, key, &reads).reason;
    }
    match reason {
        Reason::Bound { .. } | Reason::Unused { .. } | Reason::Gone => Vec::new(),
        reason => vec![reason],
    }
}

/// Why the pod is on no node; empty when it is on one, or has ended.
#[must_use]
pub fn pod(cluster: &Cluster, settings: &Settings, key: &Key) -> Vec<Reason> {
    let Some(found) = cluster.pod(key) else { return Vec::new() };
    if !pod::node_name(found).is_empty() || pod::is_finished(found) {
        return Vec::new();
    }
    if let Some(assumption) = cluster.assumption(key) {
        let node = assumption.node.to_string();
        return vec![Reason::Pod(PodReason::BindingVolumes { pod: key.clone(), node })];
    }
    if cluster.nodes().next().is_none() {
        return vec![Reason::Pod(PodReason::NoNodes { pod: key.clone() })];
    }
    match place::survey(cluster, settings, key, &Wanted::of(cluster, key, found)) {
        Ok(survey) if survey.fitting.is_empty() => {
            survey.reasons(cluster, settings, key).take(TOLD).map(Reason::Pod).collect()
        }
        Ok(_) => Vec::new(),
        Err(reason) => vec![reason],
    }
}
