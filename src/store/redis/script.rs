//! The scripts.

use std::sync::OnceLock;

use redis::{Cmd, Script};

use crate::store::request::Request;
use crate::store::{ValueCommand, ValueOp};

/// Which script knows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Locks of one key, nobody's in name: nearly all of them, with a script as short as can be.
    Plain,
    /// Locks of several keys, and those that turns hold together.
    Shared,
    /// Cached values that are read.
    Read,
    /// Cached values, and the locks of those who load them.
    Value,
}

const PLAIN: &str =
    concat!(include_str!("scripts/lean.lua"), include_str!("scripts/queue.lua"), include_str!("scripts/burst.lua"));
const SHARED: &str = concat!(
    include_str!("scripts/shared.lua"),
    include_str!("scripts/queue.lua"),
    include_str!("scripts/shared-commands.lua")
);
const READ: &str = include_str!("scripts/read.lua");
const VALUE: &str = concat!(
    include_str!("scripts/value.lua"),
    include_str!("scripts/queue.lua"),
    include_str!("scripts/value-commands.lua")
);

impl Kind {
    pub(super) fn of(request: &Request) -> Kind {
        match request {
            Request::Lock(command) if command.lock.plain_key().is_some() => Kind::Plain,
            Request::Lock(_) => Kind::Shared,
            Request::Value(ValueCommand { op: ValueOp::Read, .. }) => Kind::Read,
            Request::Value(_) => Kind::Value,
        }
    }

    pub(super) fn source(self) -> &'static str {
        match self {
            Kind::Plain => PLAIN,
            Kind::Shared => SHARED,
            Kind::Read => READ,
            Kind::Value => VALUE,
        }
    }

    /// What the server knows it by.
    pub(super) fn hash(self) -> &'static str {
        static HASHES: OnceLock<[Script; 4]> = OnceLock::new();
        let [plain, shared, read, value] = HASHES.get_or_init(|| [PLAIN, SHARED, READ, VALUE].map(Script::new));
        match self {
            Kind::Plain => plain.get_hash(),
            Kind::Shared => shared.get_hash(),
            Kind::Read => read.get_hash(),
            Kind::Value => value.get_hash(),
        }
    }

    /// Commands that make the server know them all.
    pub(super) fn load() -> Vec<Cmd> {
        [PLAIN, SHARED, READ, VALUE].map(|source| redis::cmd("SCRIPT").arg("LOAD").arg(source).clone()).into()
    }
}
