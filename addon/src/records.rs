//! What JavaScript fetches: five numbers for each thing that happened, and the details of failures.

use holdfast_core::engine::{Event, Outcome, Phase, Wait};
use holdfast_core::lease::Loss;
use holdfast_core::link::{Class, Trouble};
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
}

impl Detail {
    pub fn of_trouble(trouble: &Trouble) -> Detail {
        Detail {
            code: Some(trouble.code().to_owned()),
            message: Some(trouble.message().to_owned()),
            definite: Some(trouble.class() == Class::Definite),
            holder: None,
        }
    }
}

pub fn of_outcome(slot: u32, outcome: Outcome) -> (Record, Option<Detail>) {
    let slot = f64::from(slot);
    match outcome {
        Outcome::Granted { token, fence, waited } => {
            ([slot, 1.0, fence as f64, waited.as_secs_f64() * 1e3, token.turn() as f64], None)
        }
        Outcome::Busy(wait) => of_wait(slot, 2.0, wait),
        Outcome::TimedOut(wait) => of_wait(slot, 3.0, wait),
        Outcome::Unavailable(trouble) => ([slot, 4.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(&trouble))),
        Outcome::WrongType(trouble) => ([slot, 5.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(&trouble))),
        Outcome::Closed => ([slot, 6.0, 0.0, 0.0, 0.0], None),
        Outcome::Released(mine) => ([slot, 7.0, f64::from(u8::from(mine)), 0.0, 0.0], None),
        Outcome::Extended => ([slot, 8.0, 0.0, 0.0, 0.0], None),
        Outcome::Lost(loss) => {
            let reason = match loss {
                Loss::Expired => 0.0,
                Loss::Taken => 1.0,
                Loss::Unreachable => 2.0,
                Loss::Closed => 3.0,
            };
            ([slot, 9.0, reason, 0.0, 0.0], None)
        }
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
        Event::Unavailable(trouble) => ([slot, 20.0, 0.0, 0.0, 0.0], Some(Detail::of_trouble(trouble))),
        Event::Available { again } => ([slot, 21.0, f64::from(u8::from(*again)), 0.0, 0.0], None),
    }
}
