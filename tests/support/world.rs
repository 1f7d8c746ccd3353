//! Several processes that want one lock, one server, and everything that can go wrong between them, in simulated time.
//!
//! A process here is a real lease with as much of the engine around it as the protocol asks for, without sockets
//! and threads. What must hold is checked after each event; the first violation ends the run.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use holdfast_core::clock::Time;
use holdfast_core::lease::{Action, ClaimId, CoreId, Cx, Lease, Loss, Token, Ttl, Turn, Turns, Waiter};

use crate::model::{Answer, Entry, Model, Signal};
use crate::tickets::{Adoption, Ticket};
use crate::wire::{Orphan, Sent};

pub const PROCESSES: usize = 3;
pub const LOCK: &str = "lock";
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
        /// Milliseconds.
        max_hold: Option<u64>,
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
    /// The holder leaves its lock to whoever adopts it.
    Detach {
        process: usize,
        ttl: u32,
    },
    /// A process adopts one of the last tickets, once more or too late maybe.
    Adopt {
        process: usize,
        which: usize,
        ttl: u32,
        renewed: bool,
        max_hold: Option<u64>,
    },
    /// Nobody waits any more for what the detaches and adoptions of a process come to.
    GiveUp {
        process: usize,
    },
    /// The holder gives its lock back, but the key is to stay taken.
    Park {
        process: usize,
        rest: u32,
    },
    /// The callers of a process give no sign of life, or do again.
    Silence {
        process: usize,
        silent: bool,
    },
    /// The server executes the next command of a process.
    Execute {
        process: usize,
    },
    /// A process reads the next answer.
    Read {
        process: usize,
    },
    /// A process hears the next thing the server says of its own accord.
    Hear {
        process: usize,
    },
    /// Its connection for signals breaks, what is on its way there is lost; or it is there again.
    Listen {
        process: usize,
        listens: bool,
    },
    /// Its connection for signals is replaced so quickly that the server never noticed: what is on its way is lost.
    Mishear {
        process: usize,
    },
    /// The holder is one that hasn't heard that it has the lock, which goes on to another.
    Abandon {
        process: usize,
    },
    /// A process is killed; another one takes its place.
    Crash {
        process: usize,
        late: usize,
    },
    /// Everything sent is executed, read and heard.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Waiting {
        once: bool,
    },
    Held,
    /// Released, and the give isn't answered.
    Giving,
    /// A call that leaves the lock of another claim to others.
    Detaching {
        of: ClaimId,
    },
    Adopting,
    Done,
}

pub struct Process {
    pub lease: Lease,
    pub turns: Turns,
    pub up: bool,
    /// It hears what the server says.
    pub listens: bool,
    pub signals: VecDeque<Signal>,
    pub wire: VecDeque<Sent>,
    pub answers: VecDeque<(Sent, Answer)>,
    /// What replaced connections may still deliver.
    pub late: Vec<VecDeque<Sent>>,
    /// By what is to be done, in this order, and turn.
    pub orphans: BTreeMap<(bool, u64), (Token, Orphan)>,
    pub orphans_due: Option<Time>,
    pub claims: BTreeMap<ClaimId, State>,
    /// The names of the present turn.
    pub names: Vec<(Token, String)>,
    /// Tokens that were given back.
    pub given: HashSet<Token>,
    /// Names under which locks were left to others.
    pub left: HashSet<Token>,
    /// Tokens that the server is to park, and hasn't yet.
    pub parking: HashSet<Token>,
    pub adoptions: BTreeMap<ClaimId, Adoption>,
    /// The numbers of claims, and until when they may hold.
    pub fences: HashMap<ClaimId, u64>,
    pub until: HashMap<ClaimId, Time>,
    pub bounds: HashMap<ClaimId, Duration>,
    /// Its callers give no sign of life; and the lease that is held knows.
    pub silent: bool,
    pub stalled: bool,
    /// Numbers the server reserved for the present turn.
    pub reserved: HashSet<u64>,
    /// Somebody took the key away from this turn: exclusion can't be asked of it any more.
    pub robbed: bool,
    pub polls: u32,
    /// Claims that adopted their lock or wanted one attempt: it isn't taken back from them.
    pub stays: HashSet<ClaimId>,
    core: u128,
}

pub struct World {
    pub now: Time,
    pub start: Time,
    /// The server's seconds per second, in percent.
    pub rate: u64,
    pub server: Model,
    pub processes: Vec<Process>,
    /// Cores that there ever were.
    cores: u128,
    /// A lock is taken back from a caller, and goes to one that came later.
    passing: bool,
    pub last_fence: u64,
    pub tickets: Vec<Ticket>,
    /// What detaches asked for, by process and call.
    pub detached_for: HashMap<(usize, ClaimId), Ttl>,
    /// Names that nobody asks for, and how long each may last.
    pub parked: HashMap<String, Ttl>,
    /// Tokens that a late command may have brought back when nobody gave them any more.
    pub revived: HashSet<String>,
    pub violation: Option<String>,
    /// What happened, if it is to be told.
    pub log: Option<Vec<String>>,
}

impl World {
    /// `rate`: the server's seconds per second, in percent. With `told` an error tells what led to it, which takes time.
    pub fn new(rate: u64, told: bool) -> World {
        let start = Time::from_micros(1_000_000_000);
        World {
            now: start,
            start,
            rate,
            server: Model::default(),
            processes: (1..=PROCESSES).map(|core| Process::new(core as u128)).collect(),
            cores: PROCESSES as u128,
            passing: false,
            last_fence: 0,
            tickets: Vec::new(),
            detached_for: HashMap::new(),
            parked: HashMap::new(),
            revived: HashSet::new(),
            violation: None,
            log: told.then(Vec::new),
        }
    }

    /// Lets something happen. An error says what must not be.
    pub fn happen(&mut self, event: &Event) -> Result<(), String> {
        self.note(|| format!("{event:?}"));
        match *event {
            Event::Arrive { process, ttl, once, renewed, max_hold } => {
                self.arrive(process % PROCESSES, ttl, once, renewed, max_hold);
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
                // Who has asked to detach asks nothing else until that is answered.
                if let Some(claim) = self.holder(process).filter(|claim| self.calls_about(process, *claim).is_empty())
                {
                    // Who asks for more is alive.
                    self.silence(process, false);
                    let caller = self.new_claim(process, State::Done);
                    let ttl = Ttl::from_millis(ttl);
                    self.drive(process, |lease, cx| lease.extend(claim, caller, ttl, cx));
                }
            }
            Event::Detach { process, ttl } => self.detach(process % PROCESSES, ttl),
            Event::Adopt { process, which, ttl, renewed, max_hold } => {
                self.adopt(process % PROCESSES, which, ttl, renewed, max_hold);
            }
            Event::GiveUp { process } => self.give_up(process % PROCESSES),
            Event::Park { process, rest } => self.park(process % PROCESSES, rest),
            Event::Silence { process, silent } => self.silence(process % PROCESSES, silent),
            Event::Execute { process } => self.execute(process % PROCESSES),
            Event::Read { process } => self.read(process % PROCESSES),
            Event::Hear { process } => self.hear(process % PROCESSES),
            Event::Listen { process, listens } => self.listen(process % PROCESSES, listens),
            Event::Mishear { process } => self.processes[process % PROCESSES].signals.clear(),
            Event::Abandon { process } => self.abandon(process % PROCESSES),
            Event::Crash { process, late } => self.crash(process % PROCESSES, late),
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
                self.server.queues.clear();
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
            self.silence(process, false);
            self.connect(process);
            self.listen(process, true);
            self.settle(process);
            self.give_up(process);
        }
        let patience = self.now + Duration::from_secs(200);
        while !self.at_rest() {
            for process in 0..PROCESSES {
                self.settle(process);
                self.give_up(process);
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
        let left = self.server.locks.get(LOCK).filter(|entry| entry.ends > now && entry.value != "somebody");
        if let Some(Entry { value, ends }) = left.filter(|entry| !self.revived.contains(&entry.value)) {
            let least = self.may_stay(value).map(|ttl| now + ttl.server_millis() * 1_000);
            if least.is_none_or(|least| *ends > least) {
                return Err(self.story(&format!("{value} stays behind")));
            }
        }
        let queue: Vec<&String> =
            self.server.queue(LOCK).iter().filter(|token| !self.revived.contains(*token)).collect();
        if !queue.is_empty() {
            return Err(self.story(&format!("{queue:?} stay in the queue")));
        }
        // Longer than any ttl: what nobody came for is gone.
        self.pass(11_000, false);
        let now = self.server_now();
        match self.server.locks.get(LOCK).filter(|entry| entry.ends > now && entry.value != "somebody") {
            Some(Entry { value, .. }) => Err(self.story(&format!("{value} stays for ever"))),
            None => self.verdict(),
        }
    }

    fn at_rest(&self) -> bool {
        self.processes.iter().all(|process| {
            process.lease.is_idle()
                && process.adoptions.is_empty()
                && process.orphans.is_empty()
                && process.wire.is_empty()
                && process.answers.is_empty()
                && process.signals.is_empty()
        })
    }

    // ----- callers ----------------------------------------------------------------------------------------------------

    pub fn new_claim(&mut self, process: usize, state: State) -> ClaimId {
        let claims = &mut self.processes[process].claims;
        let claim = ClaimId(claims.last_key_value().map_or(1, |(last, _)| last.0 + 1));
        claims.insert(claim, state);
        claim
    }

    fn arrive(&mut self, process: usize, millis: u32, once: bool, renewed: bool, max_hold: Option<u64>) {
        let claim = self.new_claim(process, State::Waiting { once });
        let max_hold = max_hold.map(Duration::from_millis);
        self.processes[process].bounds.extend(max_hold.map(|most| (claim, most)));
        let (ttl, pause, turn) = (Ttl::from_millis(millis), Duration::from_secs(1), Turn::default());
        let waiter = Waiter { claim, ttl, once, renewed, max_hold, queues: !once, pause, turn };
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

    pub fn holder(&self, process: usize) -> Option<ClaimId> {
        let holds = |(claim, state): (&ClaimId, &State)| (*state == State::Held).then_some(*claim);
        self.processes[process].claims.iter().find_map(holds)
    }

    /// The lock is taken back from a caller that hasn't heard of it.
    fn abandon(&mut self, process: usize) {
        let Some(claim) = self.holder(process) else { return };
        if !self.calls_about(process, claim).is_empty() || self.processes[process].bounds.contains_key(&claim) {
            return;
        }
        let next = self.waiting(process).next();
        let this = &mut self.processes[process];
        if (next.is_none() && !this.lease.is_contended()) || this.stays.contains(&claim) {
            return;
        }
        this.claims.insert(claim, State::Waiting { once: false });
        self.passing = true;
        self.drive(process, |lease, cx| lease.abandon(next, cx));
        self.passing = false;
    }

    /// Its callers are no more, and neither is what it knew.
    fn crash(&mut self, process: usize, late: usize) {
        self.disconnect(process, late);
        self.cores += 1;
        let gone = std::mem::replace(&mut self.processes[process], Process::new(self.cores));
        self.server.deaf.insert(gone.core());
        self.processes[process].late = gone.late;
        // What it left on the server stays there for its time.
        self.revived.extend(gone.names.iter().map(|(_, name)| name.clone()));
        self.revived.extend(gone.orphans.into_values().map(|(token, _)| token.to_string()));
        self.revived.extend(gone.given.iter().map(Token::to_string));
        self.revived.extend(gone.adoptions.values().map(|adoption| adoption.to.to_string()));
        self.detached_for.retain(|(other, _), _| *other != process);
    }

    // ----- what a lease wants -------------------------------------------------------------------------------------------

    pub fn drive(&mut self, process: usize, event: impl FnOnce(&mut Lease, &mut Cx<'_>)) {
        let before = self.deadline(process);
        let mut out = Vec::new();
        let this = &mut self.processes[process];
        let (now, told, round_trip) = (self.now, this.listens, Duration::from_millis(1));
        let mut cx = Cx { now, told, round_trip, turns: &mut this.turns, out: &mut out };
        event(&mut this.lease, &mut cx);
        // Whether a caller hears of its lock is an event of its own here.
        this.lease.claimed();
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
                for call in self.calls_about(process, claim) {
                    self.processes[process].claims.insert(call, State::Done);
                }
                let explained = self.explains(process, claim, loss);
                self.must(explained, || format!("{claim:?} is lost, and that isn't {loss:?}"));
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
            Action::Detached { claim, token } => self.detached(process, claim, token, deadline),
            Action::Send { token, op, caller } => self.send(process, token, op, caller),
        }
    }

    fn granted(&mut self, process: usize, claim: ClaimId, fence: u64) {
        let before = self.processes[process].claims.insert(claim, State::Held);
        let adopted = before == Some(State::Adopting);
        if adopted || before == Some(State::Waiting { once: true }) {
            self.processes[process].stays.insert(claim);
        }
        self.must(adopted || matches!(before, Some(State::Waiting { .. })), || {
            format!("{claim:?} is granted as {before:?}")
        });
        let earlier = self.waiting(process).next().filter(|other| *other < claim && !adopted && !self.passing);
        self.must(earlier.is_none(), || format!("{claim:?} is served before {earlier:?}, which came first"));
        let now = self.now;
        let this = &mut self.processes[process];
        this.stalled = false;
        this.fences.insert(claim, fence);
        if let Some(most) = this.bounds.get(&claim) {
            this.until.insert(claim, now + *most);
        }
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
        // An adopted lock keeps the number it had, and nobody got one since.
        let rises = if adopted { fence == last } else { fence > last };
        self.must(rises, || format!("the fencing number {fence} comes after {last}"));
    }

    // ----- time ---------------------------------------------------------------------------------------------------------

    pub fn server_now(&self) -> u64 {
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
            self.look_for_life(process);
            self.drive(process, |lease, cx| lease.tick(cx));
            if self.processes[process].orphans_due.is_some_and(|due| due <= self.now) {
                self.repeat_orphans(process);
            }
        }
    }

    // ----- what must hold -----------------------------------------------------------------------------------------------

    pub fn deadline(&self, process: usize) -> Option<Time> {
        let holder = self.holder(process)?;
        self.processes[process].lease.deadline_of(holder)
    }

    /// Whether a caller of this process may believe, now, that it has the lock.
    pub fn believes(&self, process: usize) -> bool {
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
        self.check_tickets();
        self.check_bounds();
    }

    /// Whose the key is at this moment loses it by no fault of ours.
    fn rob(&mut self) {
        let Some(value) = self.server.value(LOCK).map(str::to_owned) else {
            return;
        };
        for process in &mut self.processes {
            process.robbed |= process.owns(&value);
        }
        self.rob_tickets(&value);
    }

    pub fn must(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
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

    pub fn note(&mut self, line: impl FnOnce() -> String) {
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
    fn new(core: u128) -> Process {
        Process {
            lease: Lease::default(),
            turns: Turns::new(CoreId::new(core)),
            up: false,
            listens: true,
            signals: VecDeque::new(),
            wire: VecDeque::new(),
            answers: VecDeque::new(),
            late: Vec::new(),
            orphans: BTreeMap::new(),
            orphans_due: None,
            claims: BTreeMap::new(),
            names: Vec::new(),
            given: HashSet::new(),
            left: HashSet::new(),
            parking: HashSet::new(),
            adoptions: BTreeMap::new(),
            fences: HashMap::new(),
            until: HashMap::new(),
            bounds: HashMap::new(),
            silent: false,
            stalled: false,
            reserved: HashSet::new(),
            robbed: false,
            polls: 0,
            stays: HashSet::new(),
            core,
        }
    }

    /// As it is written in its tokens.
    pub fn core(&self) -> String {
        format!("{:032x}", self.core)
    }

    pub fn knows(&self, token: Token) -> bool {
        self.names.iter().any(|(name, _)| *name == token)
    }

    fn owns(&self, value: &str) -> bool {
        self.names.iter().any(|(_, name)| name == value)
    }
}
