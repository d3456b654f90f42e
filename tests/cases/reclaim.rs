//! What becomes of volumes whose claims are gone: who deletes or scrubs them, in which order, and what happens when
//! that fails.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::offline::simulated_then;
use crate::stage::{Stage, claim, volume};

const IN_TREE: &str = "kubernetes.io/pv-controller";
const EXTERNAL: &str = "external-provisioner.volume.kubernetes.io/finalizer";

fn at(path: &Path) -> Value {
    json!({"path": path.to_str().expect("a plain path")})
}

/// A volume that the hostPath plugin made for claim `c1`.
fn host_path_volume(path: &Path, policy: &str) -> Value {
    volume(
        "p1",
        &json!({
            "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"}},
            "spec": {"persistentVolumeReclaimPolicy": policy, "hostPath": at(path)},
        }),
    )
}

/// A bound pair with a volume that may be scrubbed; whether the user reserved it for the claim.
async fn recyclable(stage: &mut Stage, by_user: bool) {
    let reference = json!({"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c1"});
    let reference = if by_user { reference } else { Value::Null };
    let spec = json!({"persistentVolumeReclaimPolicy": "Recycle", "claimRef": reference});
    stage.create(&volume("p1", &json!({"spec": spec})));
    stage.create(&claim("c1", &json!({})));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1"), ("Bound".into(), "p1".into()));
}

/// kubernetes-csi/external-provisioner#546: the volume was deleted before its claim, and its storage leaked.
#[test]
fn a14_a_volume_that_is_deleted_before_its_claim_goes_with_its_storage() {
    let ended = simulated_then("deleted-before-its-claim.yaml", "delete-volume.then.yaml");
    let name = ended.claim("c1").volume.clone();
    assert_eq!(ended.state("c1").0, "Bound");
    assert_eq!(ended.volume_state(&name), ("Bound", "default/c1"), "the claim still has it");
    let volume = ended.object("PersistentVolume", &name);
    assert!(volume["metadata"]["deletionTimestamp"].is_string());
    let finalizers = volume["metadata"]["finalizers"].as_array().expect("a list");
    assert!(finalizers.iter().any(|finalizer| finalizer == EXTERNAL), "{finalizers:?}");

    let ended = simulated_then("deleted-before-its-claim.yaml", "delete-both.then.yaml");
    assert!(ended.0.claims.is_empty() && ended.0.volumes.is_empty(), "{:?}", ended.0.volumes);
}

/// kubernetes-csi/external-provisioner#546: the controller itself deletes nothing of a driver's and takes no finalizer
/// of its away; it says Released, and the driver does the rest.
#[tokio::test(start_paused = true)]
async fn a14_sibling_the_volume_is_released_with_the_finalizer_of_its_driver() {
    let mut stage = Stage::new();
    stage.create(&volume(
        "p1",
        &json!({
            "metadata": {
                "annotations": {"pv.kubernetes.io/provisioned-by": "drv.example.com"}, "finalizers": [EXTERNAL],
            },
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete", "hostPath": null,
                "csi": {"driver": "drv.example.com", "volumeHandle": "h1"},
            },
        }),
    ));
    stage.create(&claim("c1", &json!({})));
    stage.start();
    stage.settle().await;
    stage.delete("PersistentVolume", "p1");
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Bound".into(), "c1".into()));
    stage.server.record_calls(true);
    stage.delete("PersistentVolumeClaim", "c1");
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Released".into(), "c1".into()));
    assert_eq!(stage.finalizers("PersistentVolume", "p1"), [EXTERNAL]);
    let deletes: Vec<_> = stage.calls().into_iter().filter(|call| call.verb == "delete").collect();
    assert_eq!(deletes.iter().map(|call| &*call.name).collect::<Vec<_>>(), ["c1"], "that was the user");
    stage.stop().await;
}

/// kubernetes-csi/external-provisioner#546, in tree: the finalizer keeps the volume until its directory is gone.
#[tokio::test(start_paused = true)]
async fn a14_sibling_a_host_path_volume_that_is_deleted_first_goes_after_its_directory() {
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let path = folder.path().join("p1");
    std::fs::create_dir(&path).expect("a folder in it");
    let mut stage = Stage::new();
    stage.create(&host_path_volume(&path, "Delete"));
    stage.create(&claim("c1", &json!({})));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.finalizers("PersistentVolume", "p1"), [IN_TREE]);
    stage.delete("PersistentVolume", "p1");
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Bound".into(), "c1".into()));
    assert!(path.is_dir(), "the claim still has it");
    stage.delete("PersistentVolumeClaim", "c1");
    stage.settle().await;
    assert!(!path.exists());
    assert!(stage.volume("p1").is_null());
    stage.stop().await;
}

/// kubernetes/kubernetes#109330, kubernetes/kubernetes#109253: the finalizer was put on volumes of every policy.
#[tokio::test(start_paused = true)]
async fn a15_only_a_volume_that_is_to_be_deleted_has_the_finalizer() {
    for policy in ["Retain", "Recycle", "Delete"] {
        let mut stage = Stage::new();
        stage.create(&host_path_volume(Path::new("/tmp/p1"), policy));
        stage.create(&claim("c1", &json!({})));
        stage.start();
        stage.settle().await;
        assert_eq!(stage.claim_state("c1").0, "Bound");
        let expected: &[&str] = if policy == "Delete" { &[IN_TREE] } else { &[] };
        assert_eq!(stage.finalizers("PersistentVolume", "p1"), expected, "{policy}");
        // Whoever changes the policy changes what is kept for it.
        for (policy, expected) in [("Retain", &[][..]), ("Delete", &[IN_TREE]), ("Recycle", &[])] {
            let policy = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
            stage.patch("PersistentVolume", "p1", &policy);
            stage.settle().await;
            assert_eq!(stage.finalizers("PersistentVolume", "p1"), expected, "{policy}");
        }
        stage.stop().await;
    }
}

/// kubernetes/kubernetes#109330: a volume that nobody made in tree is given none, whatever its policy.
#[tokio::test(start_paused = true)]
async fn a15_sibling_a_volume_that_a_user_made_has_no_finalizer() {
    let mut stage = Stage::new();
    stage.create(&volume("p1", &json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}})));
    stage.create(&claim("c1", &json!({})));
    stage.start();
    stage.settle().await;
    assert_eq!(stage.claim_state("c1").0, "Bound");
    assert!(stage.finalizers("PersistentVolume", "p1").is_empty());
    stage.stop().await;
}

/// kubernetes/kubernetes#92946: the scrubbing pod could not be made, and the volume stayed Failed for ever.
#[tokio::test(start_paused = true)]
async fn a18_scrubbing_is_tried_again_after_its_pod_could_not_be_made() {
    for by_user in [false, true] {
        let mut stage = Stage::new();
        recyclable(&mut stage, by_user).await;
        stage.refuse(3, 403, |call| call.verb == "create" && call.resource == "pods");
        stage.delete("PersistentVolumeClaim", "c1");
        stage.settle().await;
        let pod = stage.get("Pod", "recycler-for-p1");
        assert!(pod.is_object(), "the fourth time it is made");
        assert!(matches!(&*stage.volume_state("p1").0, "Released" | "Failed"));

        stage.patch_status("Pod", "recycler-for-p1", &json!({"phase": "Succeeded"}));
        stage.settle().await;
        let kept = if by_user { "c1" } else { "" };
        assert_eq!(stage.volume_state("p1"), ("Available".into(), kept.into()));
        assert!(stage.volume("p1")["spec"]["claimRef"]["uid"].is_null());
        assert!(stage.get("Pod", "recycler-for-p1").is_null());
        let told = stage.events("p1");
        assert!(told.contains(&("VolumeRecycled".into(), "Volume recycled".into())), "{told:?}");
        stage.stop().await;
    }
}

/// kubernetes/kubernetes#92946: a pod that failed leaves the volume Failed, and is followed by another one.
#[tokio::test(start_paused = true)]
async fn a18_sibling_scrubbing_that_failed_is_tried_again() {
    let mut stage = Stage::new();
    recyclable(&mut stage, false).await;
    stage.delete("PersistentVolumeClaim", "c1");
    stage.settle().await;
    let first = stage.get("Pod", "recycler-for-p1")["metadata"]["uid"].clone();
    let failed = json!({"phase": "Failed", "message": "no space left"});
    stage.patch_status("Pod", "recycler-for-p1", &failed);
    // Long enough for any pause after a failure.
    tokio::time::sleep(Duration::from_secs(300)).await;
    let second = stage.get("Pod", "recycler-for-p1")["metadata"]["uid"].clone();
    assert!(second.is_string() && second != first, "{first} {second}");
    assert_eq!(
        stage.volume_state("p1"),
        ("Failed".into(), "c1".into()),
        "Released does not hide the failure"
    );
    let told = stage.events("p1");
    let why = "Recycle failed: failed to recycle volume: no space left";
    assert!(told.contains(&("VolumeFailedRecycle".into(), why.into())), "{told:?}");

    stage.patch_status("Pod", "recycler-for-p1", &json!({"phase": "Succeeded"}));
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Available".into(), String::new()));
    stage.stop().await;
}

/// kubernetes/kubernetes#92946: a volume that a process left Failed is taken up by the next one.
#[tokio::test(start_paused = true)]
async fn a18_sibling_a_restart_takes_up_what_is_failed() {
    let mut stage = Stage::new();
    recyclable(&mut stage, false).await;
    stage.stop().await;
    stage.delete("PersistentVolumeClaim", "c1");
    stage.patch_status("PersistentVolume", "p1", &json!({"phase": "Failed", "message": "forbidden"}));
    stage.start();
    stage.settle().await;
    stage.patch_status("Pod", "recycler-for-p1", &json!({"phase": "Succeeded"}));
    stage.settle().await;
    assert_eq!(stage.volume_state("p1"), ("Available".into(), String::new()));
    assert!(stage.volume("p1")["status"]["message"].is_null());
    stage.stop().await;
}

/// kubernetes/kubernetes#117189: a shell's pattern does not stand for very many files.
#[tokio::test(start_paused = true)]
async fn a20_scrubbing_finds_and_deletes_and_names_no_files() {
    let nfs = json!({"hostPath": null, "nfs": {"server": "nfs.example.com", "path": "/exports/p1"}});
    for (special, mounted) in [(json!({}), "hostPath"), (nfs, "nfs")] {
        let mut spec = special.clone();
        spec["persistentVolumeReclaimPolicy"] = json!("Recycle");
        let mut stage = Stage::new();
        stage.create(&volume("p1", &json!({ "spec": spec })));
        stage.create(&claim("c1", &json!({})));
        stage.start();
        stage.settle().await;
        stage.delete("PersistentVolumeClaim", "c1");
        stage.settle().await;
        let pod = stage.get("Pod", "recycler-for-p1");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["command"], json!(["/bin/sh"]));
        let script = container["args"][1].as_str().expect("a script");
        assert!(script.contains("find /scrub -mindepth 1 -delete"), "{script}");
        assert!(!script.contains("rm ") && !script.contains('*'), "{script}");
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/scrub");
        let source = &pod["spec"]["volumes"][0][mounted];
        let expected = if mounted == "nfs" { "/exports/p1" } else { "/t/p1" };
        assert_eq!(source["path"], expected, "{pod}");
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
        stage.stop().await;
    }
}
