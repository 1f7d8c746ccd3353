//! Grants that their callers don't hear of, because their event loop is blocked: they must not keep others waiting.

use super::machine::{Lease, Phase};
use super::{ClaimId, Cx};
use crate::clock::Time;

impl Lease {
    /// The holder, if it is time to look whether it has heard that it has the lock.
    pub fn unclaimed(&self, now: Time) -> Option<ClaimId> {
        match &self.phase {
            Phase::Held(held) if held.unclaimed.is_some_and(|at| at <= now) => Some(held.holder.waiter.claim),
            _ => None,
        }
    }

    /// The holder has heard.
    pub fn claimed(&mut self) {
        if let Phase::Held(held) = &mut self.phase {
            held.unclaimed = None;
        }
    }

    /// The holder hasn't heard, and keeps the lock, since nobody else could use it. It is looked at again later.
    pub fn claimed_later(&mut self, now: Time) {
        if let Phase::Held(held) = &mut self.phase {
            held.unclaimed = Some(now + held.holder.ttl.claim_window());
        }
    }

    /// Whether another process waits.
    pub fn is_contended(&self) -> bool {
        matches!(&self.phase, Phase::Held(held) if held.contended)
    }

    /// Those who wait, in order.
    pub fn waiters(&self) -> impl Iterator<Item = ClaimId> {
        self.queue.iter().map(|waiter| waiter.claim)
    }

    /// The holder doesn't know that it is one, and isn't any longer: it waits again, at its place. The lock goes to `next`, who waits
    /// too, or without one to another process.
    pub fn abandon(&mut self, next: Option<ClaimId>, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        let abandoned = held.holder.waiter;
        let next = next.filter(|_| !held.contended).and_then(|next| self.queue.remove(next));
        self.queue.insert(abandoned);
        match next {
            Some(next) if held.suits(&next, cx.now) => self.serve(&next, cx),
            Some(next) => {
                // The lease doesn't suit it: it is asked for again, for the first in line.
                self.queue.insert(next);
                self.end(None, cx);
            }
            None => self.end(None, cx),
        }
    }
}
