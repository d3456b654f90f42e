//! Whether a change may help a pod for whose volumes no node would do.
//!
//! Each function looks at one change of one kind of object. None looks at a node, and none says that the pod fits now:
//! a pod that is queued in vain costs a decision, one that is not queued waits for ever.Answers to the queueing hints of upstream's `VolumeBinding`
//! plugin (`isSchedulableAfter…Change`).

use std::sync::Arc;

use thiserror::Error;

use crate::cluster::{Cluster, Key, Kind, Object};
use crate::objects::quantity::Amount;
use crate::objects::{
    Capacity, CsiDriver, CsiNode, Pod, annotation, annotations, claim, name, namespace, pod,
};

/// What a change means for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The pod may fit now.
    Queue,
    /// Nothing that it needs has changed.
    Skip,
}

impl Hint {
    fn queue_if(may_help: bool) -> Self {
        if may_help { Hint::Queue } else { Hint::Skip }
    }
}

/// A change of an object of another kind than the one that was asked about. Upstream queues the pod then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected *v1.{}, but got *v1.{}", .expected.as_str(), .found.as_str())]
pub struct WrongKind {
    /// What was asked about.
    pub expected: Kind,
    /// What has changed.
    pub found: Kind,
}

/// The object, if it is of the kind that `get` knows.
fn of_kind<'a, T>(
    expected: Kind,
    object: &'a Object,
    get: impl FnOnce(&'a Object) -> Option<&'a Arc<T>>,
) -> Result<&'a T, WrongKind> {
    let found = object.kind();
    get(object).map(AsRef::as_ref).ok_or(WrongKind { expected, found })
}

/// The object before, if there was one, and after.
fn both_of_kind<'a, T>(
    expected: Kind,
    before: Option<&'a Object>,
    after: &'a Object,
    get: impl Fn(&'a Object) -> Option<&'a Arc<T>>,
) -> Result<(Option<&'a T>, &'a T), WrongKind> {
    let before = before.map(|before| of_kind(expected, before, &get)).transpose()?;
    Ok((before, of_kind(expected, after, &get)?))
}

/// After a `CSINode` has appeared or changed: in-tree volumes are looked for elsewhere where their plugin is migrated.
///
/// # Errors
/// The change is one of another kind.
pub fn is_schedulable_after_csi_node_change(
    before: Option<&Object>,
    after: &Object,
) -> Result<Hint, WrongKind> {
    let (before, after) = both_of_kind(Kind::CsiNode, before, after, Object::as_csi_node)?;
    let migrated = |node: &CsiNode| {
        annotation(&node.metadata, annotations::MIGRATED_PLUGINS).unwrap_or_default().to_owned()
    };
    Ok(Hint::queue_if(before.is_none_or(|before| migrated(before) != migrated(after))))
}

/// After a claim has appeared or changed: one of the pod's own nearly always matters. Whoever has a cluster asks its
/// index of the pods that use the claim ([`Cluster::pods_using`]), which says the same of all pods at once.
///
/// # Errors
/// The change is one of another kind.
pub fn is_schedulable_after_claim_change(
    pod: &Pod,
    before: Option<&Object>,
    after: &Object,
) -> Result<Hint, WrongKind> {
    let (_, after) = both_of_kind(Kind::Claim, before, after, Object::as_claim)?;
    let is_near = namespace(&pod.metadata) == namespace(&after.metadata);
    let is_used = pod::claims(pod).any(|used| used.claim == name(&after.metadata));
    Ok(Hint::queue_if(is_near && is_used))
}

/// After a class has appeared or changed: it may allow other nodes. Its binding mode can't change.
///
/// # Errors
/// The change is one of another kind.
pub fn is_schedulable_after_class_change(before: Option<&Object>, after: &Object) -> Result<Hint, WrongKind> {
    let (before, after) = both_of_kind(Kind::Class, before, after, Object::as_class)?;
    let allows_others = |before: &crate::objects::Class| {
        before.allowed_topologies.as_deref().unwrap_or_default()
            != after.allowed_topologies.as_deref().unwrap_or_default()
    };
    Ok(Hint::queue_if(before.is_none_or(allows_others)))
}

/// The size that a volume may have at most there; `None` where none can be made.
#[must_use]
pub fn volume_limit(capacity: &Capacity) -> Option<Amount> {
    let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref())?;
    Amount::parse(&limit.0)
}

/// After a report of a capacity has appeared or changed: larger volumes may fit, or more of them. Unlike upstream,
/// which compares each claim alone with the limit of one volume, the whole counts too; and a report may have been
/// deleted and made anew unseen, for another class or other nodes.
///
/// # Errors
/// The change is one of another kind.
pub fn is_schedulable_after_capacity_change(
    before: Option<&Object>,
    after: &Object,
) -> Result<Hint, WrongKind> {
    let (before, after) = both_of_kind(Kind::Capacity, before, after, Object::as_capacity)?;
    let Some(before) = before else { return Ok(Hint::Queue) };
    let whole = |report: &Capacity| report.capacity.as_ref().and_then(|whole| Amount::parse(&whole.0));
    let is_other =
        before.storage_class_name != after.storage_class_name || before.node_topology != after.node_topology;
    // Nothing is less than zero: a report that says nothing now is no reason to hope.
    let grows = volume_limit(after) > volume_limit(before) || whole(after) > whole(before);
    Ok(Hint::queue_if(is_other || grows))
}

fn tracks(driver: &CsiDriver) -> bool {
    driver.spec.storage_capacity == Some(true)
}

/// After a `CSIDriver` has changed: one that no longer reports its capacity counts as having enough. Upstream looks
/// only at CSI volumes that stand in the pod itself, and so overlooks the very pods that lack of capacity keeps waiting:
/// here the drivers count that are to make volumes for the pod's claims.
///
/// # Errors
/// The change is one of another kind.
pub fn is_schedulable_after_csi_driver_change(
    cluster: &Cluster,
    pod: &Pod,
    before: Option<&Object>,
    after: &Object,
) -> Result<Hint, WrongKind> {
    let (before, after) = both_of_kind(Kind::CsiDriver, before, after, Object::as_csi_driver)?;
    let stops = before.is_some_and(tracks) && !tracks(after);
    Ok(Hint::queue_if(stops && needs_driver(cluster, pod, name(&after.metadata))))
}

/// Whether the driver serves a volume that stands in the pod, or is to make one for a claim of it.
fn needs_driver(cluster: &Cluster, pod: &Pod, driver: &str) -> bool {
    let in_pod = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut in_pod = in_pod.filter_map(|volume| volume.csi.as_ref());
    let mut claims = pod::claims(pod);
    in_pod.any(|csi| csi.driver == driver)
        || claims.any(|used| {
            let claim = cluster.claim(&Key::claim(namespace(&pod.metadata), &used.claim));
            let class = claim.and_then(|claim| cluster.class(claim::class(claim)));
            class.is_some_and(|class| class.provisioner == driver)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Claim, Class};
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    fn driver(name: &str, tracks: &Value) -> Object {
        let driver = json!({"metadata": {"name": name}, "spec": {"storageCapacity": tracks}});
        Object::from(from_value::<CsiDriver>(driver).unwrap())
    }

    /// The pod has a claim, for which `made.example.com` is to make a volume.
    #[rstest]
    #[case("made.example.com", json!(true), json!(false), Hint::Queue)]
    #[case("made.example.com", json!(true), json!(null), Hint::Queue)]
    #[case("made.example.com", json!(true), json!(true), Hint::Skip)]
    #[case("made.example.com", json!(false), json!(true), Hint::Skip)]
    #[case("made.example.com", json!(false), json!(false), Hint::Skip)]
    #[case("other.example.com", json!(true), json!(false), Hint::Skip)]
    fn a_driver_that_no_longer_reports_its_capacity(
        #[case] name: &str,
        #[case] before: Value,
        #[case] after: Value,
        #[case] hint: Hint,
    ) {
        let mut cluster = Cluster::new();
        let class = json!({"metadata": {"name": "made"}, "provisioner": "made.example.com"});
        cluster.show(Object::from(from_value::<Class>(class).unwrap()));
        let claim =
            json!({"metadata": {"namespace": "ns", "name": "c"}, "spec": {"storageClassName": "made"}});
        cluster.show(Object::from(from_value::<Claim>(claim).unwrap()));
        let pod = json!({
            "metadata": {"namespace": "ns", "name": "p"},
            "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        });
        let pod: Pod = from_value(pod).unwrap();
        let (before, after) = (driver(name, &before), driver(name, &after));
        assert_eq!(is_schedulable_after_csi_driver_change(&cluster, &pod, Some(&before), &after), Ok(hint));
    }

    /// Each report as (class, value of the node's label, capacity, largest volume).
    #[rstest]
    #[case::more_of_the_same_size(("c", "a", "10", "5"), ("c", "a", "20", "5"), Hint::Queue)]
    #[case::less_of_the_same_size(("c", "a", "20", "5"), ("c", "a", "10", "5"), Hint::Skip)]
    #[case::larger_of_less(("c", "a", "20", "5"), ("c", "a", "10", "6"), Hint::Queue)]
    #[case::other_nodes(("c", "a", "20", "5"), ("c", "b", "10", "5"), Hint::Queue)]
    #[case::other_class(("c", "a", "20", "5"), ("d", "a", "10", "5"), Hint::Queue)]
    fn what_a_capacity_grows_by(
        #[case] before: (&str, &str, &str, &str),
        #[case] after: (&str, &str, &str, &str),
        #[case] hint: Hint,
    ) {
        let [before, after] = [before, after].map(|(class, label, capacity, largest)| {
            let report = json!({
                "metadata": {"namespace": "ns", "name": "r"}, "storageClassName": class,
                "nodeTopology": {"matchLabels": {"zone": label}}, "capacity": capacity,
                "maximumVolumeSize": largest,
            });
            Object::from(from_value::<Capacity>(report).unwrap())
        });
        assert_eq!(is_schedulable_after_capacity_change(Some(&before), &after), Ok(hint));
    }
}
