//! What a server would keep, and what its scripts would do with it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::clock::Time;
use crate::lease::{CoreId, Op, Push, Token, Ttl};
use crate::store::{Answer, Command, Lock, News, Signal};

#[derive(Default)]
pub(super) struct Locks {
    held: HashMap<Arc<str>, Entry>,
    /// Those who wait, per key. None is empty.
    queues: HashMap<Arc<str>, VecDeque<Token>>,
    fence: u64,
    /// Entries whose time is over are swept out when there are this many.
    sweep_at: usize,
}

/// What happens beside the answer to a command.
pub(super) struct Surroundings<'a> {
    pub(super) now: Time,
    /// Whether a core can be told.
    pub(super) reaches: &'a dyn Fn(CoreId) -> bool,
    pub(super) signals: &'a mut Vec<Signal>,
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

/// Numbers that a grant in the queue comes with.
const PUSHED_BLOCK: u32 = 16;

impl Locks {
    pub(super) fn execute(&mut self, command: &Command, around: &mut Surroundings<'_>) -> Answer {
        let Command { lock, token, .. } = command;
        let now = around.now;
        match command.op {
            Op::Take { ttl, block, waits } => self.take(lock, *token, ttl, block, waits, around),
            Op::Beat { ttl, block } => match lock.plain_key() {
                Some(key) => self.beat(&key.clone(), *token, block, around),
                None => self.take(lock, *token, ttl, block, true, around),
            },
            Op::Give { .. } => self.give(lock, *token, around),
            Op::Keep { ttl, block } => {
                if !self.has(lock, *token, now) {
                    return Answer::NotOurs;
                }
                self.hold(lock, *token, ttl.ends(now));
                let last = if block > 0 { self.fence(block) } else { 1 };
                Answer::Kept { last, more: self.is_wanted(lock) }
            }
            Op::Swap { to, ttl } | Op::Park { to, rest: ttl, .. } | Op::Adopt { to, ttl } => {
                self.swap(lock, *token, to, ttl, now)
            }
        }
    }

    fn take(
        &mut self,
        lock: &Lock,
        token: Token,
        ttl: Ttl,
        block: u32,
        waits: bool,
        around: &mut Surroundings<'_>,
    ) -> Answer {
        let now = around.now;
        self.sweep(now);
        let keys = lock.keys.as_slice();
        if let Some(taken) = keys.iter().position(|key| self.is_taken(key, lock, token, around)) {
            if waits {
                self.wait(keys, token, taken, around);
            }
            return keys.get(taken).map_or(Answer::NotOurs, |key| self.refused(key, token, now));
        }
        for key in keys {
            self.leave(key, token);
            if self.held.get(key).is_none_or(|entry| !entry.is_of(lock, token)) {
                self.held.remove(key);
            }
        }
        self.hold(lock, token, ttl.ends(now));
        let (last, more) = (self.fence(block), lock.plain_key().is_some() && self.is_wanted(lock));
        let holds = if lock.owner.is_some() { self.holds(lock, now) } else { 1 };
        Answer::Granted { last, left: None, more, holds }
    }

    /// The turn that has a key, if it isn't an owner's, and for how long.
    pub(super) fn holder(&self, key: &str, now: Time) -> Option<(Option<Token>, Duration)> {
        let entry = self.held.get(key).filter(|entry| entry.ends() > now)?;
        let token = if let Entry::One { token, .. } = entry { Some(*token) } else { None };
        Some((token, entry.ends().since(now)))
    }

    /// A key goes to whoever comes next, whoever has it.
    pub(super) fn take_away(&mut self, key: &Arc<str>, around: &mut Surroundings<'_>) {
        let Some((holder, _)) = self.holder(key, around.now) else { return };
        self.free(key, around);
        if let Some(token) = holder.filter(|token| token.is_told()) {
            around.signals.push(Signal { key: key.clone(), token, news: News::TakenAway });
        }
    }

    /// Whether somebody else has a key; one that is free goes to the first in its queue.
    fn is_taken(&mut self, key: &Arc<str>, lock: &Lock, token: Token, around: &mut Surroundings<'_>) -> bool {
        let now = around.now;
        match self.held.get(key).filter(|entry| entry.ends() > now) {
            Some(entry) => !entry.is_of(lock, token) && !entry.is_named(token),
            None => {
                let next = self.pass_on(key, Some(token), around);
                if next == Some(token) {
                    // Its turn has come here, and others must not pass it while it waits elsewhere.
                    self.held.insert(key.clone(), Entry::One { token, ends: now + token.claim() });
                }
                next.is_some_and(|next| next != token)
            }
        }
    }

    /// Waits for one of the keys: keeps what was granted before it in their order, and gives back what comes after.
    fn wait(&mut self, keys: &[Arc<str>], token: Token, taken: usize, around: &mut Surroundings<'_>) {
        for (place, key) in keys.iter().enumerate().filter(|(place, _)| *place != taken) {
            self.leave(key, token);
            let Some(Entry::One { ends, .. }) =
                self.held.get_mut(key).filter(|entry| entry.is_named(token) && entry.ends() > around.now)
            else {
                continue;
            };
            if place < taken {
                *ends = (around.now + token.claim()).max(*ends);
            } else {
                self.free(key, around);
            }
        }
        let Some(key) = keys.get(taken) else { return };
        let queue = self.queues.entry(key.clone()).or_default();
        if queue.contains(&token) {
            return;
        }
        queue.push_back(token);
        if queue.len() == 1 {
            self.want(key, around);
        }
    }

    fn beat(&mut self, key: &Arc<str>, token: Token, block: u32, around: &mut Surroundings<'_>) -> Answer {
        let now = around.now;
        let holder = self.held.get(key).filter(|entry| entry.ends() > now);
        if let Some(entry) = holder.filter(|entry| entry.is_named(token)) {
            let left = Some(entry.ends().since(now));
            return Answer::Granted { last: self.fence(block), left, more: self.queues.contains_key(key), holds: 1 };
        }
        let free = holder.is_none();
        if !self.queues.get(key).is_some_and(|queue| queue.contains(&token)) {
            return Answer::NotOurs;
        }
        if free && self.pass_on(key, Some(token), around) == Some(token) {
            self.held.insert(key.clone(), Entry::One { token, ends: now + token.claim() });
            let (last, more) = (self.fence(block), self.queues.contains_key(key));
            return Answer::Granted { last, left: Some(token.claim()), more, holds: 1 };
        }
        if !free && self.is_first(key, token) {
            self.want(key, around);
        }
        self.refused(key, token, now)
    }

    fn refused(&mut self, key: &Arc<str>, token: Token, now: Time) -> Answer {
        let entry = self.held.get(key).filter(|entry| entry.ends() > now);
        let left = entry.map(|entry| entry.ends().since(now).as_millis() as u64);
        let holder = entry.map(Entry::holder).unwrap_or_default();
        Answer::Taken { left, holder, mark: self.fence(0), first: self.is_first(key, token) }
    }

    fn give(&mut self, lock: &Lock, token: Token, around: &mut Surroundings<'_>) -> Answer {
        let mut all = true;
        for key in lock.keys.as_slice() {
            self.leave(key, token);
            match self.held.get_mut(key).filter(|entry| entry.ends() > around.now) {
                Some(entry) if !entry.has(lock, token, around.now) => {
                    all = false;
                    // Granted in the queue, and not yet its owner's.
                    if entry.is_named(token) {
                        self.free(key, around);
                    }
                }
                None => all = false,
                Some(Entry::Owner { holds, .. }) if holds.len() > 1 => {
                    holds.remove(&token);
                }
                Some(_) => self.free(key, around),
            }
        }
        if all { Answer::Done } else { Answer::NotOurs }
    }

    /// Gives a key that nobody has any more to the first in its queue who can be told, and returns its token. To `me` nothing
    /// is given: that is for the caller.
    fn pass_on(&mut self, key: &Arc<str>, me: Option<Token>, around: &mut Surroundings<'_>) -> Option<Token> {
        self.held.remove(key);
        loop {
            let queue = self.queues.get_mut(key)?;
            let first = queue.pop_front();
            if queue.is_empty() {
                self.queues.remove(key);
            }
            let first = first?;
            if Some(first) == me {
                return me;
            }
            if first.is_told() && !(around.reaches)(first.core()) {
                continue;
            }
            self.held.insert(key.clone(), Entry::One { token: first, ends: around.now + first.claim() });
            let push =
                Push { last: self.fence(PUSHED_BLOCK), block: PUSHED_BLOCK, more: self.queues.contains_key(key) };
            if first.is_told() {
                around.signals.push(Signal { key: key.clone(), token: first, news: News::Granted(push) });
            }
            return Some(first);
        }
    }

    /// Frees a key for whoever comes next.
    fn free(&mut self, key: &Arc<str>, around: &mut Surroundings<'_>) {
        self.pass_on(key, None, around);
    }

    /// Tells the holder that somebody waits.
    fn want(&self, key: &Arc<str>, around: &mut Surroundings<'_>) {
        if let Some(Entry::One { token, .. }) = self.held.get(key)
            && token.is_told()
        {
            around.signals.push(Signal { key: key.clone(), token: *token, news: News::Wanted });
        }
    }

    fn leave(&mut self, key: &Arc<str>, token: Token) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.retain(|other| *other != token);
            if queue.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    fn is_first(&self, key: &Arc<str>, token: Token) -> bool {
        self.queues.get(key).and_then(VecDeque::front) == Some(&token)
    }

    fn is_wanted(&self, lock: &Lock) -> bool {
        lock.keys.as_slice().iter().any(|key| self.queues.contains_key(key))
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
        self.hold(lock, to, ttl.ends(now));
        Answer::Done
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
        if self.held.len() >= self.sweep_at.max(64) {
            self.held.retain(|_, entry| entry.ends() > now);
            self.sweep_at = 2 * self.held.len();
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

    /// Whether it bears the name of a turn, as what was granted in the queue does.
    fn is_named(&self, token: Token) -> bool {
        matches!(self, Entry::One { token: holder, .. } if *holder == token)
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
