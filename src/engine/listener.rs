//! Who is told what came of a call.

use std::sync::Arc;
use std::time::Duration;

use super::ValueOutcome;
use crate::clock::Time;
use crate::lease::{Loss, Token};
use crate::store::Trouble;
use crate::wait::Choice;

/// A JavaScript half: everything that was called by it is answered to it.
///
/// `complete` and `event` are called with the core locked and must only put things away; `ring` comes after, unlocked.
pub trait Listener: Send + Sync {
    /// The call or lock in `slot` has come to something.
    fn complete(&self, slot: u32, outcome: Outcome);
    /// The same for a call that has become a lock. Returns a name for the news.
    fn grant(&self, slot: u32, outcome: Outcome) -> u64 {
        self.complete(slot, outcome);
        0
    }
    /// Whether this news was fetched. A listener that can't be blocked needn't say.
    fn has_fetched(&self, _grant: u64) -> bool {
        true
    }
    /// Takes it back, as if it had never been. `false`: it was fetched.
    fn withdraw(&self, _grant: u64) -> bool {
        false
    }
    /// The call in `slot`, about a cached value, has come to something. One that makes no such calls needn't listen.
    fn value(&self, _slot: u32, _outcome: ValueOutcome) {}
    /// Something happened to the connection of the manager in `slot`.
    fn event(&self, slot: u32, event: Event);
    /// There is something to fetch.
    fn ring(&self);
    /// When it last gave a sign of life. One that can't fall silent needn't say.
    fn last_beat(&self) -> Time {
        Time::now()
    }
    /// Whether it is to hear of each renewal.
    fn wants_renewals(&self) -> bool {
        false
    }
}

/// What a call came to, or what became of a lock.
#[derive(Debug)]
pub enum Outcome {
    /// acquire: the lock is held.
    Granted {
        /// The turn, for the lock's public token.
        token: Token,
        /// The fencing number.
        fence: u64,
        /// How long it took.
        waited: Duration,
        /// Until when it is held, unless it is renewed before. Whoever hears of it later must look first.
        until: Time,
        /// For a lock that competes with others of this core for its keys: how many holds of its owner there are.
        holds: Option<u32>,
    },
    /// acquire, one attempt: somebody else has it.
    Busy(Wait),
    /// acquire: the time was over while somebody else had it.
    TimedOut(Wait),
    /// acquire, release, extend: the store can't be used, or didn't answer in time.
    Unavailable(Trouble),
    /// acquire: the key holds data of another kind.
    WrongType(Trouble),
    /// acquire: the manager was closed.
    Closed,
    /// release: whether it was ours until now.
    Released(bool),
    /// extend: done.
    Extended,
    /// detach: done, and the name the lock goes by.
    Detached(Token),
    /// A held lock: it was renewed. Only for those who want to hear of it.
    Renewed,
    /// A held lock: it isn't renewed any more, because its listener gave no sign of life for this long.
    Stalled(Duration),
    /// A held lock, or an extend, detach or adoption of one: it isn't ours any more.
    Lost(Loss),
}

/// A wait that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long it was.
    pub waited: Duration,
    /// How often this turn asked.
    pub attempts: u32,
    /// Where the caller stood.
    pub phase: Phase,
    /// Who has the lock, if known.
    pub holder: Option<String>,
}

/// Where a caller stood when its time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// First in line: asking the store from time to time.
    Spinning,
    /// Behind other callers of this process.
    Queued,
    /// The connection was still being made.
    Connecting,
}

/// Something about the connection.
#[derive(Clone, Debug)]
pub enum Event {
    /// The adaptive strategy waits for a key in another way than before.
    Adapted {
        /// The full key; the first of several.
        key: Arc<str>,
        /// The way.
        choice: Choice,
        /// Of the hold times that decided.
        p99: Option<Duration>,
    },
    /// The store can't tell us when our turn comes: we find out by asking.
    Fallback(Trouble),
    /// It broke, or couldn't be made. Comes for each attempt.
    Unavailable(Trouble),
    /// It is there; `again`: after trouble.
    Available {
        /// There was trouble before.
        again: bool,
    },
}
