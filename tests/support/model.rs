//! What a server does with our commands, as a model to compare a real one with and to simulate one: all state in plain
//! maps, time as an argument.

use std::collections::{HashMap, HashSet};

/// Something asked of the server about one lock; tokens as they are written, times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Take { token: String, ttl: u64, block: u64, waits: bool },
    Beat { token: String, block: u64 },
    Give { token: String },
    Keep { token: String, ttl: u64, block: u64 },
    Swap { token: String, to: String, ttl: u64 },
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted {
        /// The last number of the block.
        last: u64,
        more: bool,
        /// Milliseconds, if that isn't what was asked for.
        left: Option<u64>,
        /// Of an owner.
        holds: u64,
    },
    Kept {
        /// 1 if no numbers were asked for.
        last: u64,
        more: bool,
    },
    Done,
    NotOurs,
    Taken {
        /// The fence counter.
        mark: u64,
        /// Milliseconds; `None`: it has no ttl, or isn't there.
        left: Option<u64>,
        holder: String,
        /// Of the queue.
        first: bool,
    },
    /// It refused, or failed in the middle.
    Failed,
}

/// What the server says of its own accord, to the core of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    Granted { token: String, last: u64, more: bool },
    Wanted { token: String },
}

/// A lock of several keys, or one that turns hold together in an owner's name; '': without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    pub keys: Vec<String>,
    pub owner: String,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub value: String,
    /// In microseconds.
    pub ends: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub locks: HashMap<String, Entry>,
    /// Those who wait, first come, first served.
    pub queues: HashMap<String, Vec<String>>,
    pub counter: Option<u64>,
    /// Cores that nobody can tell, as they are written.
    pub deaf: HashSet<String>,
    /// What was said, and not fetched yet.
    pub signals: Vec<Signal>,
    /// Writes that take memory are refused, unless the script has written before.
    pub full: bool,
    /// The command under way has written.
    pub written: bool,
    /// Nobody may publish; unlike when nobody hears, that fails.
    pub mute: bool,
    /// The fence counter isn't a number.
    pub counter_broken: bool,
}

/// Numbers that a grant in the queue comes with.
const PUSHED: u64 = 16;

/// `h` or `p`, the core, and the claim in milliseconds, if a token is one of ours.
pub fn parts(token: &str) -> Option<(&str, &str, u64)> {
    let mut parts = token.strip_prefix("hf1.")?.split('.');
    let (kind, core, _turn, claim) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    matches!(kind, "h" | "p").then_some((kind, core, claim.parse().ok()?))
}

impl Model {
    /// `now`: the server's clock in microseconds.
    pub fn execute(&mut self, lock: &str, command: &Command, floor: u64, now: u64) -> Answer {
        self.locks.retain(|_, entry| entry.ends > now);
        self.written = false;
        let answer = self.attempt(lock, command, floor, now).unwrap_or(Answer::Failed);
        self.queues.retain(|_, queue| !queue.is_empty());
        answer
    }

    fn attempt(&mut self, lock: &str, command: &Command, floor: u64, now: u64) -> Option<Answer> {
        let ends = |ttl: u64| now + ttl * 1_000;
        let holder = self.value(lock).map(str::to_owned);
        Some(match command {
            Command::Take { token, ttl, block, waits } => {
                if self.queue(lock).is_empty() {
                    let entry = Entry { value: token.clone(), ends: ends(*ttl) };
                    // Refused before it is looked at who has it.
                    self.grow()?;
                    if holder.is_none() {
                        self.locks.insert(lock.to_owned(), entry);
                        return self.granted(lock, *block, None, floor, now);
                    }
                }
                match holder {
                    None => {
                        let next = self.pass_on(lock, Some(token), floor, now)?;
                        if next.is_none_or(|next| next == *token) {
                            self.leave(lock, token);
                            let entry = Entry { value: token.clone(), ends: ends(*ttl) };
                            self.locks.insert(lock.to_owned(), entry);
                            return self.granted(lock, *block, None, floor, now);
                        }
                    }
                    Some(holder) if holder == *token => {
                        self.raise(lock, ends(*ttl));
                        return self.granted(lock, *block, None, floor, now);
                    }
                    Some(_) => {}
                }
                if *waits && self.queue(lock).contains(token) {
                    // The queue lasts longer, which is a write.
                    self.written = true;
                } else if *waits {
                    self.grow()?;
                    let queue = self.queues.entry(lock.to_owned()).or_default();
                    queue.push(token.clone());
                    if queue.len() == 1 {
                        self.want(lock);
                    }
                }
                self.taken(lock, token, floor, now)?
            }
            Command::Beat { token, block } if holder.as_ref() == Some(token) => {
                let left = self.locks.get(lock).map(|entry| (entry.ends - now) / 1_000);
                self.granted(lock, *block, left, floor, now)?
            }
            Command::Beat { token, .. } if !self.queue(lock).contains(token) => Answer::NotOurs,
            Command::Beat { token, block } => {
                self.written = true;
                match holder {
                    None => {
                        if self.pass_on(lock, Some(token), floor, now)?.as_ref() == Some(token) {
                            let claim = parts(token).map_or(0, |(_, _, claim)| claim);
                            let entry = Entry { value: token.clone(), ends: ends(claim) };
                            self.locks.insert(lock.to_owned(), entry);
                            return self.granted(lock, *block, Some(claim), floor, now);
                        }
                    }
                    Some(_) if self.queue(lock).first() == Some(token) => self.want(lock),
                    Some(_) => {}
                }
                self.taken(lock, token, floor, now)?
            }
            Command::Give { token } => {
                self.leave(lock, token);
                if holder.as_ref() != Some(token) {
                    return Some(Answer::NotOurs);
                }
                if self.pass_on(lock, None, floor, now)?.is_none() {
                    self.locks.remove(lock);
                }
                Answer::Done
            }
            Command::Keep { token, ttl, block } if holder.as_ref() == Some(token) => {
                self.raise(lock, ends(*ttl));
                let last = if *block == 0 { 1 } else { self.fence(*block, floor, now)? };
                Answer::Kept { last, more: !self.queue(lock).is_empty() }
            }
            Command::Swap { token, to, ttl } if holder.as_ref() == Some(token) => {
                self.grow()?;
                self.locks.insert(lock.to_owned(), Entry { value: to.clone(), ends: ends(*ttl) });
                Answer::Done
            }
            Command::Swap { to, ttl, .. } if holder.as_ref() == Some(to) => {
                self.raise(lock, ends(*ttl));
                Answer::Done
            }
            Command::Keep { .. } | Command::Swap { .. } => Answer::NotOurs,
        })
    }

    /// Gives a free lock to the first in its queue who can be reached, unless that is `me`, and returns its token.
    fn pass_on(&mut self, lock: &str, me: Option<&String>, floor: u64, now: u64) -> Option<Option<String>> {
        self.written = true;
        loop {
            let queue = self.queues.entry(lock.to_owned()).or_default();
            if queue.is_empty() {
                self.locks.remove(lock);
                return Some(None);
            }
            let first = queue.remove(0);
            if Some(&first) == me {
                self.locks.remove(lock);
                return Some(Some(first));
            }
            let Some((kind, core, claim)) = parts(&first) else { continue };
            let entry = Entry { value: first.clone(), ends: now + claim * 1_000 };
            self.locks.insert(lock.to_owned(), entry);
            let last = self.fence(PUSHED, floor, now)?;
            if kind == "p" || self.mute {
                return Some(Some(first));
            }
            if !self.deaf.contains(core) {
                let more = !self.queue(lock).is_empty();
                self.signals.push(Signal::Granted { token: first.clone(), last, more });
                return Some(Some(first));
            }
        }
    }

    fn want(&mut self, lock: &str) {
        let holder = self.value(lock).map(str::to_owned);
        if let Some(token) = holder
            && !self.mute
            && parts(&token).is_some_and(|(kind, core, _)| kind == "h" && !self.deaf.contains(core))
        {
            self.signals.push(Signal::Wanted { token });
        }
    }

    fn granted(&mut self, lock: &str, block: u64, left: Option<u64>, floor: u64, now: u64) -> Option<Answer> {
        let last = self.fence(block, floor, now)?;
        Some(Answer::Granted { last, more: !self.queue(lock).is_empty(), left, holds: 1 })
    }

    fn taken(&mut self, lock: &str, token: &str, floor: u64, now: u64) -> Option<Answer> {
        Some(Answer::Taken {
            mark: self.fence(0, floor, now)?,
            left: self.locks.get(lock).filter(|entry| entry.ends < u64::MAX).map(|entry| (entry.ends - now) / 1_000),
            holder: self.value(lock).unwrap_or_default().to_owned(),
            first: self.queue(lock).first().is_some_and(|first| first == token),
        })
    }

    pub fn queue(&self, lock: &str) -> &[String] {
        self.queues.get(lock).map_or(&[], Vec::as_slice)
    }

    fn leave(&mut self, lock: &str, token: &str) {
        if let Some(queue) = self.queues.get_mut(lock) {
            queue.retain(|other| other != token);
        }
    }

    /// Who has it now.
    pub fn value(&self, lock: &str) -> Option<&str> {
        self.locks.get(lock).map(|entry| entry.value.as_str())
    }

    pub fn raise(&mut self, lock: &str, ends: u64) {
        if let Some(entry) = self.locks.get_mut(lock)
            && entry.ends < ends
        {
            entry.ends = ends;
            self.written = true;
        }
    }

    /// A write that takes memory.
    fn grow(&mut self) -> Option<()> {
        if self.full && !self.written {
            return None;
        }
        self.written = true;
        Some(())
    }

    /// The number before the block is what is compared with the floor.
    pub fn fence(&mut self, block: u64, floor: u64, now: u64) -> Option<u64> {
        if self.counter_broken {
            return None;
        }
        if block > 0 {
            self.grow()?;
        }
        let before = self.counter.unwrap_or(0);
        let last = if before >= floor { before + block } else { (before + block).max(now + block) };
        // Without memory a mark is not written, and true all the same.
        if block > 0 || (before < floor && self.grow().is_some()) {
            self.counter = Some(last);
        }
        Some(last)
    }
}
