//! One run of one contest by one program, and what it comes to.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::contest::{Contest, LATER};
use crate::load;
use crate::meter::{Seen, Usage, Writes};
use crate::program::Who;

/// The head of the table that [`run`] prints a line of.
pub const HEAD: &str = "\
| contest | program | claims or pods | binds/s | p50 ms | p99 ms | writes per bind | 409s | MiB | CPU s |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|";

/// How many claims come in a second, one after the other.
const PACE: u32 = 20;
/// How many volumes are patched to learn the API server's rate.
const PATCHED: usize = 1_000;

/// A line of the table.
pub async fn run(assets: &Path, contest: Contest, who: Who) -> String {
    let count = if who == Who::Limited { contest.size() / 10 } else { contest.size() };
    let mut plane = ControlPlane::start(assets.to_owned()).await;
    let client = plane.client().await;
    load::prepare(&client, contest, count).await;
    load::ask(&client, contest, 0..count, who.scheduler()).await;

    let before = Writes::so_far(&client).await;
    let seen = Seen::watch(&client, contest.has_pods());
    let processes = who.start(&mut plane, contest.has_pods());
    let rate = rate(&seen.wait(count).await);
    // What was bound last may not be all that is written.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = Writes::so_far(&client).await;
    let usage = Usage::of(&processes);

    let times = arrive(&client, contest, who, count, &seen).await;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let writes = (after.taken - before.taken) as f64 / count as f64;
    format!(
        "| {} | {} | {count} | {rate:.1} | {:.1} | {:.1} | {writes:.2} | {} | {:.0} | {:.2} |",
        contest.name(),
        who.name(),
        milliseconds(times[times.len() / 2]),
        milliseconds(times[times.len() * 99 / 100]),
        after.conflicts - before.conflicts,
        usage.memory,
        usage.cpu.as_secs_f64(),
    )
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// How many were done in a second, from the first to the last.
fn rate(done: &BTreeMap<String, Instant>) -> f64 {
    let first = done.values().min().expect("there are some");
    let last = done.values().max().expect("there are some");
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let further = (done.len() - 1) as f64;
    further / (*last - *first).as_secs_f64()
}

/// Lets claims come one after the other; how long each took to be bound, the shortest first.
async fn arrive(
    client: &kube::Client,
    contest: Contest,
    who: Who,
    first: usize,
    seen: &Seen,
) -> Vec<Duration> {
    let mut asked = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / PACE);
    for index in first..first + LATER {
        ticks.tick().await;
        asked.push((contest.claim(index), Instant::now()));
        load::ask(client, contest, index..index + 1, who.scheduler()).await;
    }
    let done = seen.wait(first + LATER).await;
    let time = |(claim, asked): &(serde_json::Value, Instant)| {
        let name = claim["metadata"]["name"].as_str().expect("a name");
        done[name].saturating_duration_since(*asked)
    };
    let mut times: Vec<Duration> = asked.iter().map(time).collect();
    times.sort_unstable();
    times
}

/// How many patches in a second the API server takes.
pub async fn raw(assets: &Path) -> f64 {
    let plane = ControlPlane::start(assets.to_owned()).await;
    let client = plane.client().await;
    load::prepare(&client, Contest::Any, PATCHED).await;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volumes = volumes.list(&ListParams::default()).await.expect("they are there").items;
    let start = Instant::now();
    let patches = load::patch_all(&client, volumes).await;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let patches = patches as f64;
    patches / start.elapsed().as_secs_f64()
}
