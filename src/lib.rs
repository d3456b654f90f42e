//! pvbind: Kubernetes volume binding.
//!
//! Watches show objects to the [`cluster::Cluster`]; a worker takes a [`cluster::Key`]; [`decide::sync`] looks at
//! the cluster and returns a [`decide::Plan`]; the executor in [`act`] performs it and shows the answers to the
//! cluster. The modules are that sentence, in reading order; behind them come the readers of the same plans and
//! the commands.

pub mod objects;

pub mod cluster;

pub mod decide;

pub mod act;

pub mod binder;

pub mod explain;

pub mod manifest;

pub mod simulate;

pub mod cmd;

/// The examples of the page for those who test operators, some of which run this crate's controller, are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/test-your-operator.md")]
struct TestYourOperator;
