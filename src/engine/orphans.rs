//! Tokens that nobody holds and that the server may still know: what ends them is repeated until answered, or until there
//! can be nothing left to end.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::clock::Time;
use crate::lease::{ClaimId, Op, Token, Ttl};
use crate::store::{Command, Lock};

/// How often a give is repeated.
pub(super) const BEAT: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Orphan {
    lock: Lock,
    /// A give, or a park.
    op: Op,
    caller: Option<ClaimId>,
    /// Of the lease that it ends.
    ttl: Ttl,
    /// After this the server has forgotten the token by itself.
    until: Time,
    /// An earlier command may still be executed, after a give was: an answer before that instant doesn't settle it.
    tainted: Option<Time>,
    /// It was sent and not answered.
    repeated: bool,
}

/// What is to be done: a token can have to be parked, and given once that was answered.
type Name = (Token, bool);

#[derive(Debug, Default)]
pub(super) struct Orphans {
    by_name: FxHashMap<Name, Orphan>,
}

fn name(command: &Command) -> Name {
    (command.token, matches!(command.op, Op::Park { .. }))
}

impl Orphans {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Takes a give or park in that couldn't be sent, wasn't answered, or may have to be repeated.
    pub(super) fn adopt(&mut self, command: &Command, now: Time) {
        let (ttl, tainted) = match command.op {
            Op::Give { ttl, tainted } => (ttl, tainted),
            // Said twice, it would last longer: what is tainted is the token, which is given back after it.
            Op::Park { ttl, .. } => (ttl, None),
            _ => return,
        };
        let mut until = tainted.unwrap_or(now).max(ttl.forgotten(now));
        let mut op = command.op;
        // What is to be parked isn't given before: the park knows until when it has to be given afterwards.
        match &mut op {
            Op::Park { tainted, .. } => {
                if let Some(give) = self.by_name.remove(&(command.token, false)) {
                    *tainted = (*tainted).max(give.tainted);
                    until = until.max(give.until);
                }
            }
            _ => {
                if let Some(park) = self.by_name.get_mut(&(command.token, true))
                    && let Op::Park { tainted: known, .. } = &mut park.op
                {
                    *known = (*known).max(tainted);
                    park.until = park.until.max(until);
                    return;
                }
            }
        }
        let orphan =
            Orphan { lock: command.lock.clone(), op, caller: command.caller, ttl, until, tainted, repeated: false };
        let known = self.by_name.entry(name(command)).or_insert(orphan);
        // No lease is renewed after its give: only one that was longer, or a command that may still come, makes it longer.
        if ttl > known.ttl {
            (known.ttl, known.until) = (ttl, known.until.max(until));
        }
        known.until = known.until.max(tainted.unwrap_or(known.until));
        known.tainted = known.tainted.max(tainted);
        known.caller = known.caller.or(command.caller);
    }

    /// It was sent and not answered.
    pub(super) fn repeat(&mut self, command: &Command) {
        if let Some(orphan) = self.by_name.get_mut(&name(command)) {
            orphan.repeated = true;
        }
    }

    /// Whether an earlier one wasn't answered.
    pub(super) fn was_repeated(&self, command: &Command) -> bool {
        self.by_name.get(&name(command)).is_some_and(|orphan| orphan.repeated)
    }

    /// It was answered: whether the key was freed by it or wasn't ours. Returns who still waits for that, if it isn't the one
    /// that this command came from.
    pub(super) fn answered(&mut self, command: &Command, now: Time) -> Option<ClaimId> {
        let name = name(command);
        let caller = self.by_name.get_mut(&name).and_then(|orphan| orphan.caller.take());
        if self.by_name.get(&name).is_some_and(|orphan| orphan.tainted.is_none_or(|until| until <= now)) {
            self.by_name.remove(&name);
        }
        caller
    }

    /// The server will never do it.
    pub(super) fn abandon(&mut self, command: &Command) {
        self.by_name.remove(&name(command));
    }

    /// Forgets those that the server has forgotten.
    pub(super) fn forget(&mut self, now: Time) {
        self.by_name.retain(|_, orphan| now < orphan.until);
    }

    /// What to send now.
    pub(super) fn commands(&mut self) -> Vec<Command> {
        let command = |((token, _), orphan): (&Name, &mut Orphan)| {
            let op = match orphan.op {
                Op::Give { ttl, .. } => Op::Give { ttl, tainted: orphan.tainted },
                park => park,
            };
            Command { lock: orphan.lock.clone(), lease: usize::MAX, token: *token, op, caller: orphan.caller.take() }
        };
        let mut commands: Vec<Command> = self.by_name.iter_mut().map(command).collect();
        // A key that is to stay taken for a while isn't freed before.
        commands.sort_by_key(|command| !matches!(command.op, Op::Park { .. }));
        commands
    }
}
