//! The facts of upstream's `TestRequiredAffinitySingleNode`, `TestRequiredAffinityMultipleNodes` and `TestPreferredAffinity`,
//! restated, and what else there is to terms.
//!
//! A selector is written `key in a,b; key notin c; key; !key`, labels are `key=value key=value`.

use rstest::rstest;
use serde_json::{Map, Value, from_value, json};

use super::*;
use crate::cluster::Object;

fn selector(text: &str) -> Value {
    let requirement = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (key, operator, values) = match words.as_slice() {
            [key, "in", values] => (*key, "In", values.split(',').collect()),
            [key, "notin", values] => (*key, "NotIn", values.split(',').collect()),
            [key] => match key.strip_prefix('!') {
                Some(key) => (key, "DoesNotExist", vec![]),
                None => (*key, "Exists", vec![]),
            },
            other => panic!("no requirement: {other:?}"),
        };
        json!({"key": key, "operator": operator, "values": values})
    };
    json!({"matchExpressions": text.split(';').map(requirement).collect::<Vec<_>>()})
}

/// A term, by where it stands in a pod.
type Said = (&'static str, &'static str, Value);

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn term(said_of: &str, key: &str) -> Value {
    json!({"labelSelector": selector(said_of), "topologyKey": key})
}

fn near(said_of: &str, key: &str) -> Said {
    ("podAffinity", REQUIRED, term(said_of, key))
}

fn away(said_of: &str, key: &str) -> Said {
    ("podAntiAffinity", REQUIRED, term(said_of, key))
}

fn rather(weight: i32, said_of: &str, key: &str) -> Said {
    let term = json!({"weight": weight.abs(), "podAffinityTerm": term(said_of, key)});
    (if weight > 0 { "podAffinity" } else { "podAntiAffinity" }, PREFERRED, term)
}

/// A required term with other fields in it.
fn with((kind, when, mut term): Said, fields: &Value) -> Said {
    for (field, value) in fields.as_object().expect("fields") {
        term[field] = value.clone();
    }
    (kind, when, term)
}

fn labels(text: &str) -> Map<String, Value> {
    let pairs = text.split_whitespace().map(|pair| pair.split_once('=').expect("key=value"));
    pairs.map(|(key, value)| (key.to_owned(), json!(value))).collect()
}

#[derive(Clone, Debug)]
struct Someone {
    namespace: &'static str,
    node: &'static str,
    labels: &'static str,
    says: Vec<Said>,
}

fn on(node: &'static str, labels: &'static str, says: &[Said]) -> Someone {
    Someone { namespace: "ns", node, labels, says: says.to_vec() }
}

fn of(namespace: &'static str, someone: Someone) -> Someone {
    Someone { namespace, ..someone }
}

impl Someone {
    fn pod(&self, name: &str) -> Pod {
        let mut affinity = json!({});
        for (kind, when, term) in &self.says {
            if affinity[kind][when].is_null() {
                affinity[kind][when] = json!([]);
            }
            affinity[kind][when].as_array_mut().expect("a list").push(term.clone());
        }
        from_value(json!({
            "metadata": {"namespace": self.namespace, "name": name, "labels": labels(self.labels)},
            "spec": {"nodeName": self.node, "containers": [], "affinity": affinity},
        }))
        .unwrap()
    }
}

fn world(nodes: &[&str], others: &[Someone]) -> (Cluster, Vec<Node>) {
    let mut cluster = Cluster::new();
    let nodes: Vec<Node> = nodes
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"metadata": {"name": format!("n{index}"), "labels": labels(text)}}))
        .map(|node| from_value(node).unwrap())
        .collect();
    for node in &nodes {
        cluster.show(Object::from(node.clone()));
    }
    for (index, other) in others.iter().enumerate() {
        cluster.show(Object::from(other.pod(&format!("other{index}"))));
    }
    (cluster, nodes)
}

/// For each node `.` where the pod may be, else which of the three rules forbids it.
fn where_allowed(pod: &Someone, nodes: &[&str], others: &[Someone]) -> String {
    let (cluster, nodes) = world(nodes, others);
    let near = Near::of(&cluster, &Key::pod("ns", "p"), &pod.pod("p"));
    let letter = |node: &Node| match near.allows(node) {
        Ok(()) => '.',
        Err(Unfit::PodAffinity) => 'N',
        Err(Unfit::PodAntiAffinity) => 'A',
        Err(Unfit::ExistingAntiAffinity) => 'E',
        Err(other) => panic!("{other:?}"),
    };
    nodes.iter().map(letter).collect()
}

const SCAN: &str = "service=securityscan";
const S1: &str = "security=S1";
const SCANNED: &str = "service in securityscan,value2";

#[rstest]
#[case::says_nothing(on("", "", &[]), on("n0", SCAN, &[]), ".")]
#[case::is_in(on("", S1, &[near(SCANNED, "region")]), on("n0", SCAN, &[]), ".")]
#[case::not_in(on("", S1, &[near("service notin securityscan3,value3", "region")]), on("n0", SCAN, &[]), ".")]
#[case::other_namespace(on("", S1, &[with(near(SCANNED, "region"), &json!({"namespaces": ["other"]}))]), on("n0", SCAN, &[]), "N")]
#[case::other_labels(on("", SCAN, &[near("service in antivirusscan,value2", "region")]), on("n0", SCAN, &[]), "N")]
#[case::all_requirements(on("", S1, &[near("service; !wrongkey", "region"), near("service in securityscan; service notin WrongValue", "region")]), on("n0", SCAN, &[]), ".")]
#[case::one_requirement_fails(on("", S1, &[near("service; !wrongkey", "region"), near("service in securityscan2; service notin WrongValue", "region")]), on("n0", SCAN, &[]), "N")]
#[case::near_and_away(on("", S1, &[near(SCANNED, "region"), away("service in antivirusscan,value2", "node")]), on("n0", SCAN, &[]), ".")]
#[case::both_say_so(on("", S1, &[near(SCANNED, "region"), away("service in antivirusscan,value2", "node")]), on("n0", SCAN, &[away("service in antivirusscan,value2", "node")]), ".")]
#[case::near_but_away(on("", S1, &[near(SCANNED, "region"), away(SCANNED, "zone")]), on("n0", SCAN, &[]), "A")]
#[case::not_wanted(on("", SCAN, &[near(SCANNED, "region"), away(SCANNED, "node")]), on("n0", SCAN, &[away(SCANNED, "zone")]), "E")]
#[case::not_first_of_its_kind(on("", SCAN, &[near("service notin securityscan,value2", "region")]), on("n1", SCAN, &[]), "N")]
#[case::only_the_other_speaks(on("", SCAN, &[]), on("n0", SCAN, &[away(SCANNED, "zone")]), "E")]
#[case::the_other_speaks_of_others(on("", SCAN, &[]), on("n0", SCAN, &[away("service notin securityscan,value2", "zone")]), ".")]
#[case::one_of_two_terms(on("", SCAN, &[away("service", "zone"), away("security", "zone")]), on("n0", S1, &[away("security", "zone")]), "A")]
#[case::one_of_the_others_two(on("", S1, &[away("security", "zone")]), on("n0", SCAN, &[away("service", "zone"), away("security", "zone")]), "E")]
#[case::all_namespaces(on("", S1, &[with(away(SCANNED, "zone"), &json!({"namespaceSelector": {}}))]), of("team", on("n0", SCAN, &[])), "A")]
#[case::namespace_by_name(on("", S1, &[with(near(SCANNED, "zone"), &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}}))]), of("team", on("n0", SCAN, &[])), ".")]
#[case::not_its_own_namespace(on("", S1, &[with(near(SCANNED, "zone"), &json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}}))]), on("n0", SCAN, &[]), "N")]
#[case::namespaces_nobody_knows(on("", S1, &[with(near(SCANNED, "zone"), &json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}))]), on("n0", S1, &[]), ".")]
fn one_node_and_one_other_pod(#[case] pod: Someone, #[case] other: Someone, #[case] wanted: &str) {
    assert_eq!(where_allowed(&pod, &["region=r1 zone=z11"], &[other]), wanted);
}

#[rstest]
#[case::same_region(on("", "", &[near("foo in bar", "region")]), &["region=China", "region=China az=az1", "region=India"], on("n0", "foo=bar", &[]), "..N")]
#[case::first_of_its_kind(on("", "foo=bar service=scan", &[near("foo in bar", "zone"), near("service in scan", "zone")]), &["zone=az1", "zone=az2"], on("n0", "foo=bar", &[]), "..")]
#[case::first_of_its_kind_needs_the_label(on("", "foo=bar service=scan", &[near("foo in bar", "zone"), near("service in scan", "zone")]), &["zoneLabel=az1", "zoneLabel=az2"], on("n0", "foo=bar", &[]), "NN")]
#[case::away_from_the_region(on("", "", &[away("foo in abc", "region")]), &["region=r1", "region=r1", "region=r2"], on("n0", "foo=abc", &[]), "AA.")]
#[case::any_term_of_anti_affinity(on("", "", &[away("foo in abc", "region"), away("service in scan", "zone")]), &["region=r1 zone=z1", "region=r1 zone=z2"], on("n0", "foo=abc service=scan", &[]), "AA")]
#[case::of_another_namespace(on("", "foo=123", &[]), &["region=China", "region=India"], of("other", on("n1", "", &[away("foo in 123", "region")])), "..")]
#[case::a_key_that_no_node_has(on("", "foo=x", &[]), &["region=r1", "region=r1"], on("n0", "", &[away("foo", "invalid")]), "..")]
#[case::one_pod_for_all_terms(on("", "", &[near("foo in bar", "region"), near("foo in bar", "zone")]), &["region=r1 zone=z1", "region=r1 zone=z2"], on("n0", "foo=bar", &[]), ".N")]
fn several_nodes(#[case] pod: Someone, #[case] nodes: &[&str], #[case] other: Someone, #[case] wanted: &str) {
    assert_eq!(where_allowed(&pod, nodes, &[other]), wanted);
}

#[test]
fn no_two_pods_together_are_the_one_of_which_all_terms_speak() {
    let wants = on("", "", &[near("a", "zone"), near("b", "zone")]);
    let nodes = ["zone=z1", "zone=z2"];
    assert_eq!(where_allowed(&wants, &nodes, &[on("n0", "a=", &[]), on("n0", "b=", &[])]), "NN");
    assert_eq!(where_allowed(&wants, &nodes, &[on("n0", "a= b=", &[])]), ".N");
}

#[rstest]
#[case::the_same_version("matchLabelKeys", "app=a version=1", "A")]
#[case::another_version("matchLabelKeys", "app=a version=2", ".")]
#[case::no_version("matchLabelKeys", "app=a", ".")]
#[case::not_the_same("mismatchLabelKeys", "app=a version=1", ".")]
#[case::another("mismatchLabelKeys", "app=a version=2", "A")]
#[case::none("mismatchLabelKeys", "app=a", "A")]
fn keys_stand_for_the_pods_own_labels(
    #[case] field: &str,
    #[case] other: &'static str,
    #[case] wanted: &str,
) {
    let says = with(away("app in a", "zone"), &json!({field: ["version", "absent"]}));
    let pod = on("", "app=a version=1", &[says]);
    assert_eq!(where_allowed(&pod, &["zone=z1"], &[on("n0", other, &[])]), wanted);
}

#[test]
fn a_pod_that_has_ended_is_nobodys_neighbour() {
    let (mut cluster, nodes) = world(&["zone=z1"], &[]);
    let mut other = on("n0", SCAN, &[away(SCANNED, "zone")]).pod("other");
    other.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
    cluster.show(Object::from(other));
    for (says, wanted) in [(away(SCANNED, "zone"), Ok(())), (near(SCANNED, "zone"), Err(Unfit::PodAffinity))]
    {
        let pod = on("", S1, &[says]).pod("p");
        assert_eq!(Near::of(&cluster, &Key::pod("ns", "p"), &pod).allows(&nodes[0]), wanted);
    }
}

#[test]
fn a_pod_is_not_in_its_own_way() {
    let (mut cluster, nodes) = world(&["zone=z1"], &[]);
    let pod = on("n0", SCAN, &[away(SCANNED, "zone"), rather(5, SCANNED, "zone")]).pod("p");
    cluster.show(Object::from(pod.clone()));
    let key = Key::pod("ns", "p");
    assert_eq!(Near::of(&cluster, &key, &pod).allows(&nodes[0]), Ok(()));
    assert_eq!(Rather::of(&cluster, &key, &pod).on(&nodes[0]), 0);
}

#[test]
fn only_pods_with_affinity_follow_others() {
    let follows = |says: &[Said]| crate::decide::binder::follows_others(&on("", S1, says).pod("p"));
    assert!(follows(&[near(SCANNED, "zone")]));
    assert!(!follows(&[away(SCANNED, "zone")]));
    assert!(!follows(&[rather(1, SCANNED, "zone")]));
}

const CHINA: &str = "region=China";
const INDIA: &str = "region=India";
const AZ1: &str = "az=az1";
const AZ2: &str = "az=az2";
const S2: &str = "security=S2";

/// What speaks for each node, before upstream makes the greatest 100.
#[rstest]
#[case::nothing(on("", S1, &[]), &[CHINA, INDIA, AZ1], vec![], &[0, 0, 0])]
#[case::own(on("", S1, &[rather(5, "security in S1", "region")]), &[CHINA, INDIA, AZ1], vec![on("n0", S1, &[]), on("n1", S2, &[]), on("n2", S1, &[])], &[5, 0, 0])]
#[case::whole_region(on("", "", &[rather(5, "security in S1", "region")]), &[CHINA, "region=China az=az1", INDIA], vec![on("n0", S1, &[])], &[5, 5, 0])]
#[case::more_pods(on("", S1, &[rather(6, "security in S2", "region")]), &[CHINA, INDIA, CHINA], vec![on("n0", S2, &[]), on("n0", S2, &[]), on("n1", S2, &[]), on("n2", S2, &[])], &[18, 6, 18])]
#[case::operators(on("", S1, &[rather(8, "security notin S1; security in S2", "region"), rather(2, "security; !wrongkey", "region")]), &[CHINA, INDIA, AZ1], vec![on("n0", S1, &[]), on("n1", S2, &[]), on("n2", S1, &[])], &[2, 10, 0])]
#[case::of_others(on("", S2, &[]), &[CHINA, INDIA, AZ1], vec![on("n0", S1, &[rather(5, "security in S1", "region")]), on("n1", S2, &[rather(6, "security in S2", "region")])], &[0, 6, 0])]
#[case::required_by_others(on("", S1, &[]), &[CHINA, INDIA, AZ1], vec![on("n0", S1, &[near("security in S1,value2", "region"), near("security; !wrongkey", "region")]), on("n1", S2, &[near("security in S1,value2", "region")])], &[2, 1, 0])]
#[case::away(on("", S1, &[rather(-5, "security in S1", "az")]), &[AZ1, CHINA], vec![on("n0", S1, &[]), on("n1", S1, &[])], &[-5, 0])]
#[case::others_away(on("", S2, &[]), &[AZ1, AZ2], vec![on("n0", S1, &[rather(-5, "security in S2", "az")]), on("n1", S2, &[rather(-5, "security in S1", "az")])], &[-5, 0])]
#[case::all_together(
    on("", S1, &[rather(8, "security in S1", "region"), rather(-5, "security in S2", "az")]),
    &[CHINA, AZ1, INDIA, AZ2],
    vec![on("n0", S1, &[]), on("n1", S2, &[]), on("n2", "", &[rather(8, "security in S1", "region"), rather(-5, "security in S2", "az")]), on("n3", "", &[rather(-5, "security in S1", "az")])],
    &[8, -5, 8, -5]
)]
fn what_is_preferred_adds_up(
    #[case] pod: Someone,
    #[case] nodes: &[&str],
    #[case] others: Vec<Someone>,
    #[case] wanted: &[i64],
) {
    let (cluster, nodes) = world(nodes, &others);
    let rather = Rather::of(&cluster, &Key::pod("ns", "p"), &pod.pod("p"));
    assert_eq!(nodes.iter().map(|node| rather.on(node)).collect::<Vec<_>>(), wanted);
}
