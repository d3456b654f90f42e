//! An operator on controller-runtime, beside this: each claim is reconciled, whatever it owns comes back, a claim that is deleted is
//! let go, and another instance goes on where the first ends.

use std::collections::BTreeSet;
use std::path::Path;

use control_plane::Ending;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::stage::{Stage, create, eventually};

const PROGRAM: &str = "controller-runtime";
const FINALIZER: &str = "clients.pvbind.dev/marked";

fn start(stage: &mut Stage, assets: &Path, identity: &str) {
    let arguments = [format!("-kubeconfig={}", stage.kubeconfig()), format!("-identity={identity}")];
    stage.run(identity, &assets.join(PROGRAM), &arguments);
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": "painted", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

struct World {
    claims: Api<PersistentVolumeClaim>,
    maps: Api<ConfigMap>,
    events: Api<Event>,
}

impl World {
    fn new(client: &Client) -> Self {
        World {
            claims: Api::default_namespaced(client.clone()),
            maps: Api::default_namespaced(client.clone()),
            events: Api::default_namespaced(client.clone()),
        }
    }

    /// Waits until a claim is reconciled by one of the instances, with all that belongs to it.
    async fn marked(&self, name: &str, by: &str, color: &str) {
        eventually(&format!("claim {name} is marked by {by} and {color}"), async || {
            let claim = self.claims.get(name).await.expect("the claim is there");
            let map = self.maps.get_opt(name).await.expect("maps can be read")?;
            let conditions = claim.status.as_ref()?.conditions.as_ref()?;
            let owner = map.owner_references().first()?;
            let right = claim.annotations().get("clients.pvbind.dev/marked-by")? == by
                && claim.labels().get("color")? == color
                && claim.finalizers().iter().any(|one| one == FINALIZER)
                && conditions
                    .iter()
                    .any(|one| one.type_ == "clients.pvbind.dev/Marked" && one.status == "True")
                && map.data.as_ref()?["color"] == color
                && Some(&owner.uid) == claim.metadata.uid.as_ref()
                && owner.controller == Some(true);
            right.then_some(())
        })
        .await;
    }

    /// Waits until these notes, and no others for the reason, are told as events.
    async fn told(&self, reason: &str, names: &[String], what: &str) {
        let wanted: BTreeSet<String> = names.iter().map(|name| format!("{name} is {what}")).collect();
        eventually(&format!("{wanted:?} are told"), async || {
            let list = self.events.list(&ListParams::default()).await.expect("events can be listed");
            let told = list.items.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
            let told: BTreeSet<String> = told.filter_map(|event| event.note).collect();
            (told == wanted).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn its_manager_reconciles_every_claim_and_lets_go_of_the_deleted() {
    let Some(assets) = control_plane::assets(&[PROGRAM]) else {
        return control_plane::not_run(
            "KUBEBUILDER_ASSETS names no folder with the operator on controller-runtime, which tests/control-plane/build.sh \
             controller-runtime builds; it was not tried on the bundled API server",
        );
    };
    let mut stage = Stage::start(&["--admin"]).await;
    let client = stage.client().await;
    let world = World::new(&client);
    let classes: Api<StorageClass> = Api::all(client.clone());
    let class =
        json!({"metadata": {"name": "painted", "labels": {"color": "red"}}, "provisioner": "example.com/p"});
    create(&classes, class).await;
    // Some are there before it, and some come while watches end.
    let mut names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    for name in &names {
        create(&world.claims, claim(name)).await;
    }
    start(&mut stage, &assets, "first");
    for number in 10..30 {
        let name = format!("c{number}");
        create(&world.claims, claim(&name)).await;
        names.push(name);
        if number % 5 == 0 {
            let cut = http::Request::post("/_pvbind/watches/cut").body(Vec::new()).expect("a request");
            client.request_text(cut).await.expect("watches end");
        }
    }
    for name in &names {
        world.marked(name, "first", "red").await;
    }
    world.told("Marked", &names, "marked").await;

    // What a claim owns comes back, and its class is looked at.
    world.maps.delete("c3", &DeleteParams::default()).await.expect("it goes");
    world.marked("c3", "first", "red").await;
    let blue = json!({"metadata": {"labels": {"color": "blue"}}});
    classes.patch("painted", &PatchParams::default(), &Patch::Merge(&blue)).await.expect("it is painted");
    for name in &names {
        world.marked(name, "first", "blue").await;
    }

    // A second instance waits, and takes over when the first lets go of the lease.
    start(&mut stage, &assets, "second");
    let Ending::Exited(status) = stage.stop("first") else { panic!("it ends") };
    assert!(status.success(), "{status}");
    create(&world.claims, claim("late")).await;
    world.marked("late", "second", "blue").await;
    let_go(&world, &names[..5]).await;
}

/// Deletes claims: they go once the operator, and whoever protects them, have let go of them.
async fn let_go(world: &World, names: &[String]) {
    for name in names {
        world.claims.delete(name, &DeleteParams::default()).await.expect("it can be deleted");
        eventually(&format!("{name} is let go"), async || {
            let claim = world.claims.get(name).await.expect("its protection is somebody else's");
            (claim.finalizers() == ["kubernetes.io/pvc-protection"]).then_some(())
        })
        .await;
        let free = json!({"metadata": {"finalizers": null}});
        world
            .claims
            .patch(name, &PatchParams::default(), &Patch::Merge(&free))
            .await
            .expect("nobody uses it");
        assert!(world.claims.get_opt(name).await.expect("claims can be read").is_none(), "{name} is gone");
        assert!(world.maps.get_opt(name).await.expect("maps can be read").is_none(), "and its map");
    }
    world.told("LetGo", names, "let go").await;
}
