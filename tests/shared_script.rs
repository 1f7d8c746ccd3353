//! The script for locks of several keys and for locks that turns hold together in an owner's name, on a real server, by raw
//! calls: each command, in each state of the keys.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/model.rs"]
#[allow(dead_code)] // the simulation uses all of it
mod model;
#[path = "support/script.rs"]
mod script;
#[path = "support/seeded.rs"]
mod seeded;
#[path = "support/server.rs"]
#[allow(dead_code)] // the engine's tests use all of it
mod server;
#[path = "support/shared_model.rs"]
mod shared_model;

use std::cell::RefCell;
use std::collections::HashMap;

use model::{Answer, Command, Entry, How, Model, Shared};
use proptest::prelude::*;
use script::*;
use server::Server;

const FAR: u64 = 100_000;

fn script() -> (Server, Script) {
    let server = Server::start();
    let script = Script::new(&server, "lock:");
    (server, script)
}

fn set(keys: &[&str]) -> Shared {
    owned(keys, "")
}

fn owned(keys: &[&str], owner: &str) -> Shared {
    Shared { keys: keys.iter().map(|key| (*key).to_owned()).collect(), owner: owner.to_owned() }
}

/// The numbers and holds of a take that is granted.
#[track_caller]
fn joined(outcome: Outcome) -> (u64, u64) {
    match outcome {
        Ok(Answer::Joined { last, holds }) => (last, holds),
        other => panic!("{other:?} instead of numbers"),
    }
}

/// What is left of the lock of another, and whose it is.
#[track_caller]
fn taken(outcome: Outcome) -> (Option<u64>, String) {
    match outcome {
        Ok(Answer::Taken { left, holder, .. }) => (left, holder),
        other => panic!("{other:?} although it is taken"),
    }
}

#[track_caller]
fn assert_left(script: &mut Script, lock: &str, expected: u64) {
    let left = script.left(lock);
    let expected = expected as i64;
    assert!((expected - 2_000..=expected).contains(&left), "{left} ms of {lock} are left instead of {expected}");
}

/// What is there, but for the counter.
fn everything(script: &mut Script) -> Vec<String> {
    let mut keys: Vec<String> = script.ask(&["KEYS", "*"]);
    keys.retain(|key| *key != script.counter());
    keys.sort();
    keys
}

/// The hold of a turn is over, `ago` milliseconds ago.
fn let_expire(script: &mut Script, lock: &str, token: &str, ago: u64) {
    let ends = script.clock() / 1_000 - ago;
    let holds = script.holds(lock);
    assert_eq!(script.ask::<u64>(&["ZADD", &holds, "XX", "CH", &ends.to_string(), token]), 1);
}

// ----- several keys: take ---------------------------------------------------------------------------------------------

#[test]
fn all_keys_of_a_set_are_taken_with_one_block_of_numbers() {
    let (_server, mut script) = script();
    let token = token(1, 1);
    let abc = set(&["a", "b", "c"]);
    let (last, holds) = joined(script.run_shared(&abc, take(&token, FAR, 5), NO_FLOOR));
    assert_eq!(holds, 1);
    for key in ["a", "b", "c"] {
        assert_eq!(script.value(key).as_ref(), Some(&token));
        assert_left(&mut script, key, FAR);
    }
    let (other, _) = joined(script.run_shared(&set(&["d", "e"]), take(&token, FAR, 1), last));
    assert_eq!(other, last + 1, "one counter for all locks of a prefix");
    assert_eq!(everything(&mut script), ["lock:a", "lock:b", "lock:c", "lock:d", "lock:e"]);
}

#[test]
fn of_overlapping_sets_one_is_taken_and_nothing_of_the_other() {
    let (_server, mut script) = script();
    let (mine, other) = (token(1, 1), token(2, 1));
    let (last, _) = joined(script.run_shared(&set(&["b", "c"]), take(&mine, FAR, 1), NO_FLOOR));
    for keys in [&["a", "b"][..], &["c", "d"], &["a", "b", "c", "d"], &["b", "c"], &["a", "c", "z"]] {
        for command in [take(&other, 500, 9), take_again(&other, 500, 9), take_after_own_turn(&other, 500, 9)] {
            let outcome = script.run_shared(&set(keys), command, last);
            assert!(matches!(&outcome, Ok(Answer::Taken { mark, .. }) if *mark == last), "a number is reserved");
            assert_eq!(taken(outcome).1, mine);
        }
    }
    for free in ["a", "d", "z"] {
        assert_eq!(script.left(free), -2, "{free} is taken");
    }
    assert_eq!(script.value("b"), Some(mine));
    assert_left(&mut script, "b", FAR);
    // A set beside it is free.
    joined(script.run_shared(&set(&["a", "d"]), take(&other, FAR, 1), last));
}

#[test]
fn a_key_of_another_type_in_a_set_fails_the_take_and_nothing_is_taken() {
    for place in ["a", "b", "c"] {
        let (_server, mut script) = script();
        let mine = token(1, 1);
        let key = script.key(place);
        script.ask::<()>(&["RPUSH", &key, "precious"]);
        let abc = set(&["a", "b", "c"]);
        let beside = set(&["x", "y"]);
        let new = token(1, 2);
        for bad in [
            take(&mine, FAR, 1),
            take_again(&mine, FAR, 1),
            take_after_own_turn(&mine, FAR, 1),
            keep(&mine, FAR, 0),
            swap(&mine, &new, FAR),
            give(&mine),
        ] {
            let answers = script.burst_shared(
                &[
                    (&beside, take(&mine, FAR, 1)),
                    (&abc, bad.clone()),
                    (&beside, keep(&mine, FAR, 0)),
                    (&beside, give(&mine)),
                ],
                NO_FLOOR,
            );
            // Where another key shows first that it isn't ours, that is answered.
            let refused = matches!(&answers[1], Err(error) if error.starts_with("WRONGTYPE "));
            let not_ours = answers[1] == Ok(Answer::NotOurs) && place != "a" && !matches!(bad, Command::Take { .. });
            assert!(refused || not_ours, "{place}: {bad:?}: {answers:?}");
            joined(answers[0].clone());
            assert_eq!(answers[2..], [Ok(Answer::Done), Ok(Answer::Done)], "its neighbours are left alone");
            assert_eq!(everything(&mut script), std::slice::from_ref(&key));
        }
        assert_eq!(script.ask::<Vec<String>>(&["LRANGE", &key, "0", "-1"]), ["precious"]);
    }
}

#[test]
fn a_foreign_owner_of_one_key_is_respected_and_named_and_no_mark_is_left_for_it() {
    let (_server, mut script) = script();
    let mine = token(1, 1);
    assert_eq!(script.ask::<String>(&["SET", "lock:b", "worker-17", "NX", "PX", "5000"]), "OK");
    let (left, holder) = taken(script.run_shared(&set(&["a", "b"]), take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(holder, "worker-17");
    assert!((3_000..=5_000).contains(&left.unwrap()), "{left:?}");
    assert_eq!(script.run_shared(&set(&["a", "b"]), give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(everything(&mut script), ["lock:b"]);
    // And respects ours, in its own way.
    script.ask::<()>(&["DEL", "lock:b"]);
    joined(script.run_shared(&set(&["a", "b"]), take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.ask::<Option<String>>(&["SET", "lock:b", "worker-17", "NX", "PX", "5000"]), None);
}

#[test]
fn the_time_that_is_left_is_that_of_the_last_key_to_end() {
    let (_server, mut script) = script();
    let abc = set(&["a", "b", "c"]);
    let mine = token(1, 1);
    let set_left = |script: &mut Script, ttls: [Option<u64>; 3]| {
        for (key, ttl) in ["a", "b", "c"].iter().zip(ttls) {
            let key = script.key(key);
            match ttl {
                Some(ttl) => script.ask::<()>(&["SET", &key, &format!("of {key}"), "PX", &ttl.to_string()]),
                None => script.ask::<()>(&["SET", &key, &format!("of {key}")]),
            }
        }
        taken(script.run_shared(&abc, take(&mine, FAR, 1), NO_FLOOR))
    };
    let orders = [[Some(9_000), Some(50_000), Some(20_000)], [Some(50_000), Some(9_000), Some(20_000)]];
    for ttls in orders.into_iter().chain([[Some(9_000), Some(20_000), Some(50_000)]]) {
        let (left, holder) = set_left(&mut script, ttls);
        assert!((48_000..=50_000).contains(&left.unwrap()), "{ttls:?}: {left:?}");
        assert_eq!(holder, "of lock:a", "the first that is in the way");
    }
    // One without an end may be released at any time: there is nothing to sleep for.
    for ttls in
        [[None, Some(50_000), Some(20_000)], [Some(50_000), None, Some(20_000)], [Some(9_000), Some(9_000), None]]
    {
        assert_eq!(set_left(&mut script, ttls).0, None, "{ttls:?}");
    }
}

#[test]
fn a_repeated_take_of_a_set_raises_all_its_ttls_and_reserves_new_numbers() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let token = token(1, 1);
    let (first, _) = joined(script.run_shared(&ab, take(&token, FAR, 2), NO_FLOOR));
    for (round, command) in (1..).zip([take, take_again, take_after_own_turn]) {
        script.ask::<()>(&["PEXPIRE", "lock:b", "5000"]);
        let (last, _) = joined(script.run_shared(&ab, command(&token, FAR, 2), first));
        assert_eq!(last, first + 2 * round);
        for key in ["a", "b"] {
            assert_left(&mut script, key, FAR);
        }
    }
    // Never shortens.
    joined(script.run_shared(&ab, take(&token, 5_000, 1), first));
    assert_left(&mut script, "a", FAR);
    // A key that is gone is taken again: the copy that came first may be one of those.
    script.ask::<()>(&["DEL", "lock:a"]);
    joined(script.run_shared(&ab, take(&token, 5_000, 1), first));
    assert_left(&mut script, "a", 5_000);
    assert_left(&mut script, "b", FAR);
}

#[test]
fn a_set_stands_back_for_another_process_that_asked_for_one_of_its_keys_in_vain() {
    let (_server, mut script) = script();
    let abc = set(&["a", "b", "c"]);
    let (mine, again, other) = (token(1, 1), token(1, 2), token(2, 1));
    joined(script.run_shared(&abc, take(&mine, FAR, 1), NO_FLOOR));
    // A mark of its own process doesn't count.
    script.run_shared(&set(&["a", "b"]), take(&token(1, 9), FAR, 1), NO_FLOOR).unwrap();
    let answers = script.burst_shared(&[(&abc, give(&mine)), (&abc, take_after_own_turn(&again, FAR, 1))], NO_FLOOR);
    joined(answers[1].clone());
    // Another process wants one of the keys, as a lock of one key.
    script.run("b", take(&other, FAR, 1), NO_FLOOR).unwrap();
    let third = token(1, 3);
    let answers = script.burst_shared(&[(&abc, give(&again)), (&abc, take_after_own_turn(&third, FAR, 1))], NO_FLOOR);
    assert_eq!(taken(answers[1].clone()), (None, String::new()), "free at any time, and nobody's");
    for key in ["a", "b", "c"] {
        assert_eq!(script.left(key), -2);
    }
    // Granted to whom it was kept for, and its mark is gone.
    assert!(matches!(script.run("b", take_again(&other, FAR, 1), NO_FLOOR), Ok(Answer::Numbers(_))));
    let marks = [script.wanted("a"), script.wanted("b")];
    assert_eq!(script.ask::<u64>(&["EXISTS", &marks[1]]), 0);
    assert_eq!(script.ask::<u64>(&["EXISTS", &marks[0]]), 1);
}

#[test]
fn who_asks_for_a_set_in_vain_marks_the_keys_that_are_in_the_way() {
    let (_server, mut script) = script();
    let (mine, other) = (token(1, 1), token(2, 1));
    joined(script.run_shared(&set(&["b", "c"]), take(&mine, FAR, 1), NO_FLOOR));
    taken(script.run_shared(&set(&["a", "b", "c", "d"]), take(&other, FAR, 1), NO_FLOOR));
    let marks: Vec<Option<String>> = ["a", "b", "c", "d"]
        .iter()
        .map(|key| {
            let mark = script.wanted(key);
            script.ask(&["GET", &mark])
        })
        .collect();
    assert_eq!(marks, [None, Some(other.clone()), Some(other.clone()), None]);
    let mark = script.wanted("b");
    let left: i64 = script.ask(&["PTTL", &mark]);
    assert!((1..=1_500).contains(&left), "{left}");
    // Who had it last stands back, and its first attempt as the one in vain takes the marks away.
    script.run_shared(&set(&["b", "c"]), give(&mine), NO_FLOOR).unwrap();
    joined(script.run_shared(&set(&["a", "b", "c", "d"]), take_again(&other, FAR, 1), NO_FLOOR));
    assert_eq!(everything(&mut script), ["lock:a", "lock:b", "lock:c", "lock:d"]);
}

// ----- several keys: give, keep, swap -----------------------------------------------------------------------------------

#[test]
fn a_give_frees_all_keys_once_and_only_its_own() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let (mine, other) = (token(1, 1), token(1, 2));
    joined(script.run_shared(&ab, take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run_shared(&ab, give(&other), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.value("a").as_ref(), Some(&mine));
    assert_eq!(script.run_shared(&ab, give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run_shared(&ab, give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(everything(&mut script), Vec::<String>::new());
}

#[test]
fn a_set_of_which_a_key_is_gone_or_another_s_is_lost_and_the_give_frees_the_rest() {
    for gone in ["a", "b", "c"] {
        for robber in [None, Some("somebody")] {
            let (_server, mut script) = script();
            let abc = set(&["a", "b", "c"]);
            let (mine, new) = (token(1, 1), token(1, 2));
            let (last, _) = joined(script.run_shared(&abc, take(&mine, 50_000, 1), NO_FLOOR));
            let key = script.key(gone);
            match robber {
                None => script.ask::<()>(&["DEL", &key]),
                Some(robber) => script.ask::<()>(&["SET", &key, robber]),
            }
            for command in [keep(&mine, FAR, 0), keep(&mine, FAR, 8), swap(&mine, &new, FAR)] {
                assert_eq!(script.run_shared(&abc, command, last), Ok(Answer::NotOurs));
            }
            // Nothing was raised, renamed or created for it.
            for key in ["a", "b", "c"].iter().filter(|key| **key != gone) {
                assert_eq!(script.value(key).as_ref(), Some(&mine));
                assert_left(&mut script, key, 50_000);
            }
            assert_eq!(script.value(gone).as_deref(), robber);
            assert_eq!(script.run_shared(&abc, give(&mine), last), Ok(Answer::NotOurs));
            let rest = if robber.is_some() { vec![key] } else { Vec::new() };
            assert_eq!(everything(&mut script), rest);
        }
    }
}

#[test]
fn a_keep_of_a_set_raises_and_never_shortens() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let mine = token(1, 1);
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 4), NO_FLOOR), Ok(Answer::NotOurs));
    let (last, _) = joined(script.run_shared(&ab, take(&mine, 5_000, 1), NO_FLOOR));
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 0), last), Ok(Answer::Done));
    assert_eq!(script.run_shared(&ab, keep(&mine, 5_000, 4), last), Ok(Answer::Numbers(last + 4)));
    for key in ["a", "b"] {
        assert_left(&mut script, key, FAR);
    }
    assert_eq!(everything(&mut script), ["lock:a", "lock:b"], "no set of holds");
}

#[test]
fn a_swap_renames_and_shortens_all_keys_and_may_be_repeated() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let (mine, new, other) = (token(1, 1), token(1, 2), token(2, 1));
    assert_eq!(script.run_shared(&ab, swap(&mine, &new, FAR), NO_FLOOR), Ok(Answer::NotOurs));
    joined(script.run_shared(&ab, take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run_shared(&ab, swap(&other, &new, 1), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run_shared(&ab, swap(&mine, &new, 5_000), NO_FLOOR), Ok(Answer::Done));
    for key in ["a", "b"] {
        assert_eq!(script.value(key).as_ref(), Some(&new));
        assert_left(&mut script, key, 5_000);
    }
    assert_eq!(script.run_shared(&ab, swap(&mine, &new, 20_000), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "b", 20_000);
    assert_eq!(script.run_shared(&ab, swap(&mine, &new, 5_000), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "a", 20_000);
    // A ticket is adopted once.
    let (first, second) = (token(2, 7), token(3, 7));
    assert_eq!(script.run_shared(&ab, swap(&new, &first, FAR), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run_shared(&ab, swap(&new, &second, FAR), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run_shared(&ab, swap(&new, &first, FAR), NO_FLOOR), Ok(Answer::Done));
    // Late copies of what went before find nothing of theirs.
    for late in [keep(&mine, FAR, 0), give(&mine), give(&new), swap(&mine, &new, FAR)] {
        assert_eq!(script.run_shared(&ab, late, NO_FLOOR), Ok(Answer::NotOurs));
    }
    assert_eq!(script.value("a"), Some(first));
}

#[test]
fn late_copies_after_a_set_was_released_find_nothing_of_theirs() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let (mine, next) = (token(1, 1), token(2, 1));
    joined(script.run_shared(&ab, take(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run_shared(&ab, give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(everything(&mut script), Vec::<String>::new());
    // One of the keys is somebody else's by now.
    assert!(matches!(script.run("b", take(&next, 5_000, 1), NO_FLOOR), Ok(Answer::Numbers(_))));
    taken(script.run_shared(&ab, take(&mine, FAR, 1), NO_FLOOR));
    for command in [keep(&mine, FAR, 0), swap(&mine, &token(1, 2), FAR), give(&mine)] {
        assert_eq!(script.run_shared(&ab, command, NO_FLOOR), Ok(Answer::NotOurs));
    }
    assert_eq!((script.left("a"), script.value("b")), (-2, Some(next)));
    assert_left(&mut script, "b", 5_000);
}

// ----- owners -----------------------------------------------------------------------------------------------------------

#[test]
fn turns_of_one_owner_hold_together_until_the_last_gives() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let (one, two, three) = (token(1, 1), token(2, 1), token(3, 1));
    let (first, holds) = joined(script.run_shared(&lock, take(&one, FAR, 3), NO_FLOOR));
    assert_eq!((holds, script.value("a").as_deref()), (1, Some("hf1.o.w")));
    let (second, holds) = joined(script.run_shared(&lock, take(&two, 50_000, 2), first));
    assert_eq!((second, holds), (first + 2, 2));
    assert_left(&mut script, "a", FAR);
    // Everybody else is kept out: other owners, nobody in particular, sets, and those who know nothing of all this.
    for other in [owned(&["a"], "v"), owned(&["a"], "W"), set(&["a"]), set(&["a", "b"])] {
        assert_eq!(taken(script.run_shared(&other, take(&three, FAR, 1), first)).1, "hf1.o.w");
    }
    assert!(matches!(script.run("a", take(&three, FAR, 1), first), Ok(Answer::Taken { .. })));
    assert_eq!(script.ask::<Option<String>>(&["SET", "lock:a", "x", "NX"]), None);
    // Nor does a turn of the owner have it by its name alone.
    assert_eq!(script.run_shared(&lock, give(&three), first), Ok(Answer::NotOurs));
    assert_eq!(script.run_shared(&lock, keep(&three, FAR, 0), first), Ok(Answer::NotOurs));

    assert_eq!(script.run_shared(&lock, give(&one), first), Ok(Answer::Done));
    assert_left(&mut script, "a", 50_000);
    assert_eq!(taken(script.run_shared(&set(&["a"]), take(&three, FAR, 1), first)).1, "hf1.o.w");
    assert_eq!(script.run_shared(&lock, give(&two), first), Ok(Answer::Done));
    let mark = script.wanted("a");
    assert_eq!(everything(&mut script), [mark], "nothing but the mark of who asked in vain");
    joined(script.run_shared(&owned(&["a"], "v"), take(&three, FAR, 1), first));
}

#[test]
fn what_is_sent_twice_counts_once() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let (one, two) = (token(1, 1), token(2, 1));
    joined(script.run_shared(&lock, take(&one, FAR, 1), NO_FLOOR));
    for command in [take, take_again, take_after_own_turn] {
        assert_eq!(joined(script.run_shared(&lock, command(&two, FAR, 1), NO_FLOOR)).1, 2);
    }
    for command in [keep(&two, FAR, 0), keep(&two, 50_000, 0)] {
        assert_eq!(script.run_shared(&lock, command, NO_FLOOR), Ok(Answer::Done));
    }
    let holds = script.holds("a");
    assert_eq!(script.ask::<u64>(&["ZCARD", &holds]), 2);
    assert_eq!(script.run_shared(&lock, give(&one), NO_FLOOR), Ok(Answer::Done));
    for _ in 0..3 {
        assert_eq!(
            script.run_shared(&lock, give(&one), NO_FLOOR),
            Ok(Answer::NotOurs),
            "the hold of another is left"
        );
    }
    assert_eq!(script.ask::<Vec<String>>(&["ZRANGE", &holds, "0", "-1"]), std::slice::from_ref(&two));
    assert_eq!(joined(script.run_shared(&lock, take(&two, FAR, 1), NO_FLOOR)).1, 1);
}

#[test]
fn a_late_keep_of_an_owner_s_turn_doesn_t_bring_it_back() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let (one, two) = (token(1, 1), token(2, 1));
    for token in [&one, &two] {
        joined(script.run_shared(&lock, take(token, FAR, 1), NO_FLOOR));
    }
    assert_eq!(script.run_shared(&lock, give(&one), NO_FLOOR), Ok(Answer::Done));
    for late in [keep(&one, FAR, 0), keep(&one, FAR, 3), swap(&one, &token(1, 2), FAR)] {
        assert_eq!(script.run_shared(&lock, late, NO_FLOOR), Ok(Answer::NotOurs));
    }
    assert_eq!(script.run_shared(&lock, give(&two), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(everything(&mut script), Vec::<String>::new());
}

#[test]
fn a_hold_that_is_over_stops_counting_and_can_t_be_kept_or_taken_over() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let (one, two, three) = (token(1, 1), token(2, 1), token(3, 1));
    joined(script.run_shared(&lock, take(&one, FAR, 1), NO_FLOOR));
    joined(script.run_shared(&lock, take(&two, 50_000, 1), NO_FLOOR));
    // Its holder crashed; nobody has looked since.
    let_expire(&mut script, "a", &one, 1);
    assert_eq!(script.run_shared(&lock, keep(&one, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs), "it is over");
    let_expire_again(&mut script, &one);
    assert_eq!(script.run_shared(&lock, swap(&one, &three, FAR), NO_FLOOR), Ok(Answer::NotOurs), "nor adopted");
    let_expire_again(&mut script, &one);
    assert_eq!(joined(script.run_shared(&lock, take(&three, 20_000, 1), NO_FLOOR)).1, 2);
    // And the lock ends with the longest of those that are left.
    assert_left(&mut script, "a", 50_000);
    assert_eq!(script.run_shared(&lock, give(&two), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "a", 20_000);
    let_expire(&mut script, "a", &three, 1);
    assert_eq!(script.run_shared(&lock, give(&three), NO_FLOOR), Ok(Answer::NotOurs));
}

/// The script may have swept it out.
fn let_expire_again(script: &mut Script, token: &str) {
    let ends = script.clock() / 1_000 - 1;
    let holds = script.holds("a");
    script.ask::<()>(&["ZADD", &holds, &ends.to_string(), token]);
}

#[test]
fn the_count_starts_anew_when_the_key_is_gone() {
    for (gone, expected) in [("lock:a", 1), ("lock:~h{0}lock:a", 1)] {
        let (_server, mut script) = script();
        let lock = owned(&["a"], "w");
        let (one, two, three) = (token(1, 1), token(2, 1), token(3, 1));
        for token in [&one, &two] {
            joined(script.run_shared(&lock, take(token, FAR, 1), NO_FLOOR));
        }
        script.ask::<()>(&["DEL", gone]);
        // Those who had it find out.
        assert_eq!(script.run_shared(&lock, keep(&one, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
        assert_eq!(joined(script.run_shared(&lock, take(&three, FAR, 1), NO_FLOOR)).1, expected);
        assert_eq!(script.run_shared(&lock, keep(&two, FAR, 0), NO_FLOOR), Ok(Answer::NotOurs));
        assert_eq!(script.run_shared(&lock, give(&two), NO_FLOOR), Ok(Answer::NotOurs));
        assert_eq!(script.run_shared(&lock, give(&three), NO_FLOOR), Ok(Answer::Done));
        assert_eq!(everything(&mut script), Vec::<String>::new());
    }
}

#[test]
fn the_key_and_its_holds_end_together() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let token = token(1, 1);
    joined(script.run_shared(&lock, take(&token, 40_000, 1), NO_FLOOR));
    let both = |script: &mut Script| {
        let holds = script.holds("a");
        (script.left("a"), script.ask::<i64>(&["PTTL", &holds]))
    };
    for command in [take(&token, FAR, 1), keep(&token, 2 * FAR, 0), swap(&token, &crate::token(1, 2), 30_000)] {
        script.run_shared(&lock, command, NO_FLOOR).unwrap();
        let (key, holds) = both(&mut script);
        assert!((key - holds).abs() <= 2, "{key} and {holds} ms are left");
    }
    assert_left(&mut script, "a", 30_000);
}

#[test]
fn an_owner_s_turn_is_renamed_alone_and_adopted_once() {
    let (_server, mut script) = script();
    let lock = owned(&["a", "b"], "w");
    let (one, two, ticket) = (token(1, 1), token(2, 1), token(1, 2));
    for token in [&one, &two] {
        joined(script.run_shared(&lock, take(token, 20_000, 1), NO_FLOOR));
    }
    // Also shorter: the other's hold keeps the key for its own time.
    assert_eq!(script.run_shared(&lock, swap(&one, &ticket, 5_000), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "a", 20_000);
    for _ in 0..2 {
        assert_eq!(script.run_shared(&lock, swap(&one, &ticket, 50_000), NO_FLOOR), Ok(Answer::Done), "repeated");
        assert_left(&mut script, "b", 50_000);
    }
    let (first, second) = (token(3, 1), token(4, 1));
    assert_eq!(script.run_shared(&lock, swap(&ticket, &first, FAR), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.run_shared(&lock, swap(&ticket, &second, FAR), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run_shared(&lock, give(&ticket), NO_FLOOR), Ok(Answer::NotOurs));
    let holds = script.holds("b");
    let mut names: Vec<String> = script.ask(&["ZRANGE", &holds, "0", "-1"]);
    names.sort();
    assert_eq!(names, [two, first]);
}

#[test]
fn an_owner_with_several_sets_is_told_the_most_holds() {
    let (_server, mut script) = script();
    let (ab, bc) = (owned(&["a", "b"], "w"), owned(&["b", "c"], "w"));
    let (one, two) = (token(1, 1), token(2, 1));
    joined(script.run_shared(&ab, take(&one, FAR, 1), NO_FLOOR));
    assert_eq!(joined(script.run_shared(&bc, take(&two, FAR, 1), NO_FLOOR)).1, 2, "it shares one of the keys");
    assert_eq!(script.run_shared(&ab, give(&one), NO_FLOOR), Ok(Answer::Done));
    assert_eq!((script.left("a"), script.value("b").as_deref()), (-2, Some("hf1.o.w")));
    assert_eq!(script.run_shared(&bc, give(&two), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(everything(&mut script), Vec::<String>::new());
}

#[test]
fn owners_plain_locks_and_sets_exclude_each_other_and_share_their_numbers() {
    let (_server, mut script) = script();
    let (owner, both, turn) = (owned(&["a"], "w"), set(&["a", "b"]), |turn| token(1, turn));
    let mut last = 0;
    for round in 0..3 {
        let (first, second, third) = (turn(3 * round + 1), turn(3 * round + 2), turn(3 * round + 3));
        let Ok(Answer::Numbers(number)) = script.run("a", take(&first, FAR, 2), NO_FLOOR) else { panic!() };
        assert!(number - 1 > last);
        assert_eq!(taken(script.run_shared(&owner, take(&second, FAR, 1), NO_FLOOR)).1, first);
        assert_eq!(taken(script.run_shared(&both, take(&second, FAR, 1), NO_FLOOR)).1, first);
        assert_eq!(script.run("a", give(&first), NO_FLOOR), Ok(Answer::Done));

        let (numbers, _) = joined(script.run_shared(&owner, take(&second, FAR, 3), NO_FLOOR));
        assert!(numbers - 2 > number);
        assert_eq!(taken(script.run_shared(&both, take(&third, FAR, 1), NO_FLOOR)).1, "hf1.o.w");
        assert!(matches!(script.run("a", take(&third, FAR, 1), NO_FLOOR), Ok(Answer::Taken { .. })));
        // The plain script doesn't take an owner's lock for its own, whatever token it is asked about.
        for command in [give(&second), keep(&second, FAR, 0)] {
            assert_eq!(script.run("a", command, NO_FLOOR), Ok(Answer::NotOurs));
        }
        assert_eq!(script.run_shared(&owner, give(&second), NO_FLOOR), Ok(Answer::Done));

        let (numbers_of_both, _) = joined(script.run_shared(&both, take(&third, FAR, 4), NO_FLOOR));
        assert!(numbers_of_both - 3 > numbers);
        for key in ["a", "b"] {
            assert!(matches!(script.run(key, take(&first, FAR, 1), NO_FLOOR), Ok(Answer::Taken { .. })));
            assert_eq!(taken(script.run_shared(&owned(&[key], "w"), take(&first, FAR, 1), NO_FLOOR)).1, third);
        }
        assert_eq!(script.run_shared(&both, give(&third), NO_FLOOR), Ok(Answer::Done));
        last = numbers_of_both;
    }
}

#[test]
fn an_owner_called_as_a_token_is_written_doesn_t_pass_for_a_turn() {
    let (_server, mut script) = script();
    let one = token(1, 1);
    let impostor = owned(&["a"], &one);
    joined(script.run_shared(&impostor, take(&token(2, 1), FAR, 1), NO_FLOOR));
    assert!(matches!(script.run("a", take(&one, FAR, 1), NO_FLOOR), Ok(Answer::Taken { .. })));
    assert_eq!(script.run("a", give(&one), NO_FLOOR), Ok(Answer::NotOurs));
}

// ----- trouble ----------------------------------------------------------------------------------------------------------

#[test]
fn without_memory_nothing_of_a_set_is_taken_while_gives_and_keeps_go_on() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let mut script = Script::new(&server, "lock:");
    let (mine, new, other) = (token(1, 1), token(1, 2), token(2, 1));
    let (ab, cd, ow) = (set(&["a", "b"]), set(&["c", "d"]), owned(&["o"], "w"));
    joined(script.run_shared(&ab, take(&mine, 5_000, 1), NO_FLOOR));
    for token in [&mine, &other] {
        joined(script.run_shared(&ow, take(token, 5_000, 1), NO_FLOOR));
    }
    let before = everything(&mut script);
    // Less than an empty server has in use.
    script.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let third = token(3, 1);
    for lock in [&cd, &set(&["c"])] {
        for command in [take(&third, FAR, 1), take_again(&third, FAR, 1), take_after_own_turn(&third, FAR, 1)] {
            let outcome = script.run_shared(lock, command, NO_FLOOR);
            assert!(matches!(&outcome, Err(error) if error.starts_with("OOM ")), "{lock:?}: {outcome:?}");
        }
    }
    // Where something was freed or raised first, the server lets the rest pass: never a half of it.
    for lock in [&owned(&["c", "d"], "w"), &ow] {
        if script.run_shared(lock, take(&third, FAR, 1), NO_FLOOR).is_ok() {
            assert_eq!(script.run_shared(lock, keep(&third, FAR, 0), NO_FLOOR), Ok(Answer::Done));
            assert_eq!(script.run_shared(lock, give(&third), NO_FLOOR), Ok(Answer::Done));
        }
    }
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 0), NO_FLOOR), Ok(Answer::Done));
    assert_left(&mut script, "b", FAR);
    assert!(script.run_shared(&ab, swap(&mine, &new, FAR), NO_FLOOR).is_err());
    for key in ["a", "b"] {
        assert_eq!(script.value(key).as_ref(), Some(&mine), "a refused renaming changes nothing");
    }
    let name = if script.run_shared(&ow, swap(&mine, &new, FAR), NO_FLOOR).is_ok() { &new } else { &mine };
    assert_eq!(
        script.run_shared(&ow, keep(name, 5_000, 0), NO_FLOOR),
        Ok(Answer::Done),
        "it has the one or the other"
    );
    assert_eq!(everything(&mut script), before);
    for (lock, token) in [(&ab, &mine), (&ow, name), (&ow, &other)] {
        assert_eq!(script.run_shared(lock, give(token), NO_FLOOR), Ok(Answer::Done));
    }
    assert_eq!(everything(&mut script), Vec::<String>::new());
}

#[test]
fn an_owner_s_holds_of_another_type_fail_their_commands_and_leave_their_neighbours_alone() {
    let (_server, mut script) = script();
    let (mine, beside) = (token(1, 1), set(&["x", "y"]));
    let lock = owned(&["a"], "w");
    joined(script.run_shared(&lock, take(&mine, FAR, 1), NO_FLOOR));
    let holds = script.holds("a");
    script.ask::<()>(&["SET", &holds, "not a sorted set"]);
    for bad in [take(&mine, FAR, 1), keep(&mine, FAR, 0), give(&mine)] {
        let answers =
            script.burst_shared(&[(&beside, take(&mine, FAR, 1)), (&lock, bad), (&beside, give(&mine))], NO_FLOOR);
        assert!(matches!(&answers[1], Err(error) if error.starts_with("WRONGTYPE ")), "{answers:?}");
        assert_eq!(answers[2], Ok(Answer::Done));
    }
}

#[test]
fn commands_of_sets_and_owners_in_one_burst_are_executed_in_order() {
    let (_server, mut script) = script();
    let (ab, ow) = (set(&["a", "b"]), owned(&["b", "c"], "w"));
    let (first, second, third) = (token(1, 1), token(1, 2), token(1, 3));
    let answers = script.burst_shared(
        &[
            (&ab, take(&first, FAR, 2)),
            (&ow, take(&second, FAR, 2)),
            (&ab, give(&first)),
            (&ow, take(&second, FAR, 2)),
            (&ow, take_again(&third, FAR, 1)),
            (&ow, keep(&second, FAR, 4)),
            (&ow, give(&second)),
            (&ow, give(&third)),
            (&ab, take(&first, FAR, 1)),
        ],
        NO_FLOOR,
    );
    let numbers = [0, 3, 4, 8].map(|at| joined(answers[at].clone()));
    assert!(numbers.windows(2).all(|pair| pair[0].0 < pair[1].0), "{numbers:?}");
    assert_eq!(numbers.map(|(_, holds)| holds), [1, 1, 2, 1]);
    assert_eq!(taken(answers[1].clone()).1, first);
    assert!(matches!(answers[5], Ok(Answer::Numbers(last)) if last - 3 > numbers[2].0));
    assert_eq!([&answers[2], &answers[6], &answers[7]], [&Ok(Answer::Done); 3]);
}

// ----- any sequence -----------------------------------------------------------------------------------------------------

const KEYS: [&str; 3] = ["a", "b", "c"];
const SETS: [&[&str]; 6] = [&["a"], &["b"], &["a", "b"], &["b", "c"], &["a", "c"], &["a", "b", "c"]];
const OWNERS: [&str; 3] = ["", "w", "v"];

/// What happens to some of the keys; `lock` chooses a set and `owner` an owner, `turn` is one of a few turns of a core.
#[derive(Clone, Debug)]
enum Step {
    /// By the script for locks of one key, if it is one.
    Plain {
        lock: usize,
        command: Command,
    },
    Shared {
        lock: usize,
        owner: usize,
        command: Command,
    },
    /// The lease is over, or an administrator deleted it.
    Gone {
        key: usize,
    },
    /// Holds went for want of memory, as an eviction policy has it.
    Evicted {
        key: usize,
    },
    /// The hold of a turn is over.
    Over {
        key: usize,
        token: String,
    },
    Foreign {
        key: usize,
        millis: Option<u64>,
    },
    Unmark {
        key: usize,
    },
    LoseCounter,
    FlushAll,
}

fn command() -> impl Strategy<Value = Command> {
    let token = (1..4_u8, 1..3_u64).prop_map(|(core, turn)| token(core, turn));
    // Far apart, so that the time a test takes doesn't matter.
    let ttl = (1..6_u64).prop_map(|many| many * 100_000);
    let block = prop_oneof![Just(1_u64), 1..80_u64];
    let how = prop_oneof![2 => Just(How::First), 2 => Just(How::Again), 1 => Just(How::AfterOwnTurn)];
    prop_oneof![
        8 => (how, token.clone(), ttl.clone(), block)
            .prop_map(|(how, token, ttl, block)| Command::Take { how, token, ttl, block }),
        6 => token.clone().prop_map(|token| Command::Give { token }),
        3 => (token.clone(), ttl.clone(), 0..20_u64)
            .prop_map(|(token, ttl, block)| Command::Keep { token, ttl, block }),
        3 => (token.clone(), token, ttl).prop_map(|(token, to, ttl)| Command::Swap { token, to, ttl }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..KEYS.len();
    let token = (1..4_u8, 1..3_u64).prop_map(|(core, turn)| token(core, turn));
    prop_oneof![
        24 => (0..SETS.len(), 0..OWNERS.len(), command())
            .prop_map(|(lock, owner, command)| Step::Shared { lock, owner, command }),
        6 => (0..2_usize, command()).prop_map(|(lock, command)| Step::Plain { lock, command }),
        1 => key.clone().prop_map(|key| Step::Gone { key }),
        1 => key.clone().prop_map(|key| Step::Evicted { key }),
        3 => (key.clone(), token).prop_map(|(key, token)| Step::Over { key, token }),
        1 => (key.clone(), prop::option::of((1..6_u64).prop_map(|many| many * 100_000)))
            .prop_map(|(key, millis)| Step::Foreign { key, millis }),
        1 => key.prop_map(|key| Step::Unmark { key }),
        1 => Just(Step::LoseCounter),
        1 => Just(Step::FlushAll),
    ]
}

/// The script, the model, and the numbers both have given out.
struct Pair<'a> {
    script: &'a mut Script,
    model: Model,
    floors: HashMap<u8, u64>,
    last: u64,
}

impl Pair<'_> {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let counter = self.script.counter();
        match step {
            Step::Plain { lock, command } => self.command(None, KEYS[*lock], command)?,
            Step::Shared { lock, owner, command } => {
                let lock = owned(SETS[*lock], OWNERS[*owner]);
                self.command(Some(&lock), "", command)?;
            }
            Step::Gone { key } => {
                let name = self.script.key(KEYS[*key]);
                self.script.ask::<()>(&["DEL", &name]);
                self.model.locks.remove(KEYS[*key]);
            }
            Step::Evicted { key } => {
                let holds = self.script.holds(KEYS[*key]);
                self.script.ask::<()>(&["DEL", &holds]);
                self.model.holds.remove(KEYS[*key]);
            }
            Step::Over { key, token } => {
                let ends = self.script.clock() / 1_000 - 1;
                let holds = self.script.holds(KEYS[*key]);
                self.script.ask::<()>(&["ZADD", &holds, "XX", &ends.to_string(), token]);
                if let Some(hold) = self.model.holds.get_mut(KEYS[*key]).and_then(|holds| holds.get_mut(token)) {
                    *hold = ends;
                }
            }
            Step::Foreign { key, millis } => {
                let name = self.script.key(KEYS[*key]);
                let now = self.script.clock();
                let ends = match millis {
                    Some(millis) => {
                        self.script.ask::<()>(&["SET", &name, "somebody", "PX", &millis.to_string()]);
                        now + millis * 1_000
                    }
                    None => {
                        self.script.ask::<()>(&["SET", &name, "somebody"]);
                        u64::MAX
                    }
                };
                let entry = Entry { value: "somebody".to_owned(), ends };
                self.model.locks.insert(KEYS[*key].to_owned(), entry);
            }
            Step::Unmark { key } => {
                let mark = self.script.wanted(KEYS[*key]);
                self.script.ask::<()>(&["DEL", &mark]);
                self.model.wanted.remove(KEYS[*key]);
            }
            Step::LoseCounter => {
                self.script.ask::<()>(&["DEL", &counter]);
                self.model.counter = None;
                self.floors.clear();
            }
            Step::FlushAll => {
                self.script.ask::<()>(&["FLUSHALL"]);
                self.model = Model::default();
            }
        }
        self.compare()
    }

    /// Of a lock, or of a plain one of this key.
    fn command(&mut self, lock: Option<&Shared>, key: &str, command: &Command) -> Result<(), TestCaseError> {
        let (Command::Take { token, .. }
        | Command::Give { token }
        | Command::Keep { token, .. }
        | Command::Swap { token, .. }) = command;
        let core = token.as_bytes()[37] - b'0';
        let floor = self.floors.get(&core).copied().unwrap_or(NO_FLOOR);
        let (counter, before) = (self.model.counter, self.script.clock());
        let got = match lock {
            Some(lock) => self.script.run_shared(lock, command.clone(), floor),
            None => self.script.run(key, command.clone(), floor),
        };
        let got = got.map_err(TestCaseError::fail)?;
        let after = self.script.clock();
        // Marks end by real time in the one; the model doesn't let them, and they are renewed.
        for mark in self.model.wanted.values_mut() {
            mark.ends = u64::MAX;
        }
        let mut expected = match lock {
            Some(lock) => self.model.execute_shared(lock, command, floor, before),
            None => self.model.execute(key, command, floor, before),
        };
        if let (Some(ours), Some(theirs)) = (number_of(&mut expected), number_of(&mut got.clone()))
            && counter.unwrap_or(0) < floor
        {
            // Taken from the clock between the two readings; the model goes on with the same.
            let latest = (*ours).max(after + block(command));
            prop_assert!((*ours..=latest).contains(theirs), "{theirs} isn't in {ours}..={latest}");
            *ours = *theirs;
            self.model.counter = Some(*theirs);
        }
        if let (Answer::Taken { left: Some(ours), .. }, Answer::Taken { left: Some(theirs), .. }) =
            (&mut expected, &got)
        {
            prop_assert!(ours.abs_diff(*theirs) < 50_000, "{ours} or {theirs} ms are left");
            *ours = *theirs;
        }
        prop_assert_eq!(&expected, &got, "{:?} of {:?}", command, lock);
        if let Answer::Numbers(last) | Answer::Joined { last, .. } = got {
            prop_assert!(last + 1 - block(command) > self.last, "{} was given out before {}", self.last, last);
            self.last = last;
            if matches!(command, Command::Take { .. }) && floor == NO_FLOOR {
                self.floors.insert(core, last);
            }
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        for key in KEYS {
            let (value, left, now) = (self.script.value(key), self.script.left(key), self.script.clock());
            prop_assert_eq!(self.model.value(key), value.as_deref(), "the value of {}", key);
            match self.model.locks.get(key) {
                None => prop_assert_eq!(left, -2),
                Some(entry) if entry.ends == u64::MAX => prop_assert_eq!(left, -1),
                Some(entry) => {
                    let difference = entry.ends.saturating_sub(now) as i64 / 1_000 - left;
                    prop_assert!(difference.abs() < 50_000, "{left} ms of {key} are left, by {entry:?} at {now}");
                }
            }
            let holds = self.script.holds(key);
            let held: u64 = self.script.ask(&["ZCOUNT", &holds, &format!("({}", now / 1_000), "+inf"]);
            prop_assert_eq!(self.model.holds_of(key, now) as u64, held, "the holds of {}", key);
            let wanted = self.script.wanted(key);
            let mark: Option<String> = self.script.ask(&["GET", &wanted]);
            if self.model.wanted.contains_key(key) {
                self.script.ask::<()>(&["PEXPIRE", &wanted, "1500"]);
            }
            prop_assert_eq!(self.model.wanted.get(key).map(|mark| mark.value.clone()), mark, "the mark of {}", key);
        }
        let counter = self.script.counter();
        prop_assert_eq!(self.model.counter, self.script.ask::<Option<u64>>(&["GET", &counter]));
        Ok(())
    }
}

fn block(command: &Command) -> u64 {
    match command {
        Command::Take { block, .. } | Command::Keep { block, .. } => *block,
        _ => 0,
    }
}

fn number_of(answer: &mut Answer) -> Option<&mut u64> {
    match answer {
        Answer::Numbers(number) | Answer::Joined { last: number, .. } | Answer::Taken { mark: number, .. } => {
            Some(number)
        }
        _ => None,
    }
}

#[test]
fn any_sequence_of_commands_is_answered_as_the_model_says_and_numbers_rise() {
    let server = Server::start();
    let script = RefCell::new(Script::new(&server, "lock:"));
    seeded::check(150, prop::collection::vec(step(), 1..60), |steps| {
        let mut script = script.borrow_mut();
        script.ask::<()>(&["FLUSHALL"]);
        let mut pair = Pair { script: &mut script, model: Model::default(), floors: HashMap::new(), last: 0 };
        steps.iter().try_for_each(|step| pair.step(step))
    });
}
