//! Locks that go from one owner to another by a ticket, through the whole core: in memory, on a server, and with a link
//! that is cut where it hurts.

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
#[allow(dead_code)] // other tests of the engine use all of it
mod server;

use std::time::{Duration, Instant};

use holdfast_core::engine::{Event, Outcome, Phase, Released, Wait};
use holdfast_core::lease::Loss;
use place::*;
use process::*;
use proxy::Proxy;
use server::Server;

const KEY: &str = "lock:a";

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn value(connection: &mut redis::Connection) -> Option<String> {
    ask(connection, &["GET", KEY])
}

/// A server, one process on it that holds the key, and another behind a wire that can be cut.
struct Scene {
    server: Server,
    proxy: Proxy,
    connection: redis::Connection,
    near: Process,
    far: Process,
}

impl Scene {
    /// `patience` of the process behind the wire.
    fn new(patience: u64) -> Scene {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let (near, far) = (on_server(server.port(), PATIENCE), on_server(proxy.port(), millis(patience)));
        // Connected, and sure of its fencing numbers.
        let lock = far.acquire("b", ASK);
        assert!(far.release(lock));
        far.forget_events();
        Scene { connection: server.connection(), server, proxy, near, far }
    }

    /// A lock of the near process, left for `ttl`.
    fn ticket(&self, ttl: u32) -> Ticket {
        let lock = self.near.acquire("a", Ask { ttl, ..ASK });
        self.near.detached(lock, ttl)
    }

    fn adopt(&self, ticket: Ticket, ttl: u32) -> Call {
        self.far.adopt(&lock_of(&["a"], ""), ticket, Ask { ttl, ..ASK })
    }

    /// The wire is cut, and there is a new one.
    fn cut(&self) {
        self.far.forget_events();
        self.proxy.cut();
        self.far.event(|event| matches!(event, Event::Available { .. }));
    }
}

// ----- with nothing in the way ------------------------------------------------------------------------------------------

#[test]
fn a_lock_goes_to_another_process_with_its_number_and_nobody_comes_between() {
    everywhere(|place| {
        let (first, second, third) = (place.process(0), place.process(1), place.process(2));
        for (keys, owner) in [(&["a"][..], ""), (&["a", "b", "c"], ""), (&["a"], "w"), (&["a", "b"], "w")] {
            let wanted = lock_of(keys, owner);
            let lock = first.acquire_lock(&wanted, Ask { ttl: 5_000, ..ASK });
            let ticket = first.detached(lock, 3_000);
            assert_ne!(ticket.token, lock.token);
            assert_eq!(
                (first.remaining(lock), first.core.release(lock.call.id)),
                (Duration::ZERO, Released::NotHeld)
            );
            let any = lock_of(&["a"], "");
            assert!(third.finds_taken(&any) && first.finds_taken(&any));

            let call = second.adopt(&wanted, ticket, Ask { ttl: 600, ..ASK });
            let adopted = second.granted(call);
            assert_eq!(adopted.fence, lock.fence);
            assert!(![lock.token, ticket.token].contains(&adopted.token));
            assert!((300..600).contains(&second.remaining(adopted).as_millis()));
            assert!(third.finds_taken(&any));
            // Once.
            for process in [&first, &second, &third] {
                let again = process.adopt(&wanted, ticket, ASK);
                let outcome = process.outcome(again);
                assert!(matches!(outcome, Outcome::Lost(Loss::Taken)), "{outcome:?}");
            }
            // It is renewed like any other.
            let lost = second.outcome_within(adopted.call, millis(1_000));
            assert!(lost.is_none(), "{lost:?}");
            assert!(second.release(adopted));
            let next = third.acquire_lock(&wanted, ASK);
            assert!(next.fence > lock.fence);
            assert!(third.release(next));
        }
        let (first, second) = (first.counters(), second.counters());
        assert_eq!((first.acquired, first.released, first.held, first.lost()), (4, 4, 0, 0), "left is given back");
        assert_eq!((second.acquired, second.released, second.held, second.failed), (4, 4, 0, 4));
    });
}

#[test]
fn a_ticket_that_nobody_adopts_is_good_for_its_time_and_the_lock_free_after_it() {
    everywhere(|place| {
        let (first, second) = (place.process(0), place.process(1));
        let lock = first.acquire("a", ASK);
        let before = Instant::now();
        let ticket = first.detached(lock, 400);
        let next = second.acquire("a", ASK);
        let waited = before.elapsed();
        assert!((400..5_000).contains(&waited.as_millis()), "{waited:?}");
        let late = first.adopt(&lock_of(&["a"], ""), ticket, ASK);
        assert!(matches!(first.outcome(late), Outcome::Lost(Loss::Taken)));
        assert!(second.remaining(next) > Duration::ZERO);
        assert!(second.release(next));
        let late = first.adopt(&lock_of(&["a"], ""), ticket, ASK);
        assert!(matches!(first.outcome(late), Outcome::Lost(Loss::Taken)), "a free lock isn't adopted either");
        assert!(place.is_free("a"));
    });
}

#[test]
fn who_waits_in_the_process_that_detaches_or_adopts_waits_on() {
    everywhere(|place| {
        let (first, second) = (place.process(0), place.process(1));
        let lock = first.acquire("a", ASK);
        let (behind, other) = (first.call("a", ASK), second.call("a", ASK));
        let ticket = first.detached(lock, 5_000);
        for (process, call) in [(&first, behind), (&second, other)] {
            assert!(process.outcome_within(call, millis(150)).is_none(), "two hold it");
        }
        let call = second.adopt(&lock_of(&["a"], ""), ticket, ASK);
        let adopted = second.granted(call);
        for (process, call) in [(&first, behind), (&second, other)] {
            assert!(process.outcome_within(call, millis(150)).is_none(), "two hold it");
        }
        assert!(second.release(adopted));
        // One after the other, whoever comes first.
        let mut fences = vec![adopted.fence];
        let mut waiting = vec![(&first, behind), (&second, other)];
        while !waiting.is_empty() {
            let mut granted = None;
            until("one of them has it", LONG, || {
                granted =
                    waiting.iter().position(|(process, call)| match process.outcome_within(*call, Duration::ZERO) {
                        Some((_, Outcome::Granted { fence, .. })) => {
                            fences.push(fence);
                            true
                        }
                        Some(other) => panic!("{other:?}"),
                        None => false,
                    });
                granted.is_some()
            });
            let (process, call) = waiting.remove(granted.unwrap());
            assert_eq!(process.core.release(call.id), Released::Later);
            process.core.flush();
        }
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    });
}

#[test]
fn a_lock_released_or_closed_while_it_is_detached_is_given_back() {
    everywhere(|place| {
        let first = place.process(0);
        let lock = first.acquire("a", ASK);
        let call = first.detach(lock, 5_000);
        match first.core.release(lock.call.id) {
            // The detach was answered before: in memory it always is.
            Released::NotHeld => {
                let Outcome::Detached(token) = first.outcome(call) else { panic!("neither") };
                let ticket = Ticket { token, fence: lock.fence };
                let call = first.adopt(&lock_of(&["a"], ""), ticket, ASK);
                let adopted = first.granted(call);
                assert!(first.release(adopted));
            }
            Released::Later => {
                first.core.flush();
                assert!(matches!(first.outcome(lock.call), Outcome::Released(true)));
                assert!(matches!(first.outcome(call), Outcome::Lost(Loss::Taken)));
            }
        }
        until("it is free", LONG, || place.is_free("a"));
        let lock = first.acquire("a", ASK);
        let call = first.detach(lock, 5_000);
        first.core.leave(first.manager);
        let outcome = first.outcome(call);
        match outcome {
            Outcome::Detached(_) => {}
            Outcome::Lost(Loss::Closed) => until("it is free", LONG, || place.is_free("a")),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_detached_lock_isn_t_renewed_and_lasts_as_long_as_its_ticket() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", Ask { ttl: 600, ..ASK });
    let ticket = process.detached(lock, 3_000);
    let renewals = process.core.figures(process.manager).renewals;
    let left: i64 = ask(&mut connection, &["PTTL", KEY]);
    assert!((2_000..=3_030).contains(&left), "{left}");
    // Two renewals would have come.
    std::thread::sleep(millis(500));
    let later: i64 = ask(&mut connection, &["PTTL", KEY]);
    assert!(later <= left - 450, "{later} ms are left after {left}");
    assert_eq!(process.core.figures(process.manager).renewals, renewals);
    assert_eq!(value(&mut connection), Some(ticket.token.to_string()));
}

// ----- adopting over a bad wire ------------------------------------------------------------------------------------------

#[test]
fn an_adoption_that_gets_lost_on_the_way_is_said_again() {
    let scene = Scene::new(10_000);
    let ticket = scene.ticket(20_000);
    scene.proxy.lose_commands(true);
    let call = scene.adopt(ticket, 10_000);
    until("it is lost", LONG, || scene.proxy.lost() > 0);
    scene.proxy.lose_commands(false);
    scene.cut();
    let lock = scene.far.granted(call);
    assert_eq!(lock.fence, ticket.fence);
    assert!(scene.far.release(lock));
}

#[test]
fn an_adoption_whose_answer_gets_lost_is_said_again_by_the_same_name() {
    let mut scene = Scene::new(10_000);
    let ticket = scene.ticket(20_000);
    scene.proxy.lose_answers(true);
    let call = scene.adopt(ticket, 10_000);
    until("it is executed", LONG, || value(&mut scene.connection) != Some(ticket.token.to_string()));
    let name = value(&mut scene.connection);
    ask::<()>(&mut scene.connection, &["PEXPIRE", KEY, "5000"]);
    scene.proxy.lose_answers(false);
    scene.cut();
    let lock = scene.far.granted(call);
    assert_eq!((lock.fence, Some(lock.token.to_string())), (ticket.fence, name));
    let left: i64 = ask(&mut scene.connection, &["PTTL", KEY]);
    assert!(left > 8_000, "its lease is whole: {left}");
    assert!(scene.far.release(lock));
    assert!(!exists(&mut scene.connection, KEY));
}

#[test]
fn a_late_copy_of_an_adoption_finds_nothing_of_its_own() {
    let mut scene = Scene::new(10_000);
    let ticket = scene.ticket(20_000);
    scene.proxy.keep_commands(true);
    let call = scene.adopt(ticket, 10_000);
    until("it is under way", LONG, || scene.proxy.kept() == 1);
    scene.proxy.keep_commands(false);
    scene.cut();
    let lock = scene.far.granted(call);
    let next = scene.near.call("a", ASK);
    assert!(scene.far.release(lock));
    let next = scene.near.granted(next);
    scene.proxy.deliver();
    let lost = scene.near.outcome_within(next.call, millis(300));
    assert!(lost.is_none(), "{lost:?}");
    assert_eq!(value(&mut scene.connection), Some(next.token.to_string()));
    assert!(scene.near.release(next));
    assert!(!exists(&mut scene.connection, KEY));
}

#[test]
fn an_adoption_begun_without_a_connection_is_done_when_there_is_one() {
    let scene = Scene::new(10_000);
    let ticket = scene.ticket(20_000);
    let strange = on_server(scene.server.port(), PATIENCE * 3);
    // Its first command: there is no connection yet.
    let call = strange.adopt(&lock_of(&["a"], ""), ticket, ASK);
    let lock = strange.granted(call);
    assert!(strange.release(lock));
}

#[test]
fn an_adoption_of_unknown_outcome_is_given_back_and_not_before_it_is_given_up() {
    // Executed, and its answer lost, with a connection that breaks before it is given up or later; or not executed before
    // that, and late.
    for (late, breaks) in [(false, false), (false, true), (true, false)] {
        let mut scene = Scene::new(400);
        let ticket = scene.ticket(20_000);
        let name = ticket.token.to_string();
        if late {
            scene.proxy.keep_commands(true);
        } else {
            scene.proxy.lose_answers(true);
        }
        let call = scene.adopt(ticket, 20_000);
        if late {
            until("it is under way", LONG, || scene.proxy.kept() == 1);
        } else {
            until("it is executed", LONG, || value(&mut scene.connection) != Some(name.clone()));
        }
        // What follows gets lost, or is late as well.
        scene.proxy.lose_commands(true);
        if breaks {
            // And there is no way back for now: what a new connection says gets lost as well.
            scene.proxy.cut();
        }
        let outcome = scene.far.outcome(call);
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
        assert!(exists(&mut scene.connection, KEY));
        scene.proxy.keep_commands(false);
        scene.proxy.lose_answers(false);
        scene.proxy.lose_commands(false);
        scene.cut();
        if late {
            assert_eq!(value(&mut scene.connection), Some(name.clone()), "the ticket isn't used up");
            scene.proxy.deliver();
        }
        until("it is given back", millis(5_000), || !exists(&mut scene.connection, KEY));
        let counters = scene.far.counters();
        assert_eq!((counters.held, counters.waiting, counters.failed), (0, 0, 1));
    }
}

#[test]
fn a_cancelled_adoption_leaves_no_key() {
    let mut scene = Scene::new(10_000);
    let ticket = scene.ticket(20_000);
    scene.proxy.keep_commands(true);
    let call = scene.adopt(ticket, 20_000);
    until("it is under way", LONG, || scene.proxy.kept() == 1);
    assert!(scene.far.core.cancel(call.id));
    scene.far.core.flush();
    scene.proxy.deliver();
    until("it is executed", LONG, || value(&mut scene.connection) != Some(ticket.token.to_string()));
    scene.proxy.keep_commands(false);
    scene.cut();
    until("it is given back", millis(5_000), || !exists(&mut scene.connection, KEY));
}

#[test]
fn killed_connections_cost_no_ticket_and_no_lock() {
    let server = Server::start();
    let mut killer = server.connection();
    let processes: Vec<Process> = (0..3).map(|number| on_server(server.port(), PATIENCE + millis(number))).collect();
    let wanted = lock_of(&["a"], "");
    let mut lock = processes[0].acquire("a", ASK);
    for round in 0..60 {
        let (from, to) = (&processes[round % 3], &processes[(round + 1) % 3]);
        let kill = |connection: &mut redis::Connection| {
            ask::<u32>(connection, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
        };
        let call = from.detach(lock, 10_000);
        kill(&mut killer);
        let ticket = match from.outcome(call) {
            Outcome::Detached(token) => Ticket { token, fence: lock.fence },
            other => panic!("{other:?}"),
        };
        assert_eq!(value(&mut killer), Some(ticket.token.to_string()));
        let call = to.adopt(&wanted, ticket, ASK);
        kill(&mut killer);
        let adopted = to.granted(call);
        assert_eq!(adopted.fence, lock.fence);
        lock = adopted;
    }
    assert!(processes[0].release(lock));
}

// ----- detaching over a bad wire ----------------------------------------------------------------------------------------

#[test]
fn a_detach_whose_command_or_answer_gets_lost_is_said_again() {
    for executed in [false, true] {
        let mut scene = Scene::new(10_000);
        let lock = scene.far.acquire("a", ASK);
        if executed {
            scene.proxy.lose_answers(true);
        } else {
            scene.proxy.lose_commands(true);
        }
        let call = scene.far.detach(lock, 20_000);
        if executed {
            until("it is executed", LONG, || value(&mut scene.connection) != Some(lock.token.to_string()));
        } else {
            until("it is lost", LONG, || scene.proxy.lost() > 0);
        }
        assert!(scene.far.remaining(lock) > Duration::ZERO, "it isn't left before that is known");
        scene.proxy.lose_commands(false);
        scene.proxy.lose_answers(false);
        scene.cut();
        let Outcome::Detached(token) = scene.far.outcome(call) else { panic!("it isn't detached") };
        assert_eq!(value(&mut scene.connection), Some(token.to_string()));
        let call = scene.near.adopt(&lock_of(&["a"], ""), Ticket { token, fence: lock.fence }, ASK);
        let adopted = scene.near.granted(call);
        assert!(scene.near.release(adopted));
    }
}

#[test]
fn a_detach_nobody_answers_leaves_the_lock_with_its_holder() {
    let mut scene = Scene::new(400);
    let lock = scene.far.acquire("a", ASK);
    scene.proxy.lose_answers(true);
    let call = scene.far.detach(lock, 20_000);
    let outcome = scene.far.outcome(call);
    assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
    assert!(scene.far.remaining(lock) > Duration::ZERO);
    scene.proxy.lose_answers(false);
    scene.cut();
    let lost = scene.far.outcome_within(lock.call, millis(300));
    assert!(lost.is_none(), "{lost:?}");
    assert!(scene.near.finds_taken(&lock_of(&["a"], "")));
    assert!(scene.far.release(lock));
    until("it is free", LONG, || !exists(&mut scene.connection, KEY));
}

#[test]
fn a_detach_for_a_short_time_is_not_outlived_by_the_belief_in_it() {
    // Executed, and its answer lost: the server forgets the key long before the lease would have ended.
    let mut scene = Scene::new(5_000);
    let lock = scene.far.acquire("a", Ask { ttl: 30_000, ..ASK });
    scene.proxy.lose_answers(true);
    scene.far.detach(lock, 600);
    until("it is executed", LONG, || value(&mut scene.connection) != Some(lock.token.to_string()));
    // Nothing more arrives, renewals neither.
    scene.proxy.lose_commands(true);
    let next = scene.near.acquire("a", ASK);
    assert_eq!(scene.far.remaining(lock), Duration::ZERO, "two hold it");
    assert!(matches!(scene.far.outcome(lock.call), Outcome::Lost(_)));
    assert!(scene.near.release(next));
}

#[test]
fn a_connection_that_breaks_after_a_detach_was_answered_doesn_t_free_the_ticket() {
    let mut scene = Scene::new(5_000);
    let lock = scene.far.acquire("a", Ask { ttl: 3_000, ..ASK });
    scene.proxy.keep_commands(true);
    let call = scene.far.detach(lock, 20_000);
    until("it is under way", LONG, || scene.proxy.kept() == 1);
    // Past the moment when renewal falls due, and before the patience with the call ends.
    std::thread::sleep(millis(900));
    scene.proxy.deliver();
    let Outcome::Detached(token) = scene.far.outcome(call) else { panic!("it isn't detached") };
    scene.proxy.keep_commands(false);
    scene.proxy.cut();
    // Whatever is to be given back is given back ahead of this.
    let other = scene.far.acquire("b", ASK);
    assert_eq!(value(&mut scene.connection), Some(token.to_string()));
    assert!(scene.far.release(other));
}

#[test]
fn a_detach_refused_for_want_of_memory_leaves_the_lock_with_its_holder() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", Ask { ttl: 1_000, ..ASK });
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    let call = process.detach(lock, 5_000);
    let outcome = process.outcome(call);
    assert!(matches!(&outcome, Outcome::Unavailable(trouble) if trouble.code() == "OOM"), "{outcome:?}");
    ask::<()>(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
    // And it is renewed again.
    let lost = process.outcome_within(lock.call, millis(2_000));
    assert!(lost.is_none(), "{lost:?}");
    let ticket = process.detached(lock, 5_000);
    assert_eq!(value(&mut connection), Some(ticket.token.to_string()));
}

#[test]
fn a_detach_of_a_key_that_was_taken_away_is_a_loss() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), PATIENCE);
    let lock = process.acquire("a", ASK);
    ask::<()>(&mut connection, &["SET", KEY, "somebody"]);
    let call = process.detach(lock, 5_000);
    assert!(matches!(process.outcome(call), Outcome::Lost(Loss::Taken)));
    assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::Taken)));
    assert_eq!(value(&mut connection).as_deref(), Some("somebody"));
    // A ticket whose key was deleted is no good.
    ask::<()>(&mut connection, &["DEL", KEY]);
    let lock = process.acquire("a", ASK);
    let ticket = process.detached(lock, 5_000);
    ask::<()>(&mut connection, &["DEL", KEY]);
    let call = process.adopt(&lock_of(&["a"], ""), ticket, ASK);
    assert!(matches!(process.outcome(call), Outcome::Lost(Loss::Taken)));
    assert!(!exists(&mut connection, KEY), "nothing is made of it");
    let call = process.call("a", Ask { timeout: Some(millis(500)), ..ASK });
    let lock = process.granted(call);
    assert!(process.release(lock));
}

#[test]
fn the_holder_of_a_ticket_is_named_to_those_who_wait_in_vain() {
    everywhere(|place| {
        let (first, second) = (place.process(0), place.process(1));
        let lock = first.acquire("a", ASK);
        let ticket = first.detached(lock, 5_000);
        let call = second.call("a", Ask { timeout: Some(millis(100)), ..ASK });
        match second.outcome(call) {
            Outcome::TimedOut(Wait { holder, phase: Phase::Spinning, .. }) => {
                assert_eq!(holder, Some(ticket.token.to_string()));
            }
            other => panic!("{other:?}"),
        }
    });
}
