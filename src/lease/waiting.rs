//! The state of a lock that this process wants and doesn't have.

use super::{ClaimId, Op, Token, Ttl};
use crate::clock::Time;

/// A turn that was asked for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) token: Token,
    /// What the next take asks for; fixed at the start of the turn, so that a repeated take is the same command.
    pub(super) ttl: Ttl,
    pub(super) block: u32,
    /// Our callers had the lock until now, and gave it back because others come first.
    pub(super) after_own_turn: bool,
    /// It stands in the server's queue, as far as we know.
    pub(super) queued: bool,
    /// When the last refusal was asked for, or the turn was begun: what is granted to it later lasts a claim from then on at least.
    pub(super) since: Time,
    /// Of the last refusal: what was granted before has no greater number.
    pub(super) mark: u64,
    /// It is to ask again as soon as what it asked is answered.
    pub(super) hurries: bool,
    /// A command was handed to the store and isn't answered.
    pub(super) asked: bool,
    /// When to ask again.
    pub(super) again: Option<Time>,
    /// How often we asked and were answered.
    pub(super) attempts: u32,
    /// For whom: the first in line. Those after it have asked nobody yet.
    pub(super) asked_for: Option<ClaimId>,
    /// Who has the key, as far as we know; '' if nobody has and others come first.
    pub(super) taken: Option<String>,
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

    /// The next command: in the queue a look, else a take. `waits`: somebody wants more than one attempt.
    pub(super) fn ask(&mut self, waits: bool) -> Op {
        if !self.queued {
            return self.take(waits);
        }
        self.begin();
        Op::Beat { ttl: self.ttl, block: self.block }
    }

    pub(super) fn take(&mut self, waits: bool) -> Op {
        self.begin();
        Op::Take { ttl: self.ttl, block: self.block, waits }
    }

    fn begin(&mut self) {
        self.asked = true;
        self.hurries = false;
        self.again = None;
    }

    /// Whether no command of this turn was ever sent.
    pub(super) fn is_unknown(&self) -> bool {
        !self.may_have_left_something() && self.taken.is_none()
    }

    /// Whether a command of this turn can have left something on the server, or can still do so. A place in the queue lasts for as
    /// long as others wait in it.
    pub(super) fn may_have_left_something(&self) -> bool {
        self.asked || self.queued || self.refused || self.tainted.is_some()
    }

    /// What ends whatever it has left.
    pub(super) fn give(&self) -> Op {
        Op::Give { ttl: self.ttl.in_queue(), tainted: self.tainted }
    }
}
