//! What a record asks and what it is answered, in words, for its snapshot.

use std::fmt::Write as _;

use pvbind::cluster::PodVolumes;
use pvbind::objects::{Claim, Node, Pod, Volume, claim, name, namespace, pod, volume};

use crate::record::State;

/// Lines of text.
#[derive(Default)]
pub struct Story(String);

impl Story {
    /// One line.
    pub fn line(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{line}");
    }

    /// What the binder sees of claims and volumes.
    pub fn state(&mut self, state: &State) {
        for volume in &state.volumes {
            self.line(format_args!("volume {}", told(volume)));
        }
        for volume in &state.assumed_volumes {
            self.line(format_args!("assumed volume {}", told(volume)));
        }
        for claim in &state.claims {
            self.line(format_args!("claim {}", told_claim(claim)));
        }
        for claim in &state.assumed_claims {
            self.line(format_args!("assumed claim {}", told_claim(claim)));
        }
    }

    /// The pod and the claims that it uses.
    pub fn pod(&mut self, pod: &Pod) {
        let claims: Vec<String> = pod::claims(pod)
            .map(|used| if used.ephemeral { format!("{} (ephemeral)", used.claim) } else { used.claim })
            .collect();
        self.line(format_args!("pod {} uses [{}]", path(&pod.metadata), claims.join(", ")));
    }

    /// The node with its labels.
    pub fn node(&mut self, node: &Node) {
        let labels = node.metadata.labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = labels.collect();
        self.line(format_args!("node {} [{}]", name(&node.metadata), labels.join(", ")));
    }

    /// What a pod's claims get.
    pub fn volumes(&mut self, volumes: &PodVolumes) {
        for binding in &volumes.bindings {
            self.line(format_args!("-> bind {} to {}", binding.claim_key().path(), told(&binding.volume)));
        }
        for provision in &volumes.provisions {
            let capacity = provision.capacity.as_ref().map(|capacity| name(&capacity.metadata));
            let from = capacity.map(|name| format!(" from {name}")).unwrap_or_default();
            self.line(format_args!("-> make {}{from}", told_claim(&provision.claim)));
        }
    }

    pub fn text(self) -> String {
        self.0
    }
}

fn path(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    format!("{}/{}", namespace(meta), name(meta))
}

fn version(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    meta.resource_version.as_ref().map(|version| format!(" @{version}")).unwrap_or_default()
}

/// A volume in one line.
pub fn told(volume: &Volume) -> String {
    let reference = volume::claim_ref(volume).map(|reference| {
        let (namespace, name) = volume::referred(reference);
        format!(" for {namespace}/{name} ({})", volume::referred_uid(reference))
    });
    format!(
        "{}{} {} of class {:?}{} {}",
        name(&volume.metadata),
        version(&volume.metadata),
        volume::capacity_text(volume),
        volume::class(volume),
        reference.unwrap_or_default(),
        volume::phase(volume)
    )
}

/// A claim in one line.
pub fn told_claim(claim: &Claim) -> String {
    let mut text = format!(
        "{}{} asks for {} of class {:?}",
        path(&claim.metadata),
        version(&claim.metadata),
        claim::requested_text(claim),
        claim::class(claim)
    );
    if !claim::volume_name(claim).is_empty() {
        let _ = write!(text, ", names {}", claim::volume_name(claim));
    }
    if claim::is_bind_completed(claim) {
        text.push_str(", bound");
    }
    if let Some(node) = claim::selected_node(claim) {
        let _ = write!(text, ", node {node} selected");
    }
    text
}
