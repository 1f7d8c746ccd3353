//! Where locks are kept: the commands a store understands, and how it answers.

use crate::clock::Time;
use crate::lease::{ClaimId, Op, Token};
pub use crate::link::Trouble;
pub use lock::{Keys, Lock};

mod lock;
pub mod memory;
pub mod redis;

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
    /// Done. For a take, and a keep that reserved numbers: the last number of the block.
    Done(u64),
    /// A take for an owner: done, and this many holds of the owner are there now.
    Joined {
        /// The last number of the block.
        last: u64,
        /// This one included.
        holds: u32,
    },
    /// A take: somebody else has the key.
    Taken {
        /// Milliseconds until its ttl is over; `None` if it has none or is gone already.
        left: Option<u64>,
        /// Its value.
        holder: String,
    },
    /// A give, keep, swap, park or adopt: the key isn't ours.
    NotOurs,
    /// The server refused.
    Failed(Trouble),
    /// It was sent, and the connection broke: it may have been executed, or still be.
    Unanswered(Trouble),
    /// It wasn't sent, for want of a connection.
    Unsent,
}

/// A place where locks are kept.
pub trait Store: Send + Sync {
    /// Adds a command to those that [`flush`](Store::flush) sends. The order of calls is the order of execution, so a caller
    /// that must decide something together with the order calls this within its own critical section.
    fn submit(&self, command: Command);
    /// Sends what was added. Every command is answered once, to the inbox, maybe within this call.
    fn flush(&self);
    /// Asks for a connection. May be called with anything locked.
    fn wake(&self);
    /// Needs no connection: [`Inbox::up`] never comes.
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
    fn replies(&self, replies: Vec<Reply>);
    /// There is a connection (again).
    fn up(&self);
    /// There is none any more, or none could be made. Comes before the answers to commands that were under way.
    fn down(&self, trouble: &Trouble);
    /// Whether somebody needs a connection; the store then goes on trying to make one.
    fn wanted(&self) -> bool;
}
