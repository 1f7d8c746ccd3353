//! The states of a lease, event by event: what each one makes it do.

// A test that finds something else than it expects has to stop there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[path = "support/bench.rs"]
#[allow(dead_code)] // the tests of holding use all of it
mod bench;

use std::time::Duration;

use bench::*;
use holdfast_core::lease::{Action, Kept, LARGEST_BLOCK, Loss, Op, Token};

/// The token a list of actions asks for anew.
fn taken_anew(actions: &[Action]) -> Token {
    match actions.last() {
        Some(Action::Send { token, op: Op::Take { .. }, .. }) => *token,
        other => panic!("no take at the end: {other:?}"),
    }
}

// ----- asking -------------------------------------------------------------------------------------------------------

#[test]
fn the_first_caller_asks_and_is_granted_with_the_first_number() {
    let mut bench = Bench::new();
    assert!(bench.lease.is_idle());
    let asked = bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    assert_eq!(asked, [take(token, 1_000, 1)]);
    assert_eq!(bench.arrive(waiter(2, 1_000)), []);
    assert_eq!(bench.at(5).grant(token, 500, 0), [granted(1, 500)]);
    // Counted from the instant before the command was sent: ttl less 1 % and 2 ms.
    assert_eq!(bench.deadline_of(1), Some(at(988)));
    assert_eq!(bench.deadline_of(2), None);
}

#[test]
fn a_grant_too_late_to_be_believed_is_asked_for_again() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    let asked = bench.at(988).grant(token, 500, 0);
    assert_eq!(asked, [take(token, 1_000, 1)]);
    assert_eq!(bench.deadline_of(1), None);
    // One millisecond earlier it would have counted.
    assert_eq!(bench.at(1_975).grant(token, 501, 988), [granted(1, 501)]);
    assert_eq!(bench.deadline_of(1), Some(at(1_976)));
}

#[test]
fn a_taken_lock_is_asked_for_again_when_the_pause_is_over_and_by_the_same_token() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    assert_eq!(bench.at(1).taken(token, 51), []);
    assert_eq!(bench.lease.due(), Some(at(51)));
    assert_eq!(bench.at(50).tick(), []);
    assert_eq!(bench.at(51).tick(), [beat(token, 1_000, 1)]);
    // While the answer is outstanding it isn't said twice.
    assert_eq!(bench.at(500).tick(), []);
    assert_eq!(bench.resume(), []);
}

#[test]
fn answers_about_another_turn_are_ignored() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let old = bench.token();
    bench.leave(1);
    bench.arrive(waiter(2, 1_000));
    let token = bench.token();
    assert_ne!(old, token);
    assert_eq!(bench.grant(old, 500, 0), []);
    assert_eq!(bench.taken(old, 10), []);
    bench.failed(old, Some(5_000), Some(10));
    assert_eq!(bench.not_ours(old), []);
    assert_eq!(bench.grant(token, 501, 0), [granted(2, 501)]);
    assert_eq!(bench.kept(old, 0, 60_000), []);
    assert_eq!(bench.not_ours(old), []);
    assert_eq!(bench.deadline_of(2), Some(at(988)));
}

// ----- leaving ------------------------------------------------------------------------------------------------------

#[test]
fn leaving_while_asked_gives_back_what_the_take_may_get() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    assert_eq!(bench.leave(1), [leaves(token)]);
    assert!(bench.lease.is_idle());
    assert_eq!(bench.lease.due(), None);
}

#[test]
fn leaving_after_the_lock_was_taken_leaves_the_queue() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.at(1).taken(token, 51);
    assert_eq!(bench.leave(1), [leaves(token)]);
    assert!(bench.lease.is_idle());
}

#[test]
fn leaving_gives_nothing_while_somebody_else_waits() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    bench.arrive(waiter(2, 1_000));
    let token = bench.token();
    assert_eq!(bench.leave(1), []);
    assert_eq!(bench.at(1).grant(token, 500, 0), [granted(2, 500)]);
}

#[test]
fn a_take_of_unknown_outcome_taints_the_turn_until_it_can_leave_nothing_behind() {
    // Left after the taken: the earlier take of a replaced connection may still be executed.
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.at(10).failed(token, Some(1_010), None);
    assert_eq!(bench.lease.due(), None, "nothing is due before the link is back");
    assert_eq!(bench.at(20).resume(), [take(token, 1_000, 1)]);
    bench.at(25).taken(token, 75);
    assert_eq!(bench.leave(1), [tainted_give(token, 60_000, at(1_010))]);

    // Held and released: the give says until when it must be repeated.
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.at(10).failed(token, Some(1_010), Some(15));
    bench.at(15).tick();
    assert_eq!(bench.at(20).grant(token, 500, 15), [granted(1, 500)]);
    let tainted = Op::Give { ttl: ttl(60_000), tainted: Some(at(1_010)) };
    assert_eq!(bench.at(30).release(1), [send(token, tainted, Some(1))]);

    // Over: nothing to give any more.
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.at(10).failed(token, Some(1_010), Some(1_015));
    bench.at(1_015).tick();
    bench.at(1_016).taken(token, 1_066);
    assert_eq!(bench.leave(1), [tainted_give(token, 60_000, at(1_010))], "it leaves the queue");
}

#[test]
fn a_take_that_was_never_sent_leaves_nothing_to_give() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.failed(token, None, None);
    assert_eq!(bench.leave(1), []);
    assert!(bench.lease.is_idle());
}

#[test]
fn the_whole_queue_can_be_dismissed_in_order() {
    let mut bench = Bench::new();
    for claim in 1..=3 {
        bench.arrive(waiter(claim, 1_000));
    }
    let token = bench.token();
    let mut dismissed = Vec::new();
    let actions = bench.step(|lease, cx| lease.dismiss(cx, |claim| dismissed.push(claim.0)));
    assert_eq!(dismissed, [1, 2, 3]);
    assert_eq!(actions, [leaves(token)]);
    assert!(bench.lease.is_idle());
}

// ----- single attempts ----------------------------------------------------------------------------------------------

#[test]
fn a_single_attempt_is_refused_when_the_lock_is_known_to_be_taken() {
    // By another process, as the answer says.
    let mut bench = Bench::new();
    bench.arrive(once(1, 1_000));
    bench.arrive(waiter(2, 1_000));
    let token = bench.token();
    // The take was for one attempt: now it is said again, to queue.
    assert_eq!(bench.taken(token, 50), [refused(1), take(token, 1_000, 1)]);
    // And at once, since we know.
    assert_eq!(bench.arrive(once(3, 1_000)), [refused(3)]);
    // By a caller of this process.
    assert_eq!(bench.grant(token, 500, 0), [granted(2, 500)]);
    assert_eq!(bench.arrive(once(4, 1_000)), [refused(4)]);
}

#[test]
fn single_attempts_behind_the_one_that_is_granted_are_refused() {
    let mut bench = Bench::new();
    bench.arrive(once(1, 1_000));
    bench.arrive(once(2, 1_000));
    bench.arrive(waiter(3, 1_000));
    let token = bench.token();
    assert_eq!(bench.grant(token, 500, 0), [granted(1, 500), refused(2)]);
    assert_eq!(bench.release(1).len(), 2, "the third has no number: the turn ends and is asked for again");
}

#[test]
fn a_refused_single_attempt_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.arrive(once(1, 1_000));
    let token = bench.token();
    assert_eq!(bench.taken(token, 50), [refused(1)]);
    assert!(bench.lease.is_idle());
}

#[test]
fn a_holder_whose_time_is_up_turns_no_single_attempt_away() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    let actions = bench.at(988).arrive(once(2, 1_000));
    assert_eq!(actions[..2], [lost(1, Loss::Expired), give(token, 1_000, None)]);
    assert_eq!(actions[2..], [take_once(taken_anew(&actions), 1_000, 1)]);
}

#[test]
fn single_attempts_fail_with_the_attempt_and_the_others_go_on_waiting() {
    let mut bench = Bench::new();
    bench.arrive(once(1, 1_000));
    bench.arrive(waiter(2, 1_000));
    let token = bench.token();
    bench.failed(token, Some(1_000), None);
    let mut failed = Vec::new();
    assert_eq!(bench.step(|lease, cx| lease.dismiss_once(cx, |claim| failed.push(claim.0))), []);
    assert_eq!(failed, [1]);
    assert_eq!(bench.resume(), [take(token, 1_000, 1)]);
}

// ----- handing on ---------------------------------------------------------------------------------------------------

/// Callers 1 to `count` wait, the first has it; numbers 101 … 100 + count are reserved.
fn crowd(count: u64) -> Bench {
    let mut bench = Bench::new();
    let mut asked = bench.arrive(waiter(1, 10_000));
    // The take reserves for those who wait when it is sent: let it fail unsent and be said again.
    asked.clear();
    for claim in 2..=count {
        bench.arrive(waiter(claim, 10_000));
    }
    let token = bench.token();
    bench.grant(token, 100, 0);
    bench
}

#[test]
fn a_turn_begun_for_many_reserves_a_number_for_each_and_serves_them_in_order() {
    // The first turn is asked for by the first caller alone; the next one knows of all who wait.
    let mut bench = crowd(5);
    let first = bench.token();
    let actions = bench.at(1).release(1);
    let token = taken_anew(&actions);
    assert_ne!(first, token);
    assert_eq!(actions, [give(first, 10_000, Some(1)), take(token, 10_000, 4)]);
    assert_eq!(bench.at(2).grant(token, 204, 1), [granted(2, 201)]);
    assert_eq!(bench.at(3).release(2), [released(2), handed_on(3, 202)]);
    assert_eq!(bench.release(2), [], "released once");
    assert_eq!(bench.release(4), [], "it doesn't hold it yet");
    assert_eq!(bench.at(4).release(3), [released(3), handed_on(4, 203)]);
    assert_eq!(bench.at(5).leave(5), []);
    assert_eq!(bench.at(6).release(4), [give(token, 10_000, Some(4))]);
    assert!(bench.lease.is_idle());
}

#[test]
fn at_most_64_numbers_are_reserved_by_a_take() {
    let mut bench = crowd(200);
    let actions = bench.release(1);
    assert_eq!(actions[1], take(bench.token(), 10_000, 64));
}

/// A turn of callers 2 … (`count` + 1), the first of whom has it, granted at `at(1)`; numbers 201 … 200 + count.
fn turn(count: u64) -> (Bench, Token) {
    let mut bench = crowd(count + 1);
    let token = taken_anew(&bench.release(1));
    assert_eq!(bench.at(1).grant(token, 200 + count.min(64), 0), [granted(2, 201)]);
    (bench, token)
}

#[test]
fn with_another_process_waiting_a_turn_is_used_up_after_20_ms_and_the_key_given_before_it_is_asked_for_again() {
    let (mut bench, token) = turn(10);
    bench.lease.wanted(token);
    assert_eq!(bench.at(20).release(2), [released(2), handed_on(3, 202)]);
    let actions = bench.at(21).release(3);
    let next = taken_anew(&actions);
    assert_eq!(actions, [give(token, 10_000, Some(3)), take(next, 10_000, 8)]);
}

#[test]
fn with_another_process_waiting_a_turn_is_used_up_after_16_holders() {
    let mut bench = crowd(40);
    let token = taken_anew(&bench.release(1));
    bench.grant(token, 239, 0);
    bench.lease.wanted(token);
    for claim in 2..=16 {
        assert_eq!(bench.release(claim), [released(claim), handed_on(claim + 1, 200 + claim)]);
    }
    assert_eq!(bench.release(17)[0], give(token, 10_000, Some(17)));
}

#[test]
fn reserved_numbers_are_a_hard_limit_and_more_are_reserved_at_half() {
    let (mut bench, token) = turn(8);
    for claim in 9..=30 {
        bench.arrive(waiter(claim + 1, 10_000));
    }
    // 8 are reserved; with 4 left a keep reserves twice as many.
    let mut sent = Vec::new();
    for claim in 2..9 {
        let actions = bench.release(claim);
        assert_eq!(actions[..2], [released(claim), handed_on(claim + 1, 200 + claim)]);
        sent.extend(actions.into_iter().skip(2));
    }
    assert_eq!(sent, [keep(token, 10_000, 16)]);
    // Not answered in time: the ninth has no number and must not make one up.
    let actions = bench.release(9);
    assert_eq!(actions[0], give(token, 10_000, Some(9)));
    assert_ne!(taken_anew(&actions), token);
    // Its answer is for a turn that is over.
    assert_eq!(
        bench.step(|lease, cx| lease.kept(
            token,
            Kept { sent: at(1), ttl: ttl(10_000), numbers: Some((999, 16)), extended: false, more: false },
            cx
        )),
        []
    );
}

#[test]
fn numbers_reserved_by_a_keep_follow_on_the_first() {
    let (mut bench, token) = turn(8);
    for claim in 10..=30 {
        bench.arrive(waiter(claim, 10_000));
    }
    for claim in 2..=5 {
        bench.release(claim);
    }
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(1), ttl: ttl(10_000), numbers: Some((516, 16)), extended: false, more: false },
            cx,
        )
    });
    let mut fences = Vec::new();
    for claim in 6..=12 {
        for action in bench.release(claim) {
            if let Action::Granted { fence, .. } = action {
                fences.push(fence);
            }
        }
    }
    assert_eq!(fences, [206, 207, 208, 501, 502, 503, 504]);
}

#[test]
fn a_crowd_that_comes_while_the_lock_is_held_gets_numbers_at_once() {
    let mut bench = Bench::held(10_000, &[]);
    let token = bench.token();
    assert_eq!(bench.arrive(waiter(2, 10_000)), [keep(token, 10_000, 16)]);
    assert_eq!(bench.arrive(waiter(3, 10_000)), [], "a keep is on its way");
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(10_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    assert_eq!(bench.release(1), [released(1), handed_on(2, 1_001)]);
    assert_eq!(bench.release(2), [released(2), handed_on(3, 1_002)]);
}

#[test]
fn blocks_grow_up_to_the_largest() {
    let (mut bench, token) = turn(64);
    for claim in 66..=20_000 {
        bench.arrive(waiter(claim, 10_000));
    }
    let mut blocks = Vec::new();
    let mut last = 1_000;
    for claim in 2..6_000 {
        for action in bench.release(claim) {
            if let Action::Send { op: Op::Keep { block, .. }, .. } = action {
                blocks.push(block);
                last += u64::from(block);
                let numbers = Some((last, block));
                bench.step(|lease, cx| {
                    lease.kept(
                        token,
                        Kept { sent: at(1), ttl: ttl(10_000), numbers, extended: false, more: false },
                        cx,
                    )
                });
            }
        }
    }
    assert_eq!(blocks[..4], [128, 256, 512, 1_024]);
    assert!(blocks[4..].iter().all(|block| *block == LARGEST_BLOCK), "{blocks:?}");
}

#[test]
fn a_lease_that_is_nearly_over_is_not_handed_on() {
    let (mut bench, token) = turn(3);
    // The claim window: 250 ms of 10 s must be left.
    let actions = bench.at(9_700).release(2);
    assert_eq!(actions[0], give(token, 10_000, Some(2)));
}

#[test]
fn a_lease_much_longer_than_the_next_one_wants_is_not_handed_on() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 60_000));
    let first = bench.token();
    bench.grant(first, 100, 0);
    bench.arrive(waiter(2, 1_000));
    bench.step(|lease, cx| {
        lease.kept(
            first,
            Kept { sent: at(0), ttl: ttl(60_000), numbers: Some((116, 16)), extended: false, more: false },
            cx,
        )
    });
    let actions = bench.at(1).release(1);
    assert_eq!(actions, [give(first, 60_000, Some(1)), take(bench.token(), 1_000, 1)]);
}

#[test]
fn a_longer_lease_than_the_turn_has_is_asked_for_at_once_by_a_keep() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 1_000));
    let token = bench.token();
    bench.grant(token, 100, 0);
    bench.arrive(waiter(2, 10_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(1_000), numbers: Some((116, 16)), extended: false, more: false },
            cx,
        )
    });
    assert_eq!(bench.at(1).release(1), [released(1), handed_on(2, 101), keep(token, 10_000, 0)]);
    assert_eq!(bench.deadline_of(2), Some(at(988)), "until the server has said more");
    bench.at(2).kept(token, 1, 10_000);
    assert_eq!(bench.deadline_of(2), Some(at(9_899)));
}

#[test]
fn a_caller_that_is_not_renewed_gets_its_own_deadline_and_enough_of_the_lease() {
    let (mut bench, token) = turn(1);
    bench.arrive(unrenewed(50, 10_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(1), ttl: ttl(10_000), numbers: Some((316, 16)), extended: false, more: false },
            cx,
        )
    });
    // 9.9 s are left: less than it asked for by drift alone.
    assert_eq!(bench.at(3).release(2), [released(2), handed_on(50, 301)]);
    assert_eq!(bench.deadline_of(50), Some(at(9_899)));

    // Later there is too little left for somebody who won't be renewed.
    let mut bench = Bench::held(1_000, &[]);
    bench.arrive(unrenewed(2, 1_000));
    let token = bench.token();
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(1_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    bench.at(334).tick();
    // It is raised at once, and the caller believes in no more than there is until that is confirmed.
    let actions = bench.at(335).release(1);
    assert_eq!(actions[..2], [released(1), handed_on(2, 1_001)]);
    assert_eq!(bench.deadline_of(2), Some(at(988)));
    bench.at(336).failed(token, None, Some(337));
    assert_eq!(bench.at(337).tick(), [keep(token, 1_000, 0)]);
    bench.at(338).kept(token, 337, 1_000);
    assert_eq!(bench.deadline_of(2), Some(at(1_323)), "its own ttl, from when it got the lock");
}

// ----- the end of a holder's time -------------------------------------------------------------------------------------

#[test]
fn a_release_after_the_deadline_is_a_loss() {
    let mut bench = Bench::held(1_000, &[waiter(2, 1_000)]);
    let token = bench.token();
    let actions = bench.at(988).release(1);
    assert_eq!(actions[..2], [lost(1, Loss::Expired), give(token, 1_000, None)]);
    assert_eq!(actions[2..], [take(bench.token(), 1_000, 1)]);
}

#[test]
fn a_dead_lease_is_not_handed_on() {
    // Numbers are left and somebody waits, yet the lease is over when the holder ends.
    let (mut bench, token) = turn(3);
    let actions = bench.at(9_899).release(2);
    assert_eq!(actions[..2], [lost(2, Loss::Expired), give(token, 10_000, None)]);
    assert_eq!(actions.len(), 3);
    assert_ne!(taken_anew(&actions), token);
}

#[test]
fn the_deadline_ends_it_without_anybody_asking() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 0)]);
    bench.failed(token, None, None);
    assert_eq!(bench.lease.due(), Some(at(988)));
    assert_eq!(bench.at(987).tick(), []);
    // Renewal was tried, and wasn't confirmed.
    assert_eq!(bench.at(988).tick(), [lost(1, Loss::Unreachable), give(token, 1_000, None)]);
    assert!(bench.lease.is_idle());
}

#[test]
fn without_renewal_the_ttl_is_the_end() {
    let mut bench = Bench::new();
    bench.arrive(unrenewed(1, 1_000));
    let token = bench.token();
    bench.grant(token, 100, 0);
    assert_eq!(bench.lease.due(), Some(at(988)), "no keep is due");
    assert_eq!(bench.resume(), [], "nor does a new link make one");
    assert_eq!(bench.at(988).tick(), [lost(1, Loss::Expired), give(token, 1_000, None)]);
}

#[test]
fn a_key_that_is_not_ours_is_a_loss_and_the_next_caller_begins_anew() {
    let mut bench = Bench::held(1_000, &[waiter(2, 1_000)]);
    let token = bench.token();
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 16)]);
    let actions = bench.at(340).not_ours(token);
    assert_eq!(actions[..2], [lost(1, Loss::Taken), give(token, 1_000, None)]);
    let next = taken_anew(&actions);
    assert_eq!(actions[2..], [take(next, 1_000, 1)]);
    assert_eq!(bench.kept(token, 334, 1_000), []);
    assert_eq!(bench.at(345).grant(next, 2_000, 340), [granted(2, 2_000)]);
}

#[test]
fn a_revoked_lock_goes_on_to_the_next_caller() {
    let (mut bench, _) = turn(2);
    let claim = holdfast_core::lease::ClaimId;
    let actions = bench.step(|lease, cx| lease.revoke(claim(2), Loss::Closed, cx));
    assert_eq!(actions, [lost(2, Loss::Closed), handed_on(3, 202)]);
    assert_eq!(bench.release(2), []);
    let token = bench.token();
    let actions = bench.step(|lease, cx| lease.revoke(claim(3), Loss::Closed, cx));
    assert_eq!(actions, [lost(3, Loss::Closed), give(token, 10_000, None)]);
}

// ----- renewal --------------------------------------------------------------------------------------------------------

#[test]
fn renewal_is_due_at_a_third_of_the_ttl_or_a_little_earlier() {
    for millis in [100_u32, 300, 999, 1_000, 10_000, 60_000, 3_600_000] {
        let mut bench = Bench::held(millis, &[]);
        let token = bench.token();
        let third = at(0) + Duration::from_millis(millis.into()) / 3;
        let due = bench.lease.due().unwrap();
        let grid = (Duration::from_millis(millis.into()) / 15).min(Duration::from_millis(200));
        assert!(due <= third && third.since(due) < grid, "{millis}: {due:?} is not just before {third:?}");
        bench.now = due;
        assert_eq!(bench.tick(), [keep(token, millis, 0)]);
        assert_eq!(bench.tick(), [], "one keep at a time");
    }
}

#[test]
fn a_keep_moves_the_deadline_to_ttl_after_it_was_sent() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 0)]);
    assert_eq!(bench.at(340).kept(token, 334, 1_000), []);
    assert_eq!(bench.deadline_of(1), Some(at(1_322)));
    // An older confirmation takes nothing back.
    bench.kept(token, 100, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(1_322)));
}

#[test]
fn a_keep_answered_after_the_deadline_is_too_late() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 0)]);
    let actions = bench.at(988).kept(token, 334, 1_000);
    assert_eq!(actions, [lost(1, Loss::Unreachable), give(token, 1_000, None)]);
    assert_eq!(bench.kept(token, 334, 1_000), []);
}

#[test]
fn a_failed_keep_is_tried_again_and_a_lost_link_confirmed_when_it_is_back() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.at(334).tick(), [keep(token, 1_000, 0)]);
    bench.at(344).failed(token, None, Some(360));
    assert_eq!(bench.lease.due(), Some(at(360)));
    assert_eq!(bench.at(360).tick(), [keep(token, 1_000, 0)]);
    bench.at(370).failed(token, None, None);
    assert_eq!(bench.lease.due(), Some(at(988)), "nothing to do but wait for the link");
    assert_eq!(bench.at(500).resume(), [keep(token, 1_000, 0)]);
    bench.at(510).kept(token, 500, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(1_488)));
}

#[test]
fn no_keep_follows_a_give() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    let gone = bench.at(265).release(1);
    assert_eq!(gone, [give(token, 1_000, Some(1))]);
    assert_eq!(bench.at(334).tick(), []);
    assert_eq!(bench.at(400).resume(), []);
    assert_eq!(bench.lease.due(), None);
}

// ----- extending ------------------------------------------------------------------------------------------------------

#[test]
fn extending_to_a_longer_lease_is_a_keep() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    let op = Op::Keep { ttl: ttl(5_000), block: 0 };
    assert_eq!(bench.at(10).extend(1, 9, 5_000), [send(token, op, Some(9))]);
    assert_eq!(bench.deadline_of(1), Some(at(988)), "believed only when confirmed");
    bench.at(12).kept(token, 10, 5_000);
    assert_eq!(bench.deadline_of(1), Some(at(4_958)));
    // Renewal goes on with the new ttl.
    bench.now = bench.lease.due().unwrap();
    assert_eq!(bench.tick(), [keep(token, 5_000, 0)]);
}

#[test]
fn extending_to_a_shorter_lease_is_a_new_name_and_believed_before_it_is_sent() {
    let mut bench = Bench::held(10_000, &[]);
    let token = bench.token();
    let actions = bench.at(10).extend(1, 9, 1_000);
    let new = bench.token();
    assert_ne!(new, token);
    assert_eq!(actions, [swap(token, new, 1_000, Some(9))]);
    assert_eq!(bench.deadline_of(1), Some(at(998)));
    // A keep of the old name that was under way says nothing of the new one.
    bench.at(11).kept(token, 9, 10_000);
    assert_eq!(bench.deadline_of(1), Some(at(998)));
    bench.at(12).swapped(new, 11, 1_000);
    assert_eq!(bench.deadline_of(1), Some(at(999)));
    let gives = bench.at(13).release(1);
    let name = |action: &Action| match action {
        Action::Send { token, op: Op::Give { .. }, .. } => Some(*token),
        _ => None,
    };
    assert_eq!(gives.iter().map(name).collect::<Vec<_>>(), [Some(new)], "one name is left");
}

#[test]
fn a_renaming_without_an_answer_is_said_again_ahead_of_the_keep() {
    let mut bench = Bench::held(10_000, &[]);
    let first = bench.token();
    bench.at(10).extend(1, 8, 5_000);
    let second = bench.token();
    bench.at(11).extend(1, 9, 1_000);
    let third = bench.token();
    bench.at(20).failed(third, Some(1_021), None);
    for name in [second, third] {
        bench.lease.renaming_failed(name);
    }
    assert_eq!(
        bench.at(30).resume(),
        [swap(first, second, 5_000, None), swap(second, third, 1_000, None), keep(third, 1_000, 0)]
    );
    // Given back before any answer: under every name it may have, and each for as long as the server may keep it.
    let gives = bench.at(40).release(1);
    assert_eq!(gives.len(), 3);
    let expected = [(first, 10_000, None), (second, 5_000, None), (third, 1_000, Some(1))];
    for (action, (name, least, caller)) in gives.iter().zip(expected) {
        let Action::Send { token, op: Op::Give { ttl: lasts, tainted }, caller: waits } = action else {
            panic!("{action:?} is no give");
        };
        assert_eq!((*token, waits.map(|claim| claim.0)), (name, caller));
        assert_eq!(*tainted, Some(at(1_021)));
        assert!(*lasts >= ttl(least), "{name} may be there for {least} ms, not just {lasts:?}");
    }
}

#[test]
fn of_several_renamings_the_last_one_decides() {
    let mut bench = Bench::held(10_000, &[]);
    let first = bench.token();
    bench.at(10).extend(1, 8, 5_000);
    let second = bench.token();
    bench.at(11).extend(1, 9, 1_000);
    let third = bench.token();
    // The server refuses the first for want of memory, and so finds the key by no name that the second could change.
    bench.at(20).failed(third, Some(5_070), Some(70));
    bench.lease.renaming_failed(second);
    assert_eq!(bench.step(|lease, cx| lease.not_renamed(third, cx)), []);
    assert_eq!(bench.not_ours(third), []);
    let again = [swap(first, second, 5_000, None), swap(second, third, 1_000, None), keep(third, 1_000, 0)];
    assert_eq!(bench.at(70).tick(), again);
    // Nor is the key there by its first name; but the next renaming may have been done by a copy that nobody answered.
    assert_eq!(bench.at(71).step(|lease, cx| lease.not_renamed(second, cx)), []);
    let actions = bench.step(|lease, cx| lease.not_renamed(third, cx));
    assert_eq!(actions[0], lost(1, Loss::Taken));
    assert_eq!(actions.len(), 4, "given back by all its names: {actions:?}");
    assert!(bench.lease.is_idle());
}

#[test]
fn renamings_that_were_executed_without_our_hearing_of_it_don_t_cost_the_lock() {
    let mut bench = Bench::held(10_000, &[]);
    let first = bench.token();
    bench.at(10).extend(1, 8, 5_000);
    let second = bench.token();
    bench.at(11).extend(1, 9, 1_000);
    let third = bench.token();
    for name in [second, third] {
        bench.lease.renaming_unanswered(name);
    }
    bench.at(20).failed(third, Some(1_030), None);
    let again = [swap(first, second, 5_000, None), swap(second, third, 1_000, None), keep(third, 1_000, 0)];
    assert_eq!(bench.at(30).resume(), again);
    // The key has its last name: the first renaming finds neither of its own.
    assert_eq!(bench.at(31).step(|lease, cx| lease.not_renamed(second, cx)), []);
    assert_eq!(bench.swapped(third, 30, 1_000), []);
    assert_eq!(bench.deadline_of(1), Some(at(1_018)));
    let gives = bench.at(32).release(1);
    assert_eq!(gives.last(), Some(&send(third, Op::Give { ttl: ttl(10_000), tainted: Some(at(1_030)) }, Some(1))));
}

#[test]
fn extending_what_is_no_longer_held_is_a_loss() {
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    assert_eq!(bench.extend(3, 9, 5_000), [], "it isn't the holder");
    assert_eq!(bench.at(988).extend(1, 9, 5_000), [lost(1, Loss::Expired), give(token, 1_000, None)]);
}

#[test]
fn an_extend_without_renewal_moves_the_holder_s_own_deadline() {
    let mut bench = Bench::new();
    bench.arrive(unrenewed(1, 1_000));
    let token = bench.token();
    bench.grant(token, 100, 0);
    bench.at(500).extend(1, 9, 2_000);
    bench.at(501).step(|lease, cx| {
        lease.kept(token, Kept { sent: at(500), ttl: ttl(2_000), numbers: None, extended: true, more: false }, cx)
    });
    assert_eq!(bench.deadline_of(1), Some(at(2_478)));
    assert_eq!(bench.lease.due(), Some(at(2_478)));
}

#[test]
fn one_caller_s_extend_says_nothing_of_the_next_one() {
    // Extended far and released before the answer: the next caller asked for one second, without renewal.
    let mut bench = Bench::held(1_000, &[]);
    let token = bench.token();
    bench.arrive(unrenewed(2, 1_000));
    bench.step(|lease, cx| {
        lease.kept(
            token,
            Kept { sent: at(0), ttl: ttl(1_000), numbers: Some((1_016, 16)), extended: false, more: false },
            cx,
        )
    });
    bench.at(1).extend(1, 9, 60_000);
    assert_eq!(bench.at(2).release(1)[..2], [released(1), handed_on(2, 1_001)]);
    bench.at(3).step(|lease, cx| {
        lease.kept(token, Kept { sent: at(1), ttl: ttl(60_000), numbers: None, extended: true, more: false }, cx)
    });
    let deadline = bench.deadline_of(2);
    assert!(
        deadline.is_none_or(|deadline| deadline <= at(1_002)),
        "it is lost when its own ttl is over: {deadline:?}"
    );
}

// ----- turns begun for somebody else ----------------------------------------------------------------------------------

#[test]
fn a_caller_that_is_not_renewed_gets_its_whole_ttl_although_another_began_the_turn() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 100));
    bench.arrive(unrenewed(2, 10_000));
    let first = bench.token();
    bench.leave(1);
    let mut actions = bench.at(1).grant(first, 500, 0);
    // However it comes to it: granted with less than its ttl it would be lost long before its time.
    for millis in (2..).take(5) {
        if bench.deadline_of(2).is_some() {
            break;
        }
        let token = bench.token();
        let op = actions.iter().rev().find_map(|action| match action {
            Action::Send { op, caller: None, .. } => Some(*op),
            _ => None,
        });
        actions = match op {
            Some(Op::Take { .. }) => bench.at(millis).grant(token, 600, millis - 1),
            Some(Op::Keep { ttl, .. }) => bench.at(millis).step(|lease, cx| {
                lease.kept(token, Kept { sent: at(millis - 1), ttl, numbers: None, extended: false, more: false }, cx)
            }),
            other => panic!("{other:?}"),
        };
    }
    let deadline = bench.deadline_of(2).unwrap();
    assert!(deadline >= at(9_000), "its lease ends at {deadline:?}");
}

#[test]
fn a_short_lease_is_not_granted_as_the_long_one_that_another_asked_for() {
    let mut bench = Bench::new();
    bench.arrive(waiter(1, 3_600_000));
    bench.arrive(waiter(2, 1_000));
    let token = bench.token();
    bench.leave(1);
    let actions = bench.at(1).grant(token, 500, 0);
    // After a crash of this holder others would wait for an hour.
    let believed = bench.deadline_of(2);
    assert!(
        believed.is_none_or(|deadline| deadline <= at(3_001)),
        "it believes in a lease until {believed:?} after {actions:?}"
    );
}
