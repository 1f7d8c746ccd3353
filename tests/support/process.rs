//! One process that locks: a core of its own, and what it is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use holdfast_core::clock::Time;
use holdfast_core::engine::{
    self, Acquire, Core, Counters, Event, Listener, Options, Outcome, Released, Target, Terms, Where, open,
};
use holdfast_core::lease::{ClaimId, Token, Ttl, Turn};
use holdfast_core::link::{Endpoint, Place};
use holdfast_core::store::{self, Keys};
use holdfast_core::wait::{Choice, Strategy};

/// Longer than anything here takes on a machine that has other things to do.
pub const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Told {
    outcomes: VecDeque<(u32, Instant, Outcome)>,
    events: VecDeque<Event>,
}

#[derive(Default)]
struct Ear {
    told: Mutex<Told>,
    bell: Condvar,
    /// Since when it has given no sign of life, if it doesn't.
    silent: Mutex<Option<Time>>,
    hears_renewals: AtomicBool,
}

impl Listener for Ear {
    fn complete(&self, slot: u32, outcome: Outcome) {
        let told = (slot, Instant::now(), outcome);
        self.told.lock().unwrap().outcomes.push_back(told);
    }

    fn event(&self, _: u32, event: Event) {
        self.told.lock().unwrap().events.push_back(event);
    }

    fn ring(&self) {
        self.bell.notify_all();
    }

    fn last_beat(&self) -> Time {
        self.silent.lock().unwrap().unwrap_or_else(Time::now)
    }

    fn wants_renewals(&self) -> bool {
        self.hears_renewals.load(Ordering::Relaxed)
    }
}

impl Ear {
    /// The first thing that `pick` takes.
    fn wait<T>(&self, within: Duration, mut pick: impl FnMut(&mut Told) -> Option<T>) -> Option<T> {
        let until = Instant::now() + within;
        let mut told = self.told.lock().unwrap();
        loop {
            if let Some(picked) = pick(&mut told) {
                return Some(picked);
            }
            let left = until.checked_duration_since(Instant::now())?;
            told = self.bell.wait_timeout(told, left).unwrap().0;
        }
    }
}

pub struct Process {
    pub core: Arc<Core>,
    pub manager: u32,
    ear: Arc<Ear>,
    slots: AtomicU32,
}

/// What to ask for, beyond the key.
#[derive(Clone, Copy)]
pub struct Ask {
    pub ttl: u32,
    pub timeout: Option<Duration>,
    pub once: bool,
    pub renewed: bool,
    pub max_hold: Option<Duration>,
    pub max_stall: Option<Duration>,
    pub min_hold: Duration,
    pub strategy: fn() -> Strategy,
}

pub const ASK: Ask = Ask {
    ttl: 10_000,
    timeout: None,
    once: false,
    renewed: true,
    max_hold: None,
    max_stall: None,
    min_hold: Duration::ZERO,
    strategy: || Strategy::Poll(Choice::Backoff.phases()),
};

impl Ask {
    pub fn terms(&self) -> Terms {
        Terms {
            ttl: Ttl::from_millis(self.ttl),
            renewed: self.renewed,
            max_hold: self.max_hold,
            max_stall: self.max_stall,
            min_hold: self.min_hold,
            turn: Turn::default(),
        }
    }
}

/// A lock of these keys, in `owner`'s name if it isn't empty.
pub fn lock_of(keys: &[&str], owner: &str) -> store::Lock {
    let keys = keys.iter().map(|key| format!("lock:{key}").into()).collect();
    let owner = (!owner.is_empty()).then(|| owner.into());
    store::Lock { keys: Keys::of(keys).unwrap(), owner }
}

/// A call, and the lock it becomes.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub id: ClaimId,
    pub slot: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Lock {
    pub call: Call,
    pub fence: u64,
    pub token: Token,
    /// How many holds of its owner there were.
    pub holds: Option<u32>,
}

/// What a detached lock can be adopted by.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub token: Token,
    pub fence: u64,
}

/// Processes that differ in nothing else are told apart by their patience.
pub fn on_server(port: u16, patience: Duration) -> Process {
    let endpoint = Endpoint {
        place: Place::Tcp("127.0.0.1".to_owned(), port),
        username: None,
        password: None,
        db: 0,
        tls: None,
        patience,
    };
    Process::new(Where::Server(endpoint), patience)
}

pub fn in_memory(name: &str, patience: Duration) -> Process {
    Process::new(Where::Memory(name.to_owned()), patience)
}

impl Process {
    fn new(store: Where, patience: Duration) -> Process {
        let options = Options { store, prefix: "lock:".to_owned(), patience };
        let ear = Arc::new(Ear::default());
        let (core, manager) = open(&options, ear.clone(), 0);
        Process { core, manager, ear, slots: AtomicU32::new(0) }
    }

    /// Asks, and sends.
    pub fn call(&self, key: &str, ask: Ask) -> Call {
        let call = self.call_unsent(key, ask);
        self.core.flush();
        call
    }

    pub fn call_unsent(&self, key: &str, ask: Ask) -> Call {
        self.call_for(Target::Key(&format!("lock:{key}")), ask)
    }

    pub fn call_for(&self, target: Target<'_>, ask: Ask) -> Call {
        let call = self.new_call();
        let slot = call.slot;
        let (terms, timeout, once) = (ask.terms(), ask.timeout, ask.once);
        let id =
            self.core.acquire(Acquire { call, target, terms, timeout, once, strategy: Arc::new((ask.strategy)()) });
        Call { id, slot }
    }

    fn new_call(&self) -> engine::Call {
        let slot = self.slots.fetch_add(1, Ordering::Relaxed);
        engine::Call { listener: self.ear.clone(), slot, manager: self.manager }
    }

    /// Asks for any lock, and sends.
    pub fn call_lock(&self, lock: &store::Lock, ask: Ask) -> Call {
        let call = self.call_for(Target::Lock(lock.clone()), ask);
        self.core.flush();
        call
    }

    pub fn acquire_lock(&self, lock: &store::Lock, ask: Ask) -> Lock {
        let call = self.call_lock(lock, ask);
        self.granted(call)
    }

    /// One attempt: whether somebody else has it.
    pub fn finds_taken(&self, lock: &store::Lock) -> bool {
        let call = self.call_lock(lock, Ask { once: true, ..ASK });
        match self.outcome(call) {
            Outcome::Busy(_) => true,
            Outcome::Granted { .. } => {
                self.core.release(call.id);
                self.core.flush();
                assert!(matches!(self.outcome(call), Outcome::Released(true)));
                false
            }
            other => panic!("a single attempt comes to {other:?}"),
        }
    }

    pub fn acquire(&self, key: &str, ask: Ask) -> Lock {
        let call = self.call(key, ask);
        self.granted(call)
    }

    pub fn granted(&self, call: Call) -> Lock {
        match self.outcome(call) {
            Outcome::Granted { token, fence, holds, .. } => Lock { call, fence, token, holds },
            other => panic!("{other:?} instead of the lock"),
        }
    }

    /// Releases; whether it was ours until then.
    pub fn release(&self, lock: Lock) -> bool {
        match self.released(lock) {
            Outcome::Released(mine) => mine,
            other => panic!("a release comes to {other:?}"),
        }
    }

    pub fn released(&self, lock: Lock) -> Outcome {
        assert_eq!(self.core.release(lock.call.id), Released::Later);
        self.core.flush();
        self.outcome(lock.call)
    }

    /// Sets what remains; answered as another call.
    pub fn extend(&self, lock: Lock, ttl: u32) -> Call {
        let slot = self.slots.fetch_add(1, Ordering::Relaxed);
        let held = self.core.extend(lock.call.id, slot, Ttl::from_millis(ttl));
        assert!(held, "it isn't held");
        self.core.flush();
        Call { slot, ..lock.call }
    }

    /// Leaves it to whoever adopts it; answered as another call.
    pub fn detach(&self, lock: Lock, ttl: u32) -> Call {
        let slot = self.slots.fetch_add(1, Ordering::Relaxed);
        let held = self.core.detach(lock.call.id, slot, Ttl::from_millis(ttl));
        assert!(held, "it isn't held");
        self.core.flush();
        Call { slot, ..lock.call }
    }

    pub fn detached(&self, lock: Lock, ttl: u32) -> Ticket {
        let call = self.detach(lock, ttl);
        match self.outcome(call) {
            Outcome::Detached(token) => Ticket { token, fence: lock.fence },
            other => panic!("a detach comes to {other:?}"),
        }
    }

    pub fn adopt(&self, lock: &store::Lock, ticket: Ticket, ask: Ask) -> Call {
        let call = self.new_call();
        let slot = call.slot;
        let id = self.core.adopt(call, lock.clone(), ticket.token, ticket.fence, ask.terms());
        self.core.flush();
        Call { id, slot }
    }

    pub fn counters(&self) -> Counters {
        self.core.figures(self.manager).counters
    }

    pub fn remaining(&self, lock: Lock) -> Duration {
        self.core.remaining(lock.call.id)
    }

    /// Whether its event loop gives signs of life.
    pub fn lives(&self, lives: bool) {
        *self.ear.silent.lock().unwrap() = (!lives).then(Time::now);
    }

    pub fn hears_renewals(&self) {
        self.ear.hears_renewals.store(true, Ordering::Relaxed);
    }

    /// What comes of a call next.
    pub fn outcome(&self, call: Call) -> Outcome {
        let outcome = self.outcome_within(call, LONG);
        outcome.unwrap_or_else(|| panic!("{call:?} comes to nothing")).1
    }

    /// And when.
    pub fn outcome_within(&self, call: Call, within: Duration) -> Option<(Instant, Outcome)> {
        self.ear.wait(within, |told| {
            let at = told.outcomes.iter().position(|(slot, ..)| *slot == call.slot)?;
            let (_, at, outcome) = told.outcomes.remove(at)?;
            Some((at, outcome))
        })
    }

    /// What comes of anything next.
    pub fn next(&self, within: Duration) -> Option<(u32, Outcome)> {
        let next = self.ear.wait(within, |told| told.outcomes.pop_front())?;
        Some((next.0, next.2))
    }

    /// Waits until something is said about the connection that `is` it.
    pub fn event(&self, is: impl Fn(&Event) -> bool) {
        self.event_of(|event| is(&event).then_some(()));
    }

    /// Waits for an event that `pick` takes.
    pub fn event_of<T>(&self, pick: impl Fn(Event) -> Option<T>) -> T {
        let found = self.ear.wait(LONG, |told| {
            while let Some(event) = told.events.pop_front() {
                if let Some(picked) = pick(event) {
                    return Some(picked);
                }
            }
            None
        });
        found.unwrap_or_else(|| panic!("it isn't said of the connection"))
    }

    /// What was said about the connection until now doesn't count.
    pub fn forget_events(&self) {
        self.ear.told.lock().unwrap().events.clear();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.core.leave(self.manager);
    }
}

/// Waits until something is so; for what nobody says.
#[track_caller]
pub fn until(what: &str, within: Duration, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + within;
    while !is() {
        assert!(Instant::now() < end, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
