//! A burst of commands as one call of a script: what Redis pays for a call is paid once for all of them.

use std::time::Duration;

use redis::{Cmd, Value};

use super::script::Kind;
use super::{shared, values};
use crate::clock::Time;
use crate::lease::{CoreId, Op, Token};
use crate::store::request::Request;
use crate::store::{Answer, Command, Replies, Reply, Trouble};

/// A script that runs for long keeps all clients of the server waiting: about 0.3 ms for the largest burst.
const LARGEST: usize = 100;
/// Keeps are cheaper.
const LARGEST_OF_KEEPS: usize = 250;
/// Values that travel together.
const MOST_BYTES: usize = 1 << 20;

/// The floor that makes every fencing number be compared with the server's clock.
pub(super) const NO_FLOOR: u64 = 1 << 53;

/// Names of what stands beside locks. On one server one fence counter serves all locks of a prefix.
#[derive(Debug)]
pub(super) struct Names {
    /// Of all keys.
    prefix: String,
    pub(super) fence: String,
    queue: String,
    /// Goes before the id of a core: where it is told.
    pub(super) channels: String,
    /// Goes before the key of a lock, prefix included: its holds, if turns hold it together.
    pub(super) holds: String,
    /// Go before the key of a value: the cores that wait for it, and what a load that failed has left behind.
    waiters: String,
    failure: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Names {
        Names {
            prefix: prefix.to_owned(),
            fence: format!("{prefix}~f{{0}}"),
            queue: format!("{prefix}~q{{0}}"),
            channels: format!("{prefix}~s{{0}}"),
            holds: format!("{prefix}~h{{0}}"),
            waiters: format!("{prefix}~w{{0}}"),
            failure: format!("{prefix}~e{{0}}"),
        }
    }

    pub(super) fn channel(&self, core: CoreId) -> String {
        format!("{}{core}", self.channels)
    }

    /// Appends the queue of those who wait for a lock.
    fn write_queue(&self, key: &str, text: &mut String) {
        text.clear();
        text.push_str(&self.queue);
        text.push_str(key.strip_prefix(&*self.prefix).unwrap_or(key));
    }
}

/// Adds the name of the queue of a lock.
pub(super) fn add_queue(call: &mut Cmd, names: &Names, key: &str, text: &mut String) {
    names.write_queue(key, text);
    call.arg(&**text);
}

/// Adds the names of what stands beside a value.
pub(super) fn add_beside_value(call: &mut Cmd, names: &Names, key: &str) {
    call.arg(format!("{}{key}", names.waiters)).arg(format!("{}{key}", names.failure));
}

/// Requests that travel together.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) requests: Vec<Request>,
    /// The script that knows them.
    pub(super) kind: Kind,
    /// The floor it carried.
    pub(super) floor: u64,
}

impl Burst {
    /// Those about locks.
    pub(super) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.requests.iter().filter_map(Request::lock)
    }
}

/// Cuts requests into bursts, in order.
pub(super) fn bursts(requests: Vec<Request>) -> impl Iterator<Item = (Kind, Vec<Request>)> {
    let mut rest = requests.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let kind = Kind::of(&first);
        let limit = if first.is_keep() && kind == Kind::Plain { LARGEST_OF_KEEPS } else { LARGEST };
        let (mut keys, mut bytes) = (first.keys(), first.bytes());
        let mut burst = vec![first];
        while let Some(next) = rest.next_if(|next| {
            keys += next.keys();
            bytes += next.bytes();
            let fits = keys <= LARGEST || (keys <= limit && next.is_keep());
            let joins = Kind::of(next) == kind || burst.last().is_some_and(|last| last.is_freed_by(next));
            fits && bytes <= MOST_BYTES && joins
        }) {
            burst.push(next);
        }
        Some((kind, burst))
    })
}

/// The call: `EVALSHA hash` or `EVAL source`.
pub(super) fn call(burst: &Burst, names: &Names, how: &str, script: &str) -> Cmd {
    let count = burst.requests.len();
    let bytes: usize = burst.requests.iter().map(Request::bytes).sum();
    let mut call = Cmd::with_capacity(6 + 5 * count, script.len() + 200 + 128 * count + bytes);
    call.arg(how).arg(script);
    match burst.kind {
        Kind::Plain => add_plain(&mut call, burst, names),
        Kind::Shared => shared::add(&mut call, burst, names),
        Kind::Read => values::add_reads(&mut call, burst),
        Kind::Value => values::add(&mut call, burst, names),
    }
    call
}

fn add_plain(call: &mut Cmd, burst: &Burst, names: &Names) {
    let mut text = String::with_capacity(64);
    call.arg(2 * burst.requests.len() + 1).arg(&names.fence);
    for command in burst.commands() {
        for key in command.lock.keys.as_slice() {
            call.arg(&**key);
            add_queue(call, names, key, &mut text);
        }
    }
    call.arg(burst.floor).arg(&names.channels);
    for Command { token, op, .. } in burst.commands() {
        call.arg(letter(op));
        add_token(call, *token, &mut text);
        match op {
            Op::Beat { block, .. } => {
                call.arg(*block);
            }
            op => add_rest(call, op, &mut text),
        }
    }
}

fn letter(op: &Op) -> &'static str {
    match op {
        Op::Beat { .. } => "b",
        op => shared::letter(op),
    }
}

pub(super) fn add_token(call: &mut Cmd, token: Token, text: &mut String) {
    text.clear();
    token.write_to(text);
    call.arg(&**text);
}

/// What follows the letter and the token.
pub(super) fn add_rest(call: &mut Cmd, op: &Op, text: &mut String) {
    match op {
        Op::Take { ttl, block, .. } | Op::Beat { ttl, block } | Op::Keep { ttl, block } => {
            call.arg(ttl.server_millis()).arg(*block);
        }
        Op::Swap { to, ttl } | Op::Park { to, rest: ttl, .. } | Op::Adopt { to, ttl } => {
            add_token(call, *to, text);
            call.arg(ttl.server_millis());
        }
        Op::Give { .. } => {}
    }
}

/// What the server's answer to a burst says of each request, and the first fencing number or mark in it.
pub(super) fn answers(burst: Burst, sent: Time, value: Value) -> (Replies, Option<u64>) {
    let (mut replies, mut number) = (Replies::default(), None);
    let values = match value {
        Value::Array(values) if values.len() == burst.requests.len() => values,
        Value::ServerError(error) => {
            let trouble = Trouble::from_server(error.code(), error.details().unwrap_or(""));
            burst.requests.into_iter().for_each(|request| request.fail(sent, &trouble, &mut replies));
            return (replies, None);
        }
        other => {
            let trouble = unexpected(&other);
            burst.requests.into_iter().for_each(|request| request.fail(sent, &trouble, &mut replies));
            return (replies, None);
        }
    };
    for (request, value) in burst.requests.into_iter().zip(values) {
        match request {
            Request::Lock(command) => {
                let answer = answer(&command.op, value, &mut number);
                replies.locks.push(Reply { command, sent, answer });
            }
            Request::Value(command) => replies.values.push(values::reply(command, sent, value)),
        }
    }
    (replies, number)
}

fn answer(op: &Op, value: Value, number: &mut Option<u64>) -> Answer {
    let answer = match value {
        Value::ServerError(error) => {
            return Answer::Failed(Trouble::from_server(error.code(), error.details().unwrap_or("")));
        }
        Value::Int(0) => return Answer::NotOurs,
        Value::Int(last) => done(op, &[last]),
        Value::Array(parts) => match <[Value; 4]>::try_from(parts) {
            Ok([Value::Int(mark), Value::Int(left), Value::BulkString(holder), Value::Int(first)]) => {
                number.get_or_insert(mark as u64);
                let holder = String::from_utf8_lossy(&holder).into_owned();
                let left = u64::try_from(left).ok();
                return Answer::Taken { left, holder, mark: mark as u64, first: first == 1 };
            }
            Ok(parts) => done(op, &integers(&parts)),
            Err(parts) => done(op, &integers(&parts)),
        },
        other => return Answer::Failed(unexpected(&other)),
    };
    match answer {
        Some(answer) => {
            if let Answer::Granted { last, .. } = answer {
                number.get_or_insert(last);
            }
            answer
        }
        None => Answer::Failed(Trouble::definite("EPROTO", "the server answered a script in an unknown form")),
    }
}

fn integers(parts: &[Value]) -> Vec<i64> {
    parts.iter().filter_map(|part| if let Value::Int(number) = part { Some(*number) } else { None }).collect()
}

/// What a command came to that was carried out.
fn done(op: &Op, numbers: &[i64]) -> Option<Answer> {
    let last = *numbers.first()? as u64;
    let more = numbers.get(1) == Some(&1);
    Some(match op {
        Op::Take { .. } | Op::Beat { .. } => Answer::Granted {
            last,
            left: numbers.get(2).and_then(|left| u64::try_from(*left).ok()).map(Duration::from_millis),
            more,
            holds: numbers.get(3).map_or(1, |holds| *holds as u32),
        },
        Op::Keep { .. } => Answer::Kept { last, more },
        Op::Give { .. } | Op::Swap { .. } | Op::Park { .. } | Op::Adopt { .. } => Answer::Done,
    })
}

pub(super) fn unexpected(value: &Value) -> Trouble {
    Trouble::definite("EPROTO", format!("the server answered a script in an unknown form: {value:?}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::lease::{CoreId, Ttl, Turns};
    use crate::store::{Keys, Lock};

    fn command(number: u64, op: Op) -> Request {
        let token = Turns::new(CoreId::new(number.into())).next(Duration::ZERO, true);
        Request::Lock(Command { lock: Lock::plain("k".into()), lease: 0, token, op, caller: None })
    }

    fn op(request: &Request) -> Op {
        request.lock().unwrap().op
    }

    #[test]
    fn bursts_are_bounded_and_keep_the_order() {
        let ttl = Ttl::from_millis(1_000);
        let keep = Op::Keep { ttl, block: 0 };
        let give = Op::Give { ttl, tainted: None };
        let ops: Vec<Op> = (0..1_000).map(|i| if i % 7 == 0 || i > 600 { keep } else { give }).collect();
        let commands: Vec<Request> = (0..).zip(&ops).map(|(number, op)| command(number, *op)).collect();
        let bursts: Vec<Vec<Request>> = bursts(commands).map(|(_, burst)| burst).collect();
        assert!(bursts.iter().all(|burst| burst.len() <= LARGEST_OF_KEEPS));
        let mixed = |burst: &&Vec<Request>| burst.iter().any(|command| op(command) == give);
        assert!(bursts.iter().filter(mixed).all(|burst| burst.len() <= LARGEST));
        let order: Vec<Op> = bursts.iter().flatten().map(op).collect();
        assert_eq!(order, ops);
    }

    #[test]
    fn bursts_have_one_script_and_count_all_keys() {
        let give = Op::Give { ttl: Ttl::from_millis(1_000), tainted: None };
        let several: Vec<Arc<str>> = (0..30).map(|number| number.to_string().into()).collect();
        let shared = Lock { keys: Keys::of(several).unwrap(), owner: None };
        let mut commands: Vec<Request> = (0..10).map(|number| command(number, give)).collect();
        commands.extend((10..20).map(|number| {
            let Request::Lock(command) = command(number, give) else { unreachable!() };
            Request::Lock(Command { lock: shared.clone(), ..command })
        }));
        let cut: Vec<(Kind, usize)> = bursts(commands).map(|(kind, burst)| (kind, burst.len())).collect();
        let shared = |count| (Kind::Shared, count);
        assert_eq!(cut, [(Kind::Plain, 10), shared(3), shared(3), shared(3), shared(1)]);
    }
}
