//! A node of kind's image in a container of this machine's Docker; our programs run as the pods of the chart.
//!
//! Whoever asks for it by its recipe has pulled the image before; nothing is pulled here.

use std::path::PathBuf;

use ::node::{Brought, Node};

use crate::available;
use crate::cluster::Cluster;
use crate::node::{TAG, archive, helm};
use crate::target::Row;

/// The image of the node.
const IMAGE: &str = "PVBIND_KIND_IMAGE";
/// The archive with the image of the scenarios' pods: what `tests/node/images.sh` writes.
const BUSYBOX: &str = "PVBIND_KIND_BUSYBOX";

pub const ROW: Row = Row {
    name: "kind",
    missing: || {
        if std::env::var_os(IMAGE).is_none() || std::env::var_os(BUSYBOX).is_none() {
            return Err(format!(
                "{IMAGE} names no image; `just e2e-kind` brings one, where images can be pulled"
            ));
        }
        archive().and_then(|_| helm()).map(|_| ())
    },
    lacks: available::lacks,
    open: || Box::new(open()),
};

fn open() -> Cluster {
    let image = std::env::var(IMAGE).expect("it was there");
    let busybox = PathBuf::from(std::env::var_os(BUSYBOX).expect("it was there"));
    let archive = archive().unwrap_or_else(|why| panic!("{why}"));
    let mut brought = vec![
        Brought { from: &archive, to: "/images/pvbind.tar" },
        Brought { from: &busybox, to: "/images/busybox.tar" },
    ];
    let provisioner = available::provisioner();
    if let Ok(file) = &provisioner {
        brought.push(Brought { from: file, to: "/usr/local/bin/provisioner" });
    }
    let node = Node::start_kind(&image, &brought);
    // It is there already, for the cluster's own.
    let version = node.shell("cat /kind/version");
    let kube_scheduler = format!("registry.k8s.io/kube-scheduler:{}", version.trim());
    let helm = helm().unwrap_or_else(|why| panic!("{why}"));
    Cluster::open(node, helm, TAG, &kube_scheduler)
}
