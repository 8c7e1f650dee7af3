//! The channels of one server that somebody in this process listens to: subscribed on every connection anew, on the
//! same connection as the commands, so that messages and replies keep their order.

use crate::answer::classify;
use futures_util::future::join_all;
use redis::ProtocolVersion;
use redis::aio::MultiplexedConnection;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// For how long a channel that nobody listens to any more stays subscribed: whoever waits again soon need not wait for
/// the subscription first.
const LINGER: Duration = Duration::from_secs(5);

/// How long to rest without channels.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// What the server said to a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subscription {
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
    state: Arc<State>,
}

/// Not a `watch` channel, which wakes its receivers in no order: waiters should ask in the order of their arrival.
struct State {
    /// Counted with its changes.
    now: Mutex<(u64, Subscription)>,
    changed: Notify,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, (u64, Subscription)> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, next: Subscription) {
        let mut now = self.lock();
        if now.1 != next {
            *now = (now.0 + 1, next);
            self.changed.notify_waiters();
        }
    }
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
    state: Arc<State>,
    seen: u64,
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
            let state = State { now: Mutex::new((0, Subscription::Pending)), changed: Notify::new() };
            Channel { listeners: 0, idle_since: Instant::now(), state: Arc::new(state) }
        });
        self.join_channel(name, channel)
    }

    /// As [`Channels::listen`], if it is subscribed already.
    pub(crate) fn join(self: &Arc<Channels>, name: &str) -> Option<Listening> {
        let mut channels = self.lock();
        let channel = channels.get_mut(name).filter(|channel| matches!(channel.state.lock().1, Subscription::On(_)))?;
        Some(self.join_channel(name, channel))
    }

    fn join_channel(self: &Arc<Channels>, name: &str, channel: &mut Channel) -> Listening {
        channel.listeners += 1;
        Listening { channels: self.clone(), name: name.to_owned(), state: channel.state.clone(), seen: u64::MAX }
    }

    /// Subscribes and unsubscribes on one connection, until it breaks or this is dropped.
    pub(crate) async fn serve(&self, connection: &MultiplexedConnection, protocol: ProtocolVersion, generation: u64) {
        loop {
            let (wanted, idle, next) = self.plan();
            let asked = wanted.into_iter().map(|name| {
                let mut connection = connection.clone();
                async move {
                    let answer = match protocol {
                        ProtocolVersion::RESP2 => Ok(Subscription::Refused("it speaks no RESP3".to_owned())),
                        _ => match connection.subscribe(&name).await {
                            Ok(()) => Ok(Subscription::On(generation)),
                            Err(e) if e.code().is_some() => Ok(Subscription::Refused(classify(&e).cause)),
                            Err(e) => Err(e),
                        },
                    };
                    (answer, name)
                }
            });
            for (answer, name) in join_all(asked).await {
                let Ok(state) = answer else { return };
                if let Some(channel) = self.lock().get(&name) {
                    channel.state.set(state);
                }
            }
            if !idle.is_empty() && connection.clone().unsubscribe(&idle).await.is_err() {
                return;
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// What to subscribe to, what to leave, and when to look again: a channel that is left in the meantime lingers longer.
    fn plan(&self) -> (Vec<String>, Vec<String>, Instant) {
        let now = Instant::now();
        let mut channels = self.lock();
        let rest = if channels.is_empty() { LONG } else { LINGER };
        let (mut wanted, mut idle, mut next) = (Vec::new(), Vec::new(), now + rest);
        channels.retain(|name, channel| {
            let end = channel.idle_since + LINGER;
            let keep = channel.listeners > 0 || end > now;
            if channel.listeners == 0 && keep {
                next = next.min(end);
            }
            match channel.state.lock().1 {
                Subscription::On(_) if !keep => idle.push(name.clone()),
                Subscription::Pending if keep => wanted.push(name.clone()),
                _ => {}
            }
            keep
        });
        (wanted, idle, next)
    }

    /// The connection is gone, and all subscriptions with it.
    pub(crate) fn forget_connection(&self) {
        self.lock().retain(|_, channel| {
            channel.state.set(Subscription::Pending);
            channel.listeners > 0
        });
    }
}

impl Listening {
    /// How it is now; [`Listening::changed`] tells of what comes after this look.
    pub(crate) fn now(&mut self) -> Subscription {
        let now = self.state.lock();
        self.seen = now.0;
        now.1.clone()
    }

    /// How it is now.
    pub(crate) fn peek(&self) -> Subscription {
        self.state.lock().1.clone()
    }

    /// Waits until it changes.
    pub(crate) async fn changed(&self) {
        loop {
            let mut changed = pin!(self.state.changed.notified());
            changed.as_mut().enable();
            if self.state.lock().0 != self.seen {
                return;
            }
            changed.await;
        }
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
