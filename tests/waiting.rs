//! How callers wait, for how long a lock may and must be held, and what is counted, through the whole core.

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

use std::time::{Duration, Instant};

use holdfast_core::engine::{Counters, Event, Outcome, Phase, Released, Wait};
use holdfast_core::lease::Loss;
use holdfast_core::wait::{BACKOFF, Choice, Jitter, Phase as Polling, Phases, Poll, Strategy, Then};
use place::*;
use process::*;
use proxy::Proxy;
use server::Server;

const KEY: &str = "lock:a";

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Every `interval`, for so long or so often.
fn polling(interval: u64, max_duration: Option<u64>, max_attempts: Option<u32>) -> Polling {
    let poll = Poll { interval: millis(interval), factor: 1.0, cap: millis(interval), jitter: Jitter::UpTo(0.0) };
    Polling { poll, max_duration: max_duration.map(millis), max_attempts }
}

fn then_fail(phases: &[Polling]) -> Strategy {
    Strategy::Poll(Phases { phases: phases.to_vec(), then: Then::Fail })
}

fn for_ever(phases: &[Polling]) -> Strategy {
    Strategy::Poll(Phases { phases: phases.to_vec(), then: Then::Never })
}

fn timed_out(outcome: Outcome) -> Wait {
    match outcome {
        Outcome::TimedOut(wait) => wait,
        other => panic!("{other:?} instead of a time-out"),
    }
}

// ----- strategies that end ------------------------------------------------------------------------------------------------

#[test]
fn who_may_ask_so_often_gives_up_after_that_and_who_waits_behind_when_as_much_time_is_over() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let three = Ask { strategy: || then_fail(&[polling(100, None, Some(3))]), ..ASK };
        let before = process.core.figures(process.manager).commands;
        let (first, second) = (process.call("a", three), process.call("a", Ask { timeout: Some(LONG), ..three }));
        // After the third answer there is nothing to wait for.
        let wait = timed_out(process.outcome(first));
        assert_eq!((wait.phase, wait.attempts), (Phase::Spinning, 3));
        assert!((200..2_000).contains(&wait.waited.as_millis()), "{wait:?}");
        assert_eq!(wait.holder, Some(lock.token.to_string()));
        // Behind the first it asked nobody, and its time is that of three attempts; then, first, it may ask for itself.
        let wait = timed_out(process.outcome(second));
        assert!(wait.waited >= millis(200) && wait.waited < millis(4_000), "{wait:?}");
        let asked = process.core.figures(process.manager).commands - before;
        assert!((3..=6).contains(&asked), "{asked} commands");

        // Behind a holder of this process nobody asks: its time is over all the same.
        let queued = holder.call("a", three);
        let wait = timed_out(holder.outcome(queued));
        assert_eq!((wait.phase, wait.attempts), (Phase::Queued, 0));
        assert!((300..2_000).contains(&wait.waited.as_millis()), "{wait:?}");
        assert_eq!((process.counters().timeouts, holder.counters().timeouts), (2, 1));
        assert!(holder.release(lock));
        assert!(place.is_free("a"));
    });
}

#[test]
fn who_may_ask_for_so_long_gives_up_after_that() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let ask = Ask { strategy: || then_fail(&[polling(40, Some(250), None)]), ..ASK };
        for process in [&process, &holder] {
            let call = process.call("a", ask);
            let wait = timed_out(process.outcome(call));
            assert!((250..2_000).contains(&wait.waited.as_millis()), "{wait:?}");
        }
        // One phase after the other; the timeout may come first.
        let two = Ask { strategy: || then_fail(&[polling(10, Some(100), None), polling(50, None, Some(4))]), ..ASK };
        let call = process.call("a", two);
        let wait = timed_out(process.outcome(call));
        assert!((250..2_500).contains(&wait.waited.as_millis()), "{wait:?}");
        let call = process.call("a", Ask { timeout: Some(millis(60)), ..two });
        let wait = timed_out(process.outcome(call));
        assert!((60..1_000).contains(&wait.waited.as_millis()), "{wait:?}");
        assert!(holder.release(lock));
    });
}

#[test]
fn a_single_attempt_of_a_strategy_is_enough_for_a_lock_that_is_free() {
    // Also for the first command of a process, whose connection takes longer than its strategy.
    for number in 0..5 {
        everywhere(|place| {
            let process = place.process(number);
            let call = process.call("a", Ask { strategy: || then_fail(&[polling(0, None, Some(1))]), ..ASK });
            let lock = process.granted(call);
            let call = process.call("b", Ask { strategy: || then_fail(&[polling(1, None, Some(1))]), ..ASK });
            let other = process.granted(call);
            assert!(process.release(lock));
            assert!(process.release(other));
        });
    }
}

#[test]
fn attempts_are_one_s_own() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let five = Ask { strategy: || then_fail(&[polling(100, None, Some(5))]), ..ASK };
        let first = process.call("a", five);
        assert!(process.outcome_within(first, millis(350)).is_none());
        let second = process.call("a", five);
        assert!(process.core.cancel(first.id));
        let wait = timed_out(process.outcome(second));
        assert!((400..3_000).contains(&wait.waited.as_millis()), "it gave up with the one before: {wait:?}");
        assert!(holder.release(lock));
    });
}

#[test]
fn strategies_with_different_ends_wait_side_by_side() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let short = process.call("a", Ask { strategy: || then_fail(&[polling(20, None, Some(4))]), ..ASK });
        let long = process.call("a", Ask { strategy: || for_ever(&[polling(20, None, None)]), ..ASK });
        let once = process.call("a", Ask { once: true, ..ASK });
        timed_out(process.outcome(short));
        assert!(matches!(process.outcome(once), Outcome::Busy(_)));
        assert!(process.outcome_within(long, millis(200)).is_none());
        assert!(holder.release(lock));
        let lock = process.granted(long);
        assert!(process.release(lock));
    });
}

#[test]
fn asking_without_a_pause_finds_a_free_lock_at_once_and_stops_with_its_time() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        let at_once = Ask { strategy: || for_ever(&[polling(0, None, None)]), ..ASK };
        let before = process.core.figures(process.manager).commands;
        let call = process.call("a", Ask { timeout: Some(millis(300)), ..at_once });
        let wait = timed_out(process.outcome(call));
        assert!((300..2_000).contains(&wait.waited.as_millis()), "{wait:?}");
        let asked = process.core.figures(process.manager).commands - before;
        assert!(asked >= 30, "{asked} commands in 0.3 s");
        let call = process.call("a", at_once);
        assert!(process.outcome_within(call, millis(50)).is_none());
        assert!(holder.release(lock));
        let lock = process.granted(call);
        assert!(process.release(lock));
        // A lock that competes with others of its own core.
        let lock = process.acquire("a", ASK);
        let call = process.call_lock(&lock_of(&["a", "b"], ""), Ask { timeout: Some(millis(100)), ..at_once });
        timed_out(process.outcome(call));
        let call = process.call_lock(&lock_of(&["a", "b"], ""), at_once);
        assert!(process.release(lock));
        let lock = process.granted(call);
        assert!(process.release(lock));
    });
}

#[test]
fn a_pause_doesn_t_outlast_the_holder_s_lease() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        // It crashed: nobody renews it, nobody gives it back.
        let lock = holder.acquire("a", ASK);
        holder.detached(lock, 300);
        let slow = Ask { strategy: || for_ever(&[polling(60_000, None, None)]), ..ASK };
        let before = Instant::now();
        let lock = process.acquire("a", slow);
        let waited = before.elapsed();
        assert!((200..10_000).contains(&waited.as_millis()), "{waited:?}");
        assert!(process.release(lock));
    });
}

// ----- the adaptive strategy ----------------------------------------------------------------------------------------------

const ADAPTIVE: Ask = Ask { strategy: || Strategy::Adaptive, ..ASK };

fn chosen(counters: &Counters) -> [u64; 3] {
    [counters.chose_spin, counters.chose_backoff, counters.chose_hybrid]
}

#[test]
fn the_adaptive_strategy_goes_by_the_hold_times_and_says_when_it_changes() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        // Waits for somebody else, a moment.
        let waits = || {
            let lock = holder.acquire("a", ASK);
            let call = process.call("a", ADAPTIVE);
            assert!(process.outcome_within(call, millis(30)).is_none());
            assert!(holder.release(lock));
            process.granted(call)
        };
        let lock = waits();
        assert_eq!(chosen(&process.counters()), [0, 0, 1], "nothing is known yet");
        assert!(process.release(lock));
        // A crowd that holds it for no time.
        let hold = |times: usize, time: Duration| {
            let calls: Vec<Call> = (0..times).map(|_| process.call("a", ADAPTIVE)).collect();
            for call in calls {
                let lock = process.granted(call);
                if !time.is_zero() {
                    assert!(process.outcome_within(lock.call, time).is_none());
                }
                assert!(process.release(lock));
            }
        };
        hold(40, Duration::ZERO);
        let lock = waits();
        let (key, choice, p99) = process.event_of(|event| match event {
            Event::Adapted { key, choice, p99 } => Some((key, choice, p99)),
            _ => None,
        });
        assert_eq!((&*key, choice), (KEY, Choice::Spin));
        assert!(p99.unwrap() < millis(50), "{p99:?}");
        assert_eq!(chosen(&process.counters()), [1, 0, 1]);
        assert!(process.release(lock));
        // One of a hundred doesn't count; of about fifty it does.
        hold(2, millis(250));
        let lock = waits();
        let choice = process.event_of(|event| match event {
            Event::Adapted { choice, .. } => Some(choice),
            _ => None,
        });
        assert_eq!(choice, Choice::Backoff);
        assert_eq!(chosen(&process.counters()), [1, 1, 1]);
        assert!(process.release(lock));
        // Another key knows nothing of that.
        let lock = holder.acquire("b", ASK);
        let call = process.call("b", ADAPTIVE);
        until("it waits", LONG, || chosen(&process.counters()) == [1, 1, 2]);
        assert!(holder.release(lock));
        let lock = process.granted(call);
        assert!(process.release(lock));
    });
}

#[test]
fn locks_that_were_waited_for_count_and_others_don_t() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let waits = || {
            let lock = holder.acquire("a", ASK);
            let call = process.call("a", ADAPTIVE);
            assert!(process.outcome_within(call, millis(10)).is_none());
            assert!(holder.release(lock));
            let lock = process.granted(call);
            assert!(process.release(lock));
        };
        // Nobody else wanted these.
        for _ in 0..20 {
            let lock = process.acquire("a", ADAPTIVE);
            assert!(process.release(lock));
        }
        // Its own were those of a process that polled; ten are enough.
        for _ in 0..10 {
            waits();
        }
        assert_eq!(chosen(&process.counters()), [0, 0, 10]);
        waits();
        assert_eq!(chosen(&process.counters()), [1, 0, 10]);
    });
}

#[test]
fn who_spins_first_and_who_won_by_it_is_counted() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let spin = Ask {
            strategy: || {
                let backoff = Polling { poll: BACKOFF, max_duration: None, max_attempts: None };
                for_ever(&[polling(5, Some(150), None), backoff])
            },
            ..ASK
        };
        let lock = holder.acquire("a", ASK);
        let call = process.call("a", spin);
        assert!(process.outcome_within(call, millis(30)).is_none());
        assert!(holder.release(lock));
        let lock = process.granted(call);
        assert!(process.release(lock));
        let counters = process.counters();
        // On a busy machine its thirty milliseconds may last longer than its spinning.
        assert_eq!((counters.phased, counters.won_spinning + counters.left_spinning), (1, 1));
        assert!(counters.attempts >= 2);

        let lock = holder.acquire("a", ASK);
        let call = process.call("a", spin);
        until("it is left", LONG, || process.counters().left_spinning > counters.left_spinning);
        assert_eq!(process.core.figures(process.manager).spinning, 1);
        assert!(holder.release(lock));
        let lock = process.granted(call);
        assert!(process.release(lock));
        let after = process.counters();
        assert_eq!((after.phased, after.won_spinning), (2, counters.won_spinning));
    });
}

// ----- a time to hold at least --------------------------------------------------------------------------------------------

#[test]
fn a_lock_released_early_stays_taken_by_nobody_for_the_rest_of_its_time() {
    everywhere(|place| {
        let (first, second) = (place.process(0), place.process(1));
        let often = Ask { strategy: || for_ever(&[polling(5, None, None)]), ..ASK };
        let before = Instant::now();
        let lock = first.acquire("a", Ask { min_hold: millis(600), ..ASK });
        let (own, other) = (first.call("a", often), second.call("a", often));
        assert!(first.release(lock));
        assert!(before.elapsed() < millis(400), "a release takes no time");
        assert!(second.finds_taken(&lock_of(&["a"], "")) && first.finds_taken(&lock_of(&["a"], "")));
        let mut waiting = vec![(&first, own), (&second, other)];
        let mut last = lock.fence;
        while !waiting.is_empty() {
            let mut granted = None;
            until("one of them has it", LONG, || {
                granted =
                    waiting.iter().position(|(process, call)| match process.outcome_within(*call, Duration::ZERO) {
                        Some((at, Outcome::Granted { fence, .. })) => {
                            assert!(at - before >= millis(595), "{:?} after it was taken", at - before);
                            assert!(fence > std::mem::replace(&mut last, fence));
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
            assert!(matches!(process.outcome(call), Outcome::Released(true)));
        }
        let counters = first.counters();
        assert_eq!((counters.released, counters.lost(), counters.held), (2, 0, 0));
    });
}

#[test]
fn a_lock_held_for_long_enough_is_free_at_once() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { min_hold: millis(100), ..ASK });
        assert!(process.outcome_within(lock.call, millis(120)).is_none());
        assert!(process.release(lock));
        assert!(place.is_free("a"));
        // Of several keys as well.
        let set = lock_of(&["a", "b"], "");
        let lock = process.acquire_lock(&set, Ask { min_hold: millis(300), ..ASK });
        let before = Instant::now();
        assert!(process.release(lock));
        for key in ["a", "b"] {
            assert!(process.finds_taken(&lock_of(&[key], "")));
        }
        let lock = process.acquire_lock(&set, Ask { strategy: || for_ever(&[polling(5, None, None)]), ..ASK });
        assert!(before.elapsed() >= millis(250), "{:?}", before.elapsed());
        assert!(process.release(lock));
    });
}

#[test]
fn a_lock_discarded_by_a_caller_who_never_got_it_is_free_at_once() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { min_hold: millis(60_000), ..ASK });
        assert_eq!(process.core.discard(lock.call.id), Released::Later);
        process.core.flush();
        assert!(matches!(process.outcome(lock.call), Outcome::Released(true)));
        assert!(place.is_free("a"));
    });
}

#[test]
fn a_park_whose_command_or_answer_gets_lost_is_made_up_for() {
    for executed in [false, true] {
        let server = Server::start();
        let proxy = Proxy::start(server.port());
        let mut connection = server.connection();
        let process = on_server(proxy.port(), millis(400));
        let lock = process.acquire("a", Ask { ttl: 60_000, min_hold: millis(3_000), ..ASK });
        let before = Instant::now();
        if executed {
            proxy.lose_answers(true);
        } else {
            proxy.lose_commands(true);
        }
        let outcome = process.released(lock);
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{outcome:?}");
        let name: String = ask(&mut connection, &["GET", KEY]);
        assert_eq!(name == lock.token.to_string(), !executed);
        proxy.lose_answers(false);
        proxy.lose_commands(false);
        proxy.cut();
        // Not for the ttl of the lease, and not less than its time.
        let mut gone = before;
        until("it is free", millis(20_000), || {
            gone = Instant::now();
            !exists(&mut connection, KEY)
        });
        assert!(gone - before >= millis(2_900), "{:?}", gone - before);
    }
}

#[test]
fn a_park_after_renamings_that_never_arrived_ends_the_lease_all_the_same() {
    let server = Server::start();
    let proxy = Proxy::start(server.port());
    let mut connection = server.connection();
    let process = on_server(proxy.port(), PATIENCE);
    let lock = process.acquire("a", Ask { ttl: 60_000, min_hold: millis(1_000), ..ASK });
    proxy.lose_commands(true);
    process.extend(lock, 30_000);
    process.extend(lock, 20_000);
    until("they are lost", LONG, || proxy.lost() > 0);
    process.forget_events();
    proxy.cut();
    process.event(|event| matches!(event, Event::Unavailable(_)));
    assert_eq!(process.core.release(lock.call.id), Released::Later);
    process.core.flush();
    proxy.lose_commands(false);
    proxy.cut();
    until("it is free after its time", millis(10_000), || !exists(&mut connection, KEY));
}

// ----- a time to hold at most ---------------------------------------------------------------------------------------------

#[test]
fn a_lock_is_lost_when_it_was_held_for_as_long_as_it_may_be() {
    everywhere(|place| {
        let (process, other) = (place.process(0), place.process(1));
        let ask = Ask { ttl: 300, max_hold: Some(millis(700)), ..ASK };
        let lock = process.acquire("a", ask);
        let granted = Instant::now();
        let behind = process.call("a", ask);
        let waits = other.call("a", Ask { strategy: || for_ever(&[polling(5, None, None)]), ..ASK });
        let (at, outcome) = process.outcome_within(lock.call, LONG).unwrap();
        assert!(matches!(outcome, Outcome::Lost(Loss::MaxHold)), "{outcome:?}");
        let held = at - granted;
        assert!((650..2_500).contains(&held.as_millis()), "{held:?}");
        assert_eq!(process.core.release(lock.call.id), Released::NotHeld);
        // Given back: the others have it in their turn, each for its own time.
        let mut left = vec![(&process, behind), (&other, waits)];
        for _ in 0..2 {
            let mut next = None;
            until("the next one has it", LONG, || {
                next = left.iter().position(|(process, call)| match process.outcome_within(*call, Duration::ZERO) {
                    Some((_, Outcome::Granted { .. })) => true,
                    Some(other) => panic!("{other:?}"),
                    None => false,
                });
                next.is_some()
            });
            let (process, call) = left.remove(next.unwrap());
            let remaining = process.core.remaining(call.id);
            assert!(remaining > Duration::ZERO && remaining < millis(10_000), "{remaining:?}");
            assert_eq!(process.core.release(call.id), Released::Later);
            process.core.flush();
        }
        assert_eq!(process.counters().lost_by(Loss::MaxHold), 1);
    });
}

#[test]
fn neither_extending_nor_detaching_lengthens_the_time() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { max_hold: Some(millis(500)), ..ASK });
        let call = process.extend(lock, 60_000);
        assert!(matches!(process.outcome(call), Outcome::Extended));
        assert!(process.remaining(lock) <= millis(500));
        assert!(matches!(process.outcome(lock.call), Outcome::Lost(Loss::MaxHold)));
        until("it is free", LONG, || place.is_free("a"));
        // An adopted lock has the time of who adopts it.
        let lock = process.acquire("a", Ask { max_hold: Some(millis(60_000)), ..ASK });
        let ticket = process.detached(lock, 5_000);
        let call = process.adopt(&lock_of(&["a"], ""), ticket, Ask { max_hold: Some(millis(200)), ..ASK });
        let adopted = process.granted(call);
        assert!(process.remaining(adopted) <= millis(200));
        assert!(matches!(process.outcome(call), Outcome::Lost(Loss::MaxHold)));
        until("it is free", LONG, || place.is_free("a"));
    });
}

#[test]
fn callers_in_line_have_their_own_time_each() {
    everywhere(|place| {
        let process = place.process(0);
        let ask = Ask { max_hold: Some(millis(1_500)), ..ASK };
        let calls: Vec<Call> = (0..4).map(|_| process.call("a", ask)).collect();
        for call in calls {
            let lock = process.granted(call);
            let remaining = process.remaining(lock);
            assert!((500..=1_500).contains(&remaining.as_millis()), "{remaining:?}");
            assert!(process.outcome_within(lock.call, millis(100)).is_none());
            assert!(process.release(lock));
        }
    });
}

// ----- no sign of life ----------------------------------------------------------------------------------------------------

#[test]
fn a_silent_holder_is_told_so_and_loses_its_lock_at_the_deadline() {
    everywhere(|place| {
        let process = place.process(0);
        let ask = Ask { ttl: 900, max_stall: Some(millis(100)), ..ASK };
        let lock = process.acquire("a", ask);
        // As long as it gives signs of life it is renewed.
        assert!(process.outcome_within(lock.call, millis(1_200)).is_none());
        process.lives(false);
        match process.outcome(lock.call) {
            Outcome::Stalled(silent) => assert!(silent > millis(100), "{silent:?}"),
            other => panic!("{other:?}"),
        }
        let outcome = process.outcome(lock.call);
        assert!(matches!(outcome, Outcome::Lost(Loss::Stalled)), "{outcome:?}");
        assert_eq!(process.counters().lost_by(Loss::Stalled), 1);
        until("it is free", LONG, || place.is_free("a"));
    });
}

#[test]
fn a_holder_that_comes_back_in_time_keeps_its_lock() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { ttl: 3_000, max_stall: Some(millis(100)), ..ASK });
        process.lives(false);
        assert!(matches!(process.outcome(lock.call), Outcome::Stalled(_)));
        process.lives(true);
        let lost = process.outcome_within(lock.call, millis(3_500));
        assert!(lost.is_none(), "{lost:?}");
        assert!(process.release(lock));
    });
}

#[test]
fn silence_is_no_matter_to_who_didn_t_ask_for_that() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { ttl: 300, ..ASK });
        let patient = process.acquire("b", Ask { ttl: 300, max_stall: Some(millis(60_000)), ..ASK });
        process.lives(false);
        for lock in [lock, patient] {
            let told = process.outcome_within(lock.call, millis(700));
            assert!(told.is_none(), "{told:?}");
            assert!(process.release(lock));
        }
    });
}

#[test]
fn renewals_are_told_to_who_wants_to_hear_of_them() {
    everywhere(|place| {
        let process = place.process(0);
        let lock = process.acquire("a", Ask { ttl: 300, ..ASK });
        assert!(process.outcome_within(lock.call, millis(300)).is_none());
        process.hears_renewals();
        for _ in 0..3 {
            assert!(matches!(process.outcome(lock.call), Outcome::Renewed));
        }
        assert_eq!(process.core.release(lock.call.id), Released::Later);
    });
}

// ----- figures ------------------------------------------------------------------------------------------------------------

#[test]
fn each_acquisition_is_counted_by_the_way_it_came() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        // At once.
        let lock = process.acquire("a", ASK);
        assert_eq!(process.core.figures(process.manager).waits.count, 1);
        // Handed on.
        let calls: Vec<Call> = (0..5).map(|_| process.call("a", ASK)).collect();
        until("they wait", LONG, || process.counters().waiting == 5);
        assert!(process.release(lock));
        for call in calls {
            let lock = process.granted(call);
            assert!(process.release(lock));
        }
        // Polled.
        let lock = holder.acquire("a", ASK);
        let call = process.call("a", Ask { strategy: || for_ever(&[polling(10, None, None)]), ..ASK });
        assert!(process.outcome_within(call, millis(200)).is_none());
        assert_eq!(process.core.figures(process.manager).spinning, 1);
        assert!(holder.release(lock));
        let lock = process.granted(call);
        assert!(process.outcome_within(lock.call, millis(100)).is_none());
        assert_eq!(process.counters().held, 1);
        assert!(process.release(lock));

        let figures = process.core.figures(process.manager);
        let Counters { acquired, at_once, handed_on, polled, attempts, released, waiting, held, .. } =
            figures.counters;
        assert_eq!((acquired, released, waiting, held, polled), (7, 7, 0, 0, 1));
        assert_eq!(at_once + handed_on + polled, acquired);
        assert!(handed_on >= 1 && at_once >= 1, "{at_once} and {handed_on}");
        assert!((3..=25).contains(&attempts), "{attempts} attempts in 0.2 s each 10 ms");
        assert_eq!(figures.spinning, 0);

        // How long it took: one of seven waited for 0.2 s, one was held for 0.1 s.
        assert_eq!((figures.waits.count, figures.holds.count), (7, 7));
        let long = |time: Duration, least: u64| (least..5_000).contains(&(time.as_millis() as u64));
        assert!(long(figures.waits.max, 195) && figures.waits.p99 <= figures.waits.max, "{:?}", figures.waits);
        assert!(figures.waits.p50 <= figures.waits.p90 && figures.waits.p90 <= figures.waits.p99);
        assert!(long(figures.holds.max, 98) && figures.holds.p50 < figures.holds.max, "{:?}", figures.holds);
    });
}

#[test]
fn what_came_to_nothing_is_counted_by_what_it_came_to() {
    everywhere(|place| {
        let (holder, process) = (place.process(0), place.process(1));
        let lock = holder.acquire("a", ASK);
        for _ in 0..2 {
            let call = process.call("a", Ask { timeout: Some(millis(30)), ..ASK });
            timed_out(process.outcome(call));
        }
        for _ in 0..3 {
            assert!(process.finds_taken(&lock_of(&["a"], "")));
        }
        let call = process.call("a", ASK);
        assert!(process.core.cancel(call.id));
        let Counters { timeouts, busy, failed, acquired, waiting, .. } = process.counters();
        assert_eq!((timeouts, busy, failed, acquired, waiting), (2, 3, 1, 0, 0));
        assert_eq!(process.core.figures(process.manager).waits.count, 0, "who never had it didn't wait for it");
        assert!(holder.release(lock));
    });
}

#[test]
fn losses_are_counted_by_their_reason() {
    let server = Server::start();
    let mut connection = server.connection();
    let process = on_server(server.port(), millis(300));
    let lost = |call: Call, expected: Loss| {
        let mut outcome = process.outcome(call);
        if let Outcome::Stalled(_) = outcome {
            outcome = process.outcome(call);
        }
        assert!(matches!(outcome, Outcome::Lost(loss) if loss == expected), "{outcome:?} instead of {expected:?}");
    };
    let lock = process.acquire("a", Ask { ttl: 100, renewed: false, ..ASK });
    lost(lock.call, Loss::Expired);
    let lock = process.acquire("a", Ask { ttl: 300, ..ASK });
    ask::<()>(&mut connection, &["DEL", KEY]);
    lost(lock.call, Loss::Taken);
    let lock = process.acquire("a", Ask { max_hold: Some(millis(50)), ..ASK });
    lost(lock.call, Loss::MaxHold);
    let lock = process.acquire("a", Ask { ttl: 300, max_stall: Some(millis(20)), ..ASK });
    process.lives(false);
    lost(lock.call, Loss::Stalled);
    process.lives(true);
    let lock = process.acquire("a", Ask { ttl: 900, ..ASK });
    server.freeze();
    lost(lock.call, Loss::Unreachable);
    server.thaw();
    let counters = process.counters();
    let reasons = [Loss::Expired, Loss::Taken, Loss::MaxHold, Loss::Stalled, Loss::Unreachable];
    assert_eq!(reasons.map(|reason| counters.lost_by(reason)), [1; 5]);
    assert_eq!((counters.lost(), counters.acquired, counters.released, counters.held), (5, 5, 0, 0));
    assert_eq!(process.core.figures(process.manager).holds.count, 5, "what was lost was held as well");
}
