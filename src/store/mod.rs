//! Where locks are kept: the commands a store understands, and how it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Time;
use crate::lease::{ClaimId, Op, Push, Token};
pub use crate::link::Trouble;
pub use lock::{Keys, Lock};
pub use value::{Entry, Load, Order, ValueAnswer, ValueCommand, ValueNews, ValueOp, ValueReply, ValueSignal};

mod lock;
pub mod memory;
pub mod redis;
mod request;
mod value;

/// Answers, in the order of execution.
#[derive(Debug, Default)]
pub struct Replies {
    /// About locks.
    pub locks: Vec<Reply>,
    /// About cached values. Those that were asked in one step with something about locks come before it.
    pub values: Vec<ValueReply>,
}

/// Something asked of a store about one lock.
#[derive(Clone, Debug)]
pub struct Command {
    /// Which.
    pub lock: Lock,
    /// Where its sender keeps it.
    pub lease: usize,
    /// The turn it is about.
    pub token: Token,
    /// What.
    pub op: Op,
    /// The caller that waits for the answer, if one does.
    pub caller: Option<ClaimId>,
}

/// The answer to a command.
#[derive(Debug)]
pub struct Reply {
    /// What was asked.
    pub command: Command,
    /// The instant before it was handed to the socket.
    pub sent: Time,
    /// What came of it.
    pub answer: Answer,
}

/// What came of a command.
#[derive(Debug)]
pub enum Answer {
    /// A give, swap, park or adopt: done.
    Done,
    /// A keep: done.
    Kept {
        /// The last number of the block, if one was reserved.
        last: u64,
        /// Others wait for the lock.
        more: bool,
    },
    /// A take or beat: the lock is ours.
    Granted {
        /// The last number of the block.
        last: u64,
        /// How long the server keeps it, if that isn't what was asked for.
        left: Option<Duration>,
        /// Others wait for it.
        more: bool,
        /// For an owner: how many holds of the owner there are now.
        holds: u32,
    },
    /// A take or beat: somebody else has the key.
    Taken {
        /// Milliseconds until its ttl is over; `None` if it has none or is gone already.
        left: Option<u64>,
        /// Its value.
        holder: String,
        /// The fence counter.
        mark: u64,
        /// Our turn is the first in the queue.
        first: bool,
    },
    /// A give, keep, swap, park or adopt: the key isn't ours. A beat: the turn doesn't stand in the queue.
    NotOurs,
    /// The server refused.
    Failed(Trouble),
    /// It was sent, and the connection broke: it may have been executed, or still be.
    Unanswered(Trouble),
    /// It wasn't sent, for want of a connection.
    Unsent,
}

/// What a store says of its own accord, about one lock.
#[derive(Clone, Debug)]
pub struct Signal {
    /// The key, prefix included: of several, the one it is about.
    pub key: Arc<str>,
    /// The turn.
    pub token: Token,
    /// What.
    pub news: News,
}

/// What a store says of its own accord.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// The turn has come.
    Granted(Push),
    /// Somebody else waits for what the turn has.
    Wanted,
    /// What the turn had was taken from it.
    TakenAway,
}

/// A place where locks are kept.
pub trait Store: Send + Sync {
    /// Adds a command to those that [`flush`](Store::flush) sends. The order of calls is the order of execution, so a caller
    /// that must decide something together with the order calls this within its own critical section.
    fn submit(&self, command: Command);
    /// The same for a command about a cached value. A give of its lock that is added right behind a [`ValueOp::Finish`] is
    /// carried out in one step with it.
    fn submit_value(&self, command: ValueCommand);
    /// Sends what was added. Every command is answered once, to the inbox, maybe within this call.
    fn flush(&self);
    /// Asks for a connection. May be called with anything locked.
    fn wake(&self);
    /// Asks for the connection on which signals come. May be called with anything locked.
    fn listen(&self) {}
    /// Needs no connection: [`Inbox::up`] and [`Inbox::told`] never come, and signals always do.
    fn always_up(&self) -> bool {
        false
    }
    /// Where it is, for messages.
    fn place(&self) -> String;
    /// Commands sent so far, and connections made.
    fn counts(&self) -> (u64, u64);
}

/// Who gets a store's answers. Called with nothing of the store's locked.
pub trait Inbox: Send + Sync + 'static {
    /// Answers, in the order of execution.
    fn replies(&self, replies: Replies);
    /// There is a connection (again).
    fn up(&self);
    /// There is none any more, or none could be made. Comes before the answers to commands that were under way.
    fn down(&self, trouble: &Trouble);
    /// Something the store says of its own accord. May be called from any thread.
    fn signal(&self, signal: Signal);
    /// The same about a cached value.
    fn value_signal(&self, signal: ValueSignal);
    /// Whether signals can come from now on, and why not; again when that changes. Comes after the first [`up`](Inbox::up) or before it.
    fn told(&self, able: Result<(), &Trouble>);
    /// Whether somebody needs a connection; the store then goes on trying to make one.
    fn wanted(&self) -> bool;
}
