//! When a process asks again for a lock that another one has: as the strategy of its first caller in line says.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rand::RngExt;

use super::Event;
use super::claims::Claim;
use super::state::{Entry, State};
use crate::clock::Time;
use crate::lease::{ClaimId, Token, Way};
use crate::store::Lock;
use crate::wait::{BACKOFF, Choice, Pace, Phases, Strategy, Then};

/// Long pauses end together with others of this process, a little early: what wakes up together costs one wake-up and one command.
const GRID: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_millis(400);

/// A wait for another process.
pub(super) struct Pacing {
    /// Whose strategy it is.
    claim: ClaimId,
    strategy: Arc<Strategy>,
    /// What came of that; none in the store's queue, where it looks now and then.
    phases: Option<Arc<Phases>>,
    pace: Pace,
    began: Time,
    pub(super) attempts: u32,
}

impl Pacing {
    /// Whether it comes to an end at which the caller gives up.
    fn ends(&self) -> bool {
        self.phases.as_ref().is_some_and(|phases| phases.then == Then::Fail)
    }
}

impl State {
    /// Whether the first in line asks more often than the store's queue needs.
    pub(super) fn polls(&self, index: usize) -> bool {
        let Some(entry) = self.leases.get(index) else { return false };
        let strategy = || entry.lease.first().and_then(|first| self.claims.get(&first)).map(|claim| &*claim.strategy);
        match &entry.pacing {
            Some(pacing) => pacing.phases.is_some(),
            None => strategy().is_some_and(|strategy| *strategy != Strategy::Handoff),
        }
    }

    /// The lock is somebody else's, whose lease is over in `left` milliseconds if that is known, and who can't be relied on to hand
    /// it on if it is `foreign`: decides when to ask again. Callers whose strategy is at its end give up.
    pub(super) fn poll_later(&mut self, index: usize, token: Token, left: Option<u64>, foreign: bool, now: Time) {
        // Sleeping longer than the holder's lease lasts makes no sense.
        let expiry = left.map(|left| Duration::from_millis(left + self.random.random_range(1..=10)));
        if let Some(lock) = self.leases.get(index).map(|entry| entry.lock.clone()).filter(|lock| lock.owner.is_some())
        {
            self.owner_waits(index, &lock, true, false, now);
        }
        if !self.asks(index) {
            self.drive(index, now, |lease, _| lease.ask_at(token, Time::NEVER));
            return;
        }
        loop {
            let first = self.leases.get(index).and_then(|entry| entry.lease.first());
            let Some(first) = first else { return };
            if let Some(pause) = self.pause_of(index, first, foreign, now) {
                // A store that answers at once must not be asked without end.
                let pause = if self.store.always_up() { pause.max(Duration::from_millis(1)) } else { pause };
                let pause = expiry.map_or(pause, |expiry| expiry.min(pause));
                let mut again = now + pause;
                if pause >= LONG {
                    again = again.floor(GRID).max(now);
                }
                self.drive(index, now, |lease, _| lease.ask_at(token, again));
                if pause.is_zero() {
                    self.drive(index, now, |lease, cx| lease.tick(cx));
                }
                return;
            }
            let waited = self.claims.get(&first).map(|claim| now.since(claim.since)).unwrap_or_default();
            let outcome = self.timed_out(index, first, waited);
            self.drive(index, now, |lease, cx| lease.leave(first, cx));
            self.finish(first, outcome);
        }
    }

    /// A waiting caller goes. The next one doesn't inherit its pause, if it waits in another way.
    pub(super) fn leave(&mut self, index: usize, id: ClaimId, now: Time) {
        let first = |state: &State| state.leases.get(index).and_then(|entry| entry.lease.first_waiting());
        let was_first = first(self) == Some(id);
        self.drive(index, now, |lease, cx| lease.leave(id, cx));
        if was_first && let Some(next) = first(self) {
            let strategy = self.claims.get(&next).map(|claim| claim.strategy.clone());
            let pacing = self.leases.get(index).and_then(|entry| entry.pacing.as_ref());
            let same = pacing.zip(strategy).is_some_and(|(pacing, strategy)| *pacing.strategy == *strategy);
            if pacing.is_some() && !same {
                self.ask_now(index, now);
            }
        }
    }

    /// Asks without waiting for the end of a pause.
    fn ask_now(&mut self, index: usize, now: Time) {
        if let Some(token) = self.leases.get(index).and_then(|entry| entry.lease.token()) {
            self.drive(index, now, |lease, cx| {
                lease.ask_at(token, now);
                lease.tick(cx);
            });
        }
    }

    /// Whether the first in line of this lease asks for itself. Calls of one owner that wait have a lease each, and only the one that
    /// came first asks: when it is granted, all of them are.
    pub(super) fn asks(&self, index: usize) -> bool {
        let Some(Entry { lock, .. }) = self.leases.get(index) else { return false };
        let waiting = self.waiting_owners.get(lock).filter(|_| lock.owner.is_some());
        waiting.and_then(|waiting| waiting.first()).is_none_or(|first| *first == index)
    }

    /// A lease of an owner waits for somebody else, or doesn't any more: `granted`, or gone.
    pub(super) fn owner_waits(&mut self, index: usize, lock: &Lock, waits: bool, granted: bool, now: Time) {
        let mut waiting = self.waiting_owners.remove(lock).unwrap_or_default();
        let place = waiting.iter().position(|other| *other == index);
        let ask = match (waits, place) {
            (true, None) => {
                waiting.push(index);
                Vec::new()
            }
            (false, Some(place)) => {
                waiting.remove(place);
                let count = if granted { waiting.len() } else { usize::from(place == 0) };
                waiting.iter().copied().take(count).collect()
            }
            _ => Vec::new(),
        };
        if !waiting.is_empty() {
            self.waiting_owners.insert(lock.clone(), waiting);
        }
        for other in ask {
            self.ask_now(other, now);
        }
    }

    /// The pause after an attempt that was refused. `None`: there is none, the strategy is at its end.
    fn pause_of(&mut self, index: usize, first: ClaimId, foreign: bool, now: Time) -> Option<Duration> {
        let (strategy, beat) =
            self.claims.get(&first).map(|claim| (claim.strategy.clone(), claim.terms.ttl.beat()))?;
        // The next in line goes on where the last one was; but bounds at which it gives up are its own.
        let goes_on =
            |pacing: &&mut Pacing| pacing.claim == first || (!pacing.ends() && *pacing.strategy == *strategy);
        if self.leases.get_mut(index)?.pacing.as_mut().filter(goes_on).is_none() {
            let phases = self.phases(index, first, &strategy);
            let several = phases.as_ref().is_some_and(|phases| phases.phases.len() > 1);
            let manager = self.claims.get(&first).map(|claim| claim.manager as usize)?;
            if let Some(manager) = self.managers.get_mut(manager) {
                manager.statistics.counters.phased += u64::from(several);
            }
            let pacing = Pacing { claim: first, strategy, phases, pace: Pace::default(), began: now, attempts: 0 };
            self.leases.get_mut(index)?.pacing = Some(pacing);
        }
        let entry = self.leases.get_mut(index)?;
        entry.contended = true;
        let pacing = entry.pacing.as_mut()?;
        pacing.attempts += 1;
        let Some(phases) = pacing.phases.clone() else {
            return Some(if foreign {
                BACKOFF.pause(pacing.attempts, Duration::ZERO, &mut self.random).min(beat)
            } else {
                beat
            });
        };
        let spinning = pacing.pace.is_in_first_phase();
        let mut pause = pacing.pace.next(&phases, now.since(pacing.began), &mut self.random);
        let left = spinning && !pacing.pace.is_in_first_phase() && phases.phases.len() > 1;
        if pause.is_none() && phases.then == Then::Handoff {
            pacing.phases = None;
            pause = Some(beat);
        } else if pause.is_none() {
            entry.pacing = None;
        }
        if left && let Some(statistics) = self.statistics_of(first) {
            statistics.counters.left_spinning += 1;
        }
        pause
    }

    fn phases(&mut self, index: usize, first: ClaimId, strategy: &Strategy) -> Option<Arc<Phases>> {
        match strategy {
            Strategy::Handoff => return None,
            Strategy::Poll(phases) => return Some(Arc::new(phases.clone())),
            Strategy::Adaptive => {}
        }
        let keys = &self.leases.get(index)?.lock.keys;
        let (choice, new, p99) = self.hold_times.choose(keys);
        if new
            && let Some(key) = keys.as_slice().first().cloned()
            && let Some(claim) = self.claims.get(&first)
            && let Some(manager) = self.managers.get(claim.manager as usize)
        {
            manager.listener.event(manager.slot, Event::Adapted { key, choice, p99 });
            let listener = manager.listener.clone();
            self.will_ring(listener);
        }
        if let Some(statistics) = self.statistics_of(first) {
            statistics.chose(choice);
        }
        static CHOICES: OnceLock<[Arc<Phases>; 3]> = OnceLock::new();
        let [spin, backoff, hybrid] = CHOICES
            .get_or_init(|| [Choice::Spin, Choice::Backoff, Choice::Hybrid].map(|choice| Arc::new(choice.phases())));
        Some(match choice {
            Choice::Spin => spin.clone(),
            Choice::Backoff => backoff.clone(),
            Choice::Hybrid => hybrid.clone(),
        })
    }

    /// The pause after an attempt that met trouble.
    pub(super) fn pause_after_trouble(&mut self, index: usize) -> Duration {
        let failures = self.leases.get_mut(index).map_or(1, |entry| {
            entry.failures += 1;
            entry.failures
        });
        BACKOFF.pause(failures, Duration::ZERO, &mut self.random)
    }

    /// How a caller came to its lock, for the figures.
    pub(super) fn count_way(&mut self, claim: ClaimId, way: Way, pacing: Option<Pacing>) {
        let Some(statistics) = self.statistics_of(claim) else { return };
        let counters = &mut statistics.counters;
        match (way, pacing) {
            (Way::HandedOn, _) => counters.handed_on += 1,
            (Way::Asked, None) => counters.at_once += 1,
            (Way::Told, None) | (_, Some(Pacing { phases: None, .. })) => counters.queued += 1,
            (_, Some(Pacing { phases: Some(phases), pace, attempts, .. })) => {
                counters.polled += 1;
                counters.attempts += u64::from(attempts) + 1;
                if phases.phases.len() > 1 && pace.is_in_first_phase() {
                    counters.won_spinning += 1;
                }
            }
        }
    }

    /// A holder's time is over.
    pub(super) fn was_held(&mut self, id: ClaimId, now: Time) {
        let Some(Claim { lease, since, .. }) = self.claims.get(&id) else { return };
        let time = now.since(*since);
        if let Some(Entry { lock, contended: true, .. }) = self.leases.get(*lease) {
            self.hold_times.add(&lock.keys, time);
        }
        if let Some(statistics) = self.statistics_of(id) {
            statistics.was_held(time);
        }
    }
}
