//! Polling in several phases, and the strategies that have names.

use std::time::Duration;

use rand::rngs::SmallRng;

use super::{BACKOFF, Jitter, Poll};

/// How a process waits for others.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// In the store's queue, which tells it when its turn has come; it looks itself now and then, lest that gets lost.
    Handoff,
    /// In the same queue, looking more often. The same way for every key.
    Poll(Phases),
    /// The same, but per key, by the hold times of its last turns: see [`Choice`].
    Adaptive,
}

/// Ways of polling, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    /// At least one.
    pub phases: Vec<Phase>,
    /// What comes after the last one.
    pub then: Then,
}

/// What comes after the last way of polling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing: it has no bounds.
    Never,
    /// The caller gives up.
    Fail,
    /// See [`Strategy::Handoff`].
    Handoff,
}

/// One way of polling, and when it is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// The pauses.
    pub poll: Poll,
    /// Left after this long.
    pub max_duration: Option<Duration>,
    /// Left after this many attempts, the first of all included.
    pub max_attempts: Option<u32>,
}

/// What the adaptive strategy can choose: spinning wins when a lock is free again before a sleeper would have looked, and
/// only costs commands when it isn't. Cf. adaptive mutexes (Karlin et al., SOSP 1991).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Hold times below 50 ms (p99): 5 ms for 1 200 ms, then backoff.
    Spin,
    /// Above 200 ms: backoff.
    Backoff,
    /// Between, or unknown: 5 ms for 200 ms, then backoff.
    Hybrid,
}

impl Choice {
    /// For hold times with this 99th percentile.
    pub fn of(p99: Option<Duration>) -> Choice {
        match p99 {
            Some(p99) if p99 < Duration::from_millis(50) => Choice::Spin,
            Some(p99) if p99 > Duration::from_millis(200) => Choice::Backoff,
            _ => Choice::Hybrid,
        }
    }

    /// The way of waiting.
    pub fn phases(self) -> Phases {
        let spin = |millis| Phase {
            poll: Poll {
                interval: Duration::from_millis(5),
                factor: 1.0,
                cap: Duration::from_millis(5),
                jitter: Jitter::UpTo(0.0),
            },
            max_duration: Some(Duration::from_millis(millis)),
            max_attempts: None,
        };
        let backoff = Phase { poll: BACKOFF, max_duration: None, max_attempts: None };
        let phases = match self {
            Choice::Spin => vec![spin(1_200), backoff],
            Choice::Backoff => vec![backoff],
            Choice::Hybrid => vec![spin(200), backoff],
        };
        Phases { phases, then: Then::Never }
    }
}

impl Strategy {
    /// The strategy of this name: `adaptive`, or one of [`Phases::named`].
    pub fn named(name: &str) -> Option<Strategy> {
        match name {
            "handoff" => Some(Strategy::Handoff),
            "adaptive" => Some(Strategy::Adaptive),
            name => Phases::named(name).map(Strategy::Poll),
        }
    }

    /// The longest pause between two attempts.
    pub fn longest_pause(&self) -> Duration {
        match self {
            Strategy::Handoff => Duration::ZERO,
            Strategy::Poll(phases) => phases.phases.iter().map(|phase| phase.poll.cap).max().unwrap_or_default(),
            Strategy::Adaptive => BACKOFF.cap,
        }
    }
}

impl Phases {
    /// `fixed`: every 100 ms. `spin`, `backoff`, `hybrid`: see [`Choice`]. `spin-subscribe`: 1 ms × 2 up to 100 ms × [0.75, 1] for 100 attempts or
    /// 1 000 ms (the published defaults of Redisson's spin lock), then [`Strategy::Handoff`].
    pub fn named(name: &str) -> Option<Phases> {
        Some(match name {
            "spin" => Choice::Spin.phases(),
            "backoff" => Choice::Backoff.phases(),
            "hybrid" => Choice::Hybrid.phases(),
            "fixed" => {
                let interval = Duration::from_millis(100);
                let poll = Poll { interval, factor: 1.0, cap: interval, jitter: Jitter::UpTo(0.0) };
                Phases { phases: vec![Phase { poll, max_duration: None, max_attempts: None }], then: Then::Never }
            }
            "spin-subscribe" => Phases {
                phases: vec![Phase {
                    poll: Poll {
                        interval: Duration::from_millis(1),
                        factor: 2.0,
                        cap: Duration::from_millis(100),
                        jitter: Jitter::Between(0.75, 1.0),
                    },
                    max_duration: Some(Duration::from_millis(1_000)),
                    max_attempts: Some(100),
                }],
                then: Then::Handoff,
            },
            _ => return None,
        })
    }

    /// How long all of it takes at the most, if it ends: for callers who don't ask themselves because others of their
    /// process come first. An attempt counts as a millisecond at least.
    pub fn patience(&self) -> Option<Duration> {
        if self.then != Then::Fail {
            return None;
        }
        let mut all = Duration::ZERO;
        for phase in &self.phases {
            all = all.saturating_add(phase.patience()?);
        }
        Some(all)
    }
}

impl Phase {
    fn patience(&self) -> Option<Duration> {
        let Some(attempts) = self.max_attempts else {
            return self.max_duration;
        };
        let longest = match self.poll.jitter {
            Jitter::UpTo(share) => 1.0 + share,
            Jitter::Between(_, high) => high,
            Jitter::Full | Jitter::Equal => 1.0,
            // Grows up to the cap, from wherever it is.
            Jitter::Decorrelated => f64::MAX,
        };
        let mut all = Duration::ZERO;
        let mut last = Duration::ZERO;
        for attempt in 1..=attempts {
            let plain = (self.poll.plain(attempt).as_secs_f64() * longest).min(self.poll.cap.as_secs_f64());
            let pause = Duration::from_secs_f64(plain).max(Duration::from_millis(1));
            if pause == last {
                // It grows no more.
                all = all.saturating_add(pause.saturating_mul(attempts - attempt + 1));
                break;
            }
            all = all.saturating_add(pause);
            last = pause;
        }
        Some(self.max_duration.map_or(all, |most| most.min(all)))
    }
}

/// How far a wait has come in its strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    phase: usize,
    /// When this phase began, counted from the beginning of the wait.
    began: Duration,
    /// In this phase.
    attempts: u32,
    pauses: u32,
    last: Duration,
}

impl Pace {
    /// The pause after an attempt that was answered `elapsed` after the first of this wait. `None`: that was the last phase.
    pub fn next(&mut self, phases: &Phases, elapsed: Duration, random: &mut SmallRng) -> Option<Duration> {
        self.attempts += 1;
        loop {
            let phase = phases.phases.get(self.phase)?;
            let last_one = phases.then == Then::Never && self.phase + 1 == phases.phases.len();
            let spent = elapsed.saturating_sub(self.began);
            let over = phase.max_attempts.is_some_and(|most| self.attempts >= most)
                || phase.max_duration.is_some_and(|most| spent >= most);
            if !over || last_one {
                self.pauses += 1;
                let pause = phase.poll.pause(self.pauses, self.last, random);
                self.last = pause;
                // Not beyond the end of the phase: what comes then may be quicker, or the end.
                let left = phase.max_duration.filter(|_| !last_one).map(|most| most.saturating_sub(spent));
                return Some(left.map_or(pause, |left| pause.min(left)));
            }
            *self = Pace { phase: self.phase + 1, began: elapsed, ..Pace::default() };
        }
    }

    /// Whether it is in its first phase.
    pub fn is_in_first_phase(&self) -> bool {
        self.phase == 0
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn every(interval: u64, max_duration: Option<u64>, max_attempts: Option<u32>) -> Phase {
        let poll = Poll { interval: millis(interval), factor: 1.0, cap: millis(interval), jitter: Jitter::UpTo(0.0) };
        Phase { poll, max_duration: max_duration.map(millis), max_attempts }
    }

    /// When the attempts come that are answered in `round_trip` each, until the end or `until`.
    fn attempts(phases: &Phases, round_trip: u64, until: u64) -> (Vec<u64>, bool) {
        let mut random = SmallRng::seed_from_u64(7);
        let (mut pace, mut sent, mut elapsed) = (Pace::default(), vec![0], Duration::ZERO);
        while elapsed < millis(until) {
            match pace.next(phases, elapsed, &mut random) {
                Some(pause) => sent.push((elapsed + pause).as_millis() as u64),
                None => return (sent, true),
            }
            elapsed = millis(*sent.last().unwrap_or(&0) + round_trip);
        }
        (sent, false)
    }

    #[test]
    fn a_phase_ends_after_its_attempts_the_first_included() {
        let phases = Phases { phases: vec![every(100, None, Some(3))], then: Then::Fail };
        assert_eq!(attempts(&phases, 1, 10_000), (vec![0, 100, 201], true));
        assert_eq!(phases.patience(), Some(millis(300)));
    }

    #[test]
    fn a_phase_ends_after_its_duration_and_is_not_slept_beyond() {
        let phases = Phases { phases: vec![every(100, Some(250), None)], then: Then::Fail };
        assert_eq!(attempts(&phases, 0, 10_000), (vec![0, 100, 200, 250], true));
        assert_eq!(phases.patience(), Some(millis(250)));
    }

    #[test]
    fn phases_follow_each_other() {
        let phases = Phases {
            phases: vec![every(0, Some(500), Some(3)), every(10, None, Some(2)), every(50, None, None)],
            then: Then::Never,
        };
        assert_eq!(attempts(&phases, 1, 200), (vec![0, 0, 1, 12, 23, 74, 125, 176, 227], false));
        assert_eq!(phases.patience(), None);
    }

    #[test]
    fn bounds_of_a_last_phase_that_nothing_follows_do_not_count() {
        let phases = Phases { phases: vec![every(10, Some(20), Some(2))], then: Then::Never };
        assert_eq!(attempts(&phases, 0, 60).0, [0, 10, 20, 30, 40, 50, 60]);
    }

    #[test]
    fn spinning_is_left_for_backoff() {
        let (sent, ended) = attempts(&Choice::Hybrid.phases(), 0, 3_000);
        assert!(!ended);
        assert_eq!(sent.iter().filter(|at| **at <= 200).count(), 41);
        let after: Vec<u64> = sent.iter().copied().filter(|at| *at > 200).collect();
        let backs_off = |first, second| (250..=265).contains(&first) && (350..=395).contains(&second);
        assert!(matches!(after.as_slice(), [first, second, ..] if backs_off(*first, *second)), "{after:?}");
        assert_eq!(attempts(&Choice::Spin.phases(), 0, 1_199).0.len(), 241);
        assert_eq!(attempts(&Choice::Backoff.phases(), 0, 400).0.len(), 5);
    }

    #[test]
    fn the_choice_follows_the_hold_times() {
        assert_eq!(Choice::of(None), Choice::Hybrid);
        for (p99, choice) in [(49, Choice::Spin), (50, Choice::Hybrid), (200, Choice::Hybrid), (201, Choice::Backoff)]
        {
            assert_eq!(Choice::of(Some(millis(p99))), choice, "{p99}");
        }
    }

    #[test]
    fn patience_without_pauses_counts_a_millisecond_an_attempt() {
        let phases = Phases { phases: vec![every(0, None, Some(500))], then: Then::Fail };
        assert_eq!(phases.patience(), Some(millis(500)));
        let poll = Poll { interval: millis(1), factor: 2.0, cap: millis(8), jitter: Jitter::UpTo(0.0) };
        let growing = Phase { poll, max_duration: None, max_attempts: Some(u32::MAX) };
        let all = growing.patience().unwrap_or_default();
        assert_eq!(all, millis(7) + millis(8) * (u32::MAX - 3));
    }
}
