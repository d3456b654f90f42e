//! A cluster whose nodes are a container, and in it our programs as people run them there: the chart, applied by helm, pods
//! with their in-cluster configuration.
//!
//! `node` and `kind` differ in how the container comes about; see their files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ::node::Node;
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::objects::{name, text};
use crate::target::{Fault, How, Nodes, Program, Target};

/// How long a program may take to get ready, or to end.
const START: Duration = Duration::from_secs(120);
/// The namespace, and the release's name.
pub const RELEASE: &str = "pvbind";
/// The image in which pods of scenarios run, and what scrubs volumes.
pub const BUSYBOX: &str = "e2e.pvbind.dev/busybox:1";

/// See the module's documentation.
pub struct Cluster {
    // Before its runtime.
    client: Client,
    node: Node,
    runtime: Runtime,
    helm: PathBuf,
    folder: TempDir,
    /// Of our image.
    tag: String,
}

/// What of the chart runs.
const COMPONENTS: [&str; 3] = ["controller", "scheduler", "extender"];

/// What the chart is told. `tag` is the image's, and the rest is what makes the programs fit for the scenarios.
fn values(tag: &str, kube_scheduler: &str) -> Value {
    let scrub = "test -e /scrub && find /scrub -mindepth 1 -maxdepth 1 -exec rm -rf {} + && test -z \"$(ls -A /scrub)\" || exit 1";
    let scrubber = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "scrub-"},
        "spec": {
            "restartPolicy": "Never", "activeDeadlineSeconds": 60,
            "volumes": [{"name": "vol", "hostPath": {"path": "/scrubbed"}}],
            "containers": [{
                "name": "scrub", "image": BUSYBOX, "command": ["sh", "-c", scrub],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }],
        },
    });
    json!({
        "image": {"tag": tag},
        "controller": {
            "replicas": replicas("controller"), "leaderElection": {"enabled": true},
            "hostPathProvisioner": true, "recycler": {"hostPath": {"template": scrubber}},
        },
        "scheduler": {"enabled": true},
        "extender": {
            "enabled": true, "replicas": 1, "schedulerName": "extended",
            "kubeScheduler": {"image": kube_scheduler},
        },
    })
}

/// The Deployment of a program, if the chart has one.
fn deployment(program: Program) -> Option<&'static str> {
    match program {
        Program::Controller | Program::Standby => Some("controller"),
        Program::Scheduler => Some("scheduler"),
        Program::Extender => Some("extender"),
        Program::Provisioner | Program::KubeScheduler => None,
    }
}

impl Cluster {
    /// Applies the chart on a node that has the images.
    pub fn open(node: Node, helm: PathBuf, tag: &str, kube_scheduler: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let client = {
            let _inside = runtime.enter();
            Client::try_from(node.config()).expect("a client")
        };
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("kubeconfig"), node.kubeconfig()).expect("it is written");
        let values = values(tag, kube_scheduler).to_string();
        std::fs::write(folder.path().join("values.yaml"), values).expect("it is written");
        let cluster = Cluster { client, node, runtime, helm, folder, tag: tag.to_owned() };
        // What the release will be upgraded to.
        let image = "docker.io/library/pvbind";
        let _said = cluster.node.shell(&format!("ctr -n k8s.io images tag {image}:{tag} {image}:next"));
        cluster.install(&[]);
        cluster
    }

    /// Runs helm, with what it takes to find the cluster.
    fn helm(&self, arguments: &[&str]) {
        let mut command = Command::new(&self.helm);
        command.arg("--kubeconfig").arg(self.folder.path().join("kubeconfig"));
        command.args(["--namespace", RELEASE]).args(arguments);
        let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", self.helm.display()));
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "helm {arguments:?}: {told}");
    }

    fn install(&self, more: &[&str]) {
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart/pvbind");
        let values = self.folder.path().join("values.yaml");
        let [chart, values] = [&chart, &values].map(|path| path.to_str().expect("a plain path"));
        // Whoever scaled a Deployment, as scenarios do, has a claim to that field.
        let usual =
            ["upgrade", "--install", "--force-conflicts", "--create-namespace", "--values", values, RELEASE];
        self.helm(&[&usual[..], &[chart], more].concat());
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/merge-patch+json");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.runtime.block_on(self.client.request(request.body(body).expect("a request")))
    }

    fn page(&self, path: &str) -> Result<String, kube::Error> {
        let request = http::Request::get(path).body(Vec::new()).expect("a request");
        self.runtime.block_on(self.client.request_text(request))
    }

    fn pods(&self, component: &str) -> Result<Vec<Value>, kube::Error> {
        let path = format!(
            "/api/v1/namespaces/{RELEASE}/pods?labelSelector=app.kubernetes.io/component={component}"
        );
        let mut list = self.send("GET", &path, &Value::Null)?;
        Ok(serde_json::from_value(list["items"].take()).unwrap_or_default())
    }

    /// Looks until something is so.
    fn wait(&self, what: &str, check: impl Fn() -> Result<(), String>) {
        let start = Instant::now();
        while let Err(why) = check() {
            assert!(start.elapsed() < START, "{what}: {why}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn scale(&self, component: &str, replicas: u32) {
        let path = format!("/apis/apps/v1/namespaces/{RELEASE}/deployments/{RELEASE}-{component}");
        let change = json!({"spec": {"replicas": replicas}});
        self.wait(&format!("scaling {component}"), || {
            self.send("PATCH", &path, &change).map(|_| ()).map_err(|error| error.to_string())
        });
    }

    /// Waits until all pods of a Deployment are there, ready and of its last revision.
    fn rolled_out(&self, component: &str) {
        let path = format!("/apis/apps/v1/namespaces/{RELEASE}/deployments/{RELEASE}-{component}");
        self.wait(&format!("{component} is available"), || {
            let found = self.send("GET", &path, &Value::Null).map_err(|error| error.to_string())?;
            let status = &found["status"];
            let seen = status["observedGeneration"] == found["metadata"]["generation"];
            let wanted = &found["spec"]["replicas"];
            let all = ["replicas", "updatedReplicas", "availableReplicas"];
            if seen && all.iter().all(|count| &status[count] == wanted) {
                return Ok(());
            }
            Err(status.to_string())
        });
    }

    /// Who leads, if anybody does.
    fn leader(&self) -> Option<String> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{RELEASE}/leases/{RELEASE}-controller");
        let lease = self.send("GET", &path, &Value::Null).ok()?;
        Some(text(&lease, "/spec/holderIdentity").to_owned()).filter(|holder| !holder.is_empty())
    }

    fn replace_leader(&self, how: How) {
        let leader = self.leader().expect("somebody leads");
        let pods = self.pods("controller").expect("pods can be listed");
        let pod = pods.iter().map(name).find(|pod| leader.starts_with(*pod));
        let pod = pod.unwrap_or_else(|| panic!("no pod is called as the leader, {leader}"));
        match how {
            How::Kill => {
                let _said = self.node.shell(&format!(
                    "for process in $(pgrep -f '^/pvbind controller'); do
                        [ \"$(nsenter -t $process -u hostname)\" != {pod} ] || exec kill -KILL $process
                    done; exit 1"
                ));
            }
            How::Terminate => {
                let path = format!("/api/v1/namespaces/{RELEASE}/pods/{pod}");
                self.send("DELETE", &path, &Value::Null).expect("it is deleted");
            }
        }
        self.wait("another one leads", || match self.leader() {
            Some(now) if now != leader => Ok(()),
            other => Err(format!("{other:?} does, after {leader}")),
        });
    }

    /// Upgrades, or rolls back where nothing is said, and waits until that is carried out.
    fn upgrade(&self, values: &[&str], tag: &str) {
        if values.is_empty() {
            self.helm(&["rollback", "--force-conflicts", RELEASE]);
        } else {
            self.install(values);
        }
        for component in COMPONENTS {
            self.rolled_out(component);
            let pods = self.pods(component).expect("pods can be listed");
            let of_tag = |pod: &&Value| text(pod, "/spec/containers/0/image").ends_with(tag);
            assert!(pods.iter().any(|pod| of_tag(&pod)), "{component} is not of {tag}: {pods:?}");
        }
    }

    fn provisioner(&self, script: &str) {
        let _said = self.node.shell(&format!(
            "pid=$(cat /run/provisioner.pid 2>/dev/null || echo none); runs() {{ [ -e /proc/$pid ]; }}\n{script}"
        ));
    }
}

/// How many replicas the chart's components have.
fn replicas(component: &str) -> u32 {
    if component == "controller" { 2 } else { 1 }
}

impl Target for Cluster {
    fn config(&self) -> Config {
        self.node.config()
    }

    fn nodes(&self) -> Nodes {
        Nodes::Real
    }

    fn lease(&self) -> [&'static str; 2] {
        [RELEASE, "pvbind-controller"]
    }

    fn shares_files(&self) -> bool {
        false
    }

    fn ensure(&self, program: Program) {
        if let Some(component) = deployment(program) {
            self.scale(component, replicas(component));
            self.rolled_out(component);
        } else if program == Program::Provisioner {
            self.provisioner(
                "runs && exit 0
                setsid /usr/local/bin/provisioner -kubeconfig=/etc/kubernetes/admin.conf -folder=/tmp/pvbind-e2e/made \
                    >>/var/log/provisioner.log 2>&1 </dev/null &
                echo $! >/run/provisioner.pid",
            );
        }
    }

    fn end(&self, program: Program, how: How) {
        let Some(component) = deployment(program) else {
            assert_eq!(program, Program::Provisioner, "kube-scheduler is not ended");
            let signal = if how == How::Kill { "KILL" } else { "TERM" };
            self.provisioner(&format!("kill -{signal} $pid; while runs; do sleep 0.1; done"));
            return;
        };
        let processes = format!("pkill -f '^/pvbind {component}' -");
        if how == How::Kill {
            // It must not hear that it is asked to end.
            let _said = self.node.shell(&format!("{processes}STOP"));
        }
        self.scale(component, 0);
        if how == How::Kill {
            self.wait("pods are asked to end", || match self.pods(component) {
                Ok(pods) if pods.iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) => Ok(()),
                other => Err(format!("{other:?}")),
            });
            let _said = self.node.shell(&format!("{processes}KILL"));
        }
        self.wait("pods end", || match self.pods(component) {
            Ok(pods) if pods.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    fn metrics(&self, program: Program) -> Option<String> {
        let component = deployment(program)?;
        // Whoever does not lead has nothing to tell; what is asked for is what all of them did.
        let pods = self.pods(component).ok()?;
        let pages = pods.iter().filter_map(|pod| {
            let port = pod.pointer("/spec/containers/0/ports/0/containerPort")?;
            self.page(&format!("/api/v1/namespaces/{RELEASE}/pods/{}:{port}/proxy/metrics", name(pod))).ok()
        });
        let pages: Vec<_> = pages.collect();
        (!pages.is_empty()).then(|| pages.concat())
    }

    fn fault(&self, fault: Fault) {
        match fault {
            Fault::RestartApiServer(How::Kill) => self.node.signal("kube-apiserver", "KILL"),
            Fault::RestartApiServer(How::Terminate) => self.node.signal("kube-apiserver", "TERM"),
            Fault::RestartEtcd => self.node.signal("etcd", "KILL"),
            Fault::CutWatches => {
                let cut = self.node.shell("ss -H -K state established 'sport = :6443'");
                assert!(!cut.is_empty(), "nobody was connected");
                return;
            }
            Fault::ReplaceLeader(how) => return self.replace_leader(how),
            Fault::Upgrade => return self.upgrade(&["--set", "image.tag=next"], "next"),
            Fault::RollBack => return self.upgrade(&[], &self.tag),
        }
        self.node.wait_until_ready();
    }

    fn said(&self) -> String {
        let mut said = self.node.said();
        for component in COMPONENTS {
            for pod in self.pods(component).unwrap_or_default() {
                let path = format!("/api/v1/namespaces/{RELEASE}/pods/{}/log?tailLines=25", name(&pod));
                let log = self.page(&path).unwrap_or_else(|error| error.to_string());
                said += &["\n", name(&pod), " is ", text(&pod, "/status/phase"), ":\n", &log].concat();
            }
        }
        said
    }
}
