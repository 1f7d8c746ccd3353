//! The state of a lock that this process has, and the rules by which it passes from caller to caller.

use std::time::Duration;

use super::numbers::{LARGEST_BLOCK, Numbers};
use super::queue::{ClaimId, Waiter};
use super::{Cx, Loss, Op, Token, Ttl};
use crate::clock::Time;

/// How long a process serves its own callers before it gives the key back and asks again, so that callers
/// of other processes get a chance.
const TURN: Duration = Duration::from_millis(20);
/// The same in holders, counted only while another process is known to wait.
const TURN_HOLDERS: u32 = 16;

/// Renewals that fall due within this span are sent together, earlier than they must.
fn renewal_grid(ttl: Ttl) -> Duration {
    (ttl.span() / 15).min(Duration::from_millis(200))
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) ttl: Ttl,
    /// Until when the lease is ours.
    pub(super) deadline: Time,
    /// When the last confirmed command was sent.
    pub(super) confirmed: Time,
    pub(super) numbers: Numbers,
    /// How many numbers were reserved last.
    pub(super) block: u32,
    pub(super) holder: Holder,
    /// When this turn began, and how many callers it served.
    pub(super) since: Time,
    pub(super) served: u32,
    /// Another process wants the key, as far as we know.
    pub(super) contended: bool,
    /// A keep is on its way, or should be and can't for want of a link.
    pub(super) keeping: bool,
    /// The last command about this lease failed.
    pub(super) doubtful: bool,
    /// It isn't renewed, because its holder gives no sign of life.
    pub(super) stalled: bool,
    /// The name under which the holder leaves it to somebody else, once the server knows it.
    pub(super) detaching: Option<Token>,
    /// When to renew.
    pub(super) again: Option<Time>,
    /// Renamings that aren't answered, oldest first.
    pub(super) swaps: Vec<Renaming>,
    pub(super) tainted: Option<Time>,
    /// Names that it no longer has, but that a tainted command could bring back.
    pub(super) former: Vec<Token>,
    /// The longest ttl of this turn: after it the server has forgotten every name the key had.
    pub(super) longest: Ttl,
}

/// A renaming of the lease that isn't answered.
#[derive(Debug)]
pub(super) struct Renaming {
    pub(super) from: Token,
    pub(super) to: Token,
    pub(super) ttl: Ttl,
    /// It is under way. It is never sent a second time before that has come to something: a copy could be executed when the
    /// lease is somebody else's under its new name.
    pub(super) asked: bool,
    /// An earlier copy was sent and not answered: it may have been executed.
    pub(super) unsure: bool,
}

/// The caller that has the lock.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) claim: ClaimId,
    pub(super) ttl: Ttl,
    pub(super) renewed: bool,
    /// It has asked for another ttl, so that a confirmation speaks of it and not of a holder before.
    pub(super) extends: bool,
    /// Until when it may believe that it has it: the lease's deadline, or its own if it isn't renewed.
    pub(super) deadline: Time,
    /// Its deadline never goes beyond this.
    pub(super) until: Time,
}

impl Holder {
    pub(super) fn new(waiter: &Waiter, deadline: Time, now: Time) -> Holder {
        let until = waiter.max_hold.map_or(Time::NEVER, |most| now + most);
        Holder {
            claim: waiter.claim,
            ttl: waiter.ttl,
            renewed: waiter.renewed,
            extends: false,
            deadline: deadline.min(until),
            until,
        }
    }

    pub(super) fn believe(&mut self, deadline: Time) {
        self.deadline = deadline.min(self.until);
    }
}

impl Held {
    /// A lease that was made ours by a command sent at `sent`, with `holder` as the first of its turn.
    pub(super) fn new(token: Token, ttl: Ttl, sent: Time, numbers: Numbers, holder: Holder, now: Time) -> Held {
        Held {
            token,
            ttl,
            deadline: ttl.deadline(sent),
            confirmed: sent,
            block: numbers.left() as u32,
            numbers,
            holder,
            since: now,
            served: 0,
            contended: false,
            keeping: false,
            doubtful: false,
            stalled: false,
            detaching: None,
            again: None,
            swaps: Vec::new(),
            tainted: None,
            former: Vec::new(),
            longest: ttl,
        }
    }

    /// Whether the turn may go on with this caller on the lease as it is. If not, the key is given back and asked for
    /// again in one go, which costs a round trip and never hands on a lease that is about to end.
    pub(super) fn suits(&self, next: &Waiter, now: Time) -> bool {
        let left = self.deadline.since(now);
        let turn_used_up = now.since(self.since) >= TURN || (self.contended && self.served >= TURN_HOLDERS);
        // A lease much longer than asked for would keep others waiting longer after a crash than this caller wanted.
        let too_long = left > next.ttl.span() + next.ttl.beat() * 2;
        let enough = if next.renewed {
            next.ttl.claim_window()
        } else {
            next.ttl.span().saturating_sub(next.ttl.drift() + next.ttl.claim_window())
        };
        !turn_used_up && !too_long && left >= enough && self.numbers.left() > 0
    }

    /// Makes `next` the holder. `None` if no number is left.
    pub(super) fn serve(&mut self, next: &Waiter, now: Time) -> Option<u64> {
        let fence = self.numbers.take()?;
        self.served += 1;
        let deadline = if next.renewed { self.deadline } else { self.deadline.min(next.ttl.deadline(now)) };
        self.holder = Holder::new(next, deadline, now);
        self.stalled = false;
        self.detaching = None;
        if next.ttl > self.ttl && next.renewed {
            self.again = Some(now);
        } else {
            self.plan_renewal();
        }
        self.ttl = next.ttl;
        self.longest = self.longest.max(next.ttl);
        Some(fence)
    }

    /// When the holder's lease is to be renewed next, counted from the last confirmation.
    pub(super) fn plan_renewal(&mut self) {
        let ttl = self.holder.ttl;
        // What is being detached lasts for as long as its ticket says.
        let renewed = self.holder.renewed && !self.keeping && self.detaching.is_none();
        self.again = renewed.then(|| (self.confirmed + ttl.renewal()).floor(renewal_grid(ttl)));
    }

    /// What was tainted is given back until that can't be executed any more: by these names, besides those it may have now.
    pub(super) fn give_former(&self, cx: &mut Cx<'_>) {
        if self.tainted.is_some_and(|until| cx.now < until) {
            let give = Op::Give { ttl: self.longest, tainted: self.tainted };
            for name in &self.former {
                cx.send(*name, give, None);
            }
        }
    }

    /// Why it is lost when its time is over.
    pub(super) fn loss(&self, now: Time) -> Loss {
        if now >= self.holder.until {
            Loss::MaxHold
        } else if self.stalled {
            Loss::Stalled
        } else if self.holder.renewed && (self.keeping || self.doubtful) {
            Loss::Unreachable
        } else {
            Loss::Expired
        }
    }

    /// A keep, reserving numbers too if they run low while callers wait.
    pub(super) fn keep(&mut self, waiting: usize) -> Op {
        self.keeping = true;
        self.again = None;
        let block = if self.runs_low(waiting) { self.next_block() } else { 0 };
        if block > 0 {
            self.block = block;
        }
        Op::Keep { ttl: self.ttl, block }
    }

    /// Whether numbers are to be reserved now, by a keep.
    pub(super) fn needs_numbers(&self, waiting: usize) -> bool {
        !self.keeping && !self.stalled && self.detaching.is_none() && self.runs_low(waiting)
    }

    /// Half of the reserved numbers are used, and there are callers for the rest.
    fn runs_low(&self, waiting: usize) -> bool {
        let left = self.numbers.left();
        left <= u64::from(self.block) / 2 && (waiting as u64) > left
    }

    fn next_block(&self) -> u32 {
        (self.block.max(8) * 2).min(LARGEST_BLOCK)
    }
}
