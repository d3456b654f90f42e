//! The facts of upstream's `TestNodePorts` and `testEnoughRequests`, restated, and what of a node is told.

use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;
use crate::cluster::Object;

fn shown(pods: &[Pod], node: &Node) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.show(Object::from(node.clone()));
    for pod in pods {
        cluster.show(Object::from(pod.clone()));
    }
    cluster
}

fn node(allocatable: &Value) -> Node {
    from_value(json!({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}})).unwrap()
}

/// A pod with host ports such as `TCP/127.0.0.1/80`.
fn with_ports(name: &str, node: &str, ports: &[&str]) -> Pod {
    let ports: Vec<Value> = ports
        .iter()
        .map(|text| {
            let [protocol, address, port] = text.split('/').collect::<Vec<_>>()[..] else { panic!("{text}") };
            let port: i32 = port.parse().unwrap();
            json!({"protocol": protocol, "hostIP": address, "hostPort": port, "containerPort": 1})
        })
        .collect();
    let spec = json!({"nodeName": node, "containers": [{"name": "c", "ports": ports}]});
    from_value(json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap()
}

#[rstest]
#[case(&["UDP/127.0.0.1/8080"], &["UDP/127.0.0.1/9090"], true)]
#[case(&["UDP/127.0.0.1/8080"], &["UDP/127.0.0.1/8080"], false)]
#[case(&["TCP/127.0.0.1/8080"], &["TCP/127.0.0.1/8080"], false)]
#[case(&["TCP/127.0.0.1/8080"], &["TCP/127.0.0.2/8080"], true)]
#[case(&["UDP/127.0.0.1/8080"], &["TCP/127.0.0.1/8080"], true)]
#[case(&["UDP/127.0.0.1/8000", "UDP/127.0.0.1/8080"], &["UDP/127.0.0.1/8080"], false)]
#[case(&["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8080"], &["TCP/127.0.0.1/8001", "UDP/127.0.0.1/8081"], false)]
#[case(&["TCP/0.0.0.0/8001"], &["TCP/127.0.0.1/8001"], false)]
#[case(&["TCP/10.0.10.10/8001", "TCP/0.0.0.0/8001"], &["TCP/127.0.0.1/8001"], false)]
#[case(&["TCP/127.0.0.1/8001"], &["TCP/0.0.0.0/8001"], false)]
#[case(&["UDP/127.0.0.1/8001"], &["TCP/0.0.0.0/8001"], true)]
#[case(&["UDP/127.0.0.1/8001"], &["TCP/0.0.0.0/8001", "UDP/0.0.0.0/8001"], false)]
fn host_ports_are_for_one(#[case] wanted: &[&str], #[case] held: &[&str], #[case] fits: bool) {
    let node = node(&json!({"pods": "10"}));
    let cluster = shown(&[with_ports("holder", "n", held)], &node);
    let pod = with_ports("p", "", wanted);
    let wanted = Wanted::of(&cluster, &Key::pod("default", "p"), &pod);
    assert_eq!(wanted.fits(&cluster, &node).is_ok(), fits);
}

#[rstest]
#[case::runs_as_long_as_the_pod(json!("Always"), false)]
#[case::ends_before(json!(null), true)]
fn an_init_container_holds_its_ports_while_it_runs(#[case] restarts: Value, #[case] fits: bool) {
    let node = node(&json!({"pods": "10"}));
    let cluster = shown(&[with_ports("holder", "n", &["TCP/0.0.0.0/8001"])], &node);
    let port = json!({"containerPort": 8001, "hostPort": 8001, "protocol": "TCP"});
    let init = json!({"name": "i", "ports": [port], "restartPolicy": restarts});
    let pod: Pod = from_value(json!({"spec": {"containers": [], "initContainers": [init]}})).unwrap();
    let wanted = Wanted::of(&cluster, &Key::pod("default", "p"), &pod);
    assert_eq!(wanted.fits(&cluster, &node).is_ok(), fits);
}

fn requesting(name: &str, node: &str, init: &Value, requests: &Value) -> Pod {
    let container = |requests: &Value| json!({"name": "c", "resources": {"requests": requests}});
    let spec = json!({
        "nodeName": node,
        "initContainers": [container(init)],
        "containers": [container(requests)],
    });
    from_value(json!({"metadata": {"namespace": "default", "name": name}, "spec": spec})).unwrap()
}

/// The node has 10m of cpu, 20 of memory, 5 of `example.com/a`, 20 of ephemeral storage, 5 of huge pages and room for two
/// pods; what does not suffice is told, all of it.
#[rstest]
#[case::nothing(json!({}), json!({}), json!({"cpu": "10m", "memory": "20"}), "")]
#[case::nothing_left(json!({}), json!({"cpu": "1m", "memory": "1"}), json!({"cpu": "10m", "memory": "20"}), "Insufficient cpu, Insufficient memory")]
#[case::for_init(json!({"cpu": "3m", "memory": "1"}), json!({"cpu": "1m", "memory": "1"}), json!({"cpu": "8m", "memory": "19"}), "Insufficient cpu")]
#[case::memory_for_init(json!({"cpu": "1m", "memory": "3"}), json!({"cpu": "1m", "memory": "1"}), json!({"cpu": "9m", "memory": "19"}), "Insufficient memory")]
#[case::the_greater_not_the_sum(json!({"cpu": "1m", "memory": "1"}), json!({"cpu": "1m", "memory": "1"}), json!({"cpu": "9m", "memory": "19"}), "")]
#[case::one_fits(json!({}), json!({"cpu": "2m", "memory": "1"}), json!({"cpu": "9m", "memory": "5"}), "Insufficient cpu")]
#[case::the_last_of_it(json!({}), json!({"cpu": "5m", "memory": "1"}), json!({"cpu": "5m", "memory": "19"}), "")]
#[case::extended(json!({}), json!({"example.com/a": "1"}), json!({}), "")]
#[case::too_much_of_extended(json!({}), json!({"example.com/a": "10"}), json!({}), "Insufficient example.com/a")]
#[case::extended_for_init(json!({"example.com/a": "1"}), json!({}), json!({"example.com/a": "5"}), "Insufficient example.com/a")]
#[case::unknown(json!({}), json!({"example.com/b": "1"}), json!({}), "Insufficient example.com/b")]
#[case::none_of_an_unknown(json!({}), json!({"example.com/b": "0"}), json!({}), "")]
#[case::storage(json!({}), json!({"ephemeral-storage": "25"}), json!({"ephemeral-storage": "10"}), "Insufficient ephemeral-storage")]
#[case::enough_storage(json!({}), json!({"ephemeral-storage": "10"}), json!({"ephemeral-storage": "10"}), "")]
#[case::huge_pages(json!({}), json!({"hugepages-2Mi": "10"}), json!({}), "Insufficient hugepages-2Mi")]
fn resources_suffice(#[case] init: Value, #[case] asks: Value, #[case] used: Value, #[case] wanted: &str) {
    let node = node(&json!({
        "cpu": "10m", "memory": "20", "example.com/a": "5", "ephemeral-storage": "20", "hugepages-2Mi": "5", "pods": "2",
    }));
    let mut pods = vec![requesting("used", "n", &json!({}), &used)];
    let pod = requesting("p", "", &init, &asks);
    let told = |pods: &[Pod]| {
        let cluster = shown(pods, &node);
        let found = Wanted::of(&cluster, &Key::pod("default", "p"), &pod);
        let why = found.fits(&cluster, &node).err().unwrap_or_default();
        why.iter().map(|unfit| unfit.why().into_owned()).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(told(&pods), wanted);
    pods.push(requesting("another", "n", &json!({}), &json!({})));
    let full = ["Too many pods", wanted].into_iter().filter(|text| !text.is_empty());
    assert_eq!(told(&pods), full.collect::<Vec<_>>().join(", "), "no room for a third pod");
}

fn claim(name: &str, mode: &str) -> Object {
    let spec = json!({"accessModes": [mode]});
    let claim = json!({"metadata": {"namespace": "default", "name": name}, "spec": spec});
    Object::from(from_value::<crate::objects::Claim>(claim).unwrap())
}

/// A pod with a claim, on a node and in a phase; `""` for none.
fn user(name: &str, claim: &str, node: &str, phase: &str) -> Pod {
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    let spec = json!({"nodeName": node, "containers": [], "volumes": volumes});
    let meta = json!({"namespace": "default", "name": name});
    from_value(json!({"metadata": meta, "spec": spec, "status": {"phase": phase}})).unwrap()
}

#[rstest]
#[case::used_elsewhere("ReadWriteOncePod", &[("other", "c", "m", "Running")], Some("other"))]
#[case::used_by_many("ReadWriteMany", &[("other", "c", "m", "Running")], None)]
#[case::used_by_nobody_yet("ReadWriteOncePod", &[("other", "c", "", "Pending")], None)]
#[case::used_before("ReadWriteOncePod", &[("other", "c", "m", "Succeeded")], None)]
#[case::used_by_itself("ReadWriteOncePod", &[("p", "c", "m", "Running")], None)]
#[case::another_is_used("ReadWriteOncePod", &[("other", "d", "m", "Running")], None)]
#[case::one_of_several("ReadWriteOncePod", &[("a", "c", "m", "Failed"), ("b", "c", "m", "Running")], Some("b"))]
fn a_claim_for_one_pod_has_one_user(
    #[case] mode: &str,
    #[case] users: &[(&str, &str, &str, &str)],
    #[case] holder: Option<&str>,
) {
    let node = node(&json!({"pods": "10"}));
    let users: Vec<Pod> = users.iter().map(|(name, c, n, phase)| user(name, c, n, phase)).collect();
    let mut cluster = shown(&users, &node);
    cluster.show(claim("c", mode));
    let pod = user("p", "c", "", "Pending");
    let found = exclusive_claim_in_use(&cluster, &Key::pod("default", "p"), &pod);
    let wanted = holder.map(|holder| (Key::claim("default", "c"), Key::pod("default", holder)));
    assert_eq!(found, wanted);
}

#[rstest]
#[case::nothing_asked(json!({}), json!({}), true)]
#[case::a_label(json!({"nodeSelector": {"disk": "ssd"}}), json!({}), true)]
#[case::another_label(json!({"nodeSelector": {"disk": "hdd"}}), json!({}), false)]
#[case::a_missing_label(json!({"nodeSelector": {"gpu": "yes"}}), json!({}), false)]
#[case::cordoned(json!({}), json!({"unschedulable": true}), false)]
#[case::cordoned_for_others(json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}), json!({"unschedulable": true}), true)]
#[case::tainted(json!({}), json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}), false)]
#[case::tolerated(json!({"tolerations": [{"key": "k", "value": "v"}]}), json!({"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}), true)]
#[case::rather_not(json!({}), json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}), true)]
fn a_pod_goes_where_it_asks_to_and_is_let(#[case] asks: Value, #[case] node: Value, #[case] fits: bool) {
    let meta = json!({"name": "n", "labels": {"disk": "ssd"}});
    let status = json!({"allocatable": {"pods": "10"}});
    let node: Node = from_value(json!({"metadata": meta, "spec": node, "status": status})).unwrap();
    let mut spec = asks;
    spec["containers"] = json!([]);
    let pod = json!({"metadata": {"namespace": "default", "name": "p"}, "spec": spec});
    let pod: Pod = from_value(pod).unwrap();
    let cluster = shown(&[], &node);
    let wanted = Wanted::of(&cluster, &Key::pod("default", "p"), &pod);
    assert_eq!(wanted.fits(&cluster, &node).is_ok(), fits);
}
