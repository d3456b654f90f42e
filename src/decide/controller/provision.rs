//! Having a volume made for a claim that nothing fits.
//!
//! Answers to upstream's `provisionClaim`, `findProvisionablePlugin` and `provisionClaimOperationExternal`.

use std::sync::Arc;

use crate::cluster::{Cluster, Key, Object};
use crate::decide::{Action, Event, Operation, Plan, Reason, Settings, Write};
use crate::objects::{Claim, annotations, claim, translation};

/// Who would make the volumes of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provisioner {
    /// An external program of this name.
    External(String),
    /// Nobody: there is no such in-tree plugin.
    Missing,
}

/// Who makes the volumes of a class with this provisioner.
#[must_use]
pub fn provisioner(name: &str) -> Provisioner {
    match translation::driver_of(name) {
        Some(driver) => Provisioner::External(driver.to_owned()),
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
    match provisioner(&class.provisioner) {
        Provisioner::External(_) => {
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

/// What the operation does: names the provisioner on the claim and says what is waited for.
#[must_use]
pub fn operate(cluster: &Cluster, key: &Key) -> Plan {
    let mut plan = Plan::nothing(Reason::Gone);
    let Some(claim) = cluster.claim(key) else { return plan };
    let name = claim::class(claim).to_owned();
    let Some(class) = cluster.class(&name) else {
        plan.reason = Reason::ClassNotFound { claim: key.clone(), class: name };
        return plan;
    };
    let Provisioner::External(provisioner) = provisioner(&class.provisioner) else {
        let provisioner = class.provisioner.clone();
        plan.reason = Reason::NoProvisioner { claim: key.clone(), class: name, provisioner };
        return plan;
    };
    plan.reason = Reason::WaitForProvisioner { claim: key.clone(), class: name };
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    plan.write(&Object::Claim(claim.clone()), Write::SetProvisioner { claim: key.clone(), provisioner });
    plan.emit(Event::normal(key, "ExternalProvisioning", message));
    plan
}
