//! The volume plugin of upstream's tests: it supports every volume and answers what the record says.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use pvbind::act::VolumePlugin;
use pvbind::act::plugin::ATTEMPTS;
use pvbind::decide::plugin::{Answer, Call, Failure, Plugin, Recycling, Source, Wanted};
use pvbind::objects::Volume;
use pvbind::objects::translation::Drivers;

use crate::record::{PluginCalls, Record};

/// The plugin's name.
pub const NAME: &str = "kubernetes.io/mock-volume";

/// The plugin, as far as decisions go.
pub const PLUGINS: &[Plugin] = &[Plugin {
    name: NAME,
    volumes: Source::Any,
    provisions: true,
    deletes: true,
    recycles: Recycling::Call,
    mount_options: false,
}];

const DRIVER: &str = "vendor.com/MockCSIDriver";

/// Every provisioner that these records have counts as migrated to one driver, the driver itself too.
pub const DRIVERS: Drivers = &[(NAME, DRIVER), (DRIVER, DRIVER)];

/// How often each method was called with a result left for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub provision: usize,
    pub delete: usize,
    pub recycle: usize,
}

/// The plugin, shared by whoever calls it and whoever counts.
#[derive(Clone, Debug)]
pub struct Mock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    calls: PluginCalls,
    /// What upstream's plugin made, in order.
    made: VecDeque<Volume>,
    used: Used,
}

impl Mock {
    pub fn new(record: &Record) -> Self {
        let calls = record.plugin_calls().cloned().unwrap_or_default();
        let state = State { calls, made: record.made_volumes(), used: Used::default() };
        Mock(Arc::new(Mutex::new(state)))
    }

    pub fn used(&self) -> Used {
        self.state().used
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what the caller of plugins does.
    pub fn call(&self, call: &Call) -> Answer {
        match call {
            Call::Provision(wanted) => self.make(wanted).map(|volume| Some(Arc::new(volume))),
            Call::Delete { .. } => self.remove().map(|()| None),
            Call::Recycle { .. } => self.scrub().map(|()| None),
            Call::CleanUp { .. } => {
                let mut answer = self.remove();
                for _ in 1..ATTEMPTS {
                    if answer.is_ok() {
                        break;
                    }
                    answer = self.remove();
                }
                answer.map(|()| None)
            }
        }
    }

    fn make(&self, wanted: &Wanted) -> Result<Volume, Failure> {
        let mut state = self.state();
        let calls = state.calls.provision.clone().unwrap_or_default();
        if calls.is_empty() {
            return Err(unconfigured("provision"));
        }
        let index = state.used.provision;
        let Some(call) = calls.get(index) else { return Err(unexpected("provisioner", index)) };
        state.used.provision += 1;
        let parameters = wanted.class.parameters.clone().unwrap_or_default();
        if parameters != call.expected_parameters {
            return Err(Failure::Failed("Mock plugin error: invalid provisioner call".to_owned()));
        }
        match &call.error {
            Some(error) => Err(Failure::Failed(error.clone())),
            None => Ok(state.made.pop_front().expect("a recorded volume")),
        }
    }

    fn remove(&self) -> Result<(), Failure> {
        let mut state = self.state();
        let calls = state.calls.delete.clone().unwrap_or_default();
        if calls.is_empty() {
            return Err(unconfigured("delete"));
        }
        let index = state.used.delete;
        let Some(call) = calls.get(index) else { return Err(unexpected("deleter", index)) };
        state.used.delete += 1;
        call.clone().map_or(Ok(()), |error| Err(Failure::Failed(error)))
    }

    fn scrub(&self) -> Result<(), Failure> {
        let mut state = self.state();
        let calls = state.calls.recycle.clone().unwrap_or_default();
        if calls.is_empty() {
            return Err(unconfigured("recycle"));
        }
        let index = state.used.recycle;
        let Some(call) = calls.get(index) else { return Err(unexpected("recycle", index)) };
        state.used.recycle += 1;
        call.clone().map_or(Ok(()), |error| Err(Failure::Failed(error)))
    }
}

fn unconfigured(what: &str) -> Failure {
    Failure::Setup(format!("Mock plugin error: no {what}Calls configured"))
}

fn unexpected(what: &str, index: usize) -> Failure {
    Failure::Failed(format!("Mock plugin error: unexpected {what} call {index}"))
}

impl VolumePlugin for Mock {
    fn name(&self) -> &'static str {
        NAME
    }

    fn provision<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Volume, Failure>> {
        Box::pin(async move { self.make(wanted) })
    }

    fn delete<'a>(&'a self, _: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.remove() })
    }

    fn recycle<'a>(&'a self, _: &'a Volume) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.scrub() })
    }
}
