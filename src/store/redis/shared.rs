//! Commands about locks of several keys, and about locks that turns hold together, as the script for them takes them.

use redis::Cmd;

use super::burst::{self, Burst, Names};
use crate::lease::Op;
use crate::store::Command;

/// Adds keys and arguments.
pub(super) fn add(call: &mut Cmd, burst: &Burst, names: &Names) {
    let keys =
        |command: &Command| command.lock.keys.as_slice().len() * (2 + usize::from(command.lock.owner.is_some()));
    let mut text = String::with_capacity(64);
    call.arg(1 + burst.commands().map(keys).sum::<usize>()).arg(&names.fence);
    for Command { lock, .. } in burst.commands() {
        let keys = lock.keys.as_slice();
        for key in keys {
            call.arg(&**key);
        }
        for key in keys {
            burst::add_queue(call, names, key, &mut text);
        }
        for key in keys.iter().filter(|_| lock.owner.is_some()) {
            call.arg(format!("{}{key}", names.holds));
        }
    }
    call.arg(burst.floor).arg(&names.channels);
    for Command { lock, token, op, .. } in burst.commands() {
        call.arg(letter(op));
        burst::add_token(call, *token, &mut text);
        call.arg(lock.owner.as_deref().unwrap_or("")).arg(lock.keys.as_slice().len());
        burst::add_rest(call, op, &mut text);
    }
}

/// Looking is asking again: a set waits in one queue after the other.
pub(super) fn letter(op: &Op) -> &'static str {
    match op {
        Op::Take { waits: false, .. } => "t",
        Op::Take { waits: true, .. } | Op::Beat { .. } => "w",
        Op::Give { .. } => "g",
        Op::Keep { .. } => "k",
        Op::Swap { .. } | Op::Park { .. } | Op::Adopt { .. } => "s",
    }
}
