//! The lease time and everything that is derived from it.

use std::time::Duration;

use crate::clock::Time;

/// How long a lease lives without renewal, in whole milliseconds.
///
/// The key in Redis lives `ttl + grace`, the holder believes `ttl − drift` counted from the instant
/// *before* the command was sent: the difference covers clocks that run at different rates and writes
/// that are under way when the holder learns that its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

/// How long the server keeps a queue that nobody looks at.
const QUEUE_LASTS: Ttl = Ttl(60_000);

impl Ttl {
    /// A lease of `millis`.
    pub const fn from_millis(millis: u32) -> Ttl {
        Ttl(millis)
    }

    /// For how long something of a turn that asked for this lease may be left: its place in the queue, too.
    pub fn in_queue(self) -> Ttl {
        self.max(QUEUE_LASTS)
    }

    /// As a span of time.
    pub fn span(self) -> Duration {
        Duration::from_millis(u64::from(self.0))
    }

    /// What a local deadline stays short of the ttl: 1 % for clock rates, 2 ms for the server's expiry granularity.
    pub fn drift(self) -> Duration {
        self.span() / 100 + Duration::from_millis(2)
    }

    /// What the server's ttl is longer than ours.
    pub fn grace(self) -> Duration {
        (self.span() / 100).max(Duration::from_millis(10))
    }

    /// The server's ttl in milliseconds: `ttl + grace`, rounded up.
    pub fn server_millis(self) -> u64 {
        (self.span() + self.grace()).as_micros().div_ceil(1_000) as u64
    }

    /// How often something that must not be forgotten is looked at again.
    pub fn beat(self) -> Duration {
        (self.span() / 5).clamp(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// The first ttl of a lease that is granted to a process which hasn't said yet that it is there.
    pub fn claim(self) -> Duration {
        self.span().min(self.beat() * 3) + self.grace()
    }

    /// What must be left of a lease to hand it to another caller.
    pub fn claim_window(self) -> Duration {
        (self.span() / 4).min(Duration::from_millis(250))
    }

    /// When a lease is renewed, counted from its last confirmation.
    pub fn renewal(self) -> Duration {
        self.span() / 3
    }

    /// Pause between attempts to renew while the server doesn't answer.
    pub fn renewal_retry(self) -> Duration {
        (self.span() / 20).clamp(Duration::from_millis(5), Duration::from_millis(250))
    }

    /// Until when a holder may believe a lease whose command was handed to the socket at `sent`.
    pub fn deadline(self, sent: Time) -> Time {
        sent + self.span().saturating_sub(self.drift())
    }

    /// The same for a lease that the server keeps for `left`, grace included, from some instant after `sent` on.
    pub fn deadline_within(self, left: Duration, sent: Time) -> Time {
        sent + left.saturating_sub(self.grace() + left / 100 + Duration::from_millis(2))
    }

    /// When a lease ends that a server of the same clock grants at `now`.
    pub fn ends(self, now: Time) -> Time {
        now + self.span() + self.grace()
    }

    /// When a command sent at `sent` can no longer have left anything on the server, whose clock may be slower.
    pub fn forgotten(self, sent: Time) -> Time {
        self.ends(sent) + self.drift()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_stops_believing_before_the_server_stops() {
        for millis in [100, 101, 999, 10_000, 3_600_000, 2_147_483_647] {
            let ttl = Ttl::from_millis(millis);
            let sent = Time::from_micros(5_000_000);
            let server_ends = sent + Duration::from_millis(ttl.server_millis());
            assert!(ttl.deadline(sent) + ttl.drift() + ttl.grace() <= server_ends);
            assert!(ttl.claim_window() < ttl.span() / 3);
            assert!(sent + ttl.renewal() + ttl.renewal() < ttl.deadline(sent));
        }
    }
}
