//! How to take a lock: a name and options.

use crate::acquire;
use crate::client::Client;
use crate::error::Result;
use crate::lease::Lease;
use crate::options::{self, Keys, LockOptions, LockSettings, Wait};
use crate::runtime;
use std::time::Duration;

/// How to take a lock: a name and options. Reusable, shareable between threads and tasks, not re-entrant: a name that
/// this process already holds waits like anybody else's.
///
/// The methods that set an option take any value; a wrong one is told by [`Lock::acquire`], before anything is sent.
#[derive(Clone, Debug)]
#[must_use = "a lock holds nothing until it is acquired"]
pub struct Lock {
    client: Client,
    name: String,
    options: LockOptions,
}

impl Lock {
    pub(crate) fn new(client: Client, name: String, options: LockOptions) -> Lock {
        Lock { client, name, options }
    }

    /// See [`LockOptions::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Lock {
        self.options.ttl = Some(ttl);
        self
    }

    /// See [`LockOptions::wait`].
    pub fn wait(mut self, wait: impl Into<Wait>) -> Lock {
        self.options.wait = Some(wait.into());
        self
    }

    /// See [`LockOptions::renew`].
    pub fn renew(mut self, renew: bool) -> Lock {
        self.options.renew = Some(renew);
        self
    }

    /// See [`LockOptions::max_hold`].
    pub fn max_hold(mut self, max_hold: Duration) -> Lock {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// See [`LockOptions::label`].
    pub fn label(mut self, label: impl Into<String>) -> Lock {
        self.options.label = Some(label.into());
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn check(&self) -> Result<(Keys, LockSettings)> {
        let settings = self.client.settings();
        Ok((options::keys(&self.name, settings)?, settings.lock_settings(&self.options)?))
    }

    /// Takes the lock, waiting as long as [`LockOptions::wait`] says.
    ///
    /// # Errors
    /// Busy: others held it until the wait was over. Unavailable: too few servers answered usefully until then or,
    /// without a limit, for longer than one TTL. Refused: they said no for good. Invalid: a wrong name or option;
    /// nothing was sent. Closed: the client is, or was closed meanwhile. Cancelled: by [`Client::interrupt`].
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt at once and undoes it in the background: no lock stays behind.
    pub async fn acquire(&self) -> Result<Lease> {
        let (keys, settings) = self.check()?;
        self.take(keys, settings).await
    }

    /// Tries once, whatever the wait is; `None` if others hold it. Errors and cancel safety as for [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        let (keys, settings) = self.check()?;
        match self.take(keys, LockSettings { wait: Wait::For(Duration::ZERO), ..settings }).await {
            Ok(lease) => Ok(Some(lease)),
            Err(e) if e.kind() == crate::ErrorKind::Busy => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn take(&self, keys: Keys, settings: LockSettings) -> Result<Lease> {
        let shared = self.client.shared().map_err(|e| e.with_name(&self.name))?.clone();
        let (name, interrupts) = (self.name.clone(), shared.interrupts());
        runtime::run(Box::pin(async move { acquire::acquire(&shared, name, keys, settings, interrupts).await })).await
    }
}
