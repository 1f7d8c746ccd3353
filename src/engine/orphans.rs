//! Tokens that nobody holds and that the server may still know: their gives are repeated until answered, or
//! until there can be nothing left to give.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::Time;
use crate::lease::{ClaimId, Op, Token, Ttl};
use crate::store::Command;

/// How often a give is repeated.
pub(super) const BEAT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Orphan {
    key: Arc<str>,
    ttl: Ttl,
    caller: Option<ClaimId>,
    /// After this the server has forgotten the token by itself.
    until: Time,
    /// An earlier command may still be executed, after a give was: an answer before that instant doesn't settle it.
    tainted: Option<Time>,
    /// A give of it was sent and not answered.
    repeated: bool,
}

#[derive(Debug, Default)]
pub(super) struct Orphans {
    by_token: FxHashMap<Token, Orphan>,
}

impl Orphans {
    pub(super) fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    /// Takes a give in that couldn't be sent, wasn't answered, or may have to be repeated.
    pub(super) fn adopt(&mut self, give: &Command, now: Time) {
        let Op::Give { ttl, tainted } = give.op else {
            return;
        };
        let until = tainted.unwrap_or(now).max(ttl.forgotten(now));
        let orphan = Orphan { key: give.key.clone(), ttl, caller: give.caller, until, tainted, repeated: false };
        let known = self.by_token.entry(give.token).or_insert(orphan);
        // No lease is renewed after its give: only a command that may still come makes it longer.
        known.until = known.until.max(tainted.unwrap_or(known.until));
        known.tainted = known.tainted.max(tainted);
        known.caller = known.caller.or(give.caller);
    }

    /// A give was sent and not answered.
    pub(super) fn repeat(&mut self, token: Token) {
        if let Some(orphan) = self.by_token.get_mut(&token) {
            orphan.repeated = true;
        }
    }

    /// Whether an earlier give wasn't answered.
    pub(super) fn was_repeated(&self, token: Token) -> bool {
        self.by_token.get(&token).is_some_and(|orphan| orphan.repeated)
    }

    /// A give was answered: whether the key was freed by it or wasn't ours.
    pub(super) fn answered(&mut self, token: Token, now: Time) {
        if self.by_token.get(&token).is_some_and(|orphan| orphan.tainted.is_none_or(|until| until <= now)) {
            self.by_token.remove(&token);
        }
    }

    /// The server will never do it.
    pub(super) fn abandon(&mut self, token: Token) {
        self.by_token.remove(&token);
    }

    /// Forgets those that the server has forgotten.
    pub(super) fn forget(&mut self, now: Time) {
        self.by_token.retain(|_, orphan| now < orphan.until);
    }

    /// The gives to send now.
    pub(super) fn gives(&mut self) -> Vec<Command> {
        let give = |(token, orphan): (&Token, &mut Orphan)| Command {
            key: orphan.key.clone(),
            token: *token,
            op: Op::Give { ttl: orphan.ttl, tainted: orphan.tainted },
            caller: orphan.caller.take(),
        };
        self.by_token.iter_mut().map(give).collect()
    }
}
