//! The whole core: calls go in, outcomes come out, with the store of this process and with a real server, and with what
//! can happen to a server and the way to it.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/place.rs"]
mod place;
#[path = "support/process.rs"]
#[allow(dead_code)] // other tests of the engine use all of it
mod process;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/server.rs"]
mod server;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::engine::{Event, Figures, Outcome, Phase, Released, Wait};
use holdfast_core::lease::Loss;
use place::*;
use process::*;
use proxy::Proxy;
use server::Server;

const KEY: &str = "lock:a";
const COUNTER: &str = "lock:~f{0}";

// ----- one process ------------------------------------------------------------------------------------------------------

#[test]
fn a_lock_is_granted_held_and_given_back_once() {
    everywhere(|place| {
        let process = place.process(0);
        let mut last = 0;
        for _ in 0..20 {
            let lock = process.acquire("a", ASK);
            assert!(lock.fence > last, "{} after {last}", lock.fence);
            last = lock.fence;
            let remaining = process.core.remaining(lock.call.id);
            assert!((9_000..9_899).contains(&remaining.as_millis()), "{remaining:?}");
            assert!(process.release(lock));
            assert_eq!(process.core.remaining(lock.call.id), Duration::ZERO);
            assert_eq!(process.core.release(lock.call.id), Released::NotHeld);
            assert!(!process.core.extend(lock.call.id, 1_000, holdfast_core::lease::Ttl::from_millis(500)));
        }
        let counters = process.core.figures(process.manager).counters;
        assert_eq!((counters.acquired, counters.released, counters.held, counters.waiting), (20, 20, 0, 0));
        assert!(place.is_free("a"));
    });
}

#[test]
fn callers_are_served_in_order_without_commands_in_between() {
    everywhere(|place| {
        let process = place.process(0);
        let calls: Vec<Call> = (0..100).map(|_| process.call("a", ASK)).collect();
        for cancelled in [7, 8, 50, 99] {
            assert!(process.core.cancel(calls[cancelled].id));
            assert!(!process.core.cancel(calls[cancelled].id));
        }
        let mut last = 0;
        for (number, call) in calls.iter().enumerate() {
            if [7, 8, 50, 99].contains(&number) {
                assert!(process.outcome_within(*call, Duration::ZERO).is_none());
                continue;
            }
            let lock = process.granted(*call);
            assert!(lock.fence > last);
            last = lock.fence;
            // Nobody behind it has it as well.
            if let Some(next) = calls.get(number + 1) {
                assert!(process.outcome_within(*next, Duration::ZERO).is_none());
            }
            assert!(process.release(lock));
        }
        let Figures { counters, commands, .. } = process.core.figures(process.manager);
        assert_eq!((counters.acquired, counters.failed, counters.held, counters.waiting), (96, 4, 0, 0));
        assert!(counters.handed_on > 48, "{counters:?}");
        assert!(commands < 100, "{commands} commands for 96 locks");
        assert!(place.is_free("a"));
    });
}

#[test]
fn a_single_attempt_and_a_waiting_one_find_out_that_it_is_taken() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        for other in [&holder, &process] {
            let call = other.call("a", Ask { once: true, ..ASK });
            assert!(matches!(other.outcome(call), Outcome::Busy(_)));
        }
        let timeout = Some(Duration::from_millis(150));
        let first = process.call("a", Ask { timeout, ..ASK });
        let second = process.call("a", Ask { timeout, ..ASK });
        let begin = Instant::now();
        let holds = lock.token.to_string();
        match process.outcome(first) {
            Outcome::TimedOut(Wait { waited, attempts, phase, holder }) => {
                assert!(waited >= Duration::from_millis(150) && begin.elapsed() < Duration::from_secs(2));
                assert!(attempts >= 2, "{attempts}");
                assert_eq!((phase, holder), (Phase::Spinning, Some(holds)));
            }
            other => panic!("{other:?}"),
        }
        // The second may have been the first in line for a moment.
        assert!(matches!(process.outcome(second), Outcome::TimedOut(_)));
        let queued = holder.call("a", Ask { timeout, ..ASK });
        assert!(matches!(holder.outcome(queued), Outcome::TimedOut(Wait { phase: Phase::Queued, .. })));
        assert!(holder.release(lock));
        let lock = process.acquire("a", ASK);
        assert!(process.release(lock));
    });
}

#[test]
fn a_held_lock_is_renewed() {
    everywhere(|place| {
        let (process, other) = (place.process(0), place.process(1));
        let lock = process.acquire("a", Ask { ttl: 600, ..ASK });
        let end = Instant::now() + Duration::from_millis(2_000);
        while Instant::now() < end {
            let call = other.call("a", Ask { once: true, ..ASK });
            assert!(matches!(other.outcome(call), Outcome::Busy(_)));
            let remaining = process.core.remaining(lock.call.id);
            assert!(remaining > Duration::ZERO);
            let lost = process.outcome_within(lock.call, Duration::from_millis(10));
            assert!(lost.is_none(), "{lost:?}");
        }
        let renewals = process.core.figures(process.manager).renewals;
        assert!((5..=30).contains(&renewals), "{renewals} renewals of 600 ms in 2 s");
        assert!(process.release(lock));
        assert!(place.is_free("a"));
        let after = process.core.figures(process.manager).renewals;
        assert!(process.outcome_within(lock.call, Duration::from_millis(500)).is_none());
        assert_eq!(process.core.figures(process.manager).renewals, after, "renewed after it was released");
    });
}

#[test]
fn a_lock_without_renewal_is_lost_when_its_ttl_is_over() {
    everywhere(|place| {
        let process = place.process(0);
        let before = Instant::now();
        let lock = process.acquire("a", Ask { ttl: 300, renewed: false, ..ASK });
        let (at, outcome) = process.outcome_within(lock.call, LONG).unwrap();
        assert!(matches!(outcome, Outcome::Lost(Loss::Expired)), "{outcome:?}");
        let lasted = at - before;
        assert!((294..1_500).contains(&lasted.as_millis()), "{lasted:?}");
        assert_eq!(process.core.release(lock.call.id), Released::NotHeld);
        // Given back, although its ttl isn't quite over.
        until("the key is free", LONG, || place.is_free("a"));
    });
}

#[test]
fn a_lease_is_extended_and_shortened() {
    everywhere(|place| {
        let (process, other) = (place.process(0), place.process(1));
        let lock = process.acquire("a", Ask { renewed: false, ..ASK });
        let remains = |least: u128, most: u128| {
            let remaining = process.core.remaining(lock.call.id).as_millis();
            assert!((least..=most).contains(&remaining), "{remaining} ms remain, not {least} to {most}");
        };
        for (ttl, least, most) in
            [(60_000, 58_000, 59_398), (2_000, 1_000, 1_978), (20_000, 18_000, 19_798), (800, 300, 790)]
        {
            let call = process.extend(lock, ttl);
            assert!(matches!(process.outcome(call), Outcome::Extended));
            remains(least, most);
        }
        let begin = Instant::now();
        assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Expired)));
        assert!(begin.elapsed() < Duration::from_millis(1_500));
        let lock = other.acquire("a", ASK);
        assert!(other.release(lock));
    });
}

#[test]
fn closing_refuses_who_waits_takes_from_who_holds_and_gives_back() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", ASK);
        let waits = process.call("a", ASK);
        process.core.leave(process.manager);
        assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Closed)));
        assert!(matches!(process.outcome(waits), Outcome::Closed));
        process.core.settle(LONG);
        assert!(place.is_free("a"));
    });
}

// ----- several processes --------------------------------------------------------------------------------------------------

/// What must hold of a lock that nobody loses: one inside at a time, numbers that rise.
#[derive(Default)]
struct Watched {
    inside: AtomicBool,
    last: Mutex<u64>,
}

impl Watched {
    fn enter(&self, fence: u64) {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two are inside");
        let mut last = self.last.lock().unwrap();
        assert!(fence > *last, "{fence} after {last}");
        *last = fence;
    }

    fn leave(&self) {
        assert!(self.inside.swap(false, Ordering::SeqCst));
    }
}

/// Goes through `key` `times` times with up to `crowd` calls at once. Every one is granted, none is lost.
fn go_through(process: &Process, key: &str, times: usize, crowd: usize, watched: &Watched) {
    let mut calls: HashMap<u32, Call> = HashMap::new();
    let (mut begun, mut done) = (0, 0);
    while done < times {
        while begun < times && calls.len() < crowd {
            let call = process.call_unsent(key, ASK);
            calls.insert(call.slot, call);
            begun += 1;
        }
        process.core.flush();
        let (slot, outcome) = process.next(LONG).expect("somebody waits for ever");
        match outcome {
            Outcome::Granted { fence, .. } => {
                watched.enter(fence);
                std::thread::yield_now();
                watched.leave();
                assert_eq!(process.core.release(calls[&slot].id), Released::Later);
            }
            // Whether a release says `true` depends on whose answer got lost.
            Outcome::Released(_) | Outcome::Unavailable(_) => {
                calls.remove(&slot);
                done += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn processes_take_turns_and_nobody_is_inside_twice() {
    everywhere(|place| {
        let watched = Watched::default();
        let processes: Vec<Process> = (0..3).map(|number| place.process(number)).collect();
        std::thread::scope(|scope| {
            for (process, crowd) in processes.iter().zip([1, 4, 40]) {
                let watched = &watched;
                scope.spawn(move || go_through(process, "a", 60 * crowd.min(5), crowd, watched));
            }
        });
        for process in &processes {
            process.core.settle(LONG);
        }
        assert!(place.is_free("a"));
    });
}

#[test]
fn a_crowd_in_one_process_lets_another_process_through() {
    let server = Server::start();
    let (crowd, single) = (on_server(server.port(), PATIENCE), on_server(server.port(), PATIENCE * 2));
    let watched = Watched::default();
    let served = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Never without a queue until the other has had its turn.
            while !served.load(Ordering::SeqCst) {
                go_through(&crowd, "a", 500, 100, &watched);
            }
        });
        until("the crowd is inside", LONG, || *watched.last.lock().unwrap() > 0);
        let begin = Instant::now();
        for _ in 0..3 {
            go_through(&single, "a", 1, 1, &watched);
        }
        let waited = begin.elapsed();
        served.store(true, Ordering::SeqCst);
        assert!(waited < Duration::from_secs(10), "three turns took {waited:?}");
    });
}

#[test]
fn no_connection_killed_costs_a_lock_or_lets_two_inside() {
    let server = Server::start();
    let watched = Watched::default();
    let (done, killed) = (AtomicBool::new(false), AtomicU32::new(0));
    let processes: Vec<Process> =
        (0..3).map(|number| on_server(server.port(), PATIENCE + Duration::from_millis(number))).collect();
    let mut killer = server.connection();
    let work = &|process| {
        while killed.load(Ordering::SeqCst) < 400 {
            go_through(process, "a", 50, 5, &watched);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = processes.iter().map(|process| scope.spawn(move || work(process))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                killed.fetch_add(ask(&mut killer, &words), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::SeqCst);
        for end in ends {
            end.unwrap();
        }
    });
    let mut connection = server.connection();
    until("the key is gone", Duration::from_secs(3), || !exists(&mut connection, KEY));
}

// ----- trouble with a lease -------------------------------------------------------------------------------------------------

#[test]
fn a_deleted_or_overwritten_key_is_lost_and_what_is_there_stays() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let ask_short = Ask { ttl: 300, ..ASK };
    let lock = process.acquire("a", ask_short);
    ask::<()>(&mut connection, &["DEL", KEY]);
    assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Taken)));
    let lock = process.acquire("a", ask_short);
    ask::<()>(&mut connection, &["SET", KEY, "somebody"]);
    assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Taken)));
    process.core.settle(LONG);
    assert_eq!(ask::<String>(&mut connection, &["GET", KEY]), "somebody");
    // An extend finds out at once.
    ask::<()>(&mut connection, &["DEL", KEY]);
    let lock = process.acquire("a", ASK);
    ask::<()>(&mut connection, &["SET", KEY, "somebody"]);
    let extend = process.extend(lock, 20_000);
    assert!(matches!(process.outcome(extend), Outcome::Lost(Loss::Taken)));
    assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Taken)));
    // So does a release.
    ask::<()>(&mut connection, &["DEL", KEY]);
    let lock = process.acquire("a", ASK);
    ask::<()>(&mut connection, &["SET", KEY, "somebody"]);
    assert!(!process.release(lock));
    assert_eq!(ask::<String>(&mut connection, &["GET", KEY]), "somebody");
}

#[test]
fn a_key_with_other_data_fails_its_caller_and_nobody_else() {
    let server = Server::start();
    let mut connection = server.connection();
    ask::<()>(&mut connection, &["LPUSH", KEY, "precious"]);
    let process = on_server(server.port(), PATIENCE);
    let calls = ["a", "b", "a", "c"].map(|key| process.call_unsent(key, ASK));
    process.core.flush();
    for number in [0, 2] {
        let outcome = process.outcome(calls[number]);
        assert!(matches!(outcome, Outcome::WrongType(_)), "{outcome:?}");
    }
    for number in [1, 3] {
        let lock = process.granted(calls[number]);
        assert!(process.release(lock));
    }
    assert_eq!(ask::<Vec<String>>(&mut connection, &["LRANGE", KEY, "0", "-1"]), ["precious"]);
}

#[test]
fn a_lease_outlives_killed_connections() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", Ask { ttl: 600, ..ASK });
    for _ in 0..20 {
        ask::<i64>(&mut connection, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let lost = process.outcome_within(lock.call, Duration::from_millis(100));
        assert!(lost.is_none(), "{lost:?}");
    }
    assert_eq!(ask::<String>(&mut connection, &["GET", KEY]), lock.token.to_string());
    assert!(process.release(lock));
}

#[test]
fn a_frozen_server_costs_a_lock_only_when_its_lease_is_over() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), Duration::from_millis(300));
    let (long, short) = (process.acquire("a", ASK), process.acquire("b", Ask { ttl: 900, ..ASK }));
    server.freeze();
    let frozen = Instant::now();
    let (at, outcome) = process.outcome_within(short.call, LONG).unwrap();
    assert!(matches!(outcome, Outcome::Lost(Loss::Unreachable)), "{outcome:?}");
    // By its own clock, with nobody to ask: after what was left of its lease.
    let after = at - frozen;
    assert!((500..2_000).contains(&after.as_millis()), "{after:?}");
    assert!(process.outcome_within(long.call, Duration::from_millis(700)).is_none());
    server.thaw();
    until("what was lost is given back", Duration::from_secs(3), || !exists(&mut connection, "lock:b"));
    assert_eq!(ask::<String>(&mut connection, &["GET", KEY]), long.token.to_string());
    assert!(process.outcome_within(long.call, Duration::from_millis(100)).is_none());
    assert!(process.release(long));
}

#[test]
fn an_acquire_cancelled_while_the_server_is_frozen_leaves_no_key() {
    // With a connection that is replaced meanwhile or not, and for longer than the lease lasts or not.
    for (ttl, pause, patience) in [(10_000, 100, 2_000), (10_000, 900, 300), (300, 900, 200)] {
        let server = Server::start();
        let mut connection = server.connection();
        let process = on_server(server.port(), Duration::from_millis(patience));
        let lock = process.acquire("b", ASK);
        assert!(process.release(lock));
        let before: u64 = ask(&mut connection, &["GET", COUNTER]);
        process.forget_events();
        server.freeze();
        let call = process.call("a", Ask { ttl, ..ASK });
        if pause > patience {
            process.event(|event| matches!(event, Event::Unavailable(_)));
        }
        std::thread::sleep(Duration::from_millis(pause));
        assert!(process.core.cancel(call.id));
        process.core.flush();
        server.thaw();
        // The server executes what it got before: the take was, if the counter has moved.
        until("the take is executed", LONG, || ask::<u64>(&mut connection, &["GET", COUNTER]) > before);
        until("the key is gone within a beat", Duration::from_millis(1_300), || !exists(&mut connection, KEY));
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            assert!(!exists(&mut connection, KEY), "it came back");
        }
    }
}

#[test]
fn a_release_without_a_connection_is_made_up_for() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let process = on_server(proxy.port(), Duration::from_millis(300));
    let lock = process.acquire("a", ASK);
    // The give gets lost, and nobody says so.
    proxy.lose_commands(true);
    let outcome = process.released(lock);
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    assert!(exists(&mut connection, KEY));
    until("something is lost", LONG, || proxy.lost() > 0);
    proxy.lose_commands(false);
    proxy.cut();
    until("the key is given back", Duration::from_secs(3), || !exists(&mut connection, KEY));
}

#[test]
fn a_take_whose_answer_got_lost_is_believed_when_it_is_asked_for_again() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let process = on_server(proxy.port(), PATIENCE);
    let lock = process.acquire("b", ASK);
    assert!(process.release(lock));
    proxy.lose_answers(true);
    let call = process.call("a", ASK);
    until("the take is executed", LONG, || exists(&mut connection, KEY));
    ask::<()>(&mut connection, &["PEXPIRE", KEY, "5000"]);
    proxy.lose_answers(false);
    proxy.cut();
    let lock = process.granted(call);
    // Asked for again: the lease is whole.
    let left: i64 = ask(&mut connection, &["PTTL", KEY]);
    assert!(left > 8_000, "{left}");
    assert!(process.release(lock));
    // An earlier copy might still arrive: the give is repeated, and nothing else happens.
    assert!(!exists(&mut connection, KEY));
}

#[test]
fn a_take_that_arrives_long_after_its_caller_left_is_given_back() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let process = on_server(proxy.port(), PATIENCE);
    let lock = process.acquire("b", ASK);
    assert!(process.release(lock));
    proxy.keep_commands(true);
    let call = process.call("a", ASK);
    until("the take is under way", LONG, || proxy.kept() == 1);
    // Its give is sent behind it, and never arrives.
    assert!(process.core.cancel(call.id));
    process.core.flush();
    until("the give is under way", LONG, || proxy.kept() == 2);
    process.forget_events();
    proxy.keep_commands(false);
    proxy.cut();
    // Said again on the new connection, the give finds nothing yet.
    process.event(|event| matches!(event, Event::Available { .. }));
    let lock = process.acquire("b", ASK);
    assert!(process.release(lock));
    // The key may be there too briefly to be seen, but its number stays counted.
    let before: u64 = ask(&mut connection, &["GET", COUNTER]);
    proxy.deliver();
    until("the take is executed", LONG, || ask::<u64>(&mut connection, &["GET", COUNTER]) > before);
    until("the key is gone within a beat", Duration::from_millis(1_500), || !exists(&mut connection, KEY));
}

#[test]
fn two_renamings_lost_with_the_connection_don_t_cost_or_free_a_held_lock() {
    // They never arrived, or both were done and nobody answered.
    for done in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let mut connection = server.connection();
        let (process, other) = (on_server(proxy.port(), PATIENCE), on_server(server.port(), PATIENCE));
        let lock = process.acquire("a", Ask { ttl: 60_000, ..ASK });
        if done {
            proxy.lose_answers(true);
        } else {
            proxy.lose_commands(true);
        }
        process.extend(lock, 30_000);
        process.extend(lock, 20_000);
        process.forget_events();
        if done {
            until("both are done", LONG, || ask::<i64>(&mut connection, &["PTTL", KEY]) < 21_000);
        } else {
            until("something is lost", LONG, || proxy.lost() > 0);
        }
        proxy.lose_commands(false);
        proxy.lose_answers(false);
        // From here on, whoever wants the key shows when it is free.
        let waits = other.call("a", ASK);
        proxy.cut();
        process.event(|event| matches!(event, Event::Available { .. }));
        let lost = process.outcome_within(lock.call, Duration::from_millis(500));
        assert!(lost.is_none(), "{lost:?}");
        assert!(exists(&mut connection, KEY));
        assert!(process.core.remaining(lock.call.id) > Duration::from_secs(15));
        assert!(other.outcome_within(waits, Duration::from_millis(1_200)).is_none(), "two hold it");
        assert!(process.release(lock));
        let lock = other.granted(waits);
        assert!(other.release(lock));
    }
}

#[test]
fn a_renaming_refused_for_want_of_memory_doesn_t_cost_the_lock() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", ASK);
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    let extend = process.extend(lock, 6_000);
    let outcome = process.outcome(extend);
    assert!(matches!(&outcome, Outcome::Unavailable(trouble) if trouble.code() == "OOM"), "{outcome:?}");
    // It is tried again, in vain. The key is there and ours all the time.
    let lost = process.outcome_within(lock.call, Duration::from_secs(1));
    assert!(lost.is_none(), "{lost:?}");
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
    let lost = process.outcome_within(lock.call, Duration::from_millis(500));
    assert!(lost.is_none(), "{lost:?}");
    assert!(process.release(lock));
    assert!(!exists(&mut connection, KEY));
}

// ----- trouble with the server's memory -------------------------------------------------------------------------------------

#[test]
fn an_emptied_script_cache_is_not_noticed_and_nothing_is_done_twice() {
    let server = Server::start();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", ASK);
    assert!(process.release(lock));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection();
            while !done.load(Ordering::SeqCst) {
                ask::<()>(&mut connection, &["SCRIPT", "FLUSH"]);
            }
        });
        let mut last = lock.fence;
        let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..500 {
                let lock = process.acquire(if number % 2 == 0 { "a" } else { "b" }, ASK);
                // A server without the script may be another one: then numbers go on from its clock.
                assert!(lock.fence > last);
                last = lock.fence;
                assert!(process.release(lock));
            }
        }));
        done.store(true, Ordering::SeqCst);
        all.unwrap();
    });
    let mut connection = server.connection();
    let statistics: String = ask(&mut connection, &["INFO", "commandstats"]);
    // One reservation for each lock: no take was executed twice.
    assert!(statistics.contains("cmdstat_incrby:calls=501,"), "{statistics}");
    assert!(statistics.contains("cmdstat_eval:"), "the cache was never found empty");
    assert!(!exists(&mut connection, KEY));
}

#[test]
fn flushall_costs_the_locks_and_no_number_is_given_twice() {
    let server = Server::start();
    let mut connection = server.connection();
    let (process, other) = (on_server(server.port(), PATIENCE), on_server(server.port(), PATIENCE * 2));
    let mut last = 0;
    for _ in 0..10 {
        for process in [&process, &other] {
            let lock = process.acquire("a", Ask { ttl: 300, ..ASK });
            assert!(lock.fence > last, "{} after {last}", lock.fence);
            last = lock.fence;
            ask::<()>(&mut connection, &["FLUSHALL"]);
            assert!(!process.release(lock));
        }
    }
}

#[test]
fn no_number_is_given_twice_when_a_new_connection_leads_to_an_older_counter() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let mut locks = Vec::new();
    for _ in 0..50 {
        let lock = process.acquire("a", ASK);
        process.release(lock);
        locks.push(lock.fence);
    }
    // What a replica had that lagged behind, and took over.
    ask::<()>(&mut connection, &["SET", COUNTER, &locks[20].to_string()]);
    process.forget_events();
    let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    assert_eq!(ask::<u32>(&mut connection, &words), 1);
    process.event(|event| matches!(event, Event::Unavailable(_)));
    let lock = process.acquire("a", ASK);
    assert!(lock.fence > locks[49], "{} after {}", lock.fence, locks[49]);
    assert!(process.release(lock));
}

#[test]
fn no_number_is_given_twice_when_the_server_turns_out_to_be_one_that_failed_over() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let locks: Vec<Lock> = (0..50)
        .map(|_| {
            let lock = process.acquire("a", ASK);
            process.release(lock);
            lock
        })
        .collect();
    // What a replica had that lagged behind; the same connection goes on, and has seen only that writes were refused.
    ask::<()>(&mut connection, &["SET", COUNTER, &locks[20].fence.to_string()]);
    ask::<()>(&mut connection, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    ask::<()>(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    let call = process.call("a", Ask { once: true, ..ASK });
    match process.outcome(call) {
        Outcome::Unavailable(trouble) => assert_eq!(trouble.code(), "READONLY"),
        other => panic!("{other:?}"),
    }
    ask::<()>(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    let lock = process.acquire("a", ASK);
    let last = locks[49].fence;
    assert!(lock.fence > last, "{} after {last}", lock.fence);
    assert!(process.release(lock));
}

#[test]
fn a_fence_counter_that_can_t_be_used_fails_the_caller_and_leaves_no_key() {
    let server = Server::start();
    let mut connection = server.connection();
    for words in [&["SET", COUNTER, "many"], &["LPUSH", COUNTER, "1"]] {
        ask::<()>(&mut connection, &["DEL", COUNTER]);
        ask::<redis::Value>(&mut connection, words);
        let process = on_server(server.port(), PATIENCE);
        let timeout = Some(Duration::from_millis(300));
        let call = process.call("a", Ask { timeout, ..ASK });
        let outcome = process.outcome(call);
        assert!(matches!(outcome, Outcome::Unavailable(_) | Outcome::WrongType(_)), "{words:?}: {outcome:?}");
        until("no key is left", Duration::from_millis(1_500), || !exists(&mut connection, KEY));
    }
}

#[test]
fn a_take_that_fails_halfway_on_a_slow_server_leaves_no_key() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), Duration::from_secs(10));
    let lock = process.acquire("b", ASK);
    assert!(process.release(lock));
    ask::<()>(&mut connection, &["SET", COUNTER, "many"]);
    server.freeze();
    let call = process.call("a", Ask { ttl: 1_500, ..ASK });
    // By the time it is executed, as much time has passed as the lease was to last.
    std::thread::sleep(Duration::from_millis(1_700));
    server.thaw();
    let outcome = process.outcome(call);
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    until("no key is left", Duration::from_millis(700), || !exists(&mut connection, KEY));
}

#[test]
fn ten_thousand_locks_leave_nothing_but_the_counter() {
    let server = Server::start();
    let process = on_server(server.port(), PATIENCE);
    for hundred in 0..100 {
        let calls: Vec<Call> =
            (0..100).map(|number| process.call_unsent(&format!("key {hundred} {number}"), ASK)).collect();
        process.core.flush();
        for call in calls {
            let lock = process.granted(call);
            assert_eq!(process.core.release(lock.call.id), Released::Later);
        }
        process.core.flush();
    }
    process.core.settle(LONG);
    let mut connection = server.connection();
    assert_eq!(ask::<Vec<String>>(&mut connection, &["KEYS", "*"]), [COUNTER]);
    let Figures { counters, commands, .. } = process.core.figures(process.manager);
    assert_eq!((counters.acquired, counters.released, counters.held), (10_000, 10_000, 0));
    assert!(commands <= 20_000);
}
