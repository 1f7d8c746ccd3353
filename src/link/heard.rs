//! When something last came on a connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::clock::Time;

/// The instant at which the last bytes came. An answer that takes long to arrive isn't one that doesn't come.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<AtomicU64>);

impl Heard {
    pub(super) fn last(&self) -> Time {
        Time::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// A reader that notes when something comes.
    pub(super) fn note(&self, reader: Box<dyn AsyncRead + Send + Unpin>) -> Noting {
        Noting { reader, heard: self.clone() }
    }
}

pub(super) struct Noting {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    heard: Heard,
}

impl AsyncRead for Noting {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        if read.is_ready() {
            self.heard.0.store(Time::now().as_micros(), Ordering::Relaxed);
        }
        read
    }
}
