//! Requests that go wrong, and a process that dies at one of them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fake_apiserver::{Call, Fault, Status};
use serde_json::json;
use tokio::sync::Notify;

use super::{ByHand, Stage};

/// What goes wrong with one write of the loop.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// It is refused with a conflict, though nobody has changed the object.
    Refused,
    /// Another client has changed the object just before.
    Overtaken,
    /// Something else has happened just before.
    Meanwhile(fn(&ByHand)),
    /// It is done, but the answer is lost.
    Lost,
    /// The process dies before it arrives.
    KilledBefore,
    /// It is done, and the process dies before it hears of it.
    KilledAfter,
}

/// Something that goes wrong once, and whether it has.
struct Once {
    trouble: Trouble,
    at: usize,
    by_hand: ByHand,
    writes: AtomicUsize,
    happened: AtomicBool,
    /// The pods that were placed before their claims were bound.
    early: Mutex<Vec<String>>,
    /// Between the death of the process and its restart nothing that it sends arrives any more.
    dead: AtomicBool,
    killed: Notify,
}

fn refusal(code: u16, reason: &str) -> Fault {
    Fault::Status(Box::new(Status::new(code, reason, "the request is refused for the sake of the case")))
}

/// Whether a request changes something other than events.
fn is_write(call: &Call) -> bool {
    !matches!(call.verb, "get" | "list" | "watch") && call.resource != "events"
}

/// The kind that a request is about.
fn kind_of(call: &Call) -> &'static str {
    match call.resource.as_str() {
        "persistentvolumes" => "PersistentVolume",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "pods" => "Pod",
        other => panic!("the loop writes no {other}"),
    }
}

impl ByHand {
    /// Whether every claim of a pod is bound.
    fn has_its_volumes(&self, pod: &str) -> bool {
        let Some(pod) = self.server.get("Pod", "default", pod) else { return true };
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        let mut claims = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        claims.all(|claim| {
            let claim = self.server.get("PersistentVolumeClaim", "default", claim);
            claim.is_some_and(|claim| {
                !claim["spec"]["volumeName"].is_null()
                    && claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
            })
        })
    }
}

impl Once {
    fn answer(&self, call: &Call) -> Option<Fault> {
        if self.by_hand.is_asking() {
            return None;
        }
        if self.dead.load(Ordering::SeqCst) {
            return Some(refusal(503, "ServiceUnavailable"));
        }
        if call.subresource == "binding" && !self.by_hand.has_its_volumes(&call.name) {
            self.early.lock().expect("nobody panics while noting").push(call.name.clone());
        }
        if !is_write(call) || self.writes.fetch_add(1, Ordering::SeqCst) + 1 != self.at {
            return None;
        }
        self.happened.store(true, Ordering::SeqCst);
        match self.trouble {
            Trouble::Refused => Some(refusal(409, "Conflict")),
            Trouble::Overtaken => {
                let label = json!({"metadata": {"labels": {"changed-by": "another-client"}}});
                self.by_hand.patch(kind_of(call), &call.name, &label);
                None
            }
            Trouble::Meanwhile(deed) => {
                deed(&self.by_hand);
                None
            }
            Trouble::Lost => Some(Fault::Lost),
            Trouble::KilledBefore => {
                self.die();
                Some(refusal(503, "ServiceUnavailable"))
            }
            Trouble::KilledAfter => {
                self.die();
                Some(Fault::Lost)
            }
        }
    }

    fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
        self.killed.notify_one();
    }
}

impl Stage {
    /// Refuses so many of the requests that `is_meant` picks.
    pub fn refuse(&self, times: usize, code: u16, is_meant: impl Fn(&Call) -> bool + Send + Sync + 'static) {
        let left = Mutex::new(times);
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            let mut left = left.lock().expect("nobody panics while counting");
            if *left == 0 || !is_meant(call) {
                return None;
            }
            *left -= 1;
            Some(refusal(code, "Forbidden"))
        })));
    }

    /// Does something by hand just before the first request that `is_meant` picks.
    pub fn just_before(
        &self,
        is_meant: impl Fn(&Call) -> bool + Send + Sync + 'static,
        deed: impl FnOnce(&ByHand) + Send + 'static,
    ) {
        let (by_hand, deed) = (self.by_hand(), Mutex::new(Some(deed)));
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            if !by_hand.is_asking() && is_meant(call) {
                let deed = deed.lock().expect("nobody panics while taking it").take();
                if let Some(deed) = deed {
                    deed(&by_hand);
                }
            }
            None
        })));
    }

    /// From now on one write in four goes wrong, as lots that `seed` draws decide: half of those are refused, of the others the
    /// answer is lost. So many go wrong, and then none.
    pub fn fail_at_random(&self, seed: u64, times: usize) {
        let (by_hand, state) = (self.by_hand(), Mutex::new((seed, times)));
        self.server.set_faults(Some(Arc::new(move |call: &Call| {
            let mut state = state.lock().expect("nobody panics while drawing");
            let (drawn, left) = &mut *state;
            if by_hand.is_asking() || !is_write(call) || *left == 0 {
                return None;
            }
            *drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let lot = *drawn >> 61;
            *left -= usize::from(lot < 2);
            match lot {
                0 => Some(refusal(409, "Conflict")),
                1 => Some(Fault::Lost),
                _ => None,
            }
        })));
    }

    /// Starts the loop, lets its `at`th write go wrong, and waits until all has settled; a process that dies of it is
    /// followed by another one. Says whether there was such a write.
    pub async fn run_with(&mut self, trouble: Trouble, at: usize) -> bool {
        let once = Arc::new(Once {
            trouble,
            at,
            by_hand: self.by_hand(),
            writes: AtomicUsize::new(0),
            happened: AtomicBool::new(false),
            early: Mutex::default(),
            dead: AtomicBool::new(false),
            killed: Notify::new(),
        });
        let hook = once.clone();
        self.server.set_faults(Some(Arc::new(move |call: &Call| hook.answer(call))));
        self.start();
        let died = tokio::select! {
            biased;
            () = once.killed.notified() => true,
            _ = self.settle() => false,
        };
        if died {
            self.kill().await;
            once.dead.store(false, Ordering::SeqCst);
            self.start();
            self.settle().await;
        }
        self.server.set_faults(None);
        let early = once.early.lock().expect("nobody notes any more");
        assert!(early.is_empty(), "placed before their claims were bound: {early:?}");
        once.happened.load(Ordering::SeqCst)
    }
}
