//! A core: one process on one store, shared by all its managers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::call::{Acquire, Call, Released};
use super::claims::{Claim, Manager, State as ClaimState, Terms, Waits};
use super::state::State;
use super::statistics::Statistics;
use super::{Figures, Listener, Outcome};
use crate::clock::Time;
use crate::lease::{ClaimId, CoreId, Loss, Token, Ttl, Turns};
use crate::link::Trouble;
use crate::runtime;
use crate::store::{Inbox, Lock, Replies, Signal, Store, ValueSignal};
use crate::wait::Strategy;

/// One process on one store. All calls return at once; what they come to is told to the listener.
pub struct Core {
    state: Mutex<State>,
    store: Arc<dyn Store>,
    id: CoreId,
    /// Something is due earlier than the timing task thinks.
    sooner: Arc<Notify>,
    /// A give was answered.
    given: Condvar,
}

impl Core {
    pub(super) fn new(
        patience: Duration,
        store: impl FnOnce(CoreId, Weak<dyn Inbox>) -> Arc<dyn Store>,
    ) -> Arc<Core> {
        let id = CoreId::new(rand::random());
        let core = Arc::new_cyclic(|core: &Weak<Core>| {
            let store = store(id, core.clone());
            Core {
                state: Mutex::new(State::new(store.clone(), Turns::new(id), patience)),
                store,
                id,
                sooner: Arc::default(),
                given: Condvar::new(),
            }
        });
        let (weak, sooner) = (Arc::downgrade(&core), core.sooner.clone());
        runtime::spawn(move || keep_time(weak.clone(), sooner.clone()));
        core
    }

    /// What tells this core's tokens from others'.
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// Where the store is, for messages.
    pub fn place(&self) -> String {
        self.store.place()
    }

    /// A manager begins; `slot` is the listener's name for it.
    pub fn join(&self, listener: Arc<dyn Listener>, slot: u32) -> u32 {
        self.change(|state, _| {
            let number = state.managers.insert(Manager { listener, slot, statistics: Statistics::new() });
            state.tell_newcomer(number);
            number as u32
        })
    }

    /// A manager ends: its waiting calls are refused, its locks released without further ado.
    pub fn leave(&self, manager: u32) {
        self.change(|state, now| {
            state.end_claims(now, |claim| claim.manager == manager);
            state.end_value_calls(manager);
            state.managers.try_remove(manager as usize);
            state.disown(|claim| claim.manager == manager);
        });
        self.store.flush();
        self.end_if_unused();
    }

    /// Begins an acquire; the answer is an [`Outcome`]. The command is sent by the next [`flush`](Core::flush).
    pub fn acquire(&self, wanted: Acquire<'_>) -> ClaimId {
        self.change(|state, now| {
            let Acquire { call, target, terms, timeout, once, strategy } = wanted;
            let index = state.lease_of(&target);
            let timeout = if once { Some(state.patience()) } else { timeout };
            let patience = match &*strategy {
                Strategy::Poll(phases) if !once => phases.patience(),
                _ => None,
            };
            let patience = patience.map_or(timeout, |most| Some(timeout.map_or(most, |timeout| timeout.min(most))));
            let mut claim = call.claim(index, terms, strategy.clone(), ClaimState::Waiting { once }, now);
            claim.last = timeout.map(|timeout| now + timeout);
            let waits = Waits::of(&strategy, once);
            let claim = state.new_claim(claim, patience);
            state.arrive(index, terms.waiter(claim, once, waits), now);
            claim
        })
    }

    /// Begins to turn what was left under the name `ticket` into a lock, with the number it had; the answer is an
    /// [`Outcome`]. The command is sent by the next [`flush`](Core::flush).
    pub fn adopt(&self, call: Call, lock: Lock, ticket: Token, fence: u64, terms: Terms) -> ClaimId {
        self.change(|state, now| {
            let patience = state.patience();
            let claim = call.claim(usize::MAX, terms, Arc::new(Strategy::Adaptive), ClaimState::Adopting, now);
            let claim = state.new_claim(claim, Some(patience));
            state.begin_adoption(
                lock,
                ticket,
                fence,
                terms.waiter(claim, false, Waits::of(&Strategy::Handoff, false)),
            );
            claim
        })
    }

    /// Ends a waiting call without an answer. `false`: it was answered already, or never waited.
    pub fn cancel(&self, id: ClaimId) -> bool {
        self.change(|state, now| state.cancel(id, now))
    }

    /// Gives a lock back.
    pub fn release(&self, id: ClaimId) -> Released {
        self.change(|state, now| state.release(id, false, now))
    }

    /// Gives a lock back that its caller never got: the key isn't to stay taken.
    pub fn discard(&self, id: ClaimId) -> Released {
        self.change(|state, now| state.release(id, true, now))
    }

    /// Sets what remains of a lock's lease; answered in `slot`. `false`: it isn't held.
    pub fn extend(&self, id: ClaimId, slot: u32, ttl: Ttl) -> bool {
        self.change(|state, now| {
            let Some(held) = state.claims.get_mut(&id).filter(|claim| claim.state == ClaimState::Held) else {
                return false;
            };
            held.terms.ttl = ttl;
            let (index, caller) = state.call_about(id, slot, ClaimState::Extending { of: id }, ttl, now);
            state.drive(index, now, |lease, cx| lease.extend(id, caller, ttl, cx));
            true
        })
    }

    /// Leaves a lock, for `ttl` from now, to whoever will be told its name; answered in `slot`, with the name. `false`: it isn't held.
    pub fn detach(&self, id: ClaimId, slot: u32, ttl: Ttl) -> bool {
        self.change(|state, now| {
            if state.claims.get(&id).is_none_or(|claim| claim.state != ClaimState::Held) {
                return false;
            }
            let (index, caller) = state.call_about(id, slot, ClaimState::Detaching { of: id }, ttl, now);
            state.drive(index, now, |lease, cx| lease.detach(id, caller, ttl, cx));
            true
        })
    }

    /// How long the lock is still ours; zero if it isn't.
    pub fn remaining(&self, id: ClaimId) -> Duration {
        let state = self.state.lock();
        let deadline = state
            .claims
            .get(&id)
            .filter(|claim| claim.state == ClaimState::Held)
            .and_then(|claim| state.leases.get(claim.lease))
            .and_then(|entry| entry.lease.deadline_of(id));
        let Some(deadline) = deadline else {
            return Duration::ZERO;
        };
        let now = Time::now();
        drop(state);
        if now >= deadline {
            // Why it is lost is known from now on, although the timing task hasn't looked yet.
            self.change(|state, now| state.look_at_lease_of(id, now));
        }
        deadline.since(now)
    }

    /// Sends what calls have added.
    pub fn flush(&self) {
        self.store.flush();
    }

    /// Asks for a connection; what comes of it is an event. Returns whether there is one already, and the trouble
    /// with the last one.
    pub fn connect(&self) -> (bool, Option<Trouble>) {
        let state = self.state.lock();
        if !state.up {
            self.store.wake();
        }
        (state.up, state.trouble.clone())
    }

    /// The figures of a manager.
    pub fn figures(&self, manager: u32) -> Figures {
        let mut figures = self.state.lock().figures(manager);
        (figures.commands, figures.connections) = self.store.counts();
        figures
    }

    /// Ends everything of a JavaScript half that is no more, without telling it.
    pub fn forget(&self, listener: &Arc<dyn Listener>) {
        self.change(|state, now| {
            state.end_claims(now, |claim| Arc::ptr_eq(&claim.listener, listener));
            state.forget_value_calls(listener);
            state.managers.retain(|_, manager| !Arc::ptr_eq(&manager.listener, listener));
            state.disown(|claim| Arc::ptr_eq(&claim.listener, listener));
        });
        self.store.flush();
        self.end_if_unused();
    }

    /// Waits until all gives are answered, at most for `patience`: for a process that ends.
    pub fn settle(&self, patience: Duration) {
        self.store.flush();
        let mut state = self.state.lock();
        let until = std::time::Instant::now() + patience;
        while state.gives > 0 && !self.given.wait_until(&mut state, until).timed_out() {}
    }

    /// A core that nobody uses and that has nothing left to give back is closed.
    fn end_if_unused(&self) {
        if self.is_unused() {
            super::registry::sweep();
        }
    }

    /// Whether nobody needs this core any more.
    pub(super) fn is_unused(&self) -> bool {
        let state = self.state.lock();
        state.managers.is_empty() && state.claims.is_empty() && !state.wants_connection() && state.gives == 0
    }

    pub(super) fn change<R>(&self, change: impl FnOnce(&mut State, Time) -> R) -> R {
        let (result, ring) = self.change_quietly(change);
        for listener in ring {
            listener.ring();
        }
        result
    }

    /// Leaves it to the caller to ring.
    fn change_quietly<R>(&self, change: impl FnOnce(&mut State, Time) -> R) -> (R, Vec<Arc<dyn Listener>>) {
        let mut state = self.state.lock();
        let result = change(&mut state, Time::now());
        let ring = state.take_ring();
        let sooner = state.timers.needs_waking();
        drop(state);
        if sooner {
            self.sooner.notify_one();
        }
        (result, ring)
    }
}

impl State {
    /// A new call about a held lock; returns the lock's lease, and the call.
    fn call_about(&mut self, id: ClaimId, slot: u32, about: ClaimState, ttl: Ttl, now: Time) -> (usize, ClaimId) {
        let Some(held) = self.claims.get(&id) else {
            return (usize::MAX, id);
        };
        let (index, terms) = (held.lease, held.terms);
        let call = Call { listener: held.listener.clone(), slot, manager: held.manager };
        let claim = call.claim(index, terms, held.strategy.clone(), about, now);
        let patience = self.patience_for(terms.ttl.min(ttl));
        (index, self.new_claim(claim, Some(patience)))
    }

    fn cancel(&mut self, id: ClaimId, now: Time) -> bool {
        match self.claims.get(&id) {
            Some(Claim { state: ClaimState::Waiting { .. }, lease, .. }) => self.leave(*lease, id, now),
            Some(Claim { state: ClaimState::Adopting, .. }) => self.give_up(id, now),
            _ => return false,
        }
        self.drop_claim(id);
        true
    }

    pub(super) fn release(&mut self, id: ClaimId, at_once: bool, now: Time) -> Released {
        let Some(claim) = self.claims.get_mut(&id).filter(|claim| claim.state == ClaimState::Held) else {
            return Released::NotHeld;
        };
        claim.state = ClaimState::Releasing;
        let (index, ttl) = (claim.lease, claim.terms.ttl);
        let least = if at_once { Duration::ZERO } else { claim.terms.min_hold };
        let rest = least.saturating_sub(now.since(claim.since));
        self.was_held(id, now);
        self.drive(index, now, |lease, cx| match rest.as_micros().div_ceil(1_000) as u32 {
            0 => lease.release(id, cx),
            rest => lease.park(id, Ttl::from_millis(rest), cx),
        });
        let patience = self.patience_for(ttl);
        if let Some(claim) = self.claims.get_mut(&id) {
            // Not answered within the call.
            self.timers.set(super::timers::Timer::Claim(id), &mut claim.timer, Some(now + patience));
        }
        Released::Later
    }

    /// Ends claims: those that wait are refused, those that hold lose the lock, which is released.
    fn end_claims(&mut self, now: Time, which: impl Fn(&Claim) -> bool) {
        let ids: Vec<ClaimId> = self.claims.iter().filter(|(_, claim)| which(claim)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(claim) = self.claims.get(&id) else {
                continue;
            };
            let index = claim.lease;
            match claim.state {
                ClaimState::Waiting { .. } => {
                    self.drive(index, now, |lease, cx| lease.leave(id, cx));
                    self.finish(id, Outcome::Closed);
                }
                ClaimState::Adopting => {
                    self.give_up(id, now);
                    self.finish(id, Outcome::Closed);
                }
                ClaimState::Held => {
                    self.drive(index, now, |lease, cx| lease.revoke(id, Loss::Closed, cx));
                }
                ClaimState::Releasing | ClaimState::Extending { .. } | ClaimState::Detaching { .. } => {}
            }
        }
    }

    /// Releases that aren't answered yet outlive their manager, whose number will be another one's.
    fn disown(&mut self, which: impl Fn(&Claim) -> bool) {
        for claim in self.claims.values_mut().filter(|claim| which(claim)) {
            claim.manager = u32::MAX;
        }
    }

    /// Forgets a waiting claim that nobody is to be told about.
    fn drop_claim(&mut self, id: ClaimId) {
        let Some(mut claim) = self.claims.remove(&id) else {
            return;
        };
        self.timers.set(super::timers::Timer::Claim(id), &mut claim.timer, None);
        if let Some(manager) = self.managers.get_mut(claim.manager as usize) {
            manager.statistics.counters.waiting -= 1;
            manager.statistics.counters.failed += 1;
        }
    }
}

impl Inbox for Core {
    fn replies(&self, replies: Replies) {
        let (_, ring) = self.change_quietly(|state, now| {
            for reply in replies.values {
                state.value_reply(reply, now);
            }
            for reply in replies.locks {
                state.reply(reply, now);
            }
        });
        self.given.notify_all();
        self.store.flush();
        self.end_if_unused();
        // Last: who is rung calls at once, from another thread, and would find us in its way.
        for listener in ring {
            listener.ring();
        }
    }

    fn up(&self) {
        self.change(|state, now| state.connected(now));
        self.store.flush();
    }

    fn down(&self, trouble: &Trouble) {
        self.change(|state, now| state.went_down(trouble, now));
    }

    fn signal(&self, signal: Signal) {
        self.change(|state, now| state.signal(signal, now));
        self.store.flush();
    }

    fn value_signal(&self, signal: ValueSignal) {
        self.change(|state, _| state.value_signal(signal));
        self.store.flush();
    }

    fn told(&self, able: Result<(), &Trouble>) {
        self.change(|state, now| state.can_be_told(able, now));
        self.store.flush();
    }

    fn wanted(&self) -> bool {
        self.state.lock().wants_connection()
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

/// Wakes the core whenever something is due, until it is dropped.
async fn keep_time(core: Weak<Core>, sooner: Arc<Notify>) {
    loop {
        let Some(next) = core.upgrade().map(|core| core.state.lock().timers.plan()) else {
            return;
        };
        // The clock that counts decides; this sleep is only a hint, and it stops while the machine is suspended.
        let longest = Duration::from_secs(3_600);
        let pause = next.map_or(longest, |next| next.since(Time::now()).min(longest));
        tokio::select! {
            () = sleep(pause) => {}
            () = sooner.notified() => {}
        }
        let Some(core) = core.upgrade() else { return };
        core.change(|state, now| state.tick(now));
        core.store.flush();
        core.end_if_unused();
    }
}
