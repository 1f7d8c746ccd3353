//! One server: every lock in it, one connection to it for commands and one for what it says of its own accord.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use redis::{Cmd, Value};

use super::burst::{self, Burst, NO_FLOOR, Names};
use super::script::Kind;
use super::signal;
use crate::clock::Time;
use crate::lease::CoreId;
use crate::link::{Endpoint, Link, Owner, Subscriber, Subscription};
use crate::store::request::Request;
use crate::store::{Answer, Command, Inbox, Replies, Reply, Store, Trouble, ValueCommand};

/// A store in one Redis or Valkey server.
pub struct Single {
    link: Link<Burst>,
    signals: Subscription,
    inbox: Weak<dyn Inbox>,
    /// Added and not yet sent. Locked for moments only, also while the wire is.
    pending: Mutex<Vec<Request>>,
    names: Names,
    floor: Floor,
}

impl Single {
    /// Keys get `prefix` where the store names them itself; answers go to `inbox`, which is told what `core` is.
    pub fn new(endpoint: Endpoint, prefix: &str, core: CoreId, inbox: Weak<dyn Inbox>) -> Arc<Single> {
        let names = Names::new(prefix);
        Arc::new_cyclic(|single: &Weak<Single>| Single {
            link: Link::new(endpoint.clone(), single.clone()),
            signals: Subscription::new(endpoint, names.channel(core), single.clone()),
            inbox,
            pending: Mutex::new(Vec::new()),
            names,
            floor: Floor::default(),
        })
    }

    fn call(&self, burst: &Burst, bytes: &mut Vec<u8>) {
        burst::call(burst, &self.names, "EVALSHA", burst.kind.hash()).write_packed_command(bytes);
    }

    /// Answers what the server won't.
    fn answer_all(&self, requests: Vec<Request>, answer: impl Fn(Request, &mut Replies)) {
        if let Some(inbox) = self.inbox.upgrade()
            && !requests.is_empty()
        {
            let mut replies = Replies::default();
            requests.into_iter().for_each(|request| answer(request, &mut replies));
            inbox.replies(replies);
        }
    }
}

impl Store for Single {
    fn submit(&self, command: Command) {
        self.pending.lock().push(Request::Lock(command));
    }

    fn submit_value(&self, command: ValueCommand) {
        self.pending.lock().push(Request::Value(command));
    }

    fn flush(&self) {
        if self.pending.lock().is_empty() {
            return;
        }
        let up = self.link.send(|wire| {
            // Taken while the wire is locked: two threads that flush can't change the order.
            let requests = std::mem::take(&mut *self.pending.lock());
            if requests.is_empty() {
                return;
            }
            let now = Time::now();
            let floor = self.floor.at(now);
            for (kind, requests) in burst::bursts(requests) {
                wire.push(Burst { requests, kind, floor }, now, |burst, bytes| self.call(burst, bytes));
            }
        });
        if !up {
            let requests = std::mem::take(&mut *self.pending.lock());
            let now = Time::now();
            self.answer_all(requests, |request, replies| request.drop_unsent(now, replies));
        }
    }

    fn wake(&self) {
        self.link.wake();
        self.signals.wake();
    }

    fn listen(&self) {
        self.signals.wake();
    }

    fn place(&self) -> String {
        self.link.endpoint().to_string()
    }

    fn counts(&self) -> (u64, u64) {
        self.link.counts()
    }
}

impl Owner<Burst> for Single {
    fn prologue(&self) -> Vec<Cmd> {
        // With the script in place no command of ours has to be sent twice.
        Kind::load()
    }

    fn up(&self) {
        self.floor.forget();
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.up();
        }
    }

    fn down(&self, trouble: &Trouble, unanswered: Vec<(Burst, Time)>) -> bool {
        // Before there can be another connection, to what may be another server.
        self.floor.forget();
        let Some(inbox) = self.inbox.upgrade() else {
            return false;
        };
        inbox.down(trouble);
        for (burst, sent) in unanswered {
            self.answer_all(burst.requests, |request, replies| request.leave(sent, trouble, replies));
        }
        inbox.wanted()
    }

    fn answer(&self, burst: Burst, sent: Time, value: Value) {
        if let Value::ServerError(error) = &value
            && error.code() == "NOSCRIPT"
        {
            // The script cache was emptied. Nothing of the burst was executed, so it may be sent again: whole.
            // A server that doesn't know the script may be one that doesn't know the fence counter either.
            self.floor.forget();
            let mut again = Some(Burst { floor: NO_FLOOR, ..burst });
            self.link.send(|wire| {
                if let Some(burst) = again.take() {
                    let source = burst.kind.source();
                    wire.push(burst, Time::now(), |burst, bytes| {
                        burst::call(burst, &self.names, "EVAL", source).write_packed_command(bytes);
                    });
                }
            });
            if let Some(burst) = again {
                self.answer_all(burst.requests, |request, replies| request.drop_unsent(sent, replies));
            }
            return;
        }
        let floor = burst.floor;
        let (replies, number) = burst::answers(burst, sent, value);
        self.floor.answered(floor, number, sent);
        if replies.locks.iter().any(of_another_server) {
            self.floor.forget();
        }
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.replies(replies);
        }
    }
}

impl Subscriber for Single {
    fn subscribed(&self) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.told(Ok(()));
        }
    }

    fn unsubscribed(&self, trouble: &Trouble) -> bool {
        let Some(inbox) = self.inbox.upgrade() else {
            return false;
        };
        inbox.told(Err(trouble));
        inbox.wanted()
    }

    fn message(&self, payload: &[u8]) {
        let (Ok(text), Some(inbox)) = (std::str::from_utf8(payload), self.inbox.upgrade()) else { return };
        if let Some(signal) = signal::parse(text) {
            inbox.signal(signal);
        } else if let Some(signal) = signal::parse_value(text) {
            inbox.value_signal(signal);
        }
    }

    fn listens(&self) -> bool {
        self.inbox.upgrade().is_some_and(|inbox| inbox.wanted())
    }
}

/// Signs that this server isn't, or wasn't, the one that gave the last numbers.
fn of_another_server(reply: &Reply) -> bool {
    const SIGNS: [&str; 6] = ["ASK", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY"];
    matches!(&reply.answer, Answer::Failed(trouble) if SIGNS.contains(&trouble.code()))
}

/// The number below which a fence counter can't be what it was: learnt once per connection, since a server that
/// failed over or restarted has lost all of them.
#[derive(Default)]
struct Floor {
    /// 0: none is known.
    number: AtomicU64,
    learnt: Mutex<Option<Time>>,
}

/// A floor is believed for this long.
const FLOOR_LASTS: Duration = Duration::from_secs(3_600);

impl Floor {
    /// What a command that is sent now carries.
    fn at(&self, now: Time) -> u64 {
        match (self.number.load(Ordering::Acquire), *self.learnt.lock()) {
            (number, Some(learnt)) if number > 0 && now.since(learnt) < FLOOR_LASTS => number,
            _ => NO_FLOOR,
        }
    }

    /// Only a number that was compared with the server's clock, on this connection, can be a floor.
    fn answered(&self, carried: u64, number: Option<u64>, sent: Time) {
        if carried == NO_FLOOR
            && let Some(number) = number
        {
            *self.learnt.lock() = Some(sent);
            self.number.store(number, Ordering::Release);
        }
    }

    fn forget(&self) {
        self.number.store(0, Ordering::Release);
    }
}
