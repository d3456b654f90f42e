//! What of a decision about a pod counts as what.
//!
//! Upstream counts attempts by their result and, for the volume binder, failures by the stage in which they happen. A
//! decision here is several of its stages: what the reason is says in which one the pod got stuck. Answers to
//! `pkg/scheduler/metrics` and `volumebinding/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use prometheus::{Error, Histogram, HistogramOpts, IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::time::Instant;

use super::families::{BIND_BUCKETS, shown};
use crate::cluster::Key;
use crate::decide::reason::PodReason;
use crate::decide::{Action, Plan, Reason, Write};
use crate::objects::{Pod, pod};

const ATTEMPTS: &str = "scheduler_schedule_attempts_total";
const STAGES: &str = "scheduler_volume_scheduling_stage_error_total";

/// The metrics.
#[derive(Clone, Debug)]
pub(super) struct Scheduling {
    attempts: IntCounterVec,
    pending: IntGaugeVec,
    stage_errors: IntCounterVec,
    prebind_seconds: Histogram,
}

impl Scheduling {
    /// All of them, at zero.
    pub(super) fn new(registry: &Registry) -> Result<Self, Error> {
        let attempts = "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.";
        let pending = "[STABLE] Number of pending pods, by the queue type. 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed.";
        let stages = "[ALPHA] Volume scheduling stage error count";
        let prebind = "Time from when a pod's volumes were reserved until all were bound";
        let prebind = HistogramOpts::new("pvbind_prebind_seconds", prebind).buckets(BIND_BUCKETS.to_vec());
        let attempts = IntCounterVec::new(Opts::new(ATTEMPTS, attempts), &["result", "profile"])?;
        let pending = IntGaugeVec::new(Opts::new("scheduler_pending_pods", pending), &["queue"])?;
        Ok(Scheduling {
            attempts: shown(registry, attempts)?,
            pending: shown(registry, pending)?,
            stage_errors: shown(registry, IntCounterVec::new(Opts::new(STAGES, stages), &["operation"])?)?,
            prebind_seconds: shown(registry, Histogram::with_opts(prebind)?)?,
        })
    }

    pub(super) fn attempt(&self, result: &str, profile: &str) {
        self.attempts.with_label_values(&[result, profile]).inc();
    }

    pub(super) fn stage_error(&self, stage: &str) {
        self.stage_errors.with_label_values(&[stage]).inc();
    }

    pub(super) fn pending(&self, waiting: usize) {
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.pending.with_label_values(&["unschedulable"]).set(waiting);
    }
}

/// What has to be remembered of pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Since when the volumes of each are being bound.
    reserved: BTreeMap<Key, Instant>,
    /// Those that are on no node because none will do, or because of a claim.
    waiting: BTreeSet<Key>,
}

impl Pods {
    /// A pod has been decided about.
    pub(super) fn decided(&mut self, metrics: &Scheduling, key: &Key, pod: &Pod, plan: &Plan, now: Instant) {
        let result = result(&plan.reason);
        if let Some(result) = result {
            metrics.attempt(result, pod::scheduler_name(pod));
        }
        if let Some(stage) = failed_stage(&plan.reason) {
            metrics.stage_error(stage);
        }
        if result == Some(UNSCHEDULABLE) {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        let has = |wanted: fn(&Action) -> bool| plan.actions.iter().any(wanted);
        if has(|action| matches!(action, Action::Assume(..))) {
            self.reserved.insert(key.clone(), now);
        } else if has(|action| matches!(action, Action::Forget(_)))
            && let Some(since) = self.reserved.remove(key)
            && plan.writes().any(|write| matches!(write, Write::BindPod { .. }))
        {
            let took = now.saturating_duration_since(since);
            metrics.prebind_seconds.observe(took.as_secs_f64());
        }
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, key: &Key) {
        self.reserved.remove(key);
        self.waiting.remove(key);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

const UNSCHEDULABLE: &str = "unschedulable";

/// How an attempt to place a pod ended, in upstream's words; `None` while it goes on, or was none. That it is placed counts
/// once the API server has taken it.
fn result(reason: &Reason) -> Option<&'static str> {
    let Reason::Pod(reason) = reason else { return (*reason != Reason::Gone).then_some("error") };
    match reason {
        PodReason::NotPending { .. }
        | PodReason::Gated { .. }
        | PodReason::BindingVolumes { .. }
        | PodReason::Placed { .. }
        | PodReason::Undone { .. } => None,
        PodReason::ClaimNotFound { .. }
        | PodReason::ClaimNotOwned { .. }
        | PodReason::ClaimLost { .. }
        | PodReason::ClaimDeleting { .. }
        | PodReason::ClaimUnbound { .. }
        | PodReason::NoNodes { .. }
        | PodReason::Node { .. } => Some(UNSCHEDULABLE),
        PodReason::BindingFailed { .. } => Some("error"),
    }
}

/// The stage of the volume binder that a decision says has failed.
fn failed_stage(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Pod(PodReason::BindingFailed { .. }) => Some("bind"),
        Reason::Pod(_) | Reason::Gone => None,
        // Anything else that is said of a pod is a claim that makes no sense on any node.
        _ => Some("predicate"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tokio::time::advance;

    use super::*;
    use crate::act::metrics::tests::{claim, samples, total};
    use crate::act::metrics::{Matter, Metrics};
    use crate::act::{Decider, Error, Outcome, Roles};
    use crate::cluster::Object;
    use crate::decide::{Settings, binder};
    use crate::objects::{Claim, Class, Node, Volume};

    /// A scheduler with a node, a class whose volumes are made for pods, a claim of that class and a pod that uses it.
    fn scheduler(metrics: &Metrics, claim_class: &str) -> Decider {
        let roles = Roles { controller: false, scheduler: Some(binder::Pods::All) };
        let mut decider = Decider::new(Settings::default(), roles).with_metrics(metrics.clone());
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}});
        decider.show(Object::from(serde_json::from_value::<Node>(node).unwrap()));
        let late = json!({
            "metadata": {"name": "late"}, "provisioner": "drv.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        decider.show(Object::from(serde_json::from_value::<Class>(late).unwrap()));
        decider.show(claim(1, claim_class, "Pending"));
        let pod = json!({
            "metadata": {"namespace": "n", "name": "w", "resourceVersion": "1"},
            "spec": {
                "schedulerName": "mine", "containers": [],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            },
        });
        decider.show(Object::from(serde_json::from_value::<Pod>(pod).unwrap()));
        decider
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_fits_nowhere_is_an_attempt_that_was_unschedulable() {
        let metrics = Metrics::new().unwrap();
        let mut decider = scheduler(&metrics, "immediate");
        assert!(decider.next(Instant::now()).is_some());
        assert_eq!(
            samples(&metrics, ATTEMPTS),
            [(r#"{profile="mine",result="unschedulable"}"#.to_owned(), 1)]
        );
        assert_eq!(total(&metrics, STAGES), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn binding_counts_from_its_start_and_when_it_fails() {
        let metrics = Metrics::new().unwrap();
        let mut decider = scheduler(&metrics, "late");
        let job = decider.next(Instant::now()).unwrap();
        // The API server refuses the node that was selected for the claim.
        let matter = metrics.matter(&job);
        let refused =
            || Outcome { error: Some(Error::Conflict { key: Key::claim("n", "c") }), ..Outcome::default() };
        metrics.performed(&matter, &refused());
        decider.finish(job.id, refused(), Instant::now());
        assert_eq!(samples(&metrics, STAGES), [(r#"{operation="bind"}"#.to_owned(), 1)]);

        advance(Duration::from_secs(1)).await;
        let job = decider.next(Instant::now()).unwrap();
        decider.finish(job.id, Outcome::default(), Instant::now());
        advance(Duration::from_secs(5)).await;
        let bound = json!({
            "metadata": {
                "namespace": "n", "name": "c", "uid": "u", "resourceVersion": "5",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n"},
            },
            "spec": {"storageClassName": "late", "volumeName": "made"},
        });
        let made = json!({"metadata": {"name": "made", "resourceVersion": "4"}, "spec": {}});
        decider.show(Object::from(serde_json::from_value::<Volume>(made).unwrap()));
        decider.show(Object::from(serde_json::from_value::<Claim>(bound).unwrap()));
        let job = decider.next(Instant::now()).unwrap();
        assert_eq!(samples(&metrics, "pvbind_prebind_seconds_sum"), [(String::new(), 5)]);
        let matter = metrics.matter(&job);
        assert_eq!(matter, Matter::PlacesPod { profile: "mine".to_owned() });
        metrics.performed(&matter, &Outcome::default());
        let attempts = [("error", 1), ("scheduled", 1)]
            .map(|(result, count)| (format!("{{profile=\"mine\",result=\"{result}\"}}"), count));
        assert_eq!(samples(&metrics, ATTEMPTS), attempts);
    }
}
