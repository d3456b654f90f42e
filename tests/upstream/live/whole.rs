//! The whole loop, from its start until nothing moves any more after the last step.

use std::sync::Arc;
use std::time::Duration;

use fake_apiserver::Change;
use pvbind::act;
use pvbind::cluster::{Cluster, Key};
use pvbind::objects::Claim;
use tokio::sync::oneshot;
use tokio::sync::watch::Receiver;

use super::server::Server;
use crate::mock::Mock;
use crate::pure::check_condition;
use crate::record::{Record, Step};

/// Virtual time without any change after which a case counts as settled: longer than any backoff of the loop.
const QUIET: Duration = Duration::from_secs(150);

/// Runs the record's steps while the program runs; says of each call whether it failed.
pub async fn run(record: &Record, server: &mut Server, mock: &Mock) -> Vec<bool> {
    for (object, placement) in record.objects() {
        assert!(placement.in_api() && placement.in_cache(), "a loop sees what there is");
        server.put(&object);
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let plugins = act::Plugins::new([Arc::new(mock.clone()) as Arc<dyn act::VolumePlugin>]);
    let metrics = act::Metrics::new().expect("metrics");
    let options = act::Options {
        settings: record.settings(),
        plugins,
        metrics: metrics.clone(),
        ..act::Options::controller()
    };
    let program = act::run(server.client(), options, async {
        stopped.await.expect_err("the end of the script is a dropped sender");
    });
    let script = async {
        let mut changes = server.changes();
        settle(&mut changes).await;
        for step in &record.call.steps {
            perform(step, server, &metrics);
            settle(&mut changes).await;
        }
        // Upstream's resync begins an operation again and again; here what happens before it just happens.
        for injection in record.injections() {
            assert!(injection.removed().is_empty(), "nothing goes");
            injection.shown("api").iter().for_each(|object| server.put(object));
            settle(&mut changes).await;
        }
        drop(stop);
    };
    let (done, ()) = futures::future::join(program, script).await;
    let (stats, cluster) = done.expect("the program ends well");
    assert_eq!(stats.events_dropped, 0);
    assert_eq!(stats.counts.failures, 0, "failures");
    agree(&cluster, server);
    // The loop makes the calls itself: they have failed if anything has.
    let calls = record.call.steps.iter().filter(|step| step.op.starts_with("sync"));
    calls.map(|_| stats.counts.failures > 0).collect()
}

/// Waits until the server has not changed for a while.
async fn settle(changes: &mut Receiver<Change>) {
    while tokio::time::timeout(QUIET, changes.changed()).await.is_ok() {}
}

fn perform(step: &Step, server: &mut Server, metrics: &act::Metrics) {
    let name = || step.name.as_deref().expect("a name");
    match step.op.as_str() {
        // The loop has synced everything by itself.
        "syncClaim" | "syncVolume" => {}
        "AddClaimEvent" => {
            let claim = step.object.clone().expect("an object");
            server.put(&serde_json::from_value::<Claim>(claim).expect("a claim").into());
        }
        "DeleteClaimEvent" => server.delete(&Key::claim("default", name())),
        "DeleteVolumeEvent" => server.delete(&Key::volume(name())),
        "waitUntil" | "assert" => {
            if let Some((key, begun)) = step.begun() {
                assert_eq!(metrics.has_begun(&key), begun, "{key}: an operation has begun and not ended");
            }
            let mut cluster = Cluster::new();
            for object in server.objects().into_values() {
                cluster.show(object);
            }
            check_condition(step, &cluster);
        }
        other => panic!("unknown step {other}"),
    }
}

/// Fails where the program believes something else than what the server holds, or still assumes anything.
fn agree(cluster: &Cluster, server: &Server) {
    let objects = server.objects();
    for (key, object) in &objects {
        assert_eq!(cluster.known(key), Some(object), "{key} as it is known");
        assert_eq!(cluster.object(key), Some(object), "{key} as it is assumed");
    }
    assert_eq!(cluster.claims().count() + cluster.volumes().count(), objects.len(), "known objects");
}
