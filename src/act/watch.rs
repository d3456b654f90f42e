//! Showing the decider what the API server has.
//!
//! One watch for each kind, through `kube::runtime::watcher`, which lists, watches, and lists again when the
//! server has forgotten where it was. Answers to upstream's informers; what they keep beside the objects
//! (`managedFields`) is dropped here.

use std::collections::BTreeSet;

use futures::stream::{BoxStream, SelectAll, StreamExt};
use kube::runtime::watcher;
use kube::runtime::{WatchStreamExt, watcher::Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::error::Error;
use crate::cluster::{Key, Kind, Object};
use crate::objects::{Capacity, Claim, Class, CsiDriver, CsiNode, Node, Pod, Volume};

/// How many objects are listed at once. What a page takes while it is read stays with the process, and a page of the usual 500
/// volumes takes more memory than hundreds of them do afterwards.
const PAGE: u32 = 50;

/// What a watch says.
#[derive(Clone, Debug)]
pub enum Change {
    /// This is an object's newest version.
    Show(Object),
    /// This object, as it was last, is gone.
    Gone(Object),
    /// These are all the objects of the kind; each has been shown.
    Listed(Kind, BTreeSet<Key>),
    /// The watch of this kind has a problem and tries again.
    Trouble(Kind, Error),
}

/// The watches of several kinds as one stream.
pub type Watches = SelectAll<BoxStream<'static, Change>>;

/// Starts watching the kinds.
pub fn watch(client: &Client, kinds: &[Kind]) -> Watches {
    kinds
        .iter()
        .map(|kind| match kind {
            Kind::Claim => watch_kind::<Claim>(client, *kind),
            Kind::Volume => watch_kind::<Volume>(client, *kind),
            Kind::Class => watch_kind::<Class>(client, *kind),
            Kind::Pod => watch_kind::<Pod>(client, *kind),
            Kind::Node => watch_kind::<Node>(client, *kind),
            Kind::CsiNode => watch_kind::<CsiNode>(client, *kind),
            Kind::CsiDriver => watch_kind::<CsiDriver>(client, *kind),
            Kind::Capacity => watch_kind::<Capacity>(client, *kind),
        })
        .collect()
}

fn watch_kind<K>(client: &Client, kind: Kind) -> BoxStream<'static, Change>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
    Object: From<K>,
{
    let api: Api<K> = Api::all(client.clone());
    let mut listed = BTreeSet::new();
    let changes = watcher(api, watcher::Config::default().page_size(PAGE)).default_backoff();
    let changes = changes.filter_map(move |event| {
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                None
            }
            Ok(Event::InitApply(object)) => {
                let object = slim(object);
                listed.insert(object.key());
                Some(Change::Show(object))
            }
            Ok(Event::InitDone) => Some(Change::Listed(kind, std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => Some(Change::Show(slim(object))),
            Ok(Event::Delete(object)) => Some(Change::Gone(slim(object))),
            Err(error) => Some(Change::Trouble(kind, Error::Unreachable(error.to_string()))),
        };
        std::future::ready(change)
    });
    changes.boxed()
}

fn slim<K: Resource>(mut object: K) -> Object
where
    Object: From<K>,
{
    object.meta_mut().managed_fields = None;
    Object::from(object)
}
