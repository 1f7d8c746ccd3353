//! What can be asked of a manager at any moment.

use super::claims::State as ClaimState;
use super::state::State;
use super::statistics::{Counters, Distribution};

/// The figures of a manager. Those of the connection are shared by all managers of a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// What it has done.
    pub counters: Counters,
    /// Callers that wait now and are first in line, which ask the store from time to time.
    pub spinning: u64,
    /// How long acquisitions waited.
    pub waits: Distribution,
    /// How long locks were held.
    pub holds: Distribution,
    /// Commands sent.
    pub commands: u64,
    /// Renewals among them.
    pub renewals: u64,
    /// Connections made.
    pub connections: u64,
}

impl State {
    pub(super) fn figures(&self, number: u32) -> Figures {
        let Some(manager) = self.managers.get(number as usize) else {
            return Figures { renewals: self.renewals, ..Figures::default() };
        };
        let own = |(index, entry): &(usize, &super::state::Entry)| {
            let first = entry.lease.first_waiting().and_then(|first| self.claims.get(&first));
            first.is_some_and(|claim| claim.manager == number && matches!(claim.state, ClaimState::Waiting { .. }))
                && self.asks(*index)
                && self.polls(*index)
        };
        Figures {
            counters: manager.statistics.counters,
            spinning: self.leases.iter().filter(own).count() as u64,
            waits: manager.statistics.waits(),
            holds: manager.statistics.holds(),
            renewals: self.renewals,
            ..Figures::default()
        }
    }
}
