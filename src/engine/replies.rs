//! What a store's answers do.

use std::time::Duration;

use super::claims::State as ClaimState;
use super::state::State;
use super::{Event, Outcome};
use crate::clock::Time;
use crate::lease::{ClaimId, Grant, Kept, Loss, Op, Refusal, Token, Ttl, VERSION};
use crate::link::{Class, Trouble};
use crate::store::{Answer, Command, Reply};
use crate::wait::BACKOFF;

/// When a command is said again that couldn't be sent although there is a connection, as far as we were told: the news
/// of its end is on its way.
const NEWS: Duration = Duration::from_millis(5);

impl State {
    pub(super) fn reply(&mut self, reply: Reply, now: Time) {
        let Reply { command, sent, answer } = reply;
        self.measure(now.since(sent), &answer);
        match command.op {
            Op::Take { ttl, .. } | Op::Beat { ttl, .. } => self.take_answered(&command, ttl, sent, answer, now),
            Op::Give { .. } | Op::Park { .. } => self.give_answered(&command, answer, now),
            Op::Adopt { .. } => self.adopt_answered(&command, sent, answer, now),
            Op::Keep { ttl, block } => self.keep_answered(&command, ttl, block, sent, answer, now),
            Op::Swap { to, ttl } => self.swap_answered(&command, to, ttl, sent, answer, now),
        }
    }

    fn take_answered(&mut self, command: &Command, ttl: Ttl, sent: Time, answer: Answer, now: Time) {
        let token = command.token;
        // Executed at any time until now.
        let forgotten = ttl.forgotten(now);
        let index = command.lease;
        if let Some(entry) = self.leases.get_mut(index)
            && entry.lease.goes_by(token)
            && entry.lease.token() != Some(token)
        {
            // Granted by push before this was answered, and to be renamed since: a give of it would free what is held.
            if matches!(answer, Answer::Unanswered(_)) {
                entry.lease.taint(forgotten);
            }
            return;
        }
        if !self.has_token(index, token) {
            // Nobody waits for it any more. Its give was sent behind it; but a connection may have broken in between, and
            // a command that found the script gone is sent again, behind what came after it.
            let tainted = matches!(answer, Answer::Unanswered(_)).then_some(forgotten);
            let give = Command { op: Op::Give { ttl: ttl.in_queue(), tainted }, caller: None, ..command.clone() };
            match answer {
                Answer::Unanswered(_) => self.adopt(&give, now),
                Answer::Granted { .. } | Answer::Failed(_) => self.give_now(give, now),
                _ => {}
            }
            return;
        }
        match answer {
            Answer::Granted { last, left, more, holds } => {
                if let Some(entry) = self.leases.get_mut(index) {
                    entry.holds = holds;
                }
                let grant = Grant { last, sent, left, more };
                self.drive(index, now, |lease, cx| lease.granted(token, grant, cx));
            }
            Answer::Taken { left, holder, mark, first } => {
                if let Some(entry) = self.leases.get_mut(index) {
                    entry.trouble = None;
                    entry.holder = Some(holder.clone()).filter(|holder| !holder.is_empty());
                }
                let queued = !matches!(command.op, Op::Take { waits: false, .. });
                // What isn't ours doesn't tell us when it is given back.
                let foreign = first && !holder.is_empty() && !holder.starts_with(VERSION);
                let refusal = Refusal { holder, mark, sent, queued };
                self.drive(index, now, |lease, cx| lease.taken(token, refusal, now + BACKOFF.cap, cx));
                self.poll_later(index, token, left, foreign, now);
            }
            Answer::Failed(trouble) => {
                let again = now + self.pause_after_trouble(index);
                if let Some(entry) = self.leases.get_mut(index) {
                    // The script may have failed behind the point where the key was ours.
                    entry.lease.refused(token, again);
                    entry.trouble = Some(trouble.clone());
                }
                self.fail_waiting(index, &trouble, now);
            }
            Answer::Unanswered(trouble) => {
                let again = self.up.then(|| now + NEWS);
                // A look leaves nothing behind that a take didn't.
                let until = matches!(command.op, Op::Take { .. }).then_some(forgotten);
                if let Some(entry) = self.leases.get_mut(index) {
                    entry.lease.failed(token, until, again);
                }
                self.fail_waiting(index, &trouble, now);
            }
            Answer::Unsent => self.unsent(index, token, now),
            Answer::NotOurs => {
                self.drive(index, now, |lease, cx| lease.unknown(token, cx));
            }
            Answer::Done | Answer::Kept { .. } => {}
        }
    }

    /// Follows what is quick at once and what is slow slowly: answers that waited for something else count little.
    fn measure(&mut self, time: Duration, answer: &Answer) {
        if !matches!(answer, Answer::Unanswered(_) | Answer::Unsent) {
            let known = self.round_trip;
            self.round_trip = if time < known || known.is_zero() { time } else { known + (time - known) / 16 };
        }
    }

    fn give_answered(&mut self, command: &Command, answer: Answer, now: Time) {
        self.gives = self.gives.saturating_sub(1);
        let mine = match answer {
            Answer::Done | Answer::Granted { .. } | Answer::Kept { .. } => true,
            // If an earlier give of it wasn't answered, it is that one which found the key ours.
            Answer::NotOurs | Answer::Taken { .. } => self.orphans.was_repeated(command),
            Answer::Failed(trouble) if trouble.class() == Class::Passing => {
                return self.adopt(command, now);
            }
            Answer::Failed(trouble) => {
                self.orphans.abandon(command);
                if let Some(caller) = command.caller {
                    // Data of another kind is not our lock; anything else is for the caller to know.
                    let gone = trouble.class() == Class::WrongType;
                    self.finish(caller, if gone { Outcome::Released(false) } else { Outcome::Unavailable(trouble) });
                }
                return;
            }
            Answer::Unanswered(_) => {
                self.adopt(command, now);
                return self.orphans.repeat(command);
            }
            Answer::Unsent => return self.adopt(command, now),
        };
        let other = if self.orphans.is_empty() { None } else { self.orphans.answered(command, now) };
        if let Op::Park { ttl, tainted: tainted @ Some(until), .. } = command.op
            && now < until
        {
            // A late take may find the key free when the rest is over. Not before: a give must not overtake the park.
            self.adopt(&Command { op: Op::Give { ttl, tainted }, caller: None, ..command.clone() }, now);
        }
        for caller in [command.caller, other].into_iter().flatten() {
            self.finish(caller, Outcome::Released(mine));
        }
    }

    fn keep_answered(&mut self, command: &Command, ttl: Ttl, block: u32, sent: Time, answer: Answer, now: Time) {
        let (token, index) = (command.token, command.lease);
        if !self.leases.contains(index) {
            // Given back in the meantime; an extend that came before has its answer all the same.
            return self.extend_answered(command.caller, &answer);
        }
        match answer {
            Answer::Kept { last, more } => {
                let numbers = (block > 0).then_some((last, block));
                let extended = command.caller.is_some();
                self.drive(index, now, |lease, cx| {
                    lease.kept(token, Kept { sent, ttl, numbers, extended, more }, cx)
                });
                self.tell_renewed(index, token);
                self.extended(command.caller);
            }
            Answer::NotOurs | Answer::Taken { .. } | Answer::Granted { .. } | Answer::Done => {
                self.drive(index, now, |lease, cx| lease.lost(token, cx));
                self.not_extended(command.caller);
            }
            Answer::Failed(trouble) if trouble.class() == Class::WrongType => {
                self.drive(index, now, |lease, cx| lease.lost(token, cx));
            }
            Answer::Failed(trouble) => self.hold_on(index, command, token, ttl, None, Some(trouble), now),
            Answer::Unanswered(_) => self.hold_on(index, command, token, ttl, None, None, now),
            Answer::Unsent => self.unsent(index, token, now),
        }
    }

    fn swap_answered(&mut self, command: &Command, to: Token, ttl: Ttl, sent: Time, answer: Answer, now: Time) {
        let index = command.lease;
        if !self.leases.get(index).is_some_and(|entry| entry.lease.is_renamed_to(to)) {
            if matches!(answer, Answer::Unanswered(_)) {
                let op = Op::Give { ttl, tainted: Some(ttl.forgotten(now)) };
                for token in [command.token, to] {
                    self.adopt(&Command { token, op, caller: None, ..command.clone() }, now);
                }
            }
            return self.extend_answered(command.caller, &answer);
        }
        // A later renaming may be under way: what comes of this one concerns the lease by its present name.
        let token = self.leases.get(index).and_then(|entry| entry.lease.token()).unwrap_or(to);
        let until = Some(ttl.forgotten(now));
        let (token, until) = match &answer {
            Answer::Failed(_) => {
                self.drive(index, now, |lease, _| lease.renaming_refused(to));
                (self.leases.get(index).and_then(|entry| entry.lease.token()).unwrap_or(token), None)
            }
            Answer::Unanswered(_) => {
                self.drive(index, now, |lease, _| lease.renaming_unanswered(to));
                (token, until)
            }
            Answer::Unsent => {
                self.drive(index, now, |lease, _| lease.renaming_failed(to));
                (token, until)
            }
            _ => (token, until),
        };
        match answer {
            Answer::Done => {
                self.drive(index, now, |lease, cx| lease.swapped(to, sent, ttl, cx));
                self.extended(command.caller);
            }
            Answer::NotOurs | Answer::Taken { .. } | Answer::Granted { .. } | Answer::Kept { .. } => {
                self.drive(index, now, |lease, cx| lease.not_renamed(to, cx));
                self.not_extended(command.caller);
            }
            Answer::Failed(trouble) => self.hold_on(index, command, token, ttl, until, Some(trouble), now),
            Answer::Unanswered(_) => self.hold_on(index, command, token, ttl, until, None, now),
            Answer::Unsent => self.unsent(index, token, now),
        }
    }

    /// A command about a held lease came to nothing: it is tried again until the deadline.
    #[allow(clippy::too_many_arguments)]
    fn hold_on(
        &mut self,
        index: usize,
        command: &Command,
        token: Token,
        ttl: Ttl,
        until: Option<Time>,
        refused: Option<Trouble>,
        now: Time,
    ) {
        let again = (refused.is_some() || self.up).then(|| now + ttl.renewal_retry());
        self.drive(index, now, |lease, _| lease.failed(token, until, again));
        if let (Some(caller), Some(trouble)) = (command.caller, refused) {
            self.give_up(caller, now);
            self.finish(caller, Outcome::Unavailable(trouble));
        }
    }

    fn unsent(&mut self, index: usize, token: Token, now: Time) {
        let again = self.up.then(|| now + NEWS);
        self.drive(index, now, |lease, _| lease.failed(token, None, again));
        self.store.wake();
    }

    fn extended(&mut self, caller: Option<ClaimId>) {
        if let Some(caller) = caller
            && let Some(claim) = self.claims.get(&caller)
        {
            // A detach that is done has been told with the lock's end; left over is one whose holder gave the lock back.
            let detaching = matches!(claim.state, ClaimState::Detaching { .. });
            self.finish(caller, if detaching { Outcome::Lost(Loss::Taken) } else { Outcome::Extended });
        }
    }

    fn extend_answered(&mut self, caller: Option<ClaimId>, answer: &Answer) {
        match answer {
            Answer::Done | Answer::Kept { .. } => self.extended(caller),
            _ => self.not_extended(caller),
        }
    }

    /// The key wasn't ours when it was to be extended; a holder that is left has been told.
    fn not_extended(&mut self, caller: Option<ClaimId>) {
        if let Some(caller) = caller {
            self.finish(caller, Outcome::Lost(Loss::Taken));
        }
    }

    fn has_token(&self, index: usize, token: Token) -> bool {
        self.leases.get(index).is_some_and(|entry| entry.lease.token() == Some(token))
    }

    /// Those of a lease's waiting callers for whom this trouble is final: with definite trouble all of them,
    /// otherwise those that wanted one attempt only.
    fn fail_waiting(&mut self, index: usize, trouble: &Trouble, now: Time) {
        let mut failed = Vec::new();
        self.drive(index, now, |lease, cx| match trouble.class() {
            Class::Passing => lease.dismiss_once(cx, |claim| failed.push(claim)),
            Class::Definite | Class::WrongType => lease.dismiss(cx, |claim| failed.push(claim)),
        });
        for claim in failed {
            let trouble = trouble.clone();
            self.finish(
                claim,
                match trouble.class() {
                    Class::WrongType => Outcome::WrongType(trouble),
                    _ => Outcome::Unavailable(trouble),
                },
            );
        }
    }

    pub(super) fn went_up(&mut self, now: Time) {
        self.up = true;
        let again = self.trouble.take().is_some();
        self.tell_managers(&Event::Available { again });
        self.tell_fallback();
        self.give_orphans(now);
        self.resume_adoptions();
        let all: Vec<usize> = self.leases.iter().map(|(index, _)| index).collect();
        for index in all {
            self.drive(index, now, |lease, cx| lease.resume(cx));
        }
        self.values_went_up();
    }

    pub(super) fn went_down(&mut self, trouble: &Trouble, now: Time) {
        self.opened();
        let was_up = std::mem::replace(&mut self.up, false);
        self.trouble = Some(trouble.clone());
        self.tell_managers(&Event::Unavailable(trouble.clone()));
        let all: Vec<usize> = self.leases.iter().map(|(index, _)| index).collect();
        for index in all {
            self.fail_waiting(index, trouble, now);
        }
        self.values_went_down(was_up, trouble);
    }
}
