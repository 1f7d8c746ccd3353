//! Whether the event loops that hold locks are alive: a process that is wedged must not keep its locks for ever because
//! another thread renews them.

use super::Outcome;
use super::state::State;
use crate::clock::Time;
use crate::lease::{ClaimId, Token};

impl State {
    /// A lease that is to be renewed isn't, if its holder gave no sign of life for too long; that is looked at again soon.
    pub(super) fn look_for_life(&mut self, index: usize, now: Time) {
        let due = self.leases.get(index).and_then(|entry| entry.lease.due_for_renewal(now));
        let Some(claim) = due.and_then(|holder| self.claims.get(&holder)) else { return };
        let silent = now.since(claim.listener.last_beat());
        if claim.terms.max_stall.is_none_or(|most| silent <= most) {
            return;
        }
        let (listener, slot) = (claim.listener.clone(), claim.slot);
        if self.drive(index, now, |lease, _| lease.stall(now)) == Some(true) {
            listener.complete(slot, Outcome::Stalled(silent));
            self.will_ring(listener);
        }
    }

    /// Does what is due for a lock that is held.
    pub(super) fn look_at_lease_of(&mut self, claim: ClaimId, now: Time) {
        if let Some(index) = self.claims.get(&claim).map(|claim| claim.lease) {
            self.look_for_life(index, now);
            self.drive(index, now, |lease, cx| lease.tick(cx));
        }
    }

    /// A lease was renewed; its holder hears of it if it wants to.
    pub(super) fn tell_renewed(&mut self, index: usize, token: Token) {
        let Some(entry) = self.leases.get(index).filter(|entry| entry.lease.token() == Some(token)) else { return };
        let Some(claim) = entry.lease.holder().and_then(|holder| self.claims.get(&holder)) else { return };
        if claim.listener.wants_renewals() {
            let listener = claim.listener.clone();
            listener.complete(claim.slot, Outcome::Renewed);
            self.will_ring(listener);
        }
    }
}
