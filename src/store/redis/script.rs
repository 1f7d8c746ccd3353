//! The scripts.

use std::sync::OnceLock;

use redis::{Cmd, Script};

use crate::store::Lock;

/// Which script knows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Locks of one key, nobody's in name: nearly all of them, with a script as short as can be.
    Plain,
    /// Locks of several keys, and those that turns hold together.
    Shared,
}

const PLAIN: &str =
    concat!(include_str!("scripts/lean.lua"), include_str!("scripts/queue.lua"), include_str!("scripts/burst.lua"));
const SHARED: &str = concat!(
    include_str!("scripts/shared.lua"),
    include_str!("scripts/queue.lua"),
    include_str!("scripts/shared-commands.lua")
);

impl Kind {
    pub(super) fn of(lock: &Lock) -> Kind {
        if lock.plain_key().is_some() { Kind::Plain } else { Kind::Shared }
    }

    pub(super) fn source(self) -> &'static str {
        match self {
            Kind::Plain => PLAIN,
            Kind::Shared => SHARED,
        }
    }

    /// What the server knows it by.
    pub(super) fn hash(self) -> &'static str {
        static HASHES: OnceLock<[Script; 2]> = OnceLock::new();
        let [plain, shared] = HASHES.get_or_init(|| [Script::new(PLAIN), Script::new(SHARED)]);
        match self {
            Kind::Plain => plain.get_hash(),
            Kind::Shared => shared.get_hash(),
        }
    }

    /// Commands that make the server know them all.
    pub(super) fn load() -> Vec<Cmd> {
        [PLAIN, SHARED].map(|source| redis::cmd("SCRIPT").arg("LOAD").arg(source).clone()).into()
    }
}
