//! One connection after the other, for as long as somebody wants it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use redis::{Cmd, Value};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::connect::{Connection, Output, broken, connect};
use super::heard::Heard;
use super::wire::{Sink, Wire};
use super::{Class, Endpoint, Trouble};
use crate::clock::Time;
use crate::runtime;
use crate::wait::RECONNECT;

/// Who a link works for. Called on the runtime thread, with nothing locked.
pub trait Owner<T>: Send + Sync + 'static {
    /// Commands to send ahead of all others on each new connection; errors are ignored.
    fn prologue(&self) -> Vec<Cmd>;
    /// A connection was made.
    fn up(&self);
    /// The connection broke, or none could be made. `unanswered` was sent and isn't answered. Returns whether to go
    /// on trying by itself; otherwise the next [`Link::wake`] does.
    fn down(&self, trouble: &Trouble, unanswered: Vec<(T, Time)>) -> bool;
    /// The answer to a command that was handed to the socket at `sent`.
    fn answer(&self, tag: T, sent: Time, value: Value);
}

/// A supervised connection. Dropping it ends it.
pub struct Link<T: Send + 'static> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// The present connection, if there is one.
    wire: Mutex<Option<Wire<T>>>,
    /// Somebody needs a connection.
    wanted: Notify,
    /// The socket was full; the writing task must see to the rest.
    backlog: Notify,
    ended: Notify,
    endpoint: Endpoint,
    /// Commands sent over all connections, the present one excluded.
    sent: AtomicU64,
    connections: AtomicU64,
}

impl<T: Send + 'static> Link<T> {
    /// A link that connects at the first [`wake`](Link::wake).
    pub fn new(endpoint: Endpoint, owner: Weak<dyn Owner<T>>) -> Link<T> {
        let shared = Arc::new(Shared {
            wire: Mutex::new(None),
            wanted: Notify::new(),
            backlog: Notify::new(),
            ended: Notify::new(),
            endpoint,
            sent: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let task = shared.clone();
        runtime::spawn(move || task.clone().supervise(owner.clone()));
        Link { shared }
    }

    /// Where it leads.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// Asks for a connection.
    pub fn wake(&self) {
        self.shared.wanted.notify_one();
    }

    /// Lets `send` add commands and writes them. `false`: there is no connection, and nothing was called.
    pub fn send(&self, send: impl FnOnce(&mut Wire<T>)) -> bool {
        let mut guard = self.shared.wire.lock();
        let Some(wire) = guard.as_mut() else {
            return false;
        };
        send(wire);
        // What is broken is for the writing task to find out, which ends the connection.
        if !matches!(wire.write(), Ok(false)) {
            self.shared.backlog.notify_one();
        }
        true
    }

    /// How many commands were sent, and how many connections were made.
    pub fn counts(&self) -> (u64, u64) {
        let present = self.shared.wire.lock().as_ref().map_or(0, |wire| wire.sent);
        (self.shared.sent.load(Ordering::Relaxed) + present, self.shared.connections.load(Ordering::Relaxed))
    }
}

impl<T: Send + 'static> Drop for Link<T> {
    fn drop(&mut self) {
        self.shared.ended.notify_one();
    }
}

impl<T: Send + 'static> Shared<T> {
    async fn supervise(self: Arc<Self>, owner: Weak<dyn Owner<T>>) {
        tokio::select! {
            () = self.ended.notified() => {}
            () = self.connect_again_and_again(&owner) => {}
        }
        self.wire.lock().take();
    }

    async fn connect_again_and_again(&self, owner: &Weak<dyn Owner<T>>) {
        // Seeded by the system: processes that lose a server together must not come back together.
        let mut random: SmallRng = rand::make_rng();
        let mut failures = 0;
        let mut wanted = false;
        // Left by a run that panicked.
        let left = self.wire.lock().take();
        if let (Some(wire), Some(owner)) = (left, owner.upgrade()) {
            let trouble = Trouble::passing("EINTERNAL", "the connection ended by a defect of this package");
            wanted = owner.down(&trouble, wire.expected.into());
        }
        loop {
            if !wanted {
                self.wanted.notified().await;
            }
            let Some(prologue) = owner.upgrade().map(|owner| owner.prologue()) else {
                return;
            };
            let (trouble, unanswered) = match connect(&self.endpoint, prologue).await {
                Ok(connection) => {
                    failures = 0;
                    self.run(connection, owner).await
                }
                Err(trouble) => (trouble, Vec::new()),
            };
            failures += 1;
            let definite = trouble.class() == Class::Definite;
            let Some(owner) = owner.upgrade() else { return };
            wanted = owner.down(&trouble, unanswered) && !definite;
            drop(owner);
            if wanted {
                sleep(RECONNECT.pause(failures, Duration::ZERO, &mut random)).await;
            }
        }
    }

    /// From connection made to connection broken.
    async fn run(&self, connection: Connection, owner: &Weak<dyn Owner<T>>) -> (Trouble, Vec<(T, Time)>) {
        let Connection { mut input, output: Output { sink, writer } } = connection;
        self.connections.fetch_add(1, Ordering::Relaxed);
        *self.wire.lock() =
            Some(Wire { sink: sink.clone(), unsent: Vec::new(), expected: Default::default(), sent: 0 });
        if let Some(owner) = owner.upgrade() {
            owner.up();
        }
        let heard = input.heard.clone();
        let reading = async {
            loop {
                let value = match input.read().await {
                    Ok(value) => value,
                    Err(error) => return broken(&error),
                };
                let expected = self.wire.lock().as_mut().and_then(|wire| wire.expected.pop_front());
                let (Some((tag, sent)), Some(owner)) = (expected, owner.upgrade()) else {
                    return Trouble::passing("EPROTO", "the server answered something that wasn't asked");
                };
                owner.answer(tag, sent, value);
            }
        };
        let trouble = tokio::select! {
            trouble = reading => trouble,
            trouble = self.watch(&heard) => trouble,
            trouble = self.write_backlog(sink, writer) => trouble,
        };
        let wire = self.wire.lock().take();
        let Some(wire) = wire else {
            return (trouble, Vec::new());
        };
        self.sent.fetch_add(wire.sent, Ordering::Relaxed);
        (trouble, wire.expected.into())
    }

    /// Returns when the server has owed an answer, and said nothing, for too long.
    async fn watch(&self, heard: &Heard) -> Trouble {
        let patience = self.endpoint.patience;
        loop {
            sleep(patience / 8).await;
            let oldest = self.wire.lock().as_ref().and_then(|wire| wire.expected.front().map(|(_, sent)| *sent));
            if oldest.is_some_and(|sent| Time::now().since(sent.max(heard.last())) > patience) {
                return Trouble::passing("ETIMEDOUT", format!("no answer within {} ms", patience.as_millis()));
            }
        }
    }

    /// Writes what senders couldn't write themselves.
    async fn write_backlog(&self, sink: Sink, writer: Option<Box<dyn AsyncWrite + Send + Unpin>>) -> Trouble {
        let result = match writer {
            Some(writer) => self.write_encrypted(writer).await,
            None => self.write_rest(&sink).await,
        };
        match result {
            Err(error) => Trouble::from_io(&error),
            Ok(never) => match never {},
        }
    }

    async fn write_encrypted(
        &self,
        mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    ) -> std::io::Result<std::convert::Infallible> {
        loop {
            self.backlog.notified().await;
            let bytes = self.wire.lock().as_mut().map(|wire| std::mem::take(&mut wire.unsent));
            writer.write_all(&bytes.unwrap_or_default()).await?;
            writer.flush().await?;
        }
    }

    async fn write_rest(&self, sink: &Sink) -> std::io::Result<std::convert::Infallible> {
        loop {
            self.backlog.notified().await;
            loop {
                sink.writable().await?;
                let left = self.wire.lock().as_mut().map_or(Ok(false), Wire::write)?;
                if !left {
                    break;
                }
            }
        }
    }
}
