//! Properties of the pure core over random small worlds.
//!
//! Each property is an ordinary test of a few hundred cases, the same ones in every run. `PROPTEST_CASES` asks for
//! more cases and `PROPTEST_RNG_SEED` for others; `just properties` does the first. A failure prints the smallest world
//! that was found, and leaves it as a file for `pvbind simulate -f`.

mod decider;
mod drive;
mod failing;
mod matching;
mod overlay;
mod plans;
mod pure;
mod quantity;
mod render;
mod safety;
mod settle;
mod shapes;
mod valid;
mod view;
mod world;

use std::cell::Cell;
use std::sync::Once;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use crate::failing::Failing;

thread_local! {
    static SEARCHING: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the thousand panics on the way to the smallest failing world off the screen; the last one is reported.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !SEARCHING.get() {
                tell(panic);
            }
        }));
    });
}

/// Checks a property, which panics where it does not hold, for many random values.
fn check<S: Strategy<Value: Failing>>(cases: u32, values: &S, property: impl Fn(S::Value)) {
    let mut config = Config { failure_persistence: None, max_shrink_iters: 1000, ..Config::default() };
    // The default configuration has already taken these two from the environment.
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(1);
    }
    quiet();
    SEARCHING.set(true);
    let found = TestRunner::new(config).run(values, |value| {
        property(value);
        Ok(())
    });
    let left = match &found {
        Err(TestError::Fail(_, smallest)) => failing::leave(smallest, &property),
        Ok(()) | Err(TestError::Abort(_)) => String::new(),
    };
    SEARCHING.set(false);
    if let Err(failure) = found {
        panic!("{failure}{left}");
    }
}

/// A small generator of numbers, for choices that need no shrinking: orders, faults and delays.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        // This is the generator `SplitMix64`.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let end = u64::try_from(end).expect("a small number").max(1);
        usize::try_from(mixed % end).expect("a small number")
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }
}
