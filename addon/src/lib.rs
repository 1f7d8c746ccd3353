//! The border between JavaScript and the core: nothing but conversion.
//!
//! A call *submits* and returns at once. What calls come to is put away per JavaScript half and fetched in batches
//! (*drain*); a weak thread-safe function (*bell*) says that there is something to fetch, unless the half is in a call of
//! ours at that moment and will look by itself. Arguments come from `lib/`, which has validated them.
//!
//! Halves and managers are numbers here, looked up in tables of the calling thread, and not classes: unwrapping and
//! guarding an object costs more than what most of these calls do.

mod calls;
mod half;
mod options;
mod records;
mod table;
mod values;

use napi_derive::napi;

/// The version of the interface between this file and `lib/bridge.js`; the bridge refuses another one.
#[napi(catch_unwind)]
pub fn bridge_version() -> u32 {
    5
}
