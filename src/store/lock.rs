//! What a lock is to a store.

use std::slice;
use std::sync::Arc;

/// A lock as a store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// What is taken.
    pub keys: Keys,
    /// In whose name. Turns with the same name hold the keys together; without one, a turn excludes all others.
    pub owner: Option<Arc<str>>,
}

/// The full keys of a lock, prefix included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Keys {
    /// Most locks have one.
    One(Arc<str>),
    /// All of these or none; sorted, each once.
    Several(Arc<[Arc<str>]>),
}

impl Keys {
    /// Of these keys, in any order and however often. `None` if there are none.
    pub fn of(mut keys: Vec<Arc<str>>) -> Option<Keys> {
        keys.sort_unstable();
        keys.dedup();
        match keys.len() {
            0 => None,
            1 => keys.pop().map(Keys::One),
            _ => Some(Keys::Several(keys.into())),
        }
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Arc<str>] {
        match self {
            Keys::One(key) => slice::from_ref(key),
            Keys::Several(keys) => keys,
        }
    }
}

impl Lock {
    /// Of one key, held by one turn at a time.
    pub fn plain(key: Arc<str>) -> Lock {
        Lock { keys: Keys::One(key), owner: None }
    }

    /// The key, if it is the only one and nobody's in name.
    pub fn plain_key(&self) -> Option<&Arc<str>> {
        match (&self.keys, &self.owner) {
            (Keys::One(key), None) => Some(key),
            _ => None,
        }
    }
}
