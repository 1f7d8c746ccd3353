//! A manager: the calls of one `createLocks()`.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::engine::{self, Acquire, Core, Options, Released};
use holdfast_core::lease::{ClaimId, Ttl};
use napi_derive::napi;

use crate::half::Shared;
use crate::options::StoreOptions;
use crate::records::Detail;

/// Wait for ever.
const FOREVER: f64 = -1.0;
/// Bits of `flags` in [`Manager::acquire`].
const ONCE: u32 = 1;
const RENEWED: u32 = 2;

/// The calls of one manager. Claims are numbers below 2^53.
#[napi]
pub struct Manager {
    core: Arc<Core>,
    half: Arc<Shared>,
    number: u32,
    prefix: String,
}

/// Counters, see `Stats` in index.d.ts.
#[napi(object)]
pub struct Counters {
    pub acquired: f64,
    pub handed_on: f64,
    pub timeouts: f64,
    pub busy: f64,
    pub failed: f64,
    pub released: f64,
    pub lost: f64,
    pub held: f64,
    pub waiting: f64,
    pub commands: f64,
    pub renewals: f64,
    pub reconnects: f64,
}

impl Manager {
    pub fn open(options: StoreOptions, half: Arc<Shared>, slot: u32) -> Manager {
        let options = Options::from(options);
        let (core, number) = engine::open(&options, half.clone(), slot);
        Manager {
            core,
            half,
            number,
            prefix: options.prefix,
        }
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

#[napi]
impl Manager {
    /// Begins an acquire and returns its claim. `timeout` in milliseconds, -1 for ever. A `flush` must follow in
    /// the same turn of the event loop.
    #[napi(catch_unwind)]
    pub fn acquire(&self, slot: u32, key: String, ttl: u32, timeout: f64, flags: u32) -> f64 {
        let mut claim = 0;
        let full = if self.prefix.is_empty() {
            key
        } else {
            format!("{}{key}", self.prefix)
        };
        self.half.fetching(|| {
            let wanted = Acquire {
                listener: self.half.clone(),
                slot,
                manager: self.number,
                key: &full,
                ttl: Ttl::from_millis(ttl),
                timeout: (timeout != FOREVER)
                    .then(|| Duration::from_secs_f64(timeout.clamp(0.0, 1e12) / 1e3)),
                once: flags & ONCE != 0,
                renewed: flags & RENEWED != 0,
            };
            claim = self.core.acquire(wanted).0;
        });
        claim as f64
    }

    /// Ends a waiting call; `false` if it was answered before.
    #[napi(catch_unwind)]
    pub fn cancel(&self, claim: f64) -> bool {
        self.core.cancel(ClaimId(claim as u64))
    }

    /// Gives a lock back. 0: it isn't held; else bit 0 is set, and bit 1 if there is something to fetch now.
    #[napi(catch_unwind)]
    pub fn release(&self, claim: f64) -> u32 {
        let mut released = Released::NotHeld;
        let fetch = self
            .half
            .fetching(|| released = self.core.release(ClaimId(claim as u64)));
        match released {
            Released::NotHeld => 0,
            Released::Later => 1 | u32::from(fetch) << 1,
        }
    }

    /// Sets what remains of a lock's lease; answered in `slot`. `false`: it isn't held.
    #[napi(catch_unwind)]
    pub fn extend(&self, claim: f64, slot: u32, ttl: u32) -> bool {
        self.core
            .extend(ClaimId(claim as u64), slot, Ttl::from_millis(ttl))
    }

    /// Milliseconds for which the lock is still ours; 0 if it isn't.
    #[napi(catch_unwind)]
    pub fn remaining(&self, claim: f64) -> f64 {
        self.core.remaining(ClaimId(claim as u64)).as_secs_f64() * 1e3
    }

    /// Sends what was added. Returns whether there is something to fetch.
    #[napi(catch_unwind)]
    pub fn flush(&self) -> bool {
        self.half.fetching(|| self.core.flush())
    }

    /// Asks for a connection. `null` if there is one; the trouble with the last one; or nothing known yet.
    #[napi(catch_unwind)]
    pub fn connect(&self) -> Option<Detail> {
        match self.core.connect() {
            (true, _) => None,
            (false, trouble) => {
                Some(trouble.map_or_else(Detail::default, |trouble| Detail::of_trouble(&trouble)))
            }
        }
    }

    /// The end. Nothing may be called any more.
    #[napi(catch_unwind)]
    pub fn leave(&self) {
        self.core.leave(self.number);
    }

    /// Hexadecimal: what tells this process's tokens from others'.
    #[napi(catch_unwind)]
    pub fn core_id(&self) -> String {
        self.core.id().as_str().to_owned()
    }

    /// Where the store is, for messages.
    #[napi(catch_unwind)]
    pub fn place(&self) -> String {
        self.core.place()
    }

    /// Counters up to now.
    #[napi(catch_unwind)]
    pub fn counters(&self) -> Counters {
        let (own, commands, renewals, connections) = self.core.counters(self.number);
        Counters {
            acquired: own.acquired as f64,
            handed_on: own.handed_on as f64,
            timeouts: own.timeouts as f64,
            busy: own.busy as f64,
            failed: own.failed as f64,
            released: own.released as f64,
            lost: own.lost as f64,
            held: own.held as f64,
            waiting: own.waiting as f64,
            commands: commands as f64,
            renewals: renewals as f64,
            reconnects: connections.saturating_sub(1) as f64,
        }
    }
}
