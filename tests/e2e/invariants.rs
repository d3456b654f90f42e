//! What has to hold at the end of every scenario, whatever went wrong on the way.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::{name, text};
use crate::stage::Stage;
use crate::target::Program;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

impl Stage {
    /// Waits until the scenario's claims and volumes are whole, and asks the programs whether they stood in their own way.
    pub async fn check_invariants(&self) {
        let check = async || {
            let claims = self.list("PersistentVolumeClaim").await;
            let broken =
                broken(&claims, &self.volumes().await, &self.claims().into_iter().collect::<Vec<_>>());
            if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
        };
        self.until("claims and volumes are whole", check).await;
        for program in [Program::Controller, Program::Scheduler] {
            if let Some(metrics) = self.metrics(program).await {
                let conflicts = value(&metrics, "pvbind_self_conflicts_total");
                assert!(
                    conflicts.is_none_or(|count| count == 0.0),
                    "{program:?} met its own writes: {conflicts:?}"
                );
            }
        }
    }
}

/// The sum over all labels of a metric, if there is one.
pub fn value(metrics: &str, name: &str) -> Option<f64> {
    let lines = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    let values: Vec<f64> = lines.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// What is not as it has to be, in words.
fn broken(claims: &[Value], volumes: &[Value], expected: &[String]) -> Vec<String> {
    let mut broken = Vec::new();
    let by_name: BTreeMap<_, _> = volumes.iter().map(|volume| (name(volume), volume)).collect();
    for expected in expected {
        if !claims.iter().any(|claim| name(claim) == expected) {
            broken.push(format!("claim {expected} is gone"));
        }
    }
    let mut taken = BTreeMap::new();
    for claim in claims {
        let (claim_name, volume_name) = (name(claim), text(claim, "/spec/volumeName"));
        match text(claim, "/status/phase") {
            "Bound" => broken.extend(half(claim, by_name.get(volume_name).copied())),
            "Lost" => broken.push(format!("claim {claim_name} is lost")),
            _ if !claim["metadata"]["annotations"][BIND_COMPLETED].is_null() => {
                broken.push(format!("claim {claim_name} is bound, and its status does not say so"));
            }
            _ => continue,
        }
        if let Some(other) = taken.insert(volume_name, claim_name) {
            broken.push(format!("volume {volume_name} is bound by {other} and by {claim_name}"));
        }
    }
    for volume in volumes {
        broken.extend(reserved_for_nobody(volume, claims));
    }
    broken
}

/// What is missing of a bound pair.
fn half(claim: &Value, volume: Option<&Value>) -> Option<String> {
    let claim_name = name(claim);
    let Some(volume) = volume else { return Some(format!("claim {claim_name} is bound to no volume")) };
    let at = |pointer| text(volume, pointer);
    let whole = at("/spec/claimRef/name") == claim_name
        && at("/spec/claimRef/uid") == text(claim, "/metadata/uid")
        && at("/status/phase") == "Bound"
        && !claim["metadata"]["annotations"][BIND_COMPLETED].is_null();
    (!whole)
        .then(|| format!("claim {claim_name} and volume {} are half a pair: {claim} {volume}", name(volume)))
}

/// Whether a volume is kept from others for a claim that does not have it, though its status does not say that it is over.
fn reserved_for_nobody(volume: &Value, claims: &[Value]) -> Option<String> {
    let reference = volume.pointer("/spec/claimRef")?;
    let over = matches!(text(volume, "/status/phase"), "Released" | "Failed");
    let uid = text(reference, "/uid");
    let owner = claims.iter().find(|claim| name(claim) == text(reference, "/name"));
    // Whoever reserved a volume for a claim of a name, of any uid, wants it to wait for that claim.
    let waits = uid.is_empty() && owner.is_none();
    let has_it = owner.is_some_and(|claim| {
        text(claim, "/metadata/uid") == uid && text(claim, "/spec/volumeName") == name(volume)
    });
    let held = !volume["metadata"]["deletionTimestamp"].is_null();
    (!over && !waits && !has_it && !held)
        .then(|| format!("volume {} is kept for nobody: {volume}", name(volume)))
}
