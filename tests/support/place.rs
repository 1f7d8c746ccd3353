//! Where a test locks: in its own process, or on a server of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use holdfast_core::engine::Outcome;

use crate::process::{ASK, Ask, Process, in_memory, on_server};
use crate::server::Server;

pub const PATIENCE: Duration = Duration::from_secs(2);

pub struct Place {
    server: Option<Server>,
    name: String,
}

impl Place {
    /// Each number is a process of its own.
    pub fn process(&self, number: u64) -> Process {
        let patience = PATIENCE + Duration::from_millis(number);
        match &self.server {
            Some(server) => on_server(server.port(), patience),
            None => in_memory(&self.name, patience),
        }
    }

    /// Nothing is held any more. In memory only a further attempt can tell.
    pub fn is_free(&self, key: &str) -> bool {
        let process = self.process(1_000);
        let call = process.call(key, Ask { once: true, ..ASK });
        matches!(process.outcome(call), Outcome::Granted { .. })
    }
}

/// Does the same in this process and on a server.
pub fn everywhere(test: impl Fn(&Place)) {
    static PLACES: AtomicU32 = AtomicU32::new(0);
    let name = format!("place {}", PLACES.fetch_add(1, Ordering::Relaxed));
    test(&Place { server: None, name });
    test(&Place { server: Some(Server::start()), name: String::new() });
}

/// Any command, past the locks.
pub fn ask<T: redis::FromRedisValue>(connection: &mut redis::Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query(connection).unwrap()
}

pub fn exists(connection: &mut redis::Connection, key: &str) -> bool {
    ask(connection, &["EXISTS", key])
}
