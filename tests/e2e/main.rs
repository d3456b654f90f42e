//! The end-to-end suite: the same scenarios on every target, each as a test of the name `TARGET::SCENARIO`.
//!
//! `matrix` has the scenarios, and where each is run; `target` says what a target has to be able to do. A target that is not
//! there is told on stderr as NOT RUN, with the reason, and its tests are listed as ignored. The variable `PVBIND_E2E_TARGET`
//! names targets that have to be there, separated by commas: nothing else is run then, and what is missing is a failure.

mod available;
mod cluster;
mod fake;
mod invariants;
mod kind;
mod kubeconfig;
mod matrix;
mod node;
mod objects;
mod processes;
mod proxy;
mod real;
mod run;
mod scenarios;
mod stage;
mod target;

use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let asked = available::asked();
    let places: Vec<_> = matrix::targets().into_iter().map(|row| Arc::new(run::Place::new(row))).collect();
    let mut trials = Vec::new();
    for place in places
        .iter()
        .filter(|place| asked.is_none_or(|asked| asked.split(',').any(|name| name == place.name())))
    {
        trials.extend(run::trials(place, asked.is_some(), &arguments));
    }
    trials.push(Trial::test("docs::the_table_is_the_matrix", || {
        matrix::check_docs();
        Ok(())
    }));
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Programs end here; leaving the process would only leave them.
    drop(places);
    conclusion.exit();
}
