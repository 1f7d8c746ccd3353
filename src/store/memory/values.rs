//! Cached values, as a server would keep them and its scripts would treat them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::locks::{Locks, Surroundings};
use crate::clock::Time;
use crate::lease::CoreId;
use crate::store::{Entry, Load, Order, ValueAnswer, ValueCommand, ValueNews, ValueOp, ValueSignal};

#[derive(Default)]
pub(super) struct Values {
    values: HashMap<Arc<str>, Kept<Arc<[u8]>>>,
    /// What loads that failed have left behind.
    failures: HashMap<Arc<str>, Kept<Arc<str>>>,
    /// Who waits for a value.
    waiters: HashMap<Arc<str>, Vec<CoreId>>,
    /// Values whose time is over are swept out when there are this many.
    sweep_at: usize,
}

struct Kept<T> {
    what: T,
    ends: Option<Time>,
}

impl<T> Kept<T> {
    fn new(what: T, millis: Option<u64>, now: Time) -> Kept<T> {
        Kept { what, ends: millis.map(|millis| now + Duration::from_millis(millis)) }
    }

    fn is_there(&self, now: Time) -> bool {
        self.ends.is_none_or(|ends| ends > now)
    }

    /// Milliseconds.
    fn left(&self, now: Time) -> Option<u64> {
        self.ends.map(|ends| ends.since(now).as_millis() as u64)
    }
}

/// Whom to tell what.
type Told = Vec<(CoreId, ValueSignal)>;

impl Values {
    pub(super) fn execute(
        &mut self,
        command: &ValueCommand,
        locks: &mut Locks,
        around: &mut Surroundings<'_>,
        told: &mut Told,
    ) -> ValueAnswer {
        let now = around.now;
        let ValueCommand { key, lock, op, .. } = command;
        match op {
            ValueOp::Read => match self.value(key, now) {
                Some(value) => ValueAnswer::Found(value.what.to_vec(), value.left(now)),
                None => ValueAnswer::Absent,
            },
            ValueOp::Look { token, backs_off, core } => {
                if *backs_off && let Some(failure) = self.failures.get(key).filter(|failure| failure.is_there(now)) {
                    return ValueAnswer::Failed(failure.what.to_string());
                }
                if let Some(value) = self.value(key, now)
                    && Entry::parse(&value.what).is_some_and(|entry| entry.is_fresh(value.left(now)))
                {
                    return ValueAnswer::Found(value.what.to_vec(), value.left(now));
                }
                match locks.holder(lock, now) {
                    None => ValueAnswer::Absent,
                    Some((holder, _)) if token.is_some() && holder == *token => ValueAnswer::Absent,
                    Some((_, left)) => {
                        let waiters = self.waiters.entry(key.clone()).or_default();
                        if !waiters.contains(core) {
                            waiters.push(*core);
                        }
                        ValueAnswer::Taken(Some(left.as_millis() as u64))
                    }
                }
            }
            ValueOp::Finish { token, load } => {
                if locks.holder(lock, now).is_none_or(|(holder, _)| holder != Some(*token)) {
                    return ValueAnswer::Done(false);
                }
                self.finish(key, load, now, told);
                ValueAnswer::Done(true)
            }
            ValueOp::Overrule(order) => {
                let there = self.overrule(key, order, now);
                self.failures.remove(key);
                locks.take_away(lock, around);
                self.tell(key, &ValueNews::Changed, told);
                ValueAnswer::Done(there)
            }
        }
    }

    fn finish(&mut self, key: &Arc<str>, load: &Load, now: Time, told: &mut Told) {
        let news = match load {
            Load::Value(entry, millis) => {
                self.put(key, entry, *millis, now);
                self.failures.remove(key);
                ValueNews::Changed
            }
            Load::Nothing(which) => ValueNews::Nothing(*which),
            Load::Error(words, millis) => {
                if let Some(value) = self.value(key, now) {
                    let millis = value.left(now).map_or(*millis, |left| left.min(*millis));
                    if millis > 0 {
                        self.failures.insert(key.clone(), Kept::new(words.clone(), Some(millis), now));
                    }
                }
                ValueNews::Error(words.to_string())
            }
        };
        self.tell(key, &news, told);
    }

    /// Returns whether there was a value.
    fn overrule(&mut self, key: &Arc<str>, order: &Order, now: Time) -> bool {
        let there = self.value(key, now).is_some();
        match order {
            Order::Set(entry, millis) => self.put(key, entry, *millis, now),
            Order::Delete => {
                self.values.remove(key);
            }
            Order::Expire => {
                let Some(value) = self.values.get_mut(key).filter(|value| value.is_there(now)) else { return false };
                let Some(kept) = Entry::parse(&value.what).map(|entry| entry.kept) else { return false };
                if kept == 0 {
                    self.values.remove(key);
                } else if value.left(now).is_none_or(|left| left > kept) {
                    value.ends = Some(now + Duration::from_millis(kept));
                }
            }
        }
        there
    }

    fn put(&mut self, key: &Arc<str>, entry: &Arc<[u8]>, millis: Option<u64>, now: Time) {
        self.values.insert(key.clone(), Kept::new(entry.clone(), millis, now));
        if self.values.len() >= self.sweep_at.max(64) {
            self.values.retain(|_, value| value.is_there(now));
            self.failures.retain(|_, failure| failure.is_there(now));
            self.sweep_at = 2 * self.values.len();
        }
    }

    fn value(&self, key: &Arc<str>, now: Time) -> Option<&Kept<Arc<[u8]>>> {
        self.values.get(key).filter(|value| value.is_there(now))
    }

    fn tell(&mut self, key: &Arc<str>, news: &ValueNews, told: &mut Told) {
        let signal = ValueSignal { key: key.clone(), news: news.clone() };
        told.extend(self.waiters.remove(key).into_iter().flatten().map(|core| (core, signal.clone())));
    }
}
