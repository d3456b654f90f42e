//! A case as a person reads it: what there was, what was decided and why, what came of it.

use std::fmt::Write as _;

use pvbind::cluster::{Key, Object};
use pvbind::decide::plugin::Call;
use pvbind::decide::{Action, Operation, Plan};
use pvbind::objects::{Claim, Volume, annotations, claim, volume};

use crate::check::Run;
use crate::record::{Placement, Record};

/// The text of a snapshot.
#[derive(Debug, Default)]
pub struct Story {
    text: String,
}

impl Story {
    /// Begins with what there was.
    pub fn of(record: &Record) -> Self {
        let mut story = Story::default();
        story.line("GIVEN");
        for (object, placement) in record.objects() {
            let place = match placement {
                Placement::Both => "",
                Placement::Api => "  (at the API server only)",
                Placement::Cache => "  (in the cache only)",
            };
            if let Some(line) = describe(&object) {
                story.line(&format!("  {line}{place}"));
            }
        }
        story.line("WHEN");
        story
    }

    pub fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A decision. One that changes nothing is told only once.
    pub fn plan(&mut self, key: &Key, plan: &Plan) {
        self.told(&format!("sync {key}"), plan);
    }

    pub fn operation(&mut self, operation: &Operation, plan: &Plan) {
        self.told(&format!("operation {} {}", operation.name(), operation.key()), plan);
    }

    fn told(&mut self, what: &str, plan: &Plan) {
        let mut part = String::new();
        let _ = writeln!(part, "  {what}: {} ({})", plan.reason.code(), plan.reason);
        for action in &plan.actions {
            let line = match action {
                Action::Write(write) => format!("write   {}", described_write(write)),
                Action::Emit(event) => {
                    format!(
                        "event   {} {} on {}: {}",
                        event.severity.as_str(),
                        event.reason,
                        event.regarding,
                        event.message
                    )
                }
                Action::Enqueue(key) => format!("enqueue {key}"),
                Action::Offer(key) => format!("offer   {key}"),
                Action::Start(operation) => format!("start   {} {}", operation.name(), operation.key()),
                Action::Read(key) => format!("read    {key}"),
                Action::Ask(call) => format!("ask     {} to {}", call.plugin(), asked(call)),
                Action::BackOff => "back off".to_owned(),
                other => format!("{other:?}"),
            };
            let _ = writeln!(part, "    {line}");
        }
        if !self.text.contains(&part) {
            self.text.push_str(&part);
        }
    }

    /// Ends with what came of it.
    pub fn result(&mut self, run: &Run) {
        self.line("THEN");
        for object in run.objects.values() {
            if let Some(line) = describe(object) {
                self.line(&format!("  {line}"));
            }
        }
        let writes = run.writes.len() + run.created.len() + run.deletes;
        self.line(&format!("  {writes} writes, {} reads", run.reads));
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

fn asked(call: &Call) -> String {
    let name = |volume: &Volume| volume.metadata.name.clone().unwrap_or_default();
    match call {
        Call::Provision(wanted) => {
            let node = wanted.node.as_ref().and_then(|node| node.metadata.name.as_deref());
            let node = node.map(|node| format!(" for node {node}")).unwrap_or_default();
            format!("make volume {} with {:?}{node}", wanted.name, wanted.class.parameters)
        }
        Call::Delete { volume, .. } => format!("delete the storage of volume {}", name(volume)),
        Call::CleanUp { volume, .. } => format!("clean up after volume {}", name(volume)),
        Call::Recycle { volume, .. } => format!("scrub volume {}", name(volume)),
    }
}

fn described_write(write: &pvbind::decide::Write) -> String {
    use pvbind::decide::Write;
    let what = match write {
        Write::ReserveVolume { claim, .. } => format!("spec.claimRef = {} {}", claim.key.path(), claim.uid),
        Write::UnbindVolume { .. } => "spec.claimRef rolled back".to_owned(),
        Write::SetVolumePhase { phase, message, .. } => format!("status.phase = {phase} {message}"),
        Write::AnnealVolume { migrated_to, finalizers, .. } => {
            format!("migrated-to = {migrated_to:?}, finalizers = {finalizers:?}")
        }
        Write::AnnealClaim { migrated_to, .. } => format!("migrated-to = {migrated_to:?}"),
        Write::BindClaim { volume, .. } => format!("spec.volumeName = {volume}, bind-completed"),
        Write::SetClaimStatus { phase, volume, .. } => match volume {
            Some(volume) => format!(
                "status = {phase}, {} {:?}",
                volume::capacity_text(volume),
                volume::access_modes(volume)
            ),
            None => format!("status = {phase}"),
        },
        Write::SetClaimClass { class, .. } => format!("spec.storageClassName = {class}"),
        Write::SetProvisioner { provisioner, .. } => format!("storage-provisioner = {provisioner}"),
        Write::SelectNode { node, .. } => format!("selected-node = {node:?}"),
        Write::CreateVolume { object, .. } => format!("create {}", describe_volume(object)),
        Write::DeleteVolume { .. } => "delete".to_owned(),
        Write::DropFinalizer { finalizer, .. } => format!("drop finalizer {finalizer}"),
        other => format!("{other:?}"),
    };
    format!("{}: {what}", write.target())
}

fn describe(object: &Object) -> Option<String> {
    match object {
        Object::Volume(volume) => Some(describe_volume(volume)),
        Object::Claim(claim) => Some(describe_claim(claim)),
        Object::Class(class) => Some(format!(
            "class  {}: {:?} {}",
            object.key().name(),
            class.provisioner,
            class.volume_binding_mode.as_deref().unwrap_or("(no binding mode)")
        )),
        Object::Pod(_) | Object::Node(_) => Some(object.key().to_string()),
        Object::CsiNode(_) | Object::CsiDriver(_) | Object::Capacity(_) => None,
    }
}

fn marks(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    let mut marks = String::new();
    for (key, value) in meta.annotations.iter().flatten() {
        let _ = match key.as_str() {
            annotations::BOUND_BY_CONTROLLER => write!(marks, " bound-by-controller"),
            annotations::BIND_COMPLETED => write!(marks, " bind-completed"),
            _ => write!(marks, " {key}={value}"),
        };
    }
    if let Some(finalizers) = &meta.finalizers {
        let _ = write!(marks, " finalizers={}", finalizers.join(","));
    }
    if meta.deletion_timestamp.is_some() {
        marks.push_str(" deleting");
    }
    marks
}

/// A volume in one line.
pub fn describe_volume(volume: &Volume) -> String {
    let mut line = format!(
        "volume {}: {} {} {}",
        volume.metadata.name.as_deref().unwrap_or_default(),
        volume::capacity_text(volume),
        volume::access_modes(volume).join("+"),
        volume::reclaim_policy(volume),
    );
    if !volume::class(volume).is_empty() {
        let _ = write!(line, " class {}", volume::class(volume));
    }
    if volume::mode(volume) != volume::FILESYSTEM {
        let _ = write!(line, " {}", volume::mode(volume));
    }
    if !volume::attributes_class(volume).is_empty() {
        let _ = write!(line, " attributes {}", volume::attributes_class(volume));
    }
    if let Some(reference) = volume::claim_ref(volume) {
        let (namespace, name) = volume::referred(reference);
        let _ = write!(line, " for {namespace}/{name} uid {:?}", volume::referred_uid(reference));
    }
    let phase = volume::phase(volume);
    let _ =
        write!(line, " {}{}", if phase.is_empty() { "(no phase)" } else { phase }, marks(&volume.metadata));
    line
}

/// A claim in one line.
pub fn describe_claim(claim: &Claim) -> String {
    let mut line = format!(
        "claim  {}: {} {}",
        claim.metadata.name.as_deref().unwrap_or_default(),
        claim::requested_text(claim),
        claim::access_modes(claim).join("+"),
    );
    if claim::has_class(claim) {
        let _ = write!(line, " class {:?}", claim::class(claim));
    }
    if claim::mode(claim) != volume::FILESYSTEM {
        let _ = write!(line, " {}", claim::mode(claim));
    }
    if !claim::attributes_class(claim).is_empty() {
        let _ = write!(line, " attributes {}", claim::attributes_class(claim));
    }
    if !claim::volume_name(claim).is_empty() {
        let _ = write!(line, " volume {}", claim::volume_name(claim));
    }
    let phase = claim::phase(claim);
    let _ =
        write!(line, " {}{}", if phase.is_empty() { "(no phase)" } else { phase }, marks(&claim.metadata));
    line
}
