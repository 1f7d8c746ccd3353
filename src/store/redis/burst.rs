//! A burst of commands as one call of a script: what Redis pays for a call is paid once for all of them.

use redis::{Cmd, Script, Value};

use crate::clock::Time;
use crate::lease::{Attempt, Op};
use crate::store::{Answer, Command, Reply, Trouble};

/// A script that runs for long keeps all clients of the server waiting: about 0.3 ms for the largest burst.
const LARGEST: usize = 100;
/// Keeps are cheaper.
const LARGEST_OF_KEEPS: usize = 250;

/// The floor that makes every fencing number be compared with the server's clock.
pub(super) const NO_FLOOR: u64 = 1 << 53;

/// Names of the keys that belong to no single lock. On one server one fence counter serves all locks of a prefix.
#[derive(Debug)]
pub(super) struct Names {
    fence: String,
    wanted: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Names {
        Names { fence: format!("{prefix}~f{{0}}"), wanted: format!("{prefix}~w{{0}}") }
    }
}

/// Commands that travel together.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) commands: Vec<Command>,
    /// The floor it carried.
    pub(super) floor: u64,
}

/// Cuts commands into bursts, in order.
pub(super) fn bursts(commands: Vec<Command>) -> impl Iterator<Item = Vec<Command>> {
    let mut rest = commands.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut burst = vec![rest.next()?];
        let keeps = matches!(burst.first(), Some(Command { op: Op::Keep { .. }, .. }));
        let limit = if keeps { LARGEST_OF_KEEPS } else { LARGEST };
        while burst.len() < limit
            && let Some(next) =
                rest.next_if(|next| matches!(next.op, Op::Keep { .. }) == keeps || burst.len() < LARGEST)
        {
            burst.push(next);
        }
        Some(burst)
    })
}

pub(super) fn script() -> Script {
    Script::new(include_str!("scripts/burst.lua"))
}

/// The call: `EVALSHA hash` or `EVAL source`.
pub(super) fn call(burst: &Burst, names: &Names, how: &str, script: &str) -> Cmd {
    let count = burst.commands.len();
    let mut call = Cmd::with_capacity(6 + 5 * count, script.len() + 200 + 128 * count);
    call.arg(how).arg(script).arg(count + 1).arg(&names.fence);
    for command in &burst.commands {
        call.arg(&*command.key);
    }
    call.arg(burst.floor).arg(&names.wanted);
    let mut text = String::with_capacity(64);
    for Command { token, op, .. } in &burst.commands {
        let letter = match op {
            Op::Take { attempt: Attempt::First, .. } => "t",
            Op::Take { attempt: Attempt::Again, .. } => "p",
            Op::Take { attempt: Attempt::AfterOwnTurn, .. } => "r",
            Op::Give { .. } => "g",
            Op::Keep { .. } => "k",
            Op::Swap { .. } => "s",
        };
        call.arg(letter);
        text.clear();
        token.write_to(&mut text);
        call.arg(&*text);
        match op {
            Op::Take { ttl, block, .. } | Op::Keep { ttl, block } => {
                call.arg(ttl.server_millis()).arg(*block);
            }
            Op::Swap { to, ttl } => {
                text.clear();
                to.write_to(&mut text);
                call.arg(&*text).arg(ttl.server_millis());
            }
            Op::Give { .. } => {}
        }
    }
    call
}

/// What the server's answer to a burst says of each command, and the first fencing number or mark in it.
pub(super) fn answers(burst: Burst, sent: Time, value: Value) -> (Vec<Reply>, Option<u64>) {
    let mut number = None;
    let all: Vec<Answer> = match value {
        Value::Array(values) if values.len() == burst.commands.len() => burst
            .commands
            .iter()
            .zip(values)
            .map(|(command, value)| answer(&command.op, value, &mut number))
            .collect(),
        Value::ServerError(error) => {
            let trouble = Trouble::from_server(error.code(), error.details().unwrap_or(""));
            burst.commands.iter().map(|_| Answer::Failed(trouble.clone())).collect()
        }
        other => burst.commands.iter().map(|_| Answer::Failed(unexpected(&other))).collect(),
    };
    let replies = burst.commands.into_iter().zip(all).map(|(command, answer)| Reply { command, sent, answer });
    (replies.collect(), number)
}

fn answer(op: &Op, value: Value, number: &mut Option<u64>) -> Answer {
    match (op, value) {
        (_, Value::ServerError(error)) => {
            Answer::Failed(Trouble::from_server(error.code(), error.details().unwrap_or("")))
        }
        (Op::Take { .. }, Value::Int(last)) => {
            number.get_or_insert(last as u64);
            Answer::Done(last as u64)
        }
        (Op::Take { .. }, Value::Array(parts)) => match <[Value; 3]>::try_from(parts) {
            Ok([Value::Int(mark), Value::Int(left), Value::BulkString(holder)]) => {
                number.get_or_insert(mark as u64);
                let holder = String::from_utf8_lossy(&holder).into_owned();
                Answer::Taken { left: u64::try_from(left).ok(), holder }
            }
            Ok(parts) => Answer::Failed(unexpected(&Value::Array(parts.into()))),
            Err(parts) => Answer::Failed(unexpected(&Value::Array(parts))),
        },
        (_, Value::Int(0)) => Answer::NotOurs,
        (_, Value::Int(last)) => Answer::Done(last as u64),
        (_, other) => Answer::Failed(unexpected(&other)),
    }
}

fn unexpected(value: &Value) -> Trouble {
    Trouble::definite("EPROTO", format!("the server answered a script in an unknown form: {value:?}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::lease::{CoreId, Ttl, Turns};

    fn command(number: u64, op: Op) -> Command {
        let token = Turns::new(CoreId::new(number.into())).next(std::time::Duration::ZERO);
        Command { key: "k".into(), token, op, caller: None }
    }

    #[test]
    fn bursts_are_bounded_and_keep_the_order() {
        let ttl = Ttl::from_millis(1_000);
        let keep = Op::Keep { ttl, block: 0 };
        let give = Op::Give { ttl, tainted: None };
        let ops: Vec<Op> = (0..1_000).map(|i| if i % 7 == 0 || i > 600 { keep } else { give }).collect();
        let commands: Vec<Command> = (0..).zip(&ops).map(|(number, op)| command(number, *op)).collect();
        let bursts: Vec<Vec<Command>> = bursts(commands).collect();
        assert!(bursts.iter().all(|burst| burst.len() <= LARGEST_OF_KEEPS));
        let mixed = |burst: &&Vec<Command>| burst.iter().any(|command| command.op == give);
        assert!(bursts.iter().filter(mixed).all(|burst| burst.len() <= LARGEST));
        let order: Vec<Op> = bursts.iter().flatten().map(|command| command.op).collect();
        assert_eq!(order, ops);
    }
}
