//! The chart, where helm is there: the plain manifests are what it renders, and its other values make sense too.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::manifests::{check_hardened, check_options, check_role, told};
use crate::shipped::{at, list, name, objects, of_kind, path, text};

/// The helm to test with: `HELM`, or the one beside the control plane's programs, or one on the path.
pub fn helm() -> Option<PathBuf> {
    let named = std::env::var_os("HELM").map(PathBuf::from);
    let beside = std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| PathBuf::from(folder).join("helm"));
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&folders).map(|folder| folder.join("helm"));
    let is_file = |path: &PathBuf| path.is_file();
    named.or(beside.filter(is_file)).or_else(|| found.find(is_file))
}

/// helm, or what a test says where there is none.
fn helm_or_say() -> Option<PathBuf> {
    let helm = helm();
    if helm.is_none() {
        control_plane::not_run(
            "no helm (HELM, KUBEBUILDER_ASSETS or the path; `just control-plane helm` builds one): the chart was not rendered",
        );
    }
    helm
}

fn rendered_by(helm: &PathBuf, values: &str) -> Output {
    let mut command = Command::new(helm);
    command.args(["template", "pvbind", "--namespace", "kube-system", "--set", values]);
    command.arg(path("deploy/chart/pvbind")).output().expect("helm runs")
}

/// What the chart renders with these values.
pub fn render(helm: &PathBuf, values: &str) -> Vec<Value> {
    let output = rendered_by(helm, values);
    assert!(output.status.success(), "{values}: {}", String::from_utf8_lossy(&output.stderr));
    objects(&String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn the_plain_manifests_are_what_the_chart_renders() {
    let Some(helm) = helm_or_say() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(path("deploy/render.sh"));
    let output = command.arg(folder.path()).env("HELM", helm).output().expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in [
        "manifests/controller.yaml",
        "manifests/scheduler.yaml",
        "manifests/extender.yaml",
        "extender/rbac.yaml",
    ] {
        let rendered = std::fs::read_to_string(folder.path().join(file)).expect("it is rendered");
        assert_eq!(rendered, text(&format!("deploy/{file}")), "`just manifests` renders deploy/{file} anew");
    }
}

#[test]
fn whatever_is_switched_on_is_known_to_the_program_and_hardened() {
    let Some(helm) = helm_or_say() else { return };
    let scrubber = "controller.recycler.nfs.template.kind=Pod";
    for values in [
        "scheduler.enabled=true,extender.enabled=true",
        "controller.strict=true,log.filter=debug,log.format=text",
        "networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true",
        "scheduler.enabled=true,scheduler.storageCapacityScoring=0:0\\,100:10,scheduler.strictCapacity=false",
        scrubber,
    ] {
        let objects = render(&helm, values);
        for deployment in of_kind(&objects, "Deployment") {
            check_hardened(deployment);
            check_options(deployment);
        }
        of_kind(&objects, "ClusterRole").chain(of_kind(&objects, "Role")).for_each(check_role);
    }
}

#[test]
fn a_scrubbing_pod_of_ones_own_is_read_from_where_it_is_mounted() {
    let Some(helm) = helm_or_say() else { return };
    let objects = render(&helm, "controller.recycler.nfs.template.kind=Pod");
    let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
    let map = of_kind(&objects, "ConfigMap").next().expect("a ConfigMap");
    assert_eq!(at(map, "/data/nfs.yaml"), "kind: Pod\n");
    let pod = at(deployment, "/spec/template/spec");
    assert_eq!(at(pod, "/volumes/0/configMap/name"), name(map));
    let mounted = at(pod, "/containers/0/volumeMounts/0/mountPath").as_str().expect("a path");
    let file = format!("--pv-recycler-pod-template-filepath-nfs={mounted}/nfs.yaml");
    assert!(told(deployment)[0].1.contains(&file.as_str()), "{file}");
}

#[test]
fn directories_of_a_node_are_made_by_root_with_two_capabilities_and_no_more() {
    let Some(helm) = helm_or_say() else { return };
    let objects = render(&helm, "controller.hostPathProvisioner=true");
    let deployment = of_kind(&objects, "Deployment").next().expect("a Deployment");
    check_options(deployment);
    let pod = at(deployment, "/spec/template/spec");
    assert_eq!(at(pod, "/securityContext/runAsUser"), 0);
    let expected = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE", "FOWNER"]},
    });
    assert_eq!(at(pod, "/containers/0/securityContext"), &expected);
    assert_eq!(
        list(pod, "/volumes"),
        &[json!({"name": "directories", "hostPath": {"path": "/tmp", "type": "Directory"}})]
    );
}

#[test]
fn a_value_that_nothing_reads_is_refused() {
    let Some(helm) = helm_or_say() else { return };
    for (values, why) in [
        ("controler.enabled=true", "controler"),
        ("controller.replica=2", "replica"),
        ("log.format=xml", "/log/format"),
        ("scheduler.bindTimeout=ten", "/scheduler/bindTimeout"),
        ("controller.terminationGracePeriodSeconds=5", "/controller/terminationGracePeriodSeconds"),
        ("controller.replicas=2,controller.leaderElection.enabled=false", "/controller/replicas"),
    ] {
        let output = rendered_by(&helm, values);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{values}: {said}");
    }
}

/// The values that are no objects, each with its path.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value.as_object() {
        Some(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                let below = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                leaves(value, &below, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn every_value_has_a_row_in_the_docs_and_every_row_a_value() {
    let values: Value = serde_saphyr::from_str(&text("deploy/chart/pvbind/values.yaml")).expect("values");
    let page = text("docs/deploy.md");
    let table =
        page.split("## Values").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or_default();
    let rows: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(rows.len() > 20, "{rows:?}");
    let mut found = Vec::new();
    leaves(&values, "", &mut found);
    // What every component has is said once, of `COMPONENT`.
    let any = |path: &str| {
        let rest = path.split_once('.').map_or(path, |(_, rest)| rest);
        let is_component =
            ["controller.", "scheduler.", "extender."].iter().any(|name| path.starts_with(name));
        is_component.then(|| format!("COMPONENT.{rest}"))
    };
    let is_below = |path: &str, row: &str| path == row || path.starts_with(&format!("{row}."));
    let covers =
        |path: &str, row: &str| is_below(path, row) || any(path).is_some_and(|any| is_below(&any, row));
    let missing: Vec<_> = found.iter().filter(|path| !rows.iter().any(|row| covers(path, row))).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    let stale: Vec<_> = rows.iter().filter(|row| !found.iter().any(|path| covers(path, row))).collect();
    assert!(stale.is_empty(), "no such value: {stale:?}");
}
