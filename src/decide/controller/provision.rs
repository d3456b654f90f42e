//! Having a volume made for a claim that nothing fits.
//!
//! Answers to upstream's `provisionClaim`, `findProvisionablePlugin`, `provisionClaimOperation` and
//! `provisionClaimOperationExternal`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{operation, reclaim};
use crate::cluster::{Cluster, Key, Object};
use crate::decide::plugin::{Answer, Call, Failure, Plugin, Wanted};
use crate::decide::write::{ClaimIdentity, reference};
use crate::decide::{Action, Event, Operation, Plan, Reads, Reason, Settings, Write};
use crate::objects::{Claim, Class, Volume, annotations, claim, name, translation, uid, volume};

/// Who would make the volumes of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum Provisioner {
    /// An external program of this name.
    External(String),
    /// An in-tree plugin.
    Plugin(Plugin),
    /// Nobody: there is no such in-tree plugin.
    Missing,
}

/// Who makes the volumes of a class with this provisioner.
#[must_use]
pub fn provisioner(settings: &Settings, name: &str) -> Provisioner {
    if let Some(driver) = translation::driver_among(settings.drivers, name) {
        return Provisioner::External(driver.to_owned());
    }
    match settings.plugins.iter().find(|plugin| plugin.name == name && plugin.provisions) {
        Some(plugin) => Provisioner::Plugin(*plugin),
        None if name.starts_with(annotations::IN_TREE_PREFIX) => Provisioner::Missing,
        None => Provisioner::External(name.to_owned()),
    }
}

/// Decides whether a volume can be made for the claim, and starts it.
pub fn provision(
    cluster: &Cluster,
    settings: &Settings,
    key: &Key,
    claim: &Arc<Claim>,
    plan: &mut Plan,
) -> Reason {
    if !settings.provisioning {
        return Reason::ProvisioningDisabled { claim: key.clone() };
    }
    let name = claim::class(claim).to_owned();
    let Some(class) = cluster.class(&name) else {
        let message = format!("storageclass.storage.k8s.io {name:?} not found");
        plan.emit(Event::warning(key, "ProvisioningFailed", message));
        return Reason::ClassNotFound { claim: key.clone(), class: name };
    };
    match provisioner(settings, &class.provisioner) {
        Provisioner::External(_) | Provisioner::Plugin(_) => {
            plan.actions.push(Action::Start(Operation::Provision(key.clone())));
            Reason::WaitForProvisioner { claim: key.clone(), class: name }
        }
        Provisioner::Missing => {
            let message = format!("no volume plugin matched name: {}", class.provisioner);
            plan.emit(Event::warning(key, "ProvisioningFailed", message));
            let provisioner = class.provisioner.clone();
            Reason::NoProvisioner { claim: key.clone(), class: name, provisioner }
        }
    }
}

/// The next step of the operation.
#[must_use]
pub fn operate(cluster: &Cluster, settings: &Settings, key: &Key, reads: &Reads) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(claim) = cluster.claim(key) else { return plan };
    let name = claim::class(claim).to_owned();
    let Some(class) = cluster.class(&name) else {
        plan.reason = Reason::ClassNotFound { claim: key.clone(), class: name };
        return plan;
    };
    plan.reason = Reason::WaitForProvisioner { claim: key.clone(), class: name };
    match provisioner(settings, &class.provisioner) {
        Provisioner::External(provisioner) => ask(&mut plan, settings, key, claim, provisioner),
        Provisioner::Plugin(plugin) => {
            name_provisioner(&mut plan, settings, key, claim, class.provisioner.clone());
            make(&mut plan, &plugin, cluster, key, claim, class, reads);
        }
        Provisioner::Missing => {
            let provisioner = class.provisioner.clone();
            let class = claim::class(claim).to_owned();
            plan.reason = Reason::NoProvisioner { claim: key.clone(), class, provisioner };
        }
    }
    plan
}

fn name_provisioner(
    plan: &mut Plan,
    settings: &Settings,
    key: &Key,
    claim: &Arc<Claim>,
    provisioner: String,
) {
    let write = Write::SetProvisioner { claim: key.clone(), provisioner, drivers: settings.drivers };
    plan.write(&Object::Claim(claim.clone()), write);
}

/// Names the external provisioner on the claim, and says what is waited for.
fn ask(plan: &mut Plan, settings: &Settings, key: &Key, claim: &Arc<Claim>, provisioner: String) {
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    name_provisioner(plan, settings, key, claim, provisioner);
    plan.emit(Event::normal(key, "ExternalProvisioning", message));
}

/// Has the volume made by an in-tree plugin, once the API server has said that it is not there yet.
fn make(
    plan: &mut Plan,
    plugin: &Plugin,
    cluster: &Cluster,
    key: &Key,
    claim: &Arc<Claim>,
    class: &Arc<Class>,
    reads: &Reads,
) {
    let volume_key = operation::volume_key(uid(&claim.metadata));
    let node_key = claim::selected_node(claim).map(Key::node);
    if cluster.volume(&volume_key).is_some() {
        return;
    }
    let unread = |key: &&Key| !reads.contains_key(*key);
    let unread: Vec<&Key> =
        [Some(&volume_key), node_key.as_ref()].into_iter().flatten().filter(unread).collect();
    if !unread.is_empty() {
        plan.actions.extend(unread.into_iter().cloned().map(Action::Read));
        return;
    }
    if reads.get(&volume_key).is_some_and(Option::is_some) {
        return;
    }
    if claim.spec.as_ref().is_some_and(|s| s.data_source.is_some()) {
        let why = "is not a CSI plugin. Only CSI plugin can provision a claim with a datasource";
        return fail(plan, key, format!("plugin {:?} {why}", plugin.name));
    }
    let options = class.mount_options.as_deref().unwrap_or_default();
    if !plugin.mount_options && !options.is_empty() {
        let (class, options) = (name(&class.metadata), options.join(" "));
        let why = "Mount options are not supported by the provisioner but StorageClass";
        return fail(plan, key, format!("{why} {class:?} has mount options [{options}]"));
    }
    let node = node_key.as_ref().and_then(|node| reads.get(node)).and_then(Option::as_ref);
    let node = node.and_then(Object::as_node).cloned();
    if let Some(missing) = node_key.filter(|_| node.is_none()) {
        // Upstream stops here for ever; the scheduler can only choose again once the choice is taken back.
        reschedule(plan, key, claim);
        return fail(plan, key, format!("Failed to get target node: node {:?} not found", missing.name()));
    }
    let wanted = Wanted {
        plugin: plugin.name,
        name: volume_key.name().to_owned(),
        claim: claim.clone(),
        class: class.clone(),
        node,
    };
    plan.actions.push(Action::Ask(Call::Provision(Box::new(wanted))));
}

/// Says why no volume was made, and has it tried again after a pause.
fn fail(plan: &mut Plan, key: &Key, message: String) {
    plan.emit(Event::warning(key, "ProvisioningFailed", message));
    plan.actions.push(Action::BackOff);
}

/// Lets the scheduler choose another node for the claim's pod.
fn reschedule(plan: &mut Plan, key: &Key, claim: &Arc<Claim>) {
    plan.write(&Object::Claim(claim.clone()), Write::SelectNode { claim: key.clone(), node: None });
}

/// What follows when the plugin has made a volume, or has not.
#[must_use]
pub fn made(cluster: &Cluster, key: &Key, wanted: &Wanted, answer: Answer) -> Plan {
    let class = name(&wanted.class.metadata).to_owned();
    let mut plan = Plan::nothing(Reason::WaitForProvisioner { claim: key.clone(), class: class.clone() });
    match answer {
        Ok(volume) => {
            let Some(volume) = volume else { return plan };
            let volume = completed(Volume::clone(&volume), wanted);
            let (plugin, volume_key) = (wanted.plugin, Key::volume(name(&volume.metadata)));
            let message = format!("Successfully provisioned volume {} using {plugin}", volume_key.name());
            plan.push(Write::CreateVolume { volume: volume_key, object: Arc::new(volume) });
            plan.emit(Event::normal(key, "ProvisioningSucceeded", message));
        }
        Err(Failure::Setup(why)) => fail(&mut plan, key, format!("Failed to create provisioner: {why}")),
        Err(Failure::Failed(why) | Failure::InUse(why)) => {
            if let Some(claim) = cluster.claim(key) {
                reschedule(&mut plan, key, claim);
            }
            fail(&mut plan, key, format!("Failed to provision volume with StorageClass {class:?}: {why}"));
        }
    }
    plan
}

/// The volume that a plugin made, bound to its claim from the start.
fn completed(mut volume: Volume, wanted: &Wanted) -> Volume {
    let meta = &mut volume.metadata;
    if name(meta).is_empty() {
        meta.name = Some(wanted.name.clone());
    }
    let marks = [(annotations::BOUND_BY_CONTROLLER, "yes"), (annotations::PROVISIONED_BY, wanted.plugin)];
    let annotations = meta.annotations.get_or_insert_with(BTreeMap::new);
    annotations.extend(marks.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let spec = volume.spec.get_or_insert_default();
    spec.claim_ref = Some(reference(&ClaimIdentity::of(&wanted.claim)));
    spec.storage_class_name = Some(claim::class(&wanted.claim).to_owned());
    volume.status.get_or_insert_default().phase = Some(volume::BOUND.to_owned());
    if volume::reclaim_policy(&volume) == volume::DELETE {
        volume.metadata.finalizers = Some(vec![annotations::IN_TREE_FINALIZER.to_owned()]);
    }
    volume
}

/// What follows when the volume could not be saved.
#[must_use]
pub fn unsaved(settings: &Settings, key: &Key, volume: &Arc<Volume>, why: &str) -> Plan {
    let class = volume::class(volume).to_owned();
    let mut plan = Plan::nothing(Reason::WaitForProvisioner { claim: key.clone(), class });
    let message =
        format!("Error creating provisioned PV object for claim {}: {why}. Deleting the volume.", key.path());
    plan.emit(Event::warning(key, "ProvisioningFailed", message));
    let made_by = volume::provisioned_by(volume);
    if let Some(plugin) = settings.plugins.iter().find(|plugin| Some(plugin.name) == made_by) {
        let call = Call::CleanUp { plugin: plugin.name, volume: volume.clone() };
        plan.actions.push(Action::Ask(call));
    }
    plan
}

/// What follows when the storage of a volume that could not be saved was deleted, or was not.
#[must_use]
pub fn cleaned_up(key: &Key, volume: &Volume, answer: Answer) -> Plan {
    let class = volume::class(volume).to_owned();
    let mut plan = Plan::nothing(Reason::WaitForProvisioner { claim: key.clone(), class });
    if let Err(failure) = answer {
        let why = reclaim::described(name(&volume.metadata), failure);
        let message = format!(
            "Error cleaning provisioned volume for claim {}: {why}. Please delete manually.",
            key.path()
        );
        plan.emit(Event::warning(key, "ProvisioningCleanupFailed", message));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::plugin;
    use serde_json::{from_value, json};

    #[test]
    fn a_node_that_is_gone_is_chosen_no_longer() {
        let class = json!({"metadata": {"name": "s"}, "provisioner": plugin::HOST_PATH.name});
        let claim = json!({
            "metadata": {
                "namespace": "default", "name": "c", "uid": "u", "resourceVersion": "1",
                "annotations": {annotations::SELECTED_NODE: "gone"},
            },
            "spec": {"storageClassName": "s", "accessModes": ["ReadWriteOnce"]},
        });
        let mut cluster = Cluster::new();
        cluster.show(Object::from(from_value::<Class>(class).unwrap()));
        cluster.show(Object::from(from_value::<Claim>(claim).unwrap()));
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        let (key, volume, node) = (Key::claim("default", "c"), Key::volume("pvc-u"), Key::node("gone"));
        let asks = operate(&cluster, &settings, &key, &Reads::new()).actions;
        assert_eq!(asks[1..], [Action::Read(volume.clone()), Action::Read(node.clone())]);
        let plan = operate(&cluster, &settings, &key, &Reads::from([(volume, None), (node, None)]));
        assert!(plan.writes().any(|write| *write == Write::SelectNode { claim: key.clone(), node: None }));
        let why = "Failed to get target node: node \"gone\" not found";
        assert!(plan.actions.contains(&Action::Emit(Event::warning(&key, "ProvisioningFailed", why))));
        assert_eq!(plan.actions.last(), Some(&Action::BackOff));
    }
}
