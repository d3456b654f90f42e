//! What pods find in the volumes that were bound for them. Only a kubelet can tell, and its node has to have the pods' image.

use serde_json::{Value, json};

use crate::cluster::BUSYBOX;
use crate::objects::{claim, class, delayed_class, name, only_on, pod, text, volume};
use crate::stage::Stage;

/// A pod that runs a script to its end, with its claims at `/CLAIM`.
fn running(name: &str, scheduler: &str, claims: &[&str], script: &str) -> Value {
    let mounts: Vec<_> =
        claims.iter().map(|claim| json!({"name": claim, "mountPath": format!("/{claim}")})).collect();
    let mut pod = pod(name, scheduler, claims);
    let spec = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "c", "image": BUSYBOX, "command": ["sh", "-c", script], "volumeMounts": mounts,
        }],
    });
    json_patch::merge(&mut pod["spec"], &spec);
    pod
}

/// Waits until a pod has ended well; says what its script wrote to `/dev/termination-log`.
async fn ends(stage: &Stage, pod: &str) -> String {
    let terminated = "/status/containerStatuses/0/state/terminated";
    let has_ended = |pod: &Value| pod.pointer(terminated).is_some();
    let pod = stage.shows("Pod", pod, "it ends", has_ended).await;
    let ended = &pod.pointer(terminated).expect("it has ended");
    assert_eq!(ended["exitCode"], 0, "{pod}");
    text(ended, "/message").to_owned()
}

/// Runs a script in a pod that is gone afterwards; says what it told.
async fn run(stage: &Stage, name: &str, claims: &[&str], script: &str) -> String {
    stage.create(&running(name, "default-scheduler", claims, script)).await;
    let told = ends(stage, name).await;
    stage.delete("Pod", name).await;
    stage.gone("Pod", name).await;
    told
}

/// The same for a script that sees the node's `/tmp` as `/node`.
async fn on_node(stage: &Stage, name: &str, script: &str) -> String {
    let mut pod = running(name, "default-scheduler", &[], script);
    pod["spec"]["volumes"] = json!([{"name": "node", "hostPath": {"path": "/tmp"}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "node", "mountPath": "/node"}]);
    stage.create(&pod).await;
    let told = ends(stage, name).await;
    stage.delete("Pod", name).await;
    told
}

fn with_policy(stage: &Stage, short: &str, policy: &str) -> Value {
    let spec = json!({"persistentVolumeReclaimPolicy": policy});
    volume(&stage.named(short), stage.prefix(), &json!({ "spec": spec }))
}

/// Pods of a set with claims of their own find what the ones before them wrote.
pub async fn rescheduled(stage: &Stage) {
    for short in ["one", "other"] {
        stage.create(&with_policy(stage, short, "Retain")).await;
    }
    let script = "hostname >>/data/log; trap exit TERM; while :; do sleep 1; done";
    let mut template = running("web", "default-scheduler", &[], script);
    template["metadata"] = json!({"labels": {"app": "web"}});
    template["spec"]["restartPolicy"] = json!("Always");
    template["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
            "podManagementPolicy": "Parallel",
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
            "volumeClaimTemplates": [claim("data", stage.prefix(), &json!({}))],
        },
    });
    stage.create(&set).await;
    let ready = |pod: &Value| pod.pointer("/status/containerStatuses/0/ready") == Some(&json!(true));
    for pod in ["web-0", "web-1"] {
        stage.shows("Pod", pod, "it runs", ready).await;
    }
    let before = stage.bound("data-web-0").await.1;
    let first = stage.get("Pod", "web-0").await;
    stage.delete("Pod", "web-0").await;
    let again = |pod: &Value| pod["metadata"]["uid"] != first["metadata"]["uid"] && ready(pod);
    stage.shows("Pod", "web-0", "it runs again", again).await;
    assert_eq!(name(&before), name(&stage.bound("data-web-0").await.1), "it has the same volume");
    for (claim, log) in [("data-web-0", "web-0\nweb-0\n"), ("data-web-1", "web-1\n")] {
        let read = format!("cat /{claim}/log >/dev/termination-log");
        assert_eq!(run(stage, &format!("reader-of-{claim}"), &[claim], &read).await, log);
    }
    stage.delete("StatefulSet", "web").await;
}

/// A directory is made on the node, keeps what pods write, and is removed with all of it.
pub async fn made_and_deleted(stage: &Stage) {
    let class_name = stage.named("made");
    stage.create(&class(&class_name, "kubernetes.io/host-path")).await;
    stage.create(&claim("c", &class_name, &json!({}))).await;
    let (_, made) = stage.bound("c").await;
    run(stage, "writer", &["c"], "mkdir /c/sub && echo kept >/c/sub/file && chmod 0 /c/sub").await;
    let read = "chmod 700 /c/sub && cat /c/sub/file >/dev/termination-log";
    assert_eq!(run(stage, "reader", &["c"], read).await, "kept\n");
    let path = text(&made, "/spec/hostPath/path");
    let there = format!("if [ -e {} ]; then echo there; else echo gone; fi >/dev/termination-log", {
        path.replacen("/tmp", "/node", 1)
    });
    assert_eq!(on_node(stage, "before", &there).await, "there\n", "{path}");
    stage.delete("PersistentVolumeClaim", "c").await;
    stage.gone("PersistentVolume", name(&made)).await;
    assert_eq!(on_node(stage, "after", &there).await, "gone\n", "{path}");
}

/// What was scrubbed is empty for whoever has it next.
pub async fn scrubbed(stage: &Stage) {
    stage.create(&with_policy(stage, "used", "Recycle")).await;
    stage.create(&claim("first", stage.prefix(), &json!({}))).await;
    stage.bound("first").await;
    run(stage, "writer", &["first"], "mkdir -p /first/a/b && echo secret | tee /first/.hidden >/first/a/b/c")
        .await;
    stage.delete("PersistentVolumeClaim", "first").await;
    let free = |volume: &Value| text(volume, "/status/phase") == "Available";
    stage.shows("PersistentVolume", &stage.named("used"), "it is free again", free).await;
    stage.create(&claim("second", stage.prefix(), &json!({}))).await;
    let (_, volume) = stage.bound("second").await;
    assert_eq!(name(&volume), stage.named("used"));
    let look = "ls -A /second | wc -l >/dev/termination-log";
    assert_eq!(run(stage, "reader", &["second"], look).await, "0\n");
}

/// What was kept is there for whoever an administrator gives it to.
pub async fn kept(stage: &Stage) {
    stage.create(&with_policy(stage, "kept", "Retain")).await;
    stage.create(&claim("first", stage.prefix(), &json!({}))).await;
    stage.bound("first").await;
    run(stage, "writer", &["first"], "echo kept >/first/file").await;
    stage.delete("PersistentVolumeClaim", "first").await;
    let over = |volume: &Value| text(volume, "/status/phase") == "Released";
    stage.shows("PersistentVolume", &stage.named("kept"), "it is released", over).await;
    stage.patch("PersistentVolume", &stage.named("kept"), &json!({"spec": {"claimRef": null}})).await;
    stage.create(&claim("second", stage.prefix(), &json!({}))).await;
    stage.bound("second").await;
    assert_eq!(run(stage, "reader", &["second"], "cat /second/file >/dev/termination-log").await, "kept\n");
}

/// Claims that wait for a pod are bound for where it goes, whoever places it, and it runs there with what it asked for.
pub async fn delayed(stage: &Stage) {
    let node = stage.nodes(1).await.remove(0);
    let class_name = stage.named("local");
    stage.create(&delayed_class(&class_name, "kubernetes.io/no-provisioner")).await;
    for (number, scheduler) in ["default-scheduler", "pvbind", "extended"].into_iter().enumerate() {
        // A local volume is there before anybody says that it is.
        let short = stage.named(&format!("v{number}"));
        let make = format!("mkdir -p /node/{short}");
        on_node(stage, &format!("maker-{number}"), &make).await;
        let mut local = volume(&short, &class_name, &json!({"spec": only_on(&node)}));
        local["spec"]["local"]["path"] = json!(format!("/tmp/{short}"));
        stage.create(&local).await;
        let claim_name = format!("c{number}");
        stage.create(&claim(&claim_name, &class_name, &json!({}))).await;
        let write = format!("echo {scheduler} >/{claim_name}/file");
        stage.create(&running(&format!("writer-{number}"), scheduler, &[&claim_name], &write)).await;
        ends(stage, &format!("writer-{number}")).await;
        let (_, volume) = stage.bound(&claim_name).await;
        let file = text(&volume, "/spec/local/path").replacen("/tmp", "/node", 1);
        let told =
            on_node(stage, &format!("looker-{number}"), &format!("cat {file}/file >/dev/termination-log"))
                .await;
        assert_eq!(told, format!("{scheduler}\n"));
    }
}
