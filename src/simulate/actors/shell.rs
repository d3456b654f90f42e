//! The active part: watches in, keys decided one after the other, calls out.
//!
//! One task owns the World. It takes in everything that the watches hold, then decides the first due key, performs its
//! plan, and shows the answers to the World before the next decision: it can't act twice on what it has done, and never
//! conflicts with itself. A refused plan is decided again after a delay that grows with each refusal of that key. It
//! decides nothing before every watch has listed once, and sleeps (on tokio's clock) only for such a delay.

use super::Roles;
use super::call::{Call, Kind, Name};
use super::key::Key;
use super::perform::{Clock, Performer, Refusal};
use super::world::{Watched, World};
use super::{garbage, intake, kubelet, protection, provisioner, workloads};
use crate::act;
use crate::cluster::{self, Object};
use crate::objects;
use futures::FutureExt;
use futures::stream::{BoxStream, SelectAll, StreamExt};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass,
};
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Why the actors stopped without being told to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every watch ended, which a watch never does by itself.
    #[error("the watches on the API server ended")]
    WatchesEnded,
}

/// Upstream's first and last delay before a refused key is decided again.
const FIRST_DELAY: Duration = Duration::from_millis(5);
const LAST_DELAY: Duration = Duration::from_secs(1000);

/// A pause of one second after each failed watch request: no chance in it, and no end.
#[derive(Debug)]
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// A watch event of some kind, as the change it makes.
type Change = Box<dyn FnOnce(&mut State) + Send>;

/// What the one task owns.
#[derive(Default)]
struct State {
    world: World,
    due: BTreeSet<Key>,
    listing: BTreeMap<Kind, BTreeSet<Name>>,
    listed: BTreeSet<Kind>,
    delayed: BTreeSet<(Instant, Key)>,
    refusals: BTreeMap<Key, u32>,
}

impl State {
    fn take<T: Watched>(&mut self, event: watcher::Event<T>) {
        match event {
            watcher::Event::Init => {
                self.listing.insert(T::KIND, BTreeSet::new());
            }
            watcher::Event::InitApply(object) => {
                self.listing.entry(T::KIND).or_default().insert(Name::of(object.meta()));
                self.world.show(&Arc::new(object), &mut self.due);
            }
            watcher::Event::InitDone => {
                let listed = self.listing.remove(&T::KIND).unwrap_or_default();
                self.world.retain::<T>(&listed, &mut self.due);
                self.listed.insert(T::KIND);
            }
            watcher::Event::Apply(object) => self.world.show(&Arc::new(object), &mut self.due),
            watcher::Event::Delete(object) => self.world.hide(&object, &mut self.due),
        }
    }

    /// Takes in what the program's own watches show.
    fn share(&mut self, change: act::watch::Change) {
        let (world, due) = (&mut self.world, &mut self.due);
        match change {
            act::watch::Change::Show(object) => match object {
                Object::Claim(object) => world.show(&object, due),
                Object::Volume(object) => world.show(&object, due),
                Object::Class(object) => world.show(&object, due),
                Object::Pod(object) => world.show(&object, due),
                Object::Node(object) => world.show(&object, due),
                Object::CsiNode(object) => world.show(&object, due),
                Object::CsiDriver(object) => world.show(&object, due),
                Object::Capacity(object) => world.show(&object, due),
            },
            act::watch::Change::Gone(object) => match object {
                Object::Claim(object) => world.hide(&*object, due),
                Object::Volume(object) => world.hide(&*object, due),
                Object::Class(object) => world.hide(&*object, due),
                Object::Pod(object) => world.hide(&*object, due),
                Object::Node(object) => world.hide(&*object, due),
                Object::CsiNode(object) => world.hide(&*object, due),
                Object::CsiDriver(object) => world.hide(&*object, due),
                Object::Capacity(object) => world.hide(&*object, due),
            },
            act::watch::Change::Listed(kind, keys) => match kind {
                cluster::Kind::Claim => self.retain::<PersistentVolumeClaim>(&keys),
                cluster::Kind::Volume => self.retain::<objects::Volume>(&keys),
                cluster::Kind::Class => self.retain::<StorageClass>(&keys),
                cluster::Kind::Pod => self.retain::<Pod>(&keys),
                cluster::Kind::Node => self.retain::<Node>(&keys),
                cluster::Kind::CsiNode => self.retain::<CSINode>(&keys),
                cluster::Kind::CsiDriver => self.retain::<CSIDriver>(&keys),
                cluster::Kind::Capacity => self.retain::<CSIStorageCapacity>(&keys),
            },
            // Who watches says so.
            act::watch::Change::Trouble(..) => {}
        }
    }

    fn retain<T: Watched>(&mut self, keys: &BTreeSet<cluster::Key>) {
        let listed = keys.iter().map(|key| Name::new(key.namespace(), key.name())).collect();
        self.world.retain::<T>(&listed, &mut self.due);
        self.listed.insert(T::KIND);
    }

    fn refused(&mut self, key: Key) {
        let refusals = self.refusals.entry(key.clone()).or_default();
        let delay =
            FIRST_DELAY.saturating_mul(1_u32.checked_shl(*refusals).unwrap_or(u32::MAX)).min(LAST_DELAY);
        *refusals = refusals.saturating_add(1);
        self.delayed.insert((Instant::now() + delay, key));
    }

    fn wake_delayed(&mut self) {
        let now = Instant::now();
        while self.delayed.first().is_some_and(|(at, _)| *at <= now) {
            self.due.extend(self.delayed.pop_first().map(|(_, key)| key));
        }
    }

    fn next_delay(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _)| *at)
    }

    fn is_complete(&self) -> bool {
        self.listed.len() == Kind::WATCHED.len()
    }
}

fn watch_kind<T>(client: &kube::Client) -> BoxStream<'static, Change>
where
    T: Watched + DeserializeOwned + Debug,
{
    watcher(kube::Api::<T>::all(client.clone()), watcher::Config::default())
        .backoff(Steady)
        .filter_map(|event| async {
            match event {
                Ok(event) => Some(Box::new(move |state: &mut State| state.take::<T>(event)) as Change),
                Err(error) => {
                    tracing::debug!(kind = T::KIND.name(), %error, "watch failed, trying again");
                    None
                }
            }
        })
        .boxed()
}

/// The kinds that the program watches come from it, the others from watches of the actors' own.
fn watch_all(
    client: &kube::Client,
    shared: BoxStream<'static, act::watch::Change>,
) -> SelectAll<BoxStream<'static, Change>> {
    let shared = shared.map(|change| Box::new(move |state: &mut State| state.share(change)) as Change);
    futures::stream::select_all([
        shared.boxed(),
        watch_kind::<Namespace>(client),
        watch_kind::<VolumeAttributesClass>(client),
        watch_kind::<StatefulSet>(client),
        watch_kind::<Deployment>(client),
        watch_kind::<ReplicaSet>(client),
        watch_kind::<DaemonSet>(client),
        watch_kind::<Job>(client),
    ])
}

/// What to do about a key.
#[must_use]
pub fn plan(world: &World, key: &Key, now: &str) -> Vec<Call> {
    match key {
        Key::Namespace(name) => garbage::plan_namespace(world, name),
        Key::Dependent(kind, name) => garbage::plan_dependent(world, *kind, name),
        Key::Owner(kind, name) => garbage::plan_owner(world, *kind, name),
        Key::ClaimProtection(name) => protection::plan_claim(world, name),
        Key::VolumeProtection(name) => protection::plan_volume(world, name),
        Key::ClassProtection(name) => protection::plan_class(world, name),
        Key::Node(name) => kubelet::plan_node(world, name),
        Key::Kubelet(name) => kubelet::plan(world, name, now),
        Key::Ephemeral(name) => workloads::plan_ephemeral(world, name),
        Key::Deployment(name) => workloads::plan_deployment(world, name),
        Key::ReplicaSet(name) => workloads::plan_replica_set(world, name),
        Key::Daemon(name, node) => workloads::plan_daemon(world, name, node),
        Key::DaemonSet(name) => workloads::plan_daemon_set(world, name),
        Key::Job(name) => workloads::plan_job(world, name),
        Key::Replica(name, number) => workloads::plan_replica(world, name, *number),
        Key::StatefulSet(name) => workloads::plan_stateful_set(world, name),
        Key::Provision(name) => provisioner::plan_claim(world, name),
        Key::Reclaim(name) => provisioner::plan_volume(world, name),
    }
}

async fn decide(state: &mut State, performer: &mut Performer, key: Key) {
    for call in plan(&state.world, &key, &performer.now()) {
        match performer.perform(call).await {
            Ok(answer) => {
                if let Some(answer) = answer {
                    intake::take(&mut state.world, answer, false, &mut state.due);
                }
            }
            Err(refusal) => {
                if let Refusal::Error(error) = refusal {
                    tracing::debug!(?key, %error, "refused, deciding again later");
                }
                state.refused(key);
                return;
            }
        }
    }
    state.refusals.remove(&key);
}

/// Plays the actors against the API server behind `client` until `stop` says true or is dropped. `shared` shows them
/// what the program's watches show.
///
/// # Errors
/// [`Error::WatchesEnded`], which only a client that was shut down can cause.
pub async fn run(
    client: kube::Client,
    shared: BoxStream<'static, act::watch::Change>,
    roles: Roles,
    now: Clock,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Error> {
    let mut changes = watch_all(&client, shared);
    let mut performer = Performer::new(client, now);
    let mut state = State::default();
    let stopped = stop.wait_for(|stop| *stop).map(drop);
    let mut stopped = std::pin::pin!(stopped);
    loop {
        // Decisions are made on everything that is known, so whatever the watches hold is taken in first.
        while let Some(change) = tokio::task::unconstrained(changes.next()).now_or_never() {
            change.ok_or(Error::WatchesEnded)?(&mut state);
        }
        state.wake_delayed();
        if state.is_complete()
            && let Some(key) = state.due.pop_first()
        {
            if key.is_played(roles) {
                tokio::select! {
                    biased;
                    () = &mut stopped => return Ok(()),
                    () = decide(&mut state, &mut performer, key) => {}
                }
            }
            continue;
        }
        let delay = state.next_delay();
        let delayed = async {
            match delay {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = &mut stopped => return Ok(()),
            change = changes.next() => change.ok_or(Error::WatchesEnded)?(&mut state),
            () = delayed => {}
        }
    }
}
