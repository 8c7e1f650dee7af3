//! One server: its connection, the limit of each call, and writes that must not be left behind.
//!
//! redis' own `ConnectionManager` makes callers wait for a whole series of retries while a server is down, and stays
//! on a connection that never answers; a lock needs the opposite. So each server has one task that dials, watches
//! and dials again, around a bare `MultiplexedConnection`:
//! - a call never waits for a server that is known to be down, and is never queued for later;
//! - a server that stays silent through two calls is asked no more until it answers a probe;
//! - scripts are idempotent for a token, so a call whose connection breaks is sent again on the next one, within its
//!   limit;
//! - [`Link::settle`] delivers a release although nobody waits for it: on the same connection, behind the write that
//!   it undoes, or on the next.

use crate::answer::{Answer, Failure, Reply, classify, full, reached, read, refuses};
use crate::channels::{Channels, Listening};
use crate::dial::{Connection, Route};
use crate::limit::Limits;
use crate::options::ClientSettings;
use crate::registration::Registration;
use crate::runtime::Process;
use crate::script::Call;
use crate::stats::{Counter, ServerStats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::aio::MultiplexedConnection;
use redis::{ProtocolVersion, RedisError, Value};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Limit for making a connection: TCP, TLS and handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pauses between dials of a server that refuses or closes.
const REDIAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Pause between dials of a server that refuses us for good (password), and between probes of a silent one.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Unanswered calls in a row after which a server counts as silent.
const SILENT_AFTER: u32 = 2;
/// Undelivered releases kept for a server that is down; past that its keys run out by their TTL.
const MAX_SETTLING: usize = 10_000;
/// Calls under way at once on one connection.
const GATE: usize = 512;

/// The seam for I/O: the simulation puts its own servers here.
pub(crate) trait Link: Send + Sync {
    /// `host:port` or a path, for messages.
    fn address(&self) -> &str;
    /// Runs a script within the per-call limit.
    fn run(&self, call: Arc<Call>) -> BoxFuture<'static, Result<Reply, Failure>>;
    /// Runs a script in the background until the server has answered it, at most about `keep` after now.
    fn settle(&self, call: Arc<Call>, keep: Duration);
    /// Ends when nothing is being settled.
    fn settled(&self) -> BoxFuture<'static, ()>;
    /// The round trip of a PING within `limit`, connecting if need be.
    fn ping(&self, limit: Duration) -> BoxFuture<'static, Result<Duration, Failure>>;
    /// Subscribes to a channel for as long as the result lives. Its messages go to the client's [`crate::wait::Wakeups`].
    fn listen(&self, channel: &str) -> Listening;
    /// As [`Link::listen`], if the channel is subscribed already.
    fn join(&self, channel: &str) -> Option<Listening>;
    /// How it has answered so far.
    fn stats(&self) -> ServerStats;
    /// Deletes the client's registration, for good; ends when that is answered.
    fn unregister(&self) -> BoxFuture<'static, ()>;
    /// Lets the connection go once everything sent has been answered.
    fn close(&self);
}

/// A real server.
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    shown: String,
    route: Route,
    limit: Duration,
    runtime: tokio::runtime::Handle,
    limits: &'static Limits,
    state: watch::Sender<State>,
    probe: Notify,
    started: AtomicBool,
    settling: AtomicUsize,
    all_settled: Notify,
    /// Calls that may be under way at once. The rest wait here, where no limit runs: otherwise a burst of calls would
    /// make a healthy server look silent, and then fail, and come again, all together.
    gate: Arc<Semaphore>,
    channels: Arc<Channels>,
    registration: Arc<Registration>,
    calls: Counter,
    failures: Counter,
}

#[derive(Clone)]
enum State {
    /// Being dialled for the first time, or again right after a break: a call may wait for it within its limit.
    Connecting,
    Up(Up),
    Down(Failure),
    Closed,
}

#[derive(Clone)]
struct Up {
    connection: MultiplexedConnection,
    generation: u64,
    /// Calls in a row without an answer.
    unanswered: Arc<AtomicU32>,
    /// Answers so far: a server that answers others is slow, not silent.
    answers: Arc<AtomicU64>,
}

impl Up {
    fn silent(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= SILENT_AFTER
    }

    fn new(connection: MultiplexedConnection, generation: u64) -> Up {
        Up { connection, generation, unanswered: Arc::default(), answers: Arc::default() }
    }

    fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.unanswered.store(0, Ordering::Relaxed);
    }
}

impl Server {
    /// Prepares a link; it connects at the first call.
    pub(crate) fn new(
        route: Route,
        settings: &ClientSettings,
        process: &'static Process,
        registration: Arc<Registration>,
    ) -> Server {
        Server(Arc::new(Inner {
            shown: route.address.place.to_string(),
            route,
            limit: settings.server_timeout,
            runtime: process.handle().clone(),
            limits: &process.limits,
            state: watch::Sender::new(State::Connecting),
            probe: Notify::new(),
            started: AtomicBool::new(false),
            settling: AtomicUsize::new(0),
            all_settled: Notify::new(),
            gate: Arc::new(Semaphore::new(GATE)),
            channels: Arc::default(),
            registration,
            calls: Counter::default(),
            failures: Counter::default(),
        }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

impl Link for Server {
    fn address(&self) -> &str {
        &self.0.shown
    }

    fn run(&self, call: Arc<Call>) -> BoxFuture<'static, Result<Reply, Failure>> {
        let inner = self.0.clone();
        inner.start();
        inner.calls.add(1);
        Box::pin(async move {
            let answer = inner.run(&call).await;
            if answer.is_err() {
                inner.failures.add(1);
            }
            answer
        })
    }

    fn settle(&self, call: Arc<Call>, keep: Duration) {
        let inner = self.0.clone();
        // Taken now: it still serves if the link is closed before the task runs.
        let first = match &*inner.state.borrow() {
            State::Up(up) => Some(up.clone()),
            _ => None,
        };
        if inner.settling.fetch_add(1, Ordering::Relaxed) >= MAX_SETTLING && first.is_none() {
            inner.settling.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        inner.start();
        let runtime = inner.runtime.clone();
        runtime.spawn(async move {
            inner.deliver(&call, first, keep).await;
            if inner.settling.fetch_sub(1, Ordering::AcqRel) == 1 {
                inner.all_settled.notify_waiters();
            }
        });
    }

    fn settled(&self) -> BoxFuture<'static, ()> {
        let inner = self.0.clone();
        Box::pin(async move {
            loop {
                let settled = inner.all_settled.notified();
                if inner.settling.load(Ordering::Acquire) == 0 {
                    return;
                }
                settled.await;
            }
        })
    }

    fn ping(&self, limit: Duration) -> BoxFuture<'static, Result<Duration, Failure>> {
        let inner = self.0.clone();
        inner.start();
        Box::pin(async move { inner.ping(limit).await })
    }

    fn listen(&self, channel: &str) -> Listening {
        self.0.start();
        self.0.channels.listen(channel)
    }

    fn join(&self, channel: &str) -> Option<Listening> {
        self.0.channels.join(channel)
    }

    fn stats(&self) -> ServerStats {
        let Inner { shown, calls, failures, .. } = &*self.0;
        ServerStats { address: shown.clone(), calls: calls.get(), failures: failures.get() }
    }

    fn unregister(&self) -> BoxFuture<'static, ()> {
        let inner = self.0.clone();
        // Taken now: it still serves if the link is closed before this runs.
        let up = match &*inner.state.borrow() {
            State::Up(up) => Some(up.connection.clone()),
            _ => None,
        };
        Box::pin(async move { inner.registration.remove(up).await })
    }

    fn close(&self) {
        self.0.set(State::Closed);
    }
}

impl Inner {
    fn start(self: &Arc<Inner>) {
        if !self.started.swap(true, Ordering::Relaxed) {
            let inner = self.clone();
            self.runtime.spawn(async move { inner.keep_connected().await });
        }
    }

    /// Changes the state and tells those who wait for it. Closed is final.
    fn set(&self, next: State) {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = next;
            }
            open
        });
    }

    /// This connection has broken: until the next is made, calls may wait for it.
    fn broken(&self, up: &Up) {
        self.state.send_if_modified(|state| {
            let current = matches!(state, State::Up(now) if now.generation == up.generation);
            if current {
                *state = State::Connecting;
                self.channels.forget_connection();
            }
            current
        });
    }

    /// A call that began when `answers` had come has had none.
    fn unanswered(&self, up: &Up, answers: u64) {
        if up.answers.load(Ordering::Relaxed) == answers
            && up.unanswered.fetch_add(1, Ordering::Relaxed) + 1 == SILENT_AFTER
        {
            tracing::debug!(target: "quorlock", server = %self.shown, "server is silent: asked no more until it answers a probe");
            self.probe.notify_one();
        }
    }

    /// A connection for a call that ends at `deadline`.
    async fn connection(&self, deadline: Instant) -> Result<Up, Failure> {
        let mut changes = None;
        loop {
            match &*self.state.borrow() {
                State::Up(up) if up.silent() => {
                    return Err(Failure::not_sent("silent: it has left two calls unanswered"));
                }
                State::Up(up) => return Ok(up.clone()),
                State::Down(failure) => return Err(failure.clone()),
                State::Closed => return Err(Failure::not_sent("the client is closed")),
                State::Connecting => {}
            }
            let changes = changes.get_or_insert_with(|| self.state.subscribe());
            // The state may have changed between the look and the subscription.
            if !matches!(*changes.borrow_and_update(), State::Connecting) {
                continue;
            }
            match timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Failure::not_sent("the client is closed")),
                Err(_) => {
                    return Err(Failure::not_sent(format!("not connected within {} ms", self.limit.as_millis())));
                }
            }
        }
    }

    async fn run(&self, call: &Call) -> Result<Reply, Failure> {
        let refused = match &*self.state.borrow() {
            State::Up(up) => up.silent(),
            State::Down(_) | State::Closed => true,
            State::Connecting => false,
        };
        let _permit = if refused { None } else { self.gate.acquire().await.ok() };
        let deadline = Instant::now() + self.limit;
        let mut command = call.evalsha();
        let mut sent = false;
        loop {
            let mut up = match self.connection(deadline).await {
                Ok(up) => up,
                Err(failure) => return Err(Failure { maybe_applied: failure.maybe_applied || sent, ..failure }),
            };
            let answers = up.answers.load(Ordering::Relaxed);
            let answer = { self.limits.until(deadline, up.connection.send_packed_command(&command)).await };
            match answer {
                None => {
                    self.unanswered(&up, answers);
                    return Err(Failure::unanswered(format!("no answer within {} ms", self.limit.as_millis())));
                }
                Some(answer) => match read(answer) {
                    Answer::Items(items) => {
                        up.answered();
                        return Ok(Reply::new(items, sent));
                    }
                    Answer::NoScript => command = call.eval(),
                    Answer::Failed(failure) => {
                        up.answered();
                        return Err(Failure { maybe_applied: sent, ..failure });
                    }
                    Answer::Broken => {
                        sent = true;
                        self.broken(&up);
                    }
                },
            }
        }
    }

    /// Sends `call` until a reply proves that the server has run it. It goes out at once on a connection that is up,
    /// even a silent one: behind the write that it undoes.
    async fn deliver(&self, call: &Call, mut first: Option<Up>, keep: Duration) {
        let command = call.eval();
        let give_up = Instant::now() + keep;
        let mut changes = self.state.subscribe();
        loop {
            let up = match &*changes.borrow_and_update() {
                _ if first.is_some() => first.take(),
                State::Up(up) => Some(up.clone()),
                State::Closed => return,
                State::Connecting | State::Down(_) => None,
            };
            let wait_until = match up {
                None => give_up,
                Some(mut up) => match self.told(&mut up, &command).await {
                    Answer::Broken => {
                        self.broken(&up);
                        give_up
                    }
                    // Loading, busy with a script, read-only for the moment: it has not run.
                    Answer::Failed(failure) if !failure.for_good => give_up.min(Instant::now() + REDIAL.1),
                    _ => return,
                },
            };
            if let Ok(Err(_)) = timeout_at(wait_until, changes.changed()).await {
                return;
            }
            if Instant::now() >= give_up {
                return;
            }
        }
    }

    /// The answer to a command that has no limit.
    async fn told(&self, up: &mut Up, command: &redis::Cmd) -> Answer {
        let answer = read(up.connection.send_packed_command(command).await);
        if !matches!(answer, Answer::Broken) {
            up.answered();
        }
        answer
    }

    async fn ping(&self, limit: Duration) -> Result<Duration, Failure> {
        let deadline = Instant::now() + limit;
        let mut up = self.connection(deadline).await?;
        let sent = Instant::now();
        match timeout_at(deadline, up.connection.send_packed_command(&redis::cmd("PING"))).await {
            Err(_) => Err(Failure::unanswered(format!("no answer within {} ms", limit.as_millis()))),
            Ok(Ok(Value::ServerError(e))) => Err(classify(&RedisError::from(e))),
            Ok(Ok(_)) => Ok(sent.elapsed()),
            Ok(Err(_)) => {
                self.broken(&up);
                Err(Failure::not_sent("the connection broke"))
            }
        }
    }

    /// Dials, watches and dials again until the link is closed.
    async fn keep_connected(self: Arc<Inner>) {
        let mut closed = self.state.subscribe();
        let mut generation = 0;
        let mut pause = REDIAL.0;
        let mut down = false;
        loop {
            let dialled = tokio::select! {
                r = self.dial() => r,
                _ = closed.wait_for(|s| matches!(s, State::Closed)) => return,
            };
            let began = Instant::now();
            match dialled {
                Ok(made) => {
                    if std::mem::take(&mut down) {
                        tracing::info!(target: "quorlock", server = %self.shown, "reached a server again");
                    }
                    generation += 1;
                    if !self.watch(made, &mut generation).await {
                        return;
                    }
                    // One that breaks as soon as it is made is no better than one that refuses.
                    if began.elapsed() > PROBE_EVERY {
                        pause = REDIAL.0;
                        continue;
                    }
                    sleep(pause).await;
                }
                Err(failure) => {
                    let rest = if failure.for_good { PROBE_EVERY } else { pause };
                    if !std::mem::replace(&mut down, true) {
                        tracing::warn!(target: "quorlock", server = %self.shown, cause = %failure.cause, "cannot reach a server");
                    }
                    self.set(State::Down(failure));
                    tokio::select! {
                        _ = sleep(rest) => {}
                        _ = closed.wait_for(|s| matches!(s, State::Closed)) => return,
                    }
                }
            }
            pause = (pause * 2).min(REDIAL.1);
        }
    }

    /// Serves on one connection until it breaks (true) or the link is closed (false). A silent one is probed: by a
    /// PING behind everything that was sent, and once a second by a new connection, which takes over if it answers first.
    async fn watch(
        self: &Arc<Inner>,
        ((connection, driver), protocol): (Connection, ProtocolVersion),
        generation: &mut u64,
    ) -> bool {
        let mut driving = tokio::spawn(Batched::new(driver, &self.gate));
        let mut closed = self.state.subscribe();
        let mut up = Up::new(connection, *generation);
        let mut serving = self.serve(&up, protocol);
        loop {
            tokio::select! {
                _ = &mut driving => {
                    self.broken(&up);
                    return true;
                }
                _ = closed.wait_for(|s| matches!(s, State::Closed)) => return false,
                _ = self.probe.notified() => {}
            }
            let replaced = loop {
                let mut old = up.connection.clone();
                let ping = redis::cmd("PING");
                tokio::select! {
                    _ = &mut driving => {
                        self.broken(&up);
                        return true;
                    }
                    _ = closed.wait_for(|s| matches!(s, State::Closed)) => return false,
                    // A PING that fails has met a broken connection, which ends the driver too.
                    answer = old.send_packed_command(&ping) => if answer.is_ok() { break None },
                    other = async { sleep(PROBE_EVERY).await; self.dial().await } => {
                        if let Ok(other) = other { break Some(other) }
                    }
                }
            };
            match replaced {
                None => up.answered(),
                Some(((connection, driver), protocol)) => {
                    driving.abort();
                    driving = tokio::spawn(Batched::new(driver, &self.gate));
                    *generation += 1;
                    up = Up::new(connection, *generation);
                    serving.abort_all();
                    self.channels.forget_connection();
                    serving = self.serve(&up, protocol);
                }
            }
        }
    }

    /// Lets calls use this connection; keeps the client registered and its channels subscribed on it until the result
    /// is dropped.
    fn serve(self: &Arc<Inner>, up: &Up, protocol: ProtocolVersion) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let (inner, connection, generation) = (self.clone(), up.connection.clone(), up.generation);
        let mut registering = Box::pin(async move { inner.registration.keep(connection, &inner.shown).await });
        // Sent before any call, so that nobody holds a lock unregistered.
        if (&mut registering).now_or_never().is_none() {
            tasks.spawn(registering);
        }
        self.set(State::Up(up.clone()));
        let (inner, connection) = (self.clone(), up.connection.clone());
        tasks.spawn(async move { inner.channels.serve(&connection, protocol, generation).await });
        tasks
    }

    /// A new connection and the protocol that it speaks. Each begins with RESP3, on which wake-ups depend: an accident at
    /// one of them must not settle it for ever.
    async fn dial(&self) -> Result<(Connection, ProtocolVersion), Failure> {
        let attempt = async {
            let mut hung_up = false;
            loop {
                let e = match self.route.connect(ProtocolVersion::RESP3).await {
                    Ok(made) => return Ok((made, ProtocolVersion::RESP3)),
                    Err(e) => e,
                };
                if refuses(&e) || !reached(&e) || full(&e) {
                    return Err(e);
                }
                // Old servers and some proxies know no HELLO, or hang up at it: always, and not only once.
                if e.code().is_none() && !std::mem::replace(&mut hung_up, true) {
                    continue;
                }
                return match self.route.connect(ProtocolVersion::RESP2).await {
                    Ok(made) => Ok((made, ProtocolVersion::RESP2)),
                    Err(second) if second.code().is_some() || refuses(&second) => Err(second),
                    Err(_) => Err(e),
                };
            }
        };
        match timeout(CONNECT_TIMEOUT, attempt).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(e)) => Err(classify(&e)),
            Err(_) => Err(Failure::not_sent(format!("no connection within {} ms", CONNECT_TIMEOUT.as_millis()))),
        }
    }
}

/// A connection's driver that lets the other tasks run first when several calls are under way, so that their commands
/// go out in one write instead of one each: the runtime would otherwise run it right after the first of them.
struct Batched {
    driver: BoxFuture<'static, ()>,
    gate: Arc<Semaphore>,
    yielded: bool,
}

impl Batched {
    fn new(driver: BoxFuture<'static, ()>, gate: &Arc<Semaphore>) -> Batched {
        Batched { driver, gate: gate.clone(), yielded: false }
    }
}

impl Future for Batched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.yielded = !self.yielded && self.gate.available_permits() + 1 < GATE;
        if self.yielded {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.driver.as_mut().poll(cx)
    }
}
