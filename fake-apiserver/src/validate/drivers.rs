//! Decides whether a CSI driver, a volume attachment or a class of volume attributes may be stored. Answers
//! to `kubernetes/pkg/apis/storage/validation`.

use serde_json::{Value, json};

use super::field::{Causes, Field};
use super::names;
use crate::object::text;
use crate::quantity::Quantity;
use crate::status::Cause;

const LIFECYCLES: &[&str] = &["Persistent", "Ephemeral"];
const GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const IMMUTABLE: &str = "field is immutable";

pub(super) fn create_driver(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    let policy = text(spec, &["fsGroupPolicy"]);
    let mut audiences: Vec<&str> = Vec::new();
    for (index, request) in spec["tokenRequests"].as_array().into_iter().flatten().enumerate() {
        let audience = text(request, &["audience"]);
        if audiences.contains(&audience) {
            causes.push(Cause::duplicate(format!("spec.tokenRequests[{index}].audience"), audience));
        }
        audiences.push(audience);
        let seconds = request["expirationSeconds"].as_i64();
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 600) {
            let field = format!("spec.tokenRequests[{index}].expirationSeconds");
            causes.push(Cause::invalid(field, seconds, "may not specify a duration less than 10 minutes"));
        }
    }
    if !GROUP_POLICIES.contains(&policy) {
        causes.push(Cause::unsupported("spec.fsGroupPolicy", policy, GROUP_POLICIES));
    }
    for mode in spec["volumeLifecycleModes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !LIFECYCLES.contains(&mode) {
            causes.push(Cause::unsupported("spec.volumeLifecycleModes", mode, LIFECYCLES));
        }
    }
    let secrets = Field::root(value).at("spec.serviceAccountTokenInSecrets");
    if secrets.is_set() && spec["tokenRequests"].as_array().is_none_or(Vec::is_empty) {
        causes
            .push(secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified"));
    }
    let period = spec["nodeAllocatableUpdatePeriodSeconds"].as_i64();
    if let Some(period) = period.filter(|period| *period < 10) {
        let why = "must be greater than or equal to 10 seconds";
        causes.push(Cause::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
    causes
}

pub(super) fn update_driver(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create_driver(new);
    for (field, said) in
        [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
    {
        if old["spec"][field] != new["spec"][field] {
            causes.push(Cause::invalid(format!("spec.{said}"), new["spec"][field].clone(), IMMUTABLE));
        }
    }
    causes
}

pub(super) fn create_attachment(value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    super::claims::driver_name(&Field::root(value).at("spec.attacher"), &mut causes);
    let node = text(spec, &["nodeName"]);
    causes.extend(names::subdomain(node).iter().map(|why| Cause::invalid("spec.nodeName", node, why)));
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let source = &spec["source"];
    match (source.get("persistentVolumeName"), source.get("inlineVolumeSpec")) {
        (None, None) => causes.push(Cause::required("spec.source", one)),
        (Some(_), Some(_)) => causes.push(Cause::forbidden("spec.source", one)),
        (Some(name), None) => {
            let name = name.as_str().unwrap_or_default();
            let field = "spec.source.persistentVolumeName";
            if name.is_empty() {
                causes.push(Cause::required(field, "must specify non empty persistentVolumeName"));
            }
            causes.extend(names::subdomain(name).iter().map(|why| Cause::invalid(field, name, why)));
        }
        (None, Some(inline)) => {
            let inline = Field::new(inline, "spec.source.inlineVolumeSpec");
            super::volumes::inline(&inline, &mut causes);
        }
    }
    for field in ["attachError", "detachError"] {
        let message = text(value, &["status", field, "message"]);
        if message.len() > 262_144 {
            causes.push(Cause::too_long(format!("status.{field}.message"), 262_144));
        }
        let code = Field::root(value).at("status").at(field).at("errorCode");
        if code.number().is_some_and(|code| code < 0) {
            causes.push(code.invalid("must be between 0 and 2147483647, inclusive"));
        }
    }
    causes
}

pub(super) fn update_attachment(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = create_attachment(new);
    let spec = &new["spec"];
    if old["spec"] != *spec {
        let shown = json!({
            "Attacher": spec["attacher"], "NodeName": spec["nodeName"],
            "Source": {"PersistentVolumeName": spec["source"]["persistentVolumeName"], "InlineVolumeSpec": null},
        });
        causes.push(Cause::invalid("spec", shown, IMMUTABLE));
    }
    causes
}

pub(super) fn attributes(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    super::classes::provisioner(&Field::root(value).at("driverName"), &mut causes);
    causes.extend(super::classes::parameters(value));
    if value["parameters"].as_object().is_none_or(serde_json::Map::is_empty) {
        causes.push(Cause::required("parameters", "must contain at least one key/value pair"));
    }
    causes
}

pub(super) fn csi_node(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let mut seen = Vec::new();
    for driver in Field::root(value).at("spec.drivers").items() {
        let (name, id) = (driver.at("name"), driver.at("nodeID"));
        super::claims::driver_name(&name, &mut causes);
        id.need(&mut causes);
        if id.text().len() > 256 {
            causes.push(id.invalid("must be 256 characters or less"));
        }
        driver.at("allocatable.count").at_least(0, &mut causes);
        if seen.contains(&name.text()) {
            causes.push(name.duplicate());
        }
        seen.push(name.text());
        let mut keys = Vec::new();
        for key in driver.at("topologyKeys").items().iter().map(Field::text) {
            if key.is_empty() {
                causes.push(driver.required(""));
            }
            if keys.contains(&key) {
                causes.push(Cause::duplicate(driver.path.as_str(), key));
            }
            keys.push(key);
            causes.extend(
                names::qualified_name(key).map(|why| Cause::invalid(driver.path.as_str(), key, &why)),
            );
        }
    }
    causes
}

/// A driver that a node has may not be another one under the same name.
pub(super) fn update_csi_node(old: &Value, new: &Value) -> Causes {
    let mut causes = csi_node(new);
    let fixed =
        |driver: &Value| [driver["name"].clone(), driver["nodeID"].clone(), driver["topologyKeys"].clone()];
    let drivers = |value: &Value| value["spec"]["drivers"].as_array().cloned().unwrap_or_default();
    for before in drivers(old) {
        for after in drivers(new).iter().filter(|after| after["name"] == before["name"]) {
            if fixed(&before) != fixed(after) {
                causes.push(Cause::invalid("spec.drivers", after.clone(), IMMUTABLE));
            }
        }
    }
    causes
}

pub(super) fn capacity(value: &Value) -> Causes {
    let mut causes = Causes::new();
    let root = Field::root(value);
    let class = root.at("storageClassName");
    class.follow(names::subdomain, &mut causes);
    super::selectors::selector(&root.at("nodeTopology"), &mut causes);
    for field in ["capacity", "maximumVolumeSize"] {
        let amount = root.at(field);
        if Quantity::parse(amount.text()).is_ok_and(Quantity::is_negative) {
            causes.push(amount.invalid("must be greater than or equal to 0"));
        }
    }
    causes
}

pub(super) fn update_capacity(old: &Value, new: &Value) -> Causes {
    let mut causes = capacity(new);
    for field in ["nodeTopology", "storageClassName"] {
        if old[field] != new[field] {
            causes.push(Field::root(new).at(field).invalid(IMMUTABLE));
        }
    }
    causes
}

pub(super) fn update_attributes(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = attributes(new);
    for field in ["driverName", "parameters"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
    causes
}
