//! Sockets to one server: a supervised connection that says when it is up and when it is down.
//!
//! The sockets are our own and not those of the `redis` crate, which encodes and parses here: a command must be
//! dated by the instant just before it is handed to the socket, may be written by the thread that has it (one
//! wake-up less on the way), and must never be repeated behind our back.

mod connect;
mod endpoint;
mod heard;

mod subscription;
mod supervise;
mod tls;
mod trouble;
mod wire;

pub use endpoint::{Endpoint, Place, TlsSettings};
pub use subscription::{Subscriber, Subscription};
pub use supervise::{Link, Owner};
pub use trouble::{Class, Trouble};
pub use wire::Wire;
