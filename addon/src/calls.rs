//! The calls of a manager. Claims are numbers below 2^53.

use holdfast_core::engine::{self, Acquire, Call, Figures, Released, Target, Terms};
use holdfast_core::lease::{ClaimId, Loss, Token, Ttl};
use holdfast_core::runtime;
use holdfast_core::store::{Keys, Lock};
use napi::{Error, Result};
use napi_derive::napi;

use crate::options::{TermsOptions, bounded};
use crate::records::Detail;
use crate::table::{Manager, remove_manager, with_manager};

/// Bits of `flags` in [`acquire`].
const ONCE: u32 = 1;
const RENEWED: u32 = 2;

/// Begins an acquire of one key by the manager's terms, except for these, and returns its claim. `timeout` in milliseconds,
/// -1 for ever. A `flush` must follow in the same turn of the event loop.
#[napi(catch_unwind)]
pub fn acquire(manager: u32, slot: u32, key: String, ttl: u32, timeout: f64, flags: u32) -> Result<f64> {
    with_manager(manager, |manager| {
        let full = manager.full(key);
        let terms = Terms { ttl: Ttl::from_millis(ttl), renewed: flags & RENEWED != 0, ..manager.terms };
        let wanted = Acquire {
            call: call(manager, slot),
            target: Target::Key(&full),
            terms,
            timeout: bounded(timeout),
            once: flags & ONCE != 0,
            strategy: manager.strategy.clone(),
        };
        submit(manager, wanted)
    })
}

/// The same in full: of several keys, in an owner's name, by terms of its own.
#[napi(catch_unwind)]
pub fn acquire_lock(
    manager: u32,
    slot: u32,
    lock: LockOptions,
    terms: TermsOptions,
    timeout: f64,
    once: bool,
) -> Result<f64> {
    with_manager(manager, |manager| {
        let wanted = Acquire {
            call: call(manager, slot),
            target: Target::Lock(lock.lock(manager)?),
            terms: terms.terms(),
            timeout: bounded(timeout),
            once,
            strategy: terms.strategy(),
        };
        Ok(submit(manager, wanted))
    })?
}

/// Begins to turn a ticket into a lock and returns its claim. A `flush` must follow in the same turn of the event loop.
#[napi(catch_unwind)]
pub fn adopt(
    manager: u32,
    slot: u32,
    lock: LockOptions,
    terms: TermsOptions,
    ticket: String,
    fence: f64,
) -> Result<f64> {
    with_manager(manager, |manager| {
        let ticket = Token::parse(&ticket).ok_or_else(|| Error::from_reason("this is no token of a ticket"))?;
        let lock = lock.lock(manager)?;
        Ok(manager.core.adopt(call(manager, slot), lock, ticket, fence as u64, terms.terms()).0 as f64)
    })?
}

/// Whether a text has the form of a ticket's token.
#[napi(catch_unwind)]
pub fn is_token(text: String) -> bool {
    Token::parse(&text).is_some()
}

/// What is wanted: keys without the prefix, and in whose name.
#[napi(object)]
pub struct LockOptions {
    pub keys: Vec<String>,
    pub owner: Option<String>,
}

impl LockOptions {
    fn lock(self, manager: &Manager) -> Result<Lock> {
        let keys = self.keys.into_iter().map(|key| manager.full(key).into()).collect();
        let keys = Keys::of(keys).ok_or_else(|| Error::from_reason("no keys"))?;
        Ok(Lock { keys, owner: self.owner.map(Into::into) })
    }
}

pub fn call(manager: &Manager, slot: u32) -> Call {
    Call { listener: manager.half.clone(), slot, manager: manager.number }
}

fn submit(manager: &Manager, wanted: Acquire<'_>) -> f64 {
    let mut claim = 0;
    manager.half.fetching(|| claim = manager.core.acquire(wanted).0);
    claim as f64
}

/// Ends a waiting call; `false` if it was answered before.
#[napi(catch_unwind)]
pub fn cancel(manager: u32, claim: f64) -> Result<bool> {
    with_manager(manager, |manager| manager.core.cancel(ClaimId(claim as u64)))
}

/// Gives a lock back; `at_once`: whatever its `minHold`. 0: it isn't held; else bit 0 is set, and bit 1 if there is something to fetch now.
#[napi(catch_unwind)]
pub fn release(manager: u32, claim: f64, at_once: bool) -> Result<u32> {
    with_manager(manager, |manager| {
        let mut released = Released::NotHeld;
        let fetch = manager.half.fetching(|| {
            let claim = ClaimId(claim as u64);
            released = if at_once { manager.core.discard(claim) } else { manager.core.release(claim) };
        });
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

/// Leaves a lock to whoever will have its ticket; answered in `slot`. `false`: it isn't held.
#[napi(catch_unwind)]
pub fn detach(manager: u32, claim: f64, slot: u32, ttl: u32) -> Result<bool> {
    with_manager(manager, |manager| manager.core.detach(ClaimId(claim as u64), slot, Ttl::from_millis(ttl)))
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

/// Durations in milliseconds; percentiles mean nothing if there are none.
#[napi(object)]
pub struct Distribution {
    pub count: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl From<engine::Distribution> for Distribution {
    fn from(given: engine::Distribution) -> Distribution {
        let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        Distribution {
            count: given.count as f64,
            p50: millis(given.p50),
            p90: millis(given.p90),
            p99: millis(given.p99),
            max: millis(given.max),
        }
    }
}

/// What `Stats` in index.d.ts is made of; `losses` in the order of `LOSSES` in lib/errors.js.
#[napi(object)]
pub struct Counters {
    pub acquired: f64,
    pub at_once: f64,
    pub handed_on: f64,
    pub from_queue: f64,
    pub polled: f64,
    pub attempts: f64,
    pub phased: f64,
    pub won_spinning: f64,
    pub left_spinning: f64,
    pub chose_spin: f64,
    pub chose_backoff: f64,
    pub chose_hybrid: f64,
    pub abandoned: f64,
    pub timeouts: f64,
    pub busy: f64,
    pub failed: f64,
    pub released: f64,
    pub losses: Vec<f64>,
    pub held: f64,
    pub waiting: f64,
    pub spinning: f64,
    pub waits: Distribution,
    pub holds: Distribution,
    pub commands: f64,
    pub renewals: f64,
    pub reconnects: f64,
    pub native_cpu: f64,
}

/// Counters up to now.
#[napi(catch_unwind)]
pub fn counters(manager: u32) -> Result<Counters> {
    with_manager(manager, |manager| {
        let Figures { counters: own, spinning, waits, holds, commands, renewals, connections } =
            manager.core.figures(manager.number);
        Counters {
            acquired: own.acquired as f64,
            at_once: own.at_once as f64,
            handed_on: own.handed_on as f64,
            from_queue: own.queued as f64,
            polled: own.polled as f64,
            attempts: own.attempts as f64,
            phased: own.phased as f64,
            won_spinning: own.won_spinning as f64,
            left_spinning: own.left_spinning as f64,
            chose_spin: own.chose_spin as f64,
            chose_backoff: own.chose_backoff as f64,
            chose_hybrid: own.chose_hybrid as f64,
            abandoned: own.abandoned as f64,
            timeouts: own.timeouts as f64,
            busy: own.busy as f64,
            failed: own.failed as f64,
            released: own.released as f64,
            losses: LOSSES.map(|loss| own.lost_by(loss) as f64).into(),
            held: own.held as f64,
            waiting: own.waiting as f64,
            spinning: spinning as f64,
            waits: waits.into(),
            holds: holds.into(),
            commands: commands as f64,
            renewals: renewals as f64,
            reconnects: connections.saturating_sub(1) as f64,
            native_cpu: runtime::cpu_time().as_secs_f64() * 1e3,
        }
    })
}

const LOSSES: [Loss; 6] = [Loss::Expired, Loss::Taken, Loss::Unreachable, Loss::Stalled, Loss::MaxHold, Loss::Closed];
