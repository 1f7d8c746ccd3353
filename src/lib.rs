//! The core of Holdfast, a distributed lock on Redis or Valkey.
//!
//! A process shows itself to the server as one owner; its callers are served one after the other within a *turn*
//! of that owner. `lease` decides, `store` carries it out, `engine` drives the one over the other and answers callers.
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
