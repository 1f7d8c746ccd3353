//! The one clock of the core: it counts the time a machine spends suspended, because a lease in Redis
//! goes on running while a laptop sleeps or a virtual machine is frozen.

use std::ops::{Add, Sub};
use std::sync::OnceLock;
use std::time::Duration;

use boot_time::Instant;

/// An instant of this process, in whole microseconds since the clock was first read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Later than any instant that will be reached.
    pub const NEVER: Time = Time(u64::MAX);

    /// Now.
    pub fn now() -> Time {
        static START: OnceLock<Instant> = OnceLock::new();
        let start = START.get_or_init(Instant::now);
        // Starts above zero, so that "a while ago" can be said of the first instants too.
        Time(1_000_000_000 + start.elapsed().as_micros() as u64)
    }

    /// The instant `micros` after the clock's origin; for tests and for simulated time.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros)
    }

    /// Microseconds since the clock's origin.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The last instant not after this one that is a multiple of `grid`: things due at about the same time
    /// are done at the same time.
    pub fn floor(self, grid: Duration) -> Time {
        let grid = (grid.as_micros() as u64).max(1);
        Time(self.0 - self.0 % grid)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}
