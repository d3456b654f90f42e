//! Volumes that are bound once a pod has a place, by each scheduler that can be had.

use std::ops::Range;

use serde_json::{Value, json};

use crate::objects::{claim, delayed_class, name, only_on, pod, text, volume};
use crate::scenarios::faults::meanwhile;
use crate::stage::Stage;
use crate::target::{How, Program};

/// A volume that one node reaches, of a size.
fn on(stage: &Stage, short: &str, node: &str, size: &str) -> Value {
    let mut extra = json!({"spec": only_on(node)});
    json_patch::merge(&mut extra, &json!({"spec": {"capacity": {"storage": size}}}));
    volume(&stage.named(short), stage.prefix(), &extra)
}

/// A pod of the name with claims of these sizes, called after it.
async fn ask(stage: &Stage, scheduler: &str, name: &str, sizes: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for (index, size) in sizes.iter().enumerate() {
        let spec = json!({"resources": {"requests": {"storage": size}}});
        names.push(format!("{name}-{index}"));
        stage.create(&claim(&names[index], stage.prefix(), &spec)).await;
    }
    let claims: Vec<_> = names.iter().map(String::as_str).collect();
    stage.create(&pod(name, scheduler, &claims)).await;
    names
}

/// Pods go where their volumes are, and claims wait for their pods.
pub async fn with(stage: &Stage, scheduler: &str) {
    let nodes = stage.nodes(2).await;
    let (here, there) = (&nodes[0], nodes.last().expect("a node"));
    stage.create(&delayed_class(stage.prefix(), "kubernetes.io/no-provisioner")).await;
    for volume in [
        on(stage, "small", here, "10Gi"),
        on(stage, "large", there, "20Gi"),
        on(stage, "twin-1", there, "30Gi"),
        on(stage, "twin-2", there, "30Gi"),
    ] {
        stage.create(&volume).await;
    }
    stage.create(&claim("unused", stage.prefix(), &json!({}))).await;
    stage.told("unused", "WaitForFirstConsumer", "").await;

    ask(stage, scheduler, "one", &["5Gi"]).await;
    assert_eq!(&stage.placed("one").await, here);
    assert_eq!(name(&stage.bound("one-0").await.1), stage.named("small"), "it wastes least");
    ask(stage, scheduler, "two", &["15Gi"]).await;
    assert_eq!(&stage.placed("two").await, there);
    assert_eq!(name(&stage.bound("two-0").await.1), stage.named("large"));
    let twins = ask(stage, scheduler, "twins", &["30Gi", "25Gi"]).await;
    assert_eq!(&stage.placed("twins").await, there);
    for claim in twins {
        assert!(name(&stage.bound(&claim).await.1).contains("twin"), "{claim}");
    }

    ask(stage, scheduler, "huge", &["500Gi"]).await;
    stage.told("huge", "FailedScheduling", "didn't find available persistent volumes to bind").await;
    stage.create(&on(stage, "huge", there, "500Gi")).await;
    assert_eq!(&stage.placed("huge").await, there, "what was missing is there");
    stage.bound("huge-0").await;
    let unused = stage.get("PersistentVolumeClaim", "unused").await;
    assert_eq!(text(&unused, "/status/phase"), "Pending", "no pod wants it");
}

/// Many pods, each with a volume of its own to find, while the scheduler is killed and asked to end.
pub async fn scheduler_restarts(stage: &Stage) {
    let nodes = stage.nodes(4).await;
    stage.create(&delayed_class(stage.prefix(), "kubernetes.io/no-provisioner")).await;
    let count = 60;
    for number in 0..count {
        stage.create(&on(stage, &format!("v{number}"), &nodes[number % nodes.len()], "1Gi")).await;
    }
    let make = async |numbers: Range<usize>| {
        for number in numbers {
            ask(stage, "pvbind", &format!("p{number}"), &["1Gi"]).await;
        }
    };
    let placed =
        async || stage.list("Pod").await.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
    let restart = async |how| {
        stage.end(Program::Scheduler, how).await;
        stage.ensure(Program::Scheduler).await;
    };
    let portions = [(0..30, How::Kill), (30..count, How::Terminate)];
    meanwhile(stage, &portions, make, placed, restart).await;
    stage.all_bound(crate::stage::PATIENCE).await;
    for pod in (0..count).map(|number| format!("p{number}")) {
        let node = stage.placed(&pod).await;
        let (_, volume) = stage.bound(&format!("{pod}-0")).await;
        let reached =
            text(&volume, "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0");
        assert_eq!(reached, node, "pod {pod} is where its volume is");
    }
}
