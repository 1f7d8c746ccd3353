//! What happens because time passes: what is due, and callers whose patience is at its end.

use std::time::Duration;

use super::claims::State as ClaimState;
use super::state::State;
use super::timers::Timer;
use super::{Outcome, Phase, Wait};
use crate::clock::Time;
use crate::lease::{ClaimId, Standing};
use crate::link::Trouble;

impl State {
    /// Does all that is due.
    pub(super) fn tick(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Orphans => {
                    self.orphans_timer = None;
                    self.give_orphans(now);
                }
                Timer::Opening => {
                    self.opening = None;
                    self.went_up(now);
                }
                Timer::Lease(index) => {
                    if let Some(entry) = self.leases.get_mut(index) {
                        entry.timer = None;
                    }
                    self.look_for_life(index, now);
                    self.look_for_claim(index, now);
                    self.drive(index, now, |lease, cx| lease.tick(cx));
                }
                Timer::Claim(id) => self.out_of_patience(id, now),
                Timer::Value(id) => self.value_due(id, now),
            }
        }
    }

    fn out_of_patience(&mut self, id: ClaimId, now: Time) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        claim.timer = None;
        let (index, waited, state) = (claim.lease, now.since(claim.since), claim.state);
        match state {
            ClaimState::Held => {}
            ClaimState::Releasing
            | ClaimState::Extending { .. }
            | ClaimState::Detaching { .. }
            | ClaimState::Adopting => {
                let outcome = Outcome::Unavailable(self.no_answer(waited));
                self.give_up(id, now);
                self.finish(id, outcome);
            }
            // Who asks for itself gives up when its strategy says so.
            ClaimState::Waiting { .. } if self.asks_until_later(id, now) => {}
            ClaimState::Waiting { once } => {
                // A single attempt is never a matter of time: what it meets is said at once.
                let outcome = if once {
                    Outcome::Unavailable(self.no_answer(waited))
                } else {
                    self.timed_out(index, id, waited)
                };
                self.leave(index, id, now);
                self.finish(id, outcome);
            }
        }
    }

    /// Whether a caller whose strategy would be at its end is the first in line and has time left; its timer is set to that.
    fn asks_until_later(&mut self, id: ClaimId, now: Time) -> bool {
        let Some(claim) = self.claims.get(&id) else { return false };
        let first = self.leases.get(claim.lease).and_then(|entry| entry.lease.first_waiting());
        let asks = self.asks(claim.lease);
        if first != Some(id) || !asks || claim.last.is_some_and(|last| last <= now) {
            return false;
        }
        if let Some(claim) = self.claims.get_mut(&id) {
            self.timers.set(Timer::Claim(id), &mut claim.timer, claim.last);
        }
        true
    }

    /// A lock that is taken, or a store that can't be used? Only the first is a time-out.
    pub(super) fn timed_out(&self, index: usize, id: ClaimId, waited: Duration) -> Outcome {
        let Some(entry) = self.leases.get(index) else {
            return Outcome::Closed;
        };
        if let Some(trouble) = self.trouble.as_ref().or(entry.trouble.as_ref()) {
            return Outcome::Unavailable(trouble.clone());
        }
        let (standing, attempts) = entry.lease.standing();
        let first = entry.lease.is_first(id);
        let (phase, holder) = match standing {
            Standing::Asking | Standing::Idle if !self.up => (Phase::Connecting, None),
            Standing::Asking | Standing::Idle => {
                return Outcome::Unavailable(self.no_answer(waited));
            }
            Standing::Taken(holder) if first && self.polls(index) => (Phase::Spinning, Some(holder)),
            Standing::Taken(holder) => (Phase::Queued, Some(holder)),
            Standing::Held => (Phase::Queued, None),
        };
        let holder = holder.filter(|holder| !holder.is_empty()).map(str::to_owned);
        // Those behind the first in line have asked nobody.
        let attempts = if first { attempts } else { 0 };
        Outcome::TimedOut(Wait { waited, attempts, phase, holder })
    }

    pub(super) fn no_answer(&self, waited: Duration) -> Trouble {
        self.trouble
            .clone()
            .unwrap_or_else(|| Trouble::passing("ETIMEDOUT", format!("no answer within {} ms", waited.as_millis())))
    }
}
