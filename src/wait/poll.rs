//! Pauses that grow.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

/// Polling with growing pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poll {
    /// The first pause; may be zero.
    pub interval: Duration,
    /// By how much each pause is longer than the one before.
    pub factor: f64,
    /// The longest pause.
    pub cap: Duration,
    /// Chance, so that processes don't ask in step.
    pub jitter: Jitter,
}

/// What chance does to a pause. `Full`, `Equal` and `Decorrelated` are those of Brooker, *Exponential Backoff And Jitter*, 2015.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Adds up to this share, capped after.
    UpTo(f64),
    /// Multiplies by something between, capped after.
    Between(f64, f64),
    /// Somewhere between nothing and the pause: for errors that many processes see at the same instant.
    Full,
    /// Somewhere between half of the pause and all of it.
    Equal,
    /// Somewhere between the interval and three times the pause before, capped.
    Decorrelated,
}

impl Poll {
    /// The pause after `attempts` attempts (1 for the first), of which the last was preceded by a pause of `before`.
    pub fn pause(&self, attempts: u32, before: Duration, random: &mut SmallRng) -> Duration {
        let plain = self.plain(attempts);
        let chance = random.random::<f64>();
        let pause = match self.jitter {
            Jitter::UpTo(share) => plain.mul_f64(1.0 + share * chance),
            Jitter::Between(low, high) => plain.mul_f64(low + (high - low) * chance),
            Jitter::Full => plain.mul_f64(chance),
            Jitter::Equal => plain.mul_f64(0.5 + 0.5 * chance),
            Jitter::Decorrelated => self.interval + (before * 3).saturating_sub(self.interval).mul_f64(chance),
        };
        pause.min(self.cap)
    }

    /// The pause without chance.
    pub(super) fn plain(&self, attempts: u32) -> Duration {
        let exponent = attempts.saturating_sub(1).min(64) as i32;
        let seconds = self.interval.as_secs_f64() * self.factor.powi(exponent);
        Duration::from_secs_f64(seconds.min(self.cap.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::wait::{BACKOFF, RECONNECT};

    #[test]
    fn backoff_doubles_from_50_ms_to_1_s_with_up_to_30_percent_more() {
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..1_000 {
            for (attempts, plain) in [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1_000), (99, 1_000)] {
                let pause = BACKOFF.pause(attempts, Duration::ZERO, &mut random).as_millis();
                assert!((plain..=(plain * 13 / 10).min(1_000)).contains(&pause), "{attempts}: {pause}");
            }
            assert!(RECONNECT.pause(3, Duration::ZERO, &mut random) <= Duration::from_millis(80));
        }
    }

    #[test]
    fn each_jitter_stays_within_its_bounds_and_uses_all_of_them() {
        let mut random = SmallRng::seed_from_u64(7);
        let millis = Duration::from_millis;
        let cases = [
            (Jitter::UpTo(0.0), 100.0, 100.0),
            (Jitter::UpTo(0.5), 100.0, 150.0),
            (Jitter::Between(0.75, 1.0), 75.0, 100.0),
            (Jitter::Full, 0.0, 100.0),
            (Jitter::Equal, 50.0, 100.0),
            (Jitter::Decorrelated, 100.0, 160.0), // 3 × 80 is over the cap
        ];
        for (jitter, low, high) in cases {
            let poll = Poll { interval: millis(100), factor: 1.0, cap: millis(160), jitter };
            let pauses: Vec<f64> =
                (0..1_000).map(|_| poll.pause(3, millis(80), &mut random).as_secs_f64() * 1e3).collect();
            let (least, most) =
                (pauses.iter().copied().fold(f64::MAX, f64::min), pauses.iter().copied().fold(0.0, f64::max));
            let slack = (high - low) * 0.02 + 0.001;
            assert!(least >= low - 0.001 && most <= high + 0.001, "{jitter:?}: {least} to {most}");
            assert!(least <= low + slack && most >= high - slack, "{jitter:?}: {least} to {most}");
        }
    }
}
