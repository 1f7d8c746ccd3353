//! The cores of this process: managers with equal connection options share one, whichever thread or copy of the
//! JavaScript half they come from.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Core;
use crate::link::Endpoint;
use crate::store::memory::Memory;
use crate::store::redis::Single;

/// What makes two managers share a core.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The store.
    pub store: Where,
    /// Goes before every key.
    pub prefix: String,
    /// How long a caller waits for the answer to a single command.
    pub patience: std::time::Duration,
}

/// Where locks are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Where {
    /// In a server.
    Server(Endpoint),
    /// In this process, by name.
    Memory(String),
}

fn cores() -> &'static Mutex<HashMap<Options, Arc<Core>>> {
    static CORES: OnceLock<Mutex<HashMap<Options, Arc<Core>>>> = OnceLock::new();
    CORES.get_or_init(Mutex::default)
}

/// The core for these options, with a manager for `listener` in it, which calls it `slot`.
pub fn open(options: &Options, listener: Arc<dyn super::Listener>, slot: u32) -> (Arc<Core>, u32) {
    let mut cores = cores().lock();
    let core = cores.entry(options.clone()).or_insert_with(|| {
        Core::new(options.patience, |core, inbox| match &options.store {
            Where::Memory(name) => Memory::new(name, core, inbox),
            Where::Server(endpoint) => Single::new(endpoint.clone(), &options.prefix, core, inbox),
        })
    });
    // Within the critical section: a core that has a manager isn't swept out.
    let manager = core.join(listener, slot);
    (core.clone(), manager)
}

/// Ends the cores that nobody uses and that have nothing left to give back.
pub(super) fn sweep() {
    let unused: Vec<Arc<Core>> =
        cores().lock().extract_if(|_, core| core.is_unused()).map(|(_, core)| core).collect();
    drop(unused);
}
