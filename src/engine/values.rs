//! Calls about cached values, and those who wait for one that somebody loads.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::call::Call;
use super::claims::State as ClaimState;
use super::state::State;
use super::timers::Timer;
use super::{Core, Listener};
use crate::clock::Time;
use crate::lease::{ClaimId, Token};
use crate::link::{Class, Trouble};
use crate::store::{Load, Order, ValueAnswer, ValueCommand, ValueNews, ValueOp, ValueReply, ValueSignal};

/// Who waits for a value looks for it this often: a load may have ended without a word, and news get lost.
const BEAT: Duration = Duration::from_secs(1);
/// The same for who can't be told.
const BEAT_UNTOLD: Duration = Duration::from_millis(100);
/// After the end of a lock: the server's clock may be a little behind.
const GRACE: Duration = Duration::from_millis(5);
/// When a command is said again that couldn't be sent although there is a connection, as far as we were told: the news
/// of its end is on its way.
const NEWS: Duration = Duration::from_millis(5);

/// What a call about a value came to.
#[derive(Clone, Debug)]
pub enum ValueOutcome {
    /// read, look: the entry, and how much of its ttl is left, ms; `None`: it has none.
    Found(Vec<u8>, Option<u64>),
    /// read: there is none. look: it may be loaded.
    Absent,
    /// look: somebody else loads it.
    Taken,
    /// look: a load failed a while ago; its error.
    BacksOff(String),
    /// look: the load that was waited for failed; its error.
    LoadFailed(String),
    /// look: the load that was waited for brought nothing that is kept.
    Nothing(u8),
    /// end of a load: stored; or the lock was lost. Orders: whether there was a value.
    Done(bool),
    /// end of a load: the key holds something else.
    Foreign,
    /// The store can't be used, or didn't answer in time.
    Unavailable(Trouble),
    /// The key holds data of another kind.
    WrongType(Trouble),
    /// The manager was closed.
    Closed,
}

#[derive(Default)]
pub(super) struct Values {
    calls: FxHashMap<u64, ValueCall>,
    last: u64,
    /// Calls that wait for a value, by its key.
    waiting: HashMap<Arc<str>, Vec<u64>>,
    /// Attempts to connect fail: who asks needn't wait for the next one.
    failing: bool,
}

struct ValueCall {
    call: Call,
    command: ValueCommand,
    stage: Stage,
    /// Stays until there is something to see.
    waits: bool,
    /// The turn by which this core held the value's lock when it was asked.
    holds: Option<Token>,
    /// When its patience ends, unless it waits.
    until: Option<Time>,
    /// That, or when it is to ask again.
    timer: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// For want of a connection.
    Unsent,
    Asked {
        /// Something happened since.
        again: bool,
    },
    /// Will be told.
    Waiting,
}

/// How a look is meant.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// Stays until there is something to see.
    Wait,
    /// By whoever is about to load the value and holds the lock for that.
    Before(ClaimId),
}

impl Core {
    /// Begins to read a value; returns a name for [`forget_value`](Core::forget_value). The command is sent by the next
    /// [`flush`](Core::flush), as are those of the other calls here.
    pub fn read(&self, call: Call, key: Arc<str>) -> u64 {
        self.change(|state, now| {
            // Nobody loads what is only read.
            let command = ValueCommand { lock: key.clone(), key, op: ValueOp::Read, call: 0 };
            state.new_value_call(call, command, false, now)
        })
    }

    /// Begins to look for a fresh value that is loaded by whoever has `lock`. With `backs_off` it hears of a load that failed a while ago.
    pub fn look(&self, call: Call, key: Arc<str>, lock: Arc<str>, look: Look, backs_off: bool) -> u64 {
        let core = self.id();
        self.change(|state, now| {
            let (token, waits) = match look {
                Look::Wait => (None, true),
                Look::Before(claim) => (state.token_of(claim), false),
            };
            let command = ValueCommand { key, lock, op: ValueOp::Look { token, backs_off, core }, call: 0 };
            state.new_value_call(call, command, waits, now)
        })
    }

    /// Ends a load and gives its lock back, in one step. `false`: the lock isn't held any more, and nothing is answered.
    pub fn finish_load(&self, call: Call, key: Arc<str>, claim: ClaimId, load: Load) -> bool {
        self.change(|state, now| {
            let held = state.claims.get(&claim).filter(|claim| claim.state == ClaimState::Held);
            let Some(entry) = held.and_then(|held| state.leases.get(held.lease)) else { return false };
            let (Some(lock), Some(token)) = (entry.lock.plain_key().cloned(), entry.lease.token()) else {
                return false;
            };
            let command = ValueCommand { key, lock, op: ValueOp::Finish { token, load }, call: 0 };
            state.new_value_call(call, command, false, now);
            state.release(claim, true, now);
            true
        })
    }

    /// Begins to change a value by order.
    pub fn overrule(&self, call: Call, key: Arc<str>, lock: Arc<str>, order: Order) {
        self.change(|state, now| {
            let command = ValueCommand { key, lock, op: ValueOp::Overrule(order), call: 0 };
            state.new_value_call(call, command, false, now);
        });
    }

    /// Ends a call without an answer. `false`: it was answered already.
    pub fn forget_value(&self, id: u64) -> bool {
        self.change(|state, _| state.take_value_call(id).is_some())
    }
}

impl State {
    fn new_value_call(&mut self, call: Call, command: ValueCommand, waits: bool, now: Time) -> u64 {
        self.values.last += 1;
        let id = self.values.last;
        let command = ValueCommand { call: id, ..command };
        if waits {
            self.values.waiting.entry(command.key.clone()).or_default().push(id);
        }
        let until = (!waits).then(|| now + self.patience());
        let mut new = ValueCall { call, command, stage: Stage::Unsent, waits, holds: None, until, timer: None };
        self.timers.set(Timer::Value(id), &mut new.timer, until);
        self.values.calls.insert(id, new);
        self.ask(id);
        id
    }

    fn ask(&mut self, id: u64) {
        let Some(lock) = self.values.calls.get(&id).map(|call| call.command.lock.clone()) else { return };
        let holds = self.token_held(&lock);
        let Some(call) = self.values.calls.get_mut(&id) else { return };
        if self.up {
            call.holds = holds;
            call.stage = Stage::Asked { again: false };
            self.store.submit_value(call.command.clone());
            return;
        }
        self.store.wake();
        call.stage = Stage::Unsent;
        let patient = matches!(call.command.op, ValueOp::Read | ValueOp::Look { .. } | ValueOp::Overrule(_));
        if self.values.failing || !patient {
            let trouble = self.no_answer(Duration::ZERO);
            self.finish_value_call(id, ValueOutcome::Unavailable(trouble));
        }
    }

    fn take_value_call(&mut self, id: u64) -> Option<ValueCall> {
        let mut call = self.values.calls.remove(&id)?;
        self.timers.set(Timer::Value(id), &mut call.timer, None);
        if call.waits
            && let Some(waiting) = self.values.waiting.get_mut(&call.command.key)
        {
            waiting.retain(|other| *other != id);
            if waiting.is_empty() {
                self.values.waiting.remove(&call.command.key);
            }
        }
        Some(call)
    }

    fn finish_value_call(&mut self, id: u64, outcome: ValueOutcome) {
        if let Some(ValueCall { call: Call { listener, slot, .. }, .. }) = self.take_value_call(id) {
            listener.value(slot, outcome);
            self.will_ring(listener);
        }
    }

    pub(super) fn value_reply(&mut self, ValueReply { command, answer, .. }: ValueReply, now: Time) {
        let (id, told) = (command.call, self.is_told());
        let Some(call) = self.values.calls.get_mut(&id) else { return };
        let taken_away = match (&command.op, &answer) {
            // It was free, or is from now on. A push says so as well, where it comes.
            (ValueOp::Look { token: None, .. }, ValueAnswer::Absent) => true,
            (ValueOp::Overrule(_), ValueAnswer::Done(_)) => true,
            _ => false,
        };
        if taken_away
            && let Some(token) = call.holds
            && let Some(index) = self.lease_of_key(&command.lock)
        {
            // Else our own callers would find it taken, and the server free, until the next renewal.
            self.drive(index, now, |lease, cx| lease.lost(token, cx));
        }
        let Some(call) = self.values.calls.get_mut(&id) else { return };
        let outcome = match answer {
            ValueAnswer::Found(entry, left) => ValueOutcome::Found(entry, left),
            ValueAnswer::Absent => ValueOutcome::Absent,
            ValueAnswer::Failed(error) => ValueOutcome::BacksOff(error),
            ValueAnswer::Done(done) => ValueOutcome::Done(done),
            ValueAnswer::Foreign => ValueOutcome::Foreign,
            ValueAnswer::Taken(_) if !call.waits => ValueOutcome::Taken,
            ValueAnswer::Taken(left) => {
                if call.stage == (Stage::Asked { again: true }) {
                    return self.ask(id);
                }
                call.stage = Stage::Waiting;
                let beat = if told { BEAT } else { BEAT_UNTOLD };
                let pause = left.map_or(beat, |left| beat.min(Duration::from_millis(left) + GRACE));
                return self.timers.set(Timer::Value(id), &mut call.timer, Some(now + pause));
            }
            ValueAnswer::Refused(trouble) => match trouble.class() {
                Class::WrongType => ValueOutcome::WrongType(trouble),
                _ => ValueOutcome::Unavailable(trouble),
            },
            // To be asked again on the next connection, which may be there already; but not at once where there is none, of
            // which we haven't heard: that would be answered in the same way at once, without end.
            ValueAnswer::Unanswered(_) | ValueAnswer::Unsent
                if matches!(command.op, ValueOp::Read | ValueOp::Look { .. }) && self.up =>
            {
                call.stage = Stage::Unsent;
                let again = Some(call.until.map_or(now + NEWS, |until| until.min(now + NEWS)));
                return self.timers.set(Timer::Value(id), &mut call.timer, again);
            }
            ValueAnswer::Unanswered(_) | ValueAnswer::Unsent
                if matches!(command.op, ValueOp::Read | ValueOp::Look { .. }) =>
            {
                return self.ask(id);
            }
            ValueAnswer::Unanswered(trouble) => ValueOutcome::Unavailable(trouble),
            ValueAnswer::Unsent => ValueOutcome::Unavailable(self.no_answer(Duration::ZERO)),
        };
        self.finish_value_call(id, outcome);
    }

    pub(super) fn value_signal(&mut self, ValueSignal { key, news }: ValueSignal) {
        for id in self.values.waiting.get(&key).cloned().unwrap_or_default() {
            let Some(call) = self.values.calls.get_mut(&id) else { continue };
            match (&mut call.stage, &news) {
                (Stage::Unsent, _) => {}
                // The news may be of a load that ended before it asked.
                (Stage::Asked { again }, _) => *again = true,
                (Stage::Waiting, ValueNews::Changed) => self.ask(id),
                (Stage::Waiting, ValueNews::Nothing(which)) => {
                    self.finish_value_call(id, ValueOutcome::Nothing(*which));
                }
                (Stage::Waiting, ValueNews::Error(error)) => {
                    self.finish_value_call(id, ValueOutcome::LoadFailed(error.clone()));
                }
            }
        }
    }

    pub(super) fn value_due(&mut self, id: u64, now: Time) {
        let Some(call) = self.values.calls.get_mut(&id) else { return };
        call.timer = None;
        if call.until.is_some_and(|until| until <= now) {
            let trouble = self.no_answer(self.patience());
            return self.finish_value_call(id, ValueOutcome::Unavailable(trouble));
        }
        // Where there is no answer yet, whoever watches the connection sees to it that this ends.
        let next = call.until.unwrap_or(now + BEAT);
        self.timers.set(Timer::Value(id), &mut call.timer, Some(next));
        if !matches!(call.stage, Stage::Asked { .. }) {
            self.ask(id);
        }
    }

    /// There is a connection again: what wasn't sent is, and what was said in between is looked for.
    pub(super) fn values_went_up(&mut self) {
        self.values.failing = false;
        let asked = |call: &ValueCall| matches!(call.stage, Stage::Asked { .. });
        let all = self.values.calls.iter().filter(|(_, call)| !asked(call)).map(|(id, _)| *id);
        for id in all.collect::<Vec<u64>>() {
            self.ask(id);
        }
    }

    /// There is none any more; or another attempt failed, and who asks needn't wait for the next one.
    pub(super) fn values_went_down(&mut self, was_up: bool, trouble: &Trouble) {
        if was_up {
            return;
        }
        self.values.failing = true;
        for id in self.values.calls.keys().copied().collect::<Vec<u64>>() {
            self.finish_value_call(id, ValueOutcome::Unavailable(trouble.clone()));
        }
    }

    /// Whether calls of values need a connection.
    pub(super) fn values_want_connection(&self) -> bool {
        !self.values.calls.is_empty()
    }

    /// Ends those of a manager that is closed.
    pub(super) fn end_value_calls(&mut self, manager: u32) {
        for id in self.value_calls(|call| call.manager == manager) {
            self.finish_value_call(id, ValueOutcome::Closed);
        }
    }

    /// Ends those of a JavaScript half that is no more.
    pub(super) fn forget_value_calls(&mut self, listener: &Arc<dyn Listener>) {
        for id in self.value_calls(|call| Arc::ptr_eq(&call.listener, listener)) {
            self.take_value_call(id);
        }
    }

    fn value_calls(&self, which: impl Fn(&Call) -> bool) -> Vec<u64> {
        self.values.calls.iter().filter(|(_, call)| which(&call.call)).map(|(id, _)| *id).collect()
    }

    /// The turn by which this core holds a lock.
    fn token_held(&self, lock: &str) -> Option<Token> {
        let lease = &self.leases.get(self.lease_of_key(lock)?)?.lease;
        lease.holder().and_then(|_| lease.token())
    }

    fn token_of(&self, claim: ClaimId) -> Option<Token> {
        self.claims.get(&claim).and_then(|claim| self.leases.get(claim.lease)).and_then(|entry| entry.lease.token())
    }
}
