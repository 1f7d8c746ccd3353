//! The state of a lock that this process has, and the rules by which it passes from caller to caller.

use std::time::Duration;

use super::numbers::{LARGEST_BLOCK, Numbers};
use super::queue::Waiter;
use super::{Cx, Loss, Op, Token, Ttl};
use crate::clock::Time;

/// How long a process serves its own callers while others wait, unless ten times what the server takes to answer is more:
/// passing the lock on costs about one such time, which nobody uses.
const TURN: Duration = Duration::from_millis(20);
const TURN_ROUND_TRIPS: u32 = 10;
/// A lease that was granted in the queue is raised after so long: most turns are over by then.
const CONFIRM: Duration = Duration::from_millis(50);

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
    /// It was granted in the queue: whoever had it before most likely waits again, and says so a moment later.
    pub(super) presumed: bool,
    /// What bounds this turn while that is so.
    pub(super) most_holders: u32,
    pub(super) longest_turn: Duration,
    /// The lease is shorter than its holder asked for, and is to be raised then.
    pub(super) brief: Option<Time>,
    /// A keep is on its way, or should be and can't for want of a link.
    pub(super) keeping: bool,
    /// The last command about this lease failed.
    pub(super) doubtful: bool,
    /// It isn't renewed, because its holder gives no sign of life.
    pub(super) stalled: bool,
    /// The name under which the holder leaves it to somebody else, once the server knows it.
    pub(super) detaching: Option<Token>,
    /// When to look whether the holder has heard that it has the lock.
    pub(super) unclaimed: Option<Time>,
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
    /// As it waited.
    pub(super) waiter: Waiter,
    /// What it asked for, then or since.
    pub(super) ttl: Ttl,
    /// It has asked for another ttl, so that a confirmation speaks of it and not of a holder before.
    pub(super) extends: bool,
    /// Until when it may believe that it has it: the lease's deadline, or its own if it isn't renewed.
    pub(super) deadline: Time,
    /// Its deadline never goes beyond this.
    pub(super) until: Time,
    /// Nor beyond this, until it asks for more: the end of its ttl, if it isn't renewed.
    pub(super) own: Time,
}

impl Holder {
    /// `deadline`: of the lease.
    pub(super) fn new(waiter: &Waiter, deadline: Time, own: Time, now: Time) -> Holder {
        let until = waiter.max_hold.map_or(Time::NEVER, |most| now + most);
        let mut holder = Holder {
            waiter: *waiter,
            ttl: waiter.ttl,
            extends: false,
            deadline,
            until,
            own: if waiter.renewed { Time::NEVER } else { own },
        };
        holder.believe(deadline);
        holder
    }

    pub(super) fn believe(&mut self, deadline: Time) {
        self.deadline = deadline.min(self.until).min(self.own);
    }
}

impl Held {
    /// A lease of `ttl` that is ours until `deadline` and was confirmed by a command sent at `sent`, with `first` as the first
    /// of its turn. Who holds it is for [`serve`](Held::serve) to say.
    pub(super) fn new(
        token: Token,
        ttl: Ttl,
        deadline: Time,
        sent: Time,
        numbers: Numbers,
        first: &Waiter,
        cx: &Cx<'_>,
    ) -> Held {
        let longest_turn = first.turn.duration.unwrap_or_else(|| TURN.max(cx.round_trip * TURN_ROUND_TRIPS));
        Held {
            token,
            ttl,
            deadline,
            confirmed: sent,
            block: numbers.left() as u32,
            numbers,
            holder: Holder::new(first, deadline, deadline, cx.now),
            since: cx.now,
            served: 0,
            contended: false,
            presumed: false,
            most_holders: first.turn.holders,
            longest_turn,
            brief: None,
            keeping: false,
            doubtful: false,
            stalled: false,
            detaching: None,
            unclaimed: None,
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
        // A core that can't be told doesn't know who else waits.
        let others_wait = self.contended || self.presumed || !self.token.is_told();
        let over = now.since(self.since) >= self.longest_turn || self.served >= self.most_holders;
        // A lease much longer than asked for would keep others waiting longer after a crash than this caller wanted.
        let too_long = left > next.ttl.span() + next.ttl.beat() * 2;
        let enough = left >= next.ttl.claim_window() && self.numbers.left() > 0;
        enough && !too_long && !(others_wait && over)
    }

    /// Makes `next` the holder. `None` if no number is left.
    pub(super) fn serve(&mut self, next: &Waiter, now: Time) -> Option<u64> {
        let fence = self.numbers.take()?;
        self.served += 1;
        let own = next.ttl.deadline(now);
        let full = own - next.ttl.claim_window() <= self.deadline;
        if !next.renewed && !full {
            self.brief = Some(now);
        }
        let own = if self.brief.is_some() { own } else { own.min(self.deadline) };
        self.holder = Holder::new(next, self.deadline, own, now);
        self.stalled = false;
        self.detaching = None;
        // On a grid, so that it costs nothing where the lock goes from hand to hand.
        let window = next.ttl.claim_window();
        self.unclaimed = (!next.once).then(|| (now + window + window / 4).floor(window / 4));
        if next.ttl > self.ttl && next.renewed {
            self.again = Some(now);
        } else {
            self.plan_renewal();
        }
        self.ttl = next.ttl;
        self.longest = self.longest.max(next.ttl);
        Some(fence)
    }

    /// The lease lasts as a grant in the queue does: it is raised soon.
    pub(super) fn is_brief(&mut self, renewed: bool, now: Time) {
        let little = self.deadline.since(now) < self.ttl.claim_window() + CONFIRM;
        self.brief = Some(if renewed && !little { now + CONFIRM } else { now });
    }

    /// When the holder's lease is to be renewed next, counted from the last confirmation.
    pub(super) fn plan_renewal(&mut self) {
        let ttl = self.holder.ttl;
        // What is being detached lasts for as long as its ticket says.
        let free = !self.keeping && self.detaching.is_none();
        let renewal = self.holder.waiter.renewed.then(|| (self.confirmed + ttl.renewal()).floor(renewal_grid(ttl)));
        self.again = self.brief.or(renewal).filter(|_| free);
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
        } else if self.is_kept() && (self.keeping || self.doubtful) {
            Loss::Unreachable
        } else {
            Loss::Expired
        }
    }

    /// Whether the server may know it by this name.
    pub(super) fn is_named(&self, token: Token) -> bool {
        self.token == token || self.swaps.iter().any(|renaming| renaming.from == token)
    }

    /// Whether keeps are sent for it at all.
    pub(super) fn is_kept(&self) -> bool {
        self.holder.waiter.renewed || self.brief.is_some()
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
