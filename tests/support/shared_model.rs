//! What a server does with commands about locks of several keys, and about locks that turns hold together: all of them or
//! none, and each turn of an owner counts once.

use std::collections::HashMap;

use crate::model::{Answer, Command, Entry, How, Model, Shared};

/// A value of ours begins with this.
const OURS: &str = "hf1.";

impl Model {
    /// `now`: the server's clock in microseconds.
    pub fn execute_shared(&mut self, lock: &Shared, command: &Command, floor: u64, now: u64) -> Answer {
        self.locks.retain(|_, entry| entry.ends > now);
        self.wanted.retain(|_, entry| entry.ends > now);
        let turn = Turn { lock, now };
        match command {
            Command::Take { how, token, ttl, block } => turn.take(self, *how, token, *ttl, *block, floor),
            Command::Give { token } => Some(turn.give(self, token)),
            Command::Keep { token, ttl, block } => turn.keep(self, token, *ttl, *block, floor),
            Command::Swap { token, to, ttl } => Some(turn.swap(self, token, to, *ttl)),
        }
        .unwrap_or(Answer::Failed)
    }

    /// How many holds a lock has.
    pub fn holds_of(&self, key: &str, now: u64) -> usize {
        self.holds.get(key).map_or(0, |holds| holds.values().filter(|ends| **ends > now / 1_000).count())
    }
}

struct Turn<'a> {
    lock: &'a Shared,
    now: u64,
}

impl Turn<'_> {
    fn value(&self, token: &str) -> String {
        match self.lock.owner.as_str() {
            "" => token.to_owned(),
            owner => format!("hf1.o.{owner}"),
        }
    }

    fn take(&self, model: &mut Model, how: How, token: &str, ttl: u64, block: u64, floor: u64) -> Option<Answer> {
        let value = self.value(token);
        // What stands in the way, and for how long: -2 for what is kept for another, -1 for what has no end.
        let mut lefts = Vec::new();
        let mut holders = Vec::new();
        for key in &self.lock.keys {
            let other = model.value(key).filter(|other| *other != value).map(str::to_owned);
            // Who asked in vain meanwhile comes first, and stays the one.
            let behind = how == How::AfterOwnTurn && model.others_want(key, token);
            if let Some(other) = other {
                let ends = model.locks[key].ends;
                lefts.push(if ends == u64::MAX { -1 } else { ((ends - self.now) / 1_000) as i64 });
                if other.starts_with(OURS) && !behind {
                    let mark = Entry { value: token.to_owned(), ends: self.now + 1_500_000 };
                    model.wanted.insert(key.clone(), mark);
                }
                holders.push(other);
            } else if behind && model.value(key).is_none() {
                lefts.push(-2);
                holders.push(String::new());
            }
        }
        if !holders.is_empty() {
            let all_end = lefts.iter().all(|left| *left >= 0);
            return Some(Answer::Taken {
                mark: model.fence(0, floor, self.now)?,
                left: lefts.into_iter().max().filter(|_| all_end).map(|left| left as u64),
                holder: holders.into_iter().find(|holder| !holder.is_empty()).unwrap_or_default(),
            });
        }
        for key in &self.lock.keys {
            let ends = self.now + ttl * 1_000;
            if model.value(key).is_none() {
                if !self.lock.owner.is_empty() {
                    // Left over from when somebody deleted the key.
                    model.holds.remove(key);
                }
                model.locks.insert(key.clone(), Entry { value: value.clone(), ends });
                if how == How::Again && model.wanted.get(key).is_some_and(|mark| mark.value == token) {
                    model.wanted.remove(key);
                }
            } else {
                model.raise(key, ends);
            }
            self.hold(model, key, token, ttl);
        }
        let holds = match self.lock.owner.as_str() {
            "" => 1,
            // Where an owner has several sets, one key can have more holds than another.
            _ => self.lock.keys.iter().map(|key| model.holds_of(key, self.now)).max()? as u64,
        };
        Some(Answer::Joined { last: model.fence(block, floor, self.now)?, holds })
    }

    fn give(&self, model: &mut Model, token: &str) -> Answer {
        let mine = self.all(model, token);
        for key in &self.lock.keys {
            if !self.has(model, key, token) {
                continue;
            }
            if self.lock.owner.is_empty() {
                model.locks.remove(key);
            } else {
                model.holds.get_mut(key).unwrap().remove(token);
                self.settle(model, key);
            }
        }
        if mine { Answer::Done } else { Answer::NotOurs }
    }

    fn keep(&self, model: &mut Model, token: &str, ttl: u64, block: u64, floor: u64) -> Option<Answer> {
        if !self.all(model, token) {
            return Some(Answer::NotOurs);
        }
        self.raise(model, token, ttl);
        Some(match block {
            0 => Answer::Done,
            _ => Answer::Numbers(model.fence(block, floor, self.now)?),
        })
    }

    fn swap(&self, model: &mut Model, token: &str, to: &str, ttl: u64) -> Answer {
        if self.all(model, token) {
            for key in &self.lock.keys {
                if self.lock.owner.is_empty() {
                    let entry = Entry { value: to.to_owned(), ends: self.now + ttl * 1_000 };
                    model.locks.insert(key.clone(), entry);
                } else {
                    model.holds.get_mut(key).unwrap().remove(token);
                    self.hold(model, key, to, ttl);
                }
            }
            return Answer::Done;
        }
        if !self.all(model, to) {
            return Answer::NotOurs;
        }
        self.raise(model, to, ttl);
        Answer::Done
    }

    fn raise(&self, model: &mut Model, token: &str, ttl: u64) {
        for key in &self.lock.keys {
            model.raise(key, self.now + ttl * 1_000);
            self.hold(model, key, token, ttl);
        }
    }

    fn all(&self, model: &Model, token: &str) -> bool {
        self.lock.keys.iter().all(|key| self.has(model, key, token))
    }

    fn has(&self, model: &Model, key: &str, token: &str) -> bool {
        let hold = || model.holds.get(key).and_then(|holds| holds.get(token));
        model.value(key) == Some(&self.value(token))
            && (self.lock.owner.is_empty() || hold().is_some_and(|ends| *ends > self.now / 1_000))
    }

    /// Never shortens.
    fn hold(&self, model: &mut Model, key: &str, token: &str, ttl: u64) {
        if self.lock.owner.is_empty() {
            return;
        }
        let until = self.now / 1_000 + ttl;
        let holds = model.holds.entry(key.to_owned()).or_default();
        let ends = holds.entry(token.to_owned()).or_default();
        *ends = until.max(*ends);
        self.settle(model, key);
    }

    /// An owner's lock lasts as long as its longest hold.
    fn settle(&self, model: &mut Model, key: &str) {
        let holds: &mut HashMap<String, u64> = model.holds.entry(key.to_owned()).or_default();
        holds.retain(|_, ends| *ends > self.now / 1_000);
        match holds.values().max() {
            Some(ends) => model.locks.get_mut(key).unwrap().ends = ends * 1_000,
            None => {
                model.holds.remove(key);
                model.locks.remove(key);
            }
        }
    }
}
