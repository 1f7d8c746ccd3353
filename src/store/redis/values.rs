//! Commands about cached values, as their scripts take them and answer.

use redis::{Cmd, Value};

use super::burst::{self, Burst, Names, unexpected};
use crate::clock::Time;
use crate::store::request::Request;
use crate::store::{Load, Order, Trouble, ValueAnswer, ValueCommand, ValueOp, ValueReply};

/// Adds the keys of values that are read.
pub(super) fn add_reads(call: &mut Cmd, burst: &Burst) {
    call.arg(burst.requests.len());
    for request in &burst.requests {
        if let Request::Value(command) = request {
            call.arg(&*command.key);
        }
    }
}

/// Adds keys and arguments of everything else.
pub(super) fn add(call: &mut Cmd, burst: &Burst, names: &Names) {
    let mut text = String::with_capacity(64);
    call.arg(5 * burst.requests.len() + 1).arg(&names.fence);
    let mut key = "";
    for request in &burst.requests {
        let lock = match request {
            Request::Value(command) => {
                key = &command.key;
                &command.lock
            }
            // The give behind the end of a load.
            Request::Lock(command) => match command.lock.plain_key() {
                Some(lock) => lock,
                None => continue,
            },
        };
        call.arg(key).arg(&**lock);
        burst::add_queue(call, names, lock, &mut text);
        burst::add_beside_value(call, names, key);
    }
    call.arg(burst.floor).arg(&names.channels);
    for request in &burst.requests {
        match request {
            Request::Value(command) => add_arguments(call, &command.op, &mut text),
            Request::Lock(command) => {
                call.arg("g");
                burst::add_token(call, command.token, &mut text);
            }
        }
    }
}

fn add_arguments(call: &mut Cmd, op: &ValueOp, text: &mut String) {
    match op {
        ValueOp::Look { token, backs_off, core } => {
            call.arg("l");
            match token {
                Some(token) => burst::add_token(call, *token, text),
                None => {
                    call.arg("");
                }
            }
            call.arg(core.to_string()).arg(u8::from(*backs_off));
        }
        ValueOp::Finish { token, load } => {
            call.arg("f");
            burst::add_token(call, *token, text);
            match load {
                Load::Value(entry, ms) => call.arg("v").arg(&**entry).arg(ms.unwrap_or(0)),
                Load::Nothing(which) => call.arg("n").arg(*which).arg(0),
                Load::Error(words, ms) => call.arg("e").arg(&**words).arg(*ms),
            };
        }
        ValueOp::Overrule(order) => {
            call.arg("o");
            match order {
                Order::Set(entry, ms) => call.arg("s").arg(&**entry).arg(ms.unwrap_or(0)),
                Order::Delete => call.arg("d").arg("").arg(0),
                Order::Expire => call.arg("x").arg("").arg(0),
            };
        }
        // Goes another way.
        ValueOp::Read => {}
    }
}

/// What the server's answer says.
pub(super) fn reply(command: ValueCommand, sent: Time, value: Value) -> ValueReply {
    let answer = answer(&command.op, value);
    ValueReply { command, sent, answer }
}

fn answer(op: &ValueOp, value: Value) -> ValueAnswer {
    let strange = |value: &Value| ValueAnswer::Refused(unexpected(value));
    match (op, value) {
        (_, Value::ServerError(error)) => {
            ValueAnswer::Refused(Trouble::from_server(error.code(), error.details().unwrap_or("")))
        }
        (ValueOp::Read | ValueOp::Look { .. }, Value::Nil | Value::Int(0)) => ValueAnswer::Absent,
        (ValueOp::Read | ValueOp::Look { .. }, Value::Array(parts)) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::Int(left), Value::BulkString(bytes)]) => ValueAnswer::Found(bytes, u64::try_from(left).ok()),
            Ok([Value::BulkString(what), Value::Int(left)]) if what == b"t" => {
                ValueAnswer::Taken(u64::try_from(left).ok())
            }
            Ok([Value::BulkString(what), Value::BulkString(words)]) if what == b"e" => {
                ValueAnswer::Failed(String::from_utf8_lossy(&words).into_owned())
            }
            Ok(parts) => strange(&Value::Array(parts.into())),
            Err(parts) => strange(&Value::Array(parts)),
        },
        (ValueOp::Finish { .. }, Value::Int(-1)) => ValueAnswer::Foreign,
        (ValueOp::Finish { .. } | ValueOp::Overrule(_), Value::Int(done)) => ValueAnswer::Done(done > 0),
        (_, other) => strange(&other),
    }
}
