//! What must never happen, whatever the world: checked at every write, against what the API server has.

use std::collections::BTreeMap;

use pvbind::cluster::{Key, Kind, Object};
use pvbind::decide::{Operation, Write};
use pvbind::objects::{Claim, Volume, claim, name, uid, volume};

/// What the API server has.
pub type Api = BTreeMap<Key, Object>;

/// The watchman over the writes of one run.
#[derive(Clone, Debug, Default)]
pub struct Safety {
    /// The volume of each claim that our own writes bound, by the claim's uid.
    bound: BTreeMap<String, String>,
    /// Whether users meddle: a volume may then go between the writes of a binding.
    with_users: bool,
}

impl Safety {
    /// Has seen nothing yet.
    pub fn new(with_users: bool) -> Self {
        Safety { with_users, ..Safety::default() }
    }

    /// Looks at a write that is about to be made.
    pub fn write(&mut self, api: &Api, write: &Write, after: &Object) {
        let before = &api[write.target()];
        match (before, after) {
            (Object::Claim(before), Object::Claim(after)) => self.claim(api, write, before, after),
            (Object::Volume(before), Object::Volume(after)) => volume_write(api, write, before, after),
            (Object::Pod(_), Object::Pod(_)) => {}
            _ => panic!("{write:?} is made on {before:?}"),
        }
    }

    fn claim(&mut self, api: &Api, write: &Write, before: &Claim, after: &Claim) {
        if claim::is_fully_bound(before) {
            assert_eq!(claim::volume_name(before), claim::volume_name(after), "{write:?} rebinds a claim");
        }
        let Write::BindClaim { volume: volume_name, .. } = write else {
            assert_eq!(claim::volume_name(before), claim::volume_name(after), "{write:?}");
            return;
        };
        if self.with_users {
            return;
        }
        let bound = api.get(&Key::volume(volume_name)).and_then(Object::as_volume).expect("a volume");
        assert_eq!(
            whose(bound),
            Some(claim_id(before)),
            "{write:?} binds to a volume that is not the claim's"
        );
        let other = self.bound.iter().find(|(uid, has)| *has == volume_name && *uid != &claim_id(before).1);
        if let Some((other, _)) = other {
            let alive = api.values().filter_map(Object::as_claim).any(|c| uid(&c.metadata) == other);
            assert!(!alive, "{write:?} binds a second claim to the volume of {other}");
        }
        self.bound.insert(claim_id(before).1, volume_name.clone());
    }
}

fn claim_id(claim: &Claim) -> (Key, String) {
    (Object::from(claim.clone()).key(), uid(&claim.metadata).to_owned())
}

/// The claim that the volume is for, with its uid.
fn whose(volume: &Volume) -> Option<(Key, String)> {
    let reference = volume::claim_ref(volume)?;
    let (namespace, name) = volume::referred(reference);
    Some((Key::claim(namespace, name), volume::referred_uid(reference).to_owned()))
}

/// The live claim that the volume is for by uid, unless it is bound elsewhere.
fn holder<'a>(api: &'a Api, volume: &Volume) -> Option<&'a Claim> {
    let (key, wanted) = whose(volume)?;
    let claim = api.get(&key)?.as_claim().filter(|c| !wanted.is_empty() && uid(&c.metadata) == wanted)?;
    let has = claim::volume_name(claim);
    (has.is_empty() || has == name(&volume.metadata)).then_some(&**claim)
}

fn volume_write(api: &Api, write: &Write, before: &Volume, after: &Volume) {
    match write {
        Write::ReserveVolume { claim, .. } => {
            let free = whose(before)
                .is_none_or(|(key, uid)| key == claim.key && (uid.is_empty() || uid == claim.uid));
            assert!(free, "{write:?} takes a volume from another claim: {before:?}");
        }
        Write::SetVolumePhase { phase: volume::RELEASED | volume::FAILED, .. } => {
            assert_eq!(holder(api, before), None, "{write:?} takes a live claim's volume away");
        }
        Write::UnbindVolume { .. } => {
            // What was reserved for a pod that finds no place is given back, as long as nothing of it is bound: a volume that is
            // new has no phase, or the one that the server gives it.
            let reserved = volume::is_bound_by_controller(before)
                && matches!(volume::phase(before), "" | "Pending" | volume::AVAILABLE);
            let holder =
                holder(api, before).filter(|claim| !reserved || !claim::volume_name(claim).is_empty());
            assert_eq!(holder, None, "{write:?} takes a live claim's volume away");
        }
        _ => assert_eq!(whose(before), whose(after), "{write:?} changes the claim of a volume"),
    }
}

/// Looks at an operation that is about to be started.
pub fn operation(api: &Api, operation: &Operation) {
    let (Operation::Delete(key) | Operation::Recycle(key)) = operation else { return };
    let Some(volume) = api.get(key).and_then(Object::as_volume) else { return };
    assert_ne!(volume::reclaim_policy(volume), volume::RETAIN, "{operation:?} of a volume to be retained");
    assert_eq!(holder(api, volume), None, "{operation:?} of a live claim's volume");
}

/// Looks at an object that is about to be deleted.
pub fn deletion(api: &Api, key: &Key) {
    let Some(volume) = api.get(key).and_then(Object::as_volume) else { return };
    assert_eq!(volume::reclaim_policy(volume), volume::DELETE, "{key} is deleted");
    assert_eq!(holder(api, volume), None, "a live claim's volume is deleted");
}

/// Looks at a state: no two claims that our own writes bound have one volume, and each of them has its volume.
pub fn state(api: &Api, safety: &Safety) {
    for claim in api.iter().filter(|(key, _)| key.kind() == Kind::Claim).filter_map(|(_, o)| o.as_claim()) {
        if let Some(bound) = safety.bound.get(uid(&claim.metadata)) {
            assert_eq!(claim::volume_name(claim), bound, "a claim that we bound has another volume now");
            assert!(claim::is_bind_completed(claim), "a claim that we bound is no longer bound");
            if let Some(volume) = api.get(&Key::volume(bound)).and_then(Object::as_volume) {
                assert_eq!(whose(volume), Some(claim_id(claim)), "a claim that we bound lost its volume");
            }
        }
    }
}
