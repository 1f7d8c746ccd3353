//! The calls of a manager. Claims are numbers below 2^53.

use std::time::Duration;

use holdfast_core::engine::{Acquire, Released};
use holdfast_core::lease::{ClaimId, Ttl};
use napi::Result;
use napi_derive::napi;

use crate::records::Detail;
use crate::table::{remove_manager, with_manager};

/// Wait for ever.
const FOREVER: f64 = -1.0;
/// Bits of `flags` in [`acquire`].
const ONCE: u32 = 1;
const RENEWED: u32 = 2;

/// Begins an acquire and returns its claim. `timeout` in milliseconds, -1 for ever. A `flush` must follow in the
/// same turn of the event loop.
#[napi(catch_unwind)]
pub fn acquire(manager: u32, slot: u32, key: String, ttl: u32, timeout: f64, flags: u32) -> Result<f64> {
    with_manager(manager, |manager| {
        let full = format_key(&manager.prefix, key);
        let mut claim = 0;
        manager.half.fetching(|| {
            let wanted = Acquire {
                listener: manager.half.clone(),
                slot,
                manager: manager.number,
                key: &full,
                ttl: Ttl::from_millis(ttl),
                timeout: (timeout != FOREVER).then(|| Duration::from_secs_f64(timeout.clamp(0.0, 1e12) / 1e3)),
                once: flags & ONCE != 0,
                renewed: flags & RENEWED != 0,
            };
            claim = manager.core.acquire(wanted).0;
        });
        claim as f64
    })
}

fn format_key(prefix: &str, mut key: String) -> String {
    key.insert_str(0, prefix);
    key
}

/// Ends a waiting call; `false` if it was answered before.
#[napi(catch_unwind)]
pub fn cancel(manager: u32, claim: f64) -> Result<bool> {
    with_manager(manager, |manager| manager.core.cancel(ClaimId(claim as u64)))
}

/// Gives a lock back. 0: it isn't held; else bit 0 is set, and bit 1 if there is something to fetch now.
#[napi(catch_unwind)]
pub fn release(manager: u32, claim: f64) -> Result<u32> {
    with_manager(manager, |manager| {
        let mut released = Released::NotHeld;
        let fetch = manager.half.fetching(|| released = manager.core.release(ClaimId(claim as u64)));
        match released {
            Released::NotHeld => 0,
            Released::Later => 1 | u32::from(fetch) << 1,
        }
    })
}

/// Sets what remains of a lock's lease; answered in `slot`. `false`: it isn't held.
#[napi(catch_unwind)]
pub fn extend(manager: u32, claim: f64, slot: u32, ttl: u32) -> Result<bool> {
    with_manager(manager, |manager| manager.core.extend(ClaimId(claim as u64), slot, Ttl::from_millis(ttl)))
}

/// Milliseconds for which the lock is still ours; 0 if it isn't.
#[napi(catch_unwind)]
pub fn remaining(manager: u32, claim: f64) -> Result<f64> {
    with_manager(manager, |manager| manager.core.remaining(ClaimId(claim as u64)).as_secs_f64() * 1e3)
}

/// Sends what was added. Returns whether there is something to fetch.
#[napi(catch_unwind)]
pub fn flush(manager: u32) -> Result<bool> {
    with_manager(manager, |manager| manager.half.fetching(|| manager.core.flush()))
}

/// Asks for a connection. `null` if there is one; the trouble with the last one; or nothing known yet.
#[napi(catch_unwind)]
pub fn connect(manager: u32) -> Result<Option<Detail>> {
    with_manager(manager, |manager| match manager.core.connect() {
        (true, _) => None,
        (false, trouble) => Some(trouble.map_or_else(Detail::default, |trouble| Detail::of_trouble(&trouble))),
    })
}

/// The end of a manager: what waits is refused, what is held is given back. Its number means nothing any more.
#[napi(catch_unwind)]
pub fn leave(manager: u32) {
    if let Some(manager) = remove_manager(manager) {
        manager.core.leave(manager.number);
    }
}

/// What a manager is: its place for messages, and what tells this process's tokens from others'.
#[napi(object)]
pub struct Identity {
    pub place: String,
    pub core: String,
}

/// See [`Identity`].
#[napi(catch_unwind)]
pub fn identity(manager: u32) -> Result<Identity> {
    with_manager(manager, |manager| Identity { place: manager.core.place(), core: manager.core.id().to_string() })
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

/// Counters up to now.
#[napi(catch_unwind)]
pub fn counters(manager: u32) -> Result<Counters> {
    with_manager(manager, |manager| {
        let (own, commands, renewals, connections) = manager.core.counters(manager.number);
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
    })
}
