//! Locks of several keys and locks of owners through the whole core, in memory and on a server.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/place.rs"]
mod place;
#[path = "support/process.rs"]
#[allow(dead_code)] // other tests of the engine use all of it
mod process;
#[path = "support/proxy.rs"]
#[allow(dead_code)] // other tests of the engine use all of it
mod proxy;
#[path = "support/server.rs"]
#[allow(dead_code)] // other tests of the engine use all of it
mod server;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::engine::{Event, Outcome, Released, Target};
use holdfast_core::lease::Loss;
use holdfast_core::store;
use holdfast_core::wait::{Jitter, Phase, Phases, Poll, Strategy, Then};
use place::*;
use process::*;
use proxy::Proxy;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use server::Server;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So often that a test of many turns is soon done.
fn busily() -> Strategy {
    let poll = Poll { interval: millis(1), factor: 1.0, cap: millis(2), jitter: Jitter::UpTo(1.0) };
    Strategy::Poll(Phases { phases: vec![Phase { poll, max_duration: None, max_attempts: None }], then: Then::Never })
}

const BUSY: Ask = Ask { strategy: busily, ..ASK };

// ----- several keys -------------------------------------------------------------------------------------------------------

/// Keys of which each is in one set at a time, with numbers that rise.
#[derive(Default)]
struct Watched {
    inside: [AtomicBool; 6],
    last: [Mutex<u64>; 6],
}

impl Watched {
    fn enter(&self, keys: &[usize], fence: u64) {
        for key in keys {
            assert!(!self.inside[*key].swap(true, Ordering::SeqCst), "two are inside {key}");
            let mut last = self.last[*key].lock().unwrap();
            assert!(fence > *last, "{fence} after {last}");
            *last = fence;
        }
    }

    fn leave(&self, keys: &[usize]) {
        for key in keys {
            assert!(self.inside[*key].swap(false, Ordering::SeqCst));
        }
    }
}

/// Goes through sets of up to three of six keys, each by chance and in any order, up to `crowd` at once.
fn go_through_sets(process: &Process, seed: u64, times: usize, crowd: usize, watched: &Watched) {
    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    let mut random = SmallRng::seed_from_u64(seed);
    let mut calls: HashMap<u32, (Call, Vec<usize>)> = HashMap::new();
    let (mut begun, mut done) = (0, 0);
    while done < times {
        while begun < times && calls.len() < crowd {
            let mut keys: Vec<usize> = (0..random.random_range(1..=3)).map(|_| random.random_range(0..6)).collect();
            let names: Vec<&str> = keys.iter().map(|key| NAMES[*key]).collect();
            let call = process.call_for(Target::Lock(lock_of(&names, "")), BUSY);
            keys.sort_unstable();
            keys.dedup();
            calls.insert(call.slot, (call, keys));
            begun += 1;
        }
        process.core.flush();
        let (slot, outcome) = process.next(LONG).expect("somebody waits for ever");
        match outcome {
            Outcome::Granted { fence, .. } => {
                let (call, keys) = &calls[&slot];
                watched.enter(keys, fence);
                std::thread::yield_now();
                watched.leave(keys);
                assert_eq!(process.core.release(call.id), Released::Later);
            }
            Outcome::Released(_) | Outcome::Unavailable(_) => {
                calls.remove(&slot);
                done += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_thousand_overlapping_sets_never_overlap_and_never_wait_for_each_other_in_a_circle() {
    everywhere(|place| {
        let watched = Watched::default();
        let processes: Vec<Process> = (0..4).map(|number| place.process(number)).collect();
        std::thread::scope(|scope| {
            for (seed, (process, crowd)) in (1..).zip(processes.iter().zip([1, 3, 6, 10])) {
                let watched = &watched;
                scope.spawn(move || go_through_sets(process, seed, 250, crowd, watched));
            }
        });
        for process in &processes {
            process.core.settle(LONG);
        }
        assert!(processes.iter().all(|process| process.counters().acquired == 250));
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert!(place.is_free(key), "{key}");
        }
    });
}

#[test]
fn no_connection_killed_lets_two_sets_overlap_or_leaves_a_key() {
    let server = Server::start();
    let watched = Watched::default();
    let (done, killed) = (AtomicBool::new(false), AtomicU32::new(0));
    let processes: Vec<Process> = (0..3).map(|number| on_server(server.port(), PATIENCE + millis(number))).collect();
    let mut killer = server.connection();
    let work = &|(seed, process): (u64, &Process)| {
        let mut round = 0_u64;
        while killed.load(Ordering::SeqCst) < 200 {
            go_through_sets(process, seed + round, 30, 4, &watched);
            round += 10;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..).zip(&processes).map(|worker| scope.spawn(move || work(worker))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                killed.fetch_add(ask(&mut killer, &words), Ordering::SeqCst);
                std::thread::sleep(millis(10));
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::SeqCst);
        for end in ends {
            end.unwrap();
        }
    });
    let mut connection = server.connection();
    until("all keys are gone", millis(4_000), || {
        let left: Vec<String> = ask(&mut connection, &["KEYS", "lock:?"]);
        left.is_empty()
    });
}

#[test]
fn a_set_is_one_lock_whatever_the_order_and_repetition_of_its_keys() {
    everywhere(|place| {
        let (process, other) = (place.process(0), place.process(1));
        let lock = process.acquire_lock(&lock_of(&["a", "b"], ""), ASK);
        for keys in [&["b", "a"][..], &["a", "b", "b"], &["a"], &["b", "c"]] {
            for process in [&process, &other] {
                assert!(process.finds_taken(&lock_of(keys, "")), "{keys:?}");
            }
        }
        assert!(!other.finds_taken(&lock_of(&["c", "d"], "")));
        // One of all that want it asks for it, and they hand it on like a lock of one key.
        let orders = [&["b", "a"][..], &["a", "b", "a"]];
        let calls: Vec<Call> =
            (0..20).map(|number| other.call_lock(&lock_of(orders[number % 2], ""), BUSY)).collect();
        assert_eq!(other.core.figures(other.manager).spinning, 1);
        assert!(process.release(lock));
        for call in calls {
            let lock = other.granted(call);
            assert!(other.release(lock));
        }
        assert!(other.counters().handed_on >= 10, "{:?}", other.counters());
        assert!(place.is_free("a") && place.is_free("b"));
    });
}

#[test]
fn a_crowd_lets_a_set_of_its_own_process_through() {
    everywhere(|place| {
        let process = place.process(0);
        let done = AtomicBool::new(false);
        // Never without a queue: the key is given back and asked for again in one go.
        let mut calls: Vec<Call> = (0..50).map(|_| process.call("a", ASK)).collect();
        let wanted = lock_of(&["a", "b"], "");
        let set = process.call_lock(&wanted, BUSY);
        let begin = Instant::now();
        while !done.load(Ordering::SeqCst) {
            let (slot, outcome) = process.next(LONG).expect("somebody waits for ever");
            match outcome {
                Outcome::Granted { .. } if slot == set.slot => done.store(true, Ordering::SeqCst),
                Outcome::Granted { .. } => {
                    let at = calls.iter().position(|call| call.slot == slot).unwrap();
                    let call = calls.swap_remove(at);
                    assert_eq!(process.core.release(call.id), Released::Later);
                    calls.push(process.call_unsent("a", ASK));
                    process.core.flush();
                }
                Outcome::Released(_) => {}
                other => panic!("{other:?}"),
            }
            assert!(begin.elapsed() < millis(10_000), "the crowd keeps it to itself");
        }
        process.core.leave(process.manager);
    });
}

#[test]
fn a_set_is_renewed_extended_and_shortened_as_one() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire_lock(&lock_of(&["a", "b", "c"], ""), Ask { ttl: 500, ..ASK });
    let lost = process.outcome_within(lock.call, millis(1_200));
    assert!(lost.is_none(), "{lost:?}");
    for (ttl, most) in [(30_000, 30_300), (2_000, 2_020), (9_000, 9_090)] {
        let call = process.extend(lock, ttl);
        assert!(matches!(process.outcome(call), Outcome::Extended));
        for key in ["lock:a", "lock:b", "lock:c"] {
            let left: i64 = ask(&mut connection, &["PTTL", key]);
            assert!((i64::from(ttl) / 2..=most).contains(&left), "{left} ms of {key} are left of {ttl}");
        }
    }
    assert!(process.release(lock));
    assert_eq!(ask::<Vec<String>>(&mut connection, &["KEYS", "lock:?"]), Vec::<String>::new());
}

#[test]
fn a_set_of_which_one_key_is_deleted_is_lost_and_the_rest_given_back() {
    let server = Server::start();
    let mut connection = server.connection();
    let (process, other) = (on_server(server.port(), PATIENCE), on_server(server.port(), PATIENCE * 2));
    for robbed in [&["DEL", "lock:b"][..], &["SET", "lock:b", "somebody"]] {
        let lock = process.acquire_lock(&lock_of(&["a", "b", "c"], ""), Ask { ttl: 600, ..ASK });
        let waits = other.call_lock(&lock_of(&["a", "c"], ""), BUSY);
        ask::<redis::Value>(&mut connection, robbed);
        assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Taken)));
        let lock = other.granted(waits);
        assert!(other.release(lock));
        let left: Vec<String> = ask(&mut connection, &["KEYS", "lock:?"]);
        assert_eq!(left.len(), usize::from(robbed[0] == "SET"), "{left:?}");
        ask::<()>(&mut connection, &["DEL", "lock:b"]);
    }
}

#[test]
fn data_of_another_kind_in_a_set_fails_its_caller_and_nobody_else() {
    let server = Server::start();
    let mut connection = server.connection();
    ask::<()>(&mut connection, &["RPUSH", "lock:b", "precious"]);
    let process = on_server(server.port(), PATIENCE);
    let locks = [lock_of(&["a", "b"], ""), lock_of(&["c", "d"], ""), lock_of(&["b"], "w"), lock_of(&["a"], "w")];
    let calls = locks.map(|lock| process.call_for(Target::Lock(lock), ASK));
    process.core.flush();
    for number in [0, 2] {
        let outcome = process.outcome(calls[number]);
        assert!(matches!(outcome, Outcome::WrongType(_)), "{outcome:?}");
    }
    for number in [1, 3] {
        let lock = process.granted(calls[number]);
        assert!(process.release(lock));
    }
    assert_eq!(ask::<Vec<String>>(&mut connection, &["KEYS", "lock:?"]), ["lock:b"]);
    assert_eq!(ask::<Vec<String>>(&mut connection, &["LRANGE", "lock:b", "0", "-1"]), ["precious"]);
}

#[test]
fn the_largest_sets_travel_together() {
    let server = Server::start();
    let process = on_server(server.port(), PATIENCE);
    let names: Vec<String> = (0..1_000).map(|number| format!("key {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let locks: Vec<store::Lock> = names.chunks(100).map(|hundred| lock_of(hundred, "")).collect();
    let calls: Vec<Call> = locks.iter().map(|lock| process.call_for(Target::Lock(lock.clone()), ASK)).collect();
    process.core.flush();
    let held: Vec<Lock> = calls.into_iter().map(|call| process.granted(call)).collect();
    assert!(process.finds_taken(&lock_of(&["key 0", "key 999"], "")));
    assert!(held.is_sorted_by_key(|lock| lock.fence));
    for lock in held {
        assert!(process.release(lock));
    }
    let mut connection = server.connection();
    let left: Vec<String> = ask(&mut connection, &["KEYS", "lock:key*"]);
    assert_eq!(left, Vec::<String>::new());
}

// ----- owners -------------------------------------------------------------------------------------------------------------

#[test]
fn an_owner_s_calls_hold_together_in_all_processes_and_keep_everybody_else_out() {
    everywhere(|place| {
        let (first, second, third) = (place.process(0), place.process(1), place.process(2));
        for keys in [&["a"][..], &["a", "b"]] {
            let wanted = lock_of(keys, "w");
            let mut held = Vec::new();
            for (count, process) in (1..).zip([&first, &second, &first, &second]) {
                let lock = process.acquire_lock(&wanted, ASK);
                assert_eq!(lock.holds, Some(count));
                held.push((process, lock));
            }
            assert!(held.is_sorted_by_key(|(_, lock)| lock.fence));
            let others = [lock_of(keys, "v"), lock_of(&["a"], ""), lock_of(keys, ""), lock_of(&["a", "z"], "")];
            let waits = third.call_lock(&lock_of(&["a"], ""), BUSY);
            for (process, lock) in held {
                for other in &others {
                    for process in [&first, &third] {
                        assert!(process.finds_taken(other), "{other:?}");
                    }
                }
                assert!(third.outcome_within(waits, Duration::ZERO).is_none(), "two hold it");
                assert!(process.release(lock));
            }
            let lock = third.granted(waits);
            assert_eq!(lock.holds, None);
            assert!(first.finds_taken(&wanted) && third.finds_taken(&wanted));
            assert!(third.release(lock));
            let again = first.acquire_lock(&wanted, ASK);
            assert_eq!(again.holds, Some(1), "the count starts anew");
            assert!(first.release(again));
        }
    });
}

#[test]
fn an_owner_s_hold_is_renewed_extended_and_lost_by_itself() {
    everywhere(|place| {
        let (first, second) = (place.process(0), place.process(1));
        let wanted = lock_of(&["a"], "w");
        let short = first.acquire_lock(&wanted, Ask { ttl: 300, renewed: false, ..ASK });
        let renewed = second.acquire_lock(&wanted, Ask { ttl: 300, ..ASK });
        let outcome = first.outcome(short.call);
        assert!(matches!(outcome, Outcome::Lost(Loss::Expired)), "{outcome:?}");
        let lost = second.outcome_within(renewed.call, millis(900));
        assert!(lost.is_none(), "{lost:?}");
        let third = first.acquire_lock(&wanted, ASK);
        assert_eq!(third.holds, Some(2), "what is lost doesn't count");
        let call = first.extend(third, 2_000);
        assert!(matches!(first.outcome(call), Outcome::Extended));
        assert!(first.remaining(third) <= millis(2_000));
        assert!(second.release(renewed));
        assert!(first.release(third));
        assert!(place.is_free("a"));
    });
}

#[test]
fn all_of_an_owner_s_callers_that_wait_have_it_when_the_first_has() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let calls: Vec<Call> = (0..20).map(|_| process.call_lock(&lock_of(&["a"], "w"), BUSY)).collect();
        let before = process.core.figures(process.manager).commands;
        assert!(process.outcome_within(calls[0], millis(200)).is_none(), "two hold it");
        let asked = process.core.figures(process.manager).commands - before;
        // Each 1 to 2 ms: not twenty times that.
        assert!(asked < 500, "{asked} commands of twenty callers in 0.2 s");
        // The first in line goes: another one asks.
        assert!(process.core.cancel(calls[0].id));
        process.core.flush();
        assert!(holder.release(lock));
        let held: Vec<Lock> = calls[1..].iter().map(|call| process.granted(*call)).collect();
        let mut holds: Vec<u32> = held.iter().filter_map(|lock| lock.holds).collect();
        holds.sort_unstable();
        assert_eq!(holds, (1..=19).collect::<Vec<u32>>());
        assert!(holder.finds_taken(&lock_of(&["a"], "")));
        for lock in held {
            assert!(process.release(lock));
        }
        assert!(place.is_free("a"));
    });
}

#[test]
fn a_take_of_an_owner_s_that_is_said_again_counts_once() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let (near, far) = (on_server(server.port(), PATIENCE), on_server(proxy.port(), millis(10_000)));
    let wanted = lock_of(&["a"], "w");
    let lock = far.acquire("b", ASK);
    assert!(far.release(lock));
    let first = near.acquire_lock(&wanted, ASK);
    let mut count = || ask::<u64>(&mut connection, &["ZCARD", "lock:~h{0}lock:a"]);
    for _ in 0..3 {
        proxy.lose_answers(true);
        let call = far.call_lock(&wanted, ASK);
        until("the take is executed", LONG, || count() == 2);
        proxy.lose_answers(false);
        far.forget_events();
        proxy.cut();
        far.event(|event| matches!(event, Event::Available { .. }));
        let second = far.granted(call);
        assert_eq!((second.holds, count()), (Some(2), 2));
        // Its give as well: it takes away one hold, its own.
        proxy.lose_answers(true);
        assert_eq!(far.core.release(second.call.id), Released::Later);
        far.core.flush();
        until("the give is executed", LONG, || count() == 1);
        proxy.lose_answers(false);
        proxy.cut();
        assert!(matches!(far.outcome(second.call), Outcome::Released(true)));
        assert_eq!(count(), 1);
    }
    assert!(near.release(first));
    until("nothing is left", LONG, || !exists(&mut server.connection(), "lock:a"));
}

#[test]
fn an_owner_s_take_that_arrives_after_its_caller_left_doesn_t_hold_the_lock() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let process = on_server(proxy.port(), PATIENCE);
    let lock = process.acquire("b", ASK);
    assert!(process.release(lock));
    proxy.keep_commands(true);
    let call = process.call_lock(&lock_of(&["a"], "w"), ASK);
    until("the take is under way", LONG, || proxy.kept() == 1);
    assert!(process.core.cancel(call.id));
    process.core.flush();
    until("the give is under way", LONG, || proxy.kept() == 2);
    process.forget_events();
    proxy.keep_commands(false);
    proxy.cut();
    process.event(|event| matches!(event, Event::Available { .. }));
    // The key may be there too briefly to be seen, but its number stays counted.
    let counted = |connection: &mut _| ask::<u64>(connection, &["GET", "lock:~f{0}"]);
    let before = counted(&mut connection);
    proxy.deliver();
    until("the take is executed", LONG, || counted(&mut connection) > before);
    until("and given back within a beat", millis(2_000), || !exists(&mut connection, "lock:a"));
}

#[test]
fn the_crash_of_one_holder_leaves_the_others_of_its_owner_theirs() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let (near, far) = (on_server(server.port(), PATIENCE), on_server(proxy.port(), millis(500)));
    let wanted = lock_of(&["a", "b"], "w");
    let crashed = far.acquire_lock(&wanted, Ask { ttl: 1_000, ..ASK });
    let lock = near.acquire_lock(&wanted, Ask { ttl: 1_000, ..ASK });
    assert_eq!(lock.holds, Some(2));
    // Nothing of it arrives any more.
    proxy.lose_commands(true);
    assert!(matches!(far.outcome(crashed.call), Outcome::Lost(Loss::Unreachable)));
    let lost = near.outcome_within(lock.call, millis(1_000));
    assert!(lost.is_none(), "{lost:?}");
    let next = near.acquire_lock(&wanted, ASK);
    assert_eq!(next.holds, Some(2));
    for lock in [lock, next] {
        assert!(near.release(lock));
    }
    let mut connection = server.connection();
    assert_eq!(ask::<Vec<String>>(&mut connection, &["KEYS", "lock:?"]), Vec::<String>::new(), "free at once");
}
