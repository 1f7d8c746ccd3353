//! The core of Holdfast, a distributed lock on Redis or Valkey.
//!
//! A process shows itself to the server as one owner; its callers are served one after the other within a *turn*
//! of that owner. `lease` decides, `store` carries it out, `engine` drives the one over the other and answers callers.
//!
//! On top of locks there are cached values: whoever loads one holds a lock, and ends the load by a command that stores the
//! value only if it still does (`store::ValueCommand`); the others wait to be told (`engine::Core::look`).
//!
//! Each folder is a layer and knows those it points at:
//!
//!   engine -> store, wait, lease, link, runtime, clock
//!   store -> link, lease, clock
//!   link -> wait, runtime, clock
//!   wait -> (nothing)
//!   lease -> clock
//!   runtime -> (nothing)
//!   clock -> (nothing)

#![forbid(unsafe_code)]

pub mod clock;
pub mod engine;
pub mod lease;
pub mod link;
pub mod runtime;
pub mod store;
pub mod wait;
