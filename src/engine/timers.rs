//! Everything that happens at a time, in one ordered set.

use std::collections::BTreeSet;

use crate::clock::Time;
use crate::lease::ClaimId;

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Claim(ClaimId),
    Lease(usize),
    Orphans,
    Opening,
    Value(u64),
}

#[derive(Default)]
pub(super) struct Timers {
    /// A set rather than a heap: nearly all timers are taken out long before their time.
    due: BTreeSet<(Time, Timer)>,
    /// When the driving task will look again. Later changes need to wake it only if they come before.
    planned: Option<Time>,
}

impl Timers {
    /// Moves a timer; `at` is where its owner remembers when it is due.
    pub(super) fn set(&mut self, timer: Timer, at: &mut Option<Time>, due: Option<Time>) {
        if *at == due {
            return;
        }
        if let Some(old) = at.take() {
            self.due.remove(&(old, timer));
        }
        if let Some(new) = due {
            self.due.insert((new, timer));
        }
        *at = due;
    }

    /// The next one that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<Timer> {
        let (due, timer) = *self.due.first()?;
        (due <= now).then(|| {
            self.due.pop_first();
            timer
        })
    }

    /// When to look again; the driving task promises to.
    pub(super) fn plan(&mut self) -> Option<Time> {
        self.planned = self.due.first().map(|(due, _)| *due);
        self.planned
    }

    /// Whether something is due before the driving task looks again. Answers `true` once.
    pub(super) fn needs_waking(&mut self) -> bool {
        let first = self.due.first().map(|(due, _)| *due);
        let earlier = first.is_some_and(|first| self.planned.is_none_or(|planned| first < planned));
        if earlier {
            self.planned = first;
        }
        earlier
    }
}
