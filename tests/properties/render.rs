//! Objects as JSON, and worlds as manifests that `pvbind simulate -f` reads.

use pvbind::cluster::Object;
use pvbind::manifest;
use pvbind::objects::Class;
use serde_json::Value;

/// The object as the API server has it: what is empty is absent.
pub fn json(object: &Object) -> Value {
    let mut value = match object {
        Object::Claim(o) => serde_json::to_value(&**o),
        Object::Volume(o) => serde_json::to_value(&**o),
        Object::Class(o) => serde_json::to_value(&**o),
        Object::Pod(o) => serde_json::to_value(&**o),
        Object::Node(o) => serde_json::to_value(&**o),
        Object::CsiNode(o) => serde_json::to_value(&**o),
        Object::CsiDriver(o) => serde_json::to_value(&**o),
        Object::Capacity(o) => serde_json::to_value(&**o),
    }
    .expect("an object");
    strip(&mut value);
    value
}

/// Drops empty maps, as the server does when it stores an object.
pub fn strip(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(strip);
        map.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
}

/// The objects as a stream of YAML documents.
pub fn manifests(objects: &[Object]) -> String {
    let documents: Vec<String> =
        objects.iter().map(|object| serde_saphyr::to_string(&json(object)).expect("YAML")).collect();
    documents.join("---\n")
}

#[test]
fn a_printed_world_can_be_read_again() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tree = proptest::strategy::Strategy::new_tree(&crate::shapes::classes(), &mut runner);
    let classes = proptest::strategy::ValueTree::current(&tree.expect("classes"));
    let classes = classes.into_iter().map(|value| serde_json::from_value::<Class>(value).expect("a class"));
    let objects: Vec<Object> = classes.map(Object::from).collect();
    let path = std::env::temp_dir().join(format!("pvbind-properties-{}.yaml", std::process::id()));
    std::fs::write(&path, manifests(&objects)).expect("a file");
    let loaded = manifest::load(std::slice::from_ref(&path), "default", std::io::empty);
    std::fs::remove_file(&path).expect("the file");
    assert_eq!(loaded.expect("manifests").documents.len(), objects.len());
}
