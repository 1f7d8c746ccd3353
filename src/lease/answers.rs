//! What the server's answers do to a lease, and what it tells of its own accord.

use std::time::Duration;

use super::held::Held;
use super::machine::{Lease, Phase};
use super::numbers::Numbers;
use super::queue::Waiter;
use super::waiting::Waiting;
use super::{Action, Cx, Loss, Token, Ttl, Way};
use crate::clock::Time;

/// The lock is ours, by the answer to a command.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// The last number of the block.
    pub last: u64,
    /// When the command was sent.
    pub sent: Time,
    /// How long the server keeps it, if that isn't what was asked for.
    pub left: Option<Duration>,
    /// Others wait for it.
    pub more: bool,
}

/// The lock is somebody else's.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Whose.
    pub holder: String,
    /// The fence counter: what is granted from now on has greater numbers.
    pub mark: u64,
    /// When the command was sent.
    pub sent: Time,
    /// The turn stands in the queue.
    pub queued: bool,
}

/// Our lease was raised, by the answer to a keep.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// When it was sent.
    pub sent: Time,
    /// To what.
    pub ttl: Ttl,
    /// The last number that was reserved, and how many.
    pub numbers: Option<(u64, u32)>,
    /// It was sent for an extend.
    pub extended: bool,
    /// Others wait for the lock.
    pub more: bool,
}

/// The lock is ours, by push.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// The last number of the block.
    pub last: u64,
    /// How many numbers.
    pub block: u32,
    /// Others wait for it.
    pub more: bool,
}

/// A lease that can be believed in.
struct Won {
    numbers: Numbers,
    deadline: Time,
    /// When what confirms it was sent.
    sent: Time,
    /// It lasts as a grant in the queue does.
    brief: bool,
    /// Others wait for it.
    more: bool,
    way: Way,
}

impl Lease {
    /// The server granted a command of ours.
    pub fn granted(&mut self, token: Token, grant: Grant, cx: &mut Cx<'_>) {
        let Grant { last, sent, left, more } = grant;
        let first = self.first();
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.count(first);
        let ttl = waiting.ttl;
        let deadline = left.map_or(ttl.deadline(sent), |left| ttl.deadline_within(left, sent));
        if cx.now >= deadline {
            // Too late to be believed; a take raises the ttl.
            let op = waiting.take(true);
            return cx.send(token, op, None);
        }
        let numbers = Numbers::block(last, waiting.block);
        let brief = left.is_some();
        self.hold(token, Won { numbers, deadline, sent, brief, more, way: Way::Asked }, cx);
    }

    /// The server says, of its own accord, that the turn has come. `false`: nobody waits with this token, and it must be given back.
    ///
    /// The lease lasts a claim from the grant on. When that was isn't known, but it was after the refusal with the greatest
    /// mark, since its numbers are greater: so it is dated by that.
    pub fn told(&mut self, token: Token, push: Push, cx: &mut Cx<'_>) -> bool {
        let Push { last, block, more } = push;
        let waiting = match &mut self.phase {
            Phase::Waiting(waiting) if waiting.token == token => waiting,
            Phase::Held(held) if held.is_named(token) => return true,
            _ => return false,
        };
        let since = waiting.since;
        let deadline = waiting.ttl.deadline_within(token.claim(), since);
        if last.saturating_sub(block.into()) < waiting.mark || cx.now >= deadline {
            self.look_now(token, cx);
        } else {
            let numbers = Numbers::block(last, block);
            let won = Won { numbers, deadline, sent: since, brief: true, more, way: Way::Told };
            self.hold(token, won, cx);
        }
        true
    }

    /// Another process waits for the lock.
    pub fn wanted(&mut self, token: Token) {
        if let Phase::Held(held) = &mut self.phase
            && held.is_named(token)
        {
            held.contended = true;
        }
    }

    /// Asks at once, or again as soon as what it asked is answered.
    pub fn look_now(&mut self, token: Token, cx: &mut Cx<'_>) {
        let waits = self.queue.waits();
        if let Some(waiting) = self.waiting(token) {
            if waiting.asked {
                waiting.hurries = true;
            } else {
                let op = waiting.ask(waits);
                cx.send(token, op, None);
            }
        }
    }

    /// The lease is ours: the first in line gets it.
    fn hold(&mut self, token: Token, won: Won, cx: &mut Cx<'_>) {
        let Won { numbers, deadline, sent, brief, more, way } = won;
        let Phase::Waiting(waiting) = &self.phase else { return };
        let (ttl, tainted) = (waiting.ttl, waiting.tainted);
        let Some(first) = self.queue.front().copied() else {
            return;
        };
        let mut held = Held::new(token, ttl, deadline, sent, numbers, &first, cx);
        (held.contended, held.presumed, held.tainted) = (more, brief, tainted);
        if tainted.is_some() {
            held.longest = held.longest.in_queue();
        }
        // The one this turn was begun for may have left, and the first in line want another lease.
        if first.ttl != ttl && !held.suits(&first, cx.now) {
            self.phase = Phase::Held(held);
            return self.end(None, cx);
        }
        if brief {
            held.is_brief(first.renewed, cx.now);
        }
        self.queue.pop();
        if let Some(fence) = held.serve(&first, cx.now) {
            cx.out.push(Action::Granted { claim: first.claim, fence, way });
        }
        self.phase = Phase::Held(held);
        self.queue.remove_once(|waiter: Waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
    }

    /// The server says that somebody else has the key. The first in line asks again at `again`.
    pub fn taken(&mut self, token: Token, refusal: Refusal, again: Time, cx: &mut Cx<'_>) {
        let first = self.first();
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.count(first);
        waiting.taken = Some(refusal.holder);
        waiting.queued |= refusal.queued;
        if refusal.mark >= waiting.mark {
            (waiting.mark, waiting.since) = (refusal.mark, refusal.sent);
        }
        waiting.again = Some(again);
        self.queue.remove_once(|waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
        self.end_if_unwanted(cx);
        let waits = self.queue.waits();
        if let Some(waiting) = self.waiting(token)
            && (waiting.hurries || (waits && !waiting.queued))
        {
            // It was asked for those who don't queue, and others have come meanwhile; or there was news.
            let op = waiting.ask(waits);
            cx.send(token, op, None);
        }
    }

    /// The server says that the turn doesn't stand in the queue: it was passed over because it couldn't be told, or the queue is
    /// gone. A new one is begun, at its end.
    pub fn unknown(&mut self, token: Token, cx: &mut Cx<'_>) {
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        let give = waiting.give();
        let (taken, attempts, asked_for) = (waiting.taken.take(), waiting.attempts, waiting.asked_for);
        cx.send(token, give, None);
        self.begin(false, cx);
        if let Phase::Waiting(waiting) = &mut self.phase {
            (waiting.taken, waiting.attempts, waiting.asked_for) = (taken, attempts, asked_for);
        }
    }

    /// A take of a lease that was granted by push, and is to have another name since, wasn't answered: it may be executed until then.
    pub fn taint(&mut self, until: Time) {
        if let Phase::Held(held) = &mut self.phase {
            held.tainted = held.tainted.max(Some(until));
            held.longest = held.longest.in_queue();
        }
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
            held.again = again.filter(|_| held.is_kept() || !held.swaps.is_empty());
            held.keeping = again.is_none() && held.is_kept();
        }
    }

    /// The server raised our lease.
    pub fn kept(&mut self, token: Token, kept: Kept, cx: &mut Cx<'_>) {
        let Kept { sent, ttl, numbers, extended, more } = kept;
        if !self.renews(token, cx) {
            return;
        }
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        held.keeping = false;
        held.contended |= more;
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
            cx.out.push(Action::Detached { claim: held.holder.waiter.claim, token: to });
            self.phase = Phase::Idle;
            self.begin(false, cx);
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
            let claim = held.holder.waiter.claim;
            self.lose(claim, Loss::Taken, cx);
        } else {
            // It doesn't have that name yet: the answer to the renaming decides, and what was to be kept is still to be kept.
            held.keeping = false;
            held.again = held.is_kept().then(|| cx.now + held.ttl.renewal_retry());
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
            let claim = held.holder.waiter.claim;
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
        if ttl >= self.ttl {
            self.brief = None;
        }
        if extended && self.holder.extends && !self.holder.waiter.renewed {
            self.holder.own = ttl.deadline(sent);
        }
        self.holder.believe(self.deadline);
        self.plan_renewal();
    }
}
