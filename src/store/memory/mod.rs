//! Locks in this process: the same contract as a server's, without one. Excludes nobody outside the process.

mod locks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use self::locks::Locks;
use super::{Command, Inbox, Reply, Store};
use crate::clock::Time;

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
