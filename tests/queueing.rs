//! The queue on a real server, by raw calls: who is granted, who is told, and what must not happen in between.

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

use std::time::Duration;

use model::Answer;
use script::*;
use server::Server;

const FAR: u64 = 100_000;
/// What the tokens here say of the first ttl of a grant.
const CLAIM: u64 = 3_100;

/// A server, a connection, and what is said to core 1 and core 2.
struct Place {
    ears: redis::Connection,
    script: Script,
    _server: Server,
}

fn place() -> Place {
    place_of(Server::start())
}

fn place_of(server: Server) -> Place {
    let script = Script::new(&server, "lock:");
    let ears = server.connection();
    ears.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    Place { ears, script, _server: server }
}

fn core(core: u8) -> String {
    format!("{core:032x}")
}

impl Place {
    /// Runs `work` while `cores` listen; returns what they heard.
    fn hearing(&mut self, cores: &[u8], work: impl FnOnce(&mut Script)) -> Vec<String> {
        let mut ears = self.ears.as_pubsub();
        for number in cores {
            ears.subscribe(self.script.channel(&core(*number))).unwrap();
        }
        work(&mut self.script);
        let last = self.script.channel(&core(cores[0]));
        self.script.ask::<i64>(&["PUBLISH", &last, "end"]);
        let mut heard = Vec::new();
        loop {
            let said: String = ears.get_message().and_then(|message| message.get_payload()).unwrap();
            if said == "end" {
                return heard;
            }
            heard.push(said);
        }
    }
}

fn queue(script: &mut Script, lock: &str) -> Vec<String> {
    let queue = script.queue(lock);
    script.ask(&["ZRANGE", &queue, "0", "-1"])
}

#[track_caller]
fn granted(outcome: Outcome) -> (u64, Option<u64>) {
    match outcome {
        Ok(Answer::Granted { last, left, .. }) => (last, left),
        other => panic!("{other:?} instead of a grant"),
    }
}

#[track_caller]
fn taken(outcome: Outcome) -> (u64, String, bool) {
    match outcome {
        Ok(Answer::Taken { mark, holder, first, .. }) => (mark, holder, first),
        other => panic!("{other:?} although it is taken"),
    }
}

#[test]
fn a_give_hands_the_lock_to_the_first_in_the_queue_and_tells_it_its_numbers() {
    let mut place = place();
    let (mine, first, second) = (told(9, 1), told(1, 1), told(2, 1));
    let mut mark = 0;
    let heard = place.hearing(&[1, 2], |script| {
        granted(script.run("a b", wait(&mine, FAR, 1), NO_FLOOR));
        assert!(taken(script.run("a b", wait(&first, FAR, 1), NO_FLOOR)).2);
        let refused = taken(script.run("a b", wait(&second, FAR, 1), NO_FLOOR));
        assert_eq!((refused.1.as_str(), refused.2), (mine.as_str(), false));
        mark = refused.0;
        assert_eq!(script.run("a b", give(&mine), mark), Ok(Answer::Done));
        assert_eq!(script.value("a b").as_ref(), Some(&first));
        let left = script.left("a b");
        assert!((CLAIM as i64 - 1_000..=CLAIM as i64).contains(&left), "a grant lasts a claim: {left}");
    });
    assert_eq!(heard, [format!("g {first} {} 16 1 lock:a b", mark + 16)]);
    assert_eq!(queue(&mut place.script, "a b"), [second]);
}

#[test]
fn the_first_in_the_queue_tells_the_holder_that_it_waits_and_again_with_each_look() {
    let mut place = place();
    let (mine, other, third) = (told(1, 1), told(2, 1), told(3, 1));
    let heard = place.hearing(&[1], |script| {
        granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
        for token in [&other, &third] {
            taken(script.run("a", wait(token, FAR, 1), NO_FLOOR));
        }
        for token in [&other, &third] {
            taken(script.run("a", beat(token, 1), NO_FLOOR));
        }
    });
    let wanted = format!("w {mine} lock:a");
    assert_eq!(heard, [wanted.clone(), wanted]);
    let keep = place.script.run("a", keep(&mine, FAR, 0), NO_FLOOR);
    assert_eq!(keep, Ok(Answer::Kept { last: 1, more: true }), "and its keeps say so, too");
}

#[test]
fn whom_nobody_hears_of_is_passed_over_and_whoever_can_t_be_told_is_waited_for() {
    let mut place = place();
    let (mine, dead, asks) = (told(9, 1), told(8, 1), token(7, 1));
    let script = &mut place.script;
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    for token in [&dead, &asks] {
        taken(script.run("a", wait(token, FAR, 1), NO_FLOOR));
    }
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a").as_ref(), Some(&asks));
    assert_eq!(script.run("a", beat(&dead, 1), NO_FLOOR), Ok(Answer::NotOurs), "it has lost its place");
    let (_, left) = granted(script.run("a", beat(&asks, 1), NO_FLOOR));
    assert!(left.is_some_and(|left| left <= CLAIM), "a look extends nothing: {left:?}");
}

#[test]
fn a_give_or_look_of_another_turn_of_the_same_core_touches_nothing() {
    // Whole tokens are compared.
    let mut place = place();
    let script = &mut place.script;
    let (old, new, other) = (told(1, 1), told(1, 2), told(2, 1));
    granted(script.run("a", wait(&new, FAR, 1), NO_FLOOR));
    taken(script.run("a", wait(&other, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&old), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!(script.run("a", beat(&old, 1), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!((script.value("a"), queue(script, "a")), (Some(new), vec![other]));
}

#[test]
fn a_look_grants_a_free_lock_to_the_first_and_not_to_the_second() {
    let mut place = place();
    let script = &mut place.script;
    let (mine, first, second) = (told(9, 1), token(1, 1), token(2, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    for token in [&first, &second] {
        taken(script.run("a", wait(token, FAR, 1), NO_FLOOR));
    }
    // Its lease is over.
    script.ask::<()>(&["DEL", "lock:a"]);
    assert_eq!(taken(script.run("a", beat(&second, 1), NO_FLOOR)).1, first);
    let (_, left) = granted(script.run("a", beat(&first, 1), NO_FLOOR));
    assert!(left.is_some_and(|left| left <= CLAIM), "{left:?}");
    assert_eq!(queue(script, "a"), [second]);
}

#[test]
fn a_single_attempt_gets_a_free_lock_whose_queue_is_dead() {
    let mut place = place();
    let script = &mut place.script;
    let (mine, next) = (told(9, 1), told(5, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    for dead in 1..4 {
        taken(script.run("a", wait(&told(dead, 1), FAR, 1), NO_FLOOR));
    }
    script.ask::<()>(&["DEL", "lock:a"]);
    granted(script.run("a", take(&next, FAR, 1), NO_FLOOR));
    assert_eq!((script.value("a"), queue(script, "a")), (Some(next.clone()), vec![]));
    // And a single attempt that finds it taken stands in no queue.
    taken(script.run("a", take(&told(6, 1), FAR, 1), NO_FLOOR));
    assert_eq!(queue(script, "a"), Vec::<String>::new());
}

#[test]
fn a_late_copy_of_a_take_is_ended_by_the_give_that_is_repeated() {
    // After a clean release, and while somebody else has it.
    let mut place = place();
    let script = &mut place.script;
    let (mine, other) = (told(1, 1), told(2, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    granted(script.run("a", wait(&other, FAR, 1), NO_FLOOR));
    taken(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
    assert_eq!((script.value("a"), queue(script, "a")), (Some(other), vec![]));
}

#[test]
fn the_order_of_the_queue_needs_no_clock_and_a_take_said_twice_keeps_its_place() {
    let mut place = place();
    let script = &mut place.script;
    granted(script.run("a", wait(&told(9, 1), FAR, 1), NO_FLOOR));
    let tokens: Vec<String> = (1..6).map(|core| told(core, 1)).collect();
    for token in tokens.iter().chain(&tokens) {
        taken(script.run("a", wait(token, FAR, 1), NO_FLOOR));
    }
    assert_eq!(queue(script, "a"), tokens);
    let name = script.queue("a");
    let scores: Vec<(String, u64)> = script.ask(&["ZRANGE", &name, "0", "-1", "WITHSCORES"]);
    assert_eq!(scores.into_iter().map(|(_, score)| score).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
}

#[test]
fn without_the_right_to_publish_the_first_is_waited_for_and_nothing_fails() {
    // An error isn't "nobody heard".
    let mut place = place();
    let script = &mut place.script;
    let (mine, first, second) = (told(9, 1), told(1, 1), told(2, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    script.ask::<()>(&["ACL", "SETUSER", "quiet", "on", "nopass", "~*", "+@all", "-publish"]);
    script.ask::<()>(&["AUTH", "quiet", "any"]);
    for token in [&first, &second] {
        taken(script.run("a", wait(token, FAR, 1), NO_FLOOR));
    }
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a").as_ref(), Some(&first));
    granted(script.run("a", beat(&first, 1), NO_FLOOR));
    assert_eq!(queue(script, "a"), [second]);
}

#[test]
fn a_queue_of_another_type_fails_what_needs_it_and_leaves_its_neighbours_alone() {
    let mut place = place();
    let script = &mut place.script;
    let (mine, other) = (told(9, 1), told(1, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    granted(script.run("b", wait(&mine, FAR, 1), NO_FLOOR));
    let name = script.queue("a");
    script.ask::<()>(&["SET", &name, "data"]);
    let answers = script.burst(
        &[("b", keep(&mine, FAR, 0)), ("a", wait(&other, FAR, 1)), ("a", give(&mine)), ("b", give(&mine))],
        NO_FLOOR,
    );
    for failed in [1, 2] {
        assert!(matches!(&answers[failed], Err(error) if error.starts_with("WRONGTYPE ")), "{answers:?}");
    }
    assert_eq!(answers[0], Ok(Answer::Kept { last: 1, more: false }));
    assert_eq!(answers[3], Ok(Answer::Done));
    assert_eq!(script.ask::<String>(&["GET", &name]), "data");
}

#[test]
fn a_queue_that_nobody_looks_at_ends() {
    let mut place = place();
    let script = &mut place.script;
    granted(script.run("a", wait(&told(9, 1), FAR, 1), NO_FLOOR));
    let first = told(1, 1);
    let name = script.queue("a");
    let fresh = |script: &mut Script| (55_000..=60_000).contains(&script.ask::<i64>(&["PTTL", &name]));
    taken(script.run("a", wait(&first, FAR, 1), NO_FLOOR));
    assert!(fresh(script));
    script.ask::<()>(&["PEXPIRE", &name, "1000"]);
    taken(script.run("a", beat(&first, 1), NO_FLOOR));
    assert!(fresh(script), "who looks renews it");
}

#[test]
fn without_memory_a_grant_goes_out_that_was_written_and_a_mark_is_told_that_was_not() {
    let mut place = place_of(Server::with(&["--maxmemory-policy", "noeviction"]));
    let (mine, first, second) = (told(9, 1), told(1, 1), told(2, 1));
    let mut last = 0;
    let heard = place.hearing(&[1], |script| {
        granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
        taken(script.run("a", wait(&first, FAR, 1), NO_FLOOR));
        script.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        assert!(script.run("a", wait(&second, FAR, 1), NO_FLOOR).is_err(), "the queue doesn't grow");
        let counter = script.counter();
        last = script.ask(&["GET", &counter]);
        let (mark, _, _) = taken(script.run("a", take(&second, FAR, 1), NO_FLOOR));
        assert!(mark > last, "compared with the clock, whether it could be written or not");
        assert_eq!(script.ask::<u64>(&["GET", &counter]), last);
        assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
        assert_eq!(script.value("a").as_ref(), Some(&first));
    });
    let words: Vec<&str> = heard[0].split(' ').collect();
    assert_eq!((words[0], words[1]), ("g", first.as_str()));
    assert!(words[2].parse::<u64>().unwrap() > last + 15);
    assert_eq!(place.script.run("a", give(&first), NO_FLOOR), Ok(Answer::Done));
}

#[test]
fn who_waits_by_another_version_of_the_protocol_is_not_waited_for() {
    let mut place = place();
    let script = &mut place.script;
    let (mine, next) = (told(9, 1), token(1, 1));
    granted(script.run("a", wait(&mine, FAR, 1), NO_FLOOR));
    let name = script.queue("a");
    for (score, stranger) in ["hf9.h.00.1.100", "hf1.x.00.1.100", "", "hf1.h.zz.1.100"].iter().enumerate() {
        script.ask::<()>(&["ZADD", &name, &score.to_string(), stranger]);
    }
    taken(script.run("a", wait(&next, FAR, 1), NO_FLOOR));
    assert_eq!(script.run("a", give(&mine), NO_FLOOR), Ok(Answer::Done));
    assert_eq!(script.value("a"), Some(next));
    // A lock of theirs is a foreign one.
    script.ask::<()>(&["SET", "lock:b", "hf9.h.00.1.100", "PX", "5000"]);
    assert_eq!(taken(script.run("b", wait(&mine, FAR, 1), NO_FLOOR)).1, "hf9.h.00.1.100");
    assert_eq!(script.run("b", give(&mine), NO_FLOOR), Ok(Answer::NotOurs));
}

#[test]
fn the_mark_of_a_refusal_is_above_every_grant_before_it_even_if_the_counter_was_lost() {
    // So a push that lay about is known to be old although its token waits again.
    for lost in [false, true] {
        let mut place = place();
        let (holder, mine, other) = (told(9, 1), told(1, 1), told(2, 1));
        let mut mark = 0;
        let heard = place.hearing(&[1], |script| {
            let (floor, _) = granted(script.run("a", wait(&holder, FAR, 1), NO_FLOOR));
            taken(script.run("a", wait(&mine, FAR, 1), floor));
            assert_eq!(script.run("a", give(&holder), floor), Ok(Answer::Done));
            // The claim runs out unheard, and somebody else is granted the lock.
            script.ask::<()>(&["DEL", "lock:a"]);
            granted(script.run("a", wait(&other, FAR, 1), floor));
            if lost {
                let counter = script.counter();
                script.ask::<()>(&["DEL", &counter]);
            }
            // The take of before, sent again.
            mark = taken(script.run("a", wait(&mine, FAR, 1), floor)).0;
            assert_eq!(queue(script, "a"), std::slice::from_ref(&mine));
        });
        let words: Vec<&str> = heard[0].split(' ').collect();
        assert_eq!((words[0], words[1]), ("g", mine.as_str()));
        let last: u64 = words[2].parse().unwrap();
        assert!(last < mark, "the grant {last} passes for newer than the refusal {mark}");
    }
}
