//! Running scenarios on a target: which of them at once, and what is told when one cannot run or fails.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use control_plane::not_run;
use futures::FutureExt;
use libtest_mimic::{Arguments, Trial};

use crate::matrix::{self, Scenario, Sharing};
use crate::stage::Stage;
use crate::target::{Row, Target};

/// A target, and who is on it.
pub struct Place {
    row: Row,
    target: OnceLock<Arc<dyn Target>>,
    /// Scenarios that share it read, one that wants to be alone writes.
    use_of: RwLock<()>,
}

impl Place {
    pub fn new(row: Row) -> Self {
        Place { row, target: OnceLock::new(), use_of: RwLock::new(()) }
    }

    pub fn name(&self) -> &'static str {
        self.row.name
    }

    fn target(&self) -> Arc<dyn Target> {
        self.target.get_or_init(|| Arc::from((self.row.open)())).clone()
    }

    /// Why a scenario cannot run here and now, if so.
    fn obstacle(&self, scenario: &Scenario) -> Option<String> {
        scenario.needs.iter().find_map(|program| (self.row.lacks)(*program).err())
    }

    fn run(&self, scenario: &Scenario) {
        // A scenario that failed leaves nothing that the next one cannot mend.
        let (mut _shared, mut _alone) = (None, None);
        match scenario.sharing {
            Sharing::Shared => _shared = Some(self.use_of.read().unwrap_or_else(PoisonError::into_inner)),
            Sharing::Alone => _alone = Some(self.use_of.write().unwrap_or_else(PoisonError::into_inner)),
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let target = self.target();
        runtime.expect("a runtime").block_on(play(self.name(), target, scenario));
    }
}

/// Plays a scenario to its end, good or bad, and leaves nothing of it behind.
async fn play(place: &str, target: Arc<dyn Target>, scenario: &Scenario) {
    let start = Instant::now();
    let stage = Stage::open(target, scenario).await;
    let played = async {
        (scenario.run)(&stage).await;
        stage.check_invariants().await;
    };
    let played = AssertUnwindSafe(played).catch_unwind().await;
    let took = start.elapsed().as_secs_f32();
    if played.is_err() {
        stage.tell().await;
    }
    stage.clean_up().await;
    let all = start.elapsed().as_secs_f32();
    eprintln!("{place}::{}: {took:.1} s, {all:.1} s with what was left to remove", scenario.name);
    if let Err(panic) = played {
        std::panic::resume_unwind(panic);
    }
}

/// The tests of a target. `required` says that it has to be there.
pub fn trials(place: &Arc<Place>, required: bool, arguments: &Arguments) -> Vec<Trial> {
    let missing = (place.row.missing)().err();
    let wanted = |name: &str| match &arguments.filter {
        Some(filter) if arguments.exact => name == filter,
        Some(filter) => name.contains(filter.as_str()),
        None => true,
    };
    let mut trials = Vec::new();
    for scenario in
        matrix::SCENARIOS.iter().filter(|scenario| scenario.reason_against(place.name()).is_none())
    {
        let name = format!("{}::{}", place.name(), scenario.name);
        let obstacle = missing.clone().or_else(|| place.obstacle(scenario));
        if let Some(why) = obstacle.as_ref().filter(|_| missing.is_none() && wanted(&name) && !arguments.list)
        {
            not_run(&format!("{name}: {why}"));
        }
        let (place, ignored) = (place.clone(), obstacle.is_some() && !required);
        let trial = Trial::test(name, move || {
            if let Some(why) = obstacle {
                return Err(format!("cannot run: {why}").into());
            }
            place.run(scenario);
            Ok(())
        });
        trials.push(trial.with_ignored_flag(ignored));
    }
    if let Some(why) = missing.filter(|_| !arguments.list && trials.iter().any(|trial| wanted(trial.name())))
    {
        not_run(&format!("{}::*, {} scenarios: {why}", place.name(), trials.len()));
    }
    trials
}
