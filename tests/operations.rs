//! Provisioning and deletion, killed at every step: nothing leaks, nothing is made twice.
//!
//! A plugin that only remembers what storage there is works for the production loop against the bundled API server. The
//! process is killed before and after each request that it sends and each call of the plugin, one place in each run, and
//! a new one goes on from there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fake_apiserver::{Admission, Call, FakeApiServer, Fault, Ids, Options, Plugins as Admitted, Status};
use futures::future::BoxFuture;
use kube::Client;
use pvbind::act::{self, Plugins, VolumePlugin};
use pvbind::decide::Settings;
use pvbind::decide::plugin::{Failure, Plugin, Recycling, Source, Wanted};
use pvbind::objects::Volume;
use serde_json::{Value, json};
use tokio::sync::Notify;

const NAME: &str = "kubernetes.io/remembering";
const PLUGINS: &[Plugin] = &[Plugin {
    name: NAME,
    volumes: Source::Any,
    provisions: true,
    deletes: true,
    recycles: Recycling::Never,
    mount_options: false,
}];
/// More steps than provisioning or deletion has; a run that is killed at none of them ends the test.
const MOST: usize = 60;
/// Virtual time without any change after which all is settled: longer than any pause after a failure.
const QUIET: Duration = Duration::from_secs(200);

/// What happens instead of a kill.
type Deed = Box<dyn FnOnce() + Send>;

/// Counts steps, and kills, or does something else, at one of them.
#[derive(Default)]
struct Killer {
    steps: AtomicUsize,
    at: AtomicUsize,
    kill: Notify,
    deed: Mutex<Option<Deed>>,
}

impl Killer {
    /// Takes note of a step; true when the process dies here.
    fn step(&self) -> bool {
        if self.steps.fetch_add(1, Ordering::SeqCst) + 1 != self.at.load(Ordering::SeqCst) {
            return false;
        }
        self.at.store(0, Ordering::SeqCst);
        let deed = self.deed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let dies = deed.is_none();
        if let Some(deed) = deed {
            deed();
        }
        if dies {
            self.kill.notify_one();
        }
        dies
    }
}

/// The storage there is, by name.
#[derive(Clone)]
struct Remembering {
    storage: Arc<Mutex<BTreeSet<String>>>,
    killer: Arc<Killer>,
}

impl Remembering {
    fn storage(&self) -> BTreeSet<String> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something to the storage, unless the process dies before; it may also die after.
    async fn touch(&self, touch: impl FnOnce(&mut BTreeSet<String>)) {
        if self.killer.step() {
            std::future::pending::<()>().await;
        }
        touch(&mut self.storage.lock().unwrap_or_else(PoisonError::into_inner));
        if self.killer.step() {
            std::future::pending::<()>().await;
        }
    }
}

impl VolumePlugin for Remembering {
    fn name(&self) -> &'static str {
        NAME
    }

    fn provision<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Volume, Failure>> {
        Box::pin(async move {
            self.touch(|storage| {
                storage.insert(wanted.name.clone());
            })
            .await;
            let volume = json!({
                "metadata": {"name": wanted.name},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/remembered"},
                },
            });
            Ok(serde_json::from_value(volume).expect("a volume"))
        })
    }

    fn delete<'a>(&'a self, volume: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let name = volume.metadata.name.clone().unwrap_or_default();
            self.touch(|storage| {
                storage.remove(&name);
            })
            .await;
            Ok(())
        })
    }
}

struct Bench {
    server: FakeApiServer,
    plugin: Remembering,
}

impl Bench {
    fn new() -> Self {
        // Nobody here takes the protection finalizers off again.
        let plugins = Admitted { volume_protection: false, claim_protection: false, ..Admitted::default() };
        let options =
            Options { ids: Ids::Seeded(1), admission: Admission::Full, plugins, ..Options::default() };
        let server = FakeApiServer::new(options);
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "remembered"},
            "provisioner": NAME, "reclaimPolicy": "Delete",
        });
        server.import(class).expect("a class");
        let killer = Arc::new(Killer::default());
        let plugin = Remembering { storage: Arc::default(), killer: killer.clone() };
        server.set_faults(Some(Arc::new(move |call: &Call| {
            // Lists and watches change nothing.
            if matches!(call.verb, "list" | "watch") || call.resource == "events" {
                return None;
            }
            if killer.step() {
                // The request never arrives.
                return Some(Fault::Status(Box::new(Status::new(503, "ServiceUnavailable", "killed"))));
            }
            // It does arrive, but its sender never hears of it.
            killer.step().then_some(Fault::Lost)
        })));
        Bench { server, plugin }
    }

    fn create_claim(&self) {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "default", "name": "c"},
            "spec": {
                "storageClassName": "remembered", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        self.server.import(claim).expect("a claim");
    }

    /// Deletes the claim behind the back of the process: it is no step of its own.
    fn delete_claim(server: &FakeApiServer) {
        let path = "/api/v1/namespaces/default/persistentvolumeclaims/c";
        let (code, _) = server.request("DELETE", path, "application/json", b"");
        assert_eq!(code, 200);
    }

    fn all(&self, kind: &str) -> Vec<Arc<Value>> {
        self.server.objects().into_iter().filter(|object| object["kind"] == kind).collect()
    }

    /// Runs a process until nothing moves, or until it is killed at a step; says whether it was.
    async fn run(&self, kill_at: usize) -> bool {
        let killer = &self.plugin.killer;
        killer.steps.store(0, Ordering::SeqCst);
        killer.at.store(kill_at, Ordering::SeqCst);
        let plugins = Plugins::new([Arc::new(self.plugin.clone()) as Arc<dyn VolumePlugin>]);
        let settings = Settings { plugins: PLUGINS, ..Settings::default() };
        let options = act::Options { settings, plugins, ..act::Options::controller() };
        let mut changes = self.server.changes();
        let program = act::run(Client::new(self.server.router(), "default"), options, async move {
            while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {}
        });
        let died = tokio::select! {
            biased;
            () = killer.kill.notified() => true,
            done = program => {
                let (stats, _) = done.expect("the program ends well");
                assert_eq!(stats.counts.conflicts, 0, "conflicts of one process with itself");
                false
            }
        };
        killer.at.store(0, Ordering::SeqCst);
        died
    }

    /// One claim, bound to one volume, on one piece of storage.
    fn is_provisioned(&self, place: usize) {
        let (claims, volumes) = (self.all("PersistentVolumeClaim"), self.all("PersistentVolume"));
        assert_eq!((claims.len(), volumes.len()), (1, 1), "killed at step {place}");
        assert_eq!(claims[0]["status"]["phase"], "Bound", "killed at step {place}");
        assert_eq!(volumes[0]["status"]["phase"], "Bound", "killed at step {place}");
        let name = volumes[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        assert_eq!(self.plugin.storage(), BTreeSet::from([name]), "killed at step {place}");
    }

    fn is_empty(&self, place: usize) {
        assert!(self.all("PersistentVolume").is_empty(), "killed at step {place}");
        assert_eq!(self.plugin.storage(), BTreeSet::new(), "killed at step {place}");
    }
}

/// Runs a test for each place to be killed at, until there is none left; returns how many there were.
fn at_each_step<F: Future<Output = bool>>(test: impl Fn(usize) -> F) -> usize {
    for place in 1..MOST {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
        if !runtime.block_on(test(place)) {
            return place - 1;
        }
    }
    panic!("more than {MOST} steps");
}

#[test]
fn provisioning_that_is_killed_anywhere_ends_with_one_volume() {
    let steps = at_each_step(|place| async move {
        let bench = Bench::new();
        bench.create_claim();
        let killed = bench.run(place).await;
        bench.run(0).await;
        bench.is_provisioned(place);
        killed
    });
    // Before and after each: naming the provisioner, asking for the volume, making it, saving it, and binding.
    assert!(steps >= 14, "{steps} steps");
}

#[test]
fn deletion_that_is_killed_anywhere_leaves_nothing() {
    let steps = at_each_step(|place| async move {
        let bench = Bench::new();
        bench.create_claim();
        bench.run(0).await;
        bench.is_provisioned(place);
        Bench::delete_claim(&bench.server);
        let killed = bench.run(place).await;
        bench.run(0).await;
        bench.is_empty(place);
        killed
    });
    // Before and after each: the phase, asking for the volume, deleting its storage, its finalizer, the volume.
    assert!(steps >= 10, "{steps} steps");
}

#[test]
fn a_claim_that_goes_while_its_volume_is_made_takes_it_along() {
    let steps = at_each_step(|place| async move {
        let bench = Bench::new();
        bench.create_claim();
        let server = bench.server.clone();
        let deed: Deed = Box::new(move || Bench::delete_claim(&server));
        *bench.plugin.killer.deed.lock().unwrap_or_else(PoisonError::into_inner) = Some(deed);
        assert!(!bench.run(place).await, "nobody is killed here");
        let happened = bench.plugin.killer.deed.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        if happened {
            bench.is_empty(place);
        }
        happened
    });
    assert!(steps >= 14, "{steps} steps");
}
