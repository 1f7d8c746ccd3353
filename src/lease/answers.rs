//! What the server's answers do to a lease.

use super::held::{Held, Holder};
use super::machine::{Lease, Phase};
use super::numbers::Numbers;
use super::waiting::Waiting;
use super::{Action, Attempt, Cx, Loss, Token, Ttl};
use crate::clock::Time;

impl Lease {
    /// The server granted a take that was sent at `sent`.
    pub fn granted(&mut self, token: Token, last: u64, sent: Time, cx: &mut Cx<'_>) {
        let first = self.first();
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.count(first);
        let deadline = waiting.ttl.deadline(sent);
        if cx.now >= deadline {
            // Too late to be believed; asking again raises the ttl.
            let op = waiting.take();
            return cx.send(token, op, None);
        }
        let contended = waiting.taken.is_some();
        let (ttl, block, tainted) = (waiting.ttl, waiting.block, waiting.tainted);
        let Some(first) = self.queue.front().copied() else {
            return;
        };
        let holder = Holder::new(&first, deadline, cx.now);
        let mut held = Held::new(token, ttl, sent, Numbers::block(last, block), holder, cx.now);
        (held.contended, held.tainted) = (contended, tainted);
        // The one this turn was begun for may have left, and the first in line want another lease.
        if first.ttl != ttl && !held.suits(&first, cx.now) {
            self.phase = Phase::Held(held);
            return self.end(None, cx);
        }
        self.queue.pop();
        if let Some(fence) = held.serve(&first, cx.now) {
            cx.out.push(Action::Granted { claim: first.claim, fence, handed_on: false });
        }
        self.phase = Phase::Held(held);
        self.queue.remove_once(|waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
    }

    /// The server says that somebody else has the key. The first in line asks again at `again`.
    pub fn taken(&mut self, token: Token, holder: Option<String>, again: Time, cx: &mut Cx<'_>) {
        let first = self.first();
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.count(first);
        waiting.taken = Some(holder);
        waiting.attempt = Attempt::Again;
        waiting.again = Some(again);
        self.queue.remove_once(|waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
        self.end_if_unwanted(cx);
    }

    /// When the turn asks again, decided after [`taken`](Lease::taken). Nothing changes while it is asking.
    pub fn ask_at(&mut self, token: Token, again: Time) {
        if let Some(waiting) = self.waiting(token).filter(|waiting| !waiting.asked) {
            waiting.again = Some(again);
        }
    }

    /// The server refused a take, maybe behind the point where the key was ours. It is done again at `again`.
    pub fn refused(&mut self, token: Token, again: Time) {
        if let Some(waiting) = self.waiting(token) {
            waiting.asked = false;
            waiting.refused = true;
            waiting.again = Some(again);
        }
    }

    /// A take, keep or swap came to nothing: it failed (`until` is `None`) or may still be executed until then. It is
    /// done again at `again`, or, with `None`, when the link is back.
    pub fn failed(&mut self, token: Token, until: Option<Time>, again: Option<Time>) {
        if let Some(waiting) = self.waiting(token) {
            waiting.asked = false;
            waiting.again = again;
            waiting.tainted = waiting.tainted.max(until);
        } else if let Phase::Held(held) = &mut self.phase
            && held.token == token
        {
            held.tainted = held.tainted.max(until);
            held.doubtful = true;
            held.again = again.filter(|_| held.holder.renewed || !held.swaps.is_empty());
            held.keeping = again.is_none() && held.holder.renewed;
        }
    }

    /// The server raised our lease by a keep that was sent at `sent`. `numbers`: the last one reserved, and how many.
    pub fn kept(
        &mut self,
        token: Token,
        sent: Time,
        ttl: Ttl,
        numbers: Option<(u64, u32)>,
        extended: bool,
        cx: &mut Cx<'_>,
    ) {
        if !self.renews(token, cx) {
            return;
        }
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        held.keeping = false;
        if let Some((last, count)) = numbers {
            held.numbers.add(last, count);
        }
        held.confirm(sent, ttl, extended);
    }

    /// The server renamed our lease to `to` by a swap that was sent at `sent`.
    pub fn swapped(&mut self, to: Token, sent: Time, ttl: Ttl, cx: &mut Cx<'_>) {
        if let Phase::Held(held) = &mut self.phase
            && let Some(done) = held.swaps.iter().position(|renaming| renaming.to == to)
        {
            let names = held.swaps.drain(..=done).map(|renaming| renaming.from);
            if held.tainted.is_some() {
                held.former.extend(names);
            }
        }
        if !self.renews(to, cx) {
            return;
        }
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        held.confirm(sent, ttl, true);
        if held.detaching == Some(to) {
            held.give_former(cx);
            cx.out.push(Action::Detached { claim: held.holder.claim, token: to });
            self.phase = Phase::Idle;
            self.begin(Attempt::First, cx);
        }
    }

    /// The server says, in answer to a keep, that the key isn't `token`'s.
    pub fn lost(&mut self, token: Token, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        if held.token != token {
            return;
        }
        if held.swaps.is_empty() {
            let claim = held.holder.claim;
            self.lose(claim, Loss::Taken, cx);
        } else {
            // It doesn't have that name yet: the answer to the renaming decides, and what was to be kept is still to be kept.
            held.keeping = false;
            held.again = held.holder.renewed.then(|| cx.now + held.ttl.renewal_retry());
        }
    }

    /// The server says, in answer to the swap that was to name the key `to`, that it isn't ours.
    pub fn not_renamed(&mut self, to: Token, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        if held.swaps.first().is_none_or(|renaming| renaming.to != to) {
            // The one before it came to nothing; both are said again.
            return self.renaming_failed(to);
        }
        if held.swaps.len() == 1 {
            let claim = held.holder.claim;
            return self.lose(claim, Loss::Taken, cx);
        }
        // It has neither of these names, but the next one may have been executed without our hearing of it.
        let renaming = held.swaps.remove(0);
        if held.tainted.is_some() {
            held.former.push(renaming.from);
        }
    }

    fn waiting(&mut self, token: Token) -> Option<&mut Waiting> {
        match &mut self.phase {
            Phase::Waiting(waiting) if waiting.token == token => Some(waiting),
            _ => None,
        }
    }

    /// Whether a confirmation for `token` still counts: the lease is held, by that name, and its deadline hasn't passed.
    fn renews(&mut self, token: Token, cx: &mut Cx<'_>) -> bool {
        match &self.phase {
            Phase::Held(held) if held.token == token => {
                if cx.now < held.holder.deadline {
                    return true;
                }
                self.tick(cx);
                false
            }
            _ => false,
        }
    }
}

impl Held {
    /// A command that raised or set the ttl was confirmed.
    fn confirm(&mut self, sent: Time, ttl: Ttl, extended: bool) {
        self.doubtful = false;
        self.confirmed = self.confirmed.max(sent);
        self.deadline = self.deadline.max(ttl.deadline(sent));
        if self.holder.renewed {
            self.holder.believe(self.deadline);
        } else if extended && self.holder.extends {
            self.holder.believe(ttl.deadline(sent));
        }
        self.plan_renewal();
    }
}
