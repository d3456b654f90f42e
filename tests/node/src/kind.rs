//! A node of kind's image, which kubeadm makes a control plane of, as kind itself does.

use std::thread::sleep;
use std::time::{Duration, Instant};

use testcontainers::core::{AccessMode, CgroupnsMode, IntoContainerPort, Mount, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerRequest, GenericImage, ImageExt};

use crate::{Brought, NAME, Node, PORT, START};

/// What makes a cluster of the node, with the built-in PersistentVolume controller off and nothing that a full disk of the
/// machine would take away.
const INIT: &str = r#"
set -e
cat >/kind/pvbind.yaml <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {criSocket: "unix:///run/containerd/containerd.sock", taints: []}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $(cat /kind/version)
apiServer: {certSANs: [localhost, 127.0.0.1, kubernetes]}
controllerManager:
  extraArgs: [{name: controllers, value: "*,bootstrap-signer-controller,token-cleaner-controller,-persistentvolume-binder-controller"}]
networking: {podSubnet: 10.244.0.0/16}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
cgroupRoot: /kubelet
failSwapOn: false
failCgroupV1: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0}
YAML
for tar in /images/*.tar; do ctr -n k8s.io images import "$tar"; done
kubeadm init --config=/kind/pvbind.yaml --skip-phases=preflight --ignore-preflight-errors=all
sed 's#{{ *\.PodSubnet *}}#10.244.0.0/16#' /kind/manifests/default-cni.yaml |
    kubectl --kubeconfig=/etc/kubernetes/admin.conf apply -f -
"#;

fn request(image: &str, brought: &[Brought<'_>]) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.rsplit_once(':').expect("an image has a tag");
    let image = GenericImage::new(name, tag).with_exposed_port(PORT.tcp()).with_wait_for(WaitFor::Nothing);
    let mut request = image
        .with_startup_timeout(START)
        .with_hostname(NAME)
        .with_privileged(true)
        .with_cgroupns_mode(CgroupnsMode::Private)
        .with_security_opt("seccomp=unconfined")
        .with_security_opt("apparmor=unconfined")
        .with_mount(Mount::tmpfs_mount("/tmp"))
        .with_mount(Mount::tmpfs_mount("/run"))
        // One without a name, that goes with the container.
        .with_mount(Mount::volume_mount("", "/var"))
        .with_mount(Mount::bind_mount("/lib/modules", "/lib/modules").with_access_mode(AccessMode::ReadOnly));
    for file in brought {
        request = request.with_copy_to(file.to, file.from);
    }
    request
}

impl Node {
    /// Starts a node of kind's image, with files that are brought along, and waits until it is ready.
    #[must_use]
    pub fn start_kind(image: &str, brought: &[Brought<'_>]) -> Self {
        Node::of(image, async || {
            let container = request(image, brought).start().await?;
            let begin = Instant::now();
            while crate::shell(&container, "ctr version").await.is_err() && begin.elapsed() < START {
                sleep(Duration::from_millis(200));
            }
            let made = crate::shell(&container, INIT).await;
            assert!(made.is_ok(), "kubeadm makes no cluster: {made:?}");
            Ok(container)
        })
    }
}
