//! A real kube-apiserver takes what is shipped as it stands, and the pods also where Pod Security's level is `restricted`.
//!
//! Runs where `KUBEBUILDER_ASSETS` names a folder with the programs, and says so where it does not.

use control_plane::ControlPlane;
use serde_json::{Value, json};

use crate::chart;
use crate::course::Admin;
use crate::shipped::{MANIFESTS, at, name, objects, of_kind, text};

/// What is shipped: the plain manifests, and what the chart has besides, where there is helm.
fn shipped() -> Vec<Value> {
    let mut all: Vec<Value> = MANIFESTS.iter().flat_map(|(_, file)| objects(&text(file))).collect();
    match chart::helm() {
        Some(helm) => {
            let on = "networkPolicy.enabled=true,scheduler.enabled=true,extender.enabled=true";
            let template = "controller.recycler.nfs.template.kind=Pod,controller.hostPathProvisioner=true";
            all.extend([on, template].iter().flat_map(|values| chart::render(&helm, values)));
        }
        None => control_plane::not_run("no helm: what only the chart has was not shown to an API server"),
    }
    all
}

/// The pod that a Deployment makes, in a namespace.
fn pod_of(deployment: &Value, namespace: &str) -> Value {
    let template = at(deployment, "/spec/template");
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]});
    pod["metadata"] = json!({"name": name(deployment), "namespace": namespace});
    pod
}

#[tokio::test]
async fn an_api_server_takes_every_object_as_it_stands() {
    let Some(assets) = control_plane::assets(&["etcd", "kube-apiserver"]) else {
        return control_plane::not_run(
            "KUBEBUILDER_ASSETS names no folder with etcd and kube-apiserver: the manifests were shown to nobody",
        );
    };
    let plane = ControlPlane::start(assets).await;
    let admin = Admin::of(&plane).await;
    let strict = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "strict", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    admin.create(&strict).await;
    for object in shipped() {
        let said = admin.try_out(&object).await;
        assert!(said.is_ok(), "{} {}: {said:?}", object["kind"], name(&object));
    }
    for (_, file) in MANIFESTS {
        let objects = objects(&text(file));
        let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
        let mut pod = pod_of(deployment, "strict");
        let said = admin.try_out(&pod).await;
        assert!(said.is_ok(), "{file}: {said:?}");
        // It is the level that was asked: as root it does not pass.
        pod["spec"]["securityContext"]["runAsNonRoot"] = false.into();
        let refused = admin.try_out(&pod).await.expect_err("root is refused");
        assert!(refused.to_string().contains("runAsNonRoot"), "{refused}");
    }
}
