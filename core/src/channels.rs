//! The channels of one server that somebody in this process listens to: subscribed on every connection anew, on the
//! same connection as the commands, so that messages and replies keep their order.

use crate::answer::classify;
use futures_util::future::join_all;
use redis::ProtocolVersion;
use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// For how long a channel that nobody listens to any more stays subscribed: whoever waits again soon need not wait for
/// the subscription first.
const LINGER: Duration = Duration::from_secs(5);

/// What the server said to a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Asked, or to be asked on the next connection.
    Pending,
    /// Confirmed on this connection.
    On(u64),
    /// It said no, on this connection: rights, or no RESP3.
    Refused(String),
}

struct Channel {
    listeners: usize,
    idle_since: Instant,
    state: watch::Sender<State>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Channels {
    channels: Mutex<HashMap<String, Channel>>,
    changed: Notify,
}

/// Keeps a channel subscribed as long as it lives.
pub(crate) struct Listening {
    channels: Arc<Channels>,
    name: String,
    state: watch::Receiver<State>,
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a channel, unless it is subscribed already.
    pub(crate) fn listen(self: &Arc<Channels>, name: &str) -> Listening {
        let mut channels = self.lock();
        let channel = channels.entry(name.to_owned()).or_insert_with(|| {
            self.changed.notify_one();
            Channel { listeners: 0, idle_since: Instant::now(), state: watch::Sender::new(State::Pending) }
        });
        channel.listeners += 1;
        Listening { channels: self.clone(), name: name.to_owned(), state: channel.state.subscribe() }
    }

    /// As [`Channels::listen`], if it is subscribed already.
    pub(crate) fn join(self: &Arc<Channels>, name: &str) -> Option<Listening> {
        let mut channels = self.lock();
        let channel = channels.get_mut(name).filter(|channel| matches!(*channel.state.borrow(), State::On(_)))?;
        channel.listeners += 1;
        Some(Listening { channels: self.clone(), name: name.to_owned(), state: channel.state.subscribe() })
    }

    /// Subscribes and unsubscribes on one connection, until it breaks or this is dropped.
    pub(crate) async fn serve(&self, connection: &MultiplexedConnection, protocol: ProtocolVersion, generation: u64) {
        loop {
            let (wanted, idle) = self.plan();
            let asked = wanted.into_iter().map(|name| {
                let mut connection = connection.clone();
                async move {
                    let answer = match protocol {
                        ProtocolVersion::RESP2 => Ok(State::Refused("it speaks no RESP3".to_owned())),
                        _ => match connection.subscribe(&name).await {
                            Ok(()) => Ok(State::On(generation)),
                            Err(e) if e.code().is_some() => Ok(State::Refused(classify(&e).cause)),
                            Err(e) => Err(e),
                        },
                    };
                    (answer, name)
                }
            });
            for (answer, name) in join_all(asked).await {
                let Ok(state) = answer else { return };
                if let Some(channel) = self.lock().get(&name) {
                    channel.state.send_replace(state);
                }
            }
            if !idle.is_empty() && connection.clone().unsubscribe(&idle).await.is_err() {
                return;
            }
            if self.lock().is_empty() {
                self.changed.notified().await;
            } else {
                let _ = timeout(LINGER, self.changed.notified()).await;
            }
        }
    }

    /// What to subscribe to and what to leave.
    fn plan(&self) -> (Vec<String>, Vec<String>) {
        let now = Instant::now();
        let (mut wanted, mut idle) = (Vec::new(), Vec::new());
        self.lock().retain(|name, channel| {
            let keep = channel.listeners > 0 || channel.idle_since + LINGER > now;
            match *channel.state.borrow() {
                State::On(_) if !keep => idle.push(name.clone()),
                State::Pending if keep => wanted.push(name.clone()),
                _ => {}
            }
            keep
        });
        (wanted, idle)
    }

    /// The connection is gone, and all subscriptions with it.
    pub(crate) fn forget_connection(&self) {
        self.lock().retain(|_, channel| {
            channel.state.send_if_modified(|state| std::mem::replace(state, State::Pending) != State::Pending);
            channel.listeners > 0
        });
    }
}

impl Listening {
    /// Waits until the server has confirmed the subscription: on which connection; or why it refuses.
    pub(crate) async fn ready(&mut self) -> Result<u64, String> {
        loop {
            match &*self.state.borrow_and_update() {
                State::On(generation) => return Ok(*generation),
                State::Refused(cause) => return Err(cause.clone()),
                State::Pending => {}
            }
            if self.state.changed().await.is_err() {
                return Err("the client is closed".to_owned());
            }
        }
    }

    /// Waits until the subscription on this connection is over.
    pub(crate) async fn over(&mut self, generation: u64) {
        while *self.state.borrow_and_update() == State::On(generation) && self.state.changed().await.is_ok() {}
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get_mut(&self.name) {
            channel.listeners -= 1;
            channel.idle_since = Instant::now();
        }
    }
}
