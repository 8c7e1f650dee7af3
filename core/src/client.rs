//! The client: its servers, and the entry to every verb.
//!
//! A [`Client`] outlives a fork, its connections and leases do not: what belongs to one process is in [`Shared`],
//! made at the first use in each process.

use crate::address::Address;
use crate::clock::{Clock, SystemClock};
use crate::dial::Route;
use crate::error::{Error, ErrorKind, Result};
use crate::hold::Hold;
use crate::lease::LostReason;
use crate::lock::Lock;
use crate::options::{self, ClientOptions, ClientSettings, LockOptions};
use crate::registration::Registration;
use crate::runtime::{self, PerProcess, Process};
use crate::server::{Link, Server};
use crate::stats::Counters;
use crate::token::{Rng, SystemRng};
use crate::turns::Turns;
use crate::wait::Wakeups;
use futures_util::future::{join, join_all};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// Its servers, and the entry to every verb. Cheap to clone; clones share everything.
///
/// It may be made before a fork and used in parent and child: each process has its own connections.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

struct ClientInner {
    addresses: Vec<Address>,
    pub settings: Arc<ClientSettings>,
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsConnector>,
    shared: PerProcess<Shared>,
    closed: AtomicBool,
}

/// What a client has in one process: connections, leases, waiters.
pub(crate) struct Shared {
    pub settings: Arc<ClientSettings>,
    pub links: Vec<Arc<dyn Link>>,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub counters: Counters,
    /// Names this client instance: in tokens, in its wake-up channel and in its registration.
    pub uuid: uuid::Uuid,
    pub pid: u32,
    pub process: &'static Process,
    pub runtime: tokio::runtime::Handle,
    /// Who wants to take which lock now.
    pub turns: Turns,
    /// Who waits for messages of the servers.
    pub wakeups: Arc<Wakeups>,
    /// Ends the waits of the moment.
    pub interrupted: Notify,
    interrupt: Interrupt,
    interrupts: AtomicU64,
    closing: tokio::sync::watch::Sender<bool>,
    leases: Mutex<HashMap<u64, Weak<Hold>>>,
    lease_gone: Notify,
    acquiring: AtomicUsize,
    next_lease: AtomicU64,
}

/// What one server answered to [`Client::ping`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// `host:port` or the socket's path; never the password.
    pub address: String,
    /// The round trip, or why there was none.
    pub answer: std::result::Result<Duration, String>,
}

/// One URL or several.
pub trait IntoUrls {
    /// The URLs, in order.
    fn into_urls(self) -> Vec<String>;
}

impl IntoUrls for &str {
    fn into_urls(self) -> Vec<String> {
        vec![self.to_owned()]
    }
}

impl IntoUrls for String {
    fn into_urls(self) -> Vec<String> {
        vec![self]
    }
}

impl IntoUrls for &String {
    fn into_urls(self) -> Vec<String> {
        vec![self.clone()]
    }
}

impl<S: Into<String>> IntoUrls for Vec<S> {
    fn into_urls(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<S: Into<String>, const N: usize> IntoUrls for [S; N] {
    fn into_urls(self) -> Vec<String> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<S: AsRef<str>> IntoUrls for &[S] {
    fn into_urls(self) -> Vec<String> {
        self.iter().map(|s| s.as_ref().to_owned()).collect()
    }
}

impl Client {
    /// A client of one server (one URL) or of a quorum of independent servers (several). No I/O yet: servers may be
    /// down, now and later.
    ///
    /// # Errors
    /// Invalid: no URL, a URL that is none, or the same address twice.
    pub fn new(urls: impl IntoUrls) -> Result<Client> {
        Client::with_options(urls, ClientOptions::default())
    }

    /// As [`Client::new`], with options.
    ///
    /// # Errors
    /// Invalid, naming the option and its value.
    pub fn with_options(urls: impl IntoUrls, options: ClientOptions) -> Result<Client> {
        let settings = options.resolve()?;
        let urls = urls.into_urls();
        if urls.is_empty() {
            return Err(Error::invalid("urls", "[]", "at least one server is needed"));
        }
        let addresses = urls.iter().map(|u| Address::parse(u)).collect::<Result<Vec<_>>>()?;
        for (i, a) in addresses.iter().enumerate() {
            if addresses[..i].iter().any(|b| b.place.same_server(&a.place)) {
                return Err(Error::invalid("urls", &a.place, "is given twice; a quorum needs independent servers"));
            }
        }
        #[cfg(feature = "tls")]
        let tls = addresses.iter().any(Address::tls).then(|| crate::tls::connector(&settings)).transpose()?;
        Ok(Client {
            inner: Arc::new(ClientInner {
                addresses,
                settings: Arc::new(settings),
                #[cfg(feature = "tls")]
                tls,
                shared: PerProcess::new(),
                closed: AtomicBool::new(false),
            }),
        })
    }

    /// Names a lock. A wrong name or option shows when it is acquired.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock::new(self.clone(), name.into(), LockOptions::default())
    }

    /// Names a lock with its options in one struct (the form of the bindings), and checks both.
    ///
    /// # Errors
    /// Invalid, naming the option and its value.
    pub fn lock_with(&self, name: impl Into<String>, options: LockOptions) -> Result<Lock> {
        let lock = Lock::new(self.clone(), name.into(), options);
        lock.check()?;
        Ok(lock)
    }

    /// Each server's state: a readiness probe. Takes at most `timeout`.
    ///
    /// # Errors
    /// Closed; Invalid if `timeout` is over a year. A server that does not answer is no error, but says so in its status.
    pub async fn ping(&self, timeout: Duration) -> Result<Vec<ServerStatus>> {
        options::check_duration("timeout", timeout)?;
        let shared = self.shared()?.clone();
        runtime::run(Box::pin(async move {
            let pings = shared.links.iter().map(|link| async {
                ServerStatus {
                    address: link.address().to_owned(),
                    answer: link.ping(timeout).await.map_err(|failure| failure.cause),
                }
            });
            Ok(join_all(pings).await)
        }))
        .await
    }

    /// Refuses new calls, ends waits (they fail with Closed), waits up to `drain` for holders to finish, then signals
    /// lost(closed) to those left, then releases them. A second call has nothing left to do.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the closing.
    pub async fn close(&self, drain: Duration) -> Result<()> {
        let Some(shared) = self.shut() else { return Ok(()) };
        runtime::run_to_end(Box::pin(async move {
            shared.close(drain.min(options::MAX_DURATION)).await;
            Ok(())
        }))
        .await
    }

    /// Ends the waits of the moment with Cancelled. Async-signal-safe.
    pub fn interrupt(&self) {
        if let Some(shared) = self.used() {
            shared.interrupts.fetch_add(1, Ordering::AcqRel);
            shared.interrupt.raise();
        }
    }

    /// The servers' addresses, without user and password.
    pub fn addresses(&self) -> Vec<String> {
        self.inner.addresses.iter().map(|a| a.place.to_string()).collect()
    }

    /// Whether [`Client::close`] was called.
    pub fn closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// Refuses new calls; gives what there is to close in this process.
    pub(crate) fn shut(&self) -> Option<Arc<Shared>> {
        self.inner.closed.store(true, Ordering::Release);
        self.used().cloned()
    }

    /// This process's state, if there is one.
    pub(crate) fn used(&self) -> Option<&Arc<Shared>> {
        self.inner.shared.get()
    }

    pub(crate) fn settings(&self) -> &ClientSettings {
        &self.inner.settings
    }

    /// This process's state, made now if need be.
    pub(crate) fn shared(&self) -> Result<&Arc<Shared>> {
        if self.closed() {
            return Err(closed());
        }
        self.inner.shared.get_or_init(|| self.inner.connect())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("servers", &self.addresses()).field("closed", &self.closed()).finish()
    }
}

impl ClientInner {
    fn connect(&self) -> Result<Arc<Shared>> {
        let process = runtime::process()?;
        let runtime = process.handle().clone();
        let uuid = uuid::Uuid::new_v4();
        let registration = Arc::new(Registration::new(&self.settings, &uuid, SystemClock.wall_us()));
        let wakeups = Arc::new(Wakeups::new(&self.settings, &uuid));
        let links = self.addresses.iter().enumerate().map(|(i, address)| {
            let wakeups = wakeups.clone();
            let route = Route {
                address: address.clone(),
                on_message: Arc::new(move |channel, text| wakeups.deliver(i, channel, text)),
                #[cfg(feature = "tls")]
                tls: self.tls.clone().filter(|_| address.tls()),
            };
            Arc::new(Server::new(route, &self.settings, process, registration.clone())) as Arc<dyn Link>
        });
        let links = links.collect();
        let shared = Arc::new(Shared {
            settings: self.settings.clone(),
            links,
            clock: Arc::new(SystemClock),
            rng: Arc::new(SystemRng),
            counters: Counters::default(),
            uuid,
            pid: std::process::id(),
            process,
            runtime,
            turns: Turns::default(),
            wakeups: wakeups.clone(),
            interrupted: Notify::new(),
            interrupt: Interrupt::new(),
            interrupts: AtomicU64::new(0),
            closing: tokio::sync::watch::Sender::new(false),
            leases: Mutex::default(),
            lease_gone: Notify::new(),
            acquiring: AtomicUsize::new(0),
            next_lease: AtomicU64::new(0),
        });
        if !process.register(&shared) {
            return Err(Error::new(ErrorKind::Closed, "the interpreter is ending"));
        }
        shared.wakeups.serve(&shared);
        Interrupt::listen(&shared);
        Ok(shared)
    }
}

impl Shared {
    /// Ends when the client begins to close.
    pub(crate) async fn closing(&self) {
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<u64, Weak<Hold>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, make: impl FnOnce(u64) -> Arc<Hold>) -> Arc<Hold> {
        let id = self.next_lease.fetch_add(1, Ordering::Relaxed);
        let inner = make(id);
        self.leases().insert(id, Arc::downgrade(&inner));
        inner
    }

    pub(crate) fn forget(&self, id: u64) {
        self.leases().remove(&id);
        self.lease_gone.notify_waiters();
    }

    /// How many times [`Client::interrupt`] was called in this process.
    pub(crate) fn interrupts(&self) -> u64 {
        self.interrupts.load(Ordering::Acquire)
    }

    /// A lease of this process.
    pub(crate) fn lease(&self, is: impl Fn(&Hold) -> bool) -> Option<Arc<Hold>> {
        // Not in one expression: the last reference to a lease may be dropped here, which needs the list.
        let leases: Vec<_> = self.leases().values().filter_map(Weak::upgrade).collect();
        leases.into_iter().find(|lease| is(lease))
    }

    /// See [`Client::close`].
    pub(crate) async fn close(&self, drain: Duration) {
        self.closing.send_replace(true);
        let all_gone = || async {
            loop {
                let gone = self.lease_gone.notified();
                if self.leases().is_empty() && self.acquiring.load(Ordering::Acquire) == 0 {
                    break;
                }
                gone.await;
            }
        };
        if !drain.is_zero() {
            let _ = tokio::time::timeout(drain, all_gone()).await;
        }
        // Not in one expression: a lost lease is forgotten, which needs the list.
        let leases: Vec<_> = self.leases().values().filter_map(Weak::upgrade).collect();
        let left: Vec<_> = leases.into_iter().filter(|lease| lease.lose(LostReason::Closed)).collect();
        join_all(left.iter().map(|lease| lease.free())).await;
        // What is being released or undone now is given the time that one call to a server may take.
        let undone = async {
            all_gone().await;
            join_all(self.links.iter().map(|link| link.settled())).await;
        };
        let unregistered = join_all(self.links.iter().map(|link| link.unregister()));
        let _ = tokio::time::timeout(self.settings.server_timeout, join(undone, unregistered)).await;
        for link in &self.links {
            link.close();
        }
    }

    /// Counts an acquire as long as it lives, so that closing can wait for its undoing.
    pub(crate) fn acquiring(&self) -> Acquiring<'_> {
        self.acquiring.fetch_add(1, Ordering::AcqRel);
        Acquiring(self)
    }
}

/// See [`Shared::acquiring`].
pub(crate) struct Acquiring<'a>(&'a Shared);

impl Drop for Acquiring<'_> {
    fn drop(&mut self) {
        self.0.acquiring.fetch_sub(1, Ordering::AcqRel);
        if self.0.is_closing() {
            self.0.lease_gone.notify_waiters();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child nothing of the parent's may be touched; there it is never dropped, only leaked.
        for link in &self.links {
            self.runtime.spawn(link.unregister());
            link.close();
        }
        self.interrupt.raise();
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the client is closed")
}

/// A flag that a signal handler may raise: it only writes to a descriptor, which a task of the runtime reads.
#[cfg(target_os = "linux")]
pub(crate) struct Interrupt(Option<Arc<rustix::fd::OwnedFd>>);

#[cfg(target_os = "linux")]
impl Interrupt {
    fn new() -> Interrupt {
        use rustix::event::{EventfdFlags, eventfd};
        Interrupt(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok().map(Arc::new))
    }

    fn raise(&self) {
        if let Some(fd) = &self.0 {
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }

    fn listen(shared: &Arc<Shared>) {
        let Some(fd) = shared.interrupt.0.clone() else { return };
        let weak = Arc::downgrade(shared);
        shared.runtime.spawn(async move {
            let Ok(fd) = runtime::readable(fd) else { return };
            while let Ok(mut ready) = fd.readable().await {
                let _ = rustix::io::read(fd.get_ref(), &mut [0; 8]);
                ready.clear_ready();
                // Its end raises the flag too.
                let Some(shared) = weak.upgrade() else { return };
                shared.interrupted.notify_waiters();
            }
        });
    }
}

/// Elsewhere it is not safe to call from a signal handler.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Interrupt(Mutex<Weak<Shared>>);

#[cfg(not(target_os = "linux"))]
impl Interrupt {
    fn new() -> Interrupt {
        Interrupt(Mutex::default())
    }

    fn raise(&self) {
        if let Some(shared) = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
            shared.interrupted.notify_waiters();
        }
    }

    fn listen(shared: &Arc<Shared>) {
        *shared.interrupt.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
    }
}
