//! How long the locks of this process were held lately, per key: what the adaptive strategy goes by.

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Choice;

/// How many hold times are kept per key: the last ones.
const KEPT: usize = 100;
/// Fewer say nothing.
const ENOUGH: usize = 10;
/// Keys that are remembered; of more, those that came first are forgotten.
const KEYS: usize = 1_024;

/// The last hold times per key.
#[derive(Debug)]
pub struct HoldTimes<K> {
    keys: FxHashMap<K, Times>,
    order: VecDeque<K>,
}

#[derive(Debug, Default)]
struct Times {
    last: VecDeque<Duration>,
    /// What was chosen last, if anything was.
    chosen: Option<Choice>,
}

impl<K: Clone + Eq + Hash> Default for HoldTimes<K> {
    fn default() -> Self {
        HoldTimes { keys: FxHashMap::default(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash> HoldTimes<K> {
    /// A lock was held for `time`.
    pub fn add(&mut self, key: &K, time: Duration) {
        let times = self.of(key);
        if times.last.len() == KEPT {
            times.last.pop_front();
        }
        times.last.push_back(time);
    }

    /// How to wait for a key now, whether that is another way than the last time, and the percentile that decided.
    pub fn choose(&mut self, key: &K) -> (Choice, bool, Option<Duration>) {
        let times = self.of(key);
        let p99 = times.p99();
        let choice = Choice::of(p99);
        let before = times.chosen.replace(choice);
        (choice, before.is_some_and(|before| before != choice), p99)
    }

    fn of(&mut self, key: &K) -> &mut Times {
        if !self.keys.contains_key(key) {
            if self.order.len() == KEYS
                && let Some(first) = self.order.pop_front()
            {
                self.keys.remove(&first);
            }
            self.order.push_back(key.clone());
        }
        self.keys.entry(key.clone()).or_default()
    }
}

impl Times {
    fn p99(&self) -> Option<Duration> {
        let mut times: Vec<Duration> = self.last.iter().copied().collect();
        if times.len() < ENOUGH {
            return None;
        }
        // The rank that 99 of 100 don't exceed.
        let rank = (times.len() * 99).div_ceil(100) - 1;
        Some(*times.select_nth_unstable(rank).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hold_times_decide() {
        let mut times = HoldTimes::default();
        assert_eq!(times.choose(&"a"), (Choice::Hybrid, false, None));
        (0..ENOUGH).for_each(|_| times.add(&"a", Duration::from_millis(3)));
        assert_eq!(times.choose(&"a"), (Choice::Spin, true, Some(Duration::from_millis(3))));
        assert_eq!(times.choose(&"a"), (Choice::Spin, false, Some(Duration::from_millis(3))));
        (0..KEPT).for_each(|_| times.add(&"a", Duration::from_millis(300)));
        assert_eq!(times.choose(&"a"), (Choice::Backoff, true, Some(Duration::from_millis(300))));
        // One in a hundred that was longer is not yet a percentile.
        times.add(&"a", Duration::from_secs(9));
        assert_eq!(times.choose(&"a").2, Some(Duration::from_millis(300)));
        assert_eq!(times.choose(&"b"), (Choice::Hybrid, false, None));
    }

    #[test]
    fn keys_that_came_first_are_forgotten() {
        let mut times = HoldTimes::default();
        for key in 0..KEYS + 10 {
            (0..ENOUGH).for_each(|_| times.add(&key, Duration::ZERO));
        }
        assert_eq!((times.keys.len(), times.order.len()), (KEYS, KEYS));
        assert_eq!(times.choose(&0).0, Choice::Hybrid);
        assert_eq!(times.choose(&(KEYS + 9)).0, Choice::Spin);
    }
}
