//! Grants that a blocked event loop doesn't fetch. Whether it has is decided under the listener's own lock: either it fetches the
//! grant or the grant is taken back, never both.

use std::sync::Arc;

use super::claims::State as ClaimState;
use super::state::State;
use super::timers::Timer;
use crate::clock::Time;
use crate::lease::ClaimId;

impl State {
    /// A grant that isn't fetched within the claim window goes on, if there is somebody whom it can go on to.
    pub(super) fn look_for_claim(&mut self, index: usize, now: Time) {
        let Some(entry) = self.leases.get(index) else { return };
        let Some(id) = entry.lease.unclaimed(now) else { return };
        let Some(claim) = self.claims.get(&id).filter(|claim| claim.state == ClaimState::Held) else { return };
        let (listener, grant) = (claim.listener.clone(), claim.grant);
        if listener.has_fetched(grant) {
            self.drive(index, now, |lease, _| lease.claimed());
            return;
        }
        let alive =
            |other: &ClaimId| self.claims.get(other).is_some_and(|other| !Arc::ptr_eq(&other.listener, &listener));
        let next = entry.lease.waiters().find(alive);
        if (next.is_none() && !entry.lease.is_contended()) || !listener.withdraw(grant) {
            self.drive(index, now, |lease, _| lease.claimed_later(now));
            return;
        }
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.state = ClaimState::Waiting { once: false };
            claim.since = claim.began;
            self.timers.set(Timer::Claim(id), &mut claim.timer, claim.last);
        }
        if let Some(statistics) = self.statistics_of(id) {
            statistics.counters.held -= 1;
            statistics.counters.waiting += 1;
            statistics.counters.abandoned += 1;
        }
        self.drive(index, now, |lease, cx| lease.abandon(next, cx));
    }
}
