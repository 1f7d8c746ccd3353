//! Locks in this process: the same contract as a server's, without one. Excludes nobody outside the process.

mod locks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use self::locks::{Locks, Surroundings};
use super::{Command, Inbox, Reply, Signal, Store};
use crate::clock::Time;
use crate::lease::CoreId;

/// One store by its name; all of a process that use the name share it.
pub struct Memory {
    place: Arc<Place>,
    name: String,
    core: CoreId,
    inbox: Weak<dyn Inbox>,
    pending: Mutex<Vec<Command>>,
    executed: AtomicU64,
}

#[derive(Default)]
struct Place {
    locks: Mutex<Locks>,
    /// Who can be told.
    inboxes: Mutex<HashMap<CoreId, Weak<dyn Inbox>>>,
}

/// Whom to tell what.
type Told = (Arc<dyn Inbox>, Signal);

impl Memory {
    /// The store called `name`; answers go to `inbox`, which is told what `core` is.
    pub fn new(name: &str, core: CoreId, inbox: Weak<dyn Inbox>) -> Arc<Memory> {
        static PLACES: OnceLock<Mutex<HashMap<String, Arc<Place>>>> = OnceLock::new();
        let place = PLACES.get_or_init(Mutex::default).lock().entry(name.to_owned()).or_default().clone();
        place.inboxes.lock().insert(core, inbox.clone());
        Arc::new(Memory {
            place,
            name: name.to_owned(),
            core,
            inbox,
            pending: Mutex::new(Vec::new()),
            executed: AtomicU64::new(0),
        })
    }

    /// Executes what was added, and returns the answers and whom to tell what.
    fn execute(&self) -> (Vec<Reply>, Vec<Told>) {
        let now = Time::now();
        let mut locks = self.place.locks.lock();
        let commands = std::mem::take(&mut *self.pending.lock());
        if commands.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut signals = Vec::new();
        let inbox = |core: CoreId| self.place.inboxes.lock().get(&core).and_then(Weak::upgrade);
        let reaches = |core| inbox(core).is_some();
        let mut around = Surroundings { now, reaches: &reaches, signals: &mut signals };
        let answer = |command| {
            let answer = locks.execute(&command, &mut around);
            Reply { command, sent: now, answer }
        };
        let replies = commands.into_iter().map(answer).collect();
        let signals = signals.into_iter().filter_map(|signal| inbox(signal.token.core()).zip(Some(signal)));
        (replies, signals.collect())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.place.inboxes.lock().remove(&self.core);
    }
}

impl Store for Memory {
    fn submit(&self, command: Command) {
        self.pending.lock().push(command);
    }

    fn flush(&self) {
        // Until nothing is left: an answer may bring new commands.
        loop {
            let (replies, signals) = self.execute();
            if replies.is_empty() {
                return;
            }
            self.executed.fetch_add(replies.len() as u64, Ordering::Relaxed);
            if let Some(inbox) = self.inbox.upgrade() {
                inbox.replies(replies);
            }
            for (inbox, signal) in signals {
                inbox.signal(signal);
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
