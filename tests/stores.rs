//! Both stores keep the same contract: any sequence of commands is answered the same by the one in this process and by a
//! server.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/letters.rs"]
#[allow(dead_code)] // the tests of values use the rest
mod letters;
#[path = "support/seeded.rs"]
mod seeded;
#[path = "support/server.rs"]
#[allow(dead_code)] // the engine's tests use all of it
mod server;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use holdfast_core::lease::{CoreId, Op, Token, Ttl, Turns};
use holdfast_core::link::{Endpoint, Place};
use holdfast_core::store::memory::Memory;
use holdfast_core::store::redis::Single;
use holdfast_core::store::{Answer, Command, Inbox, Keys, Lock, Store};
use letters::Letters;
use proptest::prelude::*;
use server::Server;

/// One store, and the largest number it gave out.
struct Spot {
    store: Arc<dyn Store>,
    letters: Arc<Letters>,
    last: Mutex<u64>,
}

impl Spot {
    fn new(store: impl FnOnce(Weak<dyn Inbox>) -> Arc<dyn Store>) -> Spot {
        let (store, letters) = letters::open(store);
        Spot { store, letters, last: Mutex::new(0) }
    }

    fn run(&self, lock: &Lock, token: Token, op: Op) -> Said {
        let command = Command { lock: lock.clone(), lease: 0, token, op, caller: None };
        self.store.submit(command);
        self.store.flush();
        let reply = self.letters.wait(|told| told.replies.pop());
        let block = match op {
            Op::Take { block, .. } | Op::Beat { block, .. } | Op::Keep { block, .. } => block,
            _ => 0,
        };
        let reserved = |last: u64, block: u32| {
            let first = last + 1 - u64::from(block);
            let before = std::mem::replace(&mut *self.last.lock().unwrap(), last);
            assert!(first > before, "{first} to {last} after {before}");
        };
        match reply.answer {
            Answer::Granted { last, left, more, holds } => {
                reserved(last, block);
                let more = more && lock.plain_key().is_some();
                Said::Granted { holds, more, left: left.map(|left| left.as_millis() as u64) }
            }
            Answer::Kept { last, more } => {
                if block > 0 {
                    reserved(last, block);
                }
                Said::Kept { more }
            }
            Answer::Done => Said::Done,
            Answer::Taken { left, holder, first, .. } => Said::Taken { left, holder, first },
            Answer::NotOurs => Said::NotOurs,
            other => panic!("{op:?} comes to {other:?}"),
        }
    }
}

/// An answer but for what no two servers say the same.
#[derive(Debug)]
enum Said {
    Granted { holds: u32, more: bool, left: Option<u64> },
    Kept { more: bool },
    Done,
    Taken { left: Option<u64>, holder: String, first: bool },
    NotOurs,
}

impl PartialEq for Said {
    fn eq(&self, other: &Said) -> bool {
        let near = |left: &Option<u64>, other: &Option<u64>| match (left, other) {
            (Some(left), Some(other)) => left.abs_diff(*other) < 50_000,
            (left, other) => left == other,
        };
        match (self, other) {
            (
                Said::Granted { holds, more, left },
                Said::Granted { holds: others, more: other_more, left: other_left },
            ) => holds == others && more == other_more && near(left, other_left),
            (Said::Kept { more }, Said::Kept { more: other }) => more == other,
            (Said::Done, Said::Done) | (Said::NotOurs, Said::NotOurs) => true,
            (
                Said::Taken { left, holder, first },
                Said::Taken { left: other_left, holder: other, first: other_first },
            ) => near(left, other_left) && holder == other && first == other_first,
            _ => false,
        }
    }
}

fn in_memory(name: &str) -> Spot {
    Spot::new(|inbox| Memory::new(name, CoreId::new(TOLD.into()), inbox))
}

fn on(server: &Server) -> Spot {
    let endpoint = Endpoint {
        place: Place::Tcp("127.0.0.1".to_owned(), server.port()),
        username: None,
        password: None,
        db: 0,
        tls: None,
        patience: Duration::from_secs(10),
    };
    Spot::new(|inbox| Single::new(endpoint, "lock:", CoreId::new(TOLD.into()), inbox))
}

fn lock(keys: &[&str], owner: &str) -> Lock {
    let keys = Keys::of(keys.iter().map(|key| format!("lock:{key}").into()).collect()).unwrap();
    Lock { keys, owner: (!owner.is_empty()).then(|| owner.into()) }
}

/// The core that listens. One can't be told, and says so; of the others nobody hears.
const TOLD: u8 = 1;
const ASKS: u8 = 2;
/// What is granted in the queue lasts so long at first: longer than a test.
const CLAIM: Duration = Duration::from_secs(60);

/// Turn `turn` of core `core`.
fn token(core: u8, turn: u8) -> Token {
    let mut turns = Turns::new(CoreId::new(core.into()));
    (0..turn).for_each(|_| {
        turns.next(CLAIM, true);
    });
    turns.next(CLAIM, core != ASKS)
}

const SETS: [&[&str]; 6] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &["a", "c"], &["a", "b", "c"]];
const OWNERS: [&str; 3] = ["", "w", "v"];

fn step() -> impl Strategy<Value = (usize, usize, Token, Op)> {
    let token = || (1..4_u8, 0..3_u8).prop_map(|(core, turn)| self::token(core, turn));
    // Far apart, so that the time a test takes doesn't matter.
    let ttl = || (1..6_u32).prop_map(|many| Ttl::from_millis(many * 100_000));
    let op = prop_oneof![
        8 => (ttl(), 1..80_u32, prop::bool::weighted(0.8))
            .prop_map(|(ttl, block, waits)| Op::Take { ttl, block, waits }),
        4 => (ttl(), 1..20_u32).prop_map(|(ttl, block)| Op::Beat { ttl, block }),
        6 => ttl().prop_map(|ttl| Op::Give { ttl, tainted: None }),
        3 => (ttl(), 0..20_u32).prop_map(|(ttl, block)| Op::Keep { ttl, block }),
        2 => (token(), ttl()).prop_map(|(to, ttl)| Op::Swap { to, ttl }),
        1 => (token(), ttl()).prop_map(|(to, ttl)| Op::Adopt { to, ttl }),
        1 => (token(), ttl(), ttl()).prop_map(|(to, rest, ttl)| Op::Park { to, rest, ttl, tainted: None }),
    ];
    (0..SETS.len(), 0..OWNERS.len(), token(), op)
}

#[test]
fn any_sequence_of_commands_is_answered_the_same_in_memory_and_on_a_server() {
    let server = Server::start();
    let there = on(&server);
    let mut connection = server.connection();
    let connection = std::cell::RefCell::new(&mut connection);
    let cases = std::cell::Cell::new(0);
    seeded::check(400, prop::collection::vec(step(), 1..50), |steps| {
        cases.set(cases.get() + 1);
        redis::cmd("FLUSHALL").exec(*connection.borrow_mut()).unwrap();
        let here = in_memory(&format!("case {}", cases.get()));
        for (set, owner, token, op) in steps {
            let lock = lock(SETS[set], OWNERS[owner]);
            prop_assert_eq!(here.run(&lock, token, op), there.run(&lock, token, op), "{:?} of {:?}", op, lock);
        }
        let said = here.letters.wait(|told| Some(std::mem::take(&mut told.signals)));
        let heard =
            there.letters.wait(|told| (told.signals.len() >= said.len()).then(|| std::mem::take(&mut told.signals)));
        prop_assert_eq!(said, heard);
        Ok(())
    });
}

fn granted(holds: u32) -> Said {
    Said::Granted { holds, more: false, left: None }
}

#[test]
fn an_owner_s_hold_that_is_over_is_over_in_both() {
    let server = Server::start();
    for place in [in_memory("over"), on(&server)] {
        let lock = lock(&["a", "b"], "w");
        let take = |millis| Op::Take { ttl: Ttl::from_millis(millis), block: 1, waits: false };
        let [short, long, new] = [token(1, 0), token(2, 0), token(3, 0)];
        assert_eq!(place.run(&lock, short, take(100)), granted(1));
        assert_eq!(place.run(&lock, long, take(10_000)), granted(2));
        // Its ttl and grace.
        std::thread::sleep(Duration::from_millis(120));
        let ttl = Ttl::from_millis(1_000);
        for op in [Op::Keep { ttl, block: 0 }, Op::Keep { ttl, block: 3 }, Op::Adopt { to: new, ttl }] {
            assert_eq!(place.run(&lock, short, op), Said::NotOurs, "{op:?}");
        }
        assert_eq!(place.run(&lock, new, take(10_000)), granted(2));
        let give = Op::Give { ttl, tainted: None };
        assert_eq!(place.run(&lock, short, give), Said::NotOurs);
        for token in [long, new] {
            assert_eq!(place.run(&lock, token, give), Said::Done);
        }
        assert_eq!(place.run(&self::lock(&["a", "b"], ""), short, take(100)), granted(1));
    }
}
