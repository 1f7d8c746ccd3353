//! Locks that go from one owner to another: by a ticket, which is the name under which the server knows them.

use super::claims::State as ClaimState;
use super::state::State;
use super::{Outcome, Target};
use crate::clock::Time;
use crate::lease::{ClaimId, Loss, Op, Token, Waiter};
use crate::store::{Answer, Command, Lock};

/// A ticket that is being turned into a lock.
pub(super) struct Adoption {
    lock: Lock,
    /// The ticket's name, and ours.
    from: Token,
    to: Token,
    fence: u64,
    waiter: Waiter,
    /// A command was sent.
    asked: bool,
    /// One wasn't answered; it may be executed until then.
    tainted: Option<Time>,
}

impl State {
    /// Begins one for a claim in state Adopting.
    pub(super) fn begin_adoption(&mut self, lock: Lock, from: Token, fence: u64, waiter: Waiter) {
        let to = self.turns.next(waiter.ttl.claim(), self.is_told());
        self.adoptions.insert(waiter.claim, Adoption { lock, from, to, fence, waiter, asked: false, tainted: None });
        self.send_adoption(waiter.claim);
    }

    fn send_adoption(&mut self, claim: ClaimId) {
        if !self.up {
            return self.store.wake();
        }
        if let Some(Adoption { lock, from, to, waiter, asked, .. }) = self.adoptions.get_mut(&claim) {
            *asked = true;
            let op = Op::Adopt { to: *to, ttl: waiter.ttl };
            let command = Command { lock: lock.clone(), lease: usize::MAX, token: *from, op, caller: Some(claim) };
            self.store.submit(command);
        }
    }

    /// The link is back: all that isn't answered is said again, by the same name.
    pub(super) fn resume_adoptions(&mut self) {
        let all: Vec<ClaimId> = self.adoptions.keys().copied().collect();
        for claim in all {
            self.send_adoption(claim);
        }
    }

    pub(super) fn adopt_answered(&mut self, command: &Command, sent: Time, answer: Answer, now: Time) {
        let Op::Adopt { to, ttl } = command.op else { return };
        let give = |tainted| {
            let op = Op::Give { ttl, tainted };
            Command { token: to, op, caller: None, ..command.clone() }
        };
        let pending = command.caller.filter(|claim| self.adoptions.get(claim).is_some_and(|known| known.to == to));
        let Some(claim) = pending else {
            // Nobody waits for it any more.
            return match answer {
                Answer::Done | Answer::Failed(_) => self.give_now(give(None), now),
                Answer::Unanswered(_) => self.adopt(&give(Some(ttl.forgotten(now))), now),
                _ => {}
            };
        };
        match answer {
            Answer::Done if now < ttl.deadline(sent) => {
                if let Some(Adoption { lock, fence, waiter, .. }) = self.adoptions.remove(&claim) {
                    let index = self.lease_of(&Target::Lock(lock));
                    if let Some(known) = self.claims.get_mut(&claim) {
                        known.lease = index;
                    }
                    self.drive(index, now, |lease, cx| lease.adopted(to, &waiter, fence, sent, cx));
                }
            }
            Answer::Done => {
                self.adoptions.remove(&claim);
                self.give_now(give(None), now);
                self.finish(claim, Outcome::Lost(Loss::Expired));
            }
            Answer::NotOurs | Answer::Taken { .. } | Answer::Granted { .. } | Answer::Kept { .. } => {
                self.adoptions.remove(&claim);
                self.finish(claim, Outcome::Lost(Loss::Taken));
            }
            Answer::Failed(trouble) => {
                self.adoptions.remove(&claim);
                self.give_now(give(None), now);
                self.finish(claim, Outcome::Unavailable(trouble));
            }
            // Said again when the link is back.
            Answer::Unanswered(_) => {
                if let Some(adoption) = self.adoptions.get_mut(&claim) {
                    adoption.tainted = Some(ttl.forgotten(now));
                }
            }
            Answer::Unsent => {}
        }
    }

    /// Sends a give, or remembers it until there is a link.
    pub(super) fn give_now(&mut self, give: Command, now: Time) {
        let tainted = matches!(give.op, Op::Give { tainted: Some(until), .. } if now < until);
        if !self.up || tainted {
            self.adopt(&give, now);
        }
        if self.up {
            self.gives += 1;
            self.store.submit(give);
        }
    }

    /// Nobody waits for what a call about a lock comes to any more.
    pub(super) fn give_up(&mut self, id: ClaimId, now: Time) {
        let Some(claim) = self.claims.get(&id) else { return };
        match claim.state {
            ClaimState::Detaching { of } => {
                self.drive(claim.lease, now, |lease, _| lease.stay(of, now));
            }
            ClaimState::Adopting => {
                // Behind the command, if it is still under way.
                if let Some(Adoption { lock, to, waiter, asked: true, tainted, .. }) = self.adoptions.remove(&id) {
                    let op = Op::Give { ttl: waiter.ttl, tainted };
                    self.give_now(Command { lock, lease: usize::MAX, token: to, op, caller: None }, now);
                }
            }
            _ => {}
        }
    }

    /// The server knows a lock by the name of its ticket: it isn't the holder's any more.
    pub(super) fn detached(&mut self, claim: ClaimId, token: Token, now: Time) {
        self.was_held(claim, now);
        let calls = self.calls_about(claim);
        self.drop_held(claim);
        for call in calls {
            let detaching =
                self.claims.get(&call).is_some_and(|call| matches!(call.state, ClaimState::Detaching { .. }));
            self.finish(call, if detaching { Outcome::Detached(token) } else { Outcome::Lost(Loss::Taken) });
        }
    }

    /// Forgets a held claim without telling: its holder hears of it otherwise.
    fn drop_held(&mut self, claim: ClaimId) {
        if let Some(statistics) = self.statistics_of(claim) {
            statistics.counters.held -= 1;
            statistics.counters.released += 1;
        }
        self.claims.remove(&claim);
    }
}
