//! What JavaScript fetches: five numbers for each thing that happened, and the details of failures.

use holdfast_core::engine::{Event, Outcome, Phase, ValueOutcome, Wait};
use holdfast_core::link::{Class, Trouble};
use holdfast_core::store::Entry;
use holdfast_core::wait::Choice;
use napi_derive::napi;

/// How many numbers a record has.
pub const WIDTH: usize = 5;

/// `[slot, code, …]`; codes and what follows them are mirrored in `lib/bridge.js`.
pub type Record = [f64; WIDTH];

/// What doesn't fit into numbers.
#[napi(object)]
#[derive(Default)]
pub struct Detail {
    /// What is wrong with the store.
    pub code: Option<String>,
    /// In its own words.
    pub message: Option<String>,
    /// It will be the same the next time.
    pub definite: Option<bool>,
    /// Value of the key.
    pub holder: Option<String>,
    /// What the keys hold now.
    pub token: Option<String>,
    /// How many holds of an owner there are.
    pub holds: Option<u32>,
    /// Full key that the adaptive strategy waits for in another way, the way, and the p99 of its hold times, ms.
    pub key: Option<String>,
    pub choice: Option<String>,
    pub p99: Option<f64>,
}

impl Detail {
    pub fn of_trouble(trouble: &Trouble) -> Detail {
        Detail {
            code: Some(trouble.code().to_owned()),
            message: Some(trouble.message().to_owned()),
            definite: Some(trouble.class() == Class::Definite),
            ..Detail::default()
        }
    }
}

pub fn of_outcome(slot: u32, outcome: Outcome) -> (Record, Option<Detail>) {
    let slot = f64::from(slot);
    match outcome {
        Outcome::Granted { token, fence, waited, holds, .. } => {
            let detail =
                holds.is_some().then(|| Detail { token: Some(token.to_string()), holds, ..Detail::default() });
            ([slot, 1.0, fence as f64, waited.as_secs_f64() * 1e3, token.turn() as f64], detail)
        }
        Outcome::Detached(token) => {
            let detail = Detail { token: Some(token.to_string()), ..Detail::default() };
            ([slot, 10.0, 0.0, 0.0, 0.0], Some(detail))
        }
        Outcome::Renewed => ([slot, 11.0, 0.0, 0.0, 0.0], None),
        Outcome::Stalled(silent) => ([slot, 12.0, silent.as_secs_f64() * 1e3, 0.0, 0.0], None),
        Outcome::Busy(wait) => of_wait(slot, 2.0, wait),
        Outcome::TimedOut(wait) => of_wait(slot, 3.0, wait),
        Outcome::Unavailable(trouble) => ([slot, 4.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(&trouble))),
        Outcome::WrongType(trouble) => ([slot, 5.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(&trouble))),
        Outcome::Closed => ([slot, 6.0, 0.0, 0.0, 0.0], None),
        Outcome::Released(mine) => ([slot, 7.0, f64::from(u8::from(mine)), 0.0, 0.0], None),
        Outcome::Extended => ([slot, 8.0, 0.0, 0.0, 0.0], None),
        Outcome::Lost(loss) => ([slot, 9.0, f64::from(loss as u8), 0.0, 0.0], None),
    }
}

/// With the entry that was found.
pub fn of_value(slot: u32, outcome: ValueOutcome) -> (Record, Option<Detail>, Option<Vec<u8>>) {
    let slot = f64::from(slot);
    let simple = |code: f64, a: f64| ([slot, code, a, 0.0, 0.0], None, None);
    let said =
        |code, words| ([slot, code, 0.0, 0.0, 0.0], Some(Detail { message: Some(words), ..Detail::default() }), None);
    let trouble = |code, trouble: &Trouble| ([slot, code, 0.0, 0.0, 0.0], Some(Detail::of_trouble(trouble)), None);
    match outcome {
        ValueOutcome::Found(bytes, left) => match Entry::parse(&bytes) {
            Some(Entry { kind, spent, kept, .. }) => {
                let fresh = left.map_or(f64::INFINITY, |left| left as f64 - kept as f64);
                ([slot, 30.0, fresh, spent as f64, f64::from(kind)], None, Some(bytes))
            }
            None => simple(37.0, 0.0),
        },
        ValueOutcome::Absent => simple(31.0, 0.0),
        ValueOutcome::Taken => simple(32.0, 0.0),
        ValueOutcome::BacksOff(words) => said(33.0, words),
        ValueOutcome::LoadFailed(words) => said(34.0, words),
        ValueOutcome::Nothing(which) => simple(35.0, f64::from(which)),
        ValueOutcome::Done(done) => simple(36.0, f64::from(u8::from(done))),
        ValueOutcome::Foreign => simple(37.0, 0.0),
        ValueOutcome::Unavailable(why) => trouble(4.0, &why),
        ValueOutcome::WrongType(why) => trouble(5.0, &why),
        ValueOutcome::Closed => simple(6.0, 0.0),
    }
}

fn of_wait(slot: f64, code: f64, wait: Wait) -> (Record, Option<Detail>) {
    let phase = match wait.phase {
        Phase::Spinning => 0.0,
        Phase::Queued => 1.0,
        Phase::Connecting => 2.0,
    };
    let record = [slot, code, wait.waited.as_secs_f64() * 1e3, f64::from(wait.attempts), phase];
    (record, wait.holder.map(|holder| Detail { holder: Some(holder), ..Detail::default() }))
}

pub fn of_event(slot: u32, event: &Event) -> (Record, Option<Detail>) {
    let slot = f64::from(slot);
    match event {
        Event::Adapted { key, choice, p99 } => {
            let choice = match choice {
                Choice::Spin => "spin",
                Choice::Backoff => "backoff",
                Choice::Hybrid => "hybrid",
            };
            let detail = Detail {
                key: Some(key.to_string()),
                choice: Some(choice.to_owned()),
                p99: p99.map(|p99| p99.as_secs_f64() * 1e3),
                ..Detail::default()
            };
            ([slot, 22.0, 0.0, 0.0, 0.0], Some(detail))
        }
        Event::Fallback(trouble) => ([slot, 23.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(trouble))),
        Event::Unavailable(trouble) => ([slot, 20.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(trouble))),
        Event::Available { again } => ([slot, 21.0, f64::from(u8::from(*again)), 0.0, 0.0], None),
    }
}
