//! A world without what an API server would never have stored.

use serde_json::{Value, json};

use crate::render;
use crate::world::World;

/// Puts `value` at the pointer unless what is there is one of those that are good.
fn unless(object: &mut Value, pointer: &str, is_good: impl Fn(&Value) -> bool, value: Value) {
    if object.pointer(pointer).is_some_and(is_good) {
        return;
    }
    let mut at = object;
    for part in pointer.split('/').skip(1) {
        if at.get(part).is_none() {
            at[part] = Value::Null;
        }
        at = &mut at[part];
    }
    *at = value;
}

/// Whether a size is one, and not nothing.
fn is_size(value: &Value) -> bool {
    !matches!(value.as_str(), None | Some("0" | "much"))
}

fn is_policy(value: &Value) -> bool {
    matches!(value.as_str(), Some("Retain" | "Delete" | "Recycle"))
}

fn has_items(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty())
}

/// The world with each field that would be refused replaced by one that would not, and all else as it is.
pub fn valid(world: &World) -> World {
    let objects = world.objects.iter().map(|object| {
        let mut object = render::json(object);
        match object["kind"].as_str() {
            Some("PersistentVolume") => {
                unless(&mut object, "/spec/capacity/storage", is_size, json!("1Gi"));
                unless(&mut object, "/spec/accessModes", has_items, json!(["ReadWriteOnce"]));
                unless(&mut object, "/spec/persistentVolumeReclaimPolicy", is_policy, json!("Retain"));
                if object["spec"].get("csi").is_none() {
                    // Only drivers know classes of attributes.
                    object["spec"].as_object_mut().expect("a map").remove("volumeAttributesClassName");
                }
            }
            Some("PersistentVolumeClaim") => {
                unless(&mut object, "/spec/resources/requests/storage", is_size, json!("1Gi"));
                unless(&mut object, "/spec/accessModes", has_items, json!(["ReadWriteOnce"]));
                if let Some(held) = object.pointer_mut("/status/capacity/storage") {
                    unless(held, "", is_size, json!("1Gi"));
                }
                if let Some(operator) = object.pointer_mut("/spec/selector/matchExpressions/0/operator") {
                    unless(operator, "", |operator| operator != "Fits", json!("In"));
                }
            }
            _ => {}
        }
        render::object(object)
    });
    World { objects: objects.collect() }
}
