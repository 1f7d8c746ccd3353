//! One lease on a table: events go in by hand, actions come out to be looked at.

use std::time::Duration;

use holdfast_core::clock::Time;
use holdfast_core::lease::{
    Action, ClaimId, CoreId, Cx, Grant, Kept, Lease, Loss, Op, Push, Refusal, Token, Ttl, Turn, Turns, Waiter, Way,
};

pub struct Bench {
    pub lease: Lease,
    pub now: Time,
    /// The core can be told.
    pub able: bool,
    /// Callers hear of their grants at once.
    pub awake: bool,
    pub round_trip: Duration,
    /// The last take was to queue.
    waits: bool,
    turns: Turns,
}

/// The instant `millis` after the beginning.
pub fn at(millis: u64) -> Time {
    Time::from_micros(1_000_000_000) + Duration::from_millis(millis)
}

pub fn ttl(millis: u32) -> Ttl {
    Ttl::from_millis(millis)
}

pub fn waiter(claim: u64, millis: u32) -> Waiter {
    Waiter {
        claim: ClaimId(claim),
        ttl: ttl(millis),
        once: false,
        renewed: true,
        max_hold: None,
        queues: true,
        pause: Duration::ZERO,
        turn: Turn::default(),
    }
}

pub fn once(claim: u64, millis: u32) -> Waiter {
    Waiter { once: true, queues: false, ..waiter(claim, millis) }
}

pub fn unrenewed(claim: u64, millis: u32) -> Waiter {
    Waiter { renewed: false, ..waiter(claim, millis) }
}

pub fn take(token: Token, millis: u32, block: u32) -> Action {
    let op = Op::Take { ttl: ttl(millis), block, waits: true };
    send(token, op, None)
}

/// A take for those who want one attempt.
pub fn take_once(token: Token, millis: u32, block: u32) -> Action {
    let op = Op::Take { ttl: ttl(millis), block, waits: false };
    send(token, op, None)
}

pub fn beat(token: Token, millis: u32, block: u32) -> Action {
    send(token, Op::Beat { ttl: ttl(millis), block }, None)
}

pub fn keep(token: Token, millis: u32, block: u32) -> Action {
    let op = Op::Keep { ttl: ttl(millis), block };
    send(token, op, None)
}

pub fn give(token: Token, millis: u32, caller: Option<u64>) -> Action {
    let op = Op::Give { ttl: ttl(millis), tainted: None };
    send(token, op, caller)
}

/// What a turn that asked in vain, or may have, leaves the queue by.
pub fn leaves(token: Token) -> Action {
    give(token, 60_000, None)
}

pub fn tainted_give(token: Token, millis: u32, until: Time) -> Action {
    let op = Op::Give { ttl: ttl(millis), tainted: Some(until) };
    send(token, op, None)
}

pub fn swap(token: Token, to: Token, millis: u32, caller: Option<u64>) -> Action {
    send(token, Op::Swap { to, ttl: ttl(millis) }, caller)
}

pub fn send(token: Token, op: Op, caller: Option<u64>) -> Action {
    Action::Send { token, op, caller: caller.map(ClaimId) }
}

pub fn granted(claim: u64, fence: u64) -> Action {
    Action::Granted { claim: ClaimId(claim), fence, way: Way::Asked }
}

pub fn handed_on(claim: u64, fence: u64) -> Action {
    Action::Granted { claim: ClaimId(claim), fence, way: Way::HandedOn }
}

pub fn told(claim: u64, fence: u64) -> Action {
    Action::Granted { claim: ClaimId(claim), fence, way: Way::Told }
}

pub fn refused(claim: u64) -> Action {
    Action::Refused { claim: ClaimId(claim) }
}

pub fn released(claim: u64) -> Action {
    Action::Released { claim: ClaimId(claim) }
}

pub fn lost(claim: u64, loss: Loss) -> Action {
    Action::Lost { claim: ClaimId(claim), loss }
}

impl Bench {
    pub fn new() -> Bench {
        let (lease, turns) = (Lease::default(), Turns::new(CoreId::new(7)));
        Bench { lease, now: at(0), able: true, awake: true, round_trip: Duration::ZERO, waits: true, turns }
    }

    /// With the lock held by caller 1, granted at once at `at(0)` with `block` numbers of which the last is 1000.
    pub fn held(millis: u32, others: &[Waiter]) -> Bench {
        let mut bench = Bench::new();
        bench.arrive(waiter(1, millis));
        for other in others {
            bench.arrive(*other);
        }
        let token = bench.token();
        assert_eq!(bench.grant(token, 1_000, 0), [granted(1, 1_000)]);
        bench
    }

    pub fn at(&mut self, millis: u64) -> &mut Bench {
        assert!(at(millis) >= self.now, "time doesn't run backwards");
        self.now = at(millis);
        self
    }

    pub fn token(&self) -> Token {
        self.lease.token().unwrap()
    }

    pub fn deadline_of(&self, claim: u64) -> Option<Time> {
        self.lease.deadline_of(ClaimId(claim))
    }

    pub fn arrive(&mut self, waiter: Waiter) -> Vec<Action> {
        self.step(|lease, cx| lease.arrive(waiter, cx))
    }

    pub fn leave(&mut self, claim: u64) -> Vec<Action> {
        self.step(|lease, cx| assert!(lease.leave(ClaimId(claim), cx), "{claim} doesn't wait"))
    }

    pub fn grant(&mut self, token: Token, last: u64, sent: u64) -> Vec<Action> {
        let grant = Grant { last, sent: at(sent), left: None, more: false };
        self.step(|lease, cx| lease.granted(token, grant, cx))
    }

    /// By a beat: the server keeps it for `left` more.
    pub fn grant_left(&mut self, token: Token, last: u64, sent: u64, left: u64) -> Vec<Action> {
        let grant = Grant { last, sent: at(sent), left: Some(Duration::from_millis(left)), more: false };
        self.step(|lease, cx| lease.granted(token, grant, cx))
    }

    /// By push, with 16 numbers.
    pub fn push(&mut self, token: Token, last: u64) -> Vec<Action> {
        let push = Push { last, block: 16, more: false };
        self.step(|lease, cx| assert!(lease.told(token, push, cx), "nobody waits with this token"))
    }

    pub fn taken(&mut self, token: Token, again: u64) -> Vec<Action> {
        self.refuse(token, 0, self.now, at(again))
    }

    /// Taken, in answer to a command sent at `sent`.
    pub fn refuse(&mut self, token: Token, mark: u64, sent: Time, again: Time) -> Vec<Action> {
        let refusal = Refusal { holder: "somebody".to_owned(), mark, sent, queued: self.waits };
        self.step(|lease, cx| lease.taken(token, refusal, again, cx))
    }

    /// With `until`: it may still be executed. Without `again`: when the link is back.
    pub fn failed(&mut self, token: Token, until: Option<u64>, again: Option<u64>) {
        self.lease.failed(token, until.map(at), again.map(at));
    }

    /// The renaming to `to`, the last or one before.
    pub fn renaming_failed(&mut self, to: Token, until: Option<u64>, again: Option<u64>) {
        self.lease.renaming_failed(to);
        self.failed(self.token(), until, again);
    }

    pub fn kept(&mut self, token: Token, sent: u64, millis: u32) -> Vec<Action> {
        self.step(|lease, cx| {
            lease.kept(
                token,
                Kept { sent: at(sent), ttl: ttl(millis), numbers: None, extended: false, more: false },
                cx,
            )
        })
    }

    pub fn swapped(&mut self, to: Token, sent: u64, millis: u32) -> Vec<Action> {
        self.step(|lease, cx| lease.swapped(to, at(sent), ttl(millis), cx))
    }

    pub fn not_ours(&mut self, token: Token) -> Vec<Action> {
        self.step(|lease, cx| lease.lost(token, cx))
    }

    pub fn release(&mut self, claim: u64) -> Vec<Action> {
        self.step(|lease, cx| lease.release(ClaimId(claim), cx))
    }

    pub fn extend(&mut self, claim: u64, caller: u64, millis: u32) -> Vec<Action> {
        self.step(|lease, cx| lease.extend(ClaimId(claim), ClaimId(caller), ttl(millis), cx))
    }

    pub fn tick(&mut self) -> Vec<Action> {
        self.step(|lease, cx| lease.tick(cx))
    }

    pub fn resume(&mut self) -> Vec<Action> {
        self.step(|lease, cx| lease.resume(cx))
    }

    pub fn step(&mut self, event: impl FnOnce(&mut Lease, &mut Cx<'_>)) -> Vec<Action> {
        let mut out = Vec::new();
        let Bench { now, able: told, round_trip, .. } = *self;
        let mut cx = Cx { now, told, round_trip, turns: &mut self.turns, out: &mut out };
        event(&mut self.lease, &mut cx);
        if self.awake {
            self.lease.claimed();
        }
        for action in &out {
            if let Action::Send { op: Op::Take { waits, .. }, .. } = action {
                self.waits = *waits;
            }
        }
        out
    }
}
