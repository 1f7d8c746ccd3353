//! Several processes that want one lock, one server, and everything that can go wrong between them, in simulated time.
//!
//! A process here is a real lease with as much of the engine around it as the protocol asks for, without sockets
//! and threads. What must hold is checked after each event; the first violation ends the run.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use holdfast_core::clock::Time;
use holdfast_core::lease::{Action, Attempt, ClaimId, CoreId, Cx, Lease, Loss, Op, Token, Ttl, Turns, Waiter};

use crate::model::{Answer, Command, Entry, How, Model};

pub const PROCESSES: usize = 3;
const LOCK: &str = "lock";
/// How often an unanswered give is repeated.
const BEAT: Duration = Duration::from_secs(1);
/// The server's clock when the simulation begins, in microseconds.
const EPOCH: u64 = 1_700_000_000_000_000;

/// Something that happens. `process` is taken modulo [`PROCESSES`].
#[derive(Clone, Debug)]
pub enum Event {
    Arrive {
        process: usize,
        ttl: u32,
        once: bool,
        renewed: bool,
    },
    /// One of those who wait goes.
    Leave {
        process: usize,
        which: usize,
    },
    Release {
        process: usize,
    },
    Revoke {
        process: usize,
    },
    Extend {
        process: usize,
        ttl: u32,
    },
    /// The server executes the next command of a process.
    Execute {
        process: usize,
    },
    /// A process reads the next answer.
    Read {
        process: usize,
    },
    /// Everything sent is executed and read.
    Settle {
        process: usize,
    },
    /// The connection breaks: unread answers are lost, and of what wasn't executed the first `late` commands arrive later.
    Break {
        process: usize,
        late: usize,
    },
    Connect {
        process: usize,
    },
    /// The server executes the next command of a replaced connection.
    Late {
        process: usize,
    },
    /// Time passes, for a process that wakes up for what is due, or for one that sleeps through it.
    Pass {
        millis: u64,
        asleep: bool,
    },
    /// Somebody else takes the key, whoever has it.
    Foreign {
        millis: u64,
    },
    Delete,
    FlushAll,
    LoseCounter,
    /// Writes that take memory are refused, or no longer.
    Full(bool),
    /// Fencing numbers can't be made, or can again: takes fail behind the point where the key is ours.
    CounterBroken(bool),
}

#[derive(Clone, Debug)]
struct Sent {
    token: Token,
    op: Op,
    caller: Option<ClaimId>,
    at: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting {
        once: bool,
    },
    Held,
    /// Released, and the give isn't answered.
    Giving,
    Done,
}

struct Orphan {
    ttl: Ttl,
    caller: Option<ClaimId>,
    until: Time,
    tainted: Option<Time>,
}

struct Process {
    lease: Lease,
    turns: Turns,
    up: bool,
    wire: VecDeque<Sent>,
    answers: VecDeque<(Sent, Answer)>,
    /// What replaced connections may still deliver.
    late: Vec<VecDeque<Sent>>,
    orphans: BTreeMap<u64, (Token, Orphan)>,
    orphans_due: Option<Time>,
    claims: BTreeMap<ClaimId, State>,
    /// The names of the present turn.
    names: Vec<(Token, String)>,
    /// Tokens that were given back.
    given: HashSet<Token>,
    /// Numbers the server reserved for the present turn.
    reserved: HashSet<u64>,
    /// Somebody took the key away from this turn: exclusion can't be asked of it any more.
    robbed: bool,
    polls: u32,
}

pub struct World {
    now: Time,
    start: Time,
    /// The server's seconds per second, in percent.
    rate: u64,
    server: Model,
    processes: Vec<Process>,
    last_fence: u64,
    /// Tokens that a late command may have brought back when nobody gave them any more.
    revived: HashSet<String>,
    violation: Option<String>,
    /// What happened, if it is to be told.
    log: Option<Vec<String>>,
}

impl World {
    /// `rate`: the server's seconds per second, in percent. With `told` an error tells what led to it, which takes time.
    pub fn new(rate: u64, told: bool) -> World {
        let start = Time::from_micros(1_000_000_000);
        let process = |number: usize| Process {
            lease: Lease::default(),
            turns: Turns::new(CoreId::new(number as u128 + 1)),
            up: false,
            wire: VecDeque::new(),
            answers: VecDeque::new(),
            late: Vec::new(),
            orphans: BTreeMap::new(),
            orphans_due: None,
            claims: BTreeMap::new(),
            names: Vec::new(),
            given: HashSet::new(),
            reserved: HashSet::new(),
            robbed: false,
            polls: 0,
        };
        World {
            now: start,
            start,
            rate,
            server: Model::default(),
            processes: (0..PROCESSES).map(process).collect(),
            last_fence: 0,
            revived: HashSet::new(),
            violation: None,
            log: told.then(Vec::new),
        }
    }

    /// Lets something happen. An error says what must not be.
    pub fn happen(&mut self, event: &Event) -> Result<(), String> {
        self.note(|| format!("{event:?}"));
        match *event {
            Event::Arrive { process, ttl, once, renewed } => {
                self.arrive(process % PROCESSES, ttl, once, renewed);
            }
            Event::Leave { process, which } => self.leave(process % PROCESSES, which),
            Event::Release { process } => self.release(process % PROCESSES),
            Event::Revoke { process } => {
                let process = process % PROCESSES;
                if let Some(claim) = self.holder(process) {
                    self.drive(process, |lease, cx| lease.revoke(claim, Loss::Closed, cx));
                }
            }
            Event::Extend { process, ttl } => {
                let process = process % PROCESSES;
                if let Some(claim) = self.holder(process) {
                    let caller = self.new_claim(process, State::Done);
                    let ttl = Ttl::from_millis(ttl);
                    self.drive(process, |lease, cx| lease.extend(claim, caller, ttl, cx));
                }
            }
            Event::Execute { process } => self.execute(process % PROCESSES),
            Event::Read { process } => self.read(process % PROCESSES),
            Event::Settle { process } => self.settle(process % PROCESSES),
            Event::Break { process, late } => self.disconnect(process % PROCESSES, late),
            Event::Connect { process } => self.connect(process % PROCESSES),
            Event::Late { process } => self.late(process % PROCESSES),
            Event::Pass { millis, asleep } => self.pass(millis, asleep),
            Event::Foreign { millis } => {
                self.rob();
                let ends = self.server_now() + millis * 1_000;
                let entry = Entry { value: "somebody".to_owned(), ends };
                self.server.locks.insert(LOCK.to_owned(), entry);
            }
            Event::Delete => {
                self.rob();
                self.server.locks.clear();
            }
            Event::FlushAll => {
                self.rob();
                self.server.locks.clear();
                self.server.wanted.clear();
                self.server.counter = None;
            }
            Event::LoseCounter => self.server.counter = None,
            Event::Full(full) => self.server.full = full,
            Event::CounterBroken(broken) => self.server.counter_broken = broken,
        }
        self.check();
        self.verdict()
    }

    /// When nothing goes wrong any more, everybody gets the lock and nothing stays behind.
    pub fn come_to_rest(&mut self) -> Result<(), String> {
        self.note(|| "-- nothing goes wrong from here on".to_owned());
        self.server.full = false;
        self.server.counter_broken = false;
        for process in 0..PROCESSES {
            self.processes[process].late.clear();
            self.connect(process);
        }
        let patience = self.now + Duration::from_secs(200);
        while !self.at_rest() {
            for process in 0..PROCESSES {
                self.settle(process);
                self.release(process);
                self.settle(process);
            }
            self.check();
            self.verdict()?;
            if self.now > patience {
                let waiting: Vec<_> = self.processes.iter().map(|process| process.claims.clone()).collect();
                return Err(self.story(&format!("somebody waits for ever: {waiting:?}")));
            }
            if !self.at_rest() {
                self.pass(250, false);
            }
        }
        for (number, process) in self.processes.iter().enumerate() {
            if let Some((claim, state)) = process.claims.iter().find(|(_, state)| **state != State::Done) {
                return Err(self.story(&format!("{claim:?} of process {number} ends as {state:?}")));
            }
        }
        let now = self.server_now();
        let left = self.server.locks.get(LOCK).filter(|entry| entry.ends > now);
        match left {
            Some(Entry { value, .. }) if value != "somebody" && !self.revived.contains(value) => {
                Err(self.story(&format!("{value} stays behind")))
            }
            _ => Ok(()),
        }
    }

    fn at_rest(&self) -> bool {
        self.processes.iter().all(|process| {
            process.lease.is_idle()
                && process.orphans.is_empty()
                && process.wire.is_empty()
                && process.answers.is_empty()
        })
    }

    // ----- callers ----------------------------------------------------------------------------------------------------

    fn new_claim(&mut self, process: usize, state: State) -> ClaimId {
        let claims = &mut self.processes[process].claims;
        let claim = ClaimId(claims.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        claims.insert(claim, state);
        claim
    }

    fn arrive(&mut self, process: usize, millis: u32, once: bool, renewed: bool) {
        let claim = self.new_claim(process, State::Waiting { once });
        let waiter = Waiter { claim, ttl: Ttl::from_millis(millis), once, renewed, max_hold: None };
        self.drive(process, |lease, cx| lease.arrive(waiter, cx));
    }

    fn leave(&mut self, process: usize, which: usize) {
        let waiting: Vec<ClaimId> = self.waiting(process).collect();
        if waiting.is_empty() {
            return;
        }
        let claim = waiting[which % waiting.len()];
        self.processes[process].claims.insert(claim, State::Done);
        let mut waited = false;
        self.drive(process, |lease, cx| waited = lease.leave(claim, cx));
        self.must(waited, || format!("{claim:?} waits and isn't in the queue"));
    }

    fn release(&mut self, process: usize) {
        let Some(claim) = self.holder(process) else {
            return;
        };
        self.drive(process, |lease, cx| lease.release(claim, cx));
        let state = self.processes[process].claims[&claim];
        self.must(state != State::Held, || format!("the release of {claim:?} comes to nothing"));
    }

    fn waiting(&self, process: usize) -> impl Iterator<Item = ClaimId> {
        let waits = |(claim, state): (&ClaimId, &State)| matches!(state, State::Waiting { .. }).then_some(*claim);
        self.processes[process].claims.iter().filter_map(waits)
    }

    fn holder(&self, process: usize) -> Option<ClaimId> {
        let holds = |(claim, state): (&ClaimId, &State)| (*state == State::Held).then_some(*claim);
        self.processes[process].claims.iter().find_map(holds)
    }

    // ----- what a lease wants -------------------------------------------------------------------------------------------

    fn drive(&mut self, process: usize, event: impl FnOnce(&mut Lease, &mut Cx<'_>)) {
        let before = self.deadline(process);
        let mut out = Vec::new();
        let this = &mut self.processes[process];
        let mut cx = Cx { now: self.now, turns: &mut this.turns, out: &mut out };
        event(&mut this.lease, &mut cx);
        for action in out {
            self.act(process, action, before);
        }
    }

    fn act(&mut self, process: usize, action: Action, deadline: Option<Time>) {
        self.note(|| format!("    {process}: {action:?}"));
        match action {
            Action::Granted { claim, fence, .. } => self.granted(process, claim, fence),
            Action::Refused { claim } => {
                let before = self.processes[process].claims.insert(claim, State::Done);
                self.must(before == Some(State::Waiting { once: true }), || {
                    format!("{claim:?} is refused as {before:?}")
                });
            }
            Action::Released { claim } => {
                let before = self.processes[process].claims.insert(claim, State::Done);
                self.must(before == Some(State::Held), || format!("{claim:?} is released as {before:?}"));
            }
            Action::Lost { claim, loss } => {
                let before = self.processes[process].claims.insert(claim, State::Done);
                self.must(before == Some(State::Held), || format!("{claim:?} is lost as {before:?}"));
                let over = deadline.is_none_or(|deadline| self.now >= deadline);
                match loss {
                    Loss::Taken => {
                        let robbed = self.processes[process].robbed;
                        self.must(robbed || over, || format!("{claim:?} is told that nobody took it, as taken"));
                    }
                    Loss::Expired | Loss::Unreachable | Loss::Stalled | Loss::MaxHold => {
                        self.must(over, || format!("{claim:?} is lost before its deadline: {loss:?}"));
                    }
                    Loss::Closed => {}
                }
            }
            Action::Detached { .. } => unreachable!("nobody here detaches"),
            Action::Send { token, op, caller } => self.send(process, token, op, caller),
        }
    }

    fn granted(&mut self, process: usize, claim: ClaimId, fence: u64) {
        let before = self.processes[process].claims.insert(claim, State::Held);
        self.must(matches!(before, Some(State::Waiting { .. })), || format!("{claim:?} is granted as {before:?}"));
        let earlier = self.waiting(process).next().filter(|other| *other < claim);
        self.must(earlier.is_none(), || format!("{claim:?} is served before {earlier:?}, which came first"));
        let holders = self.processes[process].claims.values().filter(|state| **state == State::Held);
        let holders = holders.count();
        self.must(holders == 1, || format!("{holders} callers of process {process} hold it"));
        let reserved = self.processes[process].reserved.remove(&fence);
        self.must(reserved, || format!("{fence} isn't a number of this turn"));
        if self.processes[process].robbed {
            return;
        }
        for other in (0..PROCESSES).filter(|other| *other != process) {
            let believes = self.believes(other);
            self.must(!believes, || format!("process {process} is granted what process {other} holds"));
        }
        let last = std::mem::replace(&mut self.last_fence, fence);
        self.must(fence > last, || format!("the fencing number {fence} comes after {last}"));
    }

    fn send(&mut self, process: usize, token: Token, op: Op, caller: Option<ClaimId>) {
        let this = &mut self.processes[process];
        let mut zombie = this.given.contains(&token);
        match op {
            Op::Give { .. } => {
                zombie = false;
                this.given.insert(token);
                if let Some(caller) = caller {
                    let before = this.claims.insert(caller, State::Giving);
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
            Op::Take { .. } | Op::Keep { .. } => {}
            Op::Park { .. } | Op::Adopt { .. } => unreachable!("nobody here detaches or parks"),
        }
        self.must(!zombie, || format!("{op:?} of {token} after it was given back"));
        let sent = Sent { token, op, caller, at: self.now };
        let this = &mut self.processes[process];
        if let Op::Give { ttl, tainted } = op
            && (!this.up || tainted.is_some_and(|until| self.now < until))
        {
            // One that is sent brings its caller along by itself.
            let caller = caller.filter(|_| !this.up);
            this.adopt(token, ttl, tainted, caller, self.now);
        }
        if this.up {
            this.wire.push_back(sent);
        } else if let Op::Swap { to, .. } = op {
            this.lease.renaming_failed(to);
        } else if !matches!(op, Op::Give { .. }) {
            this.lease.failed(token, None, None);
        }
    }

    // ----- the connection -----------------------------------------------------------------------------------------------

    fn execute(&mut self, process: usize) {
        if let Some(sent) = self.processes[process].wire.pop_front() {
            let answer = self.serve(process, &sent);
            self.processes[process].answers.push_back((sent, answer));
        }
    }

    fn late(&mut self, process: usize) {
        let Some(queue) = self.processes[process].late.first_mut() else {
            return;
        };
        let Some(sent) = queue.pop_front() else {
            self.processes[process].late.remove(0);
            return;
        };
        // Nothing is under way for longer than the lease it speaks of.
        let over = match sent.op {
            Op::Take { ttl, .. } | Op::Swap { ttl, .. } => ttl.forgotten(sent.at) <= self.now,
            _ => false,
        };
        if over {
            return;
        }
        self.note(|| format!("    late: {sent:?}"));
        self.serve(process, &sent);
        let names = match sent.op {
            Op::Swap { to, .. } => [Some(to), Some(sent.token)],
            _ => [Some(sent.token), None],
        };
        for name in names.into_iter().flatten() {
            self.revived.insert(name.to_string());
        }
    }

    fn serve(&mut self, process: usize, sent: &Sent) -> Answer {
        let token = sent.token.to_string();
        let (command, block) = match sent.op {
            Op::Take { ttl, block, attempt } => {
                let how = match attempt {
                    Attempt::First => How::First,
                    Attempt::Again => How::Again,
                    Attempt::AfterOwnTurn => How::AfterOwnTurn,
                };
                let ttl = ttl.server_millis();
                (Command::Take { how, token, ttl, block: block.into() }, block)
            }
            Op::Give { .. } => (Command::Give { token }, 0),
            Op::Keep { ttl, block } => {
                let ttl = ttl.server_millis();
                (Command::Keep { token, ttl, block: block.into() }, block)
            }
            Op::Swap { to, ttl } => {
                let ttl = ttl.server_millis();
                (Command::Swap { token, to: to.to_string(), ttl }, 0)
            }
            Op::Park { .. } | Op::Adopt { .. } => unreachable!("nobody here detaches or parks"),
        };
        // Fewer numbers are reserved than there are microseconds.
        self.now = self.now + Duration::from_micros(100 + 2 * u64::from(block));
        // A floor that is always compared with the clock: the one for a new connection.
        let answer = self.server.execute(LOCK, &command, 1 << 53, self.server_now());
        self.note(|| format!("    server: {command:?} -> {answer:?}"));
        if let (Answer::Numbers(last), true) = (&answer, self.processes[process].knows(sent.token)) {
            let block = last + 1 - u64::from(block)..=*last;
            self.processes[process].reserved.extend(block);
        }
        answer
    }

    fn read(&mut self, process: usize) {
        let Some((sent, answer)) = self.processes[process].answers.pop_front() else {
            return;
        };
        self.answered(process, sent, Some(answer));
    }

    /// Without an answer: the connection broke.
    fn answered(&mut self, process: usize, sent: Sent, answer: Option<Answer>) {
        self.note(|| format!("    {process} reads {answer:?} to {:?} of {}", sent.op, sent.token));
        match sent.op {
            Op::Park { .. } | Op::Adopt { .. } => {}
            Op::Take { ttl, .. } => self.take_answered(process, &sent, ttl, answer),
            Op::Give { ttl, tainted } => self.give_answered(process, &sent, ttl, tainted, answer),
            Op::Keep { ttl, block } => {
                let (token, extended) = (sent.token, sent.caller.is_some());
                match answer {
                    Some(Answer::Numbers(last)) => self.drive(process, |lease, cx| {
                        lease.kept(token, sent.at, ttl, Some((last, block)), extended, cx);
                    }),
                    Some(Answer::Done) => self.drive(process, |lease, cx| {
                        lease.kept(token, sent.at, ttl, None, extended, cx);
                    }),
                    Some(Answer::NotOurs) => self.drive(process, |lease, cx| lease.lost(token, cx)),
                    _ => {
                        let again = answer.map(|_| self.now + ttl.renewal_retry());
                        self.processes[process].lease.failed(token, None, again);
                    }
                }
            }
            Op::Swap { to, ttl } => {
                let until = Some(ttl.forgotten(self.now));
                let this = &mut self.processes[process];
                match answer {
                    None if !this.lease.is_renamed_to(to) => {
                        for token in [sent.token, to] {
                            this.adopt(token, ttl, until, None, self.now);
                        }
                    }
                    Some(Answer::Done) => self.drive(process, |lease, cx| lease.swapped(to, sent.at, ttl, cx)),
                    Some(Answer::NotOurs) => self.drive(process, |lease, cx| lease.not_renamed(to, cx)),
                    _ => {
                        this.lease.renaming_failed(to);
                        // A later renaming may be under way: it concerns the lease by its present name.
                        let again = answer.map(|_| self.now + ttl.renewal_retry());
                        if let Some(token) = this.lease.token().filter(|_| this.lease.is_renamed_to(to)) {
                            this.lease.failed(token, until, again);
                        }
                    }
                }
            }
        }
    }

    fn take_answered(&mut self, process: usize, sent: &Sent, ttl: Ttl, answer: Option<Answer>) {
        let (token, now) = (sent.token, self.now);
        // Whatever was executed of it was so until now: the answer failed, or the connection has just broken.
        let until = Some(ttl.forgotten(now));
        let this = &mut self.processes[process];
        if this.lease.token() != Some(token) {
            if answer.is_none() {
                this.adopt(token, ttl, until, None, now);
            }
            return;
        }
        this.polls += 1;
        let pause = Duration::from_millis(50 << this.polls.min(5)).min(Duration::from_secs(1));
        match answer {
            Some(Answer::Numbers(last)) => {
                this.polls = 0;
                self.drive(process, |lease, cx| lease.granted(token, last, sent.at, cx));
            }
            Some(Answer::Taken { left, holder, .. }) => {
                let expiry = left.map_or(pause, |left| Duration::from_millis(left + 5));
                let again = now + pause.min(expiry);
                self.drive(process, |lease, cx| lease.taken(token, Some(holder), again, cx));
            }
            _ => {
                this.lease.failed(token, until, answer.map(|_| now + pause));
                self.dismiss_once(process);
            }
        }
    }

    fn give_answered(
        &mut self,
        process: usize,
        sent: &Sent,
        ttl: Ttl,
        tainted: Option<Time>,
        answer: Option<Answer>,
    ) {
        let this = &mut self.processes[process];
        if answer.is_none() {
            return this.adopt(sent.token, ttl, tainted, sent.caller, self.now);
        }
        if let Some(caller) = sent.caller {
            let before = this.claims.insert(caller, State::Done);
            self.must(before == Some(State::Giving), || format!("{caller:?} is answered as {before:?}"));
        }
        let (turn, now) = (sent.token.turn(), self.now);
        let orphans = &mut self.processes[process].orphans;
        if orphans.get(&turn).is_some_and(|(_, orphan)| orphan.tainted.is_none_or(|until| until <= now)) {
            orphans.remove(&turn);
        }
    }

    fn settle(&mut self, process: usize) {
        while !self.processes[process].wire.is_empty() || !self.processes[process].answers.is_empty() {
            self.execute(process);
            self.read(process);
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

    fn disconnect(&mut self, process: usize, late: usize) {
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

    fn connect(&mut self, process: usize) {
        if self.processes[process].up {
            return;
        }
        self.processes[process].up = true;
        self.give_orphans(process);
        self.drive(process, |lease, cx| lease.resume(cx));
    }

    fn give_orphans(&mut self, process: usize) {
        let now = self.now;
        let this = &mut self.processes[process];
        let (claims, orphans) = (&mut this.claims, &mut this.orphans);
        orphans.retain(|_, (_, orphan)| {
            let remembered = now < orphan.until;
            if let Some(caller) = orphan.caller.filter(|_| !remembered) {
                // Its patience ended long ago.
                claims.insert(caller, State::Done);
            }
            remembered
        });
        this.orphans_due = (!this.orphans.is_empty()).then(|| now + BEAT);
        let mut gives = Vec::new();
        for (token, orphan) in this.orphans.values_mut() {
            let op = Op::Give { ttl: orphan.ttl, tainted: orphan.tainted };
            gives.push(Sent { token: *token, op, caller: orphan.caller.take(), at: now });
        }
        for sent in gives {
            if this.up {
                this.wire.push_back(sent);
            } else if let Op::Give { ttl, tainted } = sent.op {
                this.adopt(sent.token, ttl, tainted, sent.caller, now);
            }
        }
    }

    // ----- time ---------------------------------------------------------------------------------------------------------

    fn server_now(&self) -> u64 {
        EPOCH + self.now.since(self.start).as_micros() as u64 * self.rate / 100
    }

    fn pass(&mut self, millis: u64, asleep: bool) {
        let until = self.now + Duration::from_millis(millis);
        if !asleep {
            // To everything that is due on the way, but not in steps too small to matter.
            while let Some(due) = self.due().filter(|due| *due < until) {
                self.now = self.now.max(due);
                self.tick();
                self.check();
                self.now = self.now + Duration::from_micros(100);
            }
        }
        self.now = self.now.max(until);
        self.check();
        self.tick();
    }

    fn due(&self) -> Option<Time> {
        let times = |process: &Process| [process.lease.due(), process.orphans_due];
        self.processes.iter().flat_map(times).flatten().min()
    }

    fn tick(&mut self) {
        for process in 0..PROCESSES {
            self.drive(process, |lease, cx| lease.tick(cx));
            if self.processes[process].orphans_due.is_some_and(|due| due <= self.now) {
                self.give_orphans(process);
            }
        }
    }

    // ----- what must hold -----------------------------------------------------------------------------------------------

    fn deadline(&self, process: usize) -> Option<Time> {
        let holder = self.holder(process)?;
        self.processes[process].lease.deadline_of(holder)
    }

    /// Whether a caller of this process may believe, now, that it has the lock.
    fn believes(&self, process: usize) -> bool {
        !self.processes[process].robbed && self.deadline(process).is_some_and(|deadline| self.now < deadline)
    }

    /// While somebody believes that it has the lock, the key is its own.
    fn check(&mut self) {
        let now = self.server_now();
        let value = self.server.locks.get(LOCK).filter(|entry| entry.ends > now);
        let value = value.map(|entry| entry.value.clone());
        for process in 0..PROCESSES {
            let own = value.as_deref().is_some_and(|value| self.processes[process].owns(value));
            let holds = own || !self.believes(process);
            self.must(holds, || format!("process {process} believes that it holds it; the key is {value:?}"));
        }
    }

    /// Whose the key is at this moment loses it by no fault of ours.
    fn rob(&mut self) {
        let Some(value) = self.server.value(LOCK).map(str::to_owned) else {
            return;
        };
        for process in &mut self.processes {
            process.robbed |= process.owns(&value);
        }
    }

    fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(otherwise());
        }
    }

    fn verdict(&self) -> Result<(), String> {
        match &self.violation {
            None => Ok(()),
            Some(violation) => Err(self.story(violation)),
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.now.since(self.start);
        if let Some(log) = &mut self.log {
            log.push(format!("{at:>12.1?} {}", line()));
        }
    }

    fn story(&self, end: &str) -> String {
        let log = self.log.as_deref().unwrap_or_default();
        let last = log.len().saturating_sub(60);
        format!("{end}\n{}", log[last..].join("\n"))
    }
}

impl Process {
    fn knows(&self, token: Token) -> bool {
        self.names.iter().any(|(name, _)| *name == token)
    }

    fn owns(&self, value: &str) -> bool {
        self.names.iter().any(|(_, name)| name == value)
    }

    fn adopt(&mut self, token: Token, ttl: Ttl, tainted: Option<Time>, caller: Option<ClaimId>, now: Time) {
        let until = tainted.unwrap_or(now).max(ttl.forgotten(now));
        let orphan = Orphan { ttl, caller, until, tainted };
        let (_, known) = self.orphans.entry(token.turn()).or_insert((token, orphan));
        known.until = known.until.max(until);
        known.tainted = known.tainted.max(tainted);
        known.caller = known.caller.or(caller);
        self.orphans_due.get_or_insert(now + BEAT);
    }
}
