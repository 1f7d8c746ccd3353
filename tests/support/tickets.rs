//! Locks that go from process to process by a ticket, and what else a holder can do with its lock, in the simulated fleet.

use std::time::Duration;

use holdfast_core::clock::Time;
use holdfast_core::lease::{ClaimId, Loss, Op, Token, Ttl, Turn, Waiter};

use crate::model::{Answer, Entry};
use crate::wire::Sent;
use crate::world::{LOCK, PROCESSES, State, World};

/// A lock that its holder has left.
pub struct Ticket {
    name: Token,
    fence: u64,
    ttl: Ttl,
    /// Until when the key keeps the name, by the server's clock.
    until: u64,
    /// The server has given the key another name.
    used: bool,
    adoptions: u32,
    robbed: bool,
}

/// A ticket that a process turns into a lock.
pub struct Adoption {
    ticket: usize,
    pub to: Token,
    waiter: Waiter,
    asked: bool,
    tainted: Option<Time>,
    robbed: bool,
}

impl World {
    // ----- leaving --------------------------------------------------------------------------------------------------

    pub fn detach(&mut self, process: usize, millis: u32) {
        let Some(claim) = self.holder(process) else {
            return;
        };
        let caller = self.new_claim(process, State::Detaching { of: claim });
        let ttl = Ttl::from_millis(millis);
        self.detached_for.insert((process, caller), ttl);
        self.drive(process, |lease, cx| lease.detach(claim, caller, ttl, cx));
    }

    /// The lease says that the lock is left under a name.
    pub fn detached(&mut self, process: usize, claim: ClaimId, name: Token, deadline: Option<Time>) {
        let before = self.processes[process].claims.insert(claim, State::Done);
        self.must(before == Some(State::Held), || format!("{claim:?} is detached as {before:?}"));
        let now = self.now;
        self.must(deadline.is_some_and(|deadline| now < deadline), || format!("{claim:?} is detached too late"));
        let calls = self.calls_about(process, claim);
        self.must(!calls.is_empty(), || format!("{claim:?} is detached for nobody"));
        let this = &mut self.processes[process];
        for call in &calls {
            this.claims.insert(*call, State::Done);
        }
        // By none of its names is it touched any more.
        this.given.extend(this.names.iter().map(|(name, _)| *name));
        this.left.insert(name);
        let (robbed, fence) = (this.robbed, this.fences.get(&claim).copied().unwrap_or_default());
        let entry = self.server.locks.get(LOCK).filter(|entry| entry.value == name.to_string());
        let until = entry.map_or(0, |entry| entry.ends);
        let ttl = calls.last().and_then(|call| self.detached_for.get(&(process, *call)).copied());
        let ttl = ttl.unwrap_or(Ttl::from_millis(0));
        self.tickets.push(Ticket { name, fence, ttl, until, used: false, adoptions: 0, robbed });
    }

    pub fn calls_about(&self, process: usize, claim: ClaimId) -> Vec<ClaimId> {
        let about = |(call, state): (&ClaimId, &State)| (*state == State::Detaching { of: claim }).then_some(*call);
        self.processes[process].claims.iter().filter_map(about).collect()
    }

    /// A call about a lock has come to something, or to nothing.
    pub fn end_call(&mut self, process: usize, caller: Option<ClaimId>) {
        if let Some(caller) = caller
            && matches!(self.processes[process].claims.get(&caller), Some(State::Detaching { .. }))
        {
            self.processes[process].claims.insert(caller, State::Done);
        }
    }

    /// Nobody waits for what a detach or an adoption comes to any more.
    pub fn give_up_call(&mut self, process: usize, caller: Option<ClaimId>) {
        let Some(caller) = caller else { return };
        match self.processes[process].claims.get(&caller) {
            Some(State::Detaching { of }) => {
                let (of, now) = (*of, self.now);
                self.drive(process, |lease, _| lease.stay(of, now));
            }
            Some(State::Adopting) => {
                if let Some(Adoption { to, waiter, asked: true, tainted, .. }) =
                    self.processes[process].adoptions.remove(&caller)
                {
                    self.give_now(process, to, waiter.ttl, tainted);
                }
            }
            _ => return,
        }
        self.processes[process].claims.insert(caller, State::Done);
    }

    /// The patience of all that ask something about a lock is at its end.
    pub fn give_up(&mut self, process: usize) {
        let calls = self.processes[process].claims.iter();
        let calls: Vec<ClaimId> = calls
            .filter(|(_, state)| matches!(state, State::Detaching { .. } | State::Adopting))
            .map(|(call, _)| *call)
            .collect();
        for call in calls {
            self.give_up_call(process, Some(call));
        }
    }

    // ----- taking over ----------------------------------------------------------------------------------------------

    /// Whatever became of the ticket meanwhile.
    pub fn adopt(&mut self, process: usize, which: usize, millis: u32, renewed: bool, max_hold: Option<u64>) {
        if self.tickets.is_empty() {
            return;
        }
        // The last ones are the most interesting.
        let ticket = self.tickets.len() - 1 - which % self.tickets.len();
        let claim = self.new_claim(process, State::Adopting);
        let max_hold = max_hold.map(Duration::from_millis);
        let (ttl, pause, turn) = (Ttl::from_millis(millis), Duration::ZERO, Turn::default());
        let waiter = Waiter { claim, ttl, once: false, renewed, max_hold, queues: true, pause, turn };
        let this = &mut self.processes[process];
        this.bounds.extend(max_hold.map(|most| (claim, most)));
        let to = this.turns.next(waiter.ttl.claim(), this.listens);
        this.adoptions.insert(claim, Adoption { ticket, to, waiter, asked: false, tainted: None, robbed: false });
        self.send_adoption(process, claim);
    }

    fn send_adoption(&mut self, process: usize, claim: ClaimId) {
        let at = self.now;
        let this = &mut self.processes[process];
        if let Some(adoption) = this.adoptions.get_mut(&claim).filter(|_| this.up) {
            adoption.asked = true;
            let op = Op::Adopt { to: adoption.to, ttl: adoption.waiter.ttl };
            let token = self.tickets[adoption.ticket].name;
            self.push(process, Sent { token, op, caller: Some(claim), at });
        }
    }

    pub fn resume_adoptions(&mut self, process: usize) {
        let all: Vec<ClaimId> = self.processes[process].adoptions.keys().copied().collect();
        for claim in all {
            self.send_adoption(process, claim);
        }
    }

    pub fn adopt_answered(&mut self, process: usize, sent: &Sent, to: Token, ttl: Ttl, answer: Option<Answer>) {
        let now = self.now;
        let adoptions = &mut self.processes[process].adoptions;
        let claim = sent.caller.filter(|claim| adoptions.get(claim).is_some_and(|known| known.to == to));
        let Some(claim) = claim else {
            // Nobody waits for it any more.
            return match answer {
                Some(Answer::Done | Answer::Failed) => self.give_now(process, to, ttl, None),
                None => self.give_now(process, to, ttl, Some(ttl.forgotten(now))),
                _ => {}
            };
        };
        if answer.is_none() {
            if let Some(adoption) = adoptions.get_mut(&claim) {
                adoption.tainted = Some(ttl.forgotten(now));
            }
            return;
        }
        let Some(adoption) = adoptions.remove(&claim) else { return };
        match answer {
            Some(Answer::Done) if now < ttl.deadline(sent.at) => self.adopted(process, &adoption, sent.at),
            Some(Answer::Done | Answer::Failed) => {
                self.give_now(process, to, ttl, None);
                self.processes[process].claims.insert(claim, State::Done);
            }
            _ => {
                self.processes[process].claims.insert(claim, State::Done);
            }
        }
    }

    fn adopted(&mut self, process: usize, adoption: &Adoption, sent: Time) {
        let ticket = &mut self.tickets[adoption.ticket];
        ticket.adoptions += 1;
        let (adoptions, fence, robbed) = (ticket.adoptions, ticket.fence, ticket.robbed || adoption.robbed);
        self.must(adoptions == 1, || format!("a ticket is adopted {adoptions} times"));
        let believes = self.believes(process);
        self.must(!believes, || format!("process {process} adopts what it holds"));
        let this = &mut self.processes[process];
        this.names = vec![(adoption.to, adoption.to.to_string())];
        this.reserved = [fence].into();
        this.robbed = robbed;
        let (to, waiter) = (adoption.to, adoption.waiter);
        self.drive(process, |lease, cx| lease.adopted(to, &waiter, fence, sent, cx));
    }

    /// The server has given a ticket's key another name.
    pub fn ticket_used(&mut self, name: Token) {
        if let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.name == name) {
            ticket.used = true;
        }
    }

    // ----- giving back for later, falling silent ------------------------------------------------------------------------

    pub fn park(&mut self, process: usize, millis: u32) {
        let Some(claim) = self.holder(process) else {
            return;
        };
        let rest = Ttl::from_millis(millis);
        self.drive(process, |lease, cx| lease.park(claim, rest, cx));
        let state = self.processes[process].claims[&claim];
        self.must(state != State::Held, || format!("parking {claim:?} comes to nothing"));
    }

    pub fn silence(&mut self, process: usize, silent: bool) {
        self.processes[process].silent = silent;
    }

    /// A renewal that falls due for a silent holder isn't sent.
    pub fn look_for_life(&mut self, process: usize) {
        let now = self.now;
        let this = &mut self.processes[process];
        if this.silent && this.lease.due_for_renewal(now).is_some() {
            this.lease.stall(now);
            this.stalled = true;
        }
    }

    // ----- what must hold -----------------------------------------------------------------------------------------------

    /// Between a detach that was confirmed and an adoption, or the end of its time, a key keeps the ticket's name, and
    /// nothing lengthens it.
    pub fn check_tickets(&mut self) {
        let now = self.server_now();
        let entry = self.server.locks.get(LOCK).filter(|entry| entry.ends > now).cloned();
        let mut wrong = None;
        for ticket in self.tickets.iter().filter(|ticket| !ticket.used && !ticket.robbed) {
            let name = ticket.name.to_string();
            match &entry {
                Some(Entry { value, ends }) if *value == name => {
                    let too_long = *ends > now + ticket.ttl.server_millis() * 1_000;
                    let text = || format!("the ticket {name} lasts for longer than its {:?}", ticket.ttl);
                    wrong = too_long.then(text).or(wrong);
                }
                _ if now < ticket.until => {
                    wrong =
                        Some(format!("{entry:?} is there although the ticket {name} is good until {}", ticket.until));
                }
                _ => {}
            }
        }
        self.must(wrong.is_none(), || wrong.unwrap_or_default());
    }

    /// Nobody holds for longer than it may.
    pub fn check_bounds(&mut self) {
        for process in 0..PROCESSES {
            let Some(claim) = self.holder(process) else { continue };
            let (deadline, until) = (self.deadline(process), self.processes[process].until.get(&claim).copied());
            let beyond = deadline.zip(until).is_some_and(|(deadline, until)| deadline > until);
            self.must(!beyond, || format!("{claim:?} believes until {deadline:?}, and may hold until {until:?}"));
        }
    }

    /// Whether this is a reason, now, for this loss.
    pub fn explains(&self, process: usize, claim: ClaimId, loss: Loss) -> bool {
        let this = &self.processes[process];
        match loss {
            Loss::MaxHold => this.until.get(&claim).is_some_and(|until| self.now >= *until),
            Loss::Stalled => this.stalled,
            _ => true,
        }
    }

    /// Whose the key is at this moment loses it by no fault of ours.
    pub fn rob_tickets(&mut self, value: &str) {
        for ticket in &mut self.tickets {
            ticket.robbed |= ticket.name.to_string() == value;
        }
        for adoption in self.processes.iter_mut().flat_map(|process| process.adoptions.values_mut()) {
            adoption.robbed |= adoption.to.to_string() == value;
        }
    }

    /// What may be there when everybody is done, and for how long at the most.
    pub fn may_stay(&self, value: &str) -> Option<Ttl> {
        let ticket = self.tickets.iter().find(|ticket| ticket.name.to_string() == value);
        ticket.map(|ticket| ticket.ttl).or_else(|| self.parked.get(value).copied())
    }
}
