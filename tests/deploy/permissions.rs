//! What the manifests permit is what the programs need: each runs on a real kube-apiserver by its own account, under exactly
//! the rules that are shipped, through a course of all that it does. No request is refused, and no rule is left over.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder with the programs, and says so where it does not.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::audit::{self, permitted, refused, unused};
use crate::chart;
use crate::course::{Admin, claim, class, local_volume, node, pod, told_of_pod, volume};
use crate::manifests::told;
use crate::shipped::{name, objects, of_kind, text};

/// Longer than an event is not repeated.
const REPEATED: Duration = Duration::from_secs(16);

/// A control plane that writes down what accounts ask.
struct Stage {
    plane: ControlPlane,
    admin: Admin,
    audit: tempfile::TempDir,
    /// The second of a component of which there are two.
    second: Option<String>,
}

impl Stage {
    /// Starts one, if the programs are there.
    async fn start(programs: &[&str]) -> Option<Self> {
        let Some(assets) = control_plane::assets(programs) else {
            control_plane::not_run(&format!(
                "KUBEBUILDER_ASSETS names no folder with {}; permissions were not tried",
                programs.join(", ")
            ));
            return None;
        };
        let audit = tempfile::tempdir().expect("a folder");
        let file = |name: &str| audit.path().join(name).to_str().expect("a plain path").to_owned();
        std::fs::write(file("policy"), audit::policy()).expect("it is written");
        let further = [
            format!("--audit-policy-file={}", file("policy")),
            format!("--audit-log-path={}", file("log")),
            // Nobody here takes finalizers off what is in use no more.
            "--disable-admission-plugins=StorageObjectInUseProtection".to_owned(),
        ];
        let further: Vec<&str> = further.iter().map(String::as_str).collect();
        let plane = ControlPlane::start_with(assets, &further).await;
        let admin = Admin::of(&plane).await;
        Some(Stage { plane, admin, audit, second: None })
    }

    /// Makes a component's account, with what it may do; the kubeconfig is called as the component.
    async fn permit(&self, component: &str, objects: &[Value]) {
        self.admin.permit(objects).await;
        let token = self.admin.token(&format!("pvbind-{component}")).await;
        self.plane.write_kubeconfig(component, &token);
    }

    /// Starts a component as its Deployment does, but for where it serves; what it prints comes back.
    fn run(&mut self, component: &str, objects: &[Value], further: &[&str]) -> impl Read + use<> {
        self.run_as(component, component, objects, further)
    }

    /// Starts two, of which one leads.
    fn run_two(&mut self, component: &str, objects: &[Value]) {
        let deployment = of_kind(objects, "Deployment").next().expect("a Deployment");
        assert_eq!(deployment["spec"]["replicas"], 2);
        let second = format!("{component}-2");
        for name in [component, &second] {
            let _output =
                self.run_as(name, component, objects, &["--leader-elect-resource-namespace=kube-system"]);
        }
        self.second = Some(second);
    }

    fn run_as(
        &mut self,
        name: &str,
        component: &str,
        objects: &[Value],
        further: &[&str],
    ) -> impl Read + use<> {
        let deployment = of_kind(objects, "Deployment").next().expect("a Deployment");
        let (_, arguments) = told(deployment).remove(0);
        let placed = ["--metrics-addr=", "--listen="];
        let arguments = arguments.into_iter().filter(|a| !placed.iter().any(|option| a.starts_with(option)));
        let kubeconfig = format!("--kubeconfig={}", self.plane.argument(&format!("{component}.conf")));
        let own = [&kubeconfig, "--metrics-addr=127.0.0.1:0"];
        let all = arguments.chain(own).chain(further.iter().copied());
        let all: Vec<String> = all.map(str::to_owned).collect();
        self.plane.run(name, Path::new(env!("CARGO_BIN_EXE_pvbind")), &all)
    }

    /// Ends a component, and compares what it asked with what it may.
    #[track_caller]
    fn check(&mut self, component: &str, objects: &[Value]) {
        for name in [Some(component.to_owned()), self.second.take()].into_iter().flatten() {
            let ending = self.plane.stop(&name);
            assert!(
                matches!(ending, control_plane::Ending::Exited(status) if status.success()),
                "{name}: {ending:?}"
            );
        }
        let asked = audit::of(&format!("pvbind-{component}"), &self.audit.path().join("log"));
        assert!(asked.len() > 10, "{asked:?}");
        let refused = refused(&asked);
        assert!(refused.is_empty(), "{component} may not: {refused:#?}");
        let left = unused(&permitted(objects), &asked);
        assert!(left.is_empty(), "{component} never needs: {left:#?}");
    }
}

fn host_path(path: &Path) -> Value {
    json!({"hostPath": {"path": path.to_str().expect("a plain path")}})
}

/// Claims are bound, released, and what they had is deleted or scrubbed.
async fn bind_and_reclaim(admin: &Admin) {
    let folder = tempfile::tempdir_in("/tmp").expect("a folder below /tmp");
    let directory = folder.path().join("volume");
    std::fs::create_dir(&directory).expect("a directory");
    for (name, policy) in [("kept", "Retain"), ("deleted", "Delete"), ("scrubbed", "Recycle")] {
        admin.create(&volume(name, name, policy, &host_path(&directory))).await;
        admin.create(&claim(name, Some(name), "1Gi")).await;
        admin.phase("PersistentVolumeClaim", name, "Bound").await;
        admin.phase("PersistentVolume", name, "Bound").await;
    }
    admin.delete("PersistentVolumeClaim", "kept").await;
    admin.phase("PersistentVolume", "kept", "Released").await;

    admin.delete("PersistentVolumeClaim", "scrubbed").await;
    let scrubber = "recycler-for-scrubbed";
    let pod = admin.see("Pod", scrubber, "being made", |pod| !pod.is_null()).await;
    admin.create(&told_of_pod(&pod)).await;
    admin.told("scrubbed", "RecyclerPod", 1).await;
    admin.patch("Pod", &format!("{scrubber}/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    admin.see("Pod", scrubber, "being deleted", Value::is_null).await;
    admin.phase("PersistentVolume", "scrubbed", "Available").await;

    admin.delete("PersistentVolumeClaim", "deleted").await;
    admin.see("PersistentVolume", "deleted", "being deleted", Value::is_null).await;
    assert!(!directory.exists(), "the volume is gone, and its directory is not");
}

/// A claim gets the default class later on, and a provisioner is asked, again after a while.
async fn ask_for_provisioning(admin: &Admin) {
    admin.create(&claim("later", None, "1Gi")).await;
    admin.create(&class("made", "made.example.test", "Immediate", true)).await;
    admin.told("later", "ExternalProvisioning", 1).await;
    tokio::time::sleep(REPEATED).await;
    admin.patch("PersistentVolumeClaim", "later", &json!({"metadata": {"labels": {"looked": "at"}}})).await;
    admin.told("later", "ExternalProvisioning", 2).await;
    let uid = admin.see("PersistentVolumeClaim", "later", "being there", |claim| !claim.is_null()).await;
    let mut made = volume(
        "made",
        "made",
        "Delete",
        &json!({"csi": {"driver": "made.example.test", "volumeHandle": "h"}}),
    );
    made["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "later",
        "uid": uid["metadata"]["uid"],
    });
    admin.create(&made).await;
    admin.phase("PersistentVolumeClaim", "later", "Bound").await;
}

#[tokio::test]
async fn the_controller_needs_what_it_may_and_may_what_it_needs() {
    let Some(mut stage) = Stage::start(&["etcd", "kube-apiserver"]).await else { return };
    let objects = objects(&text("deploy/manifests/controller.yaml"));
    stage.permit("controller", &objects).await;
    stage.run_two("controller", &objects);
    bind_and_reclaim(&stage.admin).await;
    ask_for_provisioning(&stage.admin).await;
    stage.check("controller", &objects);
}

#[tokio::test]
async fn a_controller_that_makes_directories_needs_what_it_may_on_top_of_that() {
    let Some(mut stage) = Stage::start(&["etcd", "kube-apiserver"]).await else { return };
    let Some(helm) = chart::helm() else {
        return control_plane::not_run("no helm: the permissions of hostPath provisioning were not tried");
    };
    let objects = chart::render(&helm, "controller.hostPathProvisioner=true");
    stage.permit("controller", &objects).await;
    stage.run_two("controller", &objects);
    let admin = &stage.admin;
    bind_and_reclaim(admin).await;
    ask_for_provisioning(admin).await;
    admin.create(&node("n")).await;
    admin.create(&class("directories", "kubernetes.io/host-path", "WaitForFirstConsumer", false)).await;
    let mut selected = claim("directory", Some("directories"), "1Gi");
    selected["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n"});
    admin.create(&selected).await;
    let bound = admin.phase("PersistentVolumeClaim", "directory", "Bound").await;
    let volume = bound["spec"]["volumeName"].as_str().expect("its volume").to_owned();
    let made = admin.phase("PersistentVolume", &volume, "Bound").await;
    let directory = made["spec"]["hostPath"]["path"].as_str().expect("a directory").to_owned();
    assert!(Path::new(&directory).is_dir(), "{directory}");
    admin.delete("PersistentVolumeClaim", "directory").await;
    admin.see("PersistentVolume", &volume, "being deleted", Value::is_null).await;
    assert!(!Path::new(&directory).exists(), "{directory} is left");
    stage.check("controller", &objects);
}

/// Nodes, and classes whose claims wait for pods.
async fn set_nodes_up(admin: &Admin) {
    admin.create(&node("n1")).await;
    admin.create(&node("n2")).await;
    admin.create(&class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", false)).await;
    admin.create(&class("made", "made.example.test", "WaitForFirstConsumer", false)).await;
}

/// Pods get a volume that is there, or a node where one is to be made, or a reason.
async fn place_pods(admin: &Admin, scheduler: &str) {
    admin.create(&local_volume("v1", "local", "n1")).await;
    admin.create(&claim("stays", Some("local"), "1Gi")).await;
    admin.create(&pod("stays", scheduler)).await;
    admin.see("Pod", "stays", "being placed", |pod| pod["spec"]["nodeName"] == "n1").await;
    admin.phase("PersistentVolumeClaim", "stays", "Bound").await;

    admin.create(&claim("waits", Some("made"), "1Gi")).await;
    admin.create(&pod("waits", scheduler)).await;
    let selected =
        |claim: &Value| !claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_null();
    admin.see("PersistentVolumeClaim", "waits", "a node being selected", selected).await;

    admin.create(&claim("huge", Some("local"), "5Gi")).await;
    admin.create(&pod("huge", scheduler)).await;
    let refused = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    admin.see("Pod", "huge", "being refused", refused).await;
    admin.told("huge", "FailedScheduling", 1).await;
}

/// Starts somebody who binds claims, by somebody else's account.
fn start_controller(stage: &mut Stage) {
    let arguments = ["controller", "--metrics-addr=off", "--kubeconfig"].map(str::to_owned);
    let arguments: Vec<String> = arguments.into_iter().chain([stage.plane.argument("admin.conf")]).collect();
    let _output = stage.plane.run("binds claims", Path::new(env!("CARGO_BIN_EXE_pvbind")), &arguments);
}

#[tokio::test]
async fn the_scheduler_needs_what_it_may_and_may_what_it_needs() {
    let Some(mut stage) = Stage::start(&["etcd", "kube-apiserver"]).await else { return };
    let objects = objects(&text("deploy/manifests/scheduler.yaml"));
    stage.permit("scheduler", &objects).await;
    set_nodes_up(&stage.admin).await;
    start_controller(&mut stage);
    stage.run_two("scheduler", &objects);
    place_pods(&stage.admin, "pvbind").await;
    tokio::time::sleep(REPEATED).await;
    let looked_at = json!({"metadata": {"labels": {"looked": "at"}}});
    stage.admin.patch("PersistentVolumeClaim", "huge", &looked_at).await;
    stage.admin.told("huge", "FailedScheduling", 2).await;
    stage.check("scheduler", &objects);
}

/// What the extender's own role is about, and what its kube-scheduler has: all of it, by an account of its own here, so that it
/// shows who needs what.
fn shared_out(objects: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
    let mut theirs = Vec::new();
    for object in &objects {
        let mut object = object.clone();
        let name = name(&object).to_owned();
        match object["kind"].as_str().expect("a kind") {
            "ServiceAccount" => object["metadata"]["name"] = "pvbind-kube-scheduler".into(),
            "Role" => {}
            "ClusterRoleBinding" | "RoleBinding" => {
                object["metadata"]["name"] = format!("{name}-of-kube-scheduler").into();
                object["subjects"][0]["name"] = "pvbind-kube-scheduler".into();
            }
            _ => continue,
        }
        theirs.push(object);
    }
    let is_own = |object: &Value| name(object) == "pvbind-extender";
    (objects.into_iter().filter(is_own).collect(), theirs)
}

/// Starts kube-scheduler as in the extender's pod; the extender is at a URL.
fn start_kube_scheduler(stage: &mut Stage, objects: &[Value], url: &str) {
    let map = of_kind(objects, "ConfigMap").next().expect("a ConfigMap");
    let configuration = map["data"]["kube-scheduler.yaml"].as_str().expect("text");
    let mut configuration: Value = serde_saphyr::from_str(configuration).expect("a configuration");
    let mine = stage.plane.argument("kube-scheduler.conf");
    configuration["clientConnection"] = json!({"kubeconfig": mine});
    configuration["extenders"][0]["urlPrefix"] = url.into();
    // In a pod it finds these by itself.
    let kinds = ["authentication", "authorization"].map(|kind| format!("--{kind}-kubeconfig={mine}"));
    let further: Vec<&str> = kinds.iter().map(String::as_str).collect();
    stage.plane.start_scheduler_as("kube-scheduler", &configuration.to_string(), &further);
}

#[tokio::test]
async fn the_extender_and_its_kube_scheduler_need_what_they_may_and_may_what_they_need() {
    let programs = ["etcd", "kube-apiserver", "kube-scheduler"];
    let Some(mut stage) = Stage::start(&programs).await else { return };
    let (own, theirs) = shared_out(objects(&text("deploy/manifests/extender.yaml")));
    stage.permit("extender", &own).await;
    stage.permit("kube-scheduler", &theirs).await;
    set_nodes_up(&stage.admin).await;
    start_controller(&mut stage);
    let output = stage.run("extender", &own, &["--listen=127.0.0.1:0"]);
    let mut url = String::new();
    // A line is short, and the program closes its output if it fails.
    BufReader::new(output.take(1024)).read_line(&mut url).expect("its output is text");
    start_kube_scheduler(&mut stage, &own, url.trim());
    place_pods(&stage.admin, "pvbind-extender").await;
    stage.check("kube-scheduler", &theirs);
    stage.check("extender", &own);
}
