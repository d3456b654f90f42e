//! Having a volume made for a claim that nothing fits.
//!
//! Answers to upstream's `provisionClaim`, `findProvisionablePlugin`, `provisionClaimOperation` and
//! `provisionClaimOperationExternal`.

use std::sync::Arc;

use super::host_path;
use crate::cluster::{Cluster, Key, Object};
use crate::decide::{Action, Event, Operation, Plan, Reason, Settings, Write};
use crate::objects::{Claim, Class, annotations, claim, name, translation};

/// Who would make the volumes of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioner {
    /// An external program of this name.
    External(String),
    /// The in-tree hostPath plugin.
    HostPath,
    /// Nobody: there is no such in-tree plugin.
    Missing,
}

/// Who makes the volumes of a class with this provisioner.
#[must_use]
pub fn provisioner(settings: &Settings, name: &str) -> Provisioner {
    match translation::driver_of(name) {
        Some(driver) => Provisioner::External(driver.to_owned()),
        None if name == host_path::PLUGIN && settings.host_path => Provisioner::HostPath,
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
        Provisioner::External(_) | Provisioner::HostPath => {
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

/// What the operation does.
#[must_use]
pub fn operate(cluster: &Cluster, settings: &Settings, key: &Key) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(claim) = cluster.claim(key) else { return plan };
    let name = claim::class(claim).to_owned();
    let Some(class) = cluster.class(&name) else {
        plan.reason = Reason::ClassNotFound { claim: key.clone(), class: name };
        return plan;
    };
    plan.reason = Reason::WaitForProvisioner { claim: key.clone(), class: name };
    match provisioner(settings, &class.provisioner) {
        Provisioner::External(provisioner) => ask(&mut plan, key, claim, provisioner),
        Provisioner::HostPath => make(&mut plan, cluster, key, claim, class),
        Provisioner::Missing => {
            let provisioner = class.provisioner.clone();
            let class = claim::class(claim).to_owned();
            plan.reason = Reason::NoProvisioner { claim: key.clone(), class, provisioner };
        }
    }
    plan
}

/// Names the external provisioner on the claim, and says what is waited for.
fn ask(plan: &mut Plan, key: &Key, claim: &Arc<Claim>, provisioner: String) {
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    plan.write(&Object::Claim(claim.clone()), Write::SetProvisioner { claim: key.clone(), provisioner });
    plan.emit(Event::normal(key, "ExternalProvisioning", message));
}

/// Makes the volume with the in-tree plugin.
fn make(plan: &mut Plan, cluster: &Cluster, key: &Key, claim: &Arc<Claim>, class: &Class) {
    let fail = |plan: &mut Plan, message: String| {
        plan.emit(Event::warning(key, "ProvisioningFailed", message));
    };
    let plugin = host_path::PLUGIN;
    let class_name = name(&class.metadata);
    if claim.spec.as_ref().is_some_and(|s| s.data_source.is_some()) {
        let why = "is not a CSI plugin. Only CSI plugin can provision a claim with a datasource";
        return fail(plan, format!("plugin {plugin:?} {why}"));
    }
    let provisioner = class.provisioner.clone();
    plan.write(&Object::Claim(claim.clone()), Write::SetProvisioner { claim: key.clone(), provisioner });
    if let Some(options) = class.mount_options.as_ref().filter(|options| !options.is_empty()) {
        let options = options.join(" ");
        return fail(
            plan,
            format!(
                "Mount options are not supported by the provisioner but StorageClass {class_name:?} has mount options [{options}]"
            ),
        );
    }
    match host_path::provision(claim, class) {
        Err(why) => fail(plan, failed(class_name, &why)),
        Ok((volume, storage)) => {
            let volume_key = Key::volume(name(&volume.metadata));
            if cluster.volume(&volume_key).is_some() {
                return;
            }
            plan.actions.push(Action::Storage(storage));
            let message = format!("Successfully provisioned volume {} using {plugin}", volume_key.name());
            plan.push(Write::CreateVolume { volume: volume_key, object: Arc::new(volume) });
            plan.emit(Event::normal(key, "ProvisioningSucceeded", message));
        }
    }
}

fn failed(class: &str, why: &str) -> String {
    format!("Failed to provision volume with StorageClass {class:?}: {why}")
}

/// What follows when the plugin could not make the storage: the scheduler may choose another node.
#[must_use]
pub fn storage_failed(cluster: &Cluster, key: &Key, why: &str) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(claim) = cluster.claim(key) else { return plan };
    let class = claim::class(claim).to_owned();
    plan.write(&Object::Claim(claim.clone()), Write::SelectNode { claim: key.clone(), node: None });
    plan.emit(Event::warning(key, "ProvisioningFailed", failed(&class, why)));
    plan.reason = Reason::WaitForProvisioner { claim: key.clone(), class };
    plan
}
