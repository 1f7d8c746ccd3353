//! What can be asked of a lease.

use super::machine::{Lease, Phase};
use super::waiting::Waiting;
use super::{ClaimId, Standing, Token};
use crate::clock::Time;

impl Lease {
    /// Whether the lease is held and was to be named `to`, now or on the way to its present name.
    pub fn is_renamed_to(&self, to: Token) -> bool {
        match &self.phase {
            Phase::Held(held) => held.token == to || held.swaps.iter().any(|renaming| renaming.to == to),
            _ => false,
        }
    }

    /// Whether the server may know the lease by this name: the present one, or one that it has until a renaming is done.
    pub fn goes_by(&self, token: Token) -> bool {
        match &self.phase {
            Phase::Idle => false,
            Phase::Waiting(waiting) => waiting.token == token,
            Phase::Held(held) => held.is_named(token),
        }
    }

    /// When something is due, if anything is.
    pub fn due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Idle => None,
            // Never while it asks: what is due must change when its time comes.
            Phase::Waiting(waiting) => waiting.again.filter(|_| !waiting.asked),
            Phase::Held(held) => [Some(held.holder.deadline), held.again, held.unclaimed].into_iter().flatten().min(),
        }
    }

    /// Nobody waits and nobody holds.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// The caller's own deadline, if it has the lock.
    pub fn deadline_of(&self, claim: ClaimId) -> Option<Time> {
        match &self.phase {
            Phase::Held(held) if held.holder.waiter.claim == claim => Some(held.holder.deadline),
            _ => None,
        }
    }

    /// The token of the present turn.
    pub fn token(&self) -> Option<Token> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Waiting(waiting) => Some(waiting.token),
            Phase::Held(held) => Some(held.token),
        }
    }

    /// For error messages: where it stands, and how often this turn asked.
    pub fn standing(&self) -> (Standing<'_>, u32) {
        match &self.phase {
            Phase::Idle => (Standing::Idle, 0),
            Phase::Waiting(Waiting { taken: Some(holder), attempts, .. }) => (Standing::Taken(holder), *attempts),
            // Between two turns of this process: its callers had it until now, and have given it back only for a moment.
            Phase::Waiting(Waiting { after_own_turn: true, .. }) => (Standing::Held, 0),
            Phase::Waiting(waiting) => (Standing::Asking, waiting.attempts),
            Phase::Held(_) => (Standing::Held, 0),
        }
    }

    /// Who has the lock.
    pub fn holder(&self) -> Option<ClaimId> {
        match &self.phase {
            Phase::Held(held) => Some(held.holder.waiter.claim),
            _ => None,
        }
    }

    /// The caller that asks for the lock on behalf of all of them, while somebody else has it.
    pub fn first_waiting(&self) -> Option<ClaimId> {
        self.first().filter(|_| matches!(self.phase, Phase::Waiting(_)))
    }

    /// The caller that is first in line.
    pub fn first(&self) -> Option<ClaimId> {
        self.queue.front().map(|first| first.claim)
    }

    /// Whether this caller is the first in line.
    pub fn is_first(&self, claim: ClaimId) -> bool {
        self.queue.front().is_some_and(|first| first.claim == claim)
    }
}
