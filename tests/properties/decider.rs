//! The decider comes to rest in a state in which nothing is left to do, whatever happens on the way.

use proptest::prelude::*;
use pvbind::act::Roles;
use pvbind::cluster::{Key, Kind, Object};
use pvbind::decide::controller::operation;
use pvbind::decide::{self, Action, Operation, Plan, Reads, Reason, Settings, Write, binder};

use crate::check;
use crate::drive::{Drive, Troubles};
use crate::view::{check_indexes, view};
use crate::world::{World, cluster_of, worlds};

fn roles(schedules: bool) -> Roles {
    Roles { controller: true, scheduler: schedules.then_some(binder::Pods::All) }
}

fn driven(world: &World, schedules: bool, troubles: Troubles, seed: u64) -> Drive {
    let mut drive = Drive::new(world, roles(schedules), troubles, seed);
    drive.run();
    at_rest(&drive, schedules);
    drive
}

/// Nothing is under way, the cluster is as the API server has it, and no decision writes anything.
fn at_rest(drive: &Drive, schedules: bool) {
    let (decider, cluster) = (&drive.decider, drive.decider.cluster());
    let fails = decider.reasons().values().any(Reason::is_failure);
    assert!(decider.is_idle() || fails, "not idle: {:?}", decider.reasons());
    check_indexes(cluster);
    if cluster.assumptions().next().is_none() {
        let stored = view(&cluster_of(drive.server.objects.values()));
        let differing: Vec<_> =
            view(cluster).into_iter().zip(stored).filter(|(ours, theirs)| ours != theirs).collect();
        assert_eq!(differing, [], "the cluster is not as the API server has it");
    }
    for key in drive.server.objects.keys() {
        assert_eq!(cluster.known(key), drive.server.objects.get(key));
        assert_eq!(cluster.object(key), cluster.known(key), "something is still assumed of {key}");
        if let Object::Claim(claim) = &drive.server.objects[key]
            && claim.metadata.deletion_timestamp.is_some()
        {
            // It is offered no volume that becomes free, but takes one if it is decided about for another reason.
            continue;
        }
        for plan in plans(drive, key, schedules) {
            let mut writes = plan.writes().filter(|write| !retells(write, &drive.server.objects[key]));
            assert_eq!(writes.next(), None, "{key} was forgotten: {plan:?}");
        }
    }
}

/// Whether a pod that was told why it has no place would only be told otherwise: it is decided about again when something comes
/// or goes that may help it, and not when others take what would not have been enough for it. Upstream's waits likewise.
fn retells(write: &Write, stored: &Object) -> bool {
    let Object::Pod(pod) = stored else { return false };
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    matches!(write, Write::SetPodUnschedulable { .. })
        && conditions.any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
}

/// The first step of an operation that does more than read.
fn step(drive: &Drive, operation: &Operation) -> Plan {
    let (cluster, settings) = (drive.decider.cluster(), Settings::default());
    let mut reads = Reads::new();
    loop {
        let plan = operation::operate(cluster, &settings, operation, &reads);
        let wanted = plan.actions.iter().filter_map(|action| match action {
            Action::Read(key) => Some((key.clone(), drive.server.objects.get(key).cloned())),
            _ => None,
        });
        let read: Reads = wanted.collect();
        if read.is_empty() {
            return plan;
        }
        reads.extend(read);
    }
}

/// What would be decided now, operations included.
fn plans(drive: &Drive, key: &Key, schedules: bool) -> Vec<Plan> {
    let (cluster, settings) = (drive.decider.cluster(), Settings::default());
    if key.kind() == Kind::Pod {
        let plan = || binder::schedule(cluster, &settings, &binder::Pods::All, key);
        return schedules.then(plan).into_iter().collect();
    }
    let mut plan = decide::sync(cluster, &settings, key, &Reads::new());
    if let Some(Action::Read(read)) = plan.actions.last() {
        let reads = Reads::from([(read.clone(), drive.server.objects.get(read).cloned())]);
        plan = decide::sync(cluster, &settings, key, &reads);
    }
    let operations: Vec<Plan> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Start(operation) => Some(step(drive, operation)),
            _ => None,
        })
        .collect();
    operations.into_iter().chain([plan]).collect()
}

#[test]
fn without_other_writers_there_is_no_conflict() {
    check(200, &(worlds(), any::<bool>(), any::<u64>()), |(world, schedules, seed)| {
        let drive = driven(&world, schedules, Troubles { faults: 0, users: 0 }, seed);
        assert_eq!(drive.decider.counts().conflicts, 0);
    });
}

#[test]
fn failing_requests_and_late_events_lead_to_rest() {
    check(200, &(worlds(), any::<bool>(), 1usize..12, any::<u64>()), |(world, schedules, faults, seed)| {
        driven(&world, schedules, Troubles { faults, users: 0 }, seed);
    });
}

#[test]
fn users_who_delete_and_make_anew_lead_to_rest() {
    let troubles = (0usize..6, 1usize..8).prop_map(|(faults, users)| Troubles { faults, users });
    check(200, &(worlds(), any::<bool>(), troubles, any::<u64>()), |(world, schedules, troubles, seed)| {
        driven(&world, schedules, troubles, seed);
    });
}
