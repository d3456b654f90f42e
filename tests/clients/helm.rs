//! Helm installs our chart on the bundled API server, upgrades it, goes back and removes it, by applying on the server and by its
//! own merge. What is there then is what the chart says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::stage::{Stage, eventually};

const NAMESPACE: &str = "storage";

/// The helm to try: `HELM`, or the one beside the control plane's programs.
fn find() -> Option<PathBuf> {
    let named = std::env::var_os("HELM").map(PathBuf::from);
    named.or_else(|| control_plane::assets(&["helm"]).map(|folder| folder.join("helm")))
}

struct Helm<'a> {
    program: &'a Path,
    stage: &'a Stage,
}

impl Helm<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.arg("120").arg(self.program).args(arguments).args(["--namespace", NAMESPACE]);
        command.env("KUBECONFIG", self.stage.kubeconfig()).env("HOME", self.stage.path("home"));
        // What it remembers is of other servers.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(folder);
        }
        command.stdin(Stdio::null()).current_dir(env!("CARGO_MANIFEST_DIR"));
        command
    }

    /// What it prints.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        said(arguments, &self.command(arguments).output().expect("helm runs"))
    }

    /// What it prints as JSON.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.run(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    }
}

#[track_caller]
fn said(arguments: &[&str], output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "helm {arguments:?}: {out}{err}");
    out
}

/// The objects of the cluster that a release has made, as `Kind namespace/name`.
async fn made(stage: &Stage) -> BTreeSet<String> {
    let client = stage.client().await;
    let mut found = BTreeSet::new();
    for (group, kind) in [
        ("", "ConfigMap"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("apps", "Deployment"),
        ("policy", "PodDisruptionBudget"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    ] {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let released = ListParams::default().labels("app.kubernetes.io/managed-by=Helm");
        for object in all.list(&released).await.expect("all kinds of the chart are served").items {
            let place = object.namespace().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            found.insert(format!("{kind} {place}{}", object.name_any()));
            assert_eq!(object.annotations()["meta.helm.sh/release-name"], "pvbind");
        }
    }
    found
}

/// The objects of the manifest that helm keeps of a release.
fn kept(manifest: &str) -> BTreeSet<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest).expect("YAML");
    let name = |object: &Value| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let place = text("/metadata/namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{} {place}{}", text("/kind").expect("a kind"), text("/metadata/name").expect("a name"))
    };
    documents.iter().filter(|document| !document.is_null()).map(name).collect()
}

/// Says of each Deployment what a controller would, so that whoever waits for them goes on.
async fn roll_out(deployments: &Api<Deployment>) {
    for deployment in deployments.list(&ListParams::default()).await.expect("they can be listed") {
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let status = json!({"status": {
            "observedGeneration": deployment.metadata.generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": replicas, "availableReplicas": replicas,
            "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}],
        }});
        let name = deployment.name_any();
        deployments
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
            .await
            .expect("so it is said");
    }
}

/// Runs a command that waits for what it makes to be ready.
async fn wait_for(helm: &Helm<'_>, arguments: &[&str]) {
    let deployments: Api<Deployment> = Api::namespaced(helm.stage.client().await, NAMESPACE);
    let arguments = [arguments, &["--wait", "--timeout", "90s"]].concat();
    let started = helm.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = std::cell::RefCell::new(started.expect("helm runs"));
    eventually("helm has waited long enough", async || {
        roll_out(&deployments).await;
        running.borrow_mut().try_wait().expect("it is a child")
    })
    .await;
    said(&arguments, &running.into_inner().wait_with_output().expect("it has ended"));
}

async fn a_release(program: &Path, on_the_server: &str) {
    let stage = Stage::start(&[]).await;
    let helm = Helm { program, stage: &stage };
    let client = stage.client().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let revisions =
        async || secrets.list(&ListParams::default()).await.expect("they can be listed").items.len();
    let chart = ["pvbind", "deploy/chart/pvbind", on_the_server];
    let with = |verb: &'static str, more: &[&'static str]| [&[verb], &chart[..], more].concat();

    // What is only tried leaves nothing, but is seen by the server.
    let tried = helm.run(&with("install", &["--create-namespace", "--dry-run=server"]));
    assert!(tried.contains("kind: Deployment") && made(&stage).await.is_empty(), "{tried}");

    wait_for(&helm, &with("install", &["--create-namespace"])).await;
    let installed = made(&stage).await;
    assert_eq!(installed, kept(&helm.run(&["get", "manifest", "pvbind"])));
    assert!(installed.contains("Deployment storage/pvbind-controller"), "{installed:?}");
    assert_eq!(helm.json(&["status", "pvbind"])["info"]["status"], "deployed");

    // Somebody else's change stays where the chart says nothing, and goes where it does.
    let other =
        json!({"metadata": {"annotations": {"mine": "yes"}}, "spec": {"progressDeadlineSeconds": 77}});
    deployments
        .patch("pvbind-controller", &PatchParams::default(), &Patch::Merge(&other))
        .await
        .expect("it changes");
    let values = ["--set", "scheduler.enabled=true,controller.replicas=3,log.filter=debug"];
    wait_for(&helm, &with("upgrade", &values)).await;
    let upgraded = made(&stage).await;
    assert_eq!(upgraded, kept(&helm.run(&["get", "manifest", "pvbind"])));
    assert!(upgraded.contains("Deployment storage/pvbind-scheduler"), "{upgraded:?}");
    let controller = deployments.get("pvbind-controller").await.expect("it is there");
    assert_eq!(controller.annotations()["mine"], "yes");
    let spec = controller.spec.expect("a spec");
    assert_eq!((spec.replicas, spec.progress_deadline_seconds), (Some(3), Some(77)));

    helm.run(&with("upgrade", &["--set", "controller.enabled=false,scheduler.enabled=true"]));
    let left = made(&stage).await;
    assert!(left.contains("Deployment storage/pvbind-scheduler"), "{left:?}");
    assert!(!left.iter().any(|object| object.contains("controller")), "{left:?}");

    // Back to the first: what was removed is made again, what was added goes.
    helm.run(&["rollback", "pvbind", "1"]);
    assert_eq!(made(&stage).await, installed);
    let controller = deployments.get("pvbind-controller").await.expect("it is there");
    assert_eq!(controller.spec.and_then(|spec| spec.replicas), Some(2));
    let history = helm.json(&["history", "pvbind"]);
    let history: Vec<&Value> = history.as_array().expect("a list").iter().map(|one| &one["status"]).collect();
    assert_eq!(history, ["superseded", "superseded", "superseded", "deployed"]);
    assert_eq!(revisions().await, 4);

    helm.run(&["uninstall", "pvbind"]);
    assert!(made(&stage).await.is_empty());
    assert_eq!(revisions().await, 0);
    assert_eq!(helm.json(&["list"]), json!([]));
}

#[tokio::test]
async fn helm_installs_upgrades_and_removes_the_chart() {
    let Some(program) = find() else {
        return control_plane::not_run(
            "no helm (HELM, or KUBEBUILDER_ASSETS; tests/control-plane/build.sh helm builds one): the chart was not installed on the \
             bundled API server",
        );
    };
    for on_the_server in ["--server-side=true", "--server-side=false"] {
        a_release(&program, on_the_server).await;
    }
}
