use crate::{ClientOptions, Lease, Lock, LockOptions, Result};
use std::time::Duration;

/// Its servers, and the entry to every verb. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Client {}

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

#[allow(unused_variables)]
impl Client {
    /// One URL: one server. Several: a quorum of independent servers. No I/O yet.
    pub fn new(urls: impl IntoUrls) -> Result<Client> {
        todo!()
    }
    /// As [`Client::new`], with options.
    pub fn with_options(urls: impl IntoUrls, options: ClientOptions) -> Result<Client> {
        todo!()
    }
    /// Names a lock. Errors in the name show at acquire.
    pub fn lock(&self, name: impl Into<String>) -> Lock {
        todo!()
    }
    /// Names a lock with its options in one struct (the form of the bindings); checks both.
    pub fn lock_with(&self, name: impl Into<String>, options: LockOptions) -> Result<Lock> {
        todo!()
    }
    /// Each server's state: a readiness probe. Never fails but with Closed.
    pub async fn ping(&self, timeout: Duration) -> Result<Vec<ServerStatus>> {
        todo!()
    }
    /// Refuses new calls, ends waits (Closed), waits up to `drain` for holders, signals lost(closed) to those left, releases them.
    pub async fn close(&self, drain: Duration) -> Result<()> {
        todo!()
    }
    /// Ends the waits of the moment with Cancelled. Async-signal-safe.
    pub fn interrupt(&self) {
        todo!()
    }
    /// The servers' addresses without user and password.
    pub fn addresses(&self) -> Vec<String> {
        todo!()
    }
    /// Whether [`Client::close`] was called.
    pub fn closed(&self) -> bool {
        todo!()
    }
}
