//! A Kubernetes node with its control plane in a container: a real kubelet, whose pods really run.
//!
//! `build.sh`, beside this crate's manifest, builds the image, and `docker.sh` sees to it that Docker answers. The container
//! goes when its [`Node`] does. Everything panics where it cannot go on: a test has nothing better to do.
#![expect(clippy::missing_panics_doc, reason = "the crate is for tests, and says so once")]
#![expect(clippy::expect_used, reason = "the crate is for tests, and says so once")]
#![expect(clippy::print_stderr, reason = "it tells whoever reads a failed test what programs said")]

mod kind;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use testcontainers::core::{AccessMode, CgroupnsMode, ExecCommand, IntoContainerPort, Mount, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use tokio::runtime::Runtime;

/// How long the container may take to its API server, and from there to a node that is ready.
const START: Duration = Duration::from_secs(180);
/// Where the API server listens in the container.
const PORT: u16 = 6443;
/// The name of the node.
pub const NAME: &str = "node";

/// What a node takes where the machine itself may not do everything, and no container can be privileged (`SYS_RESOURCE` is what is
/// missing then), in the names that Docker has known for long.
const CAPABILITIES: &[&str] = &[
    "AUDIT_CONTROL",
    "AUDIT_READ",
    "AUDIT_WRITE",
    "BLOCK_SUSPEND",
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "IPC_LOCK",
    "IPC_OWNER",
    "KILL",
    "LEASE",
    "LINUX_IMMUTABLE",
    "MAC_ADMIN",
    "MAC_OVERRIDE",
    "MKNOD",
    "NET_ADMIN",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_RAW",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYSLOG",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_CHROOT",
    "SYS_MODULE",
    "SYS_NICE",
    "SYS_PACCT",
    "SYS_PTRACE",
    "SYS_RAWIO",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "WAKE_ALARM",
];

type Container = ContainerAsync<GenericImage>;

/// How much a container is trusted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Everything, in Docker's words: privileged.
    Privileged,
    /// What a node takes, one by one.
    Listed,
}

impl Trust {
    /// Privileged, unless this machine, which Docker is taken to run on, lacks a capability that its kernel knows.
    fn here() -> Self {
        let read = |file: &str| fs::read_to_string(file).ok();
        let most = || {
            let status = read("/proc/self/status")?;
            let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        };
        let all = || {
            let last: u32 = read("/proc/sys/kernel/cap_last_cap")?.trim().parse().ok()?;
            u64::MAX.checked_shr(63_u32.checked_sub(last)?)
        };
        match (most(), all()) {
            (Some(most), Some(all)) if most & all != all => Trust::Listed,
            _ => Trust::Privileged,
        }
    }
}

/// A file of this machine, and where it is in the container, executable if it is a program.
pub struct Brought<'a> {
    /// Here.
    pub from: &'a Path,
    /// There.
    pub to: &'a str,
}

/// See the crate's documentation.
pub struct Node {
    // It goes while the runtime still runs.
    container: Option<Container>,
    runtime: Runtime,
    kubeconfig: Kubeconfig,
    config: Config,
}

fn request(image: &str, brought: &[Brought<'_>], trust: Trust) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.rsplit_once(':').expect("an image has a tag");
    let image = GenericImage::new(name, tag)
        .with_exposed_port(PORT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("the API server is ready"));
    let mut request = image
        .with_startup_timeout(START)
        .with_hostname(NAME)
        .with_cgroupns_mode(CgroupnsMode::Host)
        .with_mount(
            Mount::bind_mount("/sys/fs/cgroup", "/sys/fs/cgroup").with_access_mode(AccessMode::ReadWrite),
        );
    for file in brought {
        request = request.with_copy_to(file.to, file.from);
    }
    match trust {
        Trust::Privileged => request.with_privileged(true),
        Trust::Listed => {
            for option in ["seccomp=unconfined", "apparmor=unconfined"] {
                request = request.with_security_opt(option);
            }
            for capability in CAPABILITIES {
                request = request.with_cap_add(*capability);
            }
            request.with_host_config_modifier(|host| {
                host.device_cgroup_rules = Some(vec!["a *:* rwm".to_owned()]);
                // Docker's command says systempaths=unconfined for this.
                host.masked_paths = Some(Vec::new());
                host.readonly_paths = Some(Vec::new());
            })
        }
    }
}

impl Node {
    /// Starts a node of an image that `build.sh` made, with files that are brought along, and waits until it is ready.
    ///
    /// An image that is brought to `/images/NAME.tar` is there for pods.
    #[must_use]
    pub fn start(image: &str, brought: &[Brought<'_>]) -> Self {
        Node::of(image, async || request(image, brought, Trust::here()).start().await)
    }

    /// A node in a container, once that is there.
    fn of(image: &str, start: impl AsyncFnOnce() -> testcontainers::core::error::Result<Container>) -> Self {
        let begin = Instant::now();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (container, kubeconfig, config) = runtime.block_on(async {
            let container = start().await.unwrap_or_else(|error| panic!("no node of {image}: {error}"));
            let kubeconfig = kubeconfig(&container).await;
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
            (container, kubeconfig, config.expect("a configuration"))
        });
        let node = Node { container: Some(container), runtime, kubeconfig, config };
        node.wait_until_ready();
        eprintln!("the node is ready after {:.1} s", begin.elapsed().as_secs_f32());
        node
    }

    /// How an administrator reaches the API server from here.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The same as a file's text.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        serde_json::to_string(&self.kubeconfig).expect("a kubeconfig is JSON as well")
    }

    fn container(&self) -> &Container {
        self.container.as_ref().expect("it is there until the node goes")
    }

    /// What a shell says to a script that runs in the container. Scripts that run side by side do not wait for each other.
    ///
    /// # Errors
    /// What it said, if it fails.
    pub fn try_shell(&self, script: &str) -> Result<String, String> {
        self.runtime.block_on(shell(self.container(), script))
    }

    /// The same for a script that has to succeed.
    #[must_use]
    pub fn shell(&self, script: &str) -> String {
        self.try_shell(script).unwrap_or_else(|said| panic!("{script}: {said}"))
    }

    /// Ends a program of the node with a signal; returns when it is started again.
    pub fn signal(&self, program: &str, signal: &str) {
        let _said = self.shell(&format!(
            "find() {{ pgrep -xo {program} || echo none; }}
            pid=$(find); kill -{signal} $pid || exit 1
            for _ in $(seq 1200); do
                case $(find) in none | $pid) sleep 0.1 ;; *) exit 0 ;; esac
            done
            echo '{program} is not started again'; exit 1"
        ));
    }

    /// Waits until the API server and the node are.
    pub fn wait_until_ready(&self) {
        let client = {
            let _inside = self.runtime.enter();
            Client::try_from(self.config()).expect("a client")
        };
        let begin = Instant::now();
        loop {
            let state = self.runtime.block_on(state(&client));
            match state {
                Ok(()) => return,
                Err(why) => assert!(begin.elapsed() < START, "the node is not ready: {why}\n{}", self.said()),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What the programs of the node said last.
    #[must_use]
    pub fn said(&self) -> String {
        self.try_shell("tail -n 15 /var/log/*.log").unwrap_or_else(|error| error)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The kubelet first, or it starts what is ended; then what pods leave in the control groups of the machine.
        let script = "mkdir -p /run/hold; touch /run/hold/kubelet; systemctl stop kubelet || pkill -KILL -x kubelet
            ctr -n k8s.io tasks ls -q | xargs -r -n 1 ctr -n k8s.io tasks kill -s KILL
            for _ in $(seq 50); do [ -n \"$(ctr -n k8s.io tasks ls | grep RUNNING)\" ] || break; sleep 0.1; done
            ctr -n k8s.io tasks ls -q | xargs -r -n 1 ctr -n k8s.io tasks delete --force; true";
        if let Err(said) = self.try_shell(script) {
            eprintln!("the node's pods do not end: {said}");
        }
        if let Some(container) = self.container.take()
            && let Err(error) = self.runtime.block_on(container.rm())
        {
            eprintln!("the node stays: {error}");
        }
    }
}

/// The administrator's kubeconfig, with the way in from here.
async fn kubeconfig(container: &Container) -> Kubeconfig {
    let text = shell(container, "cat /etc/kubernetes/admin.conf").await.expect("start.sh has written it");
    let mut config = Kubeconfig::from_yaml(&text).expect("a kubeconfig");
    let host = container.get_host().await.expect("Docker says where containers are");
    let port = container.get_host_port_ipv4(PORT).await.expect("the port is published");
    for named in &mut config.clusters {
        let cluster = named.cluster.as_mut().expect("a cluster");
        cluster.server = Some(format!("https://{host}:{port}"));
        cluster.tls_server_name = Some("kubernetes".to_owned());
    }
    config
}

async fn shell(container: &Container, script: &str) -> Result<String, String> {
    let script = format!("exec 2>&1\n{script}");
    let command = ExecCommand::new(["bash", "-c", &script]);
    let mut run = container.exec(command).await.map_err(|error| error.to_string())?;
    let said = run.stdout_to_vec().await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said).into_owned();
    match run.exit_code().await {
        Ok(Some(0)) => Ok(said),
        Ok(code) => Err(format!("it ends with {code:?}: {said}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the node can be used.
async fn state(client: &Client) -> Result<(), String> {
    let get = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        client.request::<Value>(request).await.map_err(|error| error.to_string())
    };
    let node = get(&format!("/api/v1/nodes/{NAME}")).await?;
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let taints = &node["spec"]["taints"];
    if !ready || !taints.is_null() {
        return Err(format!("its conditions are {}, its taints {taints}", node["status"]["conditions"]));
    }
    get("/api/v1/namespaces/default/serviceaccounts/default").await.map(|_| ())
}
