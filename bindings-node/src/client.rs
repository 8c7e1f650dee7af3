//! The client's handle: each verb starts a call that settles on the port.

use crate::error::Failure;
use crate::lease::Lease;
use crate::port::Port;
use crate::stats::Stats;
use napi::bindgen_prelude::{ClassInstance, Either, Either5};
use napi_derive::napi;
use quorlock::bridge::Task;
use quorlock::{Error, LockOptions, Result, Unit, Wait, duration};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the caller gave for a client; milliseconds.
#[napi(object)]
pub struct ClientOptions {
    pub ttl: Option<f64>,
    pub wait: Option<f64>,
    pub label: Option<String>,
    pub server_timeout: Option<f64>,
    pub drift: Option<f64>,
    pub prefix: Option<String>,
    pub exact_keys: Option<bool>,
    pub claim_window: Option<f64>,
    pub ca_file: Option<String>,
    pub client_cert: Option<String>,
    pub client_key: Option<String>,
}

impl TryFrom<ClientOptions> for quorlock::ClientOptions {
    type Error = Error;

    fn try_from(o: ClientOptions) -> Result<quorlock::ClientOptions> {
        Ok(quorlock::ClientOptions {
            ttl: millis("ttl", o.ttl)?,
            wait: wait(o.wait)?,
            label: o.label,
            server_timeout: millis("serverTimeout", o.server_timeout)?,
            drift: o.drift,
            prefix: o.prefix,
            exact_keys: o.exact_keys,
            claim_window: millis("claimWindow", o.claim_window)?,
            ca_file: o.ca_file,
            client_cert: o.client_cert,
            client_key: o.client_key,
            language: Some("node"),
        })
    }
}

/// What one server answered to a ping.
#[napi(object)]
pub struct ServerState {
    /// `host:port` or the socket's path; never the password.
    pub address: String,
    /// Whether it answered.
    pub up: bool,
    /// Milliseconds of the round trip, if it answered.
    pub round_trip: Option<f64>,
    /// Why it did not, if it did not.
    pub cause: Option<String>,
}

impl From<quorlock::ServerStatus> for ServerState {
    fn from(status: quorlock::ServerStatus) -> ServerState {
        ServerState {
            address: status.address,
            up: status.answer.is_ok(),
            round_trip: status.answer.as_ref().ok().map(|round_trip| round_trip.as_secs_f64() * 1000.0),
            cause: status.answer.err(),
        }
    }
}

/// Who holds a lock, as far as it is known.
#[napi(object)]
pub struct Holder {
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub language: Option<String>,
    pub version: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<f64>,
    pub label: Option<String>,
}

/// A lock as the servers see it.
#[napi(object)]
pub struct LockInfo {
    pub held: bool,
    /// Milliseconds.
    pub remaining: f64,
    pub holder: Option<Holder>,
    pub waiters: f64,
    pub fence: Option<f64>,
}

impl From<quorlock::LockInfo> for LockInfo {
    fn from(lock: quorlock::LockInfo) -> LockInfo {
        let since = |since: SystemTime| since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as f64;
        LockInfo {
            held: lock.held,
            remaining: lock.remaining.as_millis() as f64,
            holder: lock.holder.map(|holder| Holder {
                host: holder.host,
                pid: holder.pid,
                language: holder.language,
                version: holder.version,
                since: holder.since.map(since),
                label: holder.label,
            }),
            waiters: lock.waiters as f64,
            fence: lock.fence.map(|fence| fence as f64),
        }
    }
}

/// The handle of a core client.
#[napi]
pub struct Client {
    client: quorlock::Client,
    port: Port,
}

/// Makes a client. No I/O yet.
#[napi(catch_unwind)]
pub fn connect(port: ClassInstance<Port>, urls: Vec<String>, options: ClientOptions) -> Either<Client, Failure> {
    let client = quorlock::ClientOptions::try_from(options).and_then(|o| quorlock::Client::with_options(urls, o));
    match client {
        Ok(client) => Either::A(Client { client, port: Port::clone(&port) }),
        Err(error) => Either::B(error.into()),
    }
}

#[napi]
#[allow(clippy::too_many_arguments, reason = "an object would cost a crossing for each property")]
impl Client {
    /// Starts an acquire. If it is `abortable`, what this gives can end it.
    #[napi(catch_unwind)]
    pub fn acquire(
        &self,
        call: f64,
        abortable: bool,
        name: String,
        ttl: Option<f64>,
        wait: Option<f64>,
        renew: Option<bool>,
        max_hold: Option<f64>,
        label: Option<String>,
    ) -> Option<Attempt> {
        let lock = self.lock(name, ttl, wait, renew, max_hold, label);
        let port = self.port.clone();
        let acquire = async move { lock?.acquire().await };
        let task = self.port.run(call, acquire, move |lease| Some(Either5::A(Lease::new(lease, port))));
        abortable.then_some(Attempt(task))
    }

    /// Starts a single try, which settles with nothing if others hold the lock.
    #[napi(catch_unwind)]
    pub fn try_acquire(
        &self,
        call: f64,
        abortable: bool,
        name: String,
        ttl: Option<f64>,
        renew: Option<bool>,
        max_hold: Option<f64>,
        label: Option<String>,
    ) -> Option<Attempt> {
        let lock = self.lock(name, ttl, None, renew, max_hold, label);
        let port = self.port.clone();
        let attempt = async move { lock?.try_acquire().await };
        let task = self.port.run(call, attempt, move |lease| lease.map(|lease| Either5::A(Lease::new(lease, port))));
        abortable.then_some(Attempt(task))
    }

    /// Starts asking each server for its state.
    #[napi(catch_unwind)]
    pub fn ping(&self, call: f64, timeout: f64) {
        let (client, timeout) = (self.client.clone(), duration("timeout", timeout, Unit::Milliseconds));
        self.port.run(call, async move { client.ping(timeout?).await }, |servers| {
            Some(Either5::D(servers.into_iter().map(Into::into).collect()))
        });
    }

    /// Starts asking who holds a lock.
    #[napi(catch_unwind)]
    pub fn inspect(&self, call: f64, name: String) {
        let client = self.client.clone();
        let inspect = async move { client.inspect(&name).await };
        self.port.run(call, inspect, |lock| Some(Either5::E(lock.into())));
    }

    /// Starts breaking a lock.
    #[napi(catch_unwind)]
    pub fn break_lock(&self, call: f64, name: String) {
        let client = self.client.clone();
        self.port.run(call, async move { client.break_lock(&name).await }, |fence| Some(Either5::C(fence as f64)));
    }

    /// What the client has done so far.
    #[napi(catch_unwind)]
    pub fn stats(&self) -> Stats {
        self.client.stats().into()
    }

    /// Starts closing the client.
    #[napi(catch_unwind)]
    pub fn close(&self, call: f64, drain: Option<f64>) {
        let (client, drain) = (self.client.clone(), millis("drain", drain));
        self.port.run(call, async move { client.close(drain?.unwrap_or_default()).await }, |()| None);
    }
}

impl Client {
    /// The core's client.
    pub fn core(&self) -> quorlock::Client {
        self.client.clone()
    }

    fn lock(
        &self,
        name: String,
        ttl: Option<f64>,
        limit: Option<f64>,
        renew: Option<bool>,
        max_hold: Option<f64>,
        label: Option<String>,
    ) -> Result<quorlock::Lock> {
        let (ttl, wait, max_hold) = (millis("ttl", ttl)?, wait(limit)?, millis("maxHold", max_hold)?);
        self.client.lock_with(name, LockOptions { ttl, wait, renew, max_hold, label })
    }
}

impl Drop for Client {
    /// A call that is under way keeps its client, so this is the end of the client, or of the whole environment: a
    /// worker thread that is terminated while it waits. What nobody waits for any more ends.
    fn drop(&mut self) {
        self.client.interrupt();
    }
}

/// An acquire under way.
#[napi]
pub struct Attempt(Task);

#[napi]
impl Attempt {
    /// Ends it, and undoes what it began. It is not settled then, unless its result is on its way already.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

fn millis(parameter: &str, value: Option<f64>) -> Result<Option<Duration>> {
    value.map(|value| duration(parameter, value, Unit::Milliseconds)).transpose()
}

/// JavaScript's own word for no limit is Infinity.
fn wait(limit: Option<f64>) -> Result<Option<Wait>> {
    Ok(match limit {
        Some(f64::INFINITY) => Some(Wait::Forever),
        limit => millis("wait", limit)?.map(Wait::For),
    })
}
