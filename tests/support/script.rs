//! The scripts as a store sends them: one call for any number of commands.

use redis::{Cmd, ConnectionLike, Value};

use crate::model::{Answer, Command, Shared};
use crate::server::Server;

const PLAIN: &str = concat!(
    include_str!("../../src/store/redis/scripts/lean.lua"),
    include_str!("../../src/store/redis/scripts/queue.lua"),
    include_str!("../../src/store/redis/scripts/burst.lua"),
);
const SHARED: &str = concat!(
    include_str!("../../src/store/redis/scripts/shared.lua"),
    include_str!("../../src/store/redis/scripts/queue.lua"),
    include_str!("../../src/store/redis/scripts/shared-commands.lua"),
);

/// The floor that has every number compared with the clock.
pub const NO_FLOOR: u64 = 1 << 53;

/// A connection and the names of what belongs to no single lock.
pub struct Script {
    pub connection: redis::Connection,
    prefix: String,
}

/// What came of a command: an answer, or the server's words.
pub type Outcome = Result<Answer, String>;

impl Script {
    pub fn new(server: &Server, prefix: &str) -> Script {
        Script { connection: server.connection(), prefix: prefix.to_owned() }
    }

    pub fn counter(&self) -> String {
        format!("{}~f{{0}}", self.prefix)
    }

    /// The key of a lock.
    pub fn key(&self, lock: &str) -> String {
        format!("{}{lock}", self.prefix)
    }

    /// The queue of those who wait for a lock.
    pub fn queue(&self, lock: &str) -> String {
        format!("{}~q{{0}}{lock}", self.prefix)
    }

    /// The channel of a core, as it is written in a token.
    pub fn channel(&self, core: &str) -> String {
        format!("{}~s{{0}}{core}", self.prefix)
    }

    /// The holds of an owner's lock.
    pub fn holds(&self, lock: &str) -> String {
        format!("{}~h{{0}}{}", self.prefix, self.key(lock))
    }

    /// One command.
    pub fn run(&mut self, lock: &str, command: Command, floor: u64) -> Outcome {
        self.burst(&[(lock, command)], floor).pop().unwrap()
    }

    /// All of them in one call.
    pub fn burst(&mut self, commands: &[(&str, Command)], floor: u64) -> Vec<Outcome> {
        let mut call = redis::cmd("EVAL");
        call.arg(PLAIN).arg(2 * commands.len() + 1).arg(self.counter());
        for (lock, _) in commands {
            call.arg(self.key(lock)).arg(self.queue(lock));
        }
        call.arg(floor).arg(self.channel(""));
        for (_, command) in commands {
            let (letter, token, rest) = words(command);
            call.arg(letter).arg(token).arg(rest);
        }
        self.answers(&call, commands.iter().map(|(_, command)| command))
    }

    /// One command about a lock of several keys, or of an owner's.
    pub fn run_shared(&mut self, lock: &Shared, command: Command, floor: u64) -> Outcome {
        self.burst_shared(&[(lock, command)], floor).pop().unwrap()
    }

    /// All of them in one call.
    pub fn burst_shared(&mut self, commands: &[(&Shared, Command)], floor: u64) -> Vec<Outcome> {
        let mut keys = vec![self.counter()];
        for (lock, _) in commands {
            keys.extend(lock.keys.iter().map(|key| self.key(key)));
            keys.extend(lock.keys.iter().map(|key| self.queue(key)));
            if !lock.owner.is_empty() {
                keys.extend(lock.keys.iter().map(|key| self.holds(key)));
            }
        }
        let mut call = redis::cmd("EVAL");
        call.arg(SHARED).arg(keys.len()).arg(keys).arg(floor).arg(self.channel(""));
        for (lock, command) in commands {
            let (letter, token, rest) = words(command);
            call.arg(letter).arg(token).arg(&lock.owner).arg(lock.keys.len()).arg(rest);
        }
        self.answers(&call, commands.iter().map(|(_, command)| command))
    }

    fn answers<'a>(&mut self, call: &Cmd, commands: impl ExactSizeIterator<Item = &'a Command>) -> Vec<Outcome> {
        let bytes = call.get_packed_command();
        let value = self.connection.req_packed_command(&bytes).unwrap();
        let Value::Array(values) = value else {
            panic!("not an answer to each command: {value:?}");
        };
        assert_eq!(values.len(), commands.len());
        commands.zip(values).map(|(command, value)| answer(command, value)).collect()
    }

    /// Any other command.
    pub fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connection).unwrap()
    }

    pub fn value(&mut self, lock: &str) -> Option<String> {
        let key = self.key(lock);
        self.ask(&["GET", &key])
    }

    /// Milliseconds a lock has left; -2: it doesn't exist, -1: for ever.
    pub fn left(&mut self, lock: &str) -> i64 {
        let key = self.key(lock);
        self.ask(&["PTTL", &key])
    }

    /// The server's clock, in microseconds.
    pub fn clock(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.ask(&["TIME"]);
        seconds * 1_000_000 + micros
    }
}

/// The letter of a command, its token, and what follows.
fn words(command: &Command) -> (&'static str, &str, Vec<String>) {
    match command {
        Command::Take { token, ttl, block, waits } => {
            (if *waits { "w" } else { "t" }, token, vec![ttl.to_string(), block.to_string()])
        }
        Command::Beat { token, block } => ("b", token, vec![block.to_string()]),
        Command::Give { token } => ("g", token, Vec::new()),
        Command::Keep { token, ttl, block } => ("k", token, vec![ttl.to_string(), block.to_string()]),
        Command::Swap { token, to, ttl } => ("s", token, vec![to.clone(), ttl.to_string()]),
    }
}

fn answer(command: &Command, value: Value) -> Outcome {
    let parts = match value {
        Value::ServerError(error) => return Err(format!("{} {}", error.code(), error.details().unwrap_or(""))),
        Value::Int(number) => vec![Value::Int(number)],
        Value::Array(parts) => parts,
        other => panic!("{command:?} is answered by {other:?}"),
    };
    if let [Value::Int(mark), Value::Int(left), Value::BulkString(holder), Value::Int(first)] = parts.as_slice() {
        let holder = String::from_utf8(holder.clone()).unwrap();
        let (mark, left) = ((*mark).try_into().unwrap(), u64::try_from(*left).ok());
        return Ok(Answer::Taken { mark, left, holder, first: *first == 1 });
    }
    let numbers: Vec<i64> = redis::from_redis_value(Value::Array(parts)).unwrap();
    let more = numbers.get(1) == Some(&1);
    Ok(match (command, numbers[0]) {
        (Command::Take { .. }, 0) => panic!("{command:?} is answered by nothing"),
        (_, 0) => Answer::NotOurs,
        (Command::Take { .. } | Command::Beat { .. }, last) => Answer::Granted {
            last: last.try_into().unwrap(),
            more,
            left: numbers.get(2).and_then(|left| u64::try_from(*left).ok()),
            holds: numbers.get(3).map_or(1, |holds| (*holds).try_into().unwrap()),
        },
        (Command::Keep { .. }, last) => Answer::Kept { last: last.try_into().unwrap(), more },
        (Command::Give { .. } | Command::Swap { .. }, _) => Answer::Done,
    })
}

/// A token of core `core`.
pub fn token(core: u8, turn: u64) -> String {
    format!("hf1.p.{core:032x}.{turn}.3100")
}

/// One that is told when its turn has come.
pub fn told(core: u8, turn: u64) -> String {
    format!("hf1.h.{core:032x}.{turn}.3100")
}

/// Without waiting.
pub fn take(token: &str, ttl: u64, block: u64) -> Command {
    let token = token.to_owned();
    Command::Take { token, ttl, block, waits: false }
}

/// Or queue.
pub fn wait(token: &str, ttl: u64, block: u64) -> Command {
    let token = token.to_owned();
    Command::Take { token, ttl, block, waits: true }
}

pub fn beat(token: &str, block: u64) -> Command {
    Command::Beat { token: token.to_owned(), block }
}

pub fn give(token: &str) -> Command {
    Command::Give { token: token.to_owned() }
}

pub fn keep(token: &str, ttl: u64, block: u64) -> Command {
    Command::Keep { token: token.to_owned(), ttl, block }
}

pub fn swap(token: &str, to: &str, ttl: u64) -> Command {
    Command::Swap { token: token.to_owned(), to: to.to_owned(), ttl }
}
