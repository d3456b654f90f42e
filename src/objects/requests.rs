//! What a pod requests of a node.
//!
//! A pod that is being resized counts with the most of what it asks for, what it was granted and what it has. Nothing here
//! says what a node offers. Answers to upstream's `PodRequests` (`component-helpers/resource/helpers.go`) as the
//! scheduler calls it, and to the requests that the API server fills in.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::{Pod, quantity::Amount};

/// Amounts by resource name, such as `cpu`, `memory` and `pods`.
pub type Resources = BTreeMap<String, Amount>;

type Quantities = BTreeMap<String, Quantity>;

fn amounts(quantities: Option<&Quantities>) -> impl Iterator<Item = (String, Amount)> + '_ {
    let quantities = quantities.into_iter().flatten();
    quantities.filter_map(|(resource, quantity)| Some((resource.clone(), Amount::parse(&quantity.0)?)))
}

fn add(total: &mut Resources, more: &Resources) {
    for (resource, amount) in more {
        let sum = total.entry(resource.clone()).or_default();
        *sum = *sum + *amount;
    }
}

fn raise(least: &mut Resources, to: impl IntoIterator<Item = (String, Amount)>) {
    for (resource, amount) in to {
        let highest = least.entry(resource).or_insert(amount);
        *highest = amount.max(*highest);
    }
}

/// What is counted where a status tells what was granted and what is there. A resize that is not feasible is not counted.
fn effective(
    asked: Resources,
    has: Option<&ResourceRequirements>,
    granted: Option<&Quantities>,
    infeasible: bool,
) -> Resources {
    let Some(has) = has else { return asked };
    let mut most = if infeasible { Resources::new() } else { asked };
    raise(&mut most, amounts(has.requests.as_ref()));
    raise(&mut most, amounts(granted));
    most
}

fn is_resize_infeasible(status: Option<&PodStatus>) -> bool {
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let pending = conditions.find(|condition| condition.type_ == "PodResizePending");
    pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
}

/// What a container requests, by its spec alone. The API server fills a missing request from the limit.
fn asked(container: &Container) -> Resources {
    let resources = container.resources.as_ref();
    let mut asked: Resources = amounts(resources.and_then(|r| r.limits.as_ref())).collect();
    asked.extend(amounts(resources.and_then(|r| r.requests.as_ref())));
    asked
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What the containers request together: the sum over containers and sidecars, or what the init containers need at their
/// peak if that is more.
fn of_containers(spec: &PodSpec, status: Option<&PodStatus>) -> Resources {
    let infeasible = is_resize_infeasible(status);
    let current = |container: &Container, statuses: Option<&Vec<ContainerStatus>>| {
        let mut statuses = statuses.into_iter().flatten();
        let found = statuses.find(|status| status.name == container.name);
        let (has, granted) =
            found.map_or((None, None), |s| (s.resources.as_ref(), s.allocated_resources.as_ref()));
        effective(asked(container), has, granted, infeasible)
    };
    let (mut total, mut peak, mut sidecars) = (Resources::new(), Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        if is_sidecar(container) {
            let statuses = status.and_then(|status| status.init_container_statuses.as_ref());
            add(&mut sidecars, &current(container, statuses));
            raise(&mut peak, sidecars.clone());
        } else {
            let mut with_sidecars = sidecars.clone();
            add(&mut with_sidecars, &asked(container));
            raise(&mut peak, with_sidecars);
        }
    }
    add(&mut total, &sidecars);
    for container in &spec.containers {
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        add(&mut total, &current(container, statuses));
    }
    raise(&mut total, peak);
    total
}

/// Whether a pod as a whole may request the resource.
fn is_for_pods(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// What the pod as a whole requests, in place of its containers. A limit stands for the request where neither the pod nor
/// its containers have one.
fn of_whole(spec: &PodSpec, status: Option<&PodStatus>, of_containers: &Resources) -> Resources {
    let resources = spec.resources.as_ref();
    let mut asked: Resources = amounts(resources.and_then(|r| r.limits.as_ref()))
        .filter(|(resource, _)| !of_containers.contains_key(resource))
        .collect();
    asked.extend(amounts(resources.and_then(|r| r.requests.as_ref())));
    asked.retain(|resource, _| is_for_pods(resource));
    let has = status.and_then(|status| status.resources.as_ref());
    let granted = status.and_then(|status| status.allocated_resources.as_ref());
    let named = asked.clone();
    let mut counted = effective(asked, has, granted, is_resize_infeasible(status));
    counted.retain(|resource, _| named.contains_key(resource));
    counted
}

/// What the pod requests: what it requests as a whole, else what its containers do, and its overhead.
#[must_use]
pub fn of(pod: &Pod) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::new() };
    let mut total = of_containers(spec, pod.status.as_ref());
    let whole = of_whole(spec, pod.status.as_ref(), &total);
    total.extend(whole);
    add(&mut total, &amounts(spec.overhead.as_ref()).collect());
    total
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;

    fn cpu(pod: &Value) -> i64 {
        of(&from_value(pod.clone()).unwrap()).get("cpu").copied().unwrap_or_default().milli()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(name: &str, cpu: &str) -> Value {
        json!({"name": name, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    /// The facts of upstream's `TestPodResourceRequests`, restated.
    #[rstest]
    #[case::containers(&[], &[container("a", "1"), container("b", "500m")], 1500)]
    #[case::greatest_of_init(&[container("i", "5"), container("j", "2")], &[container("a", "1")], 5000)]
    #[case::sidecars_are_added(&[sidecar("s", "1")], &[container("a", "2")], 3000)]
    #[case::init_beside_sidecar(&[sidecar("s", "1"), container("i", "5")], &[container("a", "2")], 6000)]
    #[case::init_before_sidecar(&[container("i", "5"), sidecar("s", "1")], &[container("a", "2")], 5000)]
    #[case::sidecars_add_up(&[sidecar("s", "1"), sidecar("t", "2"), container("i", "1")], &[container("a", "2")], 5000)]
    fn init_containers_and_sidecars(
        #[case] init: &[Value],
        #[case] containers: &[Value],
        #[case] wanted: i64,
    ) {
        let spec = json!({"initContainers": init, "containers": containers});
        assert_eq!(cpu(&json!({"spec": spec})), wanted);
        let spec = json!({"initContainers": init, "containers": containers, "overhead": {"cpu": "5"}});
        assert_eq!(cpu(&json!({"spec": spec})), wanted + 5000, "overhead comes on top");
    }

    /// What a pod of one container with 2 cpus counts for; restated from upstream's
    /// `TestPodResourceRequests` and `TestAggregateContainerRequestsAndLimits`.
    #[rstest]
    #[case::nothing_known(json!({}), json!({}), 2000)]
    #[case::grows(json!({"cpu": "1"}), json!({"cpu": "1"}), 2000)]
    #[case::shrinks(json!({"cpu": "4"}), json!({"cpu": "3"}), 4000)]
    #[case::was_granted_more(json!({"cpu": "1"}), json!({"cpu": "3"}), 3000)]
    fn a_resized_container_counts_with_the_most(
        #[case] has: Value,
        #[case] granted: Value,
        #[case] wanted: i64,
    ) {
        let status = json!({"name": "a", "resources": {"requests": has}, "allocatedResources": granted});
        let mut pod = json!({
            "spec": {"containers": [container("a", "2")]},
            "status": {"containerStatuses": [status]},
        });
        assert_eq!(cpu(&pod), wanted);
        pod["status"]["conditions"] =
            json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        let without_the_resize = cpu(&pod);
        let most = |value: &Value| Amount::parse(value["cpu"].as_str().unwrap_or("0")).unwrap().milli();
        assert_eq!(without_the_resize, most(&has).max(most(&granted)));
    }

    /// Restated from upstream's `TestPodLevelResourceRequests`.
    #[rstest]
    #[case::replaces_the_containers(json!({"requests": {"cpu": "5"}}), 5000)]
    #[case::less_than_the_containers(json!({"requests": {"cpu": "1"}}), 1000)]
    #[case::another_resource(json!({"requests": {"memory": "1Gi"}}), 2000)]
    #[case::limit_without_request(json!({"limits": {"cpu": "8"}}), 2000)]
    #[case::not_for_pods(json!({"requests": {"example.com/gpu": "1"}}), 2000)]
    fn a_pod_may_request_as_a_whole(#[case] resources: Value, #[case] wanted: i64) {
        let spec = json!({"containers": [container("a", "2")], "resources": resources});
        assert_eq!(cpu(&json!({"spec": spec})), wanted);
    }

    #[test]
    fn a_limit_of_the_whole_pod_stands_for_a_request_that_nobody_makes() {
        let spec = json!({"containers": [{"name": "a"}], "resources": {"limits": {"cpu": "8"}}});
        assert_eq!(cpu(&json!({"spec": spec})), 8000);
        let spec = json!({"containers": [{"name": "a", "resources": {"limits": {"cpu": "3"}}}]});
        assert_eq!(cpu(&json!({"spec": spec})), 3000);
    }
}
