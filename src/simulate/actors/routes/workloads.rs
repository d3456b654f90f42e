//! Which keys a change of a pod or of its controller makes due.

use super::{Keys, stored};
use crate::simulate::actors::call::{Kind, Name};
use crate::simulate::actors::family::{daemon_node, ordinal};
use crate::simulate::actors::key::Key;
use crate::simulate::actors::workloads;
use crate::simulate::actors::world::{Store, Watched, World, claims_of, controller, node_of};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

/// Wakes the controllers of a pod, by its reference and, for a `StatefulSet`, by its name.
fn wake_controllers(pod: &Pod, world: &World, keys: &mut Keys) {
    let name = Name::of(&pod.metadata);
    if let (Some((set, _)), Some(number)) = (name.name.rsplit_once('-'), ordinal(&name.name)) {
        let set = name.beside(set);
        if world.stateful_sets.contains_key(&set) {
            keys.insert(Key::StatefulSet(set.clone()));
            keys.insert(Key::Replica(set, number));
        }
    }
    let Some(owner) = controller(&pod.metadata) else { return };
    let at = name.beside(owner.name.clone());
    match owner.kind.as_str() {
        "ReplicaSet" => {
            if let Some(deployment) = world.replica_sets.get(&at).and_then(|r| controller(&r.metadata)) {
                keys.insert(Key::Deployment(at.beside(deployment.name.clone())));
            }
            keys.insert(Key::ReplicaSet(at));
        }
        "Job" => {
            keys.insert(Key::Job(at));
        }
        "DaemonSet" => {
            keys.insert(Key::Daemon(at.clone(), daemon_node(pod).to_owned()));
            keys.insert(Key::DaemonSet(at));
        }
        _ => {}
    }
}

impl Watched for Pod {
    stored!(Pod, pods);

    fn index(&self, world: &mut World, present: bool) {
        let name = Name::of(&self.metadata);
        world.family.count(self, present);
        let node = node_of(self).to_owned();
        let claims: Vec<_> = claims_of(self).map(|(_, claim)| claim).collect();
        if present {
            world.pods_on_node.insert(node, name.clone());
            for claim in claims {
                world.pods_of_claim.insert(claim, name.clone());
            }
        } else {
            world.pods_on_node.remove(&node, &name);
            for claim in &claims {
                world.pods_of_claim.remove(claim, &name);
            }
        }
    }

    fn arrive(&self, world: &mut World) {
        world.family.greet(self);
    }

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        for pod in old.into_iter().chain(new) {
            wake_controllers(pod, world, keys);
            for (_, claim) in claims_of(pod) {
                if world.claims.get(&claim).is_some_and(|c| c.metadata.deletion_timestamp.is_some()) {
                    keys.insert(Key::ClaimProtection(claim));
                }
            }
        }
        let Some(new) = new else { return };
        let name = Name::of(&new.metadata);
        keys.insert(Key::Kubelet(name.clone()));
        if old.is_none_or(|old| old.metadata.uid != new.metadata.uid) {
            keys.insert(Key::Ephemeral(name));
        }
    }
}

impl Watched for StatefulSet {
    stored!(StatefulSet, stateful_sets);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        let Some(new) = new else { return };
        let name = Name::of(&new.metadata);
        keys.insert(Key::StatefulSet(name.clone()));
        let same = old.is_some_and(|old| {
            old.spec == new.spec && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        });
        if same {
            return;
        }
        let existing =
            world.family.tally(new.metadata.uid.as_ref()).into_iter().flat_map(|t| t.ordinals.keys());
        // In an ordered set a replica that is not there yet waits for its turn.
        let wanted = workloads::unordered(new);
        keys.extend(existing.copied().chain(wanted).map(|number| Key::Replica(name.clone(), number)));
    }
}

impl Watched for Deployment {
    stored!(Deployment, deployments);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(_old: Option<&Self>, new: Option<&Self>, _world: &World, keys: &mut Keys) {
        keys.extend(new.map(|new| Key::Deployment(Name::of(&new.metadata))));
    }
}

impl Watched for ReplicaSet {
    stored!(ReplicaSet, replica_sets);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(old: Option<&Self>, new: Option<&Self>, _world: &World, keys: &mut Keys) {
        keys.extend(new.map(|new| Key::ReplicaSet(Name::of(&new.metadata))));
        for set in old.into_iter().chain(new) {
            if let Some(owner) = controller(&set.metadata) {
                keys.insert(Key::Deployment(Name::of(&set.metadata).beside(owner.name.clone())));
            }
        }
    }
}

impl Watched for DaemonSet {
    stored!(DaemonSet, daemon_sets);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(old: Option<&Self>, new: Option<&Self>, world: &World, keys: &mut Keys) {
        let Some(new) = new else { return };
        let name = Name::of(&new.metadata);
        keys.insert(Key::DaemonSet(name.clone()));
        if old.is_none_or(|old| old.spec != new.spec) {
            keys.extend(world.nodes.keys().map(|node| Key::Daemon(name.clone(), node.name.clone())));
        }
    }
}

impl Watched for Job {
    stored!(Job, jobs);

    fn index(&self, _world: &mut World, _present: bool) {}

    fn wake(_old: Option<&Self>, new: Option<&Self>, _world: &World, keys: &mut Keys) {
        keys.extend(new.map(|new| Key::Job(Name::of(&new.metadata))));
    }
}
