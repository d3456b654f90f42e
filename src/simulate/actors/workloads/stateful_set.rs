//! `StatefulSet`: numbered replicas, each with claims of its own.
//!
//! Decides which replica comes or goes next. In an ordered set that is one at a time, the next only when all before it
//! are Running and Ready, and away from the top; in a parallel set each replica is decided alone. A claim that exists is
//! used as it is; a replica whose claim is on its way out waits for that. It never replaces a pod because the template
//! changed. It answers to upstream's `statefulset` controller.

use super::{REVISION_HASH, count, pod_from, retention, template_hash, update_status};
use crate::simulate::actors::call::{Call, Kind, Name, Remark, Target};
use crate::simulate::actors::family::Tally;
use crate::simulate::actors::selector::matches_labels;
use crate::simulate::actors::world::{World, controller, is_healthy, phase};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use std::ops::Range;

const SOURCE: &str = "statefulset-controller";

/// The numbers of the replicas that a set asks for.
fn ordinals(set: &StatefulSet) -> Range<i64> {
    let spec = set.spec.as_ref();
    let start = spec.and_then(|s| s.ordinals.as_ref()?.start).unwrap_or(0).max(0);
    let replicas = spec.and_then(|s| s.replicas).unwrap_or(1).max(0);
    i64::from(start)..i64::from(start) + i64::from(replicas)
}

/// The numbers of the replicas that need not wait for each other.
#[must_use]
pub fn unordered(set: &StatefulSet) -> Range<i64> {
    if is_parallel(set) { ordinals(set) } else { 0..0 }
}

fn is_parallel(set: &StatefulSet) -> bool {
    set.spec.as_ref().and_then(|s| s.pod_management_policy.as_deref()) == Some("Parallel")
}

/// One replica of a set, as the World knows it.
struct Replica<'a> {
    world: &'a World,
    set: &'a StatefulSet,
    owner: Target,
    number: i64,
    name: Name,
}

impl<'a> Replica<'a> {
    fn new(world: &'a World, set: &'a StatefulSet, number: i64) -> Self {
        let owner = Target::of(Kind::StatefulSet, &set.metadata);
        let name = owner.name.beside(format!("{}-{number}", owner.name.name));
        Self { world, set, owner, number, name }
    }

    fn pod(&self) -> Option<&'a Pod> {
        self.world.pods.get(&self.name).map(|p| &**p)
    }

    fn templates(&self) -> impl Iterator<Item = &'a PersistentVolumeClaim> + use<'a> {
        self.set.spec.iter().flat_map(|s| s.volume_claim_templates.iter().flatten())
    }

    fn claim_name(&self, template: &PersistentVolumeClaim) -> Name {
        let template = template.metadata.name.as_deref().unwrap_or_default();
        self.name.beside(format!("{template}-{}", self.name.name))
    }

    fn is_wanted(&self) -> bool {
        ordinals(self.set).contains(&self.number)
    }

    fn says(&self, verb: &str, what: &str, end: &str) -> String {
        format!("{verb} {what}Pod {} in StatefulSet {} {end}", self.name.name, self.owner.name.name)
    }

    /// Gives the claims that exist the owner that the retention policy wants.
    fn retain(&self, pod: &Target) -> Vec<Call> {
        let owner = retention::owner(self.set, &self.owner, Some(pod), !self.is_wanted());
        let claims = self.templates().filter_map(|t| self.world.claims.get(&self.claim_name(t)));
        claims.filter_map(|claim| retention::correct(claim, &self.owner, pod, owner)).collect()
    }

    /// Makes the claims that are missing, or says which one stands in the way.
    fn make_claims(&self) -> Result<Vec<Call>, String> {
        let mut calls = Vec::new();
        for template in self.templates() {
            let name = self.claim_name(template);
            if let Some(claim) = self.world.claims.get(&name) {
                if claim.metadata.deletion_timestamp.is_some() {
                    return Err(format!("pvc {} is being deleted", name.name));
                }
                continue;
            }
            let what = format!("Claim {} ", name.name);
            let (fine, bad) =
                (self.says("Create", &what, "success"), self.says("Create", &what, "failed error: "));
            let otherwise = Some(Remark::warning(self.owner.clone(), SOURCE, "FailedCreate", bad));
            calls.push(Call::Create { object: self.claim(template, &name), otherwise });
            calls.push(Call::Event(Remark::normal(self.owner.clone(), SOURCE, "SuccessfulCreate", fine)));
        }
        Ok(calls)
    }

    fn claim(&self, template: &PersistentVolumeClaim, name: &Name) -> Value {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        let selector = self.set.spec.as_ref().and_then(|s| s.selector.match_labels.clone());
        labels.extend(selector.unwrap_or_default());
        let owner = retention::owner(self.set, &self.owner, None, false);
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "namespace": name.namespace,
                "name": name.name,
                "labels": labels,
                "annotations": template.metadata.annotations.clone().unwrap_or_default(),
                "finalizers": template.metadata.finalizers.clone().unwrap_or_default(),
                "ownerReferences": owner.map(Target::controller_reference).into_iter().collect::<Vec<_>>(),
            },
            "spec": template.spec,
        })
    }

    /// Makes the replica: its claims first, then its pod.
    fn make(&self) -> Vec<Call> {
        let failed = |why: &str| {
            let message = self.says("Create", "", &format!("failed error: {why}"));
            Remark::warning(self.owner.clone(), SOURCE, "FailedCreate", message)
        };
        let mut calls = match self.make_claims() {
            Ok(calls) => calls,
            Err(why) => return vec![Call::Event(failed(&why))],
        };
        let done = self.says("Create", "", "successful");
        calls.push(Call::Create { object: self.new_pod(), otherwise: Some(failed("")) });
        calls.push(Call::Event(Remark::normal(self.owner.clone(), SOURCE, "SuccessfulCreate", done)));
        calls
    }

    fn new_pod(&self) -> Value {
        let Some(spec) = &self.set.spec else { return Value::Null };
        let mut pod = pod_from(&spec.template, &self.owner);
        let name = &self.name.name;
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["generateName"] = json!(format!("{}-", self.owner.name.name));
        let labels = &mut pod["metadata"]["labels"];
        labels["statefulset.kubernetes.io/pod-name"] = json!(name);
        labels["apps.kubernetes.io/pod-index"] = json!(self.number.to_string());
        labels[REVISION_HASH] = json!(format!("{}-{}", self.owner.name.name, template_hash(&spec.template)));
        pod["spec"]["hostname"] = json!(name);
        if let Some(service) = spec.service_name.as_ref().filter(|s| !s.is_empty()) {
            pod["spec"]["subdomain"] = json!(service);
        }
        let claims = self.templates().map(|template| {
            let claim = self.claim_name(template).name;
            json!({ "name": template.metadata.name, "persistentVolumeClaim": { "claimName": claim } })
        });
        // A claim template takes the place of a volume of the same name.
        let own = spec.template.spec.iter().flat_map(|s| s.volumes.iter().flatten());
        let own = own.filter(|v| self.templates().all(|t| t.metadata.name.as_ref() != Some(&v.name)));
        let volumes: Vec<_> = claims.chain(own.map(|v| json!(v))).collect();
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = json!(volumes);
        }
        pod
    }

    /// Takes the replica away, after its claims know whether they go with it.
    fn unmake(&self, pod: &Target) -> Vec<Call> {
        let mut calls = self.retain(pod);
        let done = self.says("Delete", "", "successful");
        calls.push(Call::delete(pod.clone()));
        calls.push(Call::Event(Remark::normal(self.owner.clone(), SOURCE, "SuccessfulDelete", done)));
        calls
    }

    /// Takes a pod that finished away, so that the replica is made again.
    fn remake(&self, pod: &Target, failed: bool) -> Vec<Call> {
        let (namespace, set) = (&self.owner.name.namespace, &self.owner.name.name);
        let (what, reason) = if failed {
            ("failed", "RecreatingFailedPod")
        } else {
            ("terminated", "RecreatingTerminatedPod")
        };
        let message = format!("StatefulSet {namespace}/{set} is recreating {what} Pod {}", self.name.name);
        let mut remark = Remark::normal(self.owner.clone(), SOURCE, reason, message);
        remark.warning = failed;
        vec![Call::Event(remark), Call::delete(pod.clone())]
    }

    /// Makes a pod that nobody owns and that the set selects its own.
    fn adopt(&self, pod: &Pod) -> Option<Call> {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let spec = self.set.spec.as_ref()?;
        let free = controller(&pod.metadata).is_none() && pod.metadata.deletion_timestamp.is_none();
        if !free || !matches_labels(&spec.selector, &labels) {
            return None;
        }
        let others = pod.metadata.owner_references.iter().flatten().map(|o| json!(o));
        let owners: Vec<_> = others.chain([self.owner.controller_reference()]).collect();
        let target = Target::of(Kind::Pod, &pod.metadata);
        Some(Call::merge(target, json!({ "metadata": { "ownerReferences": owners } })))
    }
}

/// What to do about one replica of a set by itself.
#[must_use]
pub fn plan_replica(world: &World, name: &Name, number: i64) -> Vec<Call> {
    let Some(set) = world.stateful_sets.get(name).filter(|s| s.metadata.deletion_timestamp.is_none()) else {
        return Vec::new();
    };
    let replica = Replica::new(world, set, number);
    let Some(pod) = replica.pod() else {
        return if is_parallel(set) && replica.is_wanted() { replica.make() } else { Vec::new() };
    };
    if controller(&pod.metadata).map(|o| &o.uid) != set.metadata.uid.as_ref() {
        return replica.adopt(pod).into_iter().collect();
    }
    let target = Target::of(Kind::Pod, &pod.metadata);
    if pod.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    match phase(pod) {
        _ if !replica.is_wanted() => {
            if is_parallel(set) {
                replica.unmake(&target)
            } else {
                replica.retain(&target)
            }
        }
        "Failed" => replica.remake(&target, true),
        "Succeeded" => replica.remake(&target, false),
        "Pending" => {
            let claims = replica.make_claims().unwrap_or_default();
            replica.retain(&target).into_iter().chain(claims).collect()
        }
        _ => replica.retain(&target),
    }
}

/// What to do next in a set, and its status.
#[must_use]
pub fn plan(world: &World, name: &Name) -> Vec<Call> {
    let Some(set) = world.stateful_sets.get(name) else { return Vec::new() };
    let empty = Tally::default();
    let tally = world.family.tally(set.metadata.uid.as_ref()).unwrap_or(&empty);
    let mut calls = Vec::new();
    if set.metadata.deletion_timestamp.is_none() && !is_parallel(set) {
        calls.extend(next_in_order(world, set, tally));
    }
    let (all, ready) = (count(tally.ordinals.len()), count(tally.healthy.len()));
    let revision = set.spec.as_ref().map(|s| format!("{}-{}", name.name, template_hash(&s.template)));
    let status = json!({
        "replicas": all, "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": all,
        "updatedReplicas": all, "observedGeneration": set.metadata.generation,
        "currentRevision": revision, "updateRevision": revision,
    });
    let target = Target::of(Kind::StatefulSet, &set.metadata);
    calls.extend(update_status(target, &json!(set.status), &status));
    calls
}

fn next_in_order(world: &World, set: &StatefulSet, tally: &Tally) -> Vec<Call> {
    let wanted = ordinals(set);
    let gap = tally.healthy_ordinals.first_gap(wanted.start);
    if gap < wanted.end {
        let replica = Replica::new(world, set, gap);
        return if replica.pod().is_none() {
            replica.make()
        } else {
            plan_replica(world, &replica.owner.name, gap)
        };
    }
    let spare =
        || tally.ordinals.range(..wanted.start).chain(tally.ordinals.range(wanted.end..)).map(|(n, _)| *n);
    let pod = |number: &i64| Replica::new(world, set, *number).pod();
    let Some(top) = spare().next_back() else { return Vec::new() };
    let first_unhealthy = spare().find(|number| pod(number).is_some_and(|p| !is_healthy(p)));
    let Some(pod) = pod(&top).filter(|p| p.metadata.deletion_timestamp.is_none()) else { return Vec::new() };
    // As upstream: an unhealthy pod is taken away only when none below it is unhealthy as well.
    if !is_healthy(pod) && first_unhealthy != Some(top) {
        return Vec::new();
    }
    Replica::new(world, set, top).unmake(&Target::of(Kind::Pod, &pod.metadata))
}
