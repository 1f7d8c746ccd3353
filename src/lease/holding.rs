//! What a holder can do with its lock besides giving it back.

use super::held::{Held, Renaming};
use super::machine::{Lease, Phase};
use super::numbers::Numbers;
use super::queue::{ClaimId, Waiter};
use super::{Action, Cx, Loss, Op, Token, Ttl, Way};
use crate::clock::Time;

impl Lease {
    /// The holder wants `ttl` to remain from now. `caller` waits for the answer.
    pub fn extend(&mut self, claim: ClaimId, caller: ClaimId, ttl: Ttl, cx: &mut Cx<'_>) {
        if !self.holds(claim, cx) {
            return;
        }
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        held.ttl = ttl;
        held.longest = held.longest.max(ttl);
        held.holder.ttl = ttl;
        held.holder.extends = true;
        // Who asks for more is alive.
        held.stalled = false;
        let deadline = ttl.deadline(cx.now);
        if deadline >= held.deadline {
            held.keeping = true;
            held.again = None;
            cx.send(held.token, Op::Keep { ttl, block: 0 }, Some(caller));
        } else {
            // The local deadline shrinks before the command is sent: whatever becomes of it, we are on the safe side.
            held.deadline = deadline;
            held.holder.deadline = held.holder.deadline.min(deadline);
            // A detach under way comes to nothing: the name it tells is not the last.
            held.detaching = None;
            held.rename(ttl, caller, cx);
        }
    }

    /// The holder leaves the lock, for `ttl` from now, to whoever will be told its name. `caller` waits for the answer,
    /// until which the lock is the holder's.
    pub fn detach(&mut self, claim: ClaimId, caller: ClaimId, ttl: Ttl, cx: &mut Cx<'_>) {
        if self.holds(claim, cx)
            && let Phase::Held(held) = &mut self.phase
        {
            held.longest = held.longest.max(ttl);
            // As for an extend: whatever becomes of the command, we are on the safe side.
            let deadline = ttl.deadline(cx.now);
            held.deadline = held.deadline.min(deadline);
            held.holder.deadline = held.holder.deadline.min(deadline);
            held.rename(ttl, caller, cx);
            held.detaching = Some(held.token);
            held.again = None;
        }
    }

    /// Nobody waits for the answer to a detach any more: the holder keeps the lock.
    pub fn stay(&mut self, claim: ClaimId, now: Time) {
        if let Phase::Held(held) = &mut self.phase
            && held.holder.waiter.claim == claim
            && held.detaching.take().is_some()
        {
            // Its lease is that of the ticket.
            held.again = (held.is_kept() && !held.keeping).then_some(now);
        }
    }

    /// The holder gives the lock back, but the key is to stay taken for `rest`.
    pub fn park(&mut self, claim: ClaimId, rest: Ttl, cx: &mut Cx<'_>) {
        if !self.holds(claim, cx) {
            return;
        }
        if let Phase::Held(held) = std::mem::take(&mut self.phase) {
            let tainted = held.tainted.filter(|until| cx.now < *until);
            let park = Op::Park { to: cx.next_token(rest), rest, ttl: held.longest, tainted };
            // Whichever name the server knows it by.
            for renaming in &held.swaps {
                cx.send(renaming.from, park, None);
            }
            cx.send(held.token, park, Some(claim));
            held.give_former(cx);
            self.begin(false, cx);
        }
    }

    /// The server renamed a lease that was left to us to `token`, by a command sent at `sent`: `waiter`, who stands in no
    /// queue, holds it from now on, with the number it had.
    pub fn adopted(&mut self, token: Token, waiter: &Waiter, fence: u64, sent: Time, cx: &mut Cx<'_>) {
        let deadline = waiter.ttl.deadline(sent);
        match std::mem::take(&mut self.phase) {
            Phase::Idle => {}
            // Our own turn found the key taken, or will.
            Phase::Waiting(waiting) => {
                if waiting.may_have_left_something() {
                    cx.send(waiting.token, waiting.give(), None);
                }
            }
            // What we believed to hold was somebody else's.
            Phase::Held(held) => cx.out.push(Action::Lost { claim: held.holder.waiter.claim, loss: Loss::Taken }),
        }
        let mut held = Held::new(token, waiter.ttl, deadline, sent, Numbers::default(), waiter, cx);
        held.plan_renewal();
        self.phase = Phase::Held(held);
        cx.out.push(Action::Granted { claim: waiter.claim, fence, way: Way::Asked });
        self.queue.remove_once(|waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
    }

    /// The server refused a renaming to `to`. If that was the only copy of it, and no other is built on it, the lease keeps
    /// its name; else it is said again.
    pub fn renaming_refused(&mut self, to: Token) {
        self.renaming_failed(to);
        if let Phase::Held(held) = &mut self.phase
            && held.token == to
            && let Some(renaming) = held.swaps.pop_if(|renaming| !renaming.unsure)
        {
            held.token = renaming.from;
        }
    }

    /// A renaming to `to` wasn't answered: it may have been executed, or still be. It is said again.
    pub fn renaming_unanswered(&mut self, to: Token) {
        self.renaming_failed(to);
        if let Some(renaming) = self.renaming(to) {
            renaming.unsure = true;
        }
    }

    /// A renaming to `to` came to nothing; it is said again.
    pub fn renaming_failed(&mut self, to: Token) {
        if let Some(renaming) = self.renaming(to) {
            renaming.asked = false;
        }
    }

    fn renaming(&mut self, to: Token) -> Option<&mut Renaming> {
        match &mut self.phase {
            Phase::Held(held) => held.swaps.iter_mut().find(|renaming| renaming.to == to),
            _ => None,
        }
    }

    /// The holder, if its lease is to be renewed now.
    pub fn due_for_renewal(&self, now: Time) -> Option<ClaimId> {
        match &self.phase {
            Phase::Held(held) if held.again.is_some_and(|again| again <= now) => Some(held.holder.waiter.claim),
            _ => None,
        }
    }

    /// The holder gives no sign of life: it isn't renewed now, and looked at again soon. Returns whether that is news.
    pub fn stall(&mut self, now: Time) -> bool {
        match &mut self.phase {
            Phase::Held(held) => {
                held.again = Some(now + held.holder.ttl.renewal_retry());
                !std::mem::replace(&mut held.stalled, true)
            }
            _ => false,
        }
    }
}

impl Held {
    /// Gives the lease a new name and `ttl` from now.
    fn rename(&mut self, ttl: Ttl, caller: ClaimId, cx: &mut Cx<'_>) {
        let from = self.token;
        let to = cx.next_token(ttl);
        self.token = to;
        self.swaps.push(Renaming { from, to, ttl, asked: true, unsure: false });
        // The answer to a keep of the old name says nothing about the new one.
        self.keeping = false;
        self.plan_renewal();
        cx.send(from, Op::Swap { to, ttl }, Some(caller));
    }

    /// Renamings that came to nothing are said again.
    pub(super) fn say_renamings(&mut self, cx: &mut Cx<'_>) {
        for renaming in self.swaps.iter_mut().filter(|renaming| !renaming.asked) {
            renaming.asked = true;
            cx.send(renaming.from, Op::Swap { to: renaming.to, ttl: renaming.ttl }, None);
        }
    }
}
