//! The sending side of a connection, shared by every thread that has something to send.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::net::tcp;
#[cfg(unix)]
use tokio::net::unix;

use crate::clock::Time;

/// Where bytes go.
#[derive(Clone)]
pub(super) enum Sink {
    /// Written by whoever has something to write, without waking another thread.
    Tcp(Arc<tcp::OwnedWriteHalf>),
    #[cfg(unix)]
    Unix(Arc<unix::OwnedWriteHalf>),
    /// Written by a task, because encryption has a state of its own.
    Task,
}

impl Sink {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Tcp(half) => half.try_write(bytes),
            #[cfg(unix)]
            Sink::Unix(half) => half.try_write(bytes),
            Sink::Task => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// What was handed to the socket, or soon will be, in order; one mutex around it fixes the order on the wire.
pub struct Wire<T> {
    pub(super) sink: Sink,
    pub(super) unsent: Vec<u8>,
    pub(super) expected: VecDeque<(T, Time)>,
    pub(super) sent: u64,
}

impl<T> Wire<T> {
    /// Adds a command; `encode` appends its bytes. It counts as sent now.
    pub fn push(&mut self, tag: T, now: Time, encode: impl FnOnce(&T, &mut Vec<u8>)) {
        encode(&tag, &mut self.unsent);
        self.expected.push_back((tag, now));
        self.sent += 1;
    }

    /// Writes what the socket takes at once. `true`: something is left for the writing task.
    ///
    /// # Errors
    /// The socket is broken.
    pub(super) fn write(&mut self) -> io::Result<bool> {
        let mut written = 0;
        let result = loop {
            let rest = self.unsent.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(false);
            }
            match self.sink.try_write(rest) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(true),
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..written);
        result
    }
}
