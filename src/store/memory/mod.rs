//! Locks in this process: the same contract as a server's, without one. Excludes nobody outside the process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{Answer, Command, Inbox, Reply, Store};
use crate::clock::Time;
use crate::lease::{Attempt, Op, Token, Ttl};

/// One store by its name; all of a process that use the name share it.
pub struct Memory {
    locks: Arc<Mutex<Locks>>,
    name: String,
    inbox: Weak<dyn Inbox>,
    pending: Mutex<Vec<Command>>,
    executed: AtomicU64,
}

impl Memory {
    /// The store called `name`; answers go to `inbox`.
    pub fn new(name: &str, inbox: Weak<dyn Inbox>) -> Arc<Memory> {
        static STORES: OnceLock<Mutex<HashMap<String, Arc<Mutex<Locks>>>>> = OnceLock::new();
        let locks = STORES.get_or_init(Mutex::default).lock().entry(name.to_owned()).or_default().clone();
        Arc::new(Memory {
            locks,
            name: name.to_owned(),
            inbox,
            pending: Mutex::new(Vec::new()),
            executed: AtomicU64::new(0),
        })
    }
}

impl Store for Memory {
    fn submit(&self, command: Command) {
        self.pending.lock().push(command);
    }

    fn flush(&self) {
        // Until nothing is left: an answer may bring new commands.
        loop {
            let now = Time::now();
            let replies: Vec<Reply> = {
                let mut locks = self.locks.lock();
                let commands = std::mem::take(&mut *self.pending.lock());
                commands
                    .into_iter()
                    .map(|command| {
                        let answer = locks.execute(&command, now);
                        Reply { command, sent: now, answer }
                    })
                    .collect()
            };
            if replies.is_empty() {
                return;
            }
            self.executed.fetch_add(replies.len() as u64, Ordering::Relaxed);
            if let Some(inbox) = self.inbox.upgrade() {
                inbox.replies(replies);
            }
        }
    }

    fn wake(&self) {}

    fn always_up(&self) -> bool {
        true
    }

    fn place(&self) -> String {
        format!("memory:{}", self.name)
    }

    fn counts(&self) -> (u64, u64) {
        (self.executed.load(Ordering::Relaxed), 1)
    }
}

/// What a server would keep.
#[derive(Default)]
struct Locks {
    held: HashMap<Arc<str>, Entry>,
    /// Who asked in vain, and until when that counts.
    wanted: HashMap<Arc<str>, Entry>,
    fence: u64,
    /// Entries whose time is over are swept out when there are this many.
    sweep_at: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    token: Token,
    ends: Time,
}

/// How long a mark of somebody who asked in vain counts: longer than the longest pause between two attempts.
const WANTED_LASTS: Duration = Duration::from_millis(1_500);

impl Locks {
    fn execute(&mut self, command: &Command, now: Time) -> Answer {
        let token = command.token;
        match command.op {
            Op::Take { ttl, block, attempt } => self.take(&command.key, token, ttl, block, attempt, now),
            Op::Give { .. } => match self.ours(&command.key, token, now) {
                None => Answer::NotOurs,
                Some(_) => {
                    self.held.remove(&command.key);
                    Answer::Done(1)
                }
            },
            Op::Keep { ttl, block } => match self.ours(&command.key, token, now) {
                None => Answer::NotOurs,
                Some(entry) => {
                    entry.ends = entry.ends.max(ttl.forgotten(now));
                    Answer::Done(if block > 0 { self.fence(block) } else { 1 })
                }
            },
            Op::Swap { to, ttl } => {
                if let Some(entry) = self.ours(&command.key, token, now) {
                    *entry = Entry { token: to, ends: ttl.forgotten(now) };
                    Answer::Done(1)
                } else if let Some(entry) = self.ours(&command.key, to, now) {
                    entry.ends = entry.ends.max(ttl.forgotten(now));
                    Answer::Done(1)
                } else {
                    Answer::NotOurs
                }
            }
        }
    }

    fn take(&mut self, key: &Arc<str>, token: Token, ttl: Ttl, block: u32, attempt: Attempt, now: Time) -> Answer {
        self.sweep(now);
        let live = |entry: &&Entry| entry.ends > now;
        let holder = self.held.get(key).filter(live).copied();
        let wanted = self.wanted.get(key).filter(live).copied();
        let others = wanted.is_some_and(|wanted| !wanted.token.is_of_same_core(token));
        let ends = ttl.forgotten(now);
        match holder {
            None if attempt == Attempt::AfterOwnTurn && others => Answer::Taken { left: None, holder: String::new() },
            Some(holder) if holder.token != token => {
                if attempt != Attempt::AfterOwnTurn || !others {
                    self.wanted.insert(key.clone(), Entry { token, ends: now + WANTED_LASTS });
                }
                Answer::Taken {
                    left: Some(holder.ends.since(now).as_millis() as u64),
                    holder: holder.token.to_string(),
                }
            }
            _ => {
                if wanted.is_some_and(|wanted| wanted.token == token) {
                    self.wanted.remove(key);
                }
                self.held.insert(key.clone(), Entry { token, ends });
                Answer::Done(self.fence(block))
            }
        }
    }

    fn ours(&mut self, key: &str, token: Token, now: Time) -> Option<&mut Entry> {
        self.held.get_mut(key).filter(|entry| entry.token == token && entry.ends > now)
    }

    /// Never below the clock, so that numbers go on rising when the process is started anew.
    fn fence(&mut self, block: u32) -> u64 {
        let micros = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_micros() as u64;
        self.fence = self.fence.max(micros) + u64::from(block);
        self.fence
    }

    fn sweep(&mut self, now: Time) {
        if self.held.len() + self.wanted.len() >= self.sweep_at.max(64) {
            self.held.retain(|_, entry| entry.ends > now);
            self.wanted.retain(|_, entry| entry.ends > now);
            self.sweep_at = 2 * (self.held.len() + self.wanted.len());
        }
    }
}
