use crate::{Lease, LockOptions, Result, Wait};
use std::time::Duration;

/// How to take a lock: a name and options. Reusable, shareable, not re-entrant.
#[derive(Clone)]
#[must_use = "a lock holds nothing until it is acquired"]
pub struct Lock {}

#[allow(unused_variables)]
impl Lock {
    /// See [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Lock {
        todo!()
    }
    /// See [`LockOptions::wait`].
    pub fn wait(self, wait: impl Into<Wait>) -> Lock {
        todo!()
    }
    /// See [`LockOptions::renew`].
    pub fn renew(self, renew: bool) -> Lock {
        todo!()
    }
    /// See [`LockOptions::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Lock {
        todo!()
    }
    /// See [`LockOptions::label`].
    pub fn label(self, label: impl Into<String>) -> Lock {
        todo!()
    }
    /// The name.
    pub fn name(&self) -> &str {
        todo!()
    }
    /// Takes the lock, waiting as `wait` says. Dropping the future ends the attempt and undoes it.
    pub async fn acquire(&self) -> Result<Lease> {
        todo!()
    }
    /// Tries once, whatever `wait` says; `None` if others hold it.
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        todo!()
    }
}
