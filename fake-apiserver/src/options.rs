//! Decides how a fake API server behaves where a test may want something else than the real one: its clock,
//! its source of names, how strict it is, and how much it remembers. Never reads a clock or makes a name
//! itself. Answers to the flags of kube-apiserver, reduced to those that a test needs.

use std::sync::Arc;

use jiff::Timestamp;

use crate::auth::Token;

/// Where the server reads the time: every timestamp it writes comes from here.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where uids and the random ends of generated names come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Different in each server.
    Random,
    /// The same sequence for the same seed, so that the same requests give the same bytes.
    Seeded(u64),
}

/// How much the server does to an object before it stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Defaults, validation and admission plugins, as the real server has them.
    Full,
    /// Stores what it is given: no defaults, no validation, no finalizers. For objects of recorded unit
    /// tests, which are often not valid.
    Raw,
}

/// The admission plugins that can be left out, for clusters in which nothing would ever undo what they do.
#[expect(clippy::struct_excessive_bools, reason = "each plugin is on or off by itself")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugins {
    /// Puts `kubernetes.io/pv-protection` on each new volume. Without a controller that removes it no volume
    /// ever goes.
    pub volume_protection: bool,
    /// Puts `kubernetes.io/pvc-protection` on each new claim, with the same consequence.
    pub claim_protection: bool,
    /// Gives a new claim without a class the default class.
    pub default_class: bool,
    /// Gives a new ingress without a class the default class.
    pub default_ingress_class: bool,
    /// Lets a claim grow only if it is bound and its class says so.
    pub claim_resize: bool,
    /// Refuses pods whose service account is missing, and mounts its token into the others.
    pub service_account: bool,
    /// Gives pods the priority of their class, and makes the two classes of the system.
    pub priority: bool,
    /// Refuses pods that ask for a class of runtimes, since none is served.
    pub runtime_class: bool,
    /// Keeps pods and claims within the limit ranges of their namespace.
    pub limit_ranger: bool,
    /// Refuses what exceeds a quota, and counts the rest.
    pub quota: bool,
    /// Keeps pods to the Pod Security Standard of their namespace.
    pub pod_security: bool,
    /// Makes the service by which pods reach the server, `kubernetes` in `default`.
    pub kubernetes_service: bool,
}

impl Plugins {
    /// What a real server runs when it is told nothing.
    #[must_use]
    pub fn all() -> Self {
        Self {
            volume_protection: true,
            claim_protection: true,
            default_class: true,
            default_ingress_class: true,
            claim_resize: true,
            service_account: true,
            priority: true,
            runtime_class: true,
            limit_ranger: true,
            quota: true,
            pod_security: true,
            kubernetes_service: true,
        }
    }
}

impl Default for Plugins {
    fn default() -> Self {
        // What needs service accounts, classes or a quota's keeper is off: a test would have to make them first.
        Self {
            volume_protection: true,
            claim_protection: true,
            default_class: true,
            default_ingress_class: true,
            claim_resize: false,
            service_account: false,
            priority: false,
            runtime_class: false,
            limit_ranger: false,
            quota: false,
            pod_security: false,
            kubernetes_service: false,
        }
    }
}

/// How a server is made.
#[derive(Clone)]
pub struct Options {
    /// The clock.
    pub now: Now,
    /// The source of uids and generated names.
    pub ids: Ids,
    /// Whether objects are defaulted and validated.
    pub admission: Admission,
    /// Which admission plugins run under [`Admission::Full`].
    pub plugins: Plugins,
    /// Whether objects say who owns which of their fields. Without it `metadata.managedFields` is dropped from whatever is
    /// written, and applying knows no conflicts but those of its own request.
    pub managed_fields: bool,
    /// The range from which services get their addresses, and its length in bits.
    pub service_range: (std::net::Ipv4Addr, u8),
    /// How many events each kind remembers; a watch that asks for an older one is answered with 410 Expired.
    pub history: usize,
    /// Who may ask, by token. Where there is one, whoever has none is refused.
    pub tokens: Vec<Token>,
    /// Whether whoever cannot say who they are is refused even where there are no tokens, as where client
    /// certificates are the only credentials.
    pub credentials_required: bool,
    /// How many events may wait for a watcher that does not read; the next one ends its stream.
    pub watch_buffer: usize,
    /// How many requests the journal remembers; 0 is none.
    pub journal: usize,
    /// Whether `/_pvbind/` is served: faults, the journal and the watches, for a test that has no other way to the server.
    pub admin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            now: Arc::new(Timestamp::now),
            ids: Ids::Random,
            admission: Admission::Full,
            plugins: Plugins::default(),
            service_range: (std::net::Ipv4Addr::new(10, 0, 0, 0), 16),
            managed_fields: true,
            tokens: Vec::new(),
            credentials_required: false,
            history: 10_000,
            watch_buffer: 10_000,
            journal: 0,
            admin: false,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("ids", &self.ids)
            .field("admission", &self.admission)
            .field("plugins", &self.plugins)
            .field("managed_fields", &self.managed_fields)
            .field("history", &self.history)
            .field("watch_buffer", &self.watch_buffer)
            .field("journal", &self.journal)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}
