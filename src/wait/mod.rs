//! How long to wait between two attempts to take a lock that somebody else has, and between attempts to connect.

mod hold_times;
mod poll;
mod strategy;

pub use hold_times::HoldTimes;
pub use poll::{Jitter, Poll};
pub use strategy::{Choice, Pace, Phase, Phases, Strategy, Then};

use std::time::Duration;

/// 50 ms × 2 up to 1 s, jitter 0.3.
pub const BACKOFF: Poll =
    Poll { interval: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: Jitter::UpTo(0.3) };

/// Reconnecting after trouble: starts at once, so that a restarted server is noticed, and spreads a fleet evenly.
pub const RECONNECT: Poll = Poll {
    interval: Duration::from_millis(20),
    factor: 2.0,
    cap: Duration::from_millis(1_000),
    jitter: Jitter::Full,
};
