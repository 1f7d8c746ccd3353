//! What is asked of a store: something about a lock, or about a cached value.

use super::{Answer, Command, Load, Order, Replies, Reply, Trouble, ValueAnswer, ValueCommand, ValueOp, ValueReply};
use crate::clock::Time;
use crate::lease::Op;

#[derive(Debug)]
pub(super) enum Request {
    Lock(Command),
    Value(ValueCommand),
}

impl Request {
    pub(super) fn lock(&self) -> Option<&Command> {
        match self {
            Request::Lock(command) => Some(command),
            Request::Value(_) => None,
        }
    }

    pub(super) fn is_keep(&self) -> bool {
        matches!(self, Request::Lock(Command { op: Op::Keep { .. }, .. }))
    }

    /// How much it asks of the server.
    pub(super) fn keys(&self) -> usize {
        self.lock().map_or(1, |command| command.lock.keys.as_slice().len())
    }

    /// How much it carries beside names.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Request::Value(ValueCommand { op: ValueOp::Finish { load: Load::Value(bytes, _), .. }, .. })
            | Request::Value(ValueCommand { op: ValueOp::Overrule(Order::Set(bytes, _)), .. }) => bytes.len(),
            _ => 0,
        }
    }

    /// Whether this is the end of a load, and `next` frees its lock.
    pub(super) fn is_freed_by(&self, next: &Request) -> bool {
        let (Request::Value(ValueCommand { op: ValueOp::Finish { token, .. }, lock, .. }), Request::Lock(next)) =
            (self, next)
        else {
            return false;
        };
        matches!(next.op, Op::Give { .. }) && next.token == *token && next.lock.plain_key() == Some(lock)
    }

    /// It came to nothing: the server refused.
    pub(super) fn fail(self, sent: Time, trouble: &Trouble, replies: &mut Replies) {
        self.answer(sent, replies, || Answer::Failed(trouble.clone()), || ValueAnswer::Refused(trouble.clone()));
    }

    /// The connection broke.
    pub(super) fn leave(self, sent: Time, trouble: &Trouble, replies: &mut Replies) {
        self.answer(
            sent,
            replies,
            || Answer::Unanswered(trouble.clone()),
            || ValueAnswer::Unanswered(trouble.clone()),
        );
    }

    /// There was no connection.
    pub(super) fn drop_unsent(self, now: Time, replies: &mut Replies) {
        self.answer(now, replies, || Answer::Unsent, || ValueAnswer::Unsent);
    }

    fn answer(
        self,
        sent: Time,
        replies: &mut Replies,
        lock: impl FnOnce() -> Answer,
        value: impl FnOnce() -> ValueAnswer,
    ) {
        match self {
            Request::Lock(command) => replies.locks.push(Reply { command, sent, answer: lock() }),
            Request::Value(command) => replies.values.push(ValueReply { command, sent, answer: value() }),
        }
    }
}
