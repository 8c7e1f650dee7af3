//! The same API for callers without a runtime; each method blocks the calling thread.
//!
//! Called on a thread of quorlock's own runtime (inside a callback), every one of them that waits is Invalid instead
//! of a deadlock.

use crate::bridge::{block_on, on_runtime_thread};
use crate::error::{Error, ErrorKind, Result};
use crate::{ClientOptions, IntoUrls, LockInfo, LockOptions, LostReason, ServerStatus, Stats, Wait};
use std::future::Future;
use std::time::Duration;

/// See [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

/// See [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "a lock holds nothing until it is acquired"]
pub struct Lock(crate::Lock);

/// See [`crate::Lease`].
#[derive(Debug)]
#[must_use = "dropping a lease releases it"]
pub struct Lease(crate::Lease);

fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    if on_runtime_thread() {
        return Err(Error::new(ErrorKind::Invalid, "a blocking call inside a callback of quorlock would never return"));
    }
    block_on(future)
}

impl Client {
    /// See [`crate::Client::new`].
    pub fn new(urls: impl IntoUrls) -> Result<Client> {
        crate::Client::new(urls).map(Client)
    }

    /// See [`crate::Client::with_options`].
    pub fn with_options(urls: impl IntoUrls, options: ClientOptions) -> Result<Client> {
        crate::Client::with_options(urls, options).map(Client)
    }

    /// See [`crate::Client::lock`].
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        Lock(self.0.lock(name))
    }

    /// See [`crate::Client::lock_with`].
    pub fn lock_with(&self, name: impl Into<String>, options: LockOptions) -> Result<Lock> {
        self.0.lock_with(name, options).map(Lock)
    }

    /// See [`crate::Client::inspect`].
    pub fn inspect(&self, name: &str) -> Result<LockInfo> {
        wait(self.0.inspect(name))
    }

    /// See [`crate::Client::break_lock`].
    pub fn break_lock(&self, name: &str) -> Result<u64> {
        wait(self.0.break_lock(name))
    }

    /// See [`crate::Client::stats`].
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// See [`crate::Client::ping`].
    pub fn ping(&self, timeout: Duration) -> Result<Vec<ServerStatus>> {
        wait(self.0.ping(timeout))
    }

    /// See [`crate::Client::close`].
    pub fn close(&self, drain: Duration) -> Result<()> {
        wait(self.0.close(drain))
    }

    /// See [`crate::Client::interrupt`].
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}

impl Lock {
    /// See [`crate::Lock::ttl`].
    pub fn ttl(self, ttl: Duration) -> Lock {
        Lock(self.0.ttl(ttl))
    }

    /// See [`crate::Lock::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Lock {
        Lock(self.0.wait(wait))
    }

    /// See [`crate::Lock::renew`].
    pub fn renew(self, renew: bool) -> Lock {
        Lock(self.0.renew(renew))
    }

    /// See [`crate::Lock::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Lock {
        Lock(self.0.max_hold(max_hold))
    }

    /// See [`crate::Lock::label`].
    pub fn label(self, label: impl Into<String>) -> Lock {
        Lock(self.0.label(label))
    }

    /// See [`crate::Lock::name`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Lock::acquire`].
    pub fn acquire(&self) -> Result<Lease> {
        wait(self.0.acquire()).map(Lease)
    }

    /// See [`crate::Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Lease>> {
        Ok(wait(self.0.try_acquire())?.map(Lease))
    }
}

impl Lease {
    /// The asynchronous lease inside, for what does not block and is not repeated here: `on_lost`, `abandon`, …
    pub fn as_async(&self) -> &crate::Lease {
        &self.0
    }

    /// See [`crate::Lease::name`].
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// See [`crate::Lease::fence`].
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// See [`crate::Lease::held`].
    pub fn held(&self) -> bool {
        self.0.held()
    }

    /// See [`crate::Lease::remaining`].
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// See [`crate::Lease::ensure_held`].
    pub fn ensure_held(&self) -> Result<()> {
        self.0.ensure_held()
    }

    /// See [`crate::Lease::confirm`].
    pub fn confirm(&self) -> Result<()> {
        wait(self.0.confirm())
    }

    /// See [`crate::Lease::extend`].
    pub fn extend(&self, ttl: Option<Duration>) -> Result<Duration> {
        wait(self.0.extend(ttl))
    }

    /// See [`crate::Lease::release`].
    pub fn release(&self) -> Result<bool> {
        wait(self.0.release())
    }

    /// Waits up to `timeout` (without limit: `None`) for the loss; `None` if it is not lost by then, or was released.
    ///
    /// # Errors
    /// Invalid: inside a callback.
    pub fn wait_lost(&self, timeout: Option<Duration>) -> Result<Option<LostReason>> {
        wait(self.0.wait_lost(timeout))
    }
}
