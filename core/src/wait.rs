//! Wake-ups: who waits in this process, and the messages that servers send them.
//!
//! On one server each waiter has a place in the server's queue under its owner token, and all waiters of a client share
//! one channel, `PREFIXwake:UUID`. On a quorum a waiter listens to the channel on which each server says that it is free.

use crate::acquire::release_call;
use crate::client::Shared;
use crate::clock::Moment;
use crate::options::{self, ClientSettings};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// What a waiter on one server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The lock is ours, with this fence, for as long as a claim may take.
    Granted { fence: u64 },
    /// We are first; look at the lock then.
    Look { at: Moment },
}

/// The last message to one waiter.
#[derive(Default)]
pub(crate) struct Mailbox {
    message: Mutex<Option<Message>>,
    arrived: Notify,
}

/// The servers that have become free since the last round.
#[derive(Default)]
pub(crate) struct Freed {
    servers: Mutex<Vec<bool>>,
    changed: Notify,
}

/// All waiters of one client in one process.
pub(crate) struct Wakeups {
    /// The client's channel on a single server.
    pub channel: String,
    /// By owner token.
    waiters: Mutex<HashMap<String, Arc<Mailbox>>>,
    /// By channel.
    freed: Mutex<HashMap<String, Weak<Freed>>>,
    shared: OnceLock<Weak<Shared>>,
    /// Whether it was told that messages do not reach us.
    pub warned: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wakeups {
    pub(crate) fn new(settings: &ClientSettings, uuid: &uuid::Uuid) -> Wakeups {
        Wakeups {
            channel: format!("{}wake:{}", settings.prefix, uuid.simple()),
            waiters: Mutex::default(),
            freed: Mutex::default(),
            shared: OnceLock::new(),
            warned: AtomicBool::new(false),
        }
    }

    /// Whom to act for when a grant comes for a wait that has ended.
    pub(crate) fn serve(&self, shared: &Arc<Shared>) {
        let _ = self.shared.set(Arc::downgrade(shared));
    }

    /// Makes `token` known until the result is dropped.
    pub(crate) fn enter(self: &Arc<Wakeups>, token: &str) -> Waiter {
        let mailbox = Arc::<Mailbox>::default();
        lock(&self.waiters).insert(token.to_owned(), mailbox.clone());
        Waiter { wakeups: self.clone(), token: token.to_owned(), mailbox }
    }

    /// Collects which servers say on `channel` that they are free.
    pub(crate) fn watch_free(&self, channel: &str, servers: usize) -> Arc<Freed> {
        let mut all = lock(&self.freed);
        all.retain(|_, freed| freed.strong_count() > 0);
        if let Some(freed) = all.get(channel).and_then(Weak::upgrade) {
            return freed;
        }
        let freed = Arc::new(Freed { servers: Mutex::new(vec![false; servers]), changed: Notify::new() });
        all.insert(channel.to_owned(), Arc::downgrade(&freed));
        freed
    }

    /// Takes a message that has come from a server. Quick: it runs where the connection is read.
    pub(crate) fn deliver(&self, server: usize, channel: &[u8], text: &[u8]) {
        let Ok(channel) = std::str::from_utf8(channel) else { return };
        if channel != self.channel {
            let freed = lock(&self.freed).get(channel).and_then(Weak::upgrade);
            if let Some(freed) = freed {
                freed.note(server);
            }
            return;
        }
        // KIND TOKEN NUMBER KEY: only the key may have spaces.
        let Ok(text) = std::str::from_utf8(text) else { return };
        let mut words = text.splitn(4, ' ');
        let (Some(kind), Some(token), Some(Ok(number)), Some(key)) =
            (words.next(), words.next(), words.next().map(str::parse::<u64>), words.next())
        else {
            return;
        };
        let mailbox = lock(&self.waiters).get(token).cloned();
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
        match (kind, mailbox) {
            ("granted", Some(mailbox)) => mailbox.put(Message::Granted { fence: number }),
            ("look", Some(mailbox)) => {
                mailbox.put(Message::Look { at: shared.clock.now() + Duration::from_millis(number) });
            }
            // A command that came late has put an ended wait back into the queue: the next one need not wait for it.
            ("granted", None) if !shared.holds(|lease| lease.token() == token) => {
                let keys = options::keys_of(key, &shared.settings);
                shared.links[server]
                    .settle(Arc::new(release_call(&shared, &keys, token)), shared.settings.claim_window);
            }
            _ => {}
        }
    }
}

/// A place in [`Wakeups`]: dropping it leaves.
pub(crate) struct Waiter {
    wakeups: Arc<Wakeups>,
    token: String,
    mailbox: Arc<Mailbox>,
}

impl Waiter {
    /// Waits for a message.
    pub(crate) async fn message(&self) -> Message {
        loop {
            if let Some(message) = lock(&self.mailbox.message).take() {
                return message;
            }
            self.mailbox.arrived.notified().await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        lock(&self.wakeups.waiters).remove(&self.token);
    }
}

impl Mailbox {
    fn put(&self, message: Message) {
        let mut last = lock(&self.message);
        // What has been granted stays granted.
        if !matches!(*last, Some(Message::Granted { .. })) || matches!(message, Message::Granted { .. }) {
            *last = Some(message);
        }
        drop(last);
        self.arrived.notify_one();
    }
}

impl Freed {
    fn note(&self, server: usize) {
        lock(&self.servers)[server] = true;
        self.changed.notify_one();
    }

    /// Begins to count anew.
    pub(crate) fn reset(&self) {
        lock(&self.servers).fill(false);
    }

    /// Waits until so many servers have become free.
    pub(crate) async fn enough(&self, need: usize) {
        while lock(&self.servers).iter().filter(|freed| **freed).count() < need {
            self.changed.notified().await;
        }
    }
}
