//! How many requests may be under way at once, from how those before were answered.
//!
//! Pure: it is told the time. It starts where nothing is held up, shrinks by half when the API server says that it has too
//! much to do, fails or does not answer, by as much as they are late when answers take long, and grows again while it is what
//! holds requests up and all is well: fast to where the trouble was, then a step now and then, more and more often as long
//! as that goes well. Answers to the rate limiter of client-go, which knows a fixed rate only.

use std::time::Duration;

use tokio::time::Instant;

/// How many requests may be under way where nothing is wrong: more than there are executors.
pub const MOST: usize = 2048;
/// How long answers are looked at together.
const WINDOW: Duration = Duration::from_millis(100);
/// Answers that take less are never too slow: what Kubernetes promises for one write.
const SLOW: Duration = Duration::from_secs(1);
/// How much longer than usual answers have to take to be too slow.
const SLOWER: f64 = 4.0;
/// How much longer than before answers may usually take, a second later: a server that has moved is not slow for ever.
const DRIFT: f64 = 0.01;
/// Where so few are under way, one answer says little about how many there may be.
const FEW: f64 = 32.0;
/// How long it stays just below where trouble was, at first.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a server may have us pause with one answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server did something about it, be it to refuse it.
    Done,
    /// The server has too much to do, and perhaps said how long to leave it alone (429).
    TooMany(Option<Duration>),
    /// The server failed (5xx), or there was no answer.
    Trouble,
}

/// See the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct Limit {
    allowed: f64,
    /// What was answered since the last look.
    since: Instant,
    answered: u32,
    seconds: f64,
    /// The most that was under way since then.
    busiest: usize,
    /// How long answers take when all is well, as a mean.
    usual: Option<f64>,
    /// How much was under way when it last shrank.
    trouble: f64,
    /// How long it stays at about that before it goes a step further, and since when it does.
    patience: Duration,
    stays: Instant,
    /// When it last shrank: how requests from before that are answered is no news.
    shrank: Option<Instant>,
    /// Until when nothing is to be sent.
    paused: Option<Instant>,
}

impl Limit {
    /// Holds nothing up yet.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    pub fn new(now: Instant) -> Self {
        Limit {
            allowed: MOST as f64,
            since: now,
            answered: 0,
            seconds: 0.0,
            busiest: 0,
            usual: None,
            trouble: MOST as f64,
            patience: Duration::ZERO,
            stays: now,
            shrank: None,
            paused: None,
        }
    }

    /// How many requests may be under way.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 1 and MOST")]
    pub fn allowed(&self) -> usize {
        self.allowed as usize
    }

    /// Until when nothing is to be sent, if the server has asked for that.
    #[must_use]
    pub fn paused(&self) -> Option<Instant> {
        self.paused
    }

    /// Takes note that so many are under way.
    pub fn sent(&mut self, under_way: usize) {
        self.busiest = self.busiest.max(under_way);
    }

    /// Takes note of how a request was answered that was sent then, with so many under way, itself included.
    pub fn answered(&mut self, answer: Answer, sent: Instant, now: Instant, under_way: usize) {
        self.busiest = self.busiest.max(under_way);
        match answer {
            Answer::TooMany(pause) => {
                let until = now + pause.unwrap_or_default().min(LONGEST_PAUSE);
                self.paused = Some(self.paused.map_or(until, |paused| paused.max(until)));
                self.shrink(0.5, sent, now);
            }
            Answer::Trouble => self.shrink(0.5, sent, now),
            Answer::Done => {
                self.answered += 1;
                self.seconds += now.duration_since(sent).as_secs_f64();
                if now.duration_since(self.since) >= WINDOW {
                    self.look(sent, now);
                }
            }
        }
    }

    /// Looks at the answers of a while.
    fn look(&mut self, sent: Instant, now: Instant) {
        let mean = self.seconds / f64::from(self.answered.max(1));
        let drift = 1.0 + DRIFT * now.duration_since(self.since).as_secs_f64();
        let usual = self.usual.map_or(mean, |usual| mean.min(usual * drift));
        let slow = SLOW.as_secs_f64().max(usual * SLOWER);
        self.usual = Some(usual);
        if mean > slow {
            self.shrink((slow / mean).clamp(0.5, 0.9), sent, now);
        } else if self.busiest >= self.allowed() {
            self.grow(now);
        }
        self.begin(now);
    }

    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    fn grow(&mut self, now: Instant) {
        let next = (self.allowed + (self.allowed / 8.0).max(1.0)).min(MOST as f64);
        if next >= self.trouble && now.duration_since(self.stays) < self.patience {
            return;
        }
        if next >= self.trouble {
            // The trouble is no more where it was.
            (self.trouble, self.patience, self.stays) = (next, self.patience / 2, now);
        }
        self.allowed = next;
    }

    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    fn shrink(&mut self, to: f64, sent: Instant, now: Instant) {
        if self.shrank.is_some_and(|shrank| sent < shrank) {
            return;
        }
        let trouble = self.allowed.min((self.busiest as f64).max(FEW));
        (self.trouble, self.patience, self.stays) = (trouble, PATIENCE, now);
        self.shrank = Some(now);
        self.allowed = (trouble * to).max(1.0);
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        (self.since, self.answered, self.seconds, self.busiest) = (now, 0, 0.0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Has so many requests answered at once, each after so long.
    fn round(limit: &mut Limit, now: &mut Instant, count: usize, took: Duration, answer: Answer) {
        let sent = *now;
        let count = count.min(limit.allowed());
        for under_way in 1..=count {
            limit.sent(under_way);
        }
        *now += took;
        for under_way in (1..=count).rev() {
            limit.answered(answer, sent, *now, under_way);
        }
    }

    #[test]
    fn a_server_that_is_well_is_never_held_back() {
        let mut now = Instant::now();
        let mut limit = Limit::new(now);
        for took in [1, 30, 2, 200, 800, 5, 900].into_iter().cycle().take(1000) {
            round(&mut limit, &mut now, 512, took * MILLI, Answer::Done);
        }
        assert_eq!(limit.allowed(), MOST);
    }

    #[test]
    fn what_is_refused_at_once_counts_once_and_it_recovers_in_seconds() {
        let mut now = Instant::now();
        let start = now;
        let mut limit = Limit::new(now);
        round(&mut limit, &mut now, 64, MILLI, Answer::TooMany(None));
        assert_eq!(limit.allowed(), 32);
        for _ in 0..9 {
            round(&mut limit, &mut now, 64, MILLI, Answer::Trouble);
        }
        assert_eq!(limit.allowed(), 1, "and never none");
        while limit.allowed() < 64 {
            round(&mut limit, &mut now, 64, 10 * MILLI, Answer::Done);
        }
        let took = now.duration_since(start);
        assert!(took < Duration::from_secs(12), "{took:?}");
    }

    #[test]
    fn one_failure_among_few_holds_nobody_up_for_long() {
        let mut now = Instant::now();
        let mut limit = Limit::new(now);
        round(&mut limit, &mut now, 1, MILLI, Answer::Trouble);
        assert_eq!(limit.allowed(), 16);
    }

    #[test]
    fn answers_that_take_long_shrink_it_until_they_do_not() {
        let mut now = Instant::now();
        let mut limit = Limit::new(now);
        // A server that does fifty a second, in whatever order.
        for round_number in 0..100 {
            let count = limit.allowed().min(if round_number < 5 { 4 } else { 256 });
            round(
                &mut limit,
                &mut now,
                count,
                u32::try_from(count).unwrap() * Duration::from_millis(20),
                Answer::Done,
            );
        }
        assert!((25..=60).contains(&limit.allowed()), "{}", limit.allowed());
    }

    #[test]
    fn a_server_that_is_always_slow_is_not_given_up() {
        let mut now = Instant::now();
        let mut limit = Limit::new(now);
        for _ in 0..200 {
            round(&mut limit, &mut now, 64, Duration::from_secs(2), Answer::Done);
        }
        assert!(limit.allowed() >= 64, "{}", limit.allowed());
    }

    #[test]
    fn a_pause_is_as_long_as_the_server_says_and_no_longer_than_a_minute() {
        let now = Instant::now();
        let mut limit = Limit::new(now);
        for (asked, got) in [(3, 3), (1, 3), (7200, 60)] {
            limit.answered(Answer::TooMany(Some(Duration::from_secs(asked))), now, now, 1);
            assert_eq!(limit.paused(), Some(now + Duration::from_secs(got)));
        }
    }
}
