//! What the numbers of halves and managers stand for, per thread: an environment lives on one thread, and a number from
//! another one means nothing.

use std::cell::RefCell;
use std::sync::Arc;

use holdfast_core::engine::{Core, Terms};
use holdfast_core::wait::Strategy;
use napi::{Error, Result};

use crate::half::Shared;

/// A manager: the calls of one `createLocks()`.
#[derive(Clone)]
pub struct Manager {
    pub core: Arc<Core>,
    pub half: Arc<Shared>,
    /// The core's number for it.
    pub number: u32,
    pub prefix: Arc<str>,
    /// Defaults of its calls.
    pub terms: Terms,
    pub strategy: Arc<Strategy>,
}

impl Manager {
    /// The full key of a lock.
    pub fn full(&self, mut key: String) -> String {
        key.insert_str(0, &self.prefix);
        key
    }
}

thread_local! {
    static HALVES: RefCell<Vec<Arc<Shared>>> = const { RefCell::new(Vec::new()) };
    static MANAGERS: RefCell<Vec<Option<Manager>>> = const { RefCell::new(Vec::new()) };
}

pub fn add_half(half: Arc<Shared>) -> u32 {
    HALVES.with_borrow_mut(|halves| {
        halves.push(half);
        halves.len() as u32 - 1
    })
}

pub fn half(number: u32) -> Result<Arc<Shared>> {
    HALVES.with_borrow(|halves| halves.get(number as usize).cloned()).ok_or_else(unknown)
}

pub fn add_manager(manager: Manager) -> u32 {
    MANAGERS.with_borrow_mut(|managers| {
        let free = managers.iter().position(Option::is_none).unwrap_or(managers.len());
        managers.resize_with(managers.len().max(free + 1), || None);
        if let Some(place) = managers.get_mut(free) {
            *place = Some(manager);
        }
        free as u32
    })
}

/// Lets `call` use a manager. Nothing that it does comes back to this table.
pub fn with_manager<R>(number: u32, call: impl FnOnce(&Manager) -> R) -> Result<R> {
    MANAGERS.with_borrow(|managers| managers.get(number as usize)?.as_ref().map(call)).ok_or_else(unknown)
}

pub fn remove_manager(number: u32) -> Option<Manager> {
    MANAGERS.with_borrow_mut(|managers| managers.get_mut(number as usize)?.take())
}

fn unknown() -> Error {
    Error::from_reason("no such half or manager on this thread")
}
