//! Wake-ups: who waits in this process, and the messages that servers send them.
//!
//! Each waiter has a place in the servers' queues under its owner token. All waiters of a client share one channel,
//! `PREFIXwake:UUID`: so a script finds a waiter's channel from its token.

use crate::acquire::release_call;
use crate::client::Shared;
use crate::clock::Moment;
use crate::options::{self, ClientSettings};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// What a waiter on one server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// The lock is ours, with this fence, for as long as a claim may take.
    Granted { fence: u64 },
    /// We are first; look at the lock then.
    Look { at: Moment },
    /// We were given the lock, but this ticket, which is earlier than others, waits for it.
    Inquire { ticket: i64 },
}

/// The messages to one waiter that it has not read yet, by server.
type Mailbox = mpsc::UnboundedSender<(usize, Message)>;

/// All waiters of one client in one process.
pub(crate) struct Wakeups {
    /// The client's channel.
    pub channel: String,
    /// By owner token.
    waiters: Mutex<HashMap<String, Mailbox>>,
    shared: OnceLock<Weak<Shared>>,
    /// Whether it was told that messages do not reach us.
    pub warned: AtomicBool,
}

impl Wakeups {
    pub(crate) fn new(settings: &ClientSettings, uuid: &uuid::Uuid) -> Wakeups {
        Wakeups {
            channel: format!("{}wake:{}", settings.prefix, uuid.simple()),
            waiters: Mutex::default(),
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
        let (mailbox, messages) = mpsc::unbounded_channel();
        self.lock().insert(token.to_owned(), mailbox);
        Waiter { wakeups: self.clone(), token: token.to_owned(), messages }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Mailbox>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message that has come from a server. Quick: it runs where the connection is read.
    pub(crate) fn deliver(&self, server: usize, channel: &[u8], text: &[u8]) {
        if channel != self.channel.as_bytes() {
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
        let mailbox = self.lock().get(token).cloned();
        let Some(shared) = self.shared.get().and_then(Weak::upgrade) else { return };
        let message = match kind {
            "granted" => Message::Granted { fence: number },
            "look" => Message::Look { at: shared.clock.now() + Duration::from_millis(number) },
            "inquire" => Message::Inquire { ticket: i64::try_from(number).unwrap_or(i64::MAX) },
            _ => return,
        };
        if let Some(mailbox) = mailbox {
            // It fails only if the wait ends in this moment, and then gives up its place.
            let _ = mailbox.send((server, message));
        } else if kind == "granted" {
            match shared.lease(|lease| lease.token() == token) {
                // It is complete without this server, and better off with it.
                Some(lease) => lease.claim_more(server),
                // A command that came late has put an ended wait back into the queue: the next one need not wait for it.
                None => {
                    let keys = options::keys_of(key, &shared.settings);
                    let release = release_call(&shared, &keys, token);
                    shared.links[server].settle(Arc::new(release), shared.settings.claim_window);
                }
            }
        }
    }
}

/// A place in [`Wakeups`]: dropping it leaves.
pub(crate) struct Waiter {
    wakeups: Arc<Wakeups>,
    token: String,
    messages: mpsc::UnboundedReceiver<(usize, Message)>,
}

impl Waiter {
    /// Waits for a message; gives the server that sent it, too.
    pub(crate) async fn message(&mut self) -> (usize, Message) {
        match self.messages.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }
}

impl Waiter {
    /// Leaves, and gives the messages that were not read.
    pub(crate) fn unread(&mut self) -> Vec<(usize, Message)> {
        self.wakeups.lock().remove(&self.token);
        std::iter::from_fn(|| self.messages.try_recv().ok()).collect()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.wakeups.lock().remove(&self.token);
    }
}
