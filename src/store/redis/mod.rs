//! Locks in one Redis or Valkey server.

mod burst;
mod script;
mod shared;
mod signal;
mod single;
mod values;

pub use single::Single;
