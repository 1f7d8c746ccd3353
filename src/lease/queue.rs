//! The local waiters of one key, first come, first served.

use std::collections::VecDeque;
use std::time::Duration;

use super::Ttl;

/// The number of a caller's request, rising in order of arrival, never used twice in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(pub u64);

/// A caller in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Whose it is; also its place in the order.
    pub claim: ClaimId,
    /// The lease it asks for.
    pub ttl: Ttl,
    /// One attempt: it is refused as soon as the lock is known to be taken.
    pub once: bool,
    /// Its lease is renewed while it holds the lock.
    pub renewed: bool,
    /// How long it may hold the lock at the most.
    pub max_hold: Option<Duration>,
    /// It stands in the server's queue. Without, it gets a lock that nobody waits for there.
    pub queues: bool,
    /// The longest pause between two looks at the queue, for when it can't be told.
    pub pause: Duration,
    /// What bounds the turn that begins with it.
    pub turn: Turn,
}

/// How much a process does with the lock before it hands it to another one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Callers served.
    pub holders: u32,
    /// For how long; `None`: 20 ms, or ten times what the server takes to answer if that is more.
    pub duration: Option<Duration>,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { holders: 16, duration: None }
    }
}

/// First come, first served; leaving from the middle costs a binary search.
#[derive(Debug, Default)]
pub struct Queue {
    /// In order of arrival. Waiters that left stay as `None` until they reach the front, so that leaving
    /// doesn't move the others.
    places: VecDeque<(ClaimId, Option<Waiter>)>,
    waiting: usize,
    once: usize,
    queueing: usize,
}

impl Queue {
    /// Joins at the end. Claims must rise.
    pub fn push(&mut self, waiter: Waiter) {
        debug_assert!(self.places.back().is_none_or(|(last, _)| *last < waiter.claim));
        self.waiting += 1;
        self.once += usize::from(waiter.once);
        self.queueing += usize::from(waiter.queues);
        self.places.push_back((waiter.claim, Some(waiter)));
    }

    /// The first in line.
    pub fn front(&self) -> Option<&Waiter> {
        self.places.front().and_then(|(_, waiter)| waiter.as_ref())
    }

    /// Puts one back that was taken out, at its place.
    pub fn insert(&mut self, waiter: Waiter) {
        let place = self.places.partition_point(|(claim, _)| *claim < waiter.claim);
        self.waiting += 1;
        self.once += usize::from(waiter.once);
        self.queueing += usize::from(waiter.queues);
        if let Some((_, gone)) = self.places.get_mut(place).filter(|(claim, _)| *claim == waiter.claim) {
            *gone = Some(waiter);
        } else {
            self.places.insert(place, (waiter.claim, Some(waiter)));
        }
    }

    /// Takes the first in line out.
    pub fn pop(&mut self) -> Option<Waiter> {
        let waiter = self.places.pop_front().and_then(|(_, waiter)| waiter)?;
        self.left(&waiter);
        Some(waiter)
    }

    /// Takes one out wherever it stands.
    pub fn remove(&mut self, claim: ClaimId) -> Option<Waiter> {
        let place = self.places.binary_search_by_key(&claim, |(claim, _)| *claim).ok()?;
        let waiter = self.places.get_mut(place).and_then(|(_, waiter)| waiter.take())?;
        self.left(&waiter);
        Some(waiter)
    }

    /// Takes out those that wanted one attempt only.
    pub fn remove_once(&mut self, mut each: impl FnMut(Waiter)) {
        if self.once == 0 {
            return;
        }
        for (_, place) in &mut self.places {
            if place.is_some_and(|waiter| waiter.once)
                && let Some(waiter) = place.take()
            {
                self.waiting -= 1;
                self.queueing -= usize::from(waiter.queues);
                each(waiter);
            }
        }
        self.once = 0;
        self.close_front();
    }

    /// Those who wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.places.iter().filter_map(|(_, waiter)| waiter.as_ref())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether somebody wants to stand in the server's queue.
    pub fn waits(&self) -> bool {
        self.queueing > 0
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn left(&mut self, waiter: &Waiter) {
        self.waiting -= 1;
        self.once -= usize::from(waiter.once);
        self.queueing -= usize::from(waiter.queues);
        self.close_front();
    }

    /// The front is always somebody who waits; and places of those who left don't pile up behind one who stays.
    fn close_front(&mut self) {
        while self.places.front().is_some_and(|(_, waiter)| waiter.is_none()) {
            self.places.pop_front();
        }
        if self.places.len() > 32 && self.places.len() > 2 * self.waiting {
            self.places.retain(|(_, waiter)| waiter.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(number: u64, once: bool) -> Waiter {
        let (ttl, pause) = (Ttl::from_millis(1_000), Duration::ZERO);
        let turn = Turn::default();
        Waiter { claim: ClaimId(number), ttl, once, renewed: true, max_hold: None, queues: !once, pause, turn }
    }

    fn drain(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|waiter| waiter.claim.0).collect()
    }

    #[test]
    fn first_come_first_served_also_when_some_leave() {
        let mut queue = Queue::default();
        (0..100).for_each(|number| queue.push(waiter(number, number % 10 == 9)));
        for number in (0..100).filter(|number| number % 3 == 0) {
            assert!(queue.remove(ClaimId(number)).is_some());
            assert!(queue.remove(ClaimId(number)).is_none());
        }
        let mut refused = Vec::new();
        queue.remove_once(|waiter| refused.push(waiter.claim.0));
        assert_eq!(refused, [19, 29, 49, 59, 79, 89]);
        let expected: Vec<u64> = (0..100).filter(|number| number % 3 != 0 && number % 10 != 9).collect();
        assert_eq!(queue.len(), expected.len());
        assert_eq!(drain(&mut queue), expected);
        assert!(queue.is_empty());
    }
}
