//! Pairs of which one side, or both, names the other.

use serde_json::{Value, json};

use crate::objects::{claim, name, text, volume};
use crate::stage::Stage;

/// What of a volume reserves it for a claim of the scenario. It would fit any other.
fn for_claim(stage: &Stage, claim: &str) -> Value {
    json!({"spec": {"capacity": {"storage": "100Gi"}, "claimRef": {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": stage.prefix(), "name": claim,
    }}})
}

/// Whoever names the other gets the other, in either order; nobody else gets what is reserved.
pub async fn from_either_side(stage: &Stage) {
    let class = stage.prefix();
    let make = |short: &str, extra: &Value| volume(&stage.named(short), class, extra);
    let naming = |short: &str| json!({"volumeName": stage.named(short)});
    // The volume names its claim and is there first. What the bystander asks for, only reserved volumes have.
    stage.create(&make("reserved", &for_claim(stage, "awaited"))).await;
    let much = json!({"resources": {"requests": {"storage": "50Gi"}}});
    stage.create(&claim("bystander", class, &much)).await;
    // The claim names its volume and is there first.
    stage.create(&claim("picky", class, &naming("picked"))).await;
    // Each names the other.
    stage.create(&claim("left", class, &naming("right"))).await;
    // What this one names is reserved for another.
    stage.create(&claim("late", class, &naming("reserved"))).await;
    // Nothing is free, and nobody makes more.
    stage.told("bystander", "ProvisioningFailed", class).await;

    stage.create(&claim("awaited", class, &json!({}))).await;
    stage.create(&make("picked", &json!({}))).await;
    stage.create(&make("right", &for_claim(stage, "left"))).await;
    for (claim, volume) in [("awaited", "reserved"), ("picky", "picked"), ("left", "right")] {
        assert_eq!(name(&stage.bound(claim).await.1), stage.named(volume), "{claim}");
    }
    let free = json!({"spec": {"capacity": {"storage": "100Gi"}}});
    stage.create(&make("free", &free)).await;
    assert_eq!(name(&stage.bound("bystander").await.1), stage.named("free"));
    let late = stage.get("PersistentVolumeClaim", "late").await;
    assert_eq!(text(&late, "/status/phase"), "Pending", "what it names is somebody else's");
}
