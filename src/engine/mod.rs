//! What happens between a call and its answer: callers, timers, renewal, and the gives that must not be forgotten.

mod abandoned;
mod adoptions;
mod call;
mod claims;
mod core;
mod figures;
mod life;
mod listener;
mod orphans;
mod patience;
mod polling;
mod registry;
mod replies;
mod signals;
mod state;
mod statistics;
mod timers;
mod values;

pub use self::core::Core;
pub use call::{Acquire, Call, Released, Target};
pub use claims::Terms;
pub use figures::Figures;
pub use listener::{Event, Listener, Outcome, Phase, Wait};
pub use registry::{Options, Where, open};
pub use statistics::{Counters, Distribution};
pub use values::{Look, ValueOutcome};
