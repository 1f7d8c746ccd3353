//! The calls that are under way and the locks that are held.

use std::sync::Arc;

use super::Listener;
use crate::clock::Time;
use crate::lease::{ClaimId, Ttl};

/// One call, from its beginning until the lock is given back or lost.
pub(super) struct Claim {
    pub(super) listener: Arc<dyn Listener>,
    /// The listener's name for it.
    pub(super) slot: u32,
    pub(super) manager: u32,
    /// Where its lease stands.
    pub(super) lease: usize,
    pub(super) ttl: Ttl,
    pub(super) state: State,
    pub(super) since: Time,
    /// When its patience ends.
    pub(super) timer: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting {
        /// One attempt only.
        once: bool,
    },
    Held,
    /// Given back; the store hasn't said so yet.
    Releasing,
    /// An extend of another claim.
    Extending {
        of: ClaimId,
    },
}

/// What a manager has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Locks granted.
    pub acquired: u64,
    /// Of those, handed on inside the process.
    pub handed_on: u64,
    /// Acquisitions that ran out of time.
    pub timeouts: u64,
    /// Single attempts that met a holder.
    pub busy: u64,
    /// Acquisitions that failed or were aborted.
    pub failed: u64,
    /// Locks given back.
    pub released: u64,
    /// Locks lost while held.
    pub lost: u64,
    /// Held now.
    pub held: u64,
    /// Waiting now.
    pub waiting: u64,
}

pub(super) struct Manager {
    pub(super) listener: Arc<dyn Listener>,
    /// The listener's name for it.
    pub(super) slot: u32,
    pub(super) counters: Counters,
}
