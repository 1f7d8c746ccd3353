//! What a manager has done so far, and how long it took.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::Outcome;
use super::claims::State;
use crate::lease::Loss;
use crate::wait::Choice;

/// Counters of a manager.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Locks granted.
    pub acquired: u64,
    /// Of those, at the first attempt.
    pub at_once: u64,
    /// Of those, handed on inside the process.
    pub handed_on: u64,
    /// Of those, in the store's queue.
    pub queued: u64,
    /// Of those, after polling.
    pub polled: u64,
    /// Attempts of those that polled, up to the one that was granted.
    pub attempts: u64,
    /// Waits by a strategy of several phases, and of those the ones that were granted in the first phase, and that left it.
    pub phased: u64,
    /// See [`phased`](Counters::phased).
    pub won_spinning: u64,
    /// See [`phased`](Counters::phased).
    pub left_spinning: u64,
    /// Choices of the adaptive strategy.
    pub chose_spin: u64,
    /// See [`chose_spin`](Counters::chose_spin).
    pub chose_backoff: u64,
    /// See [`chose_spin`](Counters::chose_spin).
    pub chose_hybrid: u64,
    /// Grants that were taken back because nobody fetched them.
    pub abandoned: u64,
    /// Acquisitions that ran out of time.
    pub timeouts: u64,
    /// Single attempts that met a holder.
    pub busy: u64,
    /// Acquisitions that failed or were aborted.
    pub failed: u64,
    /// Locks given back.
    pub released: u64,
    /// Locks lost while held, by [`Loss`].
    pub losses: [u64; 6],
    /// Held now.
    pub held: u64,
    /// Waiting now.
    pub waiting: u64,
}

/// Durations in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Half of them took no longer.
    pub p50: Duration,
    /// Nine of ten.
    pub p90: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// All of them.
    pub max: Duration,
}

pub(super) struct Statistics {
    pub(super) counters: Counters,
    /// Made at the first value.
    waits: Option<Histogram<u32>>,
    holds: Option<Histogram<u32>>,
}

impl Statistics {
    pub(super) fn new() -> Statistics {
        Statistics { counters: Counters::default(), waits: None, holds: None }
    }

    pub(super) fn waited(&mut self, time: Duration) {
        record(&mut self.waits, time);
    }

    pub(super) fn was_held(&mut self, time: Duration) {
        record(&mut self.holds, time);
    }

    pub(super) fn waits(&self) -> Distribution {
        distribution(self.waits.as_ref())
    }

    pub(super) fn holds(&self) -> Distribution {
        distribution(self.holds.as_ref())
    }

    /// A call in this state has come to something.
    pub(super) fn count(&mut self, state: State, outcome: &Outcome) {
        let counters = &mut self.counters;
        match state {
            State::Waiting { .. } | State::Adopting => {
                counters.waiting -= 1;
                match outcome {
                    Outcome::Granted { .. } => {
                        counters.acquired += 1;
                        counters.held += 1;
                    }
                    Outcome::Busy(_) => counters.busy += 1,
                    Outcome::TimedOut(_) => counters.timeouts += 1,
                    _ => counters.failed += 1,
                }
            }
            State::Held | State::Releasing => {
                counters.held -= 1;
                match outcome {
                    Outcome::Released(true) => counters.released += 1,
                    Outcome::Lost(loss) => {
                        if let Some(losses) = counters.losses.get_mut(*loss as usize) {
                            *losses += 1;
                        }
                    }
                    _ => {}
                }
            }
            State::Extending { .. } | State::Detaching { .. } => {}
        }
    }

    pub(super) fn chose(&mut self, choice: Choice) {
        match choice {
            Choice::Spin => self.counters.chose_spin += 1,
            Choice::Backoff => self.counters.chose_backoff += 1,
            Choice::Hybrid => self.counters.chose_hybrid += 1,
        }
    }
}

impl Counters {
    /// Locks lost while held.
    pub fn lost(&self) -> u64 {
        self.losses.iter().sum()
    }

    /// Of those, for this reason.
    pub fn lost_by(&self, loss: Loss) -> u64 {
        self.losses.get(loss as usize).copied().unwrap_or(0)
    }
}

/// Two digits are kept (HdrHistogram, Tene): 1 % is more than anybody needs, and costs a few kilobytes.
fn record(histogram: &mut Option<Histogram<u32>>, time: Duration) {
    if histogram.is_none() {
        *histogram = Histogram::new(2).ok();
    }
    if let Some(histogram) = histogram {
        // Grows as needed; what is beyond all bounds isn't counted.
        let _ = histogram.record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

fn distribution(histogram: Option<&Histogram<u32>>) -> Distribution {
    let Some(histogram) = histogram else {
        return Distribution::default();
    };
    let at = |quantile| Duration::from_micros(histogram.value_at_quantile(quantile));
    Distribution {
        count: histogram.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: Duration::from_micros(histogram.max()),
    }
}
