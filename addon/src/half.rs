//! One loaded copy of the JavaScript half; an environment may have several.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use holdfast_core::clock::Time;
use holdfast_core::engine::{self, Core, Event, Listener, Options, Outcome, ValueOutcome};
use napi::bindgen_prelude::{Float64ArraySlice, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result, Status};
use napi_derive::napi;
use parking_lot::Mutex;

use crate::options::{StoreOptions, TermsOptions};
use crate::records::{self, Detail, Record, WIDTH};
use crate::table::{self, Manager};

type Bell = ThreadsafeFunction<(), (), (), Status, false, true>;

thread_local! {
    /// The half that this thread is in a call of, and which will fetch what happened when the call returns.
    static WILL_FETCH: Cell<usize> = const { Cell::new(0) };
}

/// What a half shares with the cores.
pub struct Shared {
    bell: Bell,
    rung: AtomicBool,
    /// When the event loop last gave a sign of life, in microseconds of the core's clock.
    beat: AtomicU64,
    /// Somebody listens to renewals.
    wants_renewals: AtomicBool,
    /// The environment is being taken down.
    gone: AtomicBool,
    done: Mutex<Done>,
    cores: Mutex<Vec<Weak<Core>>>,
}

#[derive(Default)]
struct Done {
    /// With the instant from which on it is late news: that of a grant is over then.
    records: VecDeque<(Record, Time)>,
    /// By slot and code, in the order of their records.
    details: HashMap<(u32, u32), VecDeque<Detail>>,
    /// Cached values, by slot.
    entries: HashMap<u32, Vec<u8>>,
    /// How many records were fetched so far: those that are left are numbered from here on.
    fetched: u64,
}

/// The code of a record that was taken back, and of a grant that is fetched when its time may be over.
const WITHDRAWN: f64 = 0.0;
const LATE: f64 = 13.0;

impl Done {
    fn push(&mut self, news: (Record, Option<Detail>)) {
        self.push_until(news, Time::NEVER);
    }

    fn push_until(&mut self, (record, detail): (Record, Option<Detail>), until: Time) {
        if let Some(detail) = detail {
            self.details.entry((record[0] as u32, record[1] as u32)).or_default().push_back(detail);
        }
        self.records.push_back((record, until));
    }

    fn withdraw(&mut self, number: u64) -> bool {
        let place = number.checked_sub(self.fetched).and_then(|place| usize::try_from(place).ok());
        let Some((record, until)) = place.and_then(|place| self.records.get_mut(place)) else { return false };
        let key = (record[0] as u32, record[1] as u32);
        (record[1], *until) = (WITHDRAWN, Time::NEVER);
        // Of one slot there is one grant at a time.
        self.details.remove(&key);
        true
    }
}

impl Listener for Shared {
    fn complete(&self, slot: u32, outcome: Outcome) {
        self.done.lock().push(records::of_outcome(slot, outcome));
    }

    fn grant(&self, slot: u32, outcome: Outcome) -> u64 {
        let until = if let Outcome::Granted { until, .. } = outcome { until } else { Time::NEVER };
        let mut done = self.done.lock();
        done.push_until(records::of_outcome(slot, outcome), until);
        done.fetched + done.records.len() as u64 - 1
    }

    fn has_fetched(&self, grant: u64) -> bool {
        grant < self.done.lock().fetched
    }

    fn withdraw(&self, grant: u64) -> bool {
        self.done.lock().withdraw(grant)
    }

    fn value(&self, slot: u32, outcome: ValueOutcome) {
        let mut done = self.done.lock();
        let (record, detail, entry) = records::of_value(slot, outcome);
        done.push((record, detail));
        if let Some(entry) = entry {
            done.entries.insert(slot, entry);
        }
    }

    fn event(&self, slot: u32, event: Event) {
        self.done.lock().push(records::of_event(slot, &event));
    }

    fn ring(&self) {
        let will_fetch = WILL_FETCH.get() == std::ptr::from_ref(self).addr();
        if !will_fetch && !self.gone.load(Ordering::Acquire) && !self.rung.swap(true, Ordering::AcqRel) {
            self.bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    fn last_beat(&self) -> Time {
        Time::from_micros(self.beat.load(Ordering::Relaxed))
    }

    fn wants_renewals(&self) -> bool {
        self.wants_renewals.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Runs a call after which the caller fetches what happened, so that the bell needn't ring for it.
    /// Returns whether there is anything to fetch.
    pub fn fetching(&self, call: impl FnOnce()) -> bool {
        /// Also when the call panics.
        struct Fetched;
        impl Drop for Fetched {
            fn drop(&mut self) {
                WILL_FETCH.set(0);
            }
        }
        WILL_FETCH.set(std::ptr::from_ref(self).addr());
        let fetched = Fetched;
        call();
        drop(fetched);
        !self.done.lock().records.is_empty()
    }

    /// The value that the last record of this slot is about.
    pub fn take_entry(&self, slot: u32) -> Option<Vec<u8>> {
        self.done.lock().entries.remove(&slot)
    }

    fn cores(&self) -> Vec<Arc<Core>> {
        self.cores.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// The environment ends: nothing may be called there any more, and nothing it holds may stay.
    fn end(self: Arc<Shared>) {
        self.gone.store(true, Ordering::Release);
        let listener: Arc<dyn Listener> = self.clone();
        for core in self.cores() {
            core.forget(&listener);
        }
    }
}

/// A loaded copy of the JavaScript half; its number. `bell` is called, from the event loop, when there is something
/// to fetch.
#[napi(catch_unwind)]
pub fn open_half(env: Env, bell: Function<(), ()>) -> Result<u32> {
    let bell = bell.build_threadsafe_function().callee_handled::<false>().weak::<true>().build()?;
    let shared = Arc::new(Shared {
        bell,
        rung: AtomicBool::new(false),
        beat: AtomicU64::new(Time::now().as_micros()),
        wants_renewals: AtomicBool::new(false),
        gone: AtomicBool::new(false),
        done: Mutex::default(),
        cores: Mutex::default(),
    });
    env.add_env_cleanup_hook(shared.clone(), Shared::end)?;
    Ok(table::add_half(shared))
}

/// The event loop of this half is alive.
#[napi(catch_unwind)]
pub fn beat(half: u32) -> Result<()> {
    table::half(half)?.beat.store(Time::now().as_micros(), Ordering::Relaxed);
    Ok(())
}

/// Whether this half is told of each renewal.
#[napi(catch_unwind)]
pub fn observe_renewals(half: u32, wanted: bool) -> Result<()> {
    table::half(half)?.wants_renewals.store(wanted, Ordering::Relaxed);
    Ok(())
}

/// Opens a manager of a half, which calls it `slot`; its number.
#[napi(catch_unwind)]
pub fn open_manager(half: u32, options: StoreOptions, terms: TermsOptions, slot: u32) -> Result<u32> {
    let half = table::half(half)?;
    let strategy = terms.strategy();
    let terms = terms.terms();
    let options = Options::from(options);
    let (core, number) = engine::open(&options, half.clone(), slot);
    let mut cores = half.cores.lock();
    cores.retain(|core| core.strong_count() > 0);
    cores.push(Arc::downgrade(&core));
    drop(cores);
    Ok(table::add_manager(Manager { core, half, number, prefix: options.prefix.into(), terms, strategy }))
}

/// Moves records into `buffer` and returns how many. To be called until it returns 0.
#[napi(catch_unwind)]
pub fn drain(half: u32, mut buffer: Float64ArraySlice) -> Result<u32> {
    let half = table::half(half)?;
    // Before looking: what comes after rings again.
    half.rung.store(false, Ordering::Release);
    // SAFETY: this is the only reference, for the duration of this call, on the thread that owns the buffer.
    let buffer = unsafe { buffer.as_mut() };
    let mut done = half.done.lock();
    let count = (buffer.len() / WIDTH).min(done.records.len());
    // A process that was stopped for a while hears of what it had in between.
    let now = Time::now();
    for (place, (mut record, until)) in buffer.chunks_exact_mut(WIDTH).zip(done.records.drain(..count)) {
        if now >= until {
            record[1] = LATE;
        }
        place.copy_from_slice(&record);
    }
    done.fetched += count as u64;
    Ok(count as u32)
}

/// The details of a record, once.
#[napi(catch_unwind)]
pub fn detail(half: u32, slot: u32, code: u32) -> Result<Option<Detail>> {
    let half = table::half(half)?;
    let mut done = half.done.lock();
    let Some(waiting) = done.details.get_mut(&(slot, code)) else { return Ok(None) };
    let first = waiting.pop_front();
    if waiting.is_empty() {
        done.details.remove(&(slot, code));
    }
    Ok(first)
}

/// The process ends: gives back all that this half holds and waits for the answers, at most `millis`.
#[napi(catch_unwind)]
pub fn end(half: u32, millis: u32) -> Result<()> {
    let half = table::half(half)?;
    let cores = half.cores();
    half.end();
    let until = Instant::now() + Duration::from_millis(millis.into());
    for core in cores {
        core.settle(until.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
