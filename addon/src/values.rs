//! Calls about cached values. Keys of values are whole; names of locks get the manager's prefix.

use std::sync::Arc;

use holdfast_core::engine::Look;
use holdfast_core::lease::ClaimId;
use holdfast_core::store::{Entry, Load, Order};
use napi::bindgen_prelude::{Buffer, Either};
use napi::{Env, JsString, Result};
use napi_derive::napi;

use crate::calls::call;
use crate::table::{self, Manager, with_manager};

/// Begins to read a value and returns a name for the call. A `flush` must follow in the same turn of the event loop, here and
/// below.
#[napi(catch_unwind)]
pub fn read_value(manager: u32, slot: u32, key: String) -> Result<f64> {
    begin(manager, |manager| manager.core.read(call(manager, slot), key.into()) as f64)
}

/// Begins to look for a fresh value that is loaded by whoever has `lock`: to wait for it, or, holding the lock as `claim`, to see
/// whether it has to be loaded at all. -1 for no claim.
#[napi(catch_unwind)]
pub fn look_for_value(
    manager: u32,
    slot: u32,
    key: String,
    lock: String,
    claim: f64,
    backs_off: bool,
) -> Result<f64> {
    begin(manager, |manager| {
        let look = if claim < 0.0 { Look::Wait } else { Look::Before(ClaimId(claim as u64)) };
        manager.core.look(call(manager, slot), key.into(), manager.full(lock).into(), look, backs_off) as f64
    })
}

/// A value on its way to the store. Times in milliseconds; -1 for `ttl`: without end.
#[napi(object)]
pub struct ValueOptions {
    /// Code of the letter that says how it is written.
    pub kind: u32,
    pub payload: Either<String, Buffer>,
    /// How long the load took.
    pub spent: f64,
    /// How long it is kept after it stopped being fresh, and altogether.
    pub kept: f64,
    pub ttl: f64,
}

impl ValueOptions {
    fn entry(&self) -> (Arc<[u8]>, Option<u64>) {
        let payload = match &self.payload {
            Either::A(text) => text.as_bytes(),
            Either::B(bytes) => bytes,
        };
        let entry = Entry { kind: self.kind as u8, spent: self.spent as u64, kept: self.kept as u64, payload };
        (entry.to_bytes().into(), (self.ttl >= 0.0).then_some(self.ttl as u64))
    }
}

/// Ends the load that holds its lock as `claim`, with a value, and gives the lock back. `false`: the lock isn't held any more,
/// and nothing will be answered.
#[napi(catch_unwind)]
pub fn store_loaded(manager: u32, slot: u32, claim: f64, key: String, value: ValueOptions) -> Result<bool> {
    let (entry, ttl) = value.entry();
    finish(manager, slot, claim, key, Load::Value(entry, ttl))
}

/// The same for a load that brought nothing to be kept.
#[napi(catch_unwind)]
pub fn end_load(manager: u32, slot: u32, claim: f64, key: String, which: u32) -> Result<bool> {
    finish(manager, slot, claim, key, Load::Nothing(which as u8))
}

/// The same for one that failed; `backoff` in milliseconds.
#[napi(catch_unwind)]
pub fn fail_load(manager: u32, slot: u32, claim: f64, key: String, words: String, backoff: f64) -> Result<bool> {
    finish(manager, slot, claim, key, Load::Error(words.into(), backoff as u64))
}

fn finish(manager: u32, slot: u32, claim: f64, key: String, load: Load) -> Result<bool> {
    begin(manager, |manager| manager.core.finish_load(call(manager, slot), key.into(), ClaimId(claim as u64), load))
}

/// Begins to replace a value.
#[napi(catch_unwind)]
pub fn set_value(manager: u32, slot: u32, key: String, lock: String, value: ValueOptions) -> Result<()> {
    let (entry, ttl) = value.entry();
    overrule(manager, slot, key, lock, Order::Set(entry, ttl))
}

/// Begins to delete a value, or to make it one that isn't fresh.
#[napi(catch_unwind)]
pub fn drop_value(manager: u32, slot: u32, key: String, lock: String, expire: bool) -> Result<()> {
    overrule(manager, slot, key, lock, if expire { Order::Expire } else { Order::Delete })
}

fn overrule(manager: u32, slot: u32, key: String, lock: String, order: Order) -> Result<()> {
    begin(manager, |manager| {
        manager.core.overrule(call(manager, slot), key.into(), manager.full(lock).into(), order);
    })
}

/// Ends a call without an answer; `false` if it was answered before.
#[napi(catch_unwind)]
pub fn forget_value(manager: u32, name: f64) -> Result<bool> {
    with_manager(manager, |manager| manager.core.forget_value(name as u64))
}

/// The value that the record of this slot is about, once: as text.
#[napi(catch_unwind)]
pub fn take_text(env: &Env, half: u32, slot: u32) -> Result<Option<JsString<'_>>> {
    let entry = table::half(half)?.take_entry(slot);
    let text = entry.as_deref().and_then(Entry::parse).map(|entry| String::from_utf8_lossy(entry.payload));
    text.map(|text| env.create_string(&text)).transpose()
}

/// The same as bytes.
#[napi(catch_unwind)]
pub fn take_bytes(half: u32, slot: u32) -> Result<Option<Buffer>> {
    let entry = table::half(half)?.take_entry(slot);
    Ok(entry.as_deref().and_then(Entry::parse).map(|entry| entry.payload.to_vec().into()))
}

fn begin<R>(manager: u32, begin: impl FnOnce(&Manager) -> R) -> Result<R> {
    with_manager(manager, |manager| {
        let mut result = None;
        manager.half.fetching(|| result = Some(begin(manager)));
        result
    })?
    .ok_or_else(|| napi::Error::from_reason("the call came to nothing"))
}
