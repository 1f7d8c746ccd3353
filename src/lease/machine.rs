//! The states of a lock in one process and what moves it from one to the other.
//!
//! | state   | the key in Redis                                  | local callers            |
//! |---------|---------------------------------------------------|--------------------------|
//! | Idle    | not ours; nothing of ours is under way            | none                     |
//! | Waiting | not ours, or ours without our knowing             | at least one waits       |
//! | Held    | ours until `deadline`                             | one holds, others wait   |
//!
//! Invariant: a turn that may have left something on the server ends with a give of its token.

use super::held::{Held, Holder};
use super::numbers::Numbers;
use super::queue::{ClaimId, Queue, Waiter};
use super::waiting::Waiting;
use super::{Attempt, Op, Token, Ttl};
use crate::clock::Time;

/// What a lease wants done, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a command about `token`. `caller` waits for its answer.
    Send {
        /// The turn.
        token: Token,
        /// What.
        op: Op,
        /// Who releases or extends.
        caller: Option<ClaimId>,
    },
    /// The caller has the lock.
    Granted {
        /// Who.
        claim: ClaimId,
        /// Its fencing number.
        fence: u64,
        /// It came from another caller of this process.
        handed_on: bool,
    },
    /// The caller wanted one attempt, and the lock is taken.
    Refused {
        /// Who.
        claim: ClaimId,
    },
    /// The caller's release is done: the lock went on to the next one.
    Released {
        /// Who.
        claim: ClaimId,
    },
    /// The caller doesn't have the lock any more.
    Lost {
        /// Who.
        claim: ClaimId,
        /// Why.
        loss: Loss,
    },
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its deadline passed, and nobody tried to renew it.
    Expired,
    /// The key is gone or somebody else's.
    Taken,
    /// Renewal wasn't confirmed until the deadline.
    Unreachable,
    /// The manager was closed.
    Closed,
}

/// Where a lease stands, for error messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Nobody wants it.
    Idle,
    /// A first attempt isn't answered yet.
    Asking,
    /// Somebody else has it.
    Taken(Option<&'a str>),
    /// A caller of this process has it.
    Held,
}

/// What every event brings along.
pub struct Cx<'a> {
    /// The present.
    pub now: Time,
    /// Where new tokens come from.
    pub turns: &'a mut super::Turns,
    /// What is to be done.
    pub out: &'a mut Vec<Action>,
}

impl Cx<'_> {
    fn send(&mut self, token: Token, op: Op, caller: Option<ClaimId>) {
        self.out.push(Action::Send { token, op, caller });
    }
}

/// One lock in one process.
#[derive(Debug, Default)]
pub struct Lease {
    queue: Queue,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
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
            Phase::Idle => self.begin(Attempt::First, cx),
            Phase::Waiting(_) => {}
            Phase::Held(held) => {
                if !held.keeping && held.runs_low(self.queue.len()) {
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
        let deadline = ttl.deadline(cx.now);
        if deadline >= held.deadline {
            held.keeping = true;
            held.again = None;
            cx.send(held.token, Op::Keep { ttl, block: 0 }, Some(caller));
        } else {
            // The local deadline shrinks before the command is sent: whatever becomes of it, we are on the safe side.
            held.deadline = deadline;
            held.holder.deadline = held.holder.deadline.min(deadline);
            let from = held.token;
            let to = cx.turns.next(ttl.claim());
            held.token = to;
            held.swaps.push((from, to, ttl));
            // The answer to a keep of the old name says nothing about the new one.
            held.keeping = false;
            held.plan_renewal();
            cx.send(from, Op::Swap { to, ttl }, Some(caller));
        }
    }

    /// The server granted a take that was sent at `sent`.
    pub fn granted(&mut self, token: Token, last: u64, sent: Time, cx: &mut Cx<'_>) {
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.attempts += 1;
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
        let mut held = Held {
            token,
            ttl,
            deadline,
            confirmed: sent,
            numbers: Numbers::block(last, block),
            block,
            holder: Holder { claim: first.claim, ttl, renewed: first.renewed, extends: false, deadline },
            since: cx.now,
            served: 0,
            contended,
            keeping: false,
            doubtful: false,
            again: None,
            swaps: Vec::new(),
            tainted,
            longest: ttl,
        };
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
        let Some(waiting) = self.waiting(token) else {
            return;
        };
        waiting.asked = false;
        waiting.attempts += 1;
        waiting.taken = Some(holder);
        waiting.attempt = Attempt::Again;
        waiting.again = Some(again);
        self.queue.remove_once(|waiter| cx.out.push(Action::Refused { claim: waiter.claim }));
        self.end_if_unwanted(cx);
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
            held.again = again.filter(|_| held.holder.renewed);
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
            && let Some(done) = held.swaps.iter().position(|(_, name, _)| *name == to)
        {
            held.swaps.drain(..=done);
        }
        if !self.renews(to, cx) {
            return;
        }
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        held.confirm(sent, ttl, true);
    }

    /// The server says, in answer to a keep, that the key isn't `token`'s.
    pub fn lost(&mut self, token: Token, cx: &mut Cx<'_>) {
        if let Phase::Held(held) = &self.phase
            && held.token == token
            // It may not have that name yet; then the answer to the renaming decides.
            && held.swaps.is_empty()
        {
            let claim = held.holder.claim;
            self.lose(claim, Loss::Taken, cx);
        }
    }

    /// The server says, in answer to the swap that was to name the key `to`, that it isn't ours.
    pub fn not_renamed(&mut self, to: Token, cx: &mut Cx<'_>) {
        if let Phase::Held(held) = &self.phase
            // A later one finds what an earlier one has left; the first is decisive.
            && held.swaps.first().is_some_and(|(_, name, _)| *name == to)
        {
            let claim = held.holder.claim;
            self.lose(claim, Loss::Taken, cx);
        }
    }

    /// Whether the lease is held and was to be named `to`, now or on the way to its present name.
    pub fn is_renamed_to(&self, to: Token) -> bool {
        match &self.phase {
            Phase::Held(held) => held.token == to || held.swaps.iter().any(|(_, name, _)| *name == to),
            _ => false,
        }
    }

    /// Time passed.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Waiting(waiting) => {
                if waiting.again.is_some_and(|again| again <= cx.now) && !waiting.asked {
                    let op = waiting.take();
                    cx.send(waiting.token, op, None);
                }
            }
            Phase::Held(held) => {
                if cx.now >= held.holder.deadline {
                    let claim = held.holder.claim;
                    let tried = held.holder.renewed && (held.keeping || held.doubtful);
                    let loss = if tried { Loss::Unreachable } else { Loss::Expired };
                    self.lose(claim, loss, cx);
                } else if held.again.is_some_and(|again| again <= cx.now) {
                    Self::renew(held, self.queue.len(), cx);
                }
            }
        }
    }

    /// The link is back: everything that isn't answered is said again, and a held lease is confirmed at once.
    pub fn resume(&mut self, cx: &mut Cx<'_>) {
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Waiting(waiting) => {
                if !waiting.asked {
                    let op = waiting.take();
                    cx.send(waiting.token, op, None);
                }
            }
            Phase::Held(held) => {
                if held.holder.renewed || !held.swaps.is_empty() {
                    Self::renew(held, self.queue.len(), cx);
                }
            }
        }
    }

    /// When something is due, if anything is.
    pub fn due(&self) -> Option<Time> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Waiting(waiting) => waiting.again,
            Phase::Held(held) => {
                Some(held.again.map_or(held.holder.deadline, |again| again.min(held.holder.deadline)))
            }
        }
    }

    /// Nobody waits and nobody holds.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// The caller's own deadline, if it has the lock.
    pub fn deadline_of(&self, claim: ClaimId) -> Option<Time> {
        match &self.phase {
            Phase::Held(held) if held.holder.claim == claim => Some(held.holder.deadline),
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
            Phase::Waiting(Waiting { taken: Some(holder), attempts, .. }) => {
                (Standing::Taken(holder.as_deref()), *attempts)
            }
            Phase::Waiting(waiting) => (Standing::Asking, waiting.attempts),
            Phase::Held(_) => (Standing::Held, 0),
        }
    }

    /// Whether this caller is the first in line.
    pub fn is_first(&self, claim: ClaimId) -> bool {
        self.queue.front().is_some_and(|first| first.claim == claim)
    }

    /// A renaming that isn't answered is said again first: the keep that follows speaks of the new name.
    fn renew(held: &mut Held, waiting: usize, cx: &mut Cx<'_>) {
        for (from, to, ttl) in held.swaps.iter().copied() {
            cx.send(from, Op::Swap { to, ttl }, None);
        }
        let op = held.keep(waiting);
        cx.send(held.token, op, None);
    }

    fn waiting(&mut self, token: Token) -> Option<&mut Waiting> {
        match &mut self.phase {
            Phase::Waiting(waiting) if waiting.token == token => Some(waiting),
            _ => None,
        }
    }

    /// Whether `claim` holds the lock at this instant; a deadline that has passed is acted on first.
    fn holds(&mut self, claim: ClaimId, cx: &mut Cx<'_>) -> bool {
        if self.deadline_of(claim).is_some_and(|deadline| cx.now >= deadline) {
            self.tick(cx);
        }
        self.deadline_of(claim).is_some()
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

    fn begin(&mut self, attempt: Attempt, cx: &mut Cx<'_>) {
        let Some(first) = self.queue.front() else {
            return;
        };
        let mut waiting = Waiting {
            token: cx.turns.next(first.ttl.claim()),
            ttl: first.ttl,
            block: self.queue.len().min(LARGEST_TAKE) as u32,
            attempt,
            asked: false,
            again: None,
            attempts: 0,
            taken: None,
            tainted: None,
        };
        let op = waiting.take();
        cx.send(waiting.token, op, None);
        self.phase = Phase::Waiting(waiting);
    }

    /// The holder ended: the next local caller, or the end of the turn.
    fn hand_on(&mut self, releaser: Option<ClaimId>, cx: &mut Cx<'_>) {
        let Phase::Held(held) = &mut self.phase else {
            return;
        };
        let next = self.queue.front().filter(|next| held.suits(next, cx.now)).copied();
        if let Some(next) = next
            && let Some(fence) = held.serve(&next, cx.now)
        {
            self.queue.pop();
            if let Some(claim) = releaser {
                cx.out.push(Action::Released { claim });
            }
            cx.out.push(Action::Granted { claim: next.claim, fence, handed_on: true });
            let due = held.again.is_some_and(|again| again <= cx.now);
            if !held.keeping && (due || held.runs_low(self.queue.len())) {
                let op = held.keep(self.queue.len());
                cx.send(held.token, op, None);
            }
        } else {
            self.end(releaser, cx);
        }
    }

    /// The turn is over: the key is given back, and asked for again right behind if callers are left.
    fn end(&mut self, releaser: Option<ClaimId>, cx: &mut Cx<'_>) {
        if let Phase::Held(held) = std::mem::take(&mut self.phase) {
            let give = Op::Give { ttl: held.longest, tainted: held.tainted };
            for (from, _, _) in &held.swaps {
                cx.send(*from, give, None);
            }
            cx.send(held.token, give, releaser);
            self.begin(Attempt::AfterOwnTurn, cx);
        }
    }

    fn lose(&mut self, claim: ClaimId, loss: Loss, cx: &mut Cx<'_>) {
        cx.out.push(Action::Lost { claim, loss });
        self.end(None, cx);
    }

    fn end_if_unwanted(&mut self, cx: &mut Cx<'_>) {
        if self.queue.is_empty()
            && let Phase::Waiting(waiting) = &self.phase
        {
            if waiting.may_have_left_something(cx.now) {
                let give = Op::Give { ttl: waiting.ttl, tainted: waiting.tainted };
                cx.send(waiting.token, give, None);
            }
            self.phase = Phase::Idle;
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
            self.holder.deadline = self.deadline;
        } else if extended && self.holder.extends {
            self.holder.deadline = ttl.deadline(sent);
        }
        self.plan_renewal();
    }
}
