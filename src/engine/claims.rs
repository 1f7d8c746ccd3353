//! The calls that are under way and the locks that are held.

use std::sync::Arc;
use std::time::Duration;

use super::Listener;
use super::statistics::Statistics;
use crate::clock::Time;
use crate::lease::{ClaimId, Ttl, Turn, Waiter};
use crate::wait::Strategy;

/// One call, from its beginning until the lock is given back or lost.
pub(super) struct Claim {
    pub(super) listener: Arc<dyn Listener>,
    /// The listener's name for it.
    pub(super) slot: u32,
    pub(super) manager: u32,
    /// Where its lease stands.
    pub(super) lease: usize,
    pub(super) terms: Terms,
    /// How it waits.
    pub(super) strategy: Arc<Strategy>,
    pub(super) state: State,
    /// When it began to wait, or to hold.
    pub(super) since: Time,
    /// When it began to wait.
    pub(super) began: Time,
    /// The listener's name for the news that it holds.
    pub(super) grant: u64,
    /// When its patience ends.
    pub(super) timer: Option<Time>,
    /// When that of a caller ends who asks for itself: those behind it give up when as much time is over as its strategy takes.
    pub(super) last: Option<Time>,
}

/// What a holder has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The lease.
    pub ttl: Ttl,
    /// Renew while held.
    pub renewed: bool,
    /// How long it may be held at the most; `None`: for ever.
    pub max_hold: Option<Duration>,
    /// How long its listener may give no sign of life before it isn't renewed any more; `None`: for ever.
    pub max_stall: Option<Duration>,
    /// How long the key stays taken at least.
    pub min_hold: Duration,
    /// What bounds a turn that begins with it.
    pub turn: Turn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting {
        /// One attempt only.
        once: bool,
    },
    /// Turning what somebody else has left into a lock.
    Adopting,
    Held,
    /// Given back; the store hasn't said so yet.
    Releasing,
    /// An extend of another claim.
    Extending {
        of: ClaimId,
    },
    /// A detach of another claim.
    Detaching {
        of: ClaimId,
    },
}

impl State {
    /// The claim that this one is a call about.
    pub(super) fn of(self) -> Option<ClaimId> {
        match self {
            State::Extending { of } | State::Detaching { of } => Some(of),
            _ => None,
        }
    }
}

pub(super) struct Manager {
    pub(super) listener: Arc<dyn Listener>,
    /// The listener's name for it.
    pub(super) slot: u32,
    pub(super) statistics: Statistics,
}

/// How a caller waits in the store's queue, if it does.
pub(super) struct Waits {
    queues: bool,
    pause: Duration,
}

impl Waits {
    /// Where nobody can be told, a lock is kept for whoever finds its turn by asking until it asks: who asks more seldom than
    /// that doesn't queue.
    const LONGEST_PAUSE: Duration = Duration::from_secs(2);

    pub(super) fn of(strategy: &Strategy, once: bool) -> Waits {
        let pause = strategy.longest_pause();
        Waits { queues: !once && pause <= Waits::LONGEST_PAUSE, pause }
    }
}

impl Terms {
    pub(super) fn waiter(&self, claim: ClaimId, once: bool, Waits { queues, pause }: Waits) -> Waiter {
        let Terms { ttl, renewed, max_hold, turn, .. } = *self;
        Waiter { claim, ttl, once, renewed, max_hold, queues, pause, turn }
    }
}
