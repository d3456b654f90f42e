//! Binding pods on request, in virtual time: what is reserved, what is waited for, and what is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake_apiserver::{Call, Fault, Status};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::Client;
use pvbind::act;
use pvbind::act::extender::{Asker, Unanswered};
use pvbind::cluster::Key;
use pvbind::simulate::actors;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::stage::{Stage, answers, claim, pod, volume};

/// How long binding a pod may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Asks for a pod to be bound, and waits for what becomes of it.
async fn bind(asker: &Asker, pod: &Value, node: &str) -> Result<(), String> {
    begin(asker, pod, node).await.outcome().await.expect("an answer")
}

async fn begin(asker: &Asker, pod: &Value, node: &str) -> act::extender::Bound {
    let text = |field: &str| pod["metadata"][field].as_str().expect("it has one").to_owned();
    let key = Key::pod("default", &text("name"));
    asker.bind(key, text("uid"), node.into()).await.expect("it is begun")
}

/// A stage with one volume on `n1` and two on `n2`, claims and a pod that uses all of them.
fn staged(claims: &[(&str, &str)]) -> (Stage, Value) {
    let stage = Stage::new();
    for (name, size, node) in [("v1", "10Gi", "n1"), ("v2", "10Gi", "n2"), ("v3", "20Gi", "n2")] {
        stage.put(volume(name, size, node));
    }
    for (name, size) in claims {
        stage.put(claim(name, "local", size));
    }
    let names: Vec<&str> = claims.iter().map(|(name, _)| *name).collect();
    let pod = stage.put(pod("p", &names));
    (stage, pod)
}

fn phase(stage: &Stage, claim: &str) -> Value {
    stage.get("PersistentVolumeClaim", claim)["status"]["phase"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_placed_once_its_claims_are_bound_to_volumes_of_the_node() {
    let (stage, pod) = staged(&[("a", "20Gi"), ("b", "5Gi")]);
    let (_controller, (extender, asker)) = (stage.control(), stage.extend(LIMIT));
    answers(&asker).await;
    assert_eq!(bind(&asker, &pod, "n2").await, Ok(()));
    assert_eq!(stage.node_of("p"), "n2");
    assert_eq!((phase(&stage, "a"), phase(&stage, "b")), (json!("Bound"), json!("Bound")));
    assert_eq!((stage.claim_of("v3"), stage.claim_of("v2")), ("a".to_owned(), "b".to_owned()));
    // kube-scheduler tells of its pods itself.
    let told = stage.server.objects().into_iter().filter(|object| object["regarding"]["kind"] == "Pod");
    assert_eq!(told.count(), 0);
    assert_eq!(extender.stop().await.counts.conflicts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_claims_is_placed_at_once() {
    let (stage, pod) = staged(&[]);
    let (_extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    assert_eq!(bind(&asker, &pod, "n3").await, Ok(()));
    assert_eq!(stage.node_of("p"), "n3");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_for_the_node() {
    let stage = Stage::new();
    stage.put(claim("c", "made", "7Gi"));
    let pod = stage.put(pod("p", &["c"]));
    let (_controller, (_extender, asker)) = (stage.control(), stage.extend(LIMIT));
    let client = Client::new(stage.server.router(), "default");
    let none = actors::Roles {
        workloads: false,
        kubelet: false,
        protection: false,
        provisioner: true,
        garbage: false,
        namespaces: false,
    };
    let kinds = act::run::kinds(&act::Roles {
        controller: false,
        scheduler: Some(pvbind::decide::binder::Pods::All),
    });
    let watches = act::watch::watch(&client, &kinds).boxed();
    let (_stop, stopped) = watch::channel(false);
    let now: actors::Clock = Arc::new(jiff::Timestamp::now);
    let provisioner = tokio::spawn(actors::run(client, watches, none, now, stopped));
    answers(&asker).await;
    assert_eq!(bind(&asker, &pod, "n3").await, Ok(()));
    let claim = stage.get("PersistentVolumeClaim", "c");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n3");
    assert_eq!((&claim["status"]["phase"], stage.node_of("p")), (&json!("Bound"), "n3".to_owned()));
    provisioner.abort();
}

#[tokio::test(start_paused = true)]
async fn where_no_volume_is_left_the_answer_says_so_and_nothing_is_reserved() {
    let (stage, pod) = staged(&[("a", "10Gi"), ("b", "10Gi")]);
    let (_controller, (_extender, asker)) = (stage.control(), stage.extend(LIMIT));
    answers(&asker).await;
    let why = bind(&asker, &pod, "n1").await.expect_err("there is one volume, and two are needed");
    assert_eq!(
        why,
        "node n1: node(s) didn't find available persistent volumes to bind: claim default/b finds no free volume that node n1 reaches, and class \"local\" has no provisioner"
    );
    assert_eq!((stage.claim_of("v1"), stage.node_of("p")), (String::new(), String::new()));
    let why = bind(&asker, &pod, "n9").await.expect_err("there is no such node");
    assert_eq!(why, "node n9: node not found");
    // The same pod elsewhere.
    assert_eq!(bind(&asker, &pod, "n2").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn of_two_pods_that_want_the_same_volume_one_gets_it() {
    let (stage, first) = staged(&[("a", "10Gi")]);
    stage.put(claim("b", "local", "10Gi"));
    let second = stage.put(pod("q", &["b"]));
    let (_controller, (extender, asker)) = (stage.control(), stage.extend(LIMIT));
    answers(&asker).await;
    let both = FuturesUnordered::from_iter([bind(&asker, &first, "n1"), bind(&asker, &second, "n1")]);
    let outcomes: Vec<bool> = both.map(|outcome| outcome.is_ok()).collect().await;
    assert_eq!(outcomes.iter().filter(|placed| **placed).count(), 1, "{outcomes:?}");
    assert_eq!(extender.stop().await.counts.conflicts, 0, "the later one was never sent");
}

/// Refuses the reservation of a volume once, after somebody else has taken the volume.
fn taken_by_another(stage: &Stage, volume: &'static str) {
    let (server, once) = (stage.server.clone(), AtomicBool::new(false));
    stage.server.set_faults(Some(Arc::new(move |call: &Call| {
        let reserves = call.verb == "patch" && call.name == volume && call.subresource.is_empty();
        if !reserves || once.swap(true, Ordering::SeqCst) {
            return None;
        }
        let path = format!("/api/v1/persistentvolumes/{volume}");
        let taken = json!({"spec": {"claimRef": {"namespace": "default", "name": "other", "uid": "other"}}});
        let taken = taken.to_string();
        let (code, _) = server.request("PATCH", &path, "application/merge-patch+json", taken.as_bytes());
        assert_eq!(code, 200);
        None
    })));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_leaves_nothing_reserved() {
    // Nobody binds claims here, so all that was reserved can be given back.
    let (stage, pod) = staged(&[("a", "5Gi"), ("b", "15Gi")]);
    let (extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    taken_by_another(&stage, "v3");
    let start = Instant::now();
    let why = bind(&asker, &pod, "n2").await.expect_err("one of its volumes is another's now");
    assert!(why.starts_with("node n2: node(s) didn't find available persistent volumes to bind"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(1), "it is impossible at once");
    stage.until("giving the other volume back", |stage| stage.claim_of("v2").is_empty()).await;
    assert_eq!((stage.claim_of("v3"), stage.node_of("p")), ("other".to_owned(), String::new()));
    assert_eq!(extender.stop().await.counts.conflicts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_api_server_refuses_is_the_answer() {
    let (stage, pod) = staged(&[("a", "10Gi")]);
    let (_controller, (_extender, asker)) = (stage.control(), stage.extend(LIMIT));
    answers(&asker).await;
    stage.server.set_faults(Some(Arc::new(|call: &Call| {
        let forbidden = || Status::new(403, "Forbidden", "not for you");
        (call.subresource == "binding").then(|| Fault::Status(Box::new(forbidden())))
    })));
    let why = bind(&asker, &pod, "n1").await.expect_err("nobody may place pods");
    assert_eq!(why, "the API server refused to bind Pod/default/p: not for you");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_bound_in_time_is_given_back() {
    let (stage, pod) = staged(&[("a", "10Gi")]);
    let (_extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    let start = Instant::now();
    let why = bind(&asker, &pod, "n1").await.expect_err("nobody binds claims");
    assert_eq!(start.elapsed().as_secs(), LIMIT.as_secs());
    assert!(why.starts_with("binding volumes: "), "{why}");
    stage.until("giving the volume back", |stage| stage.claim_of("v1").is_empty()).await;
    assert_eq!(stage.node_of("p"), "");
}

#[tokio::test(start_paused = true)]
async fn when_nobody_waits_any_more_what_was_reserved_is_given_back() {
    let (stage, pod) = staged(&[("a", "10Gi")]);
    let (_extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    let bound = begin(&asker, &pod, "n1").await;
    stage.until("reserving the volume", |stage| stage.claim_of("v1") == "a").await;
    let again = bind(&asker, &pod, "n1").await.expect_err("it is being bound");
    assert_eq!(again, "pod default/p is being bound to node n1 already");
    drop(bound);
    stage.until("giving the volume back", |stage| stage.claim_of("v1").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_extender_goes_on_where_one_was_killed() {
    let (stage, pod) = staged(&[("a", "10Gi")]);
    let (extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    let bound = begin(&asker, &pod, "n1").await;
    stage.until("reserving the volume", |stage| stage.claim_of("v1") == "a").await;
    extender.kill();
    assert_eq!(bound.outcome().await, Err(Unanswered::Stopping));
    let (_controller, (_extender, asker)) = (stage.control(), stage.extend(LIMIT));
    answers(&asker).await;
    assert_eq!(bind(&asker, &pod, "n1").await, Ok(()));
    assert_eq!((stage.claim_of("v1"), stage.node_of("p")), ("a".to_owned(), "n1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_shown_late_is_waited_for_and_one_that_is_not_there_is_unknown() {
    let (stage, _) = staged(&[]);
    let (_extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    stage.server.hold_watches("Pod", true);
    let late = stage.put(pod("late", &[]));
    let (server, start) = (stage.server.clone(), Instant::now());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        server.hold_watches("Pod", false);
    });
    assert_eq!(bind(&asker, &late, "n1").await, Ok(()));
    assert_eq!(start.elapsed().as_secs(), 2);

    let nobody = json!({"metadata": {"name": "nobody", "uid": "u"}});
    let why = bind(&asker, &nobody, "n1").await.expect_err("there is no such pod");
    assert_eq!(why, "pod default/nobody with uid \"u\" is not known");
    let earlier = json!({"metadata": {"name": "late", "uid": "u"}});
    let why = bind(&asker, &earlier, "n1").await.expect_err("it is another pod of that name");
    assert_eq!(why, "pod default/late with uid \"u\" is not known");
    let why = bind(&asker, &late, "n2").await.expect_err("it is elsewhere");
    assert_eq!(why, "pod default/late is on node n1 already");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_meanwhile_is_the_answer() {
    let (stage, pod) = staged(&[("a", "10Gi")]);
    let (_extender, asker) = stage.extend(LIMIT);
    answers(&asker).await;
    let bound = begin(&asker, &pod, "n1").await;
    stage.until("reserving the volume", |stage| stage.claim_of("v1") == "a").await;
    let path = "/api/v1/namespaces/default/pods/p";
    let options = json!({"gracePeriodSeconds": 0}).to_string();
    assert_eq!(stage.server.request("DELETE", path, "application/json", options.as_bytes()).0, 200);
    let why = bound.outcome().await.expect("an answer").expect_err("it is gone");
    assert_eq!(why, "pod default/p no longer exists");
}
