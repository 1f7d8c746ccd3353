//! The state of a lock that this process wants and doesn't have.

use super::{Attempt, ClaimId, Op, Token, Ttl};
use crate::clock::Time;

/// A turn that was asked for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    /// What the next take asks for; fixed at the start of the turn, so that a repeated take is the same command.
    pub(super) ttl: Ttl,
    pub(super) block: u32,
    pub(super) attempt: Attempt,
    /// A take was handed to the store and isn't answered.
    pub(super) asked: bool,
    /// When to ask again.
    pub(super) again: Option<Time>,
    /// How often we asked and were answered.
    pub(super) attempts: u32,
    /// For whom: the first in line. Those after it have asked nobody yet.
    pub(super) asked_for: Option<ClaimId>,
    /// Somebody else has the key, as far as we know; and who, if the server said.
    pub(super) taken: Option<Option<String>>,
    /// A take was refused, maybe when half of it was done.
    pub(super) refused: bool,
    /// A take whose outcome is unknown may still be executed until then.
    pub(super) tainted: Option<Time>,
}

impl Waiting {
    /// An attempt was answered while `first` was the first in line.
    pub(super) fn count(&mut self, first: Option<ClaimId>) {
        if self.asked_for != first {
            self.asked_for = first;
            self.attempts = 0;
        }
        self.attempts += 1;
    }

    pub(super) fn take(&mut self) -> Op {
        self.asked = true;
        self.again = None;
        Op::Take { ttl: self.ttl, block: self.block, attempt: self.attempt }
    }

    /// Whether a command of this turn can have left something on the server, or can still do so.
    pub(super) fn may_have_left_something(&self, now: Time) -> bool {
        self.asked || self.refused || self.tainted.is_some_and(|until| now < until)
    }
}
