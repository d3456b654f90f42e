//! A simulation of the manifests of a case, and questions about how it ended.

use std::path::PathBuf;

use pvbind::decide::{Settings, plugin};
use pvbind::manifest;
use pvbind::simulate::report::{Claim, Event, Reason, Report, Volume};
use pvbind::simulate::{Input, simulate};
use serde_json::Value;

fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/cases").join(file)
}

/// How a simulation ended.
pub struct Ended(pub Report);

fn ended(file: &str, then: &[&str], strict: bool) -> Ended {
    let loaded = manifest::load(&[path(file)], "default", std::io::empty).expect("good manifests");
    let stages = then.iter().map(|file| manifest::load_stage(&path(file), "default").expect("a good stage"));
    let stages = stages.collect();
    let settings = Settings { strict, plugins: plugin::PROVISIONING, ..Settings::default() };
    let report = simulate(Input { loaded, stages, settings, limit: None }).expect("the server takes it");
    assert!(report.settled, "{file} never settles");
    Ended(report)
}

/// Simulates a file of `testdata/cases`.
pub fn simulated(file: &str) -> Ended {
    ended(file, &[], false)
}

/// The same, strictly.
pub fn simulated_strictly(file: &str) -> Ended {
    ended(file, &[], true)
}

/// Simulates a file and what comes after it.
pub fn simulated_then(file: &str, then: &str) -> Ended {
    ended(file, &[then], false)
}

impl Ended {
    pub fn claim(&self, name: &str) -> &Claim {
        self.0.claims.iter().find(|claim| claim.name == name).expect("the claim is there")
    }

    pub fn volume(&self, name: &str) -> &Volume {
        self.0.volumes.iter().find(|volume| volume.name == name).expect("the volume is there")
    }

    /// Phase and volume of a claim.
    pub fn state(&self, claim: &str) -> (&str, &str) {
        let claim = self.claim(claim);
        (&claim.phase, &claim.volume)
    }

    /// Phase and claim of a volume.
    pub fn volume_state(&self, volume: &str) -> (&str, &str) {
        let volume = self.volume(volume);
        (&volume.phase, &volume.claim)
    }

    /// The node of a pod; empty while it is on none.
    pub fn node(&self, pod: &str) -> &str {
        &self.0.pods.iter().find(|found| found.name == pod).expect("the pod is there").node
    }

    /// What was told of a pod that could not be placed.
    pub fn refusals(&self, pod: &str) -> Vec<&str> {
        let events = self.events(&format!("Pod/default/{pod}"));
        let refusals = events.into_iter().filter(|event| event.reason == "FailedScheduling");
        refusals.map(|event| event.message.as_str()).collect()
    }

    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let is_meant = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.0.objects.iter().find(is_meant).expect("the object is there")
    }

    /// The events about one object.
    pub fn events(&self, regarding: &str) -> Vec<&Event> {
        self.0.events.iter().filter(|event| event.regarding == regarding).collect()
    }

    /// The text of the one event about the claim that has this type and reason.
    #[track_caller]
    pub fn told(&self, claim: &str, kind: &str, reason: &str) -> &str {
        let events = self.events(&format!("PersistentVolumeClaim/default/{claim}"));
        let found: Vec<_> =
            events.iter().filter(|event| event.kind == kind && event.reason == reason).collect();
        assert_eq!(found.len(), 1, "{kind} {reason} on {claim}: {events:?}");
        &found[0].message
    }

    /// No event about the claim is a warning.
    #[track_caller]
    pub fn is_calm(&self, claim: &str) {
        let events = self.events(&format!("PersistentVolumeClaim/default/{claim}"));
        assert!(events.iter().all(|event| event.kind == "Normal"), "{events:?}");
    }
}

pub fn codes(reasons: &[Reason]) -> Vec<&str> {
    reasons.iter().map(|reason| reason.code.as_str()).collect()
}
