//! What happens between a call and its answer: callers, timers, renewal, and the gives that must not be forgotten.

mod claims;
mod core;
mod listener;
mod orphans;
mod registry;
mod replies;
mod state;
mod timers;

pub use self::core::{Acquire, Core, Released};
pub use listener::{Event, Listener, Outcome, Phase, Wait};
pub use registry::{Options, Where, open};
