//! The pods for which no node would do, by what refused them.
//!
//! News is asked about those pods alone that are refused for something that it is about. Nothing is forgotten: a pod
//! stays here until it is woken, by news or by key; until then it goes by what it was told, as upstream's do. It decides nothing; [`refusal`](crate::decide::binder::hints::refusal)
//! does. Answers to the pool of unschedulable pods of upstream's scheduling queue.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{Cluster, Key};
use crate::decide::Settings;
use crate::decide::binder::hints::news::News;
use crate::decide::binder::hints::refusal::{Refusal, Waiting};

/// The pods that wait.
#[derive(Debug, Default)]
pub struct Parked {
    pods: BTreeMap<Key, BTreeSet<Refusal>>,
    by_refusal: BTreeMap<Refusal, BTreeSet<Key>>,
}

impl Parked {
    /// Lets a pod wait.
    pub fn park(&mut self, pod: &Key, refusals: BTreeSet<Refusal>) {
        self.wake(pod);
        for refusal in &refusals {
            self.by_refusal.entry(refusal.clone()).or_default().insert(pod.clone());
        }
        self.pods.insert(pod.clone(), refusals);
    }

    /// Lets a pod wait no longer.
    pub fn wake(&mut self, pod: &Key) {
        for refusal in self.pods.remove(pod).into_iter().flatten() {
            if let Some(pods) = self.by_refusal.get_mut(&refusal) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.by_refusal.remove(&refusal);
                }
            }
        }
    }

    /// Whether a pod waits.
    #[must_use]
    pub fn contains(&self, pod: &Key) -> bool {
        self.pods.contains_key(pod)
    }

    /// The pods that the news may help.
    #[must_use]
    pub fn helped(&self, cluster: &Cluster, settings: &Settings, news: &News) -> BTreeSet<Key> {
        if *news == News::NodeCount {
            return self.pods.keys().cloned().collect();
        }
        let mut helped = BTreeSet::new();
        for (refusal, pods) in self.by_refusal.iter().filter(|(refusal, _)| refusal.hears(news)) {
            for key in pods {
                let Some(pod) = cluster.pod(key).filter(|_| !helped.contains(key)) else { continue };
                if refusal.is_cured(news, Waiting { cluster, settings, key, pod }) {
                    helped.insert(key.clone());
                }
            }
        }
        helped
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

#[cfg(test)]
mod tests;
