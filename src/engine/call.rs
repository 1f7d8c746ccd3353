//! What is asked of a core.

use std::sync::Arc;
use std::time::Duration;

use super::Listener;
use super::claims::{Claim, State, Terms};
use crate::clock::Time;
use crate::store::Lock;
use crate::wait::Strategy;

/// What a caller wants.
pub struct Acquire<'a> {
    /// Who calls.
    pub call: Call,
    /// What it wants.
    pub target: Target<'a>,
    /// How it wants it.
    pub terms: Terms,
    /// How long to wait; `None`: for ever.
    pub timeout: Option<Duration>,
    /// One attempt only.
    pub once: bool,
    /// How to wait for other processes.
    pub strategy: Arc<Strategy>,
}

/// Who calls.
pub struct Call {
    /// Who is told.
    pub listener: Arc<dyn Listener>,
    /// The listener's name for this call and for the lock it becomes.
    pub slot: u32,
    /// The manager it was called on.
    pub manager: u32,
}

/// What a caller wants, by full keys.
pub enum Target<'a> {
    /// A lock of one key, nobody's in name.
    Key(&'a str),
    /// Any other.
    Lock(Lock),
}

/// What a release came to within the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The answer comes later.
    Later,
    /// It isn't held: it was lost or given back before.
    NotHeld,
}

impl Call {
    pub(super) fn claim(
        self,
        lease: usize,
        terms: Terms,
        strategy: Arc<Strategy>,
        state: State,
        since: Time,
    ) -> Claim {
        let Call { listener, slot, manager } = self;
        Claim {
            listener,
            slot,
            manager,
            lease,
            terms,
            strategy,
            state,
            since,
            began: since,
            grant: 0,
            timer: None,
            last: None,
        }
    }
}
