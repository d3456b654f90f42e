//! Claims that name no class.

use serde_json::{Value, json};

use crate::objects::{claim, class, name, text, volume};
use crate::stage::Stage;

const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// A claim that says nothing of classes gets the default one: from the API server when it is created, and from the
/// controller when the class comes later. One that wants none gets none.
pub async fn default_class(stage: &Stage) {
    let silent = |name: &str| claim(name, "", &json!({"storageClassName": null}));
    let classes = stage.list("StorageClass").await;
    let others = classes.iter().any(|class| class["metadata"]["annotations"][DEFAULT] == "true");
    if others {
        control_plane::not_run("the cluster has a default class, so that no claim can wait for one to come");
    } else {
        stage.create(&silent("early")).await;
        stage.told("early", "FailedBinding", "").await;
    }
    let chosen = json!({"selector": {"matchLabels": {"none": "has-this"}}});
    stage.create(&claim("none", "", &chosen)).await;
    for short in ["v1", "v2"] {
        stage.create(&volume(&stage.named(short), stage.prefix(), &json!({}))).await;
    }
    let mut by_default = class(stage.prefix(), "kubernetes.io/no-provisioner");
    by_default["metadata"]["annotations"] = json!({DEFAULT: "true"});
    stage.create(&by_default).await;
    if !others {
        stage.bound("early").await;
    }
    let admitted = stage.create(&silent("late")).await;
    assert_eq!(text(&admitted, "/spec/storageClassName"), stage.prefix(), "it has a class from the start");
    stage.bound("late").await;
    for claim in stage.list("PersistentVolumeClaim").await {
        let class = claim.pointer("/spec/storageClassName").and_then(Value::as_str);
        let right = if name(&claim) == "none" { "" } else { stage.prefix() };
        assert_eq!(class, Some(right), "{}", name(&claim));
    }
}
