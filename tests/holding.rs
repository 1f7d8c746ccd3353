//! What a holder can do with its lock besides giving it back, event by event: leave it to another owner and take it over,
//! give it back for later, hold it for a time at the most, fall silent.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/bench.rs"]
#[allow(dead_code)] // the other tests of a lease use all of it
mod bench;

use std::time::Duration;

use bench::*;
use holdfast_core::clock::Time;
use holdfast_core::lease::{Action, ClaimId, Kept, Loss, Op, Token, Waiter};

/// A detach by claim 1 for `millis`, which caller 9 waits for; what it sends, and the name.
fn detach(bench: &mut Bench, millis: u32) -> (Vec<Action>, Token) {
    let actions = bench.step(|lease, cx| lease.detach(ClaimId(1), ClaimId(9), ttl(millis), cx));
    (actions, bench.token())
}

fn detached(claim: u64, token: Token) -> Action {
    Action::Detached { claim: ClaimId(claim), token }
}

fn stay(bench: &mut Bench) {
    let actions = bench.step(|lease, cx| lease.stay(ClaimId(1), cx.now));
    assert_eq!(actions, []);
}

fn not_renamed(bench: &mut Bench, to: Token) -> Vec<Action> {
    bench.step(|lease, cx| lease.not_renamed(to, cx))
}

fn park(bench: &mut Bench, millis: u32) -> Vec<Action> {
    bench.step(|lease, cx| lease.park(ClaimId(1), ttl(millis), cx))
}

fn parked(token: Token, to: Token, millis: u32, lasts: u32, caller: Option<u64>) -> Action {
    send(token, Op::Park { to, rest: ttl(millis), ttl: ttl(lasts), tainted: None }, caller)
}

/// Held for at most `most`.
fn bounded(claim: u64, millis: u32, most: u64) -> Waiter {
    Waiter { max_hold: Some(Duration::from_millis(most)), ..waiter(claim, millis) }
}

/// A lock left to `waiter` with the number 700 is renamed to a name of this process, by a command sent at `sent`.
fn adopt(bench: &mut Bench, waiter: Waiter, sent: u64) -> (Vec<Action>, Token) {
    let mut token = None;
    let actions = bench.step(|lease, cx| {
        let name = cx.turns.next(waiter.ttl.claim(), true);
        token = Some(name);
        lease.adopted(name, &waiter, 700, at(sent), cx);
    });
    (actions, token.unwrap())
}

// ----- detach ---------------------------------------------------------------------------------------------------------

#[test]
fn a_detached_lock_goes_on_under_a_new_name_and_isn_t_the_holder_s_any_more() {
    let mut bench = Bench::held(10_000, &[]);
    let old = bench.token();
    let (actions, name) = detach(bench.at(10), 30_000);
    assert_ne!(name, old);
    assert_eq!(actions, [swap(old, name, 30_000, Some(9))]);
    assert_eq!(bench.deadline_of(1), Some(at(9_898)), "until the server knows the name, it is held as before");
    assert_eq!(bench.at(12).swapped(name, 10, 30_000), [detached(1, name)]);
    assert!(bench.lease.is_idle());
    assert_eq!((bench.deadline_of(1), bench.lease.due()), (None, None));
    // Nothing touches it from here on: no keep, no give, not even late.
    assert_eq!(bench.resume(), []);
    assert_eq!(bench.kept(old, 9, 10_000), []);
    assert_eq!(bench.kept(name, 9, 10_000), []);
    assert_eq!(bench.not_ours(old), []);
    assert_eq!(bench.at(40_000).tick(), []);
    assert_eq!(bench.release(1), []);
}

#[test]
fn who_waits_behind_a_detached_lock_asks_for_it_anew() {
    let mut bench = Bench::held(10_000, &[waiter(2, 10_000)]);
    let (_, name) = detach(bench.at(10), 30_000);
    let actions = bench.at(12).swapped(name, 10, 30_000);
    let token = bench.token();
    assert_eq!(actions, [detached(1, name), take(token, 10_000, 1)]);
    assert_eq!(bench.at(13).taken(token, 60), []);
    assert_eq!(bench.leave(2), [leaves(token)], "and leaves the queue");
}

#[test]
fn a_detach_for_less_than_is_left_is_believed_before_it_is_sent() {
    let mut bench = Bench::held(10_000, &[]);
    let (_, name) = detach(bench.at(10), 1_000);
    // From when the server gets to it, it lives no longer. With the answer lost, nobody would tell.
    assert_eq!(bench.deadline_of(1), Some(at(998)));
    bench.at(20).renaming_failed(name, Some(1_030), None);
    assert_eq!(bench.lease.due(), Some(at(998)));
    let actions = bench.at(998).tick();
    assert!(matches!(actions[0], Action::Lost { claim: ClaimId(1), .. }), "{actions:?}");
    assert!(bench.lease.is_idle());
}

#[test]
fn a_detach_answered_after_the_deadline_is_a_loss_and_given_back() {
    let mut bench = Bench::held(1_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(100), 5_000);
    let actions = bench.at(988).swapped(name, 100, 5_000);
    assert!(matches!(actions[0], Action::Lost { claim: ClaimId(1), .. }), "{actions:?}");
    // By now it has one name only; but what it may be kept for is the longest of its times.
    assert_eq!(actions[1..], [give(name, 5_000, None)]);
    assert!(bench.lease.is_idle());

    // Nobody has answered: by both.
    let mut bench = Bench::held(1_000, &[]);
    let (_, name) = detach(bench.at(100), 5_000);
    let actions = bench.at(988).tick();
    assert_eq!(actions[1..], [give(old, 5_000, None), give(name, 5_000, None)]);
    assert_eq!(bench.swapped(name, 100, 5_000), []);
}

#[test]
fn a_detach_of_what_is_not_ours_is_a_loss() {
    let mut bench = Bench::held(1_000, &[waiter(2, 1_000)]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 5_000);
    let actions = not_renamed(bench.at(12), name);
    let next = bench.token();
    let gone = [lost(1, Loss::Taken), give(old, 5_000, None), give(name, 5_000, None)];
    assert_eq!(actions[..3], gone);
    assert_eq!(actions[3..], [take(next, 1_000, 1)]);
}

#[test]
fn a_detach_without_an_answer_is_said_again_and_the_lease_is_not_renewed_for_it() {
    let mut bench = Bench::held(1_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 5_000);
    bench.at(20).renaming_failed(name, Some(5_070), None);
    // A keep would make the name good for the ttl of the lock.
    assert_eq!(bench.at(30).resume(), [swap(old, name, 5_000, None)]);
    // What was unanswered once may still come, and must not bring the old name back for longer than it is worth.
    let gives = tainted_give(old, 5_000, at(5_070));
    assert_eq!(bench.at(31).swapped(name, 30, 5_000), [gives, detached(1, name)]);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_refused_detach_is_said_again_when_the_pause_is_over() {
    let mut bench = Bench::held(1_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 5_000);
    bench.at(12).renaming_failed(name, Some(5_070), Some(62));
    assert_eq!(bench.at(61).tick(), []);
    assert_eq!(bench.at(62).tick(), [swap(old, name, 5_000, None)]);
}

#[test]
fn no_second_copy_of_a_detach_is_under_way_when_the_first_is_answered() {
    // It would be left unanswered when the lock has long gone on, and be taken for something to give back.
    let mut bench = Bench::held(1_000, &[]);
    let (_, name) = detach(bench.at(10), 5_000);
    assert_eq!(bench.at(334).tick(), [], "renewal falls due");
    assert_eq!(bench.at(600).tick(), []);
    assert_eq!(bench.arrive(waiter(2, 1_000)), [], "a keep for more numbers would lengthen it as well");
    let actions = bench.at(601).swapped(name, 10, 5_000);
    assert_eq!(actions, [detached(1, name), take(bench.token(), 1_000, 1)]);
}

#[test]
fn nor_of_any_other_renaming() {
    // Of A to B and B to C, both said twice, a lost second copy of the first was taken for a turn that is over, and what
    // was B still was given back.
    let mut bench = Bench::held(10_000, &[]);
    bench.at(10).extend(1, 8, 5_000);
    let second = bench.token();
    bench.at(11).extend(1, 9, 3_000);
    let third = bench.token();
    assert_eq!(bench.at(1_000).tick(), [keep(third, 3_000, 0)], "said once each");
    bench.at(1_001).swapped(second, 10, 5_000);
    assert!(!bench.lease.is_renamed_to(second) && bench.lease.is_renamed_to(third));
    bench.at(1_002).renaming_failed(third, Some(4_040), None);
    assert_eq!(bench.at(1_010).resume(), [swap(second, third, 3_000, None), keep(third, 3_000, 0)]);
}

#[test]
fn a_lock_released_while_it_is_detached_is_given_back_by_all_its_names() {
    let mut bench = Bench::held(10_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 5_000);
    assert_eq!(bench.at(11).release(1), [give(old, 10_000, None), give(name, 10_000, Some(1))]);
    assert_eq!(bench.at(12).swapped(name, 10, 5_000), [], "and is nobody's afterwards");
    assert!(bench.lease.is_idle());
    assert_eq!(not_renamed(&mut bench, name), []);
}

#[test]
fn a_lock_handed_on_while_it_is_detached_is_the_next_one_s() {
    let mut bench = Bench::held(10_000, &[]);
    let token = bench.token();
    bench.arrive(waiter(2, 10_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(10_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    let (_, name) = detach(bench.at(1), 10_000);
    assert_eq!(bench.at(2).release(1)[..2], [released(1), handed_on(2, 1_001)]);
    assert_eq!(bench.at(3).swapped(name, 1, 10_000), []);
    assert_eq!(bench.deadline_of(2), Some(at(9_899)), "what it was renamed for was meant for it, too");
    assert_eq!(bench.release(2), [give(name, 10_000, Some(2))]);
}

#[test]
fn a_lock_revoked_while_it_is_detached_is_given_back_by_all_its_names() {
    let mut bench = Bench::held(10_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 5_000);
    let actions = bench.step(|lease, cx| lease.revoke(ClaimId(1), Loss::Closed, cx));
    let gives = [give(old, 10_000, None), give(name, 10_000, None)];
    assert_eq!((&actions[0], &actions[1..]), (&lost(1, Loss::Closed), &gives[..]));
    assert_eq!(bench.swapped(name, 10, 5_000), []);
}

#[test]
fn a_holder_that_stays_keeps_its_lock_under_the_new_name() {
    let mut bench = Bench::held(1_000, &[]);
    let old = bench.token();
    let (_, name) = detach(bench.at(10), 100);
    stay(bench.at(40));
    // The server may have shortened it: it is renewed before anything else.
    assert_eq!(bench.lease.due(), Some(at(40)));
    assert_eq!(bench.tick(), [keep(name, 1_000, 0)]);
    assert_eq!(bench.at(41).swapped(name, 10, 100), [], "told too late, it isn't left to anybody");
    bench.at(42).kept(name, 40, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(1_028)));
    assert_eq!(bench.at(50).release(1), [give(name, 1_000, Some(1))]);

    // Never executed: by the old name it is still ours.
    let mut bench = Bench::held(1_000, &[]);
    let (_, name) = detach(bench.at(10), 1_000);
    bench.at(20).renaming_failed(name, Some(1_030), None);
    stay(bench.at(340));
    assert_eq!(bench.at(350).resume(), [swap(old, name, 1_000, None), keep(name, 1_000, 0)]);
}

#[test]
fn staying_is_for_a_holder_that_detaches() {
    let mut bench = Bench::held(1_000, &[]);
    let (_, name) = detach(bench.at(10), 5_000);
    bench.step(|lease, cx| lease.stay(ClaimId(7), cx.now));
    assert_eq!(bench.at(12).swapped(name, 10, 5_000), [detached(1, name)]);
    stay(&mut bench);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_lock_that_is_not_renewed_and_stays_is_believed_no_longer_than_it_may_last() {
    let mut bench = Bench::new();
    bench.arrive(unrenewed(1, 10_000));
    let token = bench.token();
    bench.grant(token, 100, 0);
    let (_, name) = detach(bench.at(10), 1_000);
    stay(bench.at(200));
    assert_eq!(bench.lease.due(), Some(at(998)));
    bench.at(201).swapped(name, 10, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(998)));
}

#[test]
fn a_detach_overtaken_by_an_extend_leaves_the_lock_to_nobody() {
    let mut bench = Bench::held(10_000, &[]);
    let (_, first) = detach(bench.at(10), 8_000);
    bench.at(11).extend(1, 8, 2_000);
    let second = bench.token();
    assert_eq!(bench.at(12).swapped(first, 10, 8_000), []);
    assert_eq!(bench.at(13).swapped(second, 11, 2_000), []);
    assert_eq!(bench.deadline_of(1), Some(at(1_989)));
    // And it is renewed as ever.
    bench.now = bench.lease.due().unwrap();
    assert_eq!(bench.tick(), [keep(second, 2_000, 0)]);
}

#[test]
fn only_the_holder_can_detach_and_only_in_time() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    let stranger = bench.step(|lease, cx| lease.detach(ClaimId(3), ClaimId(9), ttl(5_000), cx));
    assert_eq!(stranger, []);
    let actions = bench.at(988).step(|lease, cx| lease.detach(ClaimId(1), ClaimId(9), ttl(5_000), cx));
    assert_eq!(actions, [lost(1, Loss::Expired), give(token, 1_000, None)]);
}

// ----- adopt ----------------------------------------------------------------------------------------------------------

#[test]
fn an_adopted_lock_is_held_with_the_number_it_had_and_renewed() {
    let mut bench = Bench::new();
    let (actions, token) = adopt(bench.at(5), waiter(1, 1_000), 2);
    assert_eq!(actions, [granted(1, 700)]);
    assert_eq!(bench.lease.token(), Some(token));
    assert_eq!(bench.deadline_of(1), Some(at(990)), "counted from when it was sent");
    bench.now = bench.lease.due().unwrap();
    assert!(bench.now <= at(336) && bench.now > at(269), "renewed after a third");
    assert_eq!(bench.tick(), [keep(token, 1_000, 0)]);
    assert_eq!(bench.at(340).release(1), [give(token, 1_000, Some(1))]);
    assert!(bench.lease.is_idle());
}

#[test]
fn an_adopted_lock_without_renewal_ends_with_its_ttl() {
    let mut bench = Bench::new();
    let (_, token) = adopt(bench.at(5), unrenewed(1, 1_000), 2);
    assert_eq!(bench.lease.due(), Some(at(990)));
    assert_eq!(bench.at(990).tick(), [lost(1, Loss::Expired), give(token, 1_000, None)]);
}

#[test]
fn adopting_ends_a_turn_that_asks_for_the_lock_and_its_callers_wait_on() {
    let mut bench = Bench::new();
    bench.arrive(once(1, 1_000));
    bench.arrive(waiter(2, 1_000));
    let own = bench.token();
    // The take may yet be executed, when the lock is given back.
    let (actions, token) = adopt(bench.at(5), waiter(3, 1_000), 2);
    assert_eq!(actions, [leaves(own), granted(3, 700), refused(1)]);
    // Whatever comes of it is for nobody.
    assert_eq!(bench.grant(own, 800, 0), []);
    assert_eq!(bench.taken(own, 50), []);
    bench.failed(own, Some(1_010), None);
    assert_eq!(bench.at(6).resume(), [keep(token, 1_000, 16)], "numbers for who waits");
    let released = bench.at(10).release(3);
    let next = bench.token();
    let expected = [give(token, 1_000, Some(3)), take(next, 1_000, 1)];
    assert_eq!(released, expected, "the number it had is its own: the next caller needs another");
}

#[test]
fn adopting_what_was_known_to_be_taken_leaves_the_queue() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let own = bench.token();
    bench.at(1).taken(own, 51);
    let (actions, _) = adopt(bench.at(5), waiter(2, 1_000), 2);
    assert_eq!(actions, [leaves(own), granted(2, 700)], "its own turn leaves the queue");
    assert_eq!(bench.leave(1), []);
}

#[test]
fn adopting_gives_back_what_a_take_of_unknown_outcome_may_get() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let own = bench.token();
    bench.at(10).failed(own, Some(1_010), None);
    bench.at(20).resume();
    bench.at(25).taken(own, 75);
    let (actions, _) = adopt(bench.at(30), waiter(2, 1_000), 26);
    assert_eq!(actions, [tainted_give(own, 60_000, at(1_010)), granted(2, 700)]);
}

#[test]
fn who_believed_to_hold_what_is_adopted_is_told() {
    let mut bench = Bench::held(1_000, &[waiter(2, 1_000)]);
    let old = bench.token();
    let (actions, token) = adopt(bench.at(5), waiter(3, 1_000), 2);
    assert_eq!(actions, [lost(1, Loss::Taken), granted(3, 700)]);
    assert_eq!(bench.kept(old, 4, 1_000), []);
    assert_eq!(bench.not_ours(old), []);
    assert_eq!(bench.release(1), []);
    assert_eq!(bench.deadline_of(3), Some(at(990)));
    assert_eq!(bench.at(6).release(3)[0], give(token, 1_000, Some(3)));
}

#[test]
fn an_adopted_lock_is_handed_on_once_numbers_are_reserved() {
    let mut bench = Bench::new();
    let (_, token) = adopt(bench.at(5), waiter(1, 10_000), 2);
    assert_eq!(bench.arrive(waiter(2, 10_000)), [keep(token, 10_000, 16)]);
    bench.at(7).step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(5), ttl: ttl(10_000), numbers: Some((916, 16)), extended: false, more: false },
            cx,
        )
    });
    assert_eq!(bench.at(8).release(1), [released(1), handed_on(2, 901)]);
}

#[test]
fn a_single_attempt_finds_an_adopted_lock_taken() {
    let mut bench = Bench::new();
    adopt(bench.at(5), waiter(1, 1_000), 2);
    assert_eq!(bench.arrive(once(2, 1_000)), [refused(2)]);
}

#[test]
fn an_adopted_lock_can_be_left_to_the_next_one() {
    let mut bench = Bench::new();
    let (_, token) = adopt(bench.at(5), waiter(1, 10_000), 2);
    let (actions, name) = detach(bench.at(10), 2_000);
    assert_eq!(actions, [swap(token, name, 2_000, Some(9))]);
    assert_eq!(bench.at(11).swapped(name, 10, 2_000), [detached(1, name)]);
}

// ----- park -----------------------------------------------------------------------------------------------------------

#[test]
fn a_parked_lock_is_left_under_a_name_that_nobody_asks_for() {
    let mut bench = Bench::held(10_000, &[]);
    let token = bench.token();
    let actions = park(bench.at(10), 500);
    let Action::Send { op: Op::Park { to, .. }, .. } = actions[0] else { panic!("{actions:?}") };
    assert_ne!(to, token);
    assert_eq!(actions, [parked(token, to, 500, 10_000, Some(1))]);
    assert!(bench.lease.is_idle());
    assert_eq!(bench.lease.due(), None);
    assert_eq!(bench.resume(), []);
}

#[test]
fn who_waits_behind_a_parked_lock_asks_for_it_anew() {
    let mut bench = Bench::held(10_000, &[waiter(2, 10_000), waiter(3, 10_000)]);
    let actions = park(bench.at(10), 500);
    let next = bench.token();
    assert_eq!(actions.len(), 2);
    assert_eq!(actions[1], take(next, 10_000, 2), "behind the park, and nobody comes before it");
}

#[test]
fn a_lock_with_renamings_under_way_is_parked_by_all_its_names() {
    let mut bench = Bench::held(10_000, &[]);
    let first = bench.token();
    bench.at(10).extend(1, 8, 5_000);
    let second = bench.token();
    bench.at(11).extend(1, 9, 1_000);
    let third = bench.token();
    let actions = park(bench.at(12), 500);
    let Action::Send { op: Op::Park { to, .. }, .. } = actions[0] else { panic!("{actions:?}") };
    // Any of them may be the one it has, also if the connection is gone and none of the renamings arrived.
    let expected = [
        parked(first, to, 500, 10_000, None),
        parked(second, to, 500, 10_000, None),
        parked(third, to, 500, 10_000, Some(1)),
    ];
    assert_eq!(actions, expected);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_tainted_token_is_parked_with_word_of_it_by_all_its_names() {
    let tainted = |renamed: bool, at: u64| {
        let mut bench = Bench::new();
        bench.arrive(waiter(1, 1_000));
        let token = bench.token();
        bench.at(10).failed(token, Some(1_010), Some(15));
        bench.at(15).tick();
        bench.at(20).grant(token, 500, 15);
        if renamed {
            bench.at(25).extend(1, 9, 400);
        } else {
            bench.at(300).tick();
            bench.at(301).kept(token, 300, 1_000);
        }
        let names: Vec<(Token, Option<Time>)> = park(bench.at(at), 200)
            .into_iter()
            .map(|action| match action {
                Action::Send { token, op: Op::Park { tainted, .. }, .. } => (token, tainted),
                other => panic!("{other:?} could overtake a park that fails"),
            })
            .collect();
        (names, token)
    };
    let (names, token) = tainted(false, 302);
    assert_eq!(names, [(token, Some(at(1_010)))]);
    // The name it was taken by may not be the last.
    let (names, token) = tainted(true, 30);
    assert_eq!((names.len(), names[0]), (2, (token, Some(at(1_010)))));
    // When nothing of it can arrive any more, the park is enough.
    let (names, token) = tainted(false, 1_010);
    assert_eq!(names, [(token, None)]);
}

#[test]
fn only_the_holder_can_park_and_only_in_time() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.step(|lease, cx| lease.park(ClaimId(3), ttl(500), cx)), []);
    assert_eq!(park(bench.at(988), 500), [lost(1, Loss::Expired), give(token, 1_000, None)]);
}

// ----- a time to hold at the most -------------------------------------------------------------------------------------

#[test]
fn no_lock_is_believed_for_longer_than_it_may_be_held() {
    let mut bench = Bench::new();
    bench.arrive(bounded(1, 1_000, 1_500));
    let token = bench.token();
    bench.at(5).grant(token, 500, 0);
    assert_eq!(bench.deadline_of(1), Some(at(988)));
    bench.at(334).tick();
    bench.at(335).kept(token, 334, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(1_322)));
    bench.at(660).tick();
    bench.at(661).kept(token, 660, 1_000);
    // From when it was granted.
    assert_eq!(bench.deadline_of(1), Some(at(1_505)));
    assert_eq!(bench.at(1_504).release(7), []);
    assert_eq!(bench.at(1_505).tick(), [lost(1, Loss::MaxHold), give(token, 1_000, None)]);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_time_shorter_than_the_ttl_is_the_deadline_from_the_beginning() {
    let mut bench = Bench::new();
    bench.arrive(bounded(1, 10_000, 100));
    let token = bench.token();
    bench.at(5).grant(token, 500, 0);
    assert_eq!((bench.deadline_of(1), bench.lease.due()), (Some(at(105)), Some(at(105))));
    assert_eq!(bench.at(105).release(1), [lost(1, Loss::MaxHold), give(token, 10_000, None)]);
}

#[test]
fn extending_doesn_t_lengthen_it() {
    for renewed in [true, false] {
        let mut bench = Bench::new();
        bench.arrive(Waiter { renewed, ..bounded(1, 1_000, 1_500) });
        let token = bench.token();
        bench.grant(token, 500, 0);
        bench.at(10).extend(1, 9, 60_000);
        bench.at(12).step(|lease, cx| {
            lease.kept(token, Kept { sent: at(10), ttl: ttl(60_000), numbers: None, extended: true, more: false }, cx)
        });
        assert_eq!(bench.deadline_of(1), Some(at(1_500)));
        let actions = bench.at(1_500).tick();
        assert_eq!(actions, [lost(1, Loss::MaxHold), give(token, 60_000, None)]);
    }
}

#[test]
fn each_holder_has_its_own_time() {
    let mut bench = Bench::new();
    bench.arrive(bounded(1, 10_000, 300));
    let token = bench.token();
    bench.grant(token, 1_000, 0);
    bench.arrive(bounded(2, 10_000, 300));
    bench.arrive(waiter(3, 10_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(10_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    assert_eq!(bench.deadline_of(1), Some(at(300)));
    assert_eq!(bench.at(10).release(1), [released(1), handed_on(2, 1_001)]);
    assert_eq!(bench.deadline_of(2), Some(at(310)));
    assert_eq!(bench.at(12).release(2), [released(2), handed_on(3, 1_002)]);
    assert_eq!(bench.deadline_of(3), Some(at(9_898)));
}

#[test]
fn an_adopted_lock_has_its_own_time_too() {
    let mut bench = Bench::new();
    let (_, token) = adopt(bench.at(5), bounded(1, 10_000, 300), 2);
    assert_eq!(bench.deadline_of(1), Some(at(305)));
    assert_eq!(bench.at(305).tick(), [lost(1, Loss::MaxHold), give(token, 10_000, None)]);
}

// ----- no sign of life ------------------------------------------------------------------------------------------------

/// What the engine does when a renewal is due and its holder is silent: whether that is news.
fn stall(bench: &mut Bench) -> bool {
    let due = bench.lease.due_for_renewal(bench.now);
    assert_eq!(due, Some(ClaimId(1)), "no renewal is due");
    let news = bench.lease.stall(bench.now);
    assert_eq!(bench.tick(), [], "and nothing is sent");
    news
}

#[test]
fn a_silent_holder_is_not_renewed_and_loses_its_lock_for_that() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.at(200).lease.due_for_renewal(at(200)), None);
    assert!(stall(bench.at(334)), "it is said once");
    let mut looks = 0;
    loop {
        bench.now = bench.lease.due().unwrap();
        if bench.now >= at(988) {
            break;
        }
        assert!(!stall(&mut bench));
        looks += 1;
    }
    // Each twentieth of the ttl.
    assert!((12..=14).contains(&looks), "{looks}");
    assert_eq!(bench.tick(), [lost(1, Loss::Stalled), give(token, 1_000, None)]);
}

#[test]
fn a_holder_that_comes_back_in_time_is_renewed() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert!(stall(bench.at(334)));
    assert!(!stall(bench.at(384)));
    assert_eq!(bench.at(434).tick(), [keep(token, 1_000, 0)]);
    bench.at(435).kept(token, 434, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(1_422)));
    // What is lost after that is lost for another reason; and the next silence is news again.
    assert!(stall(bench.at(800)));
    assert_eq!(bench.at(850).tick(), [keep(token, 1_000, 0)]);
    assert_eq!(bench.at(1_422).tick(), [lost(1, Loss::Unreachable), give(token, 1_000, None)]);
}

#[test]
fn nothing_else_renews_a_silent_holder() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    bench.at(100).extend(1, 9, 500);
    let name = bench.token();
    assert!(stall(bench.at(401)));
    assert_eq!(bench.at(402).resume(), [], "a new connection doesn't");
    bench.at(403).renaming_failed(name, Some(610), None);
    assert_eq!(bench.at(404).resume(), [swap(token, name, 500, None)], "what it had asked for is done all the same");
    assert_eq!(bench.arrive(waiter(2, 1_000)), [], "nor callers that need numbers");
    let actions = bench.at(593).tick();
    assert_eq!(actions[0], lost(1, Loss::Stalled), "{actions:?}");
}

#[test]
fn the_silence_of_one_holder_says_nothing_of_the_next_one() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    bench.arrive(waiter(2, 1_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(1_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    assert!(bench.lease.stall(at(10)));
    assert_eq!(bench.at(11).release(1), [released(1), handed_on(2, 1_001)]);
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 0)]);
    assert_eq!(bench.at(988).tick()[0], lost(2, Loss::Unreachable));
}

#[test]
fn who_may_hold_for_a_time_only_and_is_silent_loses_it_for_what_comes_first() {
    let mut bench = Bench::new();
    bench.arrive(bounded(1, 1_000, 600));
    let token = bench.token();
    bench.grant(token, 500, 0);
    assert!(stall(bench.at(334)));
    assert_eq!(bench.at(600).tick(), [lost(1, Loss::MaxHold), give(token, 1_000, None)]);
}
