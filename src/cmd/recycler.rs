//! The pods that scrub volumes, as an operator wants them: kube-controller-manager's `--pv-recycler-*` options.
//!
//! Reads templates once, at the start. Never decides when a volume is scrubbed.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::decide::plugin::{self, Plugin, Recycling, Scrubber};
use crate::manifest;
use crate::objects::{Pod, pod};

/// See the [module's documentation](self).
#[derive(Debug, Args)]
pub struct Recycler {
    /// The pod that scrubs a hostPath volume; its first volume is replaced by the one that is scrubbed.
    #[arg(
        long = "pv-recycler-pod-template-filepath-hostpath",
        env = "PVBIND_PV_RECYCLER_POD_TEMPLATE_FILEPATH_HOSTPATH",
        value_name = "FILE"
    )]
    host_path_template: Option<PathBuf>,
    /// How long scrubbing a hostPath volume may take at least, in seconds.
    #[arg(long = "pv-recycler-minimum-timeout-hostpath", default_value_t = 60, env = "PVBIND_PV_RECYCLER_MINIMUM_TIMEOUT_HOSTPATH", value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(1..))]
    host_path_at_least: i64,
    /// How long it may take for each GiB, if that is more.
    #[arg(long = "pv-recycler-timeout-increment-hostpath", default_value_t = 30, env = "PVBIND_PV_RECYCLER_TIMEOUT_INCREMENT_HOSTPATH", value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    host_path_per_gibibyte: i64,
    /// The pod that scrubs an NFS volume; its first volume is replaced by the one that is scrubbed.
    #[arg(
        long = "pv-recycler-pod-template-filepath-nfs",
        env = "PVBIND_PV_RECYCLER_POD_TEMPLATE_FILEPATH_NFS",
        value_name = "FILE"
    )]
    nfs_template: Option<PathBuf>,
    /// How long scrubbing an NFS volume may take at least, in seconds.
    #[arg(long = "pv-recycler-minimum-timeout-nfs", default_value_t = 300, env = "PVBIND_PV_RECYCLER_MINIMUM_TIMEOUT_NFS", value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(1..))]
    nfs_at_least: i64,
    /// How long it may take for each GiB, if that is more.
    #[arg(long = "pv-recycler-timeout-increment-nfs", default_value_t = 30, env = "PVBIND_PV_RECYCLER_TIMEOUT_INCREMENT_NFS", value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    nfs_per_gibibyte: i64,
}

impl Recycler {
    /// The built-in plugins with these pods. They live as long as the process does.
    ///
    /// # Errors
    /// What is wrong with a template, with the file and the way out.
    pub fn plugins(&self, provisioning: bool) -> Result<&'static [Plugin], String> {
        let host_path = Scrubber {
            at_least: self.host_path_at_least,
            per_gibibyte: self.host_path_per_gibibyte,
            template: template(self.host_path_template.as_deref())?,
        };
        let nfs = Scrubber {
            at_least: self.nfs_at_least,
            per_gibibyte: self.nfs_per_gibibyte,
            template: template(self.nfs_template.as_deref())?,
        };
        let plugins = vec![
            Plugin { provisions: provisioning, recycles: Recycling::Pod(host_path), ..plugin::HOST_PATH },
            Plugin { recycles: Recycling::Pod(nfs), ..plugin::NFS },
        ];
        Ok(plugins.leak())
    }
}

fn template(file: Option<&Path>) -> Result<Option<&'static Pod>, String> {
    let Some(file) = file else { return Ok(None) };
    let loaded = manifest::load(&[file.to_owned()], pod::RECYCLER_NAMESPACE, io::empty);
    let documents = loaded.map_err(|error| error.to_string())?.documents;
    let [document] = documents.as_slice() else {
        return Err(format!("{}: holds {} objects; a template is one Pod", file.display(), documents.len()));
    };
    let said = |what: &str| format!("{}: {what}", document.origin);
    if document.object["kind"] != "Pod" {
        return Err(said("is no Pod; a template is one"));
    }
    let template: Pod = serde_json::from_value(document.object.clone()).map_err(|e| said(&e.to_string()))?;
    if template.metadata.namespace.as_deref().is_some_and(|namespace| namespace != pod::RECYCLER_NAMESPACE) {
        return Err(said("metadata.namespace: scrubbing pods run in namespace default; leave it out"));
    }
    let volumes = template.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    if volumes.is_none_or(Vec::is_empty) {
        return Err(said("spec.volumes: is empty; the first is replaced by the volume that is scrubbed"));
    }
    Ok(Some(Box::leak(Box::new(template))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        recycler: Recycler,
    }

    fn read(text: &str) -> Result<&'static [Plugin], String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pod.yaml");
        std::fs::write(&file, text).unwrap();
        let option = "--pv-recycler-pod-template-filepath-nfs";
        let line = ["controller", option, file.to_str().unwrap(), "--pv-recycler-minimum-timeout-nfs", "7"];
        Line::parse_from(line).recycler.plugins(false)
    }

    #[test]
    fn a_template_is_for_its_plugin_alone() {
        let text = "{apiVersion: v1, kind: Pod, metadata: {name: scrub}, spec: {containers: [{name: c, image: i}], volumes: [{name: v, emptyDir: {}}]}}";
        let plugins = read(text).unwrap();
        let pods: Vec<_> = plugins
            .iter()
            .map(|plugin| match plugin.recycles {
                Recycling::Pod(scrubber) => (plugin.name, scrubber.at_least, scrubber.template.is_some()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(pods, [("kubernetes.io/host-path", 60, false), ("kubernetes.io/nfs", 7, true)]);
    }

    #[test]
    fn without_options_it_is_what_is_built_in() {
        let built_in = Line::parse_from(["controller"]).recycler.plugins(false).unwrap();
        assert_eq!(built_in, plugin::BUILT_IN);
        let provisioning = Line::parse_from(["controller"]).recycler.plugins(true).unwrap();
        assert_eq!(provisioning, plugin::PROVISIONING);
    }

    #[rstest]
    #[case("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "is no Pod")]
    #[case("", "holds 0 objects")]
    #[case(
        "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}",
        "spec.volumes"
    )]
    #[case(
        "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: b}, spec: {containers: [{name: c, image: i}], volumes: [{name: v, emptyDir: {}}]}}",
        "metadata.namespace"
    )]
    #[case("{apiVersion: v1, kind: Pod", "pod.yaml")]
    fn what_is_wrong_with_a_template_is_said(#[case] text: &str, #[case] part: &str) {
        let error = read(text).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(error.contains("pod.yaml"), "{error}");
    }
}
