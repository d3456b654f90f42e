//! kube-rs follows the bundled API server: its watcher in both ways to begin, its controller, its recorder of events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as Told;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::timeout;

use crate::stage::{PATIENCE, Stage, create, eventually};

/// What a watcher tells, in short: who is there when it begins, and what happens then.
async fn told(maps: &Api<ConfigMap>, config: watcher::Config) -> Vec<String> {
    let mut events = watcher(maps.clone(), config).boxed();
    let mut told = Vec::new();
    while told.len() < 5 {
        let event = timeout(PATIENCE, events.next()).await.expect("something is told in time");
        match event.expect("a watcher does not end").expect("the watch works") {
            watcher::Event::Init => {}
            watcher::Event::InitApply(map) => told.push(format!("{} is there", map.name_any())),
            watcher::Event::InitDone => {
                told.push("that is all".to_owned());
                create(maps, json!({"metadata": {"name": "new"}})).await;
                let change = json!({"data": {"a": "b"}});
                maps.patch("new", &PatchParams::default(), &Patch::Merge(&change)).await.expect("it changes");
                maps.delete("new", &DeleteParams::default()).await.expect("it goes");
            }
            watcher::Event::Apply(map) => told.push(format!("{} {:?}", map.name_any(), map.data.is_some())),
            watcher::Event::Delete(map) => told.push(format!("{} goes", map.name_any())),
        }
    }
    told
}

#[tokio::test]
async fn its_watcher_tells_the_same_however_it_begins() {
    let stage = Stage::start(&[]).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(stage.client().await);
    create(&maps, json!({"metadata": {"name": "old"}})).await;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let expected = ["old is there", "that is all", "new false", "new true", "new goes"];
        assert_eq!(told(&maps, config).await, expected);
    }
}

/// Marks each map that it is asked about, and says so.
async fn mark(map: Arc<ConfigMap>, context: Arc<(Client, Recorder)>) -> Result<Action, kube::Error> {
    let (client, recorder) = &*context;
    if !map.labels().contains_key("seen") {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let change =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"seen": "yes"}}});
        maps.patch(&map.name_any(), &PatchParams::apply("marker"), &Patch::Apply(&change)).await?;
        let event = Event {
            type_: EventType::Normal,
            reason: "Seen".to_owned(),
            note: Some(format!("{} was seen", map.name_any())),
            action: "Marking".to_owned(),
            secondary: None,
        };
        recorder.publish(&event, &map.object_ref(&())).await?;
    }
    Ok(Action::await_change())
}

#[tokio::test]
async fn its_controller_reconciles_and_its_recorder_tells() {
    let stage = Stage::start(&[]).await;
    let client = stage.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    create(&maps, json!({"metadata": {"name": "a"}})).await;
    let recorder =
        Recorder::new(client.clone(), Reporter { controller: "marker".to_owned(), instance: None });
    let context = Arc::new((client.clone(), recorder));
    let controller = Controller::new(maps.clone(), watcher::Config::default());
    let again = |_: Arc<ConfigMap>, _: &kube::Error, _| Action::requeue(Duration::from_millis(100));
    let running = tokio::spawn(controller.run(mark, again, context).for_each(|_| std::future::ready(())));
    create(&maps, json!({"metadata": {"name": "b"}})).await;
    let events: Api<Told> = Api::default_namespaced(client.clone());
    let notes = eventually("both maps are seen", async || {
        let list = events.list(&kube::api::ListParams::default()).await.expect("events can be listed");
        let notes: BTreeSet<String> = list.items.into_iter().filter_map(|event| event.note).collect();
        (notes.len() == 2).then_some(notes)
    })
    .await;
    assert_eq!(notes.into_iter().collect::<Vec<_>>(), ["a was seen", "b was seen"]);
    for name in ["a", "b"] {
        let map = maps.get(name).await.expect("it is there");
        assert_eq!(map.labels().get("seen").map(String::as_str), Some("yes"));
        let owner = map.managed_fields().iter().find(|entry| entry.operation.as_deref() == Some("Apply"));
        assert_eq!(owner.and_then(|entry| entry.manager.as_deref()), Some("marker"));
    }
    running.abort();
}
