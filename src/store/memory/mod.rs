//! Locks in this process: the same contract as a server's, without one. Excludes nobody outside the process.

mod locks;
mod values;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use self::locks::{Locks, Surroundings};
use self::values::Values;
use super::request::Request;
use super::{Command, Inbox, Replies, Reply, Signal, Store, ValueCommand, ValueReply, ValueSignal};
use crate::clock::Time;
use crate::lease::CoreId;

/// One store by its name; all of a process that use the name share it.
pub struct Memory {
    place: Arc<Place>,
    name: String,
    core: CoreId,
    inbox: Weak<dyn Inbox>,
    pending: Mutex<Vec<Request>>,
    executed: AtomicU64,
}

#[derive(Default)]
struct Place {
    kept: Mutex<Kept>,
    /// Who can be told.
    inboxes: Mutex<HashMap<CoreId, Weak<dyn Inbox>>>,
}

#[derive(Default)]
struct Kept {
    locks: Locks,
    values: Values,
}

/// Whom to tell what.
#[derive(Default)]
struct Told {
    locks: Vec<(Arc<dyn Inbox>, Signal)>,
    values: Vec<(Arc<dyn Inbox>, ValueSignal)>,
}

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
    fn execute(&self) -> (Replies, Told) {
        let now = Time::now();
        let mut kept = self.place.kept.lock();
        let Kept { locks, values } = &mut *kept;
        let requests = std::mem::take(&mut *self.pending.lock());
        let (mut replies, mut told) = (Replies::default(), Told::default());
        let (mut signals, mut value_signals) = (Vec::new(), Vec::new());
        let inbox = |core: CoreId| self.place.inboxes.lock().get(&core).and_then(Weak::upgrade);
        let reaches = |core| inbox(core).is_some();
        let mut around = Surroundings { now, reaches: &reaches, signals: &mut signals };
        for request in requests {
            match request {
                Request::Lock(command) => {
                    let answer = locks.execute(&command, &mut around);
                    replies.locks.push(Reply { command, sent: now, answer });
                }
                Request::Value(command) => {
                    let answer = values.execute(&command, locks, &mut around, &mut value_signals);
                    replies.values.push(ValueReply { command, sent: now, answer });
                }
            }
        }
        told.locks.extend(signals.into_iter().filter_map(|signal| inbox(signal.token.core()).zip(Some(signal))));
        told.values.extend(value_signals.into_iter().filter_map(|(core, signal)| inbox(core).zip(Some(signal))));
        (replies, told)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.place.inboxes.lock().remove(&self.core);
    }
}

impl Store for Memory {
    fn submit(&self, command: Command) {
        self.pending.lock().push(Request::Lock(command));
    }

    fn submit_value(&self, command: ValueCommand) {
        self.pending.lock().push(Request::Value(command));
    }

    fn flush(&self) {
        // Until nothing is left: an answer may bring new commands.
        loop {
            let (replies, told) = self.execute();
            let count = replies.locks.len() + replies.values.len();
            if count == 0 {
                return;
            }
            self.executed.fetch_add(count as u64, Ordering::Relaxed);
            if let Some(inbox) = self.inbox.upgrade() {
                inbox.replies(replies);
            }
            for (inbox, signal) in told.locks {
                inbox.signal(signal);
            }
            for (inbox, signal) in told.values {
                inbox.value_signal(signal);
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
