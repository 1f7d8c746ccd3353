//! One process that locks: a core of its own, and what it is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use holdfast_core::engine::{
    self, Acquire, Core, Event, Listener, Options, Outcome, Released, Target, Terms, Where, open,
};
use holdfast_core::lease::{ClaimId, Token, Ttl};
use holdfast_core::link::{Endpoint, Place};
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
    pub min_hold: Duration,
}

pub const ASK: Ask =
    Ask { ttl: 10_000, timeout: None, once: false, renewed: true, max_hold: None, min_hold: Duration::ZERO };

impl Ask {
    pub fn terms(&self) -> Terms {
        Terms {
            ttl: Ttl::from_millis(self.ttl),
            renewed: self.renewed,
            max_hold: self.max_hold,
            max_stall: None,
            min_hold: self.min_hold,
        }
    }

    fn strategy(&self) -> Arc<Strategy> {
        Arc::new(Strategy::Poll(Choice::Backoff.phases()))
    }
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
        let slot = self.slots.fetch_add(1, Ordering::Relaxed);
        let id = self.core.acquire(Acquire {
            call: engine::Call { listener: self.ear.clone(), slot, manager: self.manager },
            target: Target::Key(&format!("lock:{key}")),
            terms: ask.terms(),
            timeout: ask.timeout,
            once: ask.once,
            strategy: ask.strategy(),
        });
        Call { id, slot }
    }

    pub fn acquire(&self, key: &str, ask: Ask) -> Lock {
        let call = self.call(key, ask);
        self.granted(call)
    }

    pub fn granted(&self, call: Call) -> Lock {
        match self.outcome(call) {
            Outcome::Granted { token, fence, .. } => Lock { call, fence, token },
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
        let found = self.ear.wait(LONG, |told| {
            while let Some(event) = told.events.pop_front() {
                if is(&event) {
                    return Some(());
                }
            }
            None
        });
        assert!(found.is_some(), "it isn't said of the connection");
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
