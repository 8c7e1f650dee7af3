//! The same API for callers without a runtime; each method blocks the calling thread.
//!
//! Called on a thread of quorlock's own runtime (inside a callback), every one of them is Invalid instead of a deadlock.
use crate::{ClientOptions, IntoUrls, LockOptions, LostReason, Result, ServerStatus};
use std::time::Duration;

/// See [`crate::Client`].
#[derive(Clone)]
pub struct Client {}
/// See [`crate::Lock`].
#[derive(Clone)]
pub struct Lock {}
/// See [`crate::Lease`].
pub struct Lease {}

#[allow(unused_variables)]
impl Client {
    /// See [`crate::Client::new`].
    pub fn new(urls: impl IntoUrls) -> Result<Client> {
        todo!()
    }
    /// See [`crate::Client::with_options`].
    pub fn with_options(urls: impl IntoUrls, options: ClientOptions) -> Result<Client> {
        todo!()
    }
    /// See [`crate::Client::lock`].
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        todo!()
    }
    /// See [`crate::Client::lock_with`].
    pub fn lock_with(&self, name: impl Into<String>, options: LockOptions) -> Result<Lock> {
        todo!()
    }
    /// See [`crate::Client::ping`].
    pub fn ping(&self, timeout: Duration) -> Result<Vec<ServerStatus>> {
        todo!()
    }
    /// See [`crate::Client::close`].
    pub fn close(&self, drain: Duration) -> Result<()> {
        todo!()
    }
    /// See [`crate::Client::interrupt`].
    pub fn interrupt(&self) {
        todo!()
    }
}
#[allow(unused_variables)]
impl Lock {
    /// See [`crate::Lock::acquire`].
    pub fn acquire(&self) -> Result<Lease> {
        todo!()
    }
    /// See [`crate::Lock::try_acquire`].
    pub fn try_acquire(&self) -> Result<Option<Lease>> {
        todo!()
    }
}
#[allow(unused_variables)]
impl Lease {
    /// The asynchronous lease inside, for everything that does not block: `name`, `fence`, `held`, `remaining`, `on_lost`, …
    pub fn as_async(&self) -> &crate::Lease {
        todo!()
    }
    /// See [`crate::Lease::confirm`].
    pub fn confirm(&self) -> Result<()> {
        todo!()
    }
    /// See [`crate::Lease::extend`].
    pub fn extend(&self, ttl: Option<Duration>) -> Result<Duration> {
        todo!()
    }
    /// See [`crate::Lease::release`].
    pub fn release(&self) -> Result<bool> {
        todo!()
    }
    /// Waits up to `timeout` for the loss; `None` if it is not lost by then or was released.
    pub fn wait_lost(&self, timeout: Option<Duration>) -> Result<Option<LostReason>> {
        todo!()
    }
}
