//! A real node in a container of this machine's Docker, with everything in it, built from packages alone; our programs run as
//! the pods of the chart.

use std::path::{Path, PathBuf};

use ::node::{Brought, Node};

use crate::available;
use crate::cluster::Cluster;
use crate::target::Row;

/// The image of the node: what `tests/node/build.sh` prints.
const NODE_IMAGE: &str = "PVBIND_NODE_IMAGE";
/// Our image, as an archive: what `just image` writes.
const IMAGE: &str = "PVBIND_IMAGE";

pub const ROW: Row = Row {
    name: "node",
    missing: || {
        if std::env::var_os(NODE_IMAGE).is_none() {
            return Err(format!("{NODE_IMAGE} names no image; `just e2e-docker` builds all that it takes"));
        }
        archive().and_then(|_| helm()).map(|_| ())
    },
    lacks: available::lacks,
    open: || Box::new(open()),
};

/// The archive with our image.
pub fn archive() -> Result<PathBuf, String> {
    let file = std::env::var_os(IMAGE).map(PathBuf::from);
    file.filter(|file| file.is_file())
        .ok_or_else(|| format!("{IMAGE} names no archive of an image; `just image` writes one"))
}

/// helm: `HELM`, or the one beside the other programs that were built, or one on the path.
pub fn helm() -> Result<PathBuf, String> {
    let named = std::env::var_os("HELM").map(PathBuf::from);
    let beside = std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join("helm"));
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = std::env::split_paths(&folders).map(|folder| folder.join("helm")).collect();
    named
        .into_iter()
        .chain(beside)
        .chain(on_path)
        .find(|file| file.is_file())
        .ok_or_else(|| "there is no helm; `just control-plane helm` builds one, with Go".to_owned())
}

/// The archive's tag is the program's version.
pub const TAG: &str = env!("CARGO_PKG_VERSION");

fn open() -> Cluster {
    let image = std::env::var(NODE_IMAGE).expect("it was there");
    let archive = archive().unwrap_or_else(|why| panic!("{why}"));
    let mut brought = vec![Brought { from: &archive, to: "/images/pvbind.tar" }];
    let provisioner = available::provisioner();
    if let Ok(file) = &provisioner {
        brought.push(Brought { from: file, to: "/usr/local/bin/provisioner" });
    }
    let node = Node::start(&image, &brought);
    let helm = helm().unwrap_or_else(|why| panic!("{why}"));
    Cluster::open(node, helm, TAG, "e2e.pvbind.dev/kube-scheduler:1")
}
