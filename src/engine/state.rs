//! All that a core knows, behind one mutex.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rustc_hash::FxHashMap;
use slab::Slab;

use super::adoptions::Adoption;
use super::claims::{Claim, Manager, State as ClaimState};
use super::orphans::{self, Orphans};
use super::polling::Pacing;
use super::signals::Signals;
use super::statistics::Statistics;
use super::timers::{Timer, Timers};
use super::values::Values;
use super::{Event, Listener, Outcome, Phase, Target, Wait};
use crate::clock::Time;
use crate::lease::{Action, ClaimId, Cx, Lease, Loss, Op, Token, Turns, Waiter, Way};
use crate::link::Trouble;
use crate::store::{Command, Keys, Lock, Store};
use crate::wait::HoldTimes;

pub(super) struct State {
    pub(super) store: Arc<dyn Store>,
    /// There is a connection, as far as we were told.
    pub(super) up: bool,
    /// Whether we can be told by push.
    pub(super) signals: Signals,
    /// There is a connection for commands, and what comes of the other one is waited for until then.
    pub(super) opening: Option<Time>,
    /// How long the server takes to answer.
    pub(super) round_trip: Duration,
    /// What was wrong with the last one, until there is one again.
    pub(super) trouble: Option<Trouble>,
    pub(super) leases: Slab<Entry>,
    by_key: HashMap<Arc<str>, usize>,
    /// Those of several keys.
    by_keys: HashMap<Keys, usize>,
    pub(super) claims: FxHashMap<ClaimId, Claim>,
    last_claim: u64,
    pub(super) managers: Slab<Manager>,
    pub(super) turns: Turns,
    pub(super) timers: Timers,
    pub(super) orphans: Orphans,
    pub(super) orphans_timer: Option<Time>,
    /// Tickets that are being turned into locks.
    pub(super) adoptions: FxHashMap<ClaimId, Adoption>,
    /// Leases of owners that wait for somebody else, in order of arrival.
    pub(super) waiting_owners: HashMap<Lock, Vec<usize>>,
    pub(super) hold_times: HoldTimes<Keys>,
    /// Calls about cached values.
    pub(super) values: Values,
    pub(super) random: SmallRng,
    /// How long a caller waits for the answer to a single command.
    patience: Duration,
    /// Gives that were sent and aren't answered.
    pub(super) gives: usize,
    pub(super) renewals: u64,
    /// Extends and detaches that aren't answered: whether it is worth looking for one.
    extending: usize,
    /// Kept between calls for its capacity.
    actions: Vec<Action>,
    /// Who was told something and must be rung.
    ring: Vec<Arc<dyn Listener>>,
}

/// A lease that somebody wants or has.
pub(super) struct Entry {
    pub(super) lock: Lock,
    pub(super) lease: Lease,
    pub(super) timer: Option<Time>,
    /// The wait for another process that has it.
    pub(super) pacing: Option<Pacing>,
    /// Attempts since the lock was last ours that met trouble, for the pauses between them.
    pub(super) failures: u32,
    /// Somebody waited for it since it was first wanted.
    pub(super) contended: bool,
    /// Who had it when we last asked.
    pub(super) holder: Option<String>,
    /// How many holds of its owner there were when it was last granted.
    pub(super) holds: u32,
    /// The last attempt failed, and why.
    pub(super) trouble: Option<Trouble>,
}

impl State {
    pub(super) fn new(store: Arc<dyn Store>, turns: Turns, patience: Duration) -> State {
        State {
            up: store.always_up(),
            signals: if store.always_up() { Signals::Come } else { Signals::Unknown },
            opening: None,
            round_trip: Duration::ZERO,
            store,
            trouble: None,
            leases: Slab::new(),
            by_key: HashMap::new(),
            by_keys: HashMap::new(),
            claims: FxHashMap::default(),
            last_claim: 0,
            managers: Slab::new(),
            turns,
            timers: Timers::default(),
            orphans: Orphans::default(),
            orphans_timer: None,
            adoptions: FxHashMap::default(),
            waiting_owners: HashMap::new(),
            hold_times: HoldTimes::default(),
            values: Values::default(),
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
        let locks = !self.leases.is_empty() || !self.orphans.is_empty() || !self.adoptions.is_empty();
        locks || self.values_want_connection()
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
        if matches!(claim.state, ClaimState::Waiting { .. } | ClaimState::Adopting)
            && let Some(manager) = self.managers.get_mut(claim.manager as usize)
        {
            manager.statistics.counters.waiting += 1;
        }
        self.extending += usize::from(claim.state.of().is_some());
        self.claims.insert(id, claim);
        id
    }

    pub(super) fn statistics_of(&mut self, claim: ClaimId) -> Option<&mut Statistics> {
        let manager = self.claims.get(&claim)?.manager as usize;
        self.managers.get_mut(manager).map(|manager| &mut manager.statistics)
    }

    /// The lease of a lock, made if nobody wanted it before. Turns of one owner hold a lock together, so each has a lease of its own.
    pub(super) fn lease_of(&mut self, target: &Target<'_>) -> usize {
        let known = match target {
            Target::Key(key) => self.by_key.get(*key),
            Target::Lock(Lock { keys: Keys::One(key), owner: None }) => self.by_key.get(key),
            Target::Lock(Lock { keys, owner: None }) => self.by_keys.get(keys),
            Target::Lock(_) => None,
        };
        if let Some(index) = known {
            return *index;
        }
        let lock = match target {
            Target::Key(key) => Lock::plain((*key).into()),
            Target::Lock(lock) => lock.clone(),
        };
        let entry = Entry {
            lock: lock.clone(),
            lease: Lease::default(),
            timer: None,
            pacing: None,
            failures: 0,
            contended: false,
            holder: None,
            holds: 1,
            trouble: None,
        };
        let index = self.leases.insert(entry);
        match lock {
            Lock { keys: Keys::One(key), owner: None } => {
                self.by_key.insert(key, index);
            }
            Lock { keys, owner: None } => {
                self.by_keys.insert(keys, index);
            }
            Lock { owner: Some(_), .. } => {}
        }
        index
    }

    pub(super) fn lease_of_key(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// A waiting caller joins the queue of its lease.
    pub(super) fn arrive(&mut self, index: usize, waiter: Waiter, now: Time) {
        if !self.up {
            self.store.wake();
        } else if !self.is_told() {
            self.store.listen();
        }
        if let Some(entry) = self.leases.get_mut(index) {
            entry.contended |= !entry.lease.is_idle();
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
            manager.statistics.count(claim.state, &outcome);
        }
        self.extending -= usize::from(claim.state.of().is_some());
        let listener = claim.listener.clone();
        let slot = claim.slot;
        if let Outcome::Granted { .. } = outcome {
            claim.state = ClaimState::Held;
            claim.grant = listener.grant(slot, outcome);
        } else {
            self.claims.remove(&id);
            listener.complete(slot, outcome);
        }
        self.will_ring(listener);
    }

    pub(super) fn will_ring(&mut self, listener: Arc<dyn Listener>) {
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
        let told = matches!(self.signals, Signals::Come);
        let mut cx = Cx { now, told, round_trip: self.round_trip, turns: &mut self.turns, out: &mut actions };
        let result = event(&mut entry.lease, &mut cx);
        for action in actions.drain(..) {
            self.act(index, action, now);
        }
        self.actions = actions;
        if let Some(entry) = self.leases.get_mut(index) {
            if entry.lease.is_idle() {
                self.timers.set(Timer::Lease(index), &mut entry.timer, None);
                match self.leases.remove(index).lock {
                    Lock { keys: Keys::One(key), owner: None } => self.by_key.remove(&key),
                    Lock { keys, owner: None } => self.by_keys.remove(&keys),
                    lock => {
                        self.owner_waits(index, &lock, false, false, now);
                        None
                    }
                };
            } else {
                self.timers.set(Timer::Lease(index), &mut entry.timer, entry.lease.due());
            }
        }
        Some(result)
    }

    fn act(&mut self, index: usize, action: Action, now: Time) {
        match action {
            Action::Send { token, op, caller } => self.send(index, token, op, caller, now),
            Action::Granted { claim, fence, way } => self.granted(index, claim, fence, way, now),
            Action::Refused { claim } => self.refused(index, claim, now),
            Action::Released { claim } => self.finish(claim, Outcome::Released(true)),
            Action::Detached { claim, token } => self.detached(claim, token, now),
            Action::Lost { claim, loss } => self.lost(claim, loss, now),
        }
    }

    fn granted(&mut self, index: usize, claim: ClaimId, fence: u64, way: Way, now: Time) {
        let Some(entry) = self.leases.get_mut(index) else {
            return;
        };
        entry.failures = 0;
        entry.holder = None;
        entry.trouble = None;
        let pacing = entry.pacing.take();
        let holds = entry.lock.plain_key().is_none().then_some(entry.holds);
        let owned = entry.lock.owner.is_some().then(|| entry.lock.clone());
        let (Some(token), Some(until)) = (entry.lease.token(), entry.lease.deadline_of(claim)) else {
            return;
        };
        let Some(known) = self.claims.get_mut(&claim) else {
            return;
        };
        let waited = now.since(std::mem::replace(&mut known.since, now));
        self.count_way(claim, way, pacing);
        if let Some(statistics) = self.statistics_of(claim) {
            statistics.waited(waited);
        }
        self.finish(claim, Outcome::Granted { token, fence, waited, until, holds });
        if let Some(lock) = owned {
            self.owner_waits(index, &lock, false, true, now);
        }
    }

    fn refused(&mut self, index: usize, claim: ClaimId, now: Time) {
        let holder = self.leases.get(index).and_then(|entry| entry.holder.clone());
        let waited = self.claims.get(&claim).map(|claim| now.since(claim.since)).unwrap_or_default();
        let (phase, attempts) = if holder.is_some() { (Phase::Spinning, 1) } else { (Phase::Queued, 0) };
        self.finish(claim, Outcome::Busy(Wait { waited, attempts, phase, holder }));
    }

    fn lost(&mut self, claim: ClaimId, loss: Loss, now: Time) {
        for call in self.calls_about(claim) {
            self.finish(call, Outcome::Lost(loss));
        }
        // A release that found its deadline passed: the answer to it says so, nothing was taken from anybody.
        let releasing = self.claims.get(&claim).is_some_and(|claim| claim.state == ClaimState::Releasing);
        if !releasing {
            self.was_held(claim, now);
        }
        self.finish(claim, if releasing { Outcome::Released(false) } else { Outcome::Lost(loss) });
    }

    /// Extends and detaches of a lock that aren't answered.
    pub(super) fn calls_about(&self, claim: ClaimId) -> Vec<ClaimId> {
        if self.extending == 0 {
            return Vec::new();
        }
        let about = |(id, other): (&ClaimId, &Claim)| (other.state.of() == Some(claim)).then_some(*id);
        self.claims.iter().filter_map(about).collect()
    }

    fn send(&mut self, index: usize, token: Token, op: Op, caller: Option<ClaimId>, now: Time) {
        let Some(lock) = self.leases.get(index).map(|entry| entry.lock.clone()) else {
            return;
        };
        let command = Command { lock, lease: index, token, op, caller };
        let ends = matches!(op, Op::Give { .. } | Op::Park { .. });
        let tainted = matches!(op, Op::Give { tainted: Some(until), .. } if now < until);
        if ends && (!self.up || tainted) {
            self.adopt(&command, now);
        }
        if self.up {
            self.gives += usize::from(ends);
            self.renewals += u64::from(matches!(op, Op::Keep { .. }));
            self.store.submit(command);
        } else {
            self.store.wake();
            if !ends && let Some(entry) = self.leases.get_mut(index) {
                match op {
                    Op::Swap { to, .. } => entry.lease.renaming_failed(to),
                    _ => entry.lease.failed(token, None, None),
                }
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
            for give in self.orphans.commands() {
                self.gives += 1;
                self.store.submit(give);
            }
        } else if again.is_some() {
            self.store.wake();
        }
    }
}
