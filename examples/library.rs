//! A batch scheduler in a few lines: a gang of pods is placed together or not at all.
//!
//! It watches the cluster itself, asks [`pvbind::binder`] what each pod's claims would get, takes that for the whole gang, and
//! only then writes anything. The cluster is the bundled API server in process, with the PersistentVolume controller beside
//! it: any other `kube::Client` will do.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;

use fake_apiserver::FakeApiServer;
use futures::StreamExt;
use kube::Client;
use pvbind::act::watch::{Change, Watches, watch};
use pvbind::act::{self, Options, execute};
use pvbind::binder::{Bind, Cluster, Cycle, Progress, Settings};
use pvbind::cluster::{Key, Kind, Object};
use pvbind::decide::Write;
use pvbind::objects::{Node, Pod, pod};
use serde_json::json;

/// What the gang's pods name as their scheduler.
const NAME: &str = "gang";
/// How long a gang may take.
const PATIENCE: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One pod of the gang, on its way.
struct Member {
    key: Key,
    pod: Pod,
    node: String,
    cycle: Cycle,
}

struct Scheduler {
    client: Client,
    watches: Watches,
    cluster: Cluster,
    unlisted: BTreeSet<Kind>,
}

impl Scheduler {
    fn new(client: Client) -> Self {
        let watches = watch(&client, &Kind::ALL);
        Scheduler { client, watches, cluster: Cluster::new(), unlisted: Kind::ALL.into_iter().collect() }
    }

    /// Takes in the next thing that a watch shows.
    async fn see(&mut self) -> Result<()> {
        match self.watches.next().await.ok_or("the watches have ended")? {
            Change::Show(object) => drop(self.cluster.show(object)),
            Change::Gone(object) => drop(self.cluster.gone(&object.key())),
            Change::Listed(kind, _) => drop(self.unlisted.remove(&kind)),
            Change::Trouble(_, error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The pods that wait for this scheduler.
    fn gang(&self) -> Vec<(Key, Pod)> {
        let pods = self.cluster.keyed_pods();
        pods.filter(|(_, pod)| pod::scheduler_name(pod) == NAME && pod::node_name(pod).is_empty())
            .map(|(key, pod)| (key.clone(), Pod::clone(pod)))
            .collect()
    }

    /// Takes a node, and what the pod's claims get there.
    fn reserve(&mut self, key: Key, pod: Pod) -> Result<Member> {
        let mut cycle = match Cycle::pre_filter(&self.cluster, &pod) {
            Ok(cycle) => cycle,
            Err(status) => return Err(format!("{}: {:?}", key.path(), status.reasons).into()),
        };
        let nodes: Vec<Node> = self.cluster.nodes().map(|node| Node::clone(node)).collect();
        let fits = cycle.filter(&self.cluster, &Settings::default(), &nodes);
        let fitting = nodes.iter().zip(&fits).find(|(_, status)| status.is_ok());
        let (node, _) = fitting.ok_or_else(|| format!("{}: {fits:?}", key.path()))?;
        let node = node.metadata.name.clone().unwrap_or_default();
        cycle.reserve(&mut self.cluster, &pod, &node)?;
        Ok(Member { key, pod, node, cycle })
    }

    /// Takes nodes and volumes for all pods, or for none.
    fn reserve_all(&mut self, gang: Vec<(Key, Pod)>) -> Result<Vec<Member>> {
        let mut members: Vec<Member> = Vec::new();
        for (key, pod) in gang {
            match self.reserve(key, pod) {
                Ok(member) => members.push(member),
                Err(error) => {
                    for member in members {
                        member.cycle.unreserve(&mut self.cluster, &member.node);
                    }
                    return Err(error);
                }
            }
        }
        Ok(members)
    }

    /// Binds the volumes of one pod and places it.
    async fn bind(&mut self, member: &Member) -> Result<()> {
        if let Ok(volumes) = member.cycle.pre_bind(&member.node) {
            let mut bind = Bind::new(member.key.clone(), &member.node, volumes.clone());
            while let Some(request) = bind.next().cloned() {
                match execute::write(&self.client, &request.before, &request.write).await {
                    Ok(Some(answer)) => bind.answered(&mut self.cluster, &answer),
                    Ok(None) => return Err("nothing to write".into()),
                    Err(error) => {
                        bind.refused(&mut self.cluster);
                        for request in bind.undo(&self.cluster) {
                            execute::write(&self.client, &request.before, &request.write).await?;
                        }
                        return Err(error.into());
                    }
                }
            }
            while bind.progress(&self.cluster)? == Progress::Waiting {
                self.see().await?;
            }
        }
        let write = Write::BindPod { pod: member.key.clone(), node: member.node.clone() };
        execute::write(&self.client, &Object::from(member.pod.clone()), &write).await?;
        println!("{} runs on {}", member.key.path(), member.node);
        Ok(())
    }

    /// Waits for a gang of so many pods, and places them.
    async fn run(&mut self, size: usize) -> Result<()> {
        while !self.unlisted.is_empty() || self.gang().len() < size {
            self.see().await?;
        }
        for member in self.reserve_all(self.gang())? {
            self.bind(&member).await?;
        }
        Ok(())
    }
}

/// Two nodes with a volume each, and two pods with a claim each.
fn world(server: &FakeApiServer) -> Result<()> {
    let mut objects = vec![json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    })];
    for n in ["1", "2"] {
        let host = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [format!("n{n}")]});
        let labels = json!({"kubernetes.io/hostname": format!("n{n}")});
        let claim = json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("c{n}")}}]);
        objects.extend([
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{n}"), "labels": labels}}),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("v{n}")},
                "spec": {
                    "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                    "local": {"path": "/disk"},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": "default", "name": format!("c{n}")},
                "spec": {
                    "storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": format!("p{n}")},
                "spec": {"schedulerName": NAME, "containers": [{"name": "c", "image": "i"}], "volumes": claim},
            }),
        ]);
    }
    for object in objects {
        server.import(object).map_err(|status| status.message.clone())?;
    }
    Ok(())
}

/// Runs the example on a server; returns when the gang is placed.
async fn place_a_gang(server: &FakeApiServer) -> Result<()> {
    world(server)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = act::run(Client::new(server.router(), "default"), Options::controller(), async {
        let _ = stopped.await;
    });
    let scheduler = async {
        let mut scheduler = Scheduler::new(Client::new(server.router(), "default"));
        // A volume is free once the controller has said so.
        while scheduler.cluster.volumes().filter(|v| pvbind::objects::volume::phase(v) == "Available").count()
            < 2
        {
            scheduler.see().await?;
        }
        let placed = tokio::time::timeout(PATIENCE, scheduler.run(2)).await;
        drop(stop);
        placed?
    };
    let (placed, _) = futures::future::join(Box::pin(scheduler), Box::pin(controller)).await;
    placed
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    place_a_gang(&FakeApiServer::new(fake_apiserver::Options::default())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_pod_is_where_its_volume_is() {
        let server = FakeApiServer::new(fake_apiserver::Options::default());
        place_a_gang(&server).await.unwrap();
        let text = |kind: &str, namespace: &str, name: &str, path: &str| {
            let object = server.get(kind, namespace, name).unwrap();
            object.pointer(path).and_then(|v| v.as_str()).unwrap_or_default().to_owned()
        };
        let mut nodes = BTreeSet::new();
        for n in ["1", "2"] {
            let node = text("Pod", "default", &format!("p{n}"), "/spec/nodeName");
            let volume = text("PersistentVolumeClaim", "default", &format!("c{n}"), "/spec/volumeName");
            assert_eq!(node.trim_start_matches('n'), volume.trim_start_matches('v'));
            nodes.insert(node);
        }
        assert_eq!(nodes.len(), 2, "each pod has a node of its own: {nodes:?}");
    }
}
