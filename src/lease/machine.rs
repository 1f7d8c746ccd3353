//! The states of a lock in one process and what moves it from one to the other.
//!
//! | state   | the key in Redis                                  | local callers            |
//! |---------|---------------------------------------------------|--------------------------|
//! | Idle    | not ours; nothing of ours is under way            | none                     |
//! | Waiting | not ours, or ours without our knowing             | at least one waits       |
//! | Held    | ours until `deadline`                             | one holds, others wait   |
//!
//! Invariant: a turn that may have left something on the server ends with a give of its token.

use std::time::Duration;

use super::held::Held;
use super::queue::{ClaimId, Queue, Waiter};
use super::waiting::Waiting;
use super::{Action, Cx, Loss, Op, Way};

/// One lock in one process.
#[derive(Debug, Default)]
pub struct Lease {
    pub(super) queue: Queue,
    pub(super) phase: Phase,
}

#[derive(Debug, Default)]
#[allow(clippy::large_enum_variant)] // an idle lease is dropped, and most are held
pub(super) enum Phase {
    #[default]
    Idle,
    Waiting(Waiting),
    Held(Held),
}

/// How many numbers a take reserves at most: enough for those who wait now.
const LARGEST_TAKE: usize = 64;

impl Lease {
    /// A caller comes.
    pub fn arrive(&mut self, waiter: Waiter, cx: &mut Cx<'_>) {
        let refuse = match &self.phase {
            Phase::Idle => false,
            Phase::Waiting(waiting) => waiting.taken.is_some(),
            Phase::Held(held) => {
                // A holder whose time is up must not turn others away.
                if cx.now >= held.holder.deadline {
                    self.tick(cx);
                }
                matches!(self.phase, Phase::Held(_))
            }
        };
        if waiter.once && refuse {
            cx.out.push(Action::Refused { claim: waiter.claim });
            return;
        }
        self.queue.push(waiter);
        match &mut self.phase {
            Phase::Idle => self.begin(false, cx),
            Phase::Waiting(_) => {}
            Phase::Held(held) => {
                if held.needs_numbers(self.queue.len()) {
                    let op = held.keep(self.queue.len());
                    cx.send(held.token, op, None);
                }
            }
        }
    }

    /// A waiting caller goes. `false`: it doesn't wait here.
    pub fn leave(&mut self, claim: ClaimId, cx: &mut Cx<'_>) -> bool {
        if self.queue.remove(claim).is_none() {
            return false;
        }
        self.end_if_unwanted(cx);
        true
    }

    /// All waiting callers, in order: for an answer that concerns every one of them.
    pub fn dismiss(&mut self, cx: &mut Cx<'_>, mut each: impl FnMut(ClaimId)) {
        while let Some(waiter) = self.queue.front().copied() {
            self.leave(waiter.claim, cx);
            each(waiter.claim);
        }
    }

    /// Waiting callers that wanted one attempt only; it failed.
    pub fn dismiss_once(&mut self, cx: &mut Cx<'_>, mut each: impl FnMut(ClaimId)) {
        self.queue.remove_once(|waiter| each(waiter.claim));
        self.end_if_unwanted(cx);
    }

    /// The holder gives the lock back.
    pub fn release(&mut self, claim: ClaimId, cx: &mut Cx<'_>) {
        if self.holds(claim, cx) {
            self.hand_on(Some(claim), cx);
        }
    }

    /// The holder's lock is taken away from it: it ended without releasing.
    pub fn revoke(&mut self, claim: ClaimId, loss: Loss, cx: &mut Cx<'_>) {
        if self.holds(claim, cx) {
            cx.out.push(Action::Lost { claim, loss });
            self.hand_on(None, cx);
        }
    }

    /// Time passed.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Waiting(waiting) => {
                if waiting.again.is_some_and(|again| again <= cx.now) && !waiting.asked {
                    let op = waiting.ask(self.queue.waits());
                    cx.send(waiting.token, op, None);
                }
            }
            Phase::Held(held) => {
                if cx.now >= held.holder.deadline {
                    let (claim, loss) = (held.holder.waiter.claim, held.loss(cx.now));
                    self.lose(claim, loss, cx);
                } else if held.again.is_some_and(|again| again <= cx.now) {
                    held.stalled = false;
                    Self::renew(held, self.queue.len(), cx);
                }
            }
        }
    }

    /// The link is back: everything that isn't answered is said again, and a held lease is confirmed at once.
    pub fn resume(&mut self, cx: &mut Cx<'_>) {
        match &mut self.phase {
            Phase::Idle => {}
            // Named before it was known whether it can be told, and nobody has heard of it yet.
            Phase::Waiting(waiting) if waiting.is_unknown() => self.begin(false, cx),
            Phase::Waiting(waiting) => {
                if !waiting.asked {
                    let op = waiting.ask(self.queue.waits());
                    cx.send(waiting.token, op, None);
                }
            }
            Phase::Held(held) => {
                let again = held.again.filter(|_| held.stalled);
                Self::renew(held, self.queue.len(), cx);
                held.again = held.again.or(again);
            }
        }
    }

    /// A renaming that isn't answered is said again first: the keep that follows speaks of the new name.
    fn renew(held: &mut Held, waiting: usize, cx: &mut Cx<'_>) {
        held.say_renamings(cx);
        held.again = None;
        held.keeping = false;
        if held.is_kept() && !held.stalled && held.detaching.is_none() {
            let op = held.keep(waiting);
            cx.send(held.token, op, None);
        }
    }

    /// Whether `claim` holds the lock at this instant; a deadline that has passed is acted on first.
    pub(super) fn holds(&mut self, claim: ClaimId, cx: &mut Cx<'_>) -> bool {
        if self.deadline_of(claim).is_some_and(|deadline| cx.now >= deadline) {
            self.tick(cx);
        }
        self.deadline_of(claim).is_some()
    }

    /// A new turn for those who wait, if there are any. `after_own_turn`: our callers had the lock until now.
    pub(super) fn begin(&mut self, after_own_turn: bool, cx: &mut Cx<'_>) {
        let Some(first) = self.queue.front() else {
            return;
        };
        // Whoever looks seldom must still find a lease that was granted to it in between.
        let claim = first.ttl.claim().max(if cx.told { Duration::ZERO } else { first.pause + first.ttl.beat() });
        let mut waiting = Waiting {
            token: cx.turns.next(claim, cx.told),
            ttl: first.ttl,
            block: self.queue.len().min(LARGEST_TAKE) as u32,
            after_own_turn,
            queued: false,
            since: cx.now,
            mark: 0,
            hurries: false,
            asked: false,
            again: None,
            attempts: 0,
            asked_for: None,
            taken: None,
            refused: false,
            tainted: None,
        };
        let op = waiting.take(self.queue.waits());
        cx.send(waiting.token, op, None);
        self.phase = Phase::Waiting(waiting);
    }

    /// The holder ended: the next local caller, or the end of the turn.
    fn hand_on(&mut self, releaser: Option<ClaimId>, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        let next = self.queue.front().filter(|next| held.suits(next, cx.now)).copied();
        let Some(next) = next else {
            return self.end(releaser, cx);
        };
        self.queue.pop();
        if let Some(claim) = releaser {
            cx.out.push(Action::Released { claim });
        }
        self.serve(&next, cx);
    }

    /// The turn goes on with `next`, whom the lease suits and who stands in no queue any more.
    pub(super) fn serve(&mut self, next: &Waiter, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        if let Some(fence) = held.serve(next, cx.now) {
            cx.out.push(Action::Granted { claim: next.claim, fence, way: Way::HandedOn });
        }
        let due = held.again.is_some_and(|again| again <= cx.now);
        if (due && !held.keeping) || held.needs_numbers(self.queue.len()) {
            let op = held.keep(self.queue.len());
            cx.send(held.token, op, None);
        }
    }

    /// The turn is over: the key is given back, and asked for again right behind if callers are left.
    pub(super) fn end(&mut self, releaser: Option<ClaimId>, cx: &mut Cx<'_>) {
        if let Phase::Held(held) = std::mem::take(&mut self.phase) {
            held.give_former(cx);
            let give = Op::Give { ttl: held.longest, tainted: held.tainted };
            for renaming in &held.swaps {
                cx.send(renaming.from, give, None);
            }
            cx.send(held.token, give, releaser);
            self.begin(true, cx);
        }
    }

    pub(super) fn lose(&mut self, claim: ClaimId, loss: Loss, cx: &mut Cx<'_>) {
        cx.out.push(Action::Lost { claim, loss });
        self.end(None, cx);
    }

    pub(super) fn end_if_unwanted(&mut self, cx: &mut Cx<'_>) {
        if self.queue.is_empty()
            && let Phase::Waiting(waiting) = &self.phase
        {
            if waiting.may_have_left_something() {
                cx.send(waiting.token, waiting.give(), None);
            }
            self.phase = Phase::Idle;
        }
    }
}
