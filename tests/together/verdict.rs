//! What may never be, at any moment of a history, and what must be at its end.

use std::collections::BTreeMap;

use pvbind::objects::quantity::Amount;
use serde_json::Value;

use crate::history::Version;

const BIND_COMPLETED: &str = "/metadata/annotations/pv.kubernetes.io~1bind-completed";

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the claim says that it is bound to the volume, for good.
fn is_bound_to(claim: &Value, volume: &str) -> bool {
    text(claim, "/spec/volumeName") == volume && !text(claim, BIND_COMPLETED).is_empty()
}

/// What there is at a moment.
#[derive(Default)]
struct Moment {
    /// By name.
    volumes: BTreeMap<String, Value>,
    /// By uid.
    claims: BTreeMap<String, Value>,
}

impl Moment {
    /// The live claim that the volume is for by uid.
    fn holder(&self, volume: &Value) -> Option<&Value> {
        self.claims.get(text(volume, "/spec/claimRef/uid"))
    }

    fn volume(&mut self, version: &Version, wrong: &mut Vec<String>) {
        let (at, new) = (version.at, &version.object);
        let name = text(new, "/metadata/name").to_owned();
        let old = self.volumes.get(&name).cloned().unwrap_or_default();
        let holder = self.holder(&old).filter(|claim| is_bound_to(claim, &name));
        let same = text(&old, "/spec/claimRef/uid") == text(new, "/spec/claimRef/uid");
        if let Some(claim) = holder {
            let claim = text(claim, "/metadata/name");
            if !same {
                wrong.push(format!("{at}: volume {name} is taken from claim {claim}, which is bound to it"));
            }
            if matches!(text(new, "/status/phase"), "Released" | "Failed" | "Available") && same {
                let phase = text(new, "/status/phase");
                wrong.push(format!("{at}: volume {name} is {phase} though claim {claim} is bound to it"));
            }
            if version.gone {
                wrong.push(format!("{at}: volume {name} is deleted though claim {claim} is bound to it"));
            }
        }
        if version.gone && text(new, "/spec/persistentVolumeReclaimPolicy") != "Delete" {
            wrong.push(format!("{at}: volume {name} is deleted though it is to be kept"));
        }
        if version.gone {
            self.volumes.remove(&name);
        } else {
            self.volumes.insert(name, new.clone());
        }
    }

    fn claim(&mut self, version: &Version, wrong: &mut Vec<String>) {
        let (at, new) = (version.at, &version.object);
        let (uid, name) = (text(new, "/metadata/uid"), text(new, "/metadata/name"));
        let volume = text(new, "/spec/volumeName");
        if let Some(old) = self.claims.get(uid) {
            let before = text(old, "/spec/volumeName");
            if !before.is_empty() && is_bound_to(old, before) && !is_bound_to(new, before) {
                wrong.push(format!("{at}: claim {name} was bound to {before} and no longer is"));
            }
        }
        if !version.gone && is_bound_to(new, volume) {
            let others =
                self.claims.iter().filter(|(other, claim)| *other != uid && is_bound_to(claim, volume));
            for (_, other) in others {
                let other = text(other, "/metadata/name");
                wrong.push(format!("{at}: claims {name} and {other} are both bound to {volume}"));
            }
        }
        if version.gone {
            self.claims.remove(uid);
        } else {
            self.claims.insert(uid.to_owned(), new.clone());
        }
    }
}

/// Whether a claim could have the volume, which is free.
fn fits(claim: &Value, volume: &Value) -> bool {
    let amount = |object: &Value, pointer: &str| Amount::parse(text(object, pointer));
    text(claim, "/spec/storageClassName") == text(volume, "/spec/storageClassName")
        && amount(claim, "/spec/resources/requests/storage") <= amount(volume, "/spec/capacity/storage")
}

/// A volume of the end: bound to a claim as that is to it, free, or kept from a claim that is gone.
fn volume_at_the_end(end: &Moment, name: &str, volume: &Value, wrong: &mut Vec<String>) {
    let (phase, uid) = (text(volume, "/status/phase"), text(volume, "/spec/claimRef/uid"));
    let right = match (phase, end.holder(volume)) {
        ("Bound", Some(claim)) => is_bound_to(claim, name) && text(claim, "/status/phase") == "Bound",
        ("Available", None) => uid.is_empty(),
        // Its claim came and went.
        ("Released", None) => !uid.is_empty(),
        _ => false,
    };
    if !right {
        wrong.push(format!("at the end volume {name} is {phase}, for {}", volume["spec"]["claimRef"]));
    }
}

fn claim_at_the_end(end: &Moment, claim: &Value, wrong: &mut Vec<String>) {
    let (name, uid) = (text(claim, "/metadata/name"), text(claim, "/metadata/uid"));
    let (phase, volume) = (text(claim, "/status/phase"), text(claim, "/spec/volumeName"));
    let right = match phase {
        "Bound" => {
            let bound = end.volumes.get(volume);
            bound.is_some_and(|volume| text(volume, "/spec/claimRef/uid") == uid)
                && is_bound_to(claim, volume)
        }
        "Pending" => volume.is_empty(),
        _ => false,
    };
    if !right {
        wrong.push(format!("at the end claim {name} is {phase}, with volume {volume:?}"));
    }
    let free =
        end.volumes.iter().find(|(_, volume)| volume["spec"]["claimRef"].is_null() && fits(claim, volume));
    if let (true, Some((free, _))) = (phase == "Pending", free) {
        wrong.push(format!("at the end claim {name} waits though volume {free} is free"));
    }
}

/// What a history came to.
#[derive(Debug)]
pub struct Verdict {
    /// The versions that were seen, first ones and last ones aside: what controllers and deletions wrote.
    pub changes: usize,
    /// The claims that are bound at the end.
    pub bound: usize,
    pub wrong: Vec<String>,
}

/// Looks at every moment, and at the end.
pub fn judge(versions: &[Version]) -> Verdict {
    let (mut moment, mut wrong, mut changes) = (Moment::default(), Vec::new(), 0);
    for version in versions {
        let known = if version.is_volume() {
            moment.volumes.contains_key(text(&version.object, "/metadata/name"))
        } else {
            moment.claims.contains_key(text(&version.object, "/metadata/uid"))
        };
        changes += usize::from(known && !version.gone);
        if version.is_volume() {
            moment.volume(version, &mut wrong);
        } else {
            moment.claim(version, &mut wrong);
        }
    }
    for (name, volume) in &moment.volumes {
        volume_at_the_end(&moment, name, volume, &mut wrong);
    }
    for claim in moment.claims.values() {
        claim_at_the_end(&moment, claim, &mut wrong);
    }
    let bound = moment.claims.values().filter(|claim| text(claim, "/status/phase") == "Bound").count();
    Verdict { changes, bound, wrong }
}
