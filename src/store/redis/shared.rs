//! Commands about locks of several keys, and about locks that turns hold together, as the script for them takes them.

use redis::Cmd;

use super::burst::{self, Burst, Names};
use crate::store::Command;

/// Adds keys and arguments.
pub(super) fn add(call: &mut Cmd, burst: &Burst, names: &Names) {
    let keys =
        |command: &Command| command.lock.keys.as_slice().len() * (1 + usize::from(command.lock.owner.is_some()));
    call.arg(1 + burst.commands.iter().map(keys).sum::<usize>()).arg(&names.fence);
    for Command { lock, .. } in &burst.commands {
        for key in lock.keys.as_slice() {
            call.arg(&**key);
        }
        for key in lock.keys.as_slice().iter().filter(|_| lock.owner.is_some()) {
            call.arg(format!("{}{key}", names.holds));
        }
    }
    call.arg(burst.floor).arg(&names.wanted);
    let mut text = String::with_capacity(64);
    for Command { lock, token, op, .. } in &burst.commands {
        call.arg(burst::letter(op));
        burst::add_token(call, *token, &mut text);
        call.arg(lock.owner.as_deref().unwrap_or("")).arg(lock.keys.as_slice().len());
        burst::add_rest(call, op, &mut text);
    }
}
