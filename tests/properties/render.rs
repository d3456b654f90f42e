//! Objects as JSON, and worlds as manifests that `pvbind simulate -f` reads.

use pvbind::cluster::Object;
use pvbind::objects::{Claim, Class, Node, Pod, Volume};
use serde::de::DeserializeOwned;
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

/// The object that such JSON says.
pub fn object(value: Value) -> Object {
    fn read<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object of its kind")
    }
    match value["kind"].as_str() {
        Some("PersistentVolumeClaim") => Object::from(read::<Claim>(value)),
        Some("PersistentVolume") => Object::from(read::<Volume>(value)),
        Some("StorageClass") => Object::from(read::<Class>(value)),
        Some("Pod") => Object::from(read::<Pod>(value)),
        Some("Node") => Object::from(read::<Node>(value)),
        other => panic!("no world has a {other:?}"),
    }
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
