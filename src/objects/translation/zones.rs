//! Where a volume is: in Kubernetes' words, `topology.kubernetes.io/zone`, and in those of a CSI driver.
//!
//! It translates node affinity, labels and a class's allowed topologies; it never says whether a node is in a zone.
//! Affinity counts before labels. Answers to upstream's `plugins/in_tree_volume.go` of `csi-translation-lib`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorLabelRequirement, TopologySelectorTerm,
};

use super::super::{Class, Volume, topology};
use super::Untranslatable;

/// The label of a node's or volume's zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node's or volume's region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// The older name of [`ZONE`].
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The older name of [`REGION`].
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// What stands between the zones in a volume's label.
pub const BETWEEN_ZONES: &str = "__";

/// Finds the one region of some zones.
pub type RegionOf = fn(&[String]) -> Result<String, Untranslatable>;

/// The labels of a zone and its region that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Of the zone.
    pub zone: &'static str,
    /// Of the region.
    pub region: &'static str,
}

const STABLE: Labels = Labels { zone: ZONE, region: REGION };
const BETA: Labels = Labels { zone: BETA_ZONE, region: BETA_REGION };

/// Which labels the volume uses: those in its affinity, else those on itself, else the newer ones.
#[must_use]
pub fn labels_of(volume: &Volume) -> Labels {
    let has_key = |labels: Labels| expressions(volume).any(|expression| expression.key == labels.zone);
    let has_label = |labels: Labels| label(volume, labels.zone).is_some();
    let found = [STABLE, BETA].into_iter().find(|labels| has_key(*labels));
    found.or_else(|| [STABLE, BETA].into_iter().find(|labels| has_label(*labels))).unwrap_or(STABLE)
}

/// The volume's label.
#[must_use]
pub fn label<'a>(volume: &'a Volume, key: &str) -> Option<&'a str> {
    volume.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn expressions(volume: &Volume) -> impl Iterator<Item = &NodeSelectorRequirement> {
    let terms = topology::required(volume).into_iter().flat_map(|selector| &selector.node_selector_terms);
    terms.flat_map(|term| term.match_expressions.iter().flatten())
}

fn terms_mut(volume: &mut Volume) -> &mut [NodeSelectorTerm] {
    let affinity = volume.spec.as_mut().and_then(|spec| spec.node_affinity.as_mut());
    let selector = affinity.and_then(|affinity| affinity.required.as_mut());
    selector.map_or(&mut [], |selector| selector.node_selector_terms.as_mut_slice())
}

/// All values that the volume's affinity has for a key, whatever the terms, in order and each once.
#[must_use]
pub fn values(volume: &Volume, key: &str) -> Vec<String> {
    let values = expressions(volume).filter(|expression| expression.key == key);
    let values: BTreeSet<_> = values.flat_map(|expression| expression.values.iter().flatten()).collect();
    values.into_iter().cloned().collect()
}

/// Gives a key of the volume's affinity another name. Requirements are not merged, though two may then have one key.
pub fn replace(volume: &mut Volume, old: &str, new: &str) {
    let terms = terms_mut(volume).iter_mut();
    for expression in terms.flat_map(|term| term.match_expressions.iter_mut().flatten()) {
        if expression.key == old {
            new.clone_into(&mut expression.key);
        }
    }
}

/// Adds to each term of the volume's affinity, or to a new one, that the key has one of the zones. Where no zone
/// is left that has a name, nothing is added.
pub fn add<'a>(volume: &mut Volume, key: &str, zones: impl Iterator<Item = &'a str>) {
    let zones: BTreeSet<&str> = zones.map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        return;
    }
    let affinity = volume.spec.get_or_insert_default().node_affinity.get_or_insert_default();
    let terms = &mut affinity.required.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        term.match_expressions.get_or_insert_default().push(NodeSelectorRequirement {
            key: key.to_owned(),
            operator: "In".to_owned(),
            values: Some(zones.iter().map(|zone| (*zone).to_owned()).collect()),
        });
    }
}

/// Says where an in-tree volume is by a driver's key: the zones of its affinity, else those of its label. The older
/// label of a region becomes the newer one, for the sake of nodes that have only that.
pub fn to_csi(volume: &mut Volume, key: &str) {
    let labels = labels_of(volume);
    if !values(volume, labels.zone).is_empty() {
        replace(volume, labels.zone, key);
    } else if let Some(zones) = label(volume, labels.zone).map(str::to_owned) {
        add(volume, key, zones.split(BETWEEN_ZONES));
    }
    if labels == BETA {
        replace(volume, BETA_REGION, REGION);
    }
}

/// Says where a driver's volume is in Kubernetes' words, in affinity and labels. With `region_of`, the region too.
///
/// # Errors
/// The zones of a term are not of one region.
pub fn to_in_tree(volume: &mut Volume, key: &str, region_of: Option<RegionOf>) -> Result<(), Untranslatable> {
    let zone = labels_of(volume).zone;
    replace(volume, key, zone);
    if let Some(region_of) = region_of {
        add_regions(volume, region_of)?;
    }
    let zones = values(volume, zone);
    if !zones.is_empty() {
        set_label(volume, zone, zones.join(BETWEEN_ZONES));
    }
    Ok(())
}

fn add_regions(volume: &mut Volume, region_of: RegionOf) -> Result<(), Untranslatable> {
    let labels = labels_of(volume);
    for term in terms_mut(volume) {
        let expressions = term.match_expressions.get_or_insert_default();
        if expressions.iter().any(|expression| expression.key == labels.region) {
            continue;
        }
        let of_zones = expressions.iter().filter(|expression| expression.key == labels.zone);
        let zones: Vec<String> = of_zones.flat_map(|zone| zone.values.iter().flatten().cloned()).collect();
        expressions.push(NodeSelectorRequirement {
            key: labels.region.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![region_of(&zones)?]),
        });
    }
    if let [region] = values(volume, labels.region).as_slice() {
        set_label(volume, labels.region, region.clone());
    }
    Ok(())
}

/// Sets a label that is not there yet.
pub fn set_label(volume: &mut Volume, key: &str, value: String) {
    let labels: &mut BTreeMap<_, _> = volume.metadata.labels.get_or_insert_default();
    labels.entry(key.to_owned()).or_insert(value);
}

/// The one region of some zones, each of which has the region that `region` finds.
///
/// # Errors
/// There is none, or there are several.
pub fn one_region(
    zones: &[String],
    region: impl Fn(&str) -> Option<String>,
) -> Result<String, Untranslatable> {
    let regions: Option<BTreeSet<String>> = zones.iter().map(|zone| region(zone)).collect();
    let mut regions = regions.unwrap_or_default().into_iter();
    match (regions.next(), regions.next()) {
        (Some(region), None) => Ok(region),
        _ => Err(Untranslatable::Region(zones.to_vec())),
    }
}

/// Says by a driver's key where a class allows volumes; other keys stay.
pub fn translate_allowed(class: &mut Class, key: &str) {
    let terms = class.allowed_topologies.iter_mut().flatten();
    for expression in terms.flat_map(|term| term.match_label_expressions.iter_mut().flatten()) {
        if expression.key == BETA_ZONE || expression.key == ZONE {
            key.clone_into(&mut expression.key);
        }
    }
}

/// Turns the parameters `zone` and `zones` of a class into allowed topologies, or translates those that it has.
///
/// # Errors
/// It has both.
pub fn translate_class(class: &mut Class, key: &str) -> Result<(), Untranslatable> {
    let parameters = class.parameters.iter().flatten();
    let mut zones = parameters.filter_map(|(name, value)| match name.to_lowercase().as_str() {
        "zone" => Some(vec![value.clone()]),
        "zones" => Some(value.split(',').map(str::to_owned).collect()),
        _ => None,
    });
    let Some(values) = zones.next_back() else {
        translate_allowed(class, key);
        return Ok(());
    };
    if class.allowed_topologies.as_ref().is_some_and(|allowed| !allowed.is_empty()) {
        return Err(Untranslatable::ZonesTwice);
    }
    let expression = TopologySelectorLabelRequirement { key: key.to_owned(), values };
    class.allowed_topologies =
        Some(vec![TopologySelectorTerm { match_label_expressions: Some(vec![expression]) }]);
    Ok(())
}
