//! The way from a process to the server and back: commands wait, are executed and answered, get lost, arrive late; and
//! what the engine makes of it.

use std::time::Duration;

use holdfast_core::clock::Time;
use holdfast_core::lease::{ClaimId, Grant, Kept, Op, Push, Refusal, Token, Ttl};

use crate::model::{Answer, Command, Signal};
use crate::world::{LOCK, Process, State, World};

/// How often an unanswered give is repeated.
const BEAT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Sent {
    pub token: Token,
    pub op: Op,
    pub caller: Option<ClaimId>,
    pub at: Time,
}

/// A token that the server may still know, and what ends it.
pub struct Orphan {
    op: Op,
    caller: Option<ClaimId>,
    ttl: Ttl,
    until: Time,
    tainted: Option<Time>,
}

impl World {
    /// What a lease wants sent.
    pub fn send(&mut self, process: usize, token: Token, op: Op, caller: Option<ClaimId>) {
        let this = &mut self.processes[process];
        let mut zombie = this.given.contains(&token);
        let ends = matches!(op, Op::Give { .. } | Op::Park { .. });
        match op {
            Op::Give { .. } | Op::Park { .. } => {
                zombie = false;
                this.given.insert(token);
                if let Op::Park { to, rest, .. } = op {
                    this.parking.insert(token);
                    self.parked.insert(to.to_string(), rest);
                }
                if let Some(caller) = caller {
                    let before = self.processes[process].claims.insert(caller, State::Giving);
                    self.must(before == Some(State::Held), || format!("{caller:?} gives as {before:?}"));
                }
            }
            Op::Take { .. } if !this.knows(token) => {
                this.names = vec![(token, token.to_string())];
                this.reserved.clear();
                this.robbed = false;
            }
            Op::Swap { to, .. } => {
                zombie |= this.given.contains(&to);
                if !this.knows(to) {
                    this.names.push((to, to.to_string()));
                }
            }
            Op::Keep { .. } => {
                let renews_silent = this.stalled && this.silent && caller.is_none();
                this.stalled &= this.silent;
                self.must(!renews_silent, || format!("{token} is renewed although its holder is silent"));
            }
            Op::Take { .. } | Op::Beat { .. } => {}
            Op::Adopt { .. } => unreachable!("no lease adopts by itself"),
        }
        self.must(!zombie, || format!("{op:?} of {token} after it was given back"));
        let sent = Sent { token, op, caller, at: self.now };
        let this = &mut self.processes[process];
        let tainted = matches!(op, Op::Give { tainted: Some(until), .. } if self.now < until);
        if ends && (!this.up || tainted) {
            // One that is sent brings its caller along by itself.
            let caller = caller.filter(|_| !this.up);
            this.remember(&Sent { caller, ..sent.clone() }, self.now);
        }
        if this.up {
            self.push(process, sent);
        } else if let Op::Swap { to, .. } = op {
            this.lease.renaming_failed(to);
        } else if !ends {
            this.lease.failed(token, None, None);
        }
    }

    pub fn push(&mut self, process: usize, sent: Sent) {
        let this = &mut self.processes[process];
        // Whoever adopts it has another name for it.
        let left = this.left.contains(&sent.token) && !matches!(sent.op, Op::Adopt { .. });
        let parked = self.parked.contains_key(&sent.token.to_string());
        this.wire.push_back(sent.clone());
        self.must(!left, || format!("process {process} touches what it has left to others: {sent:?}"));
        self.must(!parked, || format!("process {process} touches what it has parked: {sent:?}"));
    }

    /// Sends a give, or remembers it until there is a connection.
    pub fn give_now(&mut self, process: usize, token: Token, ttl: Ttl, tainted: Option<Time>) {
        let sent = Sent { token, op: Op::Give { ttl, tainted }, caller: None, at: self.now };
        let this = &mut self.processes[process];
        if !this.up || tainted.is_some_and(|until| self.now < until) {
            this.remember(&sent, self.now);
        }
        if this.up {
            self.push(process, sent);
        }
    }

    pub fn execute(&mut self, process: usize) {
        if let Some(sent) = self.processes[process].wire.pop_front() {
            let answer = self.serve(process, &sent);
            self.processes[process].answers.push_back((sent, answer));
        }
    }

    pub fn late(&mut self, process: usize) {
        let Some(queue) = self.processes[process].late.first_mut() else {
            return;
        };
        let Some(sent) = queue.pop_front() else {
            self.processes[process].late.remove(0);
            return;
        };
        // Nothing is under way for longer than the lease it speaks of.
        let over = match sent.op {
            Op::Take { ttl, .. } | Op::Swap { ttl, .. } | Op::Park { ttl, .. } | Op::Adopt { ttl, .. } => {
                ttl.forgotten(sent.at) <= self.now
            }
            _ => false,
        };
        if over {
            return;
        }
        self.note(|| format!("    late: {sent:?}"));
        self.serve(process, &sent);
        let names = match sent.op {
            Op::Swap { to, .. } | Op::Adopt { to, .. } => [Some(to), Some(sent.token)],
            _ => [Some(sent.token), None],
        };
        for name in names.into_iter().flatten() {
            self.revived.insert(name.to_string());
        }
    }

    fn serve(&mut self, process: usize, sent: &Sent) -> Answer {
        let token = sent.token.to_string();
        let (command, block) = match sent.op {
            Op::Take { ttl, block, waits } => {
                let ttl = ttl.server_millis();
                (Command::Take { token, ttl, block: block.into(), waits }, block)
            }
            Op::Beat { block, .. } => (Command::Beat { token, block: block.into() }, block),
            Op::Give { .. } => (Command::Give { token }, 0),
            Op::Keep { ttl, block } => {
                let ttl = ttl.server_millis();
                (Command::Keep { token, ttl, block: block.into() }, block)
            }
            Op::Swap { to, ttl } | Op::Adopt { to, ttl } | Op::Park { to, rest: ttl, .. } => {
                let ttl = ttl.server_millis();
                (Command::Swap { token, to: to.to_string(), ttl }, 0)
            }
        };
        // Fewer numbers are reserved than there are microseconds.
        self.now = self.now + Duration::from_micros(132 + 2 * u64::from(block));
        // A floor that is always compared with the clock: the one for a new connection.
        let answer = self.server.execute(LOCK, &command, 1 << 53, self.server_now());
        self.note(|| format!("    server: {command:?} -> {answer:?}"));
        if let (Answer::Granted { last, .. } | Answer::Kept { last, .. }, true) =
            (&answer, self.processes[process].knows(sent.token))
        {
            let block = last + 1 - u64::from(block)..=*last;
            self.processes[process].reserved.extend(block);
        }
        self.say();
        match sent.op {
            Op::Adopt { .. } if answer == Answer::Done => self.ticket_used(sent.token),
            Op::Park { .. } if answer != Answer::Failed => {
                self.processes[process].parking.remove(&sent.token);
            }
            Op::Give { .. } if answer == Answer::Done => {
                let early = self.processes[process].parking.contains(&sent.token);
                self.must(!early, || format!("{} is free although it was to stay taken", sent.token));
            }
            _ => {}
        }
        answer
    }

    /// What the server says sets out for those it concerns.
    fn say(&mut self) {
        for signal in std::mem::take(&mut self.server.signals) {
            let (Signal::Granted { token, .. } | Signal::Wanted { token }) = &signal;
            let told = |process: &&mut Process| token.contains(&process.core());
            if let Some(process) = self.processes.iter_mut().find(told) {
                if let (Signal::Granted { last, .. }, true) =
                    (&signal, process.names.iter().any(|(_, name)| name == token))
                {
                    process.reserved.extend(last - 15..=*last);
                }
                process.signals.push_back(signal);
            }
        }
    }

    pub fn hear(&mut self, process: usize) {
        let Some(signal) = self.processes[process].signals.pop_front() else { return };
        self.note(|| format!("    {process} hears {signal:?}"));
        match signal {
            Signal::Wanted { token } => {
                let token = Token::parse(&token).unwrap();
                self.drive(process, |lease, _| lease.wanted(token));
            }
            Signal::Granted { token, last, more } => {
                let token = Token::parse(&token).unwrap();
                let push = Push { last, block: 16, more };
                let mut known = false;
                self.drive(process, |lease, cx| known = lease.told(token, push, cx));
                if !known {
                    let ttl = Ttl::from_millis(token.claim().as_millis() as u32);
                    self.give_now(process, token, ttl, None);
                }
            }
        }
    }

    pub fn listen(&mut self, process: usize, listens: bool) {
        let this = &mut self.processes[process];
        if this.listens == listens {
            return;
        }
        this.listens = listens;
        this.signals.clear();
        let core = this.core();
        if listens {
            self.server.deaf.remove(&core);
        } else {
            self.server.deaf.insert(core);
        }
        if self.processes[process].up
            && let Some(token) = self.processes[process].lease.token()
        {
            self.drive(process, |lease, cx| lease.look_now(token, cx));
        }
    }

    pub fn read(&mut self, process: usize) {
        let Some((sent, answer)) = self.processes[process].answers.pop_front() else {
            return;
        };
        self.answered(process, sent, Some(answer));
    }

    /// Without an answer: the connection broke.
    fn answered(&mut self, process: usize, sent: Sent, answer: Option<Answer>) {
        self.note(|| format!("    {process} reads {answer:?} to {:?} of {}", sent.op, sent.token));
        match sent.op {
            Op::Take { ttl, .. } | Op::Beat { ttl, .. } => self.take_answered(process, &sent, ttl, answer),
            Op::Give { tainted, .. } => self.end_answered(process, &sent, tainted, answer),
            Op::Park { .. } => self.end_answered(process, &sent, None, answer),
            Op::Adopt { to, ttl } => self.adopt_answered(process, &sent, to, ttl, answer),
            Op::Keep { ttl, block } => self.keep_answered(process, &sent, ttl, block, answer),
            Op::Swap { to, ttl } => self.swap_answered(process, &sent, to, ttl, answer),
        }
    }

    fn take_answered(&mut self, process: usize, sent: &Sent, ttl: Ttl, answer: Option<Answer>) {
        let (token, now) = (sent.token, self.now);
        // Whatever was executed of it was so until now: the answer failed, or the connection has just broken.
        let until = Some(ttl.forgotten(now));
        let lease = &mut self.processes[process].lease;
        if lease.goes_by(token) && lease.token() != Some(token) {
            if answer.is_none() {
                lease.taint(ttl.forgotten(now));
            }
            return;
        }
        if self.processes[process].lease.token() != Some(token) {
            return match answer {
                None => self.remember_give(process, token, ttl.in_queue(), until),
                Some(Answer::Granted { .. } | Answer::Failed) => self.give_now(process, token, ttl.in_queue(), None),
                _ => {}
            };
        }
        let this = &mut self.processes[process];
        this.polls += 1;
        let pause = Duration::from_millis(50 << this.polls.min(5)).min(Duration::from_secs(1));
        match answer {
            Some(Answer::Granted { last, left, more, .. }) => {
                this.polls = 0;
                let grant = Grant { last, sent: sent.at, left: left.map(Duration::from_millis), more };
                self.drive(process, |lease, cx| lease.granted(token, grant, cx));
            }
            Some(Answer::Taken { left, holder, mark, .. }) => {
                let expiry = left.map_or(pause, |left| Duration::from_millis(left + 5));
                let again = now + pause.min(expiry);
                let queued = !matches!(sent.op, Op::Take { waits: false, .. });
                let refusal = Refusal { holder, mark, sent: sent.at, queued };
                self.drive(process, |lease, cx| lease.taken(token, refusal, again, cx));
            }
            Some(Answer::NotOurs) => self.drive(process, |lease, cx| lease.unknown(token, cx)),
            _ => {
                let until = until.filter(|_| matches!(sent.op, Op::Take { .. }));
                this.lease.failed(token, until, answer.map(|_| now + pause));
                self.dismiss_once(process);
            }
        }
    }

    fn keep_answered(&mut self, process: usize, sent: &Sent, ttl: Ttl, block: u32, answer: Option<Answer>) {
        let (token, extended) = (sent.token, sent.caller.is_some());
        match answer {
            Some(Answer::Kept { last, more }) => self.drive(process, |lease, cx| {
                let numbers = (block > 0).then_some((last, block));
                lease.kept(token, Kept { sent: sent.at, ttl, numbers, extended, more }, cx);
            }),
            Some(Answer::NotOurs) => self.drive(process, |lease, cx| lease.lost(token, cx)),
            _ => {
                let again = answer.map(|_| self.now + ttl.renewal_retry());
                self.processes[process].lease.failed(token, None, again);
            }
        }
    }

    fn swap_answered(&mut self, process: usize, sent: &Sent, to: Token, ttl: Ttl, answer: Option<Answer>) {
        let until = Some(ttl.forgotten(self.now));
        if !self.processes[process].lease.is_renamed_to(to) {
            match answer {
                None => {
                    for token in [sent.token, to] {
                        self.remember_give(process, token, ttl, until);
                    }
                }
                Some(_) => self.end_call(process, sent.caller),
            }
            return;
        }
        let this = &mut self.processes[process];
        match answer {
            Some(Answer::Done) => {
                self.drive(process, |lease, cx| lease.swapped(to, sent.at, ttl, cx));
                self.end_call(process, sent.caller);
            }
            Some(Answer::NotOurs) => {
                self.drive(process, |lease, cx| lease.not_renamed(to, cx));
                self.end_call(process, sent.caller);
            }
            _ => {
                if answer.is_some() {
                    this.lease.renaming_refused(to);
                } else {
                    this.lease.renaming_unanswered(to);
                }
                // A later renaming may be under way: it concerns the lease by its present name.
                let again = answer.as_ref().map(|_| self.now + ttl.renewal_retry());
                let until = until.filter(|_| answer.is_none());
                if let Some(token) = this.lease.token() {
                    this.lease.failed(token, until, again);
                }
                if answer.is_some() {
                    self.give_up_call(process, sent.caller);
                }
            }
        }
    }

    /// A give or a park.
    fn end_answered(&mut self, process: usize, sent: &Sent, tainted: Option<Time>, answer: Option<Answer>) {
        let now = self.now;
        if matches!(answer, None | Some(Answer::Failed)) {
            let op = match sent.op {
                Op::Give { ttl, .. } => Op::Give { ttl, tainted },
                park => park,
            };
            return self.processes[process].remember(&Sent { op, ..sent.clone() }, now);
        }
        if let Some(caller) = sent.caller {
            let before = self.processes[process].claims.insert(caller, State::Done);
            self.must(before == Some(State::Giving), || format!("{caller:?} is answered as {before:?}"));
        }
        let orphans = &mut self.processes[process].orphans;
        let name = name(sent);
        if let Some(caller) = orphans.get_mut(&name).and_then(|(_, orphan)| orphan.caller.take()) {
            self.processes[process].claims.insert(caller, State::Done);
        }
        let orphans = &mut self.processes[process].orphans;
        if orphans.get(&name).is_some_and(|(_, orphan)| orphan.tainted.is_none_or(|until| until <= now)) {
            orphans.remove(&name);
        }
        if let Op::Park { ttl, tainted: Some(until), .. } = sent.op
            && now < until
        {
            self.remember_give(process, sent.token, ttl, Some(until));
        }
    }

    pub fn settle(&mut self, process: usize) {
        let busy = |process: &Process| {
            !process.wire.is_empty() || !process.answers.is_empty() || !process.signals.is_empty()
        };
        while busy(&self.processes[process]) {
            self.execute(process);
            self.read(process);
            self.hear(process);
        }
    }

    fn dismiss_once(&mut self, process: usize) {
        let mut failed = Vec::new();
        self.drive(process, |lease, cx| lease.dismiss_once(cx, |claim| failed.push(claim)));
        for claim in failed {
            let before = self.processes[process].claims.insert(claim, State::Done);
            self.must(before == Some(State::Waiting { once: true }), || format!("{claim:?} fails as {before:?}"));
        }
    }

    pub fn disconnect(&mut self, process: usize, late: usize) {
        let this = &mut self.processes[process];
        if !this.up {
            return;
        }
        this.up = false;
        let unexecuted: Vec<Sent> = this.wire.drain(..).collect();
        this.late.push(unexecuted.iter().take(late).cloned().collect());
        let unread: Vec<Sent> = this.answers.drain(..).map(|(sent, _)| sent).collect();
        self.dismiss_once(process);
        for sent in unread.into_iter().chain(unexecuted) {
            self.answered(process, sent, None);
        }
    }

    pub fn connect(&mut self, process: usize) {
        if self.processes[process].up {
            return;
        }
        self.processes[process].up = true;
        self.repeat_orphans(process);
        self.resume_adoptions(process);
        self.drive(process, |lease, cx| lease.resume(cx));
    }

    pub fn repeat_orphans(&mut self, process: usize) {
        let now = self.now;
        let this = &mut self.processes[process];
        let (claims, parking) = (&mut this.claims, &mut this.parking);
        this.orphans.retain(|_, (token, orphan)| {
            let remembered = now < orphan.until;
            if !remembered {
                parking.remove(token);
                if let Some(caller) = orphan.caller {
                    // Its patience ended long ago.
                    claims.insert(caller, State::Done);
                }
            }
            remembered
        });
        this.orphans_due = (!this.orphans.is_empty()).then(|| now + BEAT);
        if !this.up {
            return;
        }
        let repeated = |(token, orphan): &mut (Token, Orphan)| {
            let op = match orphan.op {
                Op::Give { ttl, .. } => Op::Give { ttl, tainted: orphan.tainted },
                park => park,
            };
            Sent { token: *token, op, caller: orphan.caller.take(), at: now }
        };
        let all: Vec<Sent> = this.orphans.values_mut().map(repeated).collect();
        for sent in all {
            self.push(process, sent);
        }
    }

    fn remember_give(&mut self, process: usize, token: Token, ttl: Ttl, tainted: Option<Time>) {
        let sent = Sent { token, op: Op::Give { ttl, tainted }, caller: None, at: self.now };
        self.processes[process].remember(&sent, self.now);
    }
}

/// What is to be done: a token is parked before it is given.
fn name(sent: &Sent) -> (bool, u64) {
    (!matches!(sent.op, Op::Park { .. }), sent.token.turn())
}

impl Process {
    /// Repeats a give or park until it is answered.
    pub fn remember(&mut self, sent: &Sent, now: Time) {
        let (ttl, tainted) = match sent.op {
            Op::Give { ttl, tainted } => (ttl, tainted),
            Op::Park { ttl, .. } => (ttl, None),
            other => unreachable!("{other:?} ends nothing"),
        };
        let mut until = tainted.unwrap_or(now).max(ttl.forgotten(now));
        let mut op = sent.op;
        // What is to be parked isn't given before.
        let turn = sent.token.turn();
        match &mut op {
            Op::Park { tainted, .. } => {
                if let Some((_, give)) = self.orphans.remove(&(true, turn)) {
                    *tainted = (*tainted).max(give.tainted);
                    until = until.max(give.until);
                }
            }
            _ => {
                if let Some((_, park)) = self.orphans.get_mut(&(false, turn))
                    && let Op::Park { tainted: known, .. } = &mut park.op
                {
                    *known = (*known).max(tainted);
                    park.until = park.until.max(until);
                    return;
                }
            }
        }
        let orphan = Orphan { op, caller: sent.caller, ttl, until, tainted };
        let (_, known) = self.orphans.entry(name(sent)).or_insert((sent.token, orphan));
        if ttl > known.ttl {
            (known.ttl, known.until) = (ttl, known.until.max(until));
        }
        known.until = known.until.max(tainted.unwrap_or(known.until));
        known.tainted = known.tainted.max(tainted);
        known.caller = known.caller.or(sent.caller);
        self.orphans_due.get_or_insert(now + BEAT);
    }
}
