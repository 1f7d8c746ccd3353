//! What a store says, kept for whoever wants to read it.

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use holdfast_core::store::{Inbox, News, Replies, Reply, Signal, Store, Trouble, ValueNews, ValueReply, ValueSignal};

const LONG: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Letters {
    told: Mutex<Told>,
    bell: Condvar,
}

#[derive(Default)]
pub struct Told {
    up: bool,
    /// Signals come.
    able: bool,
    pub replies: Vec<Reply>,
    /// What signals said: the token, the key, whether others wait if it is a grant.
    pub signals: Vec<(String, String, Option<bool>)>,
    pub values: Vec<ValueReply>,
    pub value_signals: Vec<(String, ValueNews)>,
}

impl Letters {
    pub fn wait<T>(&self, mut pick: impl FnMut(&mut Told) -> Option<T>) -> T {
        let until = Instant::now() + LONG;
        let mut told = self.told.lock().unwrap();
        loop {
            if let Some(picked) = pick(&mut told) {
                return picked;
            }
            let left = until.checked_duration_since(Instant::now()).expect("no answer");
            told = self.bell.wait_timeout(told, left).unwrap().0;
        }
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap());
        self.bell.notify_all();
    }
}

impl Inbox for Letters {
    fn replies(&self, replies: Replies) {
        self.change(|told| {
            told.replies.extend(replies.locks);
            told.values.extend(replies.values);
        });
    }

    fn up(&self) {
        self.change(|told| told.up = true);
    }

    fn signal(&self, Signal { key, token, news }: Signal) {
        let more = if let News::Granted(push) = news { Some(push.more) } else { None };
        self.change(|told| told.signals.push((token.to_string(), key.to_string(), more)));
    }

    fn value_signal(&self, ValueSignal { key, news }: ValueSignal) {
        self.change(|told| told.value_signals.push((key.to_string(), news)));
    }

    fn told(&self, able: Result<(), &Trouble>) {
        self.change(|told| told.able = able.is_ok());
    }

    fn down(&self, trouble: &Trouble) {
        panic!("no connection: {trouble:?}");
    }

    fn wanted(&self) -> bool {
        true
    }
}

/// A store that says what it says to these letters, connected.
pub fn open(store: impl FnOnce(Weak<dyn Inbox>) -> Arc<dyn Store>) -> (Arc<dyn Store>, Arc<Letters>) {
    let letters = Arc::new(Letters::default());
    let inbox: Weak<Letters> = Arc::downgrade(&letters);
    let store = store(inbox);
    if !store.always_up() {
        store.wake();
        letters.wait(|told| (told.up && told.able).then_some(()));
    }
    (store, letters)
}
