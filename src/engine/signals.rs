//! What the store says of its own accord, and whether it can.

use std::time::Duration;

use super::Event;
use super::state::State;
use super::timers::Timer;
use crate::clock::Time;
use crate::lease::{Op, Token, Ttl};
use crate::link::{Class, Trouble};
use crate::store::{Command, Lock, News, Signal};

/// How long the first connection for commands waits for that for signals, so that the first turns can be told: the two are
/// begun together.
const OPENING: Duration = Duration::from_millis(100);

/// Whether we can be told by push.
#[derive(Debug)]
pub(super) enum Signals {
    /// Nothing has come of it yet, or what has says nothing: the connection broke a moment ago, or the server can't be reached at all.
    Unknown,
    Come,
    /// They can't.
    Fail {
        why: Trouble,
        /// Managers have heard of it.
        told: bool,
    },
}

impl State {
    pub(super) fn signal(&mut self, signal: Signal, now: Time) {
        let Signal { key, token, news } = signal;
        let index = self.lease_by_token(&key, token);
        match (news, index) {
            (News::Granted(push), Some(index)) => {
                let plain = self.leases.get(index).is_some_and(|entry| entry.lock.plain_key().is_some());
                self.drive(index, now, |lease, cx| match plain {
                    true => lease.told(token, push, cx),
                    // One of several keys, or one that is still to be made its owner's.
                    false => {
                        lease.look_now(token, cx);
                        true
                    }
                });
            }
            // Nobody waits for it any more: it goes on to the next.
            (News::Granted(_), None) => {
                let ttl = Ttl::from_millis(token.claim().as_millis() as u32);
                let op = Op::Give { ttl, tainted: None };
                self.give_now(Command { lock: Lock::plain(key), lease: usize::MAX, token, op, caller: None }, now);
            }
            (News::Wanted, Some(index)) => {
                self.drive(index, now, |lease, _| lease.wanted(token));
            }
            (News::TakenAway, Some(index)) => {
                self.drive(index, now, |lease, cx| lease.lost(token, cx));
            }
            (News::Wanted | News::TakenAway, None) => {}
        }
    }

    fn lease_by_token(&self, key: &str, token: Token) -> Option<usize> {
        let is_it = |index: &usize| self.leases.get(*index).is_some_and(|entry| entry.lease.goes_by(token));
        let several = || {
            let several = self.leases.iter().filter(|(_, entry)| entry.lock.plain_key().is_none());
            several.map(|(index, _)| index).find(is_it)
        };
        self.lease_of_key(key).filter(is_it).or_else(several)
    }

    pub(super) fn is_told(&self) -> bool {
        matches!(self.signals, Signals::Come)
    }

    /// There is a connection for commands.
    pub(super) fn connected(&mut self, now: Time) {
        // What is held is confirmed without delay.
        let held = self.leases.iter().any(|(_, entry)| entry.lease.holder().is_some());
        if matches!(self.signals, Signals::Unknown) && !held {
            self.timers.set(Timer::Opening, &mut self.opening, Some(now + OPENING));
        } else {
            self.went_up(now);
        }
    }

    /// Nothing is waited for any longer, or the connection is gone.
    pub(super) fn opened(&mut self) -> bool {
        let was_opening = self.opening.is_some();
        self.timers.set(Timer::Opening, &mut self.opening, None);
        was_opening
    }

    /// Managers hear once that signals can't come, when there is a connection for commands, so that it matters.
    pub(super) fn tell_fallback(&mut self) {
        if let Signals::Fail { why, told: told @ false } = &mut self.signals {
            *told = true;
            let event = Event::Fallback(why.clone());
            self.tell_managers(&event);
        }
    }

    /// Nor does a manager that comes later miss it.
    pub(super) fn tell_newcomer(&mut self, manager: usize) {
        if let (Signals::Fail { why, told: true }, Some(manager)) = (&self.signals, self.managers.get(manager)) {
            let listener = manager.listener.clone();
            listener.event(manager.slot, Event::Fallback(why.clone()));
            self.will_ring(listener);
        }
    }

    /// Signals can come from now on, or can't for a while.
    pub(super) fn can_be_told(&mut self, able: Result<(), &Trouble>, now: Time) {
        let reachable = self.up || self.opening.is_some();
        self.signals = match (able, &self.signals) {
            (Ok(()), _) => Signals::Come,
            // It is made anew at once.
            (Err(_), Signals::Come) => Signals::Unknown,
            (Err(why), Signals::Fail { told, .. }) => Signals::Fail { why: why.clone(), told: *told },
            (Err(why), Signals::Unknown) if reachable || why.class() == Class::Definite => {
                Signals::Fail { why: why.clone(), told: false }
            }
            (Err(_), Signals::Unknown) => Signals::Unknown,
        };
        if self.opened() {
            self.went_up(now);
        } else if self.up {
            self.tell_fallback();
            // What was said in between was lost, and who couldn't be told has lost its place.
            let all: Vec<usize> = self.leases.iter().map(|(index, _)| index).collect();
            for index in all {
                if let Some(token) = self.leases.get(index).and_then(|entry| entry.lease.token()) {
                    self.drive(index, now, |lease, cx| lease.look_now(token, cx));
                }
            }
        }
    }
}
