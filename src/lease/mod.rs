//! One lock as one process sees it: pure, without I/O and without a clock of its own. Events in, actions out.

mod actions;
mod answers;
mod claiming;
mod held;
mod holding;
mod machine;
mod numbers;
mod queries;
mod queue;
mod token;
mod ttl;
mod waiting;

pub use actions::{Action, Cx, Loss, Standing, Way};
pub use answers::{Grant, Kept, Push, Refusal};
pub use machine::Lease;
pub use numbers::LARGEST_BLOCK;
pub use queue::{ClaimId, Turn, Waiter};
pub use token::{CoreId, Token, Turns, VERSION};
pub use ttl::Ttl;

/// Something a lease wants from the server. All of it is safe to repeat, in any order, at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Make the key ours if it is free, and reserve `block` fencing numbers.
    Take {
        /// The lease.
        ttl: Ttl,
        /// How many numbers.
        block: u32,
        /// Queue for it if it isn't.
        waits: bool,
    },
    /// Look whether a turn that stands in the queue has come, and say that it is still wanted. Extends nothing, and never
    /// adds to the queue.
    Beat {
        /// The lease, where looking is asking again.
        ttl: Ttl,
        /// How many numbers, if it has come.
        block: u32,
    },
    /// Hand the key to the next in the queue, or free it, if it is ours; and leave the queue.
    Give {
        /// Of the lease that is given back: after it (and grace) there is nothing left to give.
        ttl: Ttl,
        /// An earlier command about this token may still be under way, on a link that was replaced, until then.
        tainted: Option<crate::clock::Time>,
    },
    /// Raise what remains of the key's ttl if it is ours; reserve numbers if `block` isn't 0. Never creates a key.
    Keep {
        /// The lease.
        ttl: Ttl,
        /// How many numbers.
        block: u32,
    },
    /// Rename our lease and set its ttl: the only way to shorten one, because a late copy of
    /// this command then finds another name.
    Swap {
        /// The new name.
        to: Token,
        /// The new lease.
        ttl: Ttl,
    },
    /// Rename our lease to a name that nobody asks for, for what is left of the time it is to last at least: the
    /// way a lock is given back that must not be free yet.
    Park {
        /// The name.
        to: Token,
        /// How long it lasts.
        rest: Ttl,
        /// Of the lease that is given back: after it (and grace) there is nothing left to rename.
        ttl: Ttl,
        /// See [`Op::Give`]: once it is parked, the token is given back until then, since a late take may find the key free.
        tainted: Option<crate::clock::Time>,
    },
    /// Make a lease ours that its holder has left under a name we were told.
    Adopt {
        /// Our name for it.
        to: Token,
        /// The new lease.
        ttl: Ttl,
    },
}
