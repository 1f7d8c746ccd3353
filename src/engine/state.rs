//! All that a core knows, behind one mutex.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rustc_hash::FxHashMap;
use slab::Slab;

use super::claims::{Claim, Manager, State as ClaimState};
use super::orphans::{self, Orphans};
use super::timers::{Timer, Timers};
use super::{Event, Listener, Outcome, Phase, Wait};
use crate::clock::Time;
use crate::lease::{Action, ClaimId, Cx, Lease, Loss, Op, Standing, Token, Turns, Waiter};
use crate::link::Trouble;
use crate::store::{Command, Store};

pub(super) struct State {
    pub(super) store: Arc<dyn Store>,
    /// There is a connection, as far as we were told.
    pub(super) up: bool,
    /// What was wrong with the last one, until there is one again.
    pub(super) trouble: Option<Trouble>,
    pub(super) leases: Slab<Entry>,
    by_key: HashMap<Arc<str>, usize>,
    pub(super) claims: FxHashMap<ClaimId, Claim>,
    last_claim: u64,
    pub(super) managers: Slab<Manager>,
    turns: Turns,
    pub(super) timers: Timers,
    pub(super) orphans: Orphans,
    orphans_timer: Option<Time>,
    pub(super) random: SmallRng,
    /// How long a caller waits for the answer to a single command.
    patience: Duration,
    /// Gives that were sent and aren't answered.
    pub(super) gives: usize,
    pub(super) renewals: u64,
    /// Extends that aren't answered: whether it is worth looking for one.
    extending: usize,
    /// Kept between calls for its capacity.
    actions: Vec<Action>,
    /// Who was told something and must be rung.
    ring: Vec<Arc<dyn Listener>>,
}

/// A lease that somebody wants or has.
pub(super) struct Entry {
    key: Arc<str>,
    pub(super) lease: Lease,
    timer: Option<Time>,
    /// Attempts since the lock was last ours, for the pauses between them.
    pub(super) polls: u32,
    /// Who had it when we last asked.
    pub(super) holder: Option<String>,
    /// The last attempt failed, and why.
    pub(super) trouble: Option<Trouble>,
}

impl State {
    pub(super) fn new(store: Arc<dyn Store>, turns: Turns, patience: Duration) -> State {
        State {
            up: store.always_up(),
            store,
            trouble: None,
            leases: Slab::new(),
            by_key: HashMap::new(),
            claims: FxHashMap::default(),
            last_claim: 0,
            managers: Slab::new(),
            turns,
            timers: Timers::default(),
            orphans: Orphans::default(),
            orphans_timer: None,
            random: rand::make_rng(),
            patience,
            gives: 0,
            renewals: 0,
            extending: 0,
            actions: Vec::new(),
            ring: Vec::new(),
        }
    }

    /// Whether there is anything a connection is needed for.
    pub(super) fn wants_connection(&self) -> bool {
        !self.leases.is_empty() || !self.orphans.is_empty()
    }

    /// Those who must be rung, once the state is unlocked.
    pub(super) fn take_ring(&mut self) -> Vec<Arc<dyn Listener>> {
        std::mem::take(&mut self.ring)
    }

    // ----- callers ------------------------------------------------------------------------------------------------

    /// A new call. Its claim isn't in any queue yet.
    pub(super) fn new_claim(&mut self, mut claim: Claim, patience: Option<Duration>) -> ClaimId {
        self.last_claim += 1;
        let id = ClaimId(self.last_claim);
        let due = patience.map(|patience| claim.since + patience);
        self.timers.set(Timer::Claim(id), &mut claim.timer, due);
        if matches!(claim.state, ClaimState::Waiting { .. })
            && let Some(manager) = self.managers.get_mut(claim.manager as usize)
        {
            manager.counters.waiting += 1;
        }
        self.extending += usize::from(matches!(claim.state, ClaimState::Extending { .. }));
        self.claims.insert(id, claim);
        id
    }

    /// The lease of a key, made if nobody wanted it before.
    pub(super) fn lease_of(&mut self, key: &str) -> usize {
        if let Some(index) = self.by_key.get(key) {
            return *index;
        }
        let key: Arc<str> = key.into();
        let entry =
            Entry { key: key.clone(), lease: Lease::default(), timer: None, polls: 0, holder: None, trouble: None };
        let index = self.leases.insert(entry);
        self.by_key.insert(key, index);
        index
    }

    pub(super) fn find(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// A waiting caller joins the queue of its lease.
    pub(super) fn arrive(&mut self, index: usize, waiter: Waiter, now: Time) {
        if !self.up {
            self.store.wake();
        }
        self.drive(index, now, |lease, cx| lease.arrive(waiter, cx));
    }

    /// How long to wait for one command about a lease of this ttl.
    pub(super) fn patience_for(&self, ttl: crate::lease::Ttl) -> Duration {
        self.patience.min(ttl.span() / 3)
    }

    /// For a single attempt: as long as one command may take.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// A call is over. Its claim is forgotten unless it is held from now on.
    pub(super) fn finish(&mut self, id: ClaimId, outcome: Outcome) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        self.timers.set(Timer::Claim(id), &mut claim.timer, None);
        if let Some(manager) = self.managers.get_mut(claim.manager as usize) {
            manager.counters.count(&claim.state, &outcome);
        }
        self.extending -= usize::from(matches!(claim.state, ClaimState::Extending { .. }));
        let listener = claim.listener.clone();
        let slot = claim.slot;
        if let Outcome::Granted { .. } = outcome {
            claim.state = ClaimState::Held;
        } else {
            self.claims.remove(&id);
        }
        listener.complete(slot, outcome);
        self.will_ring(listener);
    }

    fn will_ring(&mut self, listener: Arc<dyn Listener>) {
        if !self.ring.iter().any(|other| Arc::ptr_eq(other, &listener)) {
            self.ring.push(listener);
        }
    }

    pub(super) fn tell_managers(&mut self, event: &Event) {
        let managers: Vec<_> =
            self.managers.iter().map(|(_, manager)| (manager.slot, manager.listener.clone())).collect();
        for (slot, listener) in managers {
            listener.event(slot, event.clone());
            self.will_ring(listener);
        }
    }

    // ----- leases -------------------------------------------------------------------------------------------------

    /// Lets something happen to a lease and does what it wants done.
    pub(super) fn drive<R>(
        &mut self,
        index: usize,
        now: Time,
        event: impl FnOnce(&mut Lease, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        let mut actions = std::mem::take(&mut self.actions);
        let entry = self.leases.get_mut(index)?;
        let mut cx = Cx { now, turns: &mut self.turns, out: &mut actions };
        let result = event(&mut entry.lease, &mut cx);
        for action in actions.drain(..) {
            self.act(index, action, now);
        }
        self.actions = actions;
        if let Some(entry) = self.leases.get_mut(index) {
            if entry.lease.is_idle() {
                self.timers.set(Timer::Lease(index), &mut entry.timer, None);
                let entry = self.leases.remove(index);
                self.by_key.remove(&entry.key);
            } else {
                self.timers.set(Timer::Lease(index), &mut entry.timer, entry.lease.due());
            }
        }
        Some(result)
    }

    fn act(&mut self, index: usize, action: Action, now: Time) {
        match action {
            Action::Send { token, op, caller } => self.send(index, token, op, caller, now),
            Action::Granted { claim, fence, handed_on } => self.granted(index, claim, fence, handed_on, now),
            Action::Refused { claim } => self.refused(index, claim, now),
            Action::Released { claim } => self.finish(claim, Outcome::Released(true)),
            Action::Lost { claim, loss } => self.lost(claim, loss),
        }
    }

    fn granted(&mut self, index: usize, claim: ClaimId, fence: u64, handed_on: bool, now: Time) {
        let Some(entry) = self.leases.get_mut(index) else {
            return;
        };
        entry.polls = 0;
        entry.holder = None;
        entry.trouble = None;
        let Some(token) = entry.lease.token() else {
            return;
        };
        let Some(known) = self.claims.get(&claim) else {
            return;
        };
        let waited = now.since(known.since);
        if handed_on && let Some(manager) = self.managers.get_mut(known.manager as usize) {
            manager.counters.handed_on += 1;
        }
        self.finish(claim, Outcome::Granted { token, fence, waited });
    }

    fn refused(&mut self, index: usize, claim: ClaimId, now: Time) {
        let holder = self.leases.get(index).and_then(|entry| entry.holder.clone());
        let waited = self.claims.get(&claim).map(|claim| now.since(claim.since)).unwrap_or_default();
        let (phase, attempts) = if holder.is_some() { (Phase::Spinning, 1) } else { (Phase::Queued, 0) };
        self.finish(claim, Outcome::Busy(Wait { waited, attempts, phase, holder }));
    }

    fn lost(&mut self, claim: ClaimId, loss: Loss) {
        if self.extending > 0 {
            let of_this =
                |(id, other): (&ClaimId, &Claim)| (other.state == ClaimState::Extending { of: claim }).then_some(*id);
            let extends: Vec<ClaimId> = self.claims.iter().filter_map(of_this).collect();
            for extend in extends {
                self.finish(extend, Outcome::Lost(loss));
            }
        }
        // A release that found its deadline passed: the answer to it says so, nothing was taken from anybody.
        let releasing = self.claims.get(&claim).is_some_and(|claim| claim.state == ClaimState::Releasing);
        self.finish(claim, if releasing { Outcome::Released(false) } else { Outcome::Lost(loss) });
    }

    fn send(&mut self, index: usize, token: Token, op: Op, caller: Option<ClaimId>, now: Time) {
        let Some(key) = self.leases.get(index).map(|entry| entry.key.clone()) else {
            return;
        };
        let command = Command { key, token, op, caller };
        if let Op::Give { tainted, .. } = op
            && (!self.up || tainted.is_some_and(|until| now < until))
        {
            self.adopt(&command, now);
        }
        if self.up {
            self.gives += usize::from(matches!(op, Op::Give { .. }));
            self.renewals += u64::from(matches!(op, Op::Keep { .. }));
            self.store.submit(command);
        } else {
            self.store.wake();
            if !matches!(op, Op::Give { .. })
                && let Some(entry) = self.leases.get_mut(index)
            {
                entry.lease.failed(token, None, None);
            }
        }
    }

    // ----- orphans ------------------------------------------------------------------------------------------------

    pub(super) fn adopt(&mut self, give: &Command, now: Time) {
        self.orphans.adopt(give, now);
        if self.orphans_timer.is_none() {
            self.timers.set(Timer::Orphans, &mut self.orphans_timer, Some(now + orphans::BEAT));
        }
    }

    pub(super) fn give_orphans(&mut self, now: Time) {
        self.orphans.forget(now);
        let again = (!self.orphans.is_empty()).then(|| now + orphans::BEAT);
        self.timers.set(Timer::Orphans, &mut self.orphans_timer, again);
        if self.up {
            for give in self.orphans.gives() {
                self.gives += 1;
                self.store.submit(give);
            }
        } else if again.is_some() {
            self.store.wake();
        }
    }

    // ----- time ---------------------------------------------------------------------------------------------------

    /// Does all that is due.
    pub(super) fn tick(&mut self, now: Time) {
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Orphans => {
                    self.orphans_timer = None;
                    self.give_orphans(now);
                }
                Timer::Lease(index) => {
                    if let Some(entry) = self.leases.get_mut(index) {
                        entry.timer = None;
                    }
                    self.drive(index, now, |lease, cx| lease.tick(cx));
                }
                Timer::Claim(id) => self.out_of_patience(id, now),
            }
        }
    }

    fn out_of_patience(&mut self, id: ClaimId, now: Time) {
        let Some(claim) = self.claims.get_mut(&id) else {
            return;
        };
        claim.timer = None;
        let (index, waited, state) = (claim.lease, now.since(claim.since), claim.state);
        match state {
            ClaimState::Held => {}
            ClaimState::Releasing | ClaimState::Extending { .. } => {
                let outcome = Outcome::Unavailable(self.no_answer(waited));
                self.finish(id, outcome);
            }
            ClaimState::Waiting { once } => {
                // A single attempt is never a matter of time: what it meets is said at once.
                let outcome = if once {
                    Outcome::Unavailable(self.no_answer(waited))
                } else {
                    self.timed_out(index, id, waited)
                };
                self.drive(index, now, |lease, cx| lease.leave(id, cx));
                self.finish(id, outcome);
            }
        }
    }

    /// A lock that is taken, or a store that can't be used? Only the first is a time-out.
    fn timed_out(&self, index: usize, id: ClaimId, waited: Duration) -> Outcome {
        let Some(entry) = self.leases.get(index) else {
            return Outcome::Closed;
        };
        if let Some(trouble) = self.trouble.as_ref().or(entry.trouble.as_ref()) {
            return Outcome::Unavailable(trouble.clone());
        }
        let (standing, attempts) = entry.lease.standing();
        let first = entry.lease.is_first(id);
        let (phase, holder) = match standing {
            Standing::Asking | Standing::Idle if !self.up => (Phase::Connecting, None),
            Standing::Asking | Standing::Idle => {
                return Outcome::Unavailable(self.no_answer(waited));
            }
            Standing::Taken(holder) if first => (Phase::Spinning, holder),
            Standing::Taken(holder) => (Phase::Queued, holder),
            Standing::Held => (Phase::Queued, None),
        };
        let holder = holder.filter(|holder| !holder.is_empty()).map(str::to_owned);
        // Those behind the first in line have asked nobody.
        let attempts = if phase == Phase::Queued { 0 } else { attempts };
        Outcome::TimedOut(Wait { waited, attempts, phase, holder })
    }

    fn no_answer(&self, waited: Duration) -> Trouble {
        self.trouble
            .clone()
            .unwrap_or_else(|| Trouble::passing("ETIMEDOUT", format!("no answer within {} ms", waited.as_millis())))
    }
}

impl super::claims::Counters {
    fn count(&mut self, state: &ClaimState, outcome: &Outcome) {
        match state {
            ClaimState::Waiting { .. } => {
                self.waiting -= 1;
                match outcome {
                    Outcome::Granted { .. } => {
                        self.acquired += 1;
                        self.held += 1;
                    }
                    Outcome::Busy(_) => self.busy += 1,
                    Outcome::TimedOut(_) => self.timeouts += 1,
                    _ => self.failed += 1,
                }
            }
            ClaimState::Held | ClaimState::Releasing => {
                self.held -= 1;
                match outcome {
                    Outcome::Released(true) => self.released += 1,
                    Outcome::Lost(_) => self.lost += 1,
                    _ => {}
                }
            }
            ClaimState::Extending { .. } => {}
        }
    }
}
