//! The script on a real server, by raw calls: each command, in each state of the key.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/model.rs"]
#[allow(dead_code)] // the simulation uses all of it
mod model;
#[path = "support/script.rs"]
#[allow(dead_code)] // those of the other script use all of it
mod script;
#[path = "support/seeded.rs"]
mod seeded;
#[path = "support/server.rs"]
#[allow(dead_code)] // the engine's tests use all of it
mod server;

use std::cell::RefCell;
use std::collections::HashMap;

use model::{Answer, Command, Model, Signal};
use proptest::prelude::*;
use script::*;
use server::Server;

const FAR: u64 = 100_000;
/// Nobody waits, and no numbers were asked for.
const KEPT: Answer = Answer::Kept { last: 1, more: false };

fn script() -> (Server, Script) {
    let server = Server::start();
    let script = Script::new(&server, "lock:");
    (server, script)
}

fn numbers(outcome: Outcome) -> u64 {
    match outcome {
        Ok(Answer::Granted { last, .. } | Answer::Kept { last, .. }) => last,
        other => panic!("{other:?} instead of numbers"),
    }
}

fn queue(script: &mut Script, lock: &str) -> Vec<String> {
    let queue = script.queue(lock);
    script.ask(&["ZRANGE", &queue, "0", "-1"])
}

#[track_caller]
fn assert_left(script: &mut Script, lock: &str, expected: u64) {
    let left = script.left(lock);
    let expected = expected as i64;
    assert!((expected - 2_000..=expected).contains(&left), "{left} ms are left instead of {expected}");
}

// ----- take -----------------------------------------------------------------------------------------------------------

#[test]
fn a_free_key_is_taken_with_its_ttl_and_a_block_of_numbers() {
    let (_server, mut script) = script();
    let token = token(1, 1);
    let last = numbers(script.run("a", take(&token, FAR, 5), NO_FLOOR));
    assert_eq!(script.value("a").as_ref(), Some(&token));
    assert_left(&mut script, "a", FAR);
    let other = numbers(script.run("b", take(&token, FAR, 1), last));
    assert_eq!(other, last + 1, "one counter for all locks of a prefix");
}

#[test]
fn a_taken_key_is_left_alone_and_its_holder_and_ttl_are_told() {
    let (_server, mut script) = script();
    let (mine, other) = (token(1, 1), token(2, 1));
    let last = numbers(script.run("a", take(&mine, FAR, 3), NO_FLOOR));
    for command in [take(&other, 500, 9), wait(&other, 500, 9)] {
        match script.run("a", command, last) {
            Ok(Answer::Taken { mark, left: Some(left), holder, .. }) => {
                assert_eq!((mark, &holder), (last, &mine), "no number is reserved");
                assert!((FAR - 2_000..=FAR).contains(&left), "{left}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(script.value("a"), Some(mine));
    assert_left(&mut script, "a", FAR);
}

#[test]
fn a_repeated_take_raises_the_ttl_and_reserves_new_numbers() {
    let (_server, mut script) = script();
    let token = token(1, 1);
    let first = numbers(script.run("a", take(&token, FAR, 2), NO_FLOOR));
    script.ask::<()>(&["PEXPIRE", "lock:a", "5000"]);
    for (round, command) in (1..).zip([take, wait, wait]) {
        let last = numbers(script.run("a", command(&token, FAR, 2), first));
        assert_eq!(last, first + 2 * round);
        assert_left(&mut script, "a", FAR);
    }
    // Never shortens.
    numbers(script.run("a", take(&token, 5_000, 1), first));
    assert_left(&mut script, "a", FAR);
}

#[test]
fn a_plain_owner_is_respected_and_named_and_waited_for() {
    let (_server, mut script) = script();
    script.ask::<()>(&["SET", "lock:a", "worker-17", "PX", "5000"]);
    script.ask::<()>(&["SET", "lock:b", "for ever"]);
    let mine = token(1, 1);
    let holder = |outcome| match outcome {
        Ok(Answer::Taken { left, holder, .. }) => (left.is_some(), holder),
        other => panic!("{other:?}"),
    };
    let taken = script.run("a", take(&mine, FAR, 1), NO_FLOOR);
    assert_eq!(holder(taken), (true, "worker-17".to_owned()));
    let taken = script.run("b", wait(&mine, FAR, 1), NO_FLOOR);
    assert_eq!(holder(taken), (false, "for ever".to_owned()));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run("a", keep(&mine, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(queue(&mut script, "b"), [mine.as_str()]);
    assert_eq!(script.value("a").as_deref(), Some("worker-17"));
}

// ----- give, keep, swap -------------------------------------------------------------------------------------------------

#[test]
fn a_give_frees_the_key_once_and_only_its_own() {
    let (_server, mut script) = script();
    let (mine, other) = (token(1, 1), token(1, 2));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
    numbers(script.run("a", take(&mine, FAR, 1), NO_FLOOR));
    // Of the same process, yet another turn.
    assert_eq!(script.run("a", give(&other), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.value("a").as_ref(), Some(&mine));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a"), None);
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
}

#[test]
fn a_keep_raises_what_is_its_own_and_creates_nothing() {
    let (_server, mut script) = script();
    let (mine, other) = (token(1, 1), token(2, 1));
    assert_eq!(script.run("a", keep(&mine, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run("a", keep(&mine, FAR, 4), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.left("a"), -2);
    let last = numbers(script.run("a", take(&mine, 5_000, 1), NO_FLOOR));
    assert_eq!(script.run("a", keep(&other, FAR, 0), last), Ok(Answer::NotOurs));
    assert_left(&mut script, "a", 5_000);
    assert_eq!(script.run("a", keep(&mine, FAR, 0), last), Ok(KEPT));
    assert_left(&mut script, "a", FAR);
    assert_eq!(script.run("a", keep(&mine, 5_000, 0), last), Ok(KEPT));
    assert_left(&mut script, "a", FAR);
    assert_eq!(numbers(script.run("a", keep(&mine, FAR, 4), last)), last + 4);
}

#[test]
fn a_swap_renames_and_shortens_and_may_be_repeated() {
    let (_server, mut script) = script();
    let (mine, new, other) = (token(1, 1), token(1, 2), token(2, 1));
    assert_eq!(script.run("a", swap(&mine, &new, FAR), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.left("a"), -2);
    numbers(script.run("a", take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", swap(&other, &new, 1), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run("a", swap(&mine, &new, 5_000), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a").as_ref(), Some(&new));
    assert_left(&mut script, "a", 5_000);
    // Repeated: the ttl is raised, never shortened.
    assert_eq!(script.run("a", swap(&mine, &new, 20_000), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "a", 20_000);
    assert_eq!(script.run("a", swap(&mine, &new, 5_000), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "a", 20_000);
}

#[test]
fn late_copies_after_a_release_find_nothing_of_theirs() {
    let (_server, mut script) = script();
    let (mine, next) = (token(1, 1), token(2, 1));
    numbers(script.run("a", take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    // The key is free: only a take can bring it back, and the give that is repeated frees it again.
    assert_eq!(script.run("a", keep(&mine, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run("a", swap(&mine, &token(1, 2), FAR), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.left("a"), -2);
    numbers(script.run("a", take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    // The key is somebody else's: nothing of ours touches it.
    numbers(script.run("a", take(&next, 5_000, 1), NO_FLOOR));
    assert!(matches!(script.run("a", take(&mine, FAR, 1), NO_FLOOR), Ok(Answer::Taken { .. })));
    for command in [keep(&mine, FAR, 0), swap(&mine, &token(1, 2), FAR), give(&mine)] {
        assert_eq!(script.run("a", command, NO_FLOOR), Ok(Answer::NotOurs));
    }
    assert_eq!(script.value("a"), Some(next));
    assert_left(&mut script, "a", 5_000);
}

#[test]
fn late_copies_after_a_renaming_don_t_lengthen_the_shortened_lease() {
    let (_server, mut script) = script();
    let (old, new) = (token(1, 1), token(1, 2));
    numbers(script.run("a", take(&old, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", swap(&old, &new, 5_000), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run("a", keep(&old, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
    assert!(matches!(script.run("a", take(&old, FAR, 1), NO_FLOOR), Ok(Answer::Taken { .. })));
    assert_eq!(script.run("a", give(&old), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.value("a"), Some(new));
    assert_left(&mut script, "a", 5_000);
}

// ----- numbers ----------------------------------------------------------------------------------------------------------

#[test]
fn numbers_begin_at_the_clock_and_go_on_one_by_one_once_the_floor_is_known() {
    let (_server, mut script) = script();
    let before = script.clock();
    let first = numbers(script.run("a", take(&token(1, 1), FAR, 10), NO_FLOOR));
    let after = script.clock();
    assert!((before..=after).contains(&(first - 10)), "{first} is not the clock, {before}, and 10");
    let mut last = first;
    for (turn, block) in (2..).zip([1, 64, 3, 1_024, 1]) {
        let lock = format!("lock {turn}");
        assert_eq!(numbers(script.run(&lock, take(&token(1, turn), FAR, block), first)), last + block);
        last += block;
    }
    // Without a floor the clock is read, and is ahead.
    let now = script.clock();
    assert!(numbers(script.run("b", take(&token(1, 9), FAR, 1), NO_FLOOR)) > now.max(last));
    let counter = script.counter();
    let left: i64 = script.ask(&["PTTL", &counter]);
    assert!((86_390_000..=86_400_000).contains(&left), "the counter is forgotten after a day: {left}");
}

#[test]
fn numbers_are_written_in_full() {
    let (_server, mut script) = script();
    let counter = script.counter();
    // The last digits are where a number in exponent form, or one of 14 digits, would differ.
    let large = (1_u64 << 53) - 4_000;
    script.ask::<()>(&["SET", &counter, &large.to_string()]);
    for (turn, block) in (1..).zip([1, 9, 7]) {
        let lock = format!("lock {turn}");
        // The clock is far behind: the counter stays ahead.
        numbers(script.run(&lock, take(&token(1, turn), FAR, block), NO_FLOOR));
    }
    let written: String = script.ask(&["GET", &counter]);
    assert_eq!(written, (large + 17).to_string());
    script.ask::<()>(&["DEL", &counter]);
    let last = numbers(script.run("x", take(&token(1, 8), FAR, 1), NO_FLOOR));
    let written: String = script.ask(&["GET", &counter]);
    assert_eq!(written, last.to_string());
}

#[test]
fn a_lost_counter_comes_back_above_all_earlier_numbers() {
    let (_server, mut script) = script();
    let counter = script.counter();
    let floor = numbers(script.run("a", take(&token(1, 1), FAR, 50), NO_FLOOR));
    let mut last = floor;
    for round in 0..3 {
        match round {
            0 => script.ask::<()>(&["DEL", &counter]),
            1 => script.ask::<()>(&["FLUSHALL"]),
            // From a server that failed over: older than the floor.
            _ => script.ask::<()>(&["SET", &counter, &(floor - 1).to_string()]),
        }
        let lock = format!("lock {round}");
        let first = numbers(script.run(&lock, take(&token(1, round + 2), FAR, 20), floor)) - 19;
        assert!(first > last, "{first} after {last}");
        last = first + 19;
    }
}

#[test]
fn the_number_before_the_block_is_compared_with_the_floor() {
    let (_server, mut script) = script();
    let counter = script.counter();
    let now = script.clock();
    // One below the floor; with the block it would be above it.
    let floor = now - 1_000_000;
    script.ask::<()>(&["SET", &counter, &(floor - 1).to_string()]);
    let first = numbers(script.run("a", take(&token(1, 1), FAR, 64), floor)) - 63;
    assert!(first > now, "{first} was compared with the block counted in");
    // At the floor: believed.
    script.ask::<()>(&["SET", &counter, &floor.to_string()]);
    assert_eq!(numbers(script.run("b", take(&token(1, 2), FAR, 64), floor)), floor + 64);
}

#[test]
fn a_mark_lifts_a_lost_counter() {
    let (_server, mut script) = script();
    let counter = script.counter();
    let last = numbers(script.run("a", take(&token(1, 1), FAR, 50), NO_FLOOR));
    script.ask::<()>(&["DEL", &counter]);
    match script.run("a", take(&token(2, 1), FAR, 50), last) {
        Ok(Answer::Taken { mark, .. }) => {
            assert!(mark > last, "the mark {mark} is below numbers that were given out");
            assert_eq!(script.ask::<u64>(&["GET", &counter]), mark);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_counter_that_is_no_number_fails_the_takes_and_nothing_else() {
    let (_server, mut script) = script();
    let counter = script.counter();
    let (mine, other) = (token(1, 1), token(2, 1));
    numbers(script.run("mine", take(&mine, FAR, 1), NO_FLOOR));
    for (break_it, word) in
        [(&["SET", &counter, "many"][..], "integer"), (&["LPUSH", &counter, "1"][..], "WRONGTYPE")]
    {
        script.ask::<()>(&["DEL", &counter]);
        script.ask::<redis::Value>(break_it);
        let answers = script.burst(
            &[
                ("a", take(&other, FAR, 1)),
                ("mine", keep(&mine, FAR, 0)),
                ("mine", keep(&mine, FAR, 8)),
                ("a", give(&other)),
                ("b", give(&mine)),
            ],
            NO_FLOOR,
        );
        for failed in [0, 2] {
            assert!(matches!(&answers[failed], Err(error) if error.contains(word)), "{answers:?}");
        }
        assert_eq!(answers[1], Ok(KEPT));
        // Whatever the failed take has got, the give takes back.
        assert_eq!(script.value("a"), None);
        assert_eq!(answers[4], Ok(Answer::NotOurs));
    }
}

// ----- trouble ------------------------------------------------------------------------------------------------------------

#[test]
fn a_key_of_another_type_fails_its_own_command_and_leaves_its_neighbours_alone() {
    let (_server, mut script) = script();
    let mine = token(1, 1);
    for lock in ["a", "c", "d", "e"] {
        numbers(script.run(lock, take(&mine, 5_000, 1), NO_FLOOR));
    }
    script.ask::<()>(&["LPUSH", "lock:data", "precious"]);
    let new = token(1, 2);
    for bad in [
        take(&mine, FAR, 1),
        wait(&mine, FAR, 1),
        beat(&mine, 1),
        keep(&mine, FAR, 0),
        swap(&mine, &new, FAR),
        give(&mine),
    ] {
        let answers = script.burst(
            &[
                ("a", keep(&mine, FAR, 0)),
                ("data", bad.clone()),
                ("c", keep(&mine, FAR, 0)),
                ("new", take(&mine, FAR, 1)),
                ("new", give(&mine)),
            ],
            NO_FLOOR,
        );
        assert!(matches!(&answers[1], Err(error) if error.starts_with("WRONGTYPE ")), "{bad:?}: {answers:?}");
        assert_eq!((&answers[0], &answers[2]), (&Ok(KEPT), &Ok(KEPT)));
        numbers(answers[3].clone());
        assert_eq!(answers[4], Ok(Answer::Done));
    }
    assert_left(&mut script, "a", FAR);
    assert_left(&mut script, "c", FAR);
    assert_eq!(script.ask::<Vec<String>>(&["LRANGE", "lock:data", "0", "-1"]), ["precious"]);
}

#[test]
fn without_memory_a_take_is_refused_and_leaves_no_key_while_gives_and_keeps_go_on() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let mut script = Script::new(&server, "lock:");
    let (mine, new, other) = (token(1, 1), token(1, 2), token(2, 1));
    for lock in ["a", "b"] {
        numbers(script.run(lock, take(&mine, 5_000, 1), NO_FLOOR));
    }
    // Less than an empty server has in use.
    script.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    for command in [take(&other, FAR, 1), wait(&other, FAR, 1)] {
        let outcome = script.run("free", command, NO_FLOOR);
        assert!(matches!(&outcome, Err(error) if error.starts_with("OOM ")), "{outcome:?}");
    }
    assert_eq!(script.left("free"), -2);
    assert_eq!(script.run("a", keep(&mine, FAR, 0), NO_FLOOR), Ok(KEPT));
    assert_left(&mut script, "a", FAR);
    assert!(script.run("a", swap(&mine, &new, FAR), NO_FLOOR).is_err());
    assert_eq!(script.value("a").as_ref(), Some(&mine), "a refused renaming changes nothing");
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run("b", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.left("a"), -2);
}

#[test]
fn the_largest_batch_of_keeps_is_answered_one_by_one() {
    let (_server, mut script) = script();
    let mine = token(1, 1);
    let locks: Vec<String> = (0..250).map(|number| format!("lock {number}")).collect();
    for some in locks.chunks(50) {
        let takes: Vec<_> = some.iter().map(|lock| (lock.as_str(), take(&mine, 5_000, 1))).collect();
        script.burst(&takes, NO_FLOOR).into_iter().for_each(|outcome| assert!(numbers(outcome) > 0));
    }
    for gone in [0, 100, 249] {
        script.ask::<()>(&["DEL", &format!("lock:lock {gone}")]);
    }
    let keeps: Vec<_> = locks.iter().map(|lock| (lock.as_str(), keep(&mine, FAR, 0))).collect();
    let answers = script.burst(&keeps, NO_FLOOR);
    for (number, answer) in answers.into_iter().enumerate() {
        let gone = [0, 100, 249].contains(&number);
        assert_eq!(answer, Ok(if gone { Answer::NotOurs } else { KEPT }), "lock {number}");
    }
    for lock in &locks[1..100] {
        assert_left(&mut script, lock, FAR);
    }
}

#[test]
fn commands_of_one_burst_are_executed_in_order() {
    let (_server, mut script) = script();
    let (first, second) = (token(1, 1), token(1, 2));
    let answers = script.burst(
        &[
            ("a", take(&first, FAR, 2)),
            ("a", give(&first)),
            ("a", wait(&second, FAR, 2)),
            ("a", keep(&first, FAR, 0)),
            ("a", keep(&second, FAR, 2)),
        ],
        NO_FLOOR,
    );
    assert_eq!((&answers[1], &answers[3]), (&Ok(Answer::Done), &Ok(Answer::NotOurs)));
    let fences = [0, 2, 4].map(|at| numbers(answers[at].clone()));
    assert!(fences[0] + 2 <= fences[1] && fences[1] + 2 <= fences[2], "{fences:?}");
}

// ----- any sequence -------------------------------------------------------------------------------------------------------

/// What happens to one of two locks; `turn` is one of a few recent turns of a core.
#[derive(Clone, Debug)]
enum Step {
    Take {
        core: u8,
        turn: u64,
        waits: bool,
        ttl: u64,
        block: u64,
    },
    Beat {
        core: u8,
        turn: u64,
        block: u64,
    },
    Give {
        core: u8,
        turn: u64,
    },
    Keep {
        core: u8,
        turn: u64,
        ttl: u64,
        block: u64,
    },
    Swap {
        core: u8,
        turn: u64,
        to: u64,
        ttl: u64,
    },
    /// The lease is over, or an administrator deleted it.
    Gone,
    /// Time passed: this much is left.
    Left {
        ttl: u64,
    },
    Foreign,
    /// The queue is gone.
    Unqueue,
    /// Somebody waits whose release isn't known.
    Stranger,
    /// No memory from now on, or enough again.
    Full(bool),
    /// No right to publish from now on, or again.
    Mute(bool),
    LoseCounter,
    OldCounter {
        by: u64,
    },
    FlushAll,
}

fn step() -> impl Strategy<Value = Step> {
    let core = 1..4_u8;
    let turn = 1..4_u64;
    // Far apart, so that the time a test takes doesn't matter.
    let ttl = (1..6_u64).prop_map(|many| many * 100_000);
    let block = prop_oneof![Just(1_u64), 1..80_u64];
    prop_oneof![
        8 => (core.clone(), turn.clone(), prop::bool::weighted(0.8), ttl.clone(), block)
            .prop_map(|(core, turn, waits, ttl, block)| Step::Take { core, turn, waits, ttl, block }),
        4 => (core.clone(), turn.clone(), 1..20_u64)
            .prop_map(|(core, turn, block)| Step::Beat { core, turn, block }),
        6 => (core.clone(), turn.clone()).prop_map(|(core, turn)| Step::Give { core, turn }),
        3 => (core.clone(), turn.clone(), ttl.clone(), 0..20_u64)
            .prop_map(|(core, turn, ttl, block)| Step::Keep { core, turn, ttl, block }),
        3 => (core, turn.clone(), turn, ttl.clone())
            .prop_map(|(core, turn, to, ttl)| Step::Swap { core, turn, to, ttl }),
        1 => Just(Step::Gone),
        2 => ttl.prop_map(|ttl| Step::Left { ttl }),
        1 => Just(Step::Foreign),
        1 => Just(Step::Unqueue),
        1 => Just(Step::Stranger),
        2 => any::<bool>().prop_map(Step::Full),
        1 => any::<bool>().prop_map(Step::Mute),
        1 => Just(Step::LoseCounter),
        1 => (1..1_000_000_u64).prop_map(|by| Step::OldCounter { by }),
        1 => Just(Step::FlushAll),
    ]
}

/// The script, the model, and what both have said so far.
struct Pair<'a, 'b> {
    script: &'a mut Script,
    model: Model,
    /// The floor a core believes, learnt from the first number it got; a new connection has none.
    floors: HashMap<u8, u64>,
    /// The largest number given out.
    last: u64,
    /// Hears what is said to the core that listens.
    ear: &'a mut redis::PubSub<'b>,
    /// Steps so far.
    steps: u64,
    /// The mark that the ear waits for was sent.
    marked: bool,
}

/// The core that listens; one looks for itself, and of the third nobody hears.
const LISTENS: u8 = 1;
const LOOKS: u8 = 2;

fn name(core: u8, turn: u64) -> String {
    if core == LOOKS { token(core, turn) } else { told(core, turn) }
}

impl Pair<'_, '_> {
    fn step(&mut self, lock: &str, step: &Step) -> Result<(), TestCaseError> {
        let key = self.script.key(lock);
        let queue = self.script.queue(lock);
        let counter = self.script.counter();
        let now = self.script.clock();
        // No two ttls are the same: whether one raises another must not hang on a millisecond.
        self.steps += 1;
        let more = self.steps * 500;
        match *step {
            Step::Take { core, turn, waits, ttl, block } => {
                let (token, ttl) = (name(core, turn), ttl + more);
                self.command(lock, core, Command::Take { token, ttl, block, waits })?;
            }
            Step::Beat { core, turn, block } => self.command(lock, core, beat(&name(core, turn), block))?,
            Step::Give { core, turn } => self.command(lock, core, give(&name(core, turn)))?,
            Step::Keep { core, turn, ttl, block } => {
                self.command(lock, core, keep(&name(core, turn), ttl + more, block))?;
            }
            Step::Swap { core, turn, to, ttl } => {
                self.command(lock, core, swap(&name(core, turn), &name(core, to), ttl + more))?;
            }
            Step::Gone => {
                self.script.ask::<()>(&["DEL", &key]);
                self.model.locks.remove(lock);
            }
            Step::Left { ttl } => {
                let ttl = ttl + more;
                self.script.ask::<()>(&["PEXPIRE", &key, &ttl.to_string()]);
                if let Some(entry) = self.model.locks.get_mut(lock) {
                    entry.ends = now + ttl * 1_000;
                }
            }
            Step::Foreign => {
                self.script.ask::<()>(&["SET", &key, "somebody"]);
                let entry = model::Entry { value: "somebody".to_owned(), ends: u64::MAX };
                self.model.locks.insert(lock.to_owned(), entry);
            }
            Step::Unqueue => {
                self.script.ask::<()>(&["DEL", &queue]);
                self.model.queues.remove(lock);
            }
            Step::Stranger => {
                let score = self.script.ask::<Vec<(String, u64)>>(&["ZRANGE", &queue, "-1", "-1", "WITHSCORES"]);
                let score = score.first().map_or(1, |(_, last)| last + 1).to_string();
                let name = format!("hf9.h.somebody.{score}");
                self.script.ask::<()>(&["ZADD", &queue, &score, &name]);
                self.model.queues.entry(lock.to_owned()).or_default().push(name);
            }
            Step::Full(full) => self.model.full = full,
            Step::Mute(mute) => self.model.mute = mute,
            Step::LoseCounter => {
                self.script.ask::<()>(&["DEL", &counter]);
                self.model.counter = None;
                self.floors.clear();
            }
            Step::OldCounter { by } => {
                // As a server has it that failed over: connections are made anew.
                if let Some(number) = self.model.counter {
                    let old = number.saturating_sub(by);
                    self.script.ask::<()>(&["SET", &counter, &old.to_string()]);
                    self.model.counter = Some(old);
                    self.floors.clear();
                }
            }
            Step::FlushAll => {
                self.script.ask::<()>(&["FLUSHALL"]);
                // Connections stay, and so do the floors: numbers must rise all the same.
                let Model { full, mute, .. } = self.model;
                self.model = Model { deaf: std::mem::take(&mut self.model.deaf), full, mute, ..Model::default() };
            }
        }
        self.compare(lock)
    }

    fn command(&mut self, lock: &str, core: u8, command: Command) -> Result<(), TestCaseError> {
        let floor = self.floors.get(&core).copied().unwrap_or(NO_FLOOR);
        let (counter, before) = (self.model.counter, self.script.clock());
        let outcome = self.run(lock, &command, floor);
        let after = self.script.clock();
        let mut expected = self.model.execute(lock, &command, floor, before);
        let got = match outcome {
            Ok(answer) => answer,
            Err(error) if error.starts_with("OOM ") && self.model.full => Answer::Failed,
            Err(error) => return Err(TestCaseError::fail(error)),
        };
        let mut drift = 0;
        if counter.unwrap_or(0) < floor {
            // Taken from the clock between the two readings; the model goes on with the same.
            let written = self.script.counter();
            let exact: Option<u64> = self.script.ask(&["GET", &written]);
            let off = self.model.counter.zip(exact).map_or(0, |(number, exact)| exact.wrapping_sub(number));
            prop_assert!(
                off <= after - before,
                "{exact:?} isn't {:?} and at most {}",
                self.model.counter,
                after - before
            );
            self.model.counter = exact;
            if let Some(number) = number_of(&mut expected) {
                *number += off;
            }
            drift = off;
        }
        if let (Answer::Taken { mark: said, .. }, Answer::Taken { mark, .. }) = (&got, &mut expected)
            && self.model.full
            && self.model.counter.unwrap_or(0) < floor
        {
            // Of the clock, and not written.
            prop_assert!((*mark..=*mark + (after - before)).contains(said), "{said} instead of {mark}");
            *mark = *said;
        }
        let ends = |answer: &mut Answer| match answer {
            Answer::Taken { left, .. } | Answer::Granted { left, .. } => left.take(),
            _ => None,
        };
        let mut answered = got.clone();
        if let (Some(ours), Some(theirs)) = (ends(&mut expected), ends(&mut answered)) {
            prop_assert!(ours.abs_diff(theirs) < 50_000);
        }
        prop_assert_eq!(&expected, &answered, "{:?}", command);
        for said in std::mem::take(&mut self.model.signals) {
            let heard: String = self.ear.get_message().and_then(|message| message.get_payload()).unwrap();
            let (said, last) = match said {
                Signal::Wanted { token } => (format!("w {token} {}", self.script.key(lock)), None),
                Signal::Granted { token, last, more } => {
                    // The clock was read for it, too.
                    let exact = heard.split(' ').nth(2).and_then(|last| last.parse().ok()).unwrap_or(last);
                    prop_assert!((last..=last + drift).contains(&exact), "{exact} instead of {last}");
                    let last = exact;
                    let more = u8::from(more);
                    (format!("g {token} {last} 16 {more} {}", self.script.key(lock)), Some(last))
                }
            };
            prop_assert_eq!(said, heard);
            if let Some(last) = last {
                prop_assert!(last - 15 > self.last);
                self.last = last;
            }
        }
        let reserved = block(&command);
        if let Answer::Granted { last, .. } | Answer::Kept { last, .. } = got
            && reserved > 0
        {
            let first = last + 1 - reserved;
            prop_assert!(first > self.last, "{} was given out before {}", self.last, first);
            self.last = last;
            if matches!(command, Command::Take { .. }) && floor == NO_FLOOR {
                self.floors.insert(core, last);
            }
        }
        Ok(())
    }

    /// In want of what the model is in want of.
    fn run(&mut self, lock: &str, command: &Command, floor: u64) -> Outcome {
        if self.model.full {
            self.script.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        }
        if self.model.mute {
            self.script.ask::<()>(&["AUTH", "quiet", "any"]);
        }
        let outcome = self.script.run(lock, command.clone(), floor);
        self.script.ask::<()>(&["AUTH", "default", "any"]);
        self.script.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        outcome
    }

    /// The next thing that is heard, at last `mark`.
    fn hear(&mut self, mark: &str) -> String {
        if !std::mem::replace(&mut self.marked, mark == "begin") || mark == "end" {
            let channel = self.script.channel(&format!("{LISTENS:032x}"));
            self.script.ask::<i64>(&["PUBLISH", &channel, mark]);
        }
        self.ear.get_message().and_then(|message| message.get_payload()).unwrap()
    }

    fn compare(&mut self, lock: &str) -> Result<(), TestCaseError> {
        let value = self.script.value(lock);
        prop_assert_eq!(self.model.value(lock), value.as_deref());
        prop_assert_eq!(self.model.queue(lock), queue(self.script, lock));
        let left = self.script.left(lock);
        let now = self.script.clock();
        match self.model.locks.get(lock) {
            None => prop_assert_eq!(left, -2),
            Some(entry) if entry.ends == u64::MAX => prop_assert_eq!(left, -1),
            Some(entry) => {
                let difference = (entry.ends - now) as i64 / 1_000 - left;
                prop_assert!(difference.abs() < 50_000, "{left} ms are left");
            }
        }
        let counter = self.script.counter();
        let number: Option<u64> = self.script.ask(&["GET", &counter]);
        prop_assert_eq!(self.model.counter, number);
        Ok(())
    }
}

fn block(command: &Command) -> u64 {
    match command {
        Command::Take { block, .. } | Command::Beat { block, .. } | Command::Keep { block, .. } => *block,
        _ => 0,
    }
}

fn number_of(answer: &mut Answer) -> Option<&mut u64> {
    match answer {
        Answer::Granted { last, .. } | Answer::Taken { mark: last, .. } => Some(last),
        Answer::Kept { last, .. } if *last > 1 => Some(last),
        _ => None,
    }
}

#[test]
fn any_sequence_of_commands_is_answered_as_the_model_says_and_numbers_rise() {
    let server = Server::start();
    let script = RefCell::new(Script::new(&server, "lock:"));
    let quiet = ["ACL", "SETUSER", "quiet", "on", "nopass", "~*", "+@all", "-publish"];
    script.borrow_mut().ask::<()>(&quiet);
    let core = |core: u8| format!("{core:032x}");
    let mut listening = server.connection();
    let mut ear = listening.as_pubsub();
    ear.subscribe(script.borrow().channel(&core(LISTENS))).unwrap();
    ear.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let ear = RefCell::new(ear);
    let steps = prop::collection::vec((0..2_usize, step()), 1..60);
    seeded::check(120, steps, |steps| {
        let mut script = script.borrow_mut();
        script.ask::<()>(&["FLUSHALL"]);
        let model = Model { deaf: [core(3)].into(), ..Model::default() };
        let mut ear = ear.borrow_mut();
        let mut pair = Pair {
            script: &mut script,
            model,
            floors: HashMap::new(),
            last: 0,
            ear: &mut ear,
            steps: 0,
            marked: false,
        };
        // What a case before has left unheard.
        while pair.hear("begin") != "begin" {}
        for (lock, step) in &steps {
            pair.step(["a", "b"][*lock], step)?;
        }
        let heard = pair.hear("end");
        prop_assert_eq!(heard, "end", "what the model didn't say");
        Ok(())
    });
}
