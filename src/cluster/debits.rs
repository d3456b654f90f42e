//! What volumes that are being made take from the storage that drivers report, until the drivers have reported since.
//!
//! A claim for which a node is selected is promised its size, booked on one report: the first that its node can use and
//! that has room for it, else the first. The promise outlives the binding of the claim: it ends with the first report
//! that is newer than the one that stood when the volume was first seen, or with the volume. Versions are what tells: a
//! clock would have to be read, and what a figure was worth at some hour is nowhere to be found. Where a report that is
//! newer than the volume has been seen before the volume, and where a report falls by what was promised before the volume is
//! seen at all, that report counts as the one. It goes by what claims say, not by which pods are about to run: a
//! restart, a pod that is gone and another scheduler make no difference. It never says whether there is room. Upstream has
//! no such thing: there each claim is compared with the whole.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, Key, Object};
use crate::objects::quantity::Amount;
use crate::objects::{Capacity, Claim, annotations, capacity, claim, volume};

/// What is promised to one claim.
#[derive(Clone, Debug)]
struct Debit {
    /// The place in the order of promises.
    number: u64,
    wanted: Wanted,
    /// The report that it is booked on.
    on: Option<Key>,
    /// Whether that report has fallen by it.
    is_reported: bool,
    /// The volume, once it is there, and the version of the report that stood then.
    made: Option<(Key, u64)>,
}

/// What a volume is to be made of, and for which node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    class: String,
    node: String,
    size: Amount,
}

/// How far a claim is.
enum State {
    /// A volume is to be made.
    Awaited(Wanted),
    /// This volume has been made.
    Made(Key),
    /// Neither.
    Other,
}

/// What is booked on one report.
#[derive(Clone, Debug, Default)]
struct Booked {
    sum: Amount,
    /// The claims, in the order of promises.
    claims: BTreeSet<(u64, Key)>,
}

/// All that is promised.
#[derive(Clone, Debug, Default)]
pub struct Debits {
    claims: BTreeMap<Key, Debit>,
    booked: BTreeMap<Key, Booked>,
    /// The claims that are booked nowhere.
    homeless: BTreeSet<Key>,
    by_volume: BTreeMap<Key, BTreeSet<Key>>,
    next: u64,
    /// The reports of which less has become promised by the change that is being taken into account.
    relieved: BTreeSet<Key>,
}

impl Debits {
    /// What is promised of what a driver reports.
    #[must_use]
    pub fn on(&self, report: &Key) -> Amount {
        self.booked.get(report).map_or(Amount::ZERO, |booked| booked.sum)
    }

    /// The claims to which it is promised, in the order in which it was.
    pub fn claims_on(&self, report: &Key) -> impl Iterator<Item = &Key> {
        let claims = self.booked.get(report).into_iter().flat_map(|booked| &booked.claims);
        claims.map(|(_, claim)| claim).filter(|claim| !self.claims[*claim].is_reported)
    }

    /// What is promised to a claim, and of what.
    #[must_use]
    pub fn of(&self, claim: &Key) -> Option<(&Key, Amount)> {
        let debit = self.claims.get(claim).filter(|debit| !debit.is_reported)?;
        Some((debit.on.as_ref()?, debit.wanted.size))
    }

    /// Books what a claim is promised on a report, or on none.
    fn book(&mut self, claim: &Key, on: Option<Key>) {
        let Some(debit) = self.claims.get_mut(claim) else { return };
        match &on {
            Some(report) => {
                let booked = self.booked.entry(report.clone()).or_default();
                booked.sum = booked.sum + debit.wanted.size;
                booked.claims.insert((debit.number, claim.clone()));
                self.homeless.remove(claim);
            }
            None => drop(self.homeless.insert(claim.clone())),
        }
        debit.on = on;
    }

    /// Takes a promise off the report that it is booked on.
    fn unbook(&mut self, claim: &Key) {
        let Some(debit) = self.claims.get_mut(claim) else { return };
        self.homeless.remove(claim);
        let Some(report) = debit.on.take() else { return };
        let Some(booked) = self.booked.get_mut(&report) else { return };
        if !std::mem::take(&mut debit.is_reported) {
            booked.sum = booked.sum - debit.wanted.size;
            self.relieved.insert(report.clone());
        }
        booked.claims.remove(&(debit.number, claim.clone()));
        if booked.claims.is_empty() {
            self.booked.remove(&report);
        }
    }

    /// Ends a promise, if there is one.
    fn end(&mut self, claim: &Key) {
        self.unbook(claim);
        let Some(debit) = self.claims.remove(claim) else { return };
        if let Some((volume, _)) = &debit.made {
            self.forget_volume(volume, claim);
        }
    }

    fn forget_volume(&mut self, volume: &Key, claim: &Key) {
        if let Some(claims) = self.by_volume.get_mut(volume) {
            claims.remove(claim);
            if claims.is_empty() {
                self.by_volume.remove(volume);
            }
        }
    }

    /// Takes note of the volume that was made for a claim, once.
    fn make(&mut self, claim: &Key, volume: &Key, version: u64) {
        let Some(debit) = self.claims.get_mut(claim) else { return };
        if debit.made.as_ref().is_some_and(|(made, _)| made == volume) {
            return;
        }
        let before = debit.made.replace((volume.clone(), version));
        if let Some((before, _)) = before {
            self.forget_volume(&before, claim);
        }
        self.by_volume.entry(volume.clone()).or_default().insert(claim.clone());
    }

    /// Ends what a new report has in it: what was made before it and, of what it has fallen by beyond that, what was
    /// promised first.
    fn settle(&mut self, report: &Key, version: u64, fallen_by: Amount) {
        let Some(booked) = self.booked.get(report) else { return };
        let (mut left, claims) = (fallen_by, booked.claims.clone());
        for (_, claim) in &claims {
            let made = self.claims.get(claim).and_then(|debit| debit.made.as_ref());
            if made.is_some_and(|(_, since)| *since < version) {
                let debit = &self.claims[claim];
                let size = if debit.is_reported { Amount::ZERO } else { debit.wanted.size };
                left = left - size;
                self.end(claim);
            }
        }
        for (_, claim) in &claims {
            let Some(debit) = self.claims.get_mut(claim).filter(|debit| !debit.is_reported) else { continue };
            if debit.wanted.size <= left {
                left = left - debit.wanted.size;
                debit.is_reported = true;
                if let Some(booked) = self.booked.get_mut(report) {
                    booked.sum = booked.sum - debit.wanted.size;
                }
            }
        }
    }
}

/// How far the claim is.
fn state(cluster: &Cluster, key: &Key, claim: &Claim) -> State {
    let made = cluster.volumes_for(key).find(|(_, volume)| volume::is_for(volume, claim));
    if let Some((volume_key, volume)) = made {
        let is_made = volume::provisioned_by(volume).is_some();
        return if is_made { State::Made(volume_key.clone()) } else { State::Other };
    }
    if claim::is_fully_bound(claim) {
        return State::Made(Key::volume(claim::volume_name(claim)));
    }
    match (claim::selected_node(claim), capacity::taken_by(claim)) {
        (Some(node), Some(size)) => {
            let class = claim::class(claim).to_owned();
            State::Awaited(Wanted { class, node: node.to_owned(), size })
        }
        _ => State::Other,
    }
}

/// Keeping the promises true.
impl Cluster {
    /// Takes a change of any object into account; returns the reports of which there is more for others now.
    pub(super) fn keep_debits(
        &mut self,
        key: &Key,
        before: Option<&Object>,
        after: Option<&Object>,
    ) -> BTreeSet<Key> {
        let promised = self.debits.on(key);
        self.keep(key, before, after);
        let mut relieved = std::mem::take(&mut self.debits.relieved);
        if let Some((before, after)) =
            before.and_then(Object::as_capacity).zip(after.and_then(Object::as_capacity))
        {
            let left = |report: &Capacity, promised| capacity::whole(report).map(|whole| whole - promised);
            // A report that falls by no less than what was promised of it has no more for others.
            if left(after, self.debits.on(key)) <= left(before, promised) {
                relieved.remove(key);
            }
        }
        relieved
    }

    fn keep(&mut self, key: &Key, before: Option<&Object>, after: Option<&Object>) {
        match (before, after) {
            (_, Some(Object::Claim(claim))) => self.claim_moves(key, &claim.clone()),
            (Some(Object::Claim(_)), None) => self.claim_goes(key),
            (Some(Object::Volume(_)), _) | (_, Some(Object::Volume(_))) => {
                self.volume_moves(key, before.into_iter().chain(after), after.is_none());
            }
            (before, Some(Object::Capacity(report))) => {
                let before = before.and_then(Object::as_capacity).and_then(|before| capacity::whole(before));
                let now = capacity::whole(report);
                let fallen_by = before.zip(now).map_or(Amount::ZERO, |(before, now)| before - now);
                let version = after.map_or(0, Object::version);
                self.debits.settle(key, version, fallen_by);
                let class = report.storage_class_name.clone();
                self.book_homeless(|wanted| wanted.class == class);
            }
            (Some(Object::Capacity(_)), None) => self.report_goes(key),
            (before, Some(Object::Node(node))) => {
                let before = before.and_then(Object::as_node).map(|before| &before.metadata.labels);
                if before != Some(&node.metadata.labels) {
                    self.book_homeless(|wanted| wanted.node == key.name());
                }
            }
            (None, Some(Object::Class(_))) => self.book_homeless(|wanted| wanted.class == key.name()),
            (_, Some(Object::CsiDriver(_))) => self.book_homeless(|_| true),
            _ => {}
        }
    }

    /// A volume appears, changes or goes, and with it what its claims wait for.
    fn volume_moves<'o>(&mut self, key: &Key, states: impl Iterator<Item = &'o Object>, is_gone: bool) {
        if is_gone {
            for claim in self.debits.by_volume.get(key).cloned().unwrap_or_default() {
                self.debits.end(&claim);
            }
        }
        let references =
            states.filter_map(|state| volume::claim_ref(state.as_volume()?).map(volume::referred));
        for (namespace, name) in references {
            let claim = Key::claim(namespace, name);
            if let Some(found) = self.claim(&claim).cloned() {
                self.claim_moves(&claim, &found);
            }
        }
    }

    fn claim_moves(&mut self, key: &Key, claim: &Claim) {
        let state = state(self, key, claim);
        let debit = self.debits.claims.get(key);
        match state {
            State::Other => self.debits.end(key),
            State::Awaited(wanted) => {
                if debit.is_some_and(|debit| debit.wanted == wanted && debit.made.is_none()) {
                    return;
                }
                self.debits.end(key);
                let number = self.debits.next;
                self.debits.next += 1;
                let report = self.report_for(&wanted);
                let debit = Debit { number, wanted, on: None, is_reported: false, made: None };
                self.debits.claims.insert(key.clone(), debit);
                self.debits.book(key, report);
            }
            State::Made(volume) => {
                let Some(on) = debit.map(|debit| debit.on.clone()) else { return };
                // Nobody reports where it was made.
                let Some(report) = on else { return self.debits.end(key) };
                let version = |key: &Key| self.known(key).map_or(0, Object::version);
                let (reported, made) = (version(&report), version(&volume));
                let has_it = made > 0 && reported > made;
                if has_it || debit.is_some_and(|debit| debit.is_reported) {
                    return self.debits.end(key);
                }
                self.debits.make(key, &volume, reported);
            }
        }
    }

    /// The claim is gone: what is made for it stays as long as its volume.
    fn claim_goes(&mut self, key: &Key) {
        let made = self.debits.claims.get(key).and_then(|debit| debit.made.as_ref());
        let stays = made.is_some_and(|(volume, _)| self.volume(volume).is_some());
        if !stays {
            self.debits.end(key);
        }
    }

    /// The report is gone: what has been made is told by the next one, the rest is booked elsewhere.
    fn report_goes(&mut self, key: &Key) {
        let claims = self.debits.booked.get(key).map(|booked| booked.claims.clone()).unwrap_or_default();
        for (_, claim) in &claims {
            let Some(debit) = self.debits.claims.get(claim) else { continue };
            if debit.made.is_some() {
                self.debits.end(claim);
                continue;
            }
            let wanted = debit.wanted.clone();
            self.debits.unbook(claim);
            let report = self.report_for(&wanted);
            self.debits.book(claim, report);
        }
    }

    fn book_homeless(&mut self, may_help: impl Fn(&Wanted) -> bool) {
        let of = |claim: &&Key| self.debits.claims.get(*claim).is_some_and(|debit| may_help(&debit.wanted));
        let claims: Vec<Key> = self.debits.homeless.iter().filter(of).cloned().collect();
        for claim in &claims {
            let report = self.debits.claims.get(claim).and_then(|debit| self.report_for(&debit.wanted));
            if report.is_some() {
                self.debits.book(claim, report);
            }
        }
    }

    /// The report from which a volume is to be made, if its driver reports at all.
    fn report_for(&self, wanted: &Wanted) -> Option<Key> {
        let class = self.class(&wanted.class)?;
        let makes = class.provisioner != annotations::NO_PROVISIONER;
        if !makes || !self.reports_capacity(&class.provisioner) {
            return None;
        }
        let node = self.node(&wanted.node)?;
        let has_room = |(key, report): &(&Key, &std::sync::Arc<Capacity>)| {
            capacity::holds(report, wanted.size, self.debits.on(key))
        };
        let mut reports = self.capacities_for(&wanted.class, node);
        let with_room = reports.find(has_room);
        with_room.or_else(|| self.capacities_for(&wanted.class, node).next()).map(|(key, _)| key.clone())
    }
}

#[cfg(test)]
mod tests;
