//! When something counts, and as what.

use std::time::Duration;

use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::act::{Decider, Error, Roles};
use crate::decide::controller::operation;
use crate::decide::patch::Request;
use crate::decide::plugin::{self, Failure};
use crate::decide::{Event, Reads, Write};
use crate::objects::{Claim, Class, Volume};

/// The values of a metric's samples, by labels as they are written. Under a paused clock all are whole numbers.
pub(super) fn samples(metrics: &Metrics, name: &str) -> Vec<(String, u64)> {
    let text = metrics.text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name));
    let of_name = lines.filter_map(|line| line[name.len()..].rsplit_once(' '));
    let of_name = of_name.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
    of_name.map(|(labels, value)| (labels.to_owned(), value.parse().unwrap())).collect()
}

#[track_caller]
pub(super) fn total(metrics: &Metrics, name: &str) -> u64 {
    samples(metrics, name).iter().map(|(_, value)| value).sum()
}

pub(super) fn class(name: &str, provisioner: &str) -> Object {
    let class = json!({"metadata": {"name": name}, "provisioner": provisioner});
    Object::from(serde_json::from_value::<Class>(class).unwrap())
}

pub(super) fn claim(version: u64, class: &str, phase: &str) -> Object {
    let claim = json!({
        "metadata": {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"storageClassName": class},
        "status": {"phase": phase},
    });
    Object::from(serde_json::from_value::<Claim>(claim).unwrap())
}

fn released(class: &str, by: Option<&str>, path: &str) -> Object {
    let by = by.map(|by| json!({"pv.kubernetes.io/provisioned-by": by}));
    let volume = json!({
        "metadata": {"name": "v", "resourceVersion": "1", "annotations": by},
        "spec": {
            "storageClassName": class, "hostPath": {"path": path}, "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "n", "name": "gone", "uid": "u"},
        },
    });
    Object::from(serde_json::from_value::<Volume>(volume).unwrap())
}

/// A cluster that is told of, and what is recorded of it.
struct Stage {
    cluster: Cluster,
    settings: Settings,
    metrics: Metrics,
}

impl Stage {
    fn new() -> Self {
        let settings = Settings { plugins: plugin::PROVISIONING, ..Settings::default() };
        Stage { cluster: Cluster::new(), settings, metrics: Metrics::new().unwrap() }
    }

    fn show(&mut self, object: Object) {
        let key = object.key();
        self.cluster.show(object);
        self.metrics.see(&self.cluster, &key);
    }

    fn gone(&mut self, key: &Key) {
        self.cluster.gone(key);
        self.metrics.see(&self.cluster, key);
    }

    fn run(&self, operation: &Operation) -> Plan {
        let made = Key::volume("pvc-u");
        let reads = [(operation.key().clone(), self.cluster.object(operation.key()).cloned()), (made, None)];
        let plan = operation::operate(&self.cluster, &self.settings, operation, &Reads::from(reads));
        self.step(operation, &plan);
        plan
    }

    fn step(&self, operation: &Operation, plan: &Plan) {
        self.metrics.run(&self.cluster, &self.settings, Some(operation), plan, Instant::now());
    }

    /// Runs an operation; the plugin that it asks fails.
    fn fail(&self, operation: &Operation) -> Plan {
        let plan = self.run(operation);
        let Some(Action::Ask(call)) = plan.actions.last() else { panic!("it asks a plugin: {plan:?}") };
        let answer = Err(Failure::Failed("no".to_owned()));
        let plan = operation::answered(&self.cluster, operation, call, answer);
        self.step(operation, &plan);
        plan
    }

    fn errors(&self) -> Vec<(String, u64)> {
        let errors = samples(&self.metrics, "volume_operation_errors_total");
        assert_eq!(
            errors,
            samples(&self.metrics, "volume_operation_total_errors"),
            "two names for one thing"
        );
        errors
    }
}

fn failure(verb: &'static str, key: &Key) -> Outcome {
    let error = Error::Api { verb, key: key.clone(), message: "no".to_owned(), code: 500 };
    let sent = Sent { verb, key: key.clone(), from: 1, answer: Answer::Refused };
    Outcome { error: Some(error), sent: vec![sent], ..Outcome::default() }
}

fn labels(plugin: &str, operation: &str) -> String {
    format!("{{operation_name={operation:?},plugin_name={plugin:?}}}")
}

#[tokio::test(start_paused = true)]
async fn provisioning_lasts_from_its_first_start_until_the_claim_is_bound() {
    let mut stage = Stage::new();
    let key = Key::claim("n", "c");
    stage.show(class("fast", "kubernetes.io/aws-ebs"));
    stage.show(claim(1, "fast", "Pending"));
    let operation = Operation::Provision(key.clone());
    stage.run(&operation);
    assert!(stage.metrics.has_begun(&key));
    advance(Duration::from_secs(3)).await;
    stage.metrics.ran(Some(&operation), &failure("patch", &key));
    stage.run(&operation);
    stage.metrics.ran(Some(&operation), &Outcome::default());
    let whose = labels("ebs.csi.aws.com", "provision");
    assert_eq!(stage.errors(), [(whose.clone(), 1)]);

    let binds = Matter::Binds(key.clone());
    stage.metrics.performed(&binds, &failure("patch", &Key::volume("v")));
    assert_eq!(stage.errors(), [(whose.clone(), 2)], "a bind that fails is a failure of the provisioning");
    advance(Duration::from_secs(1)).await;
    stage.metrics.performed(&binds, &Outcome::default());
    stage.metrics.performed(&binds, &Outcome::default());
    assert_eq!(samples(&stage.metrics, "volume_operation_total_seconds_count"), [(whose.clone(), 1)]);
    assert_eq!(samples(&stage.metrics, "volume_operation_total_seconds_sum"), [(whose, 4)]);
    assert!(!stage.metrics.has_begun(&key));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_goes_takes_its_provisioning_with_it() {
    let mut stage = Stage::new();
    let key = Key::claim("n", "c");
    stage.show(class("fast", "example.com/fast"));
    stage.show(claim(1, "fast", "Pending"));
    let operation = Operation::Provision(key.clone());
    stage.run(&operation);
    stage.gone(&key);
    assert!(!stage.metrics.has_begun(&key));
    assert_eq!(total(&stage.metrics, "volume_operation_total_seconds_count"), 0);
    stage.run(&operation);
    assert!(!stage.metrics.has_begun(&key), "nothing begins about what is gone");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_only_says_what_is_wrong_is_one_failure() {
    let mut stage = Stage::new();
    let key = Key::claim("n", "c");
    let class = json!({
        "metadata": {"name": "local"}, "provisioner": host_path(), "mountOptions": ["ro"],
    });
    stage.show(Object::from(serde_json::from_value::<Class>(class).unwrap()));
    stage.show(claim(1, "local", "Pending"));
    let operation = Operation::Provision(key.clone());
    stage.run(&operation);
    // Its one write may fail as well: that is the same run.
    stage.metrics.ran(Some(&operation), &failure("patch", &key));
    assert_eq!(stage.errors(), [(labels(host_path(), "provision"), 1)]);
}

fn host_path() -> &'static str {
    plugin::HOST_PATH.name
}

#[tokio::test(start_paused = true)]
async fn a_volume_object_that_cannot_be_made_or_deleted_is_no_failure_of_its_storage() {
    let mut stage = Stage::new();
    let (claim_key, volume) = (Key::claim("n", "c"), Key::volume("v"));
    stage.show(class("local", host_path()));
    stage.show(claim(1, "local", "Pending"));
    stage.show(released("local", None, "/tmp/v"));
    for (operation, verb) in
        [(Operation::Provision(claim_key.clone()), "create"), (Operation::Delete(volume.clone()), "delete")]
    {
        stage.run(&operation);
        stage.metrics.ran(Some(&operation), &failure(verb, &volume));
        assert_eq!(stage.errors(), []);
    }
    stage.fail(&Operation::Delete(volume));
    assert_eq!(stage.errors(), [(labels(host_path(), "delete"), 1)]);
}

#[tokio::test(start_paused = true)]
async fn deleting_lasts_until_the_volume_is_gone_and_is_named_after_who_does_it() {
    for (class_of, by, plugin) in [
        ("", None, host_path()),
        ("old", Some("pd.csi.storage.gke.io"), "pd.csi.storage.gke.io"),
        ("new", Some("whatever/it/says"), "example.com/new"),
        ("unknown", Some("whatever/it/says"), "N/A"),
        ("new", Some("kubernetes.io/no-such-thing"), "N/A"),
    ] {
        let mut stage = Stage::new();
        stage.show(class("old", "kubernetes.io/gce-pd"));
        stage.show(class("new", "example.com/new"));
        stage.show(released(class_of, by, "/tmp/v"));
        let key = Key::volume("v");
        stage.run(&Operation::Delete(key.clone()));
        advance(Duration::from_secs(7)).await;
        assert!(stage.metrics.has_begun(&key));
        stage.gone(&key);
        stage.gone(&key);
        let sum = samples(&stage.metrics, "volume_operation_total_seconds_sum");
        assert_eq!(sum, [(labels(plugin, "delete"), 7)]);
        assert_eq!(stage.errors(), [], "a volume that nobody can delete is no failure of anybody");
    }
}

#[tokio::test(start_paused = true)]
async fn storage_that_must_not_be_deleted_is_a_failure_each_time() {
    let mut stage = Stage::new();
    stage.show(released("", None, "/etc"));
    let operation = Operation::Delete(Key::volume("v"));
    let plan = stage.fail(&operation);
    for write in plan.writes() {
        let after = write.apply(stage.cluster.object(write.target()).unwrap()).unwrap();
        stage.cluster.show(after);
    }
    let plan = stage.fail(&operation);
    assert_eq!(plan.actions, [Action::BackOff], "nothing is said twice");
    assert_eq!(stage.errors(), [(labels(host_path(), "delete"), 2)]);
}

#[tokio::test(start_paused = true)]
async fn binding_lasts_from_when_the_claim_is_first_seen_unbound() {
    let mut stage = Stage::new();
    let count = |stage: &Stage| total(&stage.metrics, "pvbind_bind_seconds_count");
    stage.show(claim(1, "", "Bound"));
    assert_eq!(count(&stage), 0, "it was bound before this process looked");
    stage.show(claim(2, "", "Lost"));
    stage.show(claim(3, "", "Bound"));
    assert_eq!(count(&stage), 0, "it had its volume all the time");
    stage.gone(&Key::claim("n", "c"));
    stage.show(claim(4, "", ""));
    advance(Duration::from_secs(2)).await;
    stage.show(claim(5, "", "Pending"));
    advance(Duration::from_secs(3)).await;
    stage.show(claim(6, "", "Bound"));
    assert_eq!((count(&stage), total(&stage.metrics, "pvbind_bind_seconds_sum")), (1, 5));
}

#[test]
fn a_conflict_is_our_own_if_we_wrote_a_newer_version_than_we_decided_on() {
    let metrics = Metrics::new().unwrap();
    let key = Key::volume("v");
    let send = |from, answer| {
        let sent = vec![Sent { verb: "patch", key: key.clone(), from, answer }];
        metrics.performed(&Matter::Other, &Outcome { sent, ..Outcome::default() });
        (total(&metrics, "pvbind_conflicts_total"), total(&metrics, "pvbind_self_conflicts_total"))
    };
    assert_eq!(send(3, Answer::Conflict), (1, 0), "we have never written it");
    assert_eq!(send(4, Answer::Taken(5)), (1, 0));
    assert_eq!(send(5, Answer::Conflict), (2, 0), "we knew our own write: somebody else has written since");
    assert_eq!(send(4, Answer::Conflict), (3, 1), "we did not know our own write");
    assert_eq!(send(6, Answer::Refused), (3, 1));
    assert_eq!(send(6, Answer::Unanswered), (3, 1));
    let result = |result: &str, count| {
        (format!("{{kind=\"PersistentVolume\",result={result:?},verb=\"patch\"}}"), count)
    };
    let expected = [result("conflict", 3), result("ok", 1), result("refused", 1), result("unanswered", 1)];
    assert_eq!(samples(&metrics, "pvbind_api_writes_total"), expected);
    metrics.see(&Cluster::new(), &key);
    assert_eq!(send(4, Answer::Conflict), (4, 1), "what is gone is forgotten");
}

#[test]
fn assigning_the_default_class_counts_whether_it_works_or_not() {
    let metrics = Metrics::new().unwrap();
    let key = Key::claim("n", "c");
    let counts = || {
        let name = "retroactive_storageclass";
        (total(&metrics, &format!("{name}_total")), total(&metrics, &format!("{name}_errors_total")))
    };
    let reason = Reason::DefaultClass { claim: key.clone(), class: "d".to_owned() };
    let write = Write::SetClaimClass { claim: key.clone(), class: "d".to_owned() };
    let actions = vec![Action::Write(write), Action::Emit(Event::normal(&key, "x", "y".to_owned()))];
    let job = Job { id: 1, key: key.clone(), reason, actions, objects: BTreeMap::new() };
    let matter = metrics.matter(&job);
    metrics.performed(&matter, &Outcome::default());
    assert_eq!(counts(), (1, 0));
    metrics.performed(&matter, &failure("patch", &key));
    assert_eq!(counts(), (2, 1));
    let other_write_first = Matter::AssignsClass { writes: 2 };
    metrics.performed(&other_write_first, &failure("patch", &key));
    assert_eq!(counts(), (2, 1), "it was not tried");
}

#[test]
fn what_is_off_records_nothing() {
    let metrics = Metrics::off();
    let key = Key::claim("n", "c");
    assert_eq!(metrics.awaits(&claim(1, "", "")), None);
    metrics.see(&Cluster::new(), &key);
    metrics.performed(&Matter::Binds(key.clone()), &failure("patch", &key));
    metrics.queue_depth(3);
    metrics.unlisted(&std::collections::BTreeSet::new());
    assert_eq!(
        (metrics.missing(), metrics.has_begun(&key), metrics.text().unwrap()),
        (None, false, String::new())
    );
}

#[test]
fn a_second_delete_of_what_others_still_keep_is_a_conflict_of_our_own() {
    let metrics = Metrics::new().unwrap();
    let object = released("", None, "/tmp/v");
    let delete = Request::Delete { uid: None, resource_version: Some("1".to_owned()) };
    let about = || Sent::about(&Key::volume("v"), &object, &delete);
    let refused = Err(Error::Conflict { key: Key::volume("v") });
    let sent = vec![about().answered(&Ok(None)), about().answered(&refused)];
    metrics.performed(&Matter::Other, &Outcome { sent, ..Outcome::default() });
    assert_eq!(total(&metrics, "pvbind_self_conflicts_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_list_lacks_is_counted_no_more() {
    let metrics = Metrics::new().unwrap();
    let mut decider = Decider::new(Settings::default(), Roles::controller()).with_metrics(metrics.clone());
    let named = |name: &str| {
        let volume = json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}});
        Object::from(serde_json::from_value::<Volume>(volume).unwrap())
    };
    for name in ["a", "b", "c", "a"] {
        decider.show(named(name));
    }
    assert_eq!(total(&metrics, "pv_collector_total_pv_count"), 3);
    assert_eq!(decider.queue_depth(), 3);
    decider.show(named("b"));
    decider.listed(Kind::Volume, &[Key::volume("b")].into());
    assert_eq!(total(&metrics, "pv_collector_total_pv_count"), 1);
    decider.gone(&Key::volume("b"));
    assert_eq!(samples(&metrics, "pv_collector_total_pv_count"), []);
}
