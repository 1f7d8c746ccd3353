//! What a server says of its own accord: a connection of its own that listens to one channel, made anew for as long as
//! somebody wants it. Commands and signals never share a socket, since neither must wait for the other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rand::rngs::SmallRng;
use redis::Value;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::connect::{Connection, broken, connect};
use super::{Class, Endpoint, Trouble};
use crate::clock::Time;
use crate::runtime;
use crate::wait::RECONNECT;

/// How long to wait after definite trouble, as the want of a right that may yet be given.
const LONG_REST: Duration = Duration::from_secs(30);

/// Who listens. Called on the runtime thread, with nothing locked.
pub trait Subscriber: Send + Sync + 'static {
    /// The server has confirmed that it will tell us.
    fn subscribed(&self);
    /// It can't any more, or couldn't. Returns whether to go on trying by itself; otherwise the next
    /// [`Subscription::wake`] does.
    fn unsubscribed(&self, trouble: &Trouble) -> bool;
    /// It said something.
    fn message(&self, payload: &[u8]);
    /// Whether somebody waits for messages: then a connection that has died without a sign is found out.
    fn listens(&self) -> bool;
}

/// A supervised subscription. Dropping it ends it.
pub struct Subscription {
    shared: Arc<Shared>,
}

struct Shared {
    endpoint: Endpoint,
    channel: String,
    wanted: Notify,
    ended: Notify,
    /// When something was last heard, in microseconds of the clock.
    heard: AtomicU64,
}

impl Subscription {
    /// A subscription to `channel` that is begun at the first [`wake`](Subscription::wake).
    pub fn new(endpoint: Endpoint, channel: String, subscriber: Weak<dyn Subscriber>) -> Subscription {
        let shared = Arc::new(Shared {
            endpoint,
            channel,
            wanted: Notify::new(),
            ended: Notify::new(),
            heard: AtomicU64::new(0),
        });
        let task = shared.clone();
        runtime::spawn(move || task.clone().supervise(subscriber.clone()));
        Subscription { shared }
    }

    /// Asks for a connection.
    pub fn wake(&self) {
        self.shared.wanted.notify_one();
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.ended.notify_one();
    }
}

impl Shared {
    async fn supervise(self: Arc<Self>, subscriber: Weak<dyn Subscriber>) {
        tokio::select! {
            () = self.ended.notified() => {}
            () = self.connect_again_and_again(&subscriber) => {}
        }
    }

    async fn connect_again_and_again(&self, subscriber: &Weak<dyn Subscriber>) {
        let mut random: SmallRng = rand::make_rng();
        let mut failures = 0;
        let mut wanted = false;
        loop {
            if !wanted {
                self.wanted.notified().await;
            }
            let trouble = match connect(&self.endpoint, Vec::new()).await {
                Ok(connection) => self.listen(connection, subscriber, &mut failures).await,
                Err(trouble) => trouble,
            };
            failures += 1;
            let Some(subscriber) = subscriber.upgrade() else { return };
            wanted = subscriber.unsubscribed(&trouble);
            drop(subscriber);
            match trouble.class() {
                Class::Passing => sleep(RECONNECT.pause(failures, Duration::ZERO, &mut random)).await,
                Class::Definite | Class::WrongType => sleep(LONG_REST).await,
            }
        }
    }

    async fn listen(
        &self,
        mut connection: Connection,
        subscriber: &Weak<dyn Subscriber>,
        failures: &mut u32,
    ) -> Trouble {
        let patience = self.endpoint.patience;
        let mut bytes = Vec::new();
        redis::cmd("SUBSCRIBE").arg(&self.channel).write_packed_command(&mut bytes);
        if let Err(error) = connection.output.send(&bytes).await {
            return Trouble::from_io(&error);
        }
        match timeout(patience, connection.input.read()).await {
            Err(_) => return silent(patience),
            Ok(Err(error)) => return broken(&error),
            Ok(Ok(Value::ServerError(error))) => {
                return Trouble::from_server(error.code(), error.details().unwrap_or(""));
            }
            Ok(Ok(_)) => {}
        }
        *failures = 0;
        self.hear();
        match subscriber.upgrade() {
            Some(subscriber) => subscriber.subscribed(),
            None => return silent(patience),
        }
        let Connection { mut input, mut output } = connection;
        let reading = async {
            loop {
                let value = match input.read().await {
                    Ok(value) => value,
                    Err(error) => return broken(&error),
                };
                self.hear();
                let Some(subscriber) = subscriber.upgrade() else { return silent(patience) };
                if let Value::Array(parts) = &value
                    && let [Value::BulkString(kind), _, Value::BulkString(payload)] = parts.as_slice()
                    && kind == b"message"
                {
                    subscriber.message(payload);
                }
            }
        };
        let pinging = async {
            let ping: &[u8] = b"*1\r\n$4\r\nPING\r\n";
            loop {
                sleep(patience).await;
                let quiet = Time::now().since(Time::from_micros(self.heard.load(Ordering::Relaxed)));
                if quiet < patience || !subscriber.upgrade().is_some_and(|subscriber| subscriber.listens()) {
                    continue;
                }
                if let Err(error) = output.send(ping).await {
                    return Trouble::from_io(&error);
                }
                sleep(patience).await;
                if Time::now().since(Time::from_micros(self.heard.load(Ordering::Relaxed))) > patience * 2 {
                    return silent(patience);
                }
            }
        };
        tokio::select! {
            trouble = reading => trouble,
            trouble = pinging => trouble,
        }
    }

    fn hear(&self) {
        self.heard.store(Time::now().as_micros(), Ordering::Relaxed);
    }
}

fn silent(patience: Duration) -> Trouble {
    Trouble::passing("ETIMEDOUT", format!("no answer to a subscription within {} ms", patience.as_millis()))
}
