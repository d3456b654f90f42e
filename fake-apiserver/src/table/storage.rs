//! Decides the rows of volumes, claims and what belongs to them. Answers to the `print…` functions of
//! `kubernetes/pkg/printers/internalversion/printers.go`.

use serde_json::Value;

use super::{AGE, Column, Entry, NAME, Row, boolean, integer, string, wide};
use crate::object::{at, text as string_at};

const STORAGE: &str = "storage.k8s.io";
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const UNSET: &str = "<unset>";
const VOLUME: &[Column] = &[
    NAME,
    string("Capacity"),
    string("Access Modes"),
    string("Reclaim Policy"),
    string("Status"),
    string("Claim"),
    string("StorageClass"),
    string("VolumeAttributesClass"),
    string("Reason"),
    AGE,
    wide("VolumeMode"),
];
const CLAIM: &[Column] = &[
    NAME,
    string("Status"),
    string("Volume"),
    string("Capacity"),
    string("Access Modes"),
    string("StorageClass"),
    string("VolumeAttributesClass"),
    AGE,
    wide("VolumeMode"),
];
const CLASS: &[Column] = &[
    NAME,
    string("Provisioner"),
    string("ReclaimPolicy"),
    string("VolumeBindingMode"),
    string("AllowVolumeExpansion"),
    AGE,
];
const ATTACHMENT: &[Column] =
    &[NAME, Column { name: "Attacher", ..NAME }, string("PV"), string("Node"), boolean("Attached"), AGE];
const DRIVER: &[Column] = &[
    NAME,
    boolean("AttachRequired"),
    boolean("PodInfoOnMount"),
    boolean("StorageCapacity"),
    string("TokenRequests"),
    boolean("RequiresRepublish"),
    string("Modes"),
    AGE,
];

pub(super) const ENTRIES: &[Entry] = &[
    ("", "PersistentVolume", VOLUME, volume),
    ("", "PersistentVolumeClaim", CLAIM, claim),
    (STORAGE, "StorageClass", CLASS, class),
    (STORAGE, "VolumeAttachment", ATTACHMENT, |row| {
        vec![
            row.name(),
            row.text(&["spec", "attacher"]).into(),
            row.text(&["spec", "source", "persistentVolumeName"]).into(),
            row.text(&["spec", "nodeName"]).into(),
            row.flag(&["status", "attached"]).unwrap_or(false).into(),
            row.age(),
        ]
    }),
    (STORAGE, "CSINode", &[NAME, integer("Drivers"), AGE], |row| {
        vec![row.name(), row.count(&["spec", "drivers"]).into(), row.age()]
    }),
    (STORAGE, "CSIDriver", DRIVER, driver),
    (STORAGE, "VolumeAttributesClass", &[NAME, string("DriverName"), AGE], |row| {
        vec![row.name(), row.text(&["driverName"]).into(), row.age()]
    }),
];

/// The phase, unless it is on its way out.
fn phase<'a>(row: &Row<'a>) -> &'a str {
    if row.is_terminating() { "Terminating" } else { row.text(&["status", "phase"]) }
}

/// The storage class, wherever it is named.
fn class_name<'a>(row: &Row<'a>) -> &'a str {
    let annotated = at(row.value, &["metadata", "annotations", BETA_CLASS]).and_then(Value::as_str);
    annotated.unwrap_or_else(|| row.text(&["spec", "storageClassName"]))
}

/// `RWO,ROX`, in upstream's order.
fn modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = short.iter().filter(|(long, _)| modes.iter().any(|mode| mode == long));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

fn optional(row: &Row<'_>, path: &[&str]) -> Value {
    at(row.value, path).and_then(Value::as_str).unwrap_or(UNSET).into()
}

fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = at(row.value, &["spec", "claimRef"]).filter(|claim| claim.is_object());
    let claim =
        claim.map(|claim| format!("{}/{}", string_at(claim, &["namespace"]), string_at(claim, &["name"])));
    vec![
        row.name(),
        row.text_or(&["spec", "capacity", "storage"], "0").into(),
        modes(row.list(&["spec", "accessModes"])).into(),
        row.text(&["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase(row).into(),
        claim.unwrap_or_default().into(),
        class_name(row).into(),
        optional(row, &["spec", "volumeAttributesClassName"]),
        row.text(&["status", "reason"]).into(),
        row.age(),
        optional(row, &["spec", "volumeMode"]),
    ]
}

fn claim(row: &Row<'_>) -> Vec<Value> {
    let volume = row.text(&["spec", "volumeName"]);
    let (capacity, access) = if volume.is_empty() {
        ("", String::new())
    } else {
        (row.text_or(&["status", "capacity", "storage"], "0"), modes(row.list(&["status", "accessModes"])))
    };
    vec![
        row.name(),
        phase(row).into(),
        volume.into(),
        capacity.into(),
        access.into(),
        class_name(row).into(),
        optional(row, &["spec", "volumeAttributesClassName"]),
        row.age(),
        optional(row, &["spec", "volumeMode"]),
    ]
}

fn class(row: &Row<'_>) -> Vec<Value> {
    let mut name = row.text(&["metadata", "name"]).to_owned();
    let marks =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    if marks.iter().any(|mark| row.text(&["metadata", "annotations", mark]) == "true") {
        name.push_str(" (default)");
    }
    vec![
        name.into(),
        row.text(&["provisioner"]).into(),
        row.text_or(&["reclaimPolicy"], "Delete").into(),
        row.text_or(&["volumeBindingMode"], "Immediate").into(),
        row.flag(&["allowVolumeExpansion"]).unwrap_or(false).into(),
        row.age(),
    ]
}

fn driver(row: &Row<'_>) -> Vec<Value> {
    let flag = |name: &str, default: bool| Value::from(row.flag(&["spec", name]).unwrap_or(default));
    let tokens = at(row.value, &["spec", "tokenRequests"]).and_then(Value::as_array).map(|requests| {
        requests.iter().map(|one| string_at(one, &["audience"])).collect::<Vec<_>>().join(",")
    });
    let modes: Vec<&str> =
        row.list(&["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str).collect();
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    vec![
        row.name(),
        flag("attachRequired", true),
        flag("podInfoOnMount", false),
        flag("storageCapacity", false),
        tokens.unwrap_or_else(|| UNSET.to_owned()).into(),
        flag("requiresRepublish", false),
        modes.into(),
        row.age(),
    ]
}
