//! Locks in one Redis or Valkey server.

mod burst;
mod single;

pub use single::Single;
