//! Decides whether a claim may grow. Answers to
//! `kubernetes/plugin/pkg/admission/storage/persistentvolume/resize`.

use serde_json::Value;

use crate::object::text;
use crate::quantity::Quantity;
use crate::routes::Target;
use crate::status::{Result, Status};
use crate::store::Store;

pub(super) fn resize(store: &Store, target: &Target, old: &Value, new: &Value) -> Result<()> {
    if old["spec"]["resources"] == new["spec"]["resources"] {
        return Ok(());
    }
    let size = |claim: &Value| {
        let request = text(claim, &["spec", "resources", "requests", "storage"]);
        Quantity::parse(request).map_or(0, Quantity::nanos)
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    let refuse = |why: &str| Err(Status::forbidden("", "persistentvolumeclaims", &target.name, why));
    if text(old, &["status", "phase"]) != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    let class = |claim: &Value| {
        let annotation = text(claim, &["metadata", "annotations", super::BETA_CLASS]).to_owned();
        if annotation.is_empty() { text(claim, &["spec", "storageClassName"]).to_owned() } else { annotation }
    };
    let grows = class(old) == class(new)
        && store.kinds.named("StorageClass").is_some_and(|index| {
            store.get(index, &class(new)).is_some_and(|class| class.value["allowVolumeExpansion"] == true)
        });
    if grows {
        return Ok(());
    }
    refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}
