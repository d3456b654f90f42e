//! How fast requests are sent, in virtual time, to servers that are well, that have too much to do, and that are slow.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use kube::client::Body;
use kube::{Api, Client};
use pvbind::act::pace::Rate;
use pvbind::act::{Lead, Metrics, Pace};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

/// What a server does that has so many requests under way: how long it takes, with which status.
type Behaviour = dyn Fn(usize) -> (Duration, u16) + Send + Sync;

/// A server that does nothing but answer.
#[derive(Clone)]
struct Server {
    behaviour: Arc<Mutex<Arc<Behaviour>>>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    arrived: Arc<Mutex<Vec<(Instant, u16)>>>,
}

impl Server {
    fn new(behaviour: impl Fn(usize) -> (Duration, u16) + Send + Sync + 'static) -> Self {
        Server {
            behaviour: Arc::new(Mutex::new(Arc::new(behaviour))),
            under_way: Arc::default(),
            most: Arc::default(),
            arrived: Arc::default(),
        }
    }

    /// It is otherwise from now on.
    fn becomes(&self, behaviour: impl Fn(usize) -> (Duration, u16) + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(behaviour);
    }

    /// The requests that arrived since a moment, and how they were answered.
    fn since(&self, start: Instant) -> Vec<(Instant, u16)> {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.iter().filter(|(at, _)| *at >= start).copied().collect()
    }

    /// The most that were under way since this was last asked.
    fn most(&self) -> usize {
        self.most.swap(0, Ordering::SeqCst)
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let server = server.clone();
            async move { server.answer().await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self) -> kube::Result<Response<Body>> {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        let behaviour = self.behaviour.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (took, status) = behaviour(under_way);
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), status));
        sleep(took).await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        let body = match status {
            200 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            code => {
                json!({"kind": "Status", "status": "Failure", "reason": "No", "message": "no", "code": code})
            }
        };
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = status.try_into().expect("a status");
        if status == 429 {
            response.headers_mut().insert("Retry-After", "1".parse().expect("a value"));
        }
        Ok(response)
    }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn write(client: &Client) -> kube::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let patch = json!({"data": {"k": "v"}});
    api.patch("c", &PatchParams::default(), &Patch::Merge(&patch)).await
}

/// Writes for so long, so many at once; says how many were taken, and how many were not.
async fn load(client: &Client, at_once: usize, time: Duration) -> (usize, usize) {
    let end = Instant::now() + time;
    let (mut taken, mut failed) = (0, 0);
    let mut under_way: FuturesUnordered<_> = (0..at_once).map(|_| write(client)).collect();
    while let Some(done) = under_way.next().await {
        if done.is_ok() {
            taken += 1;
        } else {
            failed += 1;
        }
        if Instant::now() < end {
            under_way.push(write(client));
        }
    }
    (taken, failed)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_well_gets_all_at_once() {
    let server = Server::new(|_| (millis(10), 200));
    let metrics = Metrics::new().expect("metrics");
    let client = Pace::adaptive(None, metrics.clone()).guard(server.client());
    let (taken, failed) = load(&client, 1024, millis(200)).await;
    assert_eq!((server.most(), failed), (1024, 0));
    assert!(taken >= 1024 * 19, "{taken}");
    let text = metrics.text().expect("text");
    assert!(text.contains("pvbind_api_wait_seconds_count 0\n"), "nothing waits: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_too_much_to_do_is_given_what_it_takes_and_all_is_done_in_the_end() {
    // It does eight at a time and refuses more.
    let server = Server::new(|under_way| if under_way > 8 { (millis(1), 429) } else { (millis(20), 200) });
    let pace = Pace::adaptive(None, Metrics::off());
    let client = pace.guard(server.client());
    let start = Instant::now();
    let (taken, failed) = load(&client, 64, Duration::from_secs(30)).await;
    assert_eq!(failed, 0, "what was refused is sent again");
    let arrived = server.since(start);
    let refused = arrived.iter().filter(|(_, status)| *status == 429).count();
    assert!(refused * 50 < arrived.len(), "{refused} of {}", arrived.len());
    // 400 a second would be all that it can do, without the pauses for which it asks.
    assert!(taken > 30 * 400 / 2, "{taken}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_time_that_the_server_asks_for_is_over() {
    let server = Server::new(|_| (millis(1), 429));
    let client = Pace::adaptive(None, Metrics::off()).guard(server.client());
    let start = Instant::now();
    let (first, others) = tokio::join!(write(&client), async {
        sleep(millis(2)).await;
        let all = (0..10).map(|_| write(&client));
        timeout(millis(995), futures::future::join_all(all)).await.is_err()
    });
    assert!(others, "they wait, and can be given up");
    let first = first.expect_err("it is refused each time").to_string();
    assert!(first.contains("no"), "{first}");
    let times: Vec<u64> =
        server.since(start).iter().map(|(at, _)| at.duration_since(start).as_secs()).collect();
    assert_eq!(times, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "a few times, a second apart, and nobody else");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_gets_slower_with_each_request_gets_fewer() {
    // Fifty a second, in whatever order.
    let server = Server::new(|under_way| (millis(20 * under_way as u64), 200));
    let pace = Pace::adaptive(None, Metrics::off());
    let client = pace.guard(server.client());
    load(&client, 512, Duration::from_secs(60)).await;
    server.most();
    load(&client, 512, Duration::from_secs(20)).await;
    let most = server.most();
    assert!((10..=100).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn after_the_trouble_it_is_as_before_within_seconds() {
    for status in [429, 503, 500] {
        let server = Server::new(|_| (millis(20), 200));
        let pace = Pace::adaptive(None, Metrics::off());
        let client = pace.guard(server.client());
        load(&client, 64, Duration::from_secs(1)).await;
        server.becomes(move |_| (millis(5), status));
        load(&client, 64, Duration::from_secs(20)).await;
        assert!(pace.allowed() <= 4, "{status}: {}", pace.allowed());
        server.becomes(|_| (millis(20), 200));
        load(&client, 64, Duration::from_secs(15)).await;
        server.most();
        load(&client, 64, Duration::from_secs(1)).await;
        assert_eq!(server.most(), 64, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_gets_less_and_who_gives_up_leaves_nothing_behind() {
    let server = Server::new(|_| (Duration::from_secs(1_000_000), 200));
    let pace = Pace::adaptive(None, Metrics::off());
    let client = pace.guard(server.client());
    for _ in 0..8 {
        let all = (0..64).map(|_| write(&client));
        assert!(timeout(Duration::from_secs(30), futures::future::join_all(all)).await.is_err());
    }
    assert!(pace.allowed() <= 2, "{}", pace.allowed());
    server.becomes(|_| (millis(20), 200));
    let (_, failed) = load(&client, 64, Duration::from_secs(15)).await;
    assert_eq!(failed, 0);
    assert!(pace.allowed() >= 64, "{}", pace.allowed());
}

#[tokio::test(start_paused = true)]
async fn lists_and_watches_are_not_held_up() {
    let server = Server::new(|_| (millis(1), 429));
    let client = Pace::adaptive(None, Metrics::off()).guard(server.client());
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let refused = timeout(millis(10), write(&client)).await;
    assert!(refused.is_err(), "writes pause");
    let start = Instant::now();
    assert!(api.list(&ListParams::default()).await.is_err());
    assert!(api.watch(&WatchParams::default(), "0").await.is_err());
    assert!(start.elapsed() < millis(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_rate_that_is_set_is_kept() {
    let server = Server::new(|_| (millis(1), 200));
    let rate = Some(Rate { qps: 10.0, burst: 5 });
    let client = Pace::adaptive(rate, Metrics::off()).guard(server.client());
    let start = Instant::now();
    load(&client, 64, Duration::ZERO).await;
    let arrived = server.since(start);
    let within = |time| arrived.iter().filter(|(at, _)| at.duration_since(start) < time).count();
    assert_eq!((within(millis(50)), within(millis(1050)), arrived.len()), (5, 15, 64));
}

#[tokio::test(start_paused = true)]
async fn what_has_waited_is_not_sent_when_the_lease_is_lost_meanwhile() {
    let server = Server::new(|_| (millis(1), 429));
    let (baton, lead) = Lead::standby();
    drop(baton);
    let client = Pace::adaptive(None, Metrics::off()).guard(lead.guard(server.client()));
    let start = Instant::now();
    let refused = write(&client).await.expect_err("nothing is sent").to_string();
    assert!(refused.contains("does not lead"), "{refused}");
    assert_eq!(server.since(start), []);
}
