//! Where drivers report storage, so that a node finds the reports for it without looking at all of them.
//!
//! An index alone: whether a node can use what is reported is still for [`capacity::is_accessible`] to say. Upstream walks
//! over all reports for each claim and node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Cluster, Key};
use crate::objects::topology::Labels;
use crate::objects::{Capacity, Node, capacity};

/// The reports about one class.
#[derive(Clone, Debug, Default)]
struct OfClass {
    /// Those whose topology asks for a label, by the first that it asks for and its value.
    by_label: BTreeMap<String, BTreeMap<String, BTreeSet<Key>>>,
    /// The others.
    anywhere: BTreeSet<Key>,
}

/// The index.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    classes: BTreeMap<String, OfClass>,
}

/// The label that a node needs at least.
fn label(report: &Capacity) -> Option<(&String, &String)> {
    report.node_topology.as_ref()?.match_labels.as_ref()?.iter().next()
}

impl Reports {
    /// Adds a report.
    pub fn add(&mut self, key: &Key, report: &Capacity) {
        let of_class = self.classes.entry(report.storage_class_name.clone()).or_default();
        let keys = match label(report) {
            Some((label, value)) => {
                let by_value = of_class.by_label.entry(label.clone()).or_default();
                by_value.entry(value.clone()).or_default()
            }
            None => &mut of_class.anywhere,
        };
        keys.insert(key.clone());
    }

    /// Takes a report out, as it was when it was added.
    pub fn remove(&mut self, key: &Key, report: &Capacity) {
        let Some(of_class) = self.classes.get_mut(&report.storage_class_name) else { return };
        match label(report) {
            Some((label, value)) => {
                let Some(by_value) = of_class.by_label.get_mut(label) else { return };
                if let Some(keys) = by_value.get_mut(value) {
                    keys.remove(key);
                    if keys.is_empty() {
                        by_value.remove(value);
                    }
                }
                if by_value.is_empty() {
                    of_class.by_label.remove(label);
                }
            }
            None => drop(of_class.anywhere.remove(key)),
        }
        if of_class.by_label.is_empty() && of_class.anywhere.is_empty() {
            self.classes.remove(&report.storage_class_name);
        }
    }

    /// The reports about a class that may be for a node with these labels, by namespace and name.
    #[must_use]
    pub fn about(&self, class: &str, labels: Option<&Labels>) -> BTreeSet<&Key> {
        let Some(of_class) = self.classes.get(class) else { return BTreeSet::new() };
        let with_label = of_class.by_label.iter().filter_map(|(label, by_value)| {
            let value = labels?.get(label)?;
            by_value.get(value)
        });
        with_label.flatten().chain(&of_class.anywhere).collect()
    }
}

impl Cluster {
    /// What is reported of storage of a class that a node can use, by namespace and name.
    pub fn capacities_for<'a>(
        &'a self,
        class: &str,
        node: &'a Node,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Capacity>)> + use<'a> {
        let reports = self.reports.about(class, node.metadata.labels.as_ref()).into_iter();
        let reports = reports.filter_map(|key| Some((key, self.store.get(key)?.as_capacity()?)));
        reports.filter(|(_, report)| capacity::is_accessible(report, node))
    }

    /// Whether a driver says that it reports what storage it has left.
    #[must_use]
    pub fn reports_capacity(&self, driver: &str) -> bool {
        self.csi_driver(driver).is_some_and(|driver| driver.spec.storage_capacity == Some(true))
    }
}
