//! How many volumes and claims there are, of which sort, bound or not.
//!
//! Kept one object at a time, as the loop comes to know it, so that nobody has to stop and count: a scrape copies
//! as many numbers as there are sorts. What is assumed of an object does not count, only what the API server has
//! shown. Answers to upstream's `pvAndPVCCountCollector`, which walks the controller's caches instead.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Key, Object};
use crate::objects::{Claim, Volume, claim, namespace, plugin, volume};

/// What upstream calls a volume's plugin where it knows none.
pub(super) const NO_PLUGIN: &str = "N/A";

/// All that objects which are counted together have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Volume { plugin: String, mode: String, class: String, bound: bool },
    Claim { namespace: String, class: String, attributes_class: String, bound: bool },
}

impl Sort {
    fn of(object: &Object) -> Option<Self> {
        match object {
            Object::Volume(volume) => Some(Sort::of_volume(volume)),
            Object::Claim(claim) => Some(Sort::of_claim(claim)),
            Object::Class(_)
            | Object::Pod(_)
            | Object::Node(_)
            | Object::CsiNode(_)
            | Object::CsiDriver(_)
            | Object::Capacity(_) => None,
        }
    }

    fn of_volume(volume: &Volume) -> Self {
        // Upstream reads the field alone here: the beta annotation does not count.
        let class = volume.spec.as_ref().and_then(|s| s.storage_class_name.clone());
        Sort::Volume {
            plugin: plugin::name(volume).unwrap_or_else(|| NO_PLUGIN.to_owned()),
            mode: volume::mode(volume).to_owned(),
            class: class.unwrap_or_default(),
            bound: volume::phase(volume) == volume::BOUND,
        }
    }

    fn of_claim(claim: &Claim) -> Self {
        Sort::Claim {
            namespace: namespace(&claim.metadata).to_owned(),
            class: claim::class(claim).to_owned(),
            attributes_class: claim::attributes_class(claim).to_owned(),
            bound: claim::phase(claim) == claim::BOUND,
        }
    }
}

/// The sort of every volume and claim, and how many there are of each.
#[derive(Debug, Default)]
pub(super) struct Census {
    sorts: BTreeMap<Key, Arc<Sort>>,
    counts: BTreeMap<Arc<Sort>, i64>,
}

impl Census {
    /// Takes note of what the API server has last shown of an object, `None` when it is gone.
    pub(super) fn see(&mut self, key: &Key, known: Option<&Object>) {
        let sort = known.and_then(Sort::of);
        if self.sorts.get(key).map(AsRef::as_ref) == sort.as_ref() {
            return;
        }
        if let Some(before) = self.sorts.remove(key)
            && let Some(count) = self.counts.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&before);
            }
        }
        if let Some(sort) = sort {
            // Objects of one sort share its description.
            let shared = self.counts.get_key_value(&sort).map(|(shared, _)| shared.clone());
            let shared = shared.unwrap_or_else(|| Arc::new(sort));
            *self.counts.entry(shared.clone()).or_default() += 1;
            self.sorts.insert(key.clone(), shared);
        }
    }

    /// Every sort of which there is something, with how much.
    pub(super) fn counts(&self) -> Vec<(Arc<Sort>, i64)> {
        self.counts.iter().map(|(sort, count)| (sort.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, phase: &str, source: &serde_json::Value) -> Object {
        let mut volume = json!({
            "metadata": {"name": name, "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"}},
            "spec": {"storageClassName": "gold"},
            "status": {"phase": phase},
        });
        for (field, value) in source.as_object().unwrap() {
            volume["spec"][field] = value.clone();
        }
        Object::from(serde_json::from_value::<Volume>(volume).unwrap())
    }

    fn volumes(plugin: &str, bound: bool) -> Sort {
        let (mode, class) = ("Filesystem".to_owned(), "gold".to_owned());
        Sort::Volume { plugin: plugin.to_owned(), mode, class, bound }
    }

    fn counted(census: &Census) -> Vec<(Sort, i64)> {
        census.counts().into_iter().map(|(sort, count)| (Sort::clone(&sort), count)).collect()
    }

    #[test]
    fn an_object_counts_once_as_what_it_is_now_and_not_at_all_when_it_is_gone() {
        let mut census = Census::default();
        let nfs = json!({"nfs": {"server": "s", "path": "/"}});
        for name in ["a", "b", "a"] {
            census.see(&Key::volume(name), Some(&volume(name, "Available", &nfs)));
        }
        assert_eq!(counted(&census), [(volumes("kubernetes.io/nfs", false), 2)]);
        census.see(&Key::volume("a"), Some(&volume("a", "Bound", &nfs)));
        let one_of_each = [(volumes("kubernetes.io/nfs", false), 1), (volumes("kubernetes.io/nfs", true), 1)];
        assert_eq!(counted(&census), one_of_each);
        census.see(&Key::volume("a"), None);
        census.see(&Key::volume("a"), None);
        assert_eq!(counted(&census), [(volumes("kubernetes.io/nfs", false), 1)]);
        census.see(&Key::volume("b"), None);
        assert_eq!(counted(&census), []);
        assert!(census.sorts.is_empty());
    }

    #[test]
    fn a_source_has_the_name_of_the_plugin_that_upstreams_controller_is_built_with() {
        let driver = json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "h"}});
        for (source, plugin) in [
            (json!({"hostPath": {"path": "/p"}}), "kubernetes.io/host-path"),
            (json!({"fc": {"lun": 1}}), "kubernetes.io/fc"),
            (json!({"iscsi": {"iqn": "i", "lun": 1, "targetPortal": "t"}}), "kubernetes.io/iscsi"),
            (driver, "kubernetes.io/csi:ebs.csi.aws.com"),
            (json!({"local": {"path": "/p"}}), "N/A"),
            (json!({"awsElasticBlockStore": {"volumeID": "v"}}), "N/A"),
            (json!({"hostPath": {"path": "/p"}, "fc": {"lun": 1}}), "N/A"),
            (json!({}), "N/A"),
        ] {
            let found = Sort::of(&volume("v", "Bound", &source)).unwrap();
            assert_eq!(found, volumes(plugin, true), "{source}");
        }
    }

    #[test]
    fn the_annotation_of_a_claim_names_its_class() {
        let claim = json!({
            "metadata": {
                "namespace": "n", "name": "c",
                "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"},
            },
            "spec": {"storageClassName": "gold", "volumeAttributesClassName": "fast"},
        });
        let claim = Object::from(serde_json::from_value::<Claim>(claim).unwrap());
        let text = str::to_owned;
        let (namespace, class, attributes_class) = (text("n"), text("beta"), text("fast"));
        assert_eq!(Sort::of(&claim), Some(Sort::Claim { namespace, class, attributes_class, bound: false }));
    }
}
