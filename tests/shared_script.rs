//! The script for locks of several keys and for locks that turns hold together in an owner's name, on a real server, by raw
//! calls: each command, in each state of the keys.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/model.rs"]
#[allow(dead_code)] // the simulation uses all of it
mod model;
#[path = "support/script.rs"]
#[allow(dead_code)] // those of the other script use all of it
mod script;
#[path = "support/server.rs"]
#[allow(dead_code)] // the engine's tests use all of it
mod server;

use model::{Answer, Command, Shared};
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
        Ok(Answer::Granted { last, holds, .. }) => (last, holds),
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
        for command in [take(&other, 500, 9), wait(&other, 500, 9)] {
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
        for bad in
            [take(&mine, FAR, 1), wait(&mine, FAR, 1), keep(&mine, FAR, 0), swap(&mine, &new, FAR), give(&mine)]
        {
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
            assert_eq!(answers[2..], [Ok(KEPT), Ok(Answer::Done)], "its neighbours are left alone");
            assert_eq!(everything(&mut script), std::slice::from_ref(&key));
        }
        assert_eq!(script.ask::<Vec<String>>(&["LRANGE", &key, "0", "-1"]), ["precious"]);
    }
}

#[test]
fn a_foreign_owner_of_one_key_is_respected_and_named() {
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
fn what_is_told_is_of_the_first_key_that_is_in_the_way() {
    let (_server, mut script) = script();
    let (abc, mine) = (set(&["a", "b", "c"]), token(1, 1));
    script.ask::<()>(&["SET", "lock:b", "of b", "PX", "9000"]);
    script.ask::<()>(&["SET", "lock:c", "of c", "PX", "50000"]);
    let (left, holder) = taken(script.run_shared(&abc, take(&mine, FAR, 1), NO_FLOOR));
    assert!((7_000..=9_000).contains(&left.unwrap()), "{left:?}");
    assert_eq!(holder, "of b");
    script.ask::<()>(&["SET", "lock:b", "of b"]);
    assert_eq!(taken(script.run_shared(&abc, take(&mine, FAR, 1), NO_FLOOR)).0, None, "it has no end");
}

// ----- waiting for several ----------------------------------------------------------------------------------------------

fn queue(script: &mut Script, lock: &str) -> Vec<String> {
    let queue = script.queue(lock);
    script.ask(&["ZRANGE", &queue, "0", "-1"])
}

#[test]
fn a_set_waits_in_one_queue_after_the_other_and_keeps_what_it_was_granted() {
    let (_server, mut script) = script();
    let (ab, mine, [a, b, late]) = (set(&["a", "b"]), token(9, 1), [1, 2, 3].map(|core| token(core, 1)));
    for (lock, token) in [("a", &a), ("b", &b)] {
        script.run(lock, take(token, FAR, 1), NO_FLOOR).unwrap();
    }
    assert_eq!(taken(script.run_shared(&ab, wait(&mine, FAR, 1), NO_FLOOR)).1, a);
    assert_eq!((queue(&mut script, "a"), queue(&mut script, "b")), (vec![mine.clone()], vec![]));
    // Its turn comes at the first; the second is still taken. Nobody passes it at the first meanwhile.
    script.run("a", give(&a), NO_FLOOR).unwrap();
    assert_eq!(script.value("a").as_ref(), Some(&mine));
    assert_eq!(taken(script.run_shared(&ab, wait(&mine, FAR, 1), NO_FLOOR)).1, b);
    assert_eq!((queue(&mut script, "a"), queue(&mut script, "b")), (vec![], vec![mine.clone()]));
    assert!(matches!(script.run("a", wait(&late, FAR, 1), NO_FLOOR), Ok(Answer::Taken { first: true, .. })));
    script.run("b", give(&b), NO_FLOOR).unwrap();
    joined(script.run_shared(&ab, wait(&mine, FAR, 1), NO_FLOOR));
    for key in ["a", "b"] {
        assert_eq!(script.value(key).as_ref(), Some(&mine));
        assert_left(&mut script, key, FAR);
    }
    // Given back, the first goes to who waits for it.
    assert_eq!(script.run_shared(&ab, give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!((script.value("a").as_ref(), script.value("b")), (Some(&late), None));
}

#[test]
fn what_a_set_was_granted_out_of_order_goes_on_when_an_earlier_one_is_taken() {
    let (_server, mut script) = script();
    let (ab, mine, [a, b, late]) = (set(&["a", "b"]), token(9, 1), [1, 2, 3].map(|core| token(core, 1)));
    // It waits for the second, since the first is free; that is taken by another meanwhile.
    script.run("b", take(&b, FAR, 1), NO_FLOOR).unwrap();
    assert_eq!(taken(script.run_shared(&ab, wait(&mine, FAR, 1), NO_FLOOR)).1, b);
    script.run("a", take(&a, FAR, 1), NO_FLOOR).unwrap();
    script.run("b", wait(&late, FAR, 1), NO_FLOOR).unwrap();
    script.run("b", give(&b), NO_FLOOR).unwrap();
    assert_eq!(script.value("b").as_ref(), Some(&mine));
    // Kept, it could be waited for by who has the first: a circle.
    assert_eq!(taken(script.run_shared(&ab, wait(&mine, FAR, 1), NO_FLOOR)).1, a);
    assert_eq!(script.value("b").as_ref(), Some(&late));
    assert_eq!((queue(&mut script, "a"), queue(&mut script, "b")), (vec![mine.clone()], vec![]));
}

#[test]
fn a_set_that_gives_up_leaves_the_queue_and_what_it_was_granted() {
    let (_server, mut script) = script();
    let (ab, mine, [a, b, late]) = (set(&["a", "b"]), token(9, 1), [1, 2, 3].map(|core| token(core, 1)));
    for owner in ["", "w"] {
        for (lock, token) in [("a", &a), ("b", &b)] {
            script.run(lock, take(token, FAR, 1), NO_FLOOR).unwrap();
        }
        let lock = Shared { owner: owner.to_owned(), ..ab.clone() };
        taken(script.run_shared(&lock, wait(&mine, FAR, 1), NO_FLOOR));
        script.run("a", give(&a), NO_FLOOR).unwrap();
        taken(script.run_shared(&lock, wait(&mine, FAR, 1), NO_FLOOR));
        script.run("a", wait(&late, FAR, 1), NO_FLOOR).unwrap();
        assert_eq!(script.run_shared(&lock, give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
        assert_eq!((script.value("a").as_ref(), script.value("b").as_ref()), (Some(&late), Some(&b)));
        assert_eq!((queue(&mut script, "a"), queue(&mut script, "b")), (vec![], vec![]));
        for (lock, token) in [("a", &late), ("b", &b)] {
            assert_eq!(script.run(lock, give(token), NO_FLOOR), Ok(Answer::Done));
        }
    }
}

#[test]
fn the_last_hold_of_an_owner_hands_its_lock_on() {
    let (_server, mut script) = script();
    let (lock, one, two, next) = (owned(&["a"], "w"), token(1, 1), token(2, 1), token(3, 1));
    for token in [&one, &two] {
        joined(script.run_shared(&lock, wait(token, FAR, 1), NO_FLOOR));
    }
    script.run("a", wait(&next, FAR, 1), NO_FLOOR).unwrap();
    assert_eq!(script.run_shared(&lock, give(&one), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a").as_deref(), Some("hf1.o.w"));
    assert_eq!(script.run_shared(&lock, give(&two), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a"), Some(next));
}

#[test]
fn a_repeated_take_of_a_set_raises_all_its_ttls_and_reserves_new_numbers() {
    let (_server, mut script) = script();
    let ab = set(&["a", "b"]);
    let token = token(1, 1);
    let (first, _) = joined(script.run_shared(&ab, take(&token, FAR, 2), NO_FLOOR));
    for (round, command) in (1..).zip([take, wait, wait]) {
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
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 0), last), Ok(KEPT));
    let kept = Answer::Kept { last: last + 4, more: false };
    assert_eq!(script.run_shared(&ab, keep(&mine, 5_000, 4), last), Ok(kept));
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
    assert!(matches!(script.run("b", take(&next, 5_000, 1), NO_FLOOR), Ok(Answer::Granted { .. })));
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
    assert_eq!(everything(&mut script), Vec::<String>::new());
    joined(script.run_shared(&owned(&["a"], "v"), take(&three, FAR, 1), first));
}

#[test]
fn what_is_sent_twice_counts_once() {
    let (_server, mut script) = script();
    let lock = owned(&["a"], "w");
    let (one, two) = (token(1, 1), token(2, 1));
    joined(script.run_shared(&lock, take(&one, FAR, 1), NO_FLOOR));
    for command in [take, wait, wait] {
        assert_eq!(joined(script.run_shared(&lock, command(&two, FAR, 1), NO_FLOOR)).1, 2);
    }
    for command in [keep(&two, FAR, 0), keep(&two, 50_000, 0)] {
        assert_eq!(script.run_shared(&lock, command, NO_FLOOR), Ok(KEPT));
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
        // They are asked one after the other.
        assert!((key - holds).abs() <= 1_000, "{key} and {holds} ms are left");
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
        let Ok(Answer::Granted { last: number, .. }) = script.run("a", take(&first, FAR, 2), NO_FLOOR) else {
            panic!()
        };
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
        for command in [take(&third, FAR, 1), wait(&third, FAR, 1)] {
            let outcome = script.run_shared(lock, command, NO_FLOOR);
            assert!(matches!(&outcome, Err(error) if error.starts_with("OOM ")), "{lock:?}: {outcome:?}");
        }
    }
    // Where something was freed or raised first, the server lets the rest pass: never a half of it.
    for lock in [&owned(&["c", "d"], "w"), &ow] {
        if script.run_shared(lock, take(&third, FAR, 1), NO_FLOOR).is_ok() {
            assert_eq!(script.run_shared(lock, keep(&third, FAR, 0), NO_FLOOR), Ok(KEPT));
            assert_eq!(script.run_shared(lock, give(&third), NO_FLOOR), Ok(Answer::Done));
        }
    }
    assert_eq!(script.run_shared(&ab, keep(&mine, FAR, 0), NO_FLOOR), Ok(KEPT));
    assert_left(&mut script, "b", FAR);
    assert!(script.run_shared(&ab, swap(&mine, &new, FAR), NO_FLOOR).is_err());
    for key in ["a", "b"] {
        assert_eq!(script.value(key).as_ref(), Some(&mine), "a refused renaming changes nothing");
    }
    let name = if script.run_shared(&ow, swap(&mine, &new, FAR), NO_FLOOR).is_ok() { &new } else { &mine };
    assert_eq!(script.run_shared(&ow, keep(name, 5_000, 0), NO_FLOOR), Ok(KEPT), "it has the one or the other");
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
            (&ow, wait(&third, FAR, 1)),
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
    assert!(matches!(answers[5], Ok(Answer::Kept { last, .. }) if last - 3 > numbers[2].0));
    assert_eq!([&answers[2], &answers[6], &answers[7]], [&Ok(Answer::Done); 3]);
}
