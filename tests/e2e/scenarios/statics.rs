//! Volumes that somebody made before.

use serde_json::json;

use crate::objects::{claim, name, text, volume};
use crate::stage::Stage;

/// Each claim gets the smallest volume that fits it; what fits nothing waits, and says why.
pub async fn volumes_that_fit(stage: &Stage) {
    let class = stage.prefix();
    let make = |short: &str, extra| volume(&stage.named(short), class, &extra);
    let size = |size: &str| json!({"spec": {"capacity": {"storage": size}}});
    let ask = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    let labelled = |value: &str| json!({"metadata": {"labels": {"tier": value}}, "spec": {"capacity": {"storage": "40Gi"}}});
    stage
        .create_all(vec![
            make("small", size("2Gi")),
            make("middle", size("5Gi")),
            make("large", size("20Gi")),
            make("many", json!({"spec": {"accessModes": ["ReadWriteMany", "ReadOnlyMany"], "capacity": {"storage": "30Gi"}}})),
            make("gold", labelled("gold")),
            make("iron", labelled("iron")),
            make("block", json!({"spec": {"volumeMode": "Block", "hostPath": null, "local": {"path": "/dev/none"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}}}})),
        ])
        .await;
    stage
        .create_all(vec![
            claim("one", class, &ask("1Gi")),
            claim("four", class, &ask("4Gi")),
            claim("shared", class, &json!({"accessModes": ["ReadWriteMany"]})),
            claim("gold", class, &json!({"selector": {"matchLabels": {"tier": "gold"}}})),
            claim("raw", class, &json!({"volumeMode": "Block"})),
        ])
        .await;
    for (claim, short) in
        [("one", "small"), ("four", "middle"), ("shared", "many"), ("gold", "gold"), ("raw", "block")]
    {
        let (bound, volume) = stage.bound(claim).await;
        assert_eq!(name(&volume), stage.named(short), "{claim}");
        assert_eq!(
            bound["status"]["capacity"], volume["spec"]["capacity"],
            "{claim} has what its volume has"
        );
        assert_eq!(bound["status"]["accessModes"], volume["spec"]["accessModes"], "{claim}");
    }

    // Nothing is that large, until somebody makes it.
    stage.create(&claim("huge", class, &ask("50Gi"))).await;
    stage.told("huge", "ProvisioningFailed", class).await;
    let waiting = stage.get("PersistentVolumeClaim", "huge").await;
    assert_eq!(text(&waiting, "/status/phase"), "Pending");
    stage.create(&make("huge", size("60Gi"))).await;
    assert_eq!(name(&stage.bound("huge").await.1), stage.named("huge"));
    for short in ["large", "iron"] {
        let available = |volume: &_| text(volume, "/status/phase") == "Available";
        stage.shows("PersistentVolume", &stage.named(short), "nobody took it", available).await;
    }
}
