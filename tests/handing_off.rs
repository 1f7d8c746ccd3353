//! A lease that waits in the server's queue: what it is told, when that counts, and what it does with it.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/bench.rs"]
#[allow(dead_code)] // the tests of leases use all of it
mod bench;

use std::time::Duration;

use bench::*;
use holdfast_core::lease::{Action, ClaimId, Kept, Loss, Op, Push, Token, Turn, Waiter};

/// Caller 1 waits in the queue, as the answer to a take sent at `at(0)` said; the mark was 1 000.
fn queued(millis: u32) -> (Bench, Token) {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, millis));
    let token = bench.token();
    assert_eq!(bench.at(1).refuse(token, 1_000, at(0), at(1_000)), []);
    (bench, token)
}

fn taken_anew(actions: &[Action]) -> Token {
    match actions.last() {
        Some(Action::Send { token, op: Op::Take { .. }, .. }) => *token,
        other => panic!("no take at the end: {other:?}"),
    }
}

#[test]
fn a_push_is_a_grant_dated_by_the_last_refusal_and_raised_a_little_later() {
    let (mut bench, token) = queued(10_000);
    assert_eq!(bench.at(30).push(token, 1_016), [told(1, 1_001)]);
    // A claim of 3 000 ms, counted from the instant before the refused take was sent: less 1 %, 2 ms and grace.
    assert_eq!(bench.deadline_of(1), Some(at(2_967)));
    assert_eq!(bench.lease.due(), Some(at(80)), "most turns are over by then");
    assert_eq!(bench.at(80).tick(), [keep(token, 10_000, 0)]);
    bench.at(81).kept(token, 80, 10_000);
    assert_eq!(bench.deadline_of(1), Some(at(9_978)));
}

#[test]
fn a_turn_that_is_over_before_sends_no_keep() {
    let (mut bench, token) = queued(10_000);
    bench.at(30).push(token, 1_016);
    assert_eq!(bench.at(35).release(1), [give(token, 10_000, Some(1))]);
    assert_eq!(bench.lease.due(), None);
}

#[test]
fn a_push_that_overtakes_the_answer_to_the_take_counts_from_the_turn_s_beginning() {
    let mut bench = Bench::new();
    bench.at(10).arrive(waiter(1, 1_000));
    let token = bench.token();
    assert_eq!(bench.at(12).push(token, 116), [told(1, 101)]);
    // A claim is 600 ms and grace here.
    let deadline = at(10) + Duration::from_micros(610_000 - 10_000 - 6_100 - 2_000);
    assert_eq!(bench.deadline_of(1), Some(deadline));
    // The answer that was overtaken says nothing any more.
    assert_eq!(bench.at(13).refuse(token, 90, at(10), at(50)), []);
    assert_eq!(bench.deadline_of(1), Some(deadline));
}

#[test]
fn a_push_of_before_the_last_refusal_is_not_believed() {
    // Queued twice by a take that was said again: the first grant went unheard, its claim passed, and somebody else has it.
    let (mut bench, token) = queued(10_000);
    bench.at(4_000).failed(token, Some(14_000), None);
    assert_eq!(bench.at(4_010).resume(), [beat(token, 10_000, 1)]);
    assert_eq!(bench.at(4_011).refuse(token, 1_050, at(4_010), at(5_000)), []);
    // Its numbers end with 1 016: no greater than the mark. Dated by the new refusal it would look young.
    assert_eq!(bench.at(4_012).push(token, 1_016), [beat(token, 10_000, 1)]);
    assert_eq!(bench.deadline_of(1), None);
    // A refusal with a lower mark doesn't make it younger either.
    bench.at(4_013).refuse(token, 900, at(4_012), at(5_000));
    assert_eq!(bench.at(4_014).push(token, 1_016), [beat(token, 10_000, 1)]);
    // The next one counts.
    bench.at(4_015).refuse(token, 1_060, at(4_014), at(5_000));
    assert_eq!(bench.at(4_016).push(token, 1_076), [told(1, 1_061)]);
}

#[test]
fn a_push_that_comes_when_the_claim_may_be_over_is_looked_into() {
    let (mut bench, token) = queued(10_000);
    assert_eq!(bench.at(2_967).push(token, 1_016), [beat(token, 10_000, 1)]);
    // It is ours: what the server says is left counts, less grace and drift.
    assert_eq!(bench.at(2_970).grant_left(token, 1_020, 2_968, 1_200), [granted(1, 1_020)]);
    assert_eq!(bench.deadline_of(1), Some(at(2_968 + 1_200 - 100 - 14)));
}

#[test]
fn a_look_that_finds_too_little_left_asks_for_the_whole_ttl() {
    let (mut bench, token) = queued(10_000);
    bench.at(1_000).tick();
    assert_eq!(bench.at(1_010).grant_left(token, 1_020, 1_000, 100), [take(token, 10_000, 1)]);
    assert_eq!(bench.at(1_012).grant(token, 1_021, 1_010), [granted(1, 1_021)]);
    assert_eq!(bench.deadline_of(1), Some(at(1_010 + 9_898)));
}

#[test]
fn a_push_for_another_turn_is_somebody_s_to_give_back() {
    let (mut bench, old) = queued(10_000);
    assert_eq!(bench.leave(1), [leaves(old)]);
    bench.arrive(waiter(2, 10_000));
    let push = Push { last: 1_016, block: 16, more: false };
    let mut known = true;
    bench.step(|lease, cx| known = lease.told(old, push, cx));
    assert!(!known);
    assert_eq!(bench.deadline_of(2), None);
}

#[test]
fn a_push_for_what_is_held_is_ignored_also_while_it_gets_another_name() {
    let (mut bench, token) = queued(10_000);
    bench.push(token, 1_016);
    assert_eq!(bench.push(token, 2_016), []);
    bench.at(10).extend(1, 9, 1_000);
    assert_ne!(bench.token(), token);
    // Given back by its old name, the lock would be free before it has the new one.
    assert_eq!(bench.push(token, 3_016), []);
    assert!(bench.lease.goes_by(token));
}

#[test]
fn who_isn_t_in_the_queue_any_more_begins_a_new_turn_at_its_end() {
    let (mut bench, token) = queued(10_000);
    bench.at(1_000).tick();
    let actions = bench.step(|lease, cx| lease.unknown(token, cx));
    let next = taken_anew(&actions);
    assert_eq!(actions, [leaves(token), take(next, 10_000, 1)]);
    assert_ne!(next, token);
    assert_eq!(bench.push(next, 2_016), [told(1, 2_001)]);
}

#[test]
fn news_while_it_asks_makes_it_ask_again_as_soon_as_that_is_answered() {
    let (mut bench, token) = queued(10_000);
    assert_eq!(bench.at(1_000).tick(), [beat(token, 10_000, 1)]);
    assert_eq!(bench.step(|lease, cx| lease.look_now(token, cx)), []);
    assert_eq!(bench.refuse(token, 1_005, at(1_000), at(2_000)), [beat(token, 10_000, 1)]);
    assert_eq!(bench.refuse(token, 1_006, at(1_000), at(2_000)), []);
}

#[test]
fn a_core_that_can_t_be_told_says_so_and_its_claim_outlasts_its_pauses() {
    let mut bench = Bench::new();
    bench.able = false;
    bench.arrive(Waiter { pause: Duration::from_millis(1_500), ..waiter(1, 500) });
    let token = bench.token();
    assert!(!token.is_told());
    assert!(token.claim() > Duration::from_millis(1_500), "{:?}", token.claim());
    // Nor does it know who else waits: its turns are bounded all the same.
    bench.grant(token, 100, 0);
    bench.arrive(waiter(2, 500));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(500), numbers: Some((116, 16)), extended: false, more: false },
            cx,
        )
    });
    assert_eq!(bench.at(20).release(1)[0], give(token, 500, Some(1)));
}

#[test]
fn a_name_that_nobody_has_heard_of_is_chosen_anew_when_the_link_is_up() {
    let mut bench = Bench::new();
    bench.able = false;
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.failed(token, None, None);
    bench.able = true;
    let actions = bench.resume();
    assert!(taken_anew(&actions).is_told());
    // What may have been heard of stays.
    bench.failed(bench.token(), Some(1_000), None);
    let same = bench.token();
    assert_eq!(taken_anew(&bench.resume()), same);
}

#[test]
fn without_others_a_turn_goes_on_and_with_them_it_is_bounded_by_time_and_holders() {
    let crowd = |turn: Turn| {
        let mut bench = Bench::new();
        bench.round_trip = Duration::from_millis(5);
        for claim in 1..=40 {
            bench.arrive(Waiter { turn, ..waiter(claim, 10_000) });
        }
        let token = bench.token();
        bench.grant(token, 1_000, 0);
        bench.step(|lease, cx| {
            lease.kept(
                token,
                Kept { sent: at(0), ttl: ttl(10_000), numbers: Some((1_064, 64)), extended: false, more: false },
                cx,
            )
        });
        (bench, token)
    };
    let served = |bench: &mut Bench, token: Token| {
        (1..40).take_while(|claim| bench.release(*claim)[0] != give(token, 10_000, Some(*claim))).count() + 1
    };
    let (mut bench, token) = crowd(Turn::default());
    assert_eq!(served(bench.at(500), token), 40);
    let (mut bench, token) = crowd(Turn::default());
    bench.lease.wanted(token);
    assert_eq!(served(&mut bench, token), 16);
    let (mut bench, token) = crowd(Turn { holders: 3, duration: None });
    bench.lease.wanted(token);
    assert_eq!(served(&mut bench, token), 3);
    // Ten times what the server takes to answer is more than 20 ms.
    let (mut bench, token) = crowd(Turn::default());
    bench.lease.wanted(token);
    assert_eq!(bench.at(49).release(1)[0], released(1));
    assert_eq!(bench.at(50).release(2)[0], give(token, 10_000, Some(2)));
    // Keeps say that others wait, too.
    let (mut bench, token) = crowd(Turn { holders: 1, duration: None });
    bench.step(|lease, cx| {
        lease.kept(token, Kept { sent: at(0), ttl: ttl(10_000), numbers: None, extended: false, more: true }, cx)
    });
    assert_eq!(served(&mut bench, token), 1);
}

#[test]
fn the_lock_is_given_back_before_it_is_asked_for_again_in_one_go() {
    let (mut bench, token) = queued(10_000);
    bench.push(token, 1_016);
    for claim in 2..=20 {
        bench.arrive(waiter(claim, 10_000));
    }
    let actions = bench.at(25).release(1);
    let next = taken_anew(&actions);
    assert_eq!(actions, [give(token, 10_000, Some(1)), take(next, 10_000, 19)]);
}

#[test]
fn without_renewal_a_pushed_lease_is_raised_at_once_to_what_was_asked_for() {
    let mut bench = Bench::new();
    bench.arrive(unrenewed(1, 10_000));
    let token = bench.token();
    bench.refuse(token, 0, at(0), at(1_000));
    assert_eq!(bench.at(10).push(token, 16), [told(1, 1)]);
    assert_eq!(bench.tick(), [keep(token, 10_000, 0)]);
    bench.at(12).kept(token, 10, 10_000);
    assert_eq!(bench.deadline_of(1), Some(at(9_908)));
    assert_eq!(bench.lease.due(), Some(at(9_908)), "and never again");
    assert_eq!(bench.at(9_908).tick()[0], lost(1, Loss::Expired));
}

// ----- grants that nobody hears of ------------------------------------------------------------------------------------

#[test]
fn a_grant_that_isn_t_heard_of_goes_to_others_and_its_caller_keeps_its_place() {
    let (mut bench, token) = queued(10_000);
    bench.awake = false;
    bench.arrive(waiter(2, 10_000));
    bench.at(10).push(token, 1_016);
    assert_eq!(bench.lease.unclaimed(at(200)), None);
    assert_eq!(bench.lease.unclaimed(at(330)), Some(ClaimId(1)), "a claim window is 250 ms");
    bench.lease.wanted(token);
    // Another process waits: it is its turn.
    let actions = bench.at(330).step(|lease, cx| lease.abandon(Some(ClaimId(2)), cx));
    let next = taken_anew(&actions);
    assert_eq!(actions, [give(token, 10_000, None), take(next, 10_000, 2)]);
    assert_eq!(bench.deadline_of(1), None);
    assert_eq!(bench.push(next, 2_016), [told(1, 2_001)], "the first in line is the one that was first");
}

#[test]
fn it_goes_to_a_caller_of_this_process_who_hears_if_there_is_no_other() {
    let (mut bench, token) = queued(10_000);
    bench.awake = false;
    bench.arrive(waiter(2, 10_000));
    bench.arrive(waiter(3, 10_000));
    bench.at(10).push(token, 1_016);
    let actions = bench.at(15).step(|lease, cx| lease.abandon(Some(ClaimId(3)), cx));
    assert_eq!(actions[0], handed_on(3, 1_002));
    assert_eq!(bench.at(16).release(3)[..2], [released(3), handed_on(1, 1_003)]);
    assert_eq!(bench.release(1)[..2], [released(1), handed_on(2, 1_004)]);
}

#[test]
fn who_wanted_one_attempt_or_has_heard_keeps_it() {
    let mut bench = Bench::new();
    bench.awake = false;
    bench.arrive(once(1, 10_000));
    bench.grant(bench.token(), 5, 0);
    assert_eq!(bench.lease.unclaimed(at(5_000)), None);
    let (mut bench, token) = queued(10_000);
    bench.awake = false;
    bench.push(token, 1_016);
    bench.lease.claimed();
    assert_eq!(bench.lease.unclaimed(at(5_000)), None);
}
