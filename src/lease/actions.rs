//! What a lease wants done, and what every event brings along.

use super::{ClaimId, Op, Token};
use crate::clock::Time;

/// What a lease wants done, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a command about `token`. `caller` waits for its answer.
    Send {
        /// The turn.
        token: Token,
        /// What.
        op: Op,
        /// Who releases or extends.
        caller: Option<ClaimId>,
    },
    /// The caller has the lock.
    Granted {
        /// Who.
        claim: ClaimId,
        /// Its fencing number.
        fence: u64,
        /// How it came to it.
        way: Way,
    },
    /// The caller wanted one attempt, and the lock is taken.
    Refused {
        /// Who.
        claim: ClaimId,
    },
    /// The caller's release is done: the lock went on to the next one.
    Released {
        /// Who.
        claim: ClaimId,
    },
    /// The caller's lock goes on under a name that another owner will ask for: it isn't the caller's any more.
    Detached {
        /// Who.
        claim: ClaimId,
        /// The name.
        token: Token,
    },
    /// The caller doesn't have the lock any more.
    Lost {
        /// Who.
        claim: ClaimId,
        /// Why.
        loss: Loss,
    },
}

/// How a caller came to its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In answer to its asking.
    Asked,
    /// From another caller of this process.
    HandedOn,
    /// From another process, by push.
    Told,
}

/// Why a lock was lost. The order is that of `LOSSES` in lib/errors.js.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its deadline passed, and nobody tried to renew it.
    Expired,
    /// The key is gone or somebody else's.
    Taken,
    /// Renewal wasn't confirmed until the deadline.
    Unreachable,
    /// It wasn't renewed, because whoever holds it gave no sign of life.
    Stalled,
    /// It was held for as long as it may be.
    MaxHold,
    /// The manager was closed.
    Closed,
}

/// Where a lease stands, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Nobody wants it.
    Idle,
    /// A first attempt isn't answered yet.
    Asking,
    /// Somebody else has it.
    Taken(&'a str),
    /// A caller of this process has it.
    Held,
}

/// What every event brings along.
pub struct Cx<'a> {
    /// The present.
    pub now: Time,
    /// Whether this core can be told by push at present.
    pub told: bool,
    /// How long the server takes to answer.
    pub round_trip: std::time::Duration,
    /// Where new tokens come from.
    pub turns: &'a mut super::Turns,
    /// What is to be done.
    pub out: &'a mut Vec<Action>,
}

impl Cx<'_> {
    /// For a name that nobody waits with.
    pub(super) fn next_token(&mut self, ttl: super::Ttl) -> Token {
        self.turns.next(ttl.claim(), self.told)
    }

    pub(super) fn send(&mut self, token: Token, op: Op, caller: Option<ClaimId>) {
        self.out.push(Action::Send { token, op, caller });
    }
}
