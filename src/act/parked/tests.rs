//! Which changes have waiting pods looked at again, in number of decisions.

use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::act::{Decider, Outcome, Roles};
use crate::cluster::{Kind, Object};
use crate::decide::{Action, binder};

/// Everything that is decided is done at once, and what watches show of it comes with the answers.
struct Driven {
    decider: Decider,
    now: Instant,
}

impl Driven {
    fn new() -> Self {
        let roles = Roles { controller: false, scheduler: Some(binder::Pods::All) };
        Driven { decider: Decider::new(Settings::default(), roles), now: Instant::now() }
    }

    /// Shows an object and comes to rest; returns how many decisions that took.
    fn show(&mut self, kind: Kind, value: Value) -> u64 {
        let before = self.decider.counts().syncs;
        self.decider.show(Object::written(kind, value));
        self.rest();
        self.decider.counts().syncs - before
    }

    fn gone(&mut self, key: &Key) -> u64 {
        let before = self.decider.counts().syncs;
        self.decider.gone(key);
        self.rest();
        self.decider.counts().syncs - before
    }

    fn rest(&mut self) {
        while let Some(job) = self.decider.next(self.now) {
            let mut outcome = Outcome::default();
            for action in &job.actions {
                let Action::Write(write) = action else { continue };
                let before = outcome.answers.get(write.target()).unwrap_or(&job.objects[write.target()]);
                let after = write.apply(before).unwrap();
                outcome.answers.insert(write.target().clone(), after);
            }
            assert!(self.decider.finish(job.id, outcome, self.now).is_empty());
        }
    }

    fn code(&self, pod: &str) -> &'static str {
        self.decider.reasons()[&Key::pod("ns", pod)].code()
    }
}

fn node(name: &str, cpu: &str, labels: &Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"pods": "10", "cpu": cpu}},
    })
}

fn driver(tracks: bool) -> Value {
    json!({"metadata": {"name": "made.example.com"}, "spec": {"storageCapacity": tracks}})
}

fn report(capacity: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": "r"}, "storageClassName": "made", "nodeTopology": {},
        "capacity": capacity,
    })
}

fn class(name: &str, provisioner: &str) -> Value {
    json!({
        "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    })
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"storageClassName": class, "resources": {"requests": {"storage": "5Gi"}}},
    })
}

fn pod(name: &str, claim: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    json!({
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"containers": [container], "volumes": if claim.is_empty() { json!([]) } else { volumes }},
    })
}

/// Three pods wait on node `n`: `room` for a cpu, `local` for a volume, and `made` for storage to make one from.
fn three_wait() -> Driven {
    let mut driven = Driven::new();
    driven.show(Kind::Node, node("n", "1", &json!({})));
    driven.show(Kind::CsiDriver, driver(true));
    driven.show(Kind::Capacity, report("2Gi"));
    driven.show(Kind::Class, class("local", "kubernetes.io/no-provisioner"));
    driven.show(Kind::Class, class("made", "made.example.com"));
    driven.show(Kind::Class, class("unrelated", "made.example.com"));
    driven.show(Kind::Claim, claim("local", "local"));
    driven.show(Kind::Claim, claim("made", "made"));
    driven.show(Kind::Pod, pod("room", "", "2"));
    driven.show(Kind::Pod, pod("local", "local", "100m"));
    driven.show(Kind::Pod, pod("made", "made", "100m"));
    assert_eq!(["room", "local", "made"].map(|pod| driven.code(pod)), ["NodeDoesNotFit"; 3]);
    driven
}

#[rstest]
#[case::heartbeat(Kind::Node, laid(node("n", "1", &json!({})), &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})))]
#[case::tainted(Kind::Node, laid(node("n", "1", &json!({})), &json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})))]
#[case::smaller(Kind::Node, node("n", "500m", &json!({})))]
#[case::more_but_not_enough(Kind::Node, node("n", "1500m", &json!({})))]
#[case::less_storage(Kind::Capacity, report("1Gi"))]
#[case::more_storage_but_not_enough(Kind::Capacity, report("3Gi"))]
#[case::same_driver(Kind::CsiDriver, laid(driver(true), &json!({"metadata": {"labels": {"a": "b"}}})))]
#[case::new_class(Kind::Class, class("new", "made.example.com"))]
#[case::unrelated_class(Kind::Class, laid(class("unrelated", "made.example.com"), &json!({"allowedTopologies": []})))]
#[case::too_small(Kind::Volume, volume("local", "1Gi"))]
#[case::unrelated_volume(Kind::Volume, volume("unrelated", "9Gi"))]
#[case::csi_node(Kind::CsiNode, json!({"metadata": {"name": "n"}, "spec": {"drivers": []}}))]
#[case::unrelated_claim(Kind::Claim, claim("unrelated", "made"))]
#[tokio::test(start_paused = true)]
async fn what_helps_nobody_costs_no_decision(#[case] kind: Kind, #[case] value: Value) {
    let mut driven = three_wait();
    assert_eq!(driven.show(kind, value), 0);
}

fn laid(mut value: Value, over: &Value) -> Value {
    json_patch::merge(&mut value, over);
    value
}

fn volume(class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": "v", "resourceVersion": "1"},
        "spec": {"storageClassName": class, "capacity": {"storage": size}},
        "status": {"phase": "Available"},
    })
}

#[rstest]
#[case::room(Kind::Node, node("n", "4", &json!({})), "room", "PodNotPending")]
#[case::volume(Kind::Volume, volume("local", "5Gi"), "local", "PodBindingVolumes")]
#[case::storage(Kind::Capacity, report("9Gi"), "made", "PodBindingVolumes")]
#[case::untracked_storage(Kind::CsiDriver, driver(false), "made", "PodBindingVolumes")]
#[tokio::test(start_paused = true)]
async fn what_helps_one_wakes_that_one_at_once(
    #[case] kind: Kind,
    #[case] value: Value,
    #[case] helped: &str,
    #[case] becomes: &str,
) {
    let mut driven = three_wait();
    driven.show(kind, value);
    let expected =
        ["room", "local", "made"].map(|pod| if pod == helped { becomes } else { "NodeDoesNotFit" });
    assert_eq!(["room", "local", "made"].map(|pod| driven.code(pod)), expected);
}

#[tokio::test(start_paused = true)]
async fn a_node_more_is_told_to_everybody() {
    let mut driven = three_wait();
    let again = node("m", "0", &json!({}));
    assert!(driven.show(Kind::Node, again) >= 3);
    let pod = driven.decider.cluster().pod(&Key::pod("ns", "made")).unwrap();
    let message = pod.status.as_ref().unwrap().conditions.as_ref().unwrap()[0].message.as_ref().unwrap();
    assert!(message.starts_with("0/2 nodes"), "{message}");
}

/// The pod that is about to run takes the last cpu.
#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_while_its_volumes_are_being_bound_leaves_its_room_to_others() {
    let mut driven = Driven::new();
    driven.show(Kind::Node, node("n", "1", &json!({})));
    driven.show(Kind::Class, class("made", "made.example.com"));
    driven.show(Kind::Claim, claim("made", "made"));
    driven.show(Kind::Pod, pod("first", "made", "1"));
    driven.show(Kind::Pod, pod("second", "", "1"));
    assert_eq!(["first", "second"].map(|pod| driven.code(pod)), ["PodBindingVolumes", "NodeDoesNotFit"]);
    driven.gone(&Key::pod("ns", "first"));
    assert_eq!(driven.code("second"), "PodNotPending");
}

fn near_to(app: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

#[tokio::test(start_paused = true)]
async fn a_pod_follows_one_that_is_about_to_run() {
    let mut driven = Driven::new();
    driven.show(Kind::Node, node("n", "1", &json!({"zone": "z"})));
    driven.show(Kind::Class, class("made", "made.example.com"));
    driven.show(Kind::Claim, claim("made", "made"));
    driven.show(Kind::Pod, laid(pod("follower", "", "0"), &near_to("a")));
    assert_eq!(driven.code("follower"), "NodeDoesNotFit");
    driven.show(Kind::Pod, laid(pod("first", "made", "0"), &json!({"metadata": {"labels": {"app": "a"}}})));
    assert_eq!(["first", "follower"].map(|pod| driven.code(pod)), ["PodBindingVolumes", "PodNotPending"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_by_now_has_left_no_room() {
    let mut driven = Driven::new();
    driven.show(Kind::Node, node("n", "1", &json!({})));
    driven.show(Kind::Class, class("made", "made.example.com"));
    driven.show(Kind::Claim, claim("made", "made"));
    driven.show(Kind::Pod, pod("first", "made", "1"));
    driven.show(Kind::Pod, pod("second", "", "1"));
    let mut bound = laid(claim("made", "made"), &json!({"spec": {"volumeName": "v"}}));
    bound["metadata"] = json!({
        "namespace": "ns", "name": "made", "uid": "made", "resourceVersion": "9",
        "annotations": {
            "volume.kubernetes.io/selected-node": "n", "pv.kubernetes.io/bind-completed": "yes",
        },
    });
    driven.show(
        Kind::Volume,
        json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"namespace": "ns", "name": "made"}}}),
    );
    let decisions = driven.show(Kind::Claim, bound);
    assert_eq!(["first", "second"].map(|pod| driven.code(pod)), ["PodNotPending", "NodeDoesNotFit"]);
    // The first is decided about when its claim is bound, and once more when it is on its node.
    assert_eq!(decisions, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_bound_for_a_node_is_checked_when_the_node_changes() {
    let mut driven = Driven::new();
    driven.show(Kind::Node, node("n", "1", &json!({})));
    driven.show(Kind::Class, class("made", "made.example.com"));
    driven.show(Kind::Claim, claim("made", "made"));
    driven.show(Kind::Pod, pod("first", "made", "1"));
    let csi_node = |node: &str| json!({"metadata": {"name": node}, "spec": {"drivers": []}});
    let costs = [
        driven.show(Kind::CsiNode, csi_node("n")),
        driven.show(Kind::CsiNode, csi_node("m")),
        driven.show(Kind::Node, node("n", "1", &json!({"a": "b"}))),
        driven.show(Kind::Node, node("n", "2", &json!({"a": "b"}))),
    ];
    assert_eq!(costs, [1, 0, 1, 0]);
    driven.gone(&Key::node("n"));
    assert_eq!(driven.code("first"), "PodBindingFailed");
}

#[tokio::test(start_paused = true)]
async fn thousands_that_wait_for_something_else_cost_nothing() {
    let mut driven = three_wait();
    for index in 0..3000 {
        driven.decider.show(Object::written(Kind::Pod, pod(&format!("p{index}"), "", "2")));
    }
    driven.rest();
    driven.show(Kind::Capacity, report("1Mi"));
    let decisions = driven.show(Kind::Volume, volume("local", "5Gi"));
    assert!(decisions < 10, "{decisions} decisions");
    assert_eq!(driven.code("local"), "PodBindingVolumes");
}
