//! How long to wait between two attempts to take a lock that somebody else has.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

/// Polling with growing pauses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Poll {
    /// The first pause.
    pub interval: Duration,
    /// By how much each pause is longer than the one before.
    pub factor: f64,
    /// The longest pause.
    pub cap: Duration,
    /// Up to this share is added at random (and capped after), so that processes don't ask in step.
    pub jitter: f64,
}

/// 50 ms × 2 up to 1 s, jitter 0.3.
pub const BACKOFF: Poll =
    Poll { interval: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.3 };

/// Reconnecting after trouble: starts at once, so that a restarted server is noticed, and spreads a fleet evenly.
pub const RECONNECT: Poll =
    Poll { interval: Duration::from_millis(20), factor: 2.0, cap: Duration::from_millis(1_000), jitter: 0.0 };

impl Poll {
    /// The pause after `attempts` attempts (1 for the first).
    pub fn pause(&self, attempts: u32, random: &mut SmallRng) -> Duration {
        let plain = self.plain(attempts);
        plain.mul_f64(1.0 + self.jitter * random.random::<f64>()).min(self.cap)
    }

    /// Somewhere between nothing and the pause ("full jitter": Brooker, *Exponential Backoff And Jitter*, 2015):
    /// for errors that many processes see at the same instant.
    pub fn full_jitter(&self, attempts: u32, random: &mut SmallRng) -> Duration {
        self.plain(attempts).mul_f64(random.random::<f64>())
    }

    fn plain(&self, attempts: u32) -> Duration {
        let exponent = attempts.saturating_sub(1).min(64) as i32;
        let millis = self.interval.as_secs_f64() * self.factor.powi(exponent);
        Duration::from_secs_f64(millis.min(self.cap.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn backoff_doubles_from_50_ms_to_1_s_with_up_to_30_percent_more() {
        let mut random = SmallRng::seed_from_u64(7);
        for _ in 0..1_000 {
            for (attempts, plain) in [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1_000), (99, 1_000)] {
                let pause = BACKOFF.pause(attempts, &mut random).as_millis();
                assert!((plain..=(plain * 13 / 10).min(1_000)).contains(&pause), "{attempts}: {pause}");
            }
            assert!(RECONNECT.full_jitter(3, &mut random) <= Duration::from_millis(80));
        }
    }
}
