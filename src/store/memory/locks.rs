//! What a server would keep, and what its scripts would do with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::Time;
use crate::lease::{Attempt, Op, Token, Ttl};
use crate::store::{Answer, Command, Lock};

#[derive(Default)]
pub(super) struct Locks {
    held: HashMap<Arc<str>, Entry>,
    /// Who asked in vain, and until when that counts.
    wanted: HashMap<Arc<str>, (Token, Time)>,
    fence: u64,
    /// Entries whose time is over are swept out when there are this many.
    sweep_at: usize,
}

/// Who has a key.
enum Entry {
    One {
        token: Token,
        ends: Time,
    },
    /// The turns that hold it in the owner's name, and until when each does.
    Owner {
        name: Arc<str>,
        holds: HashMap<Token, Time>,
    },
}

impl Entry {
    fn ends(&self) -> Time {
        match self {
            Entry::One { ends, .. } => *ends,
            Entry::Owner { holds, .. } => holds.values().copied().max().unwrap_or(Time::from_micros(0)),
        }
    }

    fn holder(&self) -> String {
        match self {
            Entry::One { token, .. } => token.to_string(),
            Entry::Owner { name, .. } => format!("hf1.o.{name}"),
        }
    }
}

/// How long a mark of somebody who asked in vain counts: longer than the longest pause between two attempts.
const WANTED_LASTS: Duration = Duration::from_millis(1_500);

impl Locks {
    pub(super) fn execute(&mut self, command: &Command, now: Time) -> Answer {
        let Command { lock, token, .. } = command;
        match command.op {
            Op::Take { ttl, block, attempt } => self.take(lock, *token, ttl, block, attempt, now),
            Op::Give { .. } => self.give(lock, *token, now),
            Op::Keep { ttl, block } => {
                if !self.has(lock, *token, now) {
                    return Answer::NotOurs;
                }
                self.hold(lock, *token, ttl.forgotten(now));
                Answer::Done(if block > 0 { self.fence(block) } else { 1 })
            }
            Op::Swap { to, ttl } | Op::Park { to, rest: ttl, .. } | Op::Adopt { to, ttl } => {
                self.swap(lock, *token, to, ttl, now)
            }
        }
    }

    fn take(&mut self, lock: &Lock, token: Token, ttl: Ttl, block: u32, attempt: Attempt, now: Time) -> Answer {
        self.sweep(now);
        let (mut left, mut holder, mut at_any_time) = (None, None, false);
        for key in lock.keys.as_slice() {
            let wanted = self.wanted.get(key).filter(|(_, until)| *until > now).map(|(token, _)| *token);
            let others = wanted.is_some_and(|wanted| !wanted.is_of_same_core(token));
            match self.held.get(key).filter(|entry| entry.ends() > now) {
                Some(entry) if !entry.is_of(lock, token) => {
                    left = left.max(Some(entry.ends().since(now).as_millis() as u64));
                    holder = holder.filter(|known: &String| !known.is_empty()).or(Some(entry.holder()));
                    if attempt != Attempt::AfterOwnTurn || !others {
                        self.wanted.insert(key.clone(), (token, now + WANTED_LASTS));
                    }
                }
                None if attempt == Attempt::AfterOwnTurn && others => {
                    holder.get_or_insert_default();
                    at_any_time = true;
                }
                _ => {}
            }
        }
        if let Some(holder) = holder {
            return Answer::Taken { left: left.filter(|_| !at_any_time), holder };
        }
        for key in lock.keys.as_slice() {
            if self.held.get(key).is_some_and(|entry| entry.ends() > now) {
                continue;
            }
            self.held.remove(key);
            if attempt == Attempt::Again && self.wanted.get(key).is_some_and(|(wanted, _)| *wanted == token) {
                self.wanted.remove(key);
            }
        }
        self.hold(lock, token, ttl.forgotten(now));
        let last = self.fence(block);
        match &lock.owner {
            None => Answer::Done(last),
            Some(_) => Answer::Joined { last, holds: self.holds(lock, now) },
        }
    }

    fn give(&mut self, lock: &Lock, token: Token, now: Time) -> Answer {
        let mut all = true;
        for key in lock.keys.as_slice() {
            match self.held.get_mut(key).filter(|entry| entry.has(lock, token, now)) {
                None => all = false,
                Some(Entry::Owner { holds, .. }) if holds.len() > 1 => {
                    holds.remove(&token);
                }
                Some(_) => {
                    self.held.remove(key);
                }
            }
        }
        if all { Answer::Done(1) } else { Answer::NotOurs }
    }

    fn swap(&mut self, lock: &Lock, token: Token, to: Token, ttl: Ttl, now: Time) -> Answer {
        if self.has(lock, token, now) {
            for key in lock.keys.as_slice() {
                match self.held.get_mut(key) {
                    Some(Entry::Owner { holds, .. }) => {
                        holds.remove(&token);
                    }
                    _ => {
                        self.held.remove(key);
                    }
                }
            }
        } else if !self.has(lock, to, now) {
            return Answer::NotOurs;
        }
        self.hold(lock, to, ttl.forgotten(now));
        Answer::Done(1)
    }

    fn has(&self, lock: &Lock, token: Token, now: Time) -> bool {
        lock.keys.as_slice().iter().all(|key| self.held.get(key).is_some_and(|entry| entry.has(lock, token, now)))
    }

    /// Makes the keys this turn's, or its hold last until `until`; never shortens.
    fn hold(&mut self, lock: &Lock, token: Token, until: Time) {
        for key in lock.keys.as_slice() {
            let entry = self.held.entry(key.clone()).or_insert_with(|| match &lock.owner {
                None => Entry::One { token, ends: until },
                Some(name) => Entry::Owner { name: name.clone(), holds: HashMap::new() },
            });
            match entry {
                Entry::One { ends, .. } => *ends = until.max(*ends),
                Entry::Owner { holds, .. } => {
                    let ends = holds.entry(token).or_insert(until);
                    *ends = until.max(*ends);
                }
            }
        }
    }

    /// How many holds an owner has, at most over its keys.
    fn holds(&mut self, lock: &Lock, now: Time) -> u32 {
        let mut most = 0;
        for key in lock.keys.as_slice() {
            if let Some(Entry::Owner { holds, .. }) = self.held.get_mut(key) {
                holds.retain(|_, ends| *ends > now);
                most = most.max(holds.len() as u32);
            }
        }
        most
    }

    /// Never below the clock, so that numbers go on rising when the process is started anew.
    fn fence(&mut self, block: u32) -> u64 {
        let micros = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros() as u64;
        self.fence = self.fence.max(micros) + u64::from(block);
        self.fence
    }

    fn sweep(&mut self, now: Time) {
        if self.held.len() + self.wanted.len() >= self.sweep_at.max(64) {
            self.held.retain(|_, entry| entry.ends() > now);
            self.wanted.retain(|_, (_, until)| *until > now);
            self.sweep_at = 2 * (self.held.len() + self.wanted.len());
        }
    }
}

impl Entry {
    /// Whether a turn needn't wait for it.
    fn is_of(&self, lock: &Lock, token: Token) -> bool {
        match self {
            Entry::One { token: holder, .. } => lock.owner.is_none() && *holder == token,
            Entry::Owner { name, .. } => lock.owner.as_ref() == Some(name),
        }
    }

    /// Whether a turn has it.
    fn has(&self, lock: &Lock, token: Token, now: Time) -> bool {
        self.is_of(lock, token)
            && match self {
                Entry::One { ends, .. } => *ends > now,
                Entry::Owner { holds, .. } => holds.get(&token).is_some_and(|ends| *ends > now),
            }
    }
}
