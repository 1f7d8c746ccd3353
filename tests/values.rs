//! Cached values: both stores keep the same contract, and the rules of loads hold one by one on a server.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/letters.rs"]
#[allow(dead_code)] // the tests of locks use the rest
mod letters;
#[path = "support/seeded.rs"]
mod seeded;
#[path = "support/server.rs"]
#[allow(dead_code)] // the engine's tests use all of it
mod server;

use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_core::lease::{CoreId, Op, Token, Ttl, Turns};
use holdfast_core::link::{Endpoint, Place};
use holdfast_core::store::memory::Memory;
use holdfast_core::store::redis::Single;
use holdfast_core::store::{
    Answer, Command, Entry, Inbox, Load, Lock, Order, Store, ValueAnswer, ValueCommand, ValueNews, ValueOp,
};
use letters::Letters;
use proptest::prelude::*;
use server::Server;

/// The core that listens.
const CORE: u8 = 1;
/// Longer than a test.
const LONG: u64 = 100_000;
const KEPT: u64 = 50_000;

struct Spot {
    store: Arc<dyn Store>,
    letters: Arc<Letters>,
}

/// What a step is about.
#[derive(Clone, Debug)]
enum Step {
    Value(usize, ValueOp),
    /// A take or give of the lock of a load.
    Lock(usize, Token, Op),
    /// The end of a load, and the give of its lock with it.
    End(usize, Token, Load),
}

/// An answer but for what no two servers say the same.
#[derive(Debug, PartialEq)]
enum Said {
    Found(Vec<u8>, Option<u64>),
    Absent,
    Taken,
    Failed(String),
    Done(bool),
    Granted,
    Refused,
}

fn said(answer: ValueAnswer) -> Said {
    match answer {
        // To the nearest of the lifetimes here.
        ValueAnswer::Found(bytes, left) => Said::Found(bytes, left.map(|left| (left + KEPT / 2) / KEPT)),
        ValueAnswer::Absent => Said::Absent,
        ValueAnswer::Taken(_) => Said::Taken,
        ValueAnswer::Failed(words) => Said::Failed(words),
        ValueAnswer::Done(done) => Said::Done(done),
        other => panic!("{other:?}"),
    }
}

impl Spot {
    fn in_memory(name: &str) -> Spot {
        Spot::new(|inbox| Memory::new(name, CoreId::new(CORE.into()), inbox))
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
        Spot::new(|inbox| Single::new(endpoint, "lock:", CoreId::new(CORE.into()), inbox))
    }

    fn new(store: impl FnOnce(Weak<dyn Inbox>) -> Arc<dyn Store>) -> Spot {
        let (store, letters) = letters::open(store);
        Spot { store, letters }
    }

    fn value(&self, key: usize, op: ValueOp) -> Said {
        self.store.submit_value(command(key, op));
        self.store.flush();
        said(self.letters.wait(|told| told.values.pop()).answer)
    }

    fn lock(&self, key: usize, token: Token, op: Op) -> Said {
        self.store.submit(lock_command(key, token, op));
        self.store.flush();
        self.lock_answer()
    }

    fn lock_answer(&self) -> Said {
        match self.letters.wait(|told| told.replies.pop()).answer {
            Answer::Granted { .. } => Said::Granted,
            Answer::Taken { .. } => Said::Refused,
            Answer::Done => Said::Done(true),
            Answer::NotOurs => Said::Done(false),
            other => panic!("{other:?}"),
        }
    }

    /// In one step.
    fn end(&self, key: usize, token: Token, load: Load) -> (Said, Said) {
        self.store.submit_value(command(key, ValueOp::Finish { token, load }));
        self.store.submit(lock_command(key, token, give()));
        self.store.flush();
        let finished = said(self.letters.wait(|told| told.values.pop()).answer);
        (finished, self.lock_answer())
    }

    fn run(&self, step: &Step) -> Vec<Said> {
        match step.clone() {
            Step::Value(key, op) => vec![self.value(key, op)],
            Step::Lock(key, token, op) => vec![self.lock(key, token, op)],
            Step::End(key, token, load) => {
                let (finished, given) = self.end(key, token, load);
                vec![finished, given]
            }
        }
    }

    /// What was said of its own accord, at least so much.
    fn heard(&self, least: usize) -> Vec<(String, ValueNews)> {
        self.letters.wait(|told| (told.value_signals.len() >= least).then(|| std::mem::take(&mut told.value_signals)))
    }
}

/// The load of one key has the name that another key's value would have with the prefix of locks.
fn command(key: usize, op: ValueOp) -> ValueCommand {
    ValueCommand { key: format!("cache:{key}").into(), lock: lock_of(key), op, call: 0 }
}

fn lock_command(key: usize, token: Token, op: Op) -> Command {
    Command { lock: Lock::plain(lock_of(key)), lease: 0, token, op, caller: None }
}

fn lock_of(key: usize) -> Arc<str> {
    format!("lock:load:cache:{key}").into()
}

fn ttl() -> Ttl {
    Ttl::from_millis(60_000)
}

fn take() -> Op {
    Op::Take { ttl: ttl(), block: 1, waits: false }
}

fn give() -> Op {
    Op::Give { ttl: ttl(), tainted: None }
}

fn token(core: u8, turn: u8) -> Token {
    let mut turns = Turns::new(CoreId::new(core.into()));
    let mut token = turns.next(Duration::from_secs(60), true);
    for _ in 0..turn {
        token = turns.next(Duration::from_secs(60), true);
    }
    token
}

fn entry(text: &str, kept: u64) -> Arc<[u8]> {
    Entry { kind: b'j', spent: 3, kept, payload: text.as_bytes() }.to_bytes().into()
}

fn look(token: Option<Token>, backs_off: bool) -> ValueOp {
    ValueOp::Look { token, backs_off, core: CoreId::new(CORE.into()) }
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..2_usize;
    // Another core and this one.
    let token = || (CORE..=2, 0..3_u8).prop_map(|(core, turn)| self::token(core, turn));
    let kept = prop_oneof![Just(0), Just(KEPT)];
    let stored = (0..4_u8, kept).prop_map(|(text, kept)| entry(&text.to_string(), kept));
    // Without end, fresh, or old from the beginning.
    let lasts = || prop_oneof![Just(None), Just(Some(LONG)), Just(Some(KEPT))];
    let load = || {
        prop_oneof![
            5 => (stored.clone(), lasts()).prop_map(|(entry, lasts)| Load::Value(entry, lasts)),
            1 => (0..200_u8).prop_map(Load::Nothing),
            3 => ("[a-c ]{1,3}", prop_oneof![Just(0), Just(LONG)]).prop_map(|(words, ms)| Load::Error(words.into(), ms)),
        ]
    };
    let order = prop_oneof![
        2 => (stored.clone(), lasts()).prop_map(|(entry, lasts)| Order::Set(entry, lasts)),
        1 => Just(Order::Delete),
        2 => Just(Order::Expire),
    ];
    let op = prop_oneof![
        4 => Just(ValueOp::Read),
        5 => (prop::option::of(token()), any::<bool>()).prop_map(|(token, backs_off)| look(token, backs_off)),
        2 => (token(), load()).prop_map(|(token, load)| ValueOp::Finish { token, load }),
        2 => order.prop_map(ValueOp::Overrule),
    ];
    prop_oneof![
        6 => (key.clone(), op).prop_map(|(key, op)| Step::Value(key, op)),
        4 => (key.clone(), token()).prop_map(|(key, token)| Step::Lock(key, token, take())),
        1 => (key.clone(), token()).prop_map(|(key, token)| Step::Lock(key, token, give())),
        3 => (key, token(), load()).prop_map(|(key, token, load)| Step::End(key, token, load)),
    ]
}

#[test]
fn any_sequence_of_commands_is_answered_the_same_in_memory_and_on_a_server() {
    let server = Server::start();
    let there = Spot::on(&server);
    let connection = std::cell::RefCell::new(server.connection());
    let cases = std::cell::Cell::new(0);
    seeded::check(400, prop::collection::vec(step(), 1..40), |steps| {
        cases.set(cases.get() + 1);
        redis::cmd("FLUSHALL").exec(&mut *connection.borrow_mut()).unwrap();
        let here = Spot::in_memory(&format!("values, case {}", cases.get()));
        for step in &steps {
            prop_assert_eq!(here.run(step), there.run(step), "{:?}", step);
        }
        let said = here.heard(0);
        prop_assert_eq!(there.heard(said.len()), said);
        Ok(())
    });
}

#[test]
fn who_waits_is_told_once_of_what_came_of_the_load() {
    let server = Server::start();
    for spot in [Spot::in_memory("told"), Spot::on(&server)] {
        let news = [
            (Load::Value(entry("1", 0), Some(LONG)), ValueNews::Changed),
            (Load::Nothing(b'n'), ValueNews::Nothing(b'n')),
            (Load::Error("no {route}".into(), 0), ValueNews::Error("no {route}".to_owned())),
        ];
        for (key, (load, news)) in news.into_iter().enumerate() {
            let loader = token(2, 0);
            assert_eq!(spot.lock(key, loader, take()), Said::Granted);
            assert_eq!(spot.value(key, look(None, false)), Said::Taken);
            assert_eq!(spot.value(key, look(None, false)), Said::Taken);
            assert_eq!(spot.end(key, loader, load), (Said::Done(true), Said::Done(true)));
            assert_eq!(spot.heard(1), [(format!("cache:{key}"), news)]);
        }
    }
}

#[test]
fn a_load_that_was_overruled_stores_nothing_and_its_lock_is_free() {
    let server = Server::start();
    for spot in [Spot::in_memory("overruled"), Spot::on(&server)] {
        for (key, order) in
            [Order::Delete, Order::Expire, Order::Set(entry("new", 0), Some(LONG))].into_iter().enumerate()
        {
            let (old, new) = (token(2, 0), token(2, 1));
            assert_eq!(spot.lock(key, old, take()), Said::Granted);
            assert_eq!(spot.value(key, look(None, false)), Said::Taken);
            spot.value(key, ValueOp::Overrule(order));
            assert_eq!(spot.heard(1), [(format!("cache:{key}"), ValueNews::Changed)]);
            assert_eq!(spot.lock(key, new, take()), Said::Granted);
            let before = spot.value(key, ValueOp::Read);
            let late = Load::Value(entry("old", 0), Some(LONG));
            assert_eq!(spot.end(key, old, late), (Said::Done(false), Said::Done(false)));
            assert_eq!(spot.value(key, ValueOp::Read), before);
            assert_eq!(spot.end(key, new, Load::Nothing(0)), (Said::Done(true), Said::Done(true)));
        }
    }
}

#[test]
fn data_of_others_is_left_as_it_is_unless_it_is_overruled() {
    let server = Server::start();
    let spot = Spot::on(&server);
    let mut connection = server.connection();
    let mut ask = |words: &[&str]| {
        let mut cmd = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            cmd.arg(*word);
        });
        cmd.query::<redis::Value>(&mut connection).unwrap()
    };
    ask(&["SET", "cache:0", "theirs"]);
    ask(&["RPUSH", "cache:1", "theirs"]);
    for key in 0..2 {
        let loader = token(2, 0);
        assert_eq!(spot.lock(key, loader, take()), Said::Granted);
        let load = Load::Value(entry("ours", 0), Some(LONG));
        spot.store.submit_value(command(key, ValueOp::Finish { token: loader, load }));
        spot.store.submit(lock_command(key, loader, give()));
        spot.store.flush();
        let answer = spot.letters.wait(|told| told.values.pop()).answer;
        assert!(matches!(answer, ValueAnswer::Foreign), "{answer:?}");
        assert_eq!(spot.lock_answer(), Said::Done(true));
    }
    assert_eq!(ask(&["GET", "cache:0"]), redis::Value::BulkString(b"theirs".into()));
    assert_eq!(ask(&["LLEN", "cache:1"]), redis::Value::Int(1));
    for key in 0..2 {
        let order = Order::Set(entry("ours", 0), Some(LONG));
        assert_eq!(spot.value(key, ValueOp::Overrule(order)), Said::Done(true));
        assert!(matches!(spot.value(key, ValueOp::Read), Said::Found(..)));
    }
}

#[test]
fn nothing_beside_a_value_lasts_for_ever() {
    let server = Server::start();
    let spot = Spot::on(&server);
    let loader = token(2, 0);
    spot.value(0, ValueOp::Overrule(Order::Set(entry("old", KEPT), Some(KEPT))));
    assert_eq!(spot.lock(0, loader, take()), Said::Granted);
    assert_eq!(spot.value(0, look(None, true)), Said::Taken);
    let mut connection = server.connection();
    let mut waiters: i64 = redis::cmd("PTTL").arg("lock:~w{0}cache:0").query(&mut connection).unwrap();
    assert!((1..=60_000).contains(&waiters), "{waiters}");
    // No longer than there is an old value.
    assert_eq!(spot.end(0, loader, Load::Error("no".into(), 2 * LONG)), (Said::Done(true), Said::Done(true)));
    let failure: i64 = redis::cmd("PTTL").arg("lock:~e{0}cache:0").query(&mut connection).unwrap();
    assert!((1..=KEPT as i64).contains(&failure), "{failure}");
    waiters = redis::cmd("PTTL").arg("lock:~w{0}cache:0").query(&mut connection).unwrap();
    assert_eq!(waiters, -2);
    assert_eq!(spot.value(0, look(None, true)), Said::Failed("no".to_owned()));
}
