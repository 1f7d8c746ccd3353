//! What a server does with our commands, as a model to compare a real one with and to simulate one: all state in plain
//! maps, time as an argument.

use std::collections::HashMap;

/// How a take was come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    First,
    Again,
    AfterOwnTurn,
}

/// Something asked of the server about one lock; tokens as they are written, times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Take { how: How, token: String, ttl: u64, block: u64 },
    Give { token: String },
    Keep { token: String, ttl: u64, block: u64 },
    Swap { token: String, to: String, ttl: u64 },
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The last number of the block.
    Numbers(u64),
    /// The same, for a lock of several keys or of an owner's: and how many holds of the owner there are.
    Joined {
        last: u64,
        holds: u64,
    },
    Done,
    NotOurs,
    Taken {
        /// The fence counter.
        mark: u64,
        /// Milliseconds; `None`: it has no ttl, or isn't there.
        left: Option<u64>,
        holder: String,
    },
    /// It refused, or failed in the middle.
    Failed,
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
    pub wanted: HashMap<String, Entry>,
    /// The turns that hold a lock in its owner's name, and until which millisecond each does.
    pub holds: HashMap<String, HashMap<String, u64>>,
    pub counter: Option<u64>,
    /// Writes that take memory are refused.
    pub full: bool,
    /// The fence counter isn't a number.
    pub counter_broken: bool,
}

/// What tells one process from another in a token: version, kind and core id.
const IDENTITY: usize = 38;

impl Model {
    /// `now`: the server's clock in microseconds.
    pub fn execute(&mut self, lock: &str, command: &Command, floor: u64, now: u64) -> Answer {
        self.locks.retain(|_, entry| entry.ends > now);
        self.wanted.retain(|_, entry| entry.ends > now);
        self.attempt(lock, command, floor, now).unwrap_or(Answer::Failed)
    }

    fn attempt(&mut self, lock: &str, command: &Command, floor: u64, now: u64) -> Option<Answer> {
        let ends = |ttl: u64| now + ttl * 1_000;
        let holder = self.value(lock).map(str::to_owned);
        Some(match command {
            Command::Take { how, token, ttl, block } => match holder {
                Some(holder) if holder == *token => {
                    if self.full {
                        return None;
                    }
                    self.raise(lock, ends(*ttl));
                    Answer::Numbers(self.fence(*block, floor, now)?)
                }
                holder if *how == How::AfterOwnTurn && self.others_want(lock, token) => {
                    self.taken(lock, holder, floor, now)?
                }
                None => {
                    let entry = Entry { value: token.clone(), ends: ends(*ttl) };
                    self.write(lock, entry)?;
                    if *how == How::Again && self.wanted.get(lock).is_some_and(|mark| mark.value == *token) {
                        self.wanted.remove(lock);
                    }
                    Answer::Numbers(self.fence(*block, floor, now)?)
                }
                Some(holder) => {
                    if self.full {
                        return None;
                    }
                    if holder.starts_with("hf1.") {
                        let mark = Entry { value: token.clone(), ends: ends(1_500) };
                        self.wanted.insert(lock.to_owned(), mark);
                    }
                    self.taken(lock, Some(holder), floor, now)?
                }
            },
            Command::Give { token } if holder.as_ref() == Some(token) => {
                self.locks.remove(lock);
                Answer::Done
            }
            Command::Keep { token, ttl, block } if holder.as_ref() == Some(token) => {
                self.raise(lock, ends(*ttl));
                match block {
                    0 => Answer::Done,
                    _ => Answer::Numbers(self.fence(*block, floor, now)?),
                }
            }
            Command::Swap { token, to, ttl } if holder.as_ref() == Some(token) => {
                let entry = Entry { value: to.clone(), ends: ends(*ttl) };
                self.write(lock, entry)?;
                Answer::Done
            }
            Command::Swap { to, ttl, .. } if holder.as_ref() == Some(to) => {
                self.raise(lock, ends(*ttl));
                Answer::Done
            }
            Command::Give { .. } | Command::Keep { .. } | Command::Swap { .. } => Answer::NotOurs,
        })
    }

    /// Who has it now.
    pub fn value(&self, lock: &str) -> Option<&str> {
        self.locks.get(lock).map(|entry| entry.value.as_str())
    }

    pub fn write(&mut self, lock: &str, entry: Entry) -> Option<()> {
        if self.full {
            return None;
        }
        self.locks.insert(lock.to_owned(), entry);
        Some(())
    }

    pub fn raise(&mut self, lock: &str, ends: u64) {
        if let Some(entry) = self.locks.get_mut(lock) {
            entry.ends = entry.ends.max(ends);
        }
    }

    pub fn others_want(&self, lock: &str, token: &str) -> bool {
        self.wanted.get(lock).is_some_and(|mark| mark.value.get(..IDENTITY) != token.get(..IDENTITY))
    }

    fn taken(&mut self, lock: &str, holder: Option<String>, floor: u64, now: u64) -> Option<Answer> {
        Some(Answer::Taken {
            mark: self.fence(0, floor, now)?,
            left: self.locks.get(lock).filter(|entry| entry.ends < u64::MAX).map(|entry| (entry.ends - now) / 1_000),
            holder: holder.unwrap_or_default(),
        })
    }

    /// The number before the block is what is compared with the floor.
    pub fn fence(&mut self, block: u64, floor: u64, now: u64) -> Option<u64> {
        if self.counter_broken {
            return None;
        }
        let before = self.counter.unwrap_or(0);
        let last = if before >= floor { before + block } else { (before + block).max(now + block) };
        if block > 0 || before < floor {
            self.counter = Some(last);
        }
        Some(last)
    }
}
