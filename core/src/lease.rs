//! A lock that is held, as its holder sees it.

use crate::error::{Error, ErrorKind, Result};
use crate::hold::Hold;
use crate::runtime;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LostReason {
    /// Its deadline passed without a confirmed renewal.
    Expired = 1,
    /// The servers say that it is not ours any more.
    Taken = 2,
    /// `max_hold` is over.
    MaxHold = 3,
    /// The client was closed while it was held.
    Closed = 4,
}

impl LostReason {
    /// `expired`, `taken`, `max_hold`, `closed`.
    pub const fn name(self) -> &'static str {
        match self {
            LostReason::Expired => "expired",
            LostReason::Taken => "taken",
            LostReason::MaxHold => "max_hold",
            LostReason::Closed => "closed",
        }
    }
}

/// A lock that is held, until it is released, dropped or lost.
///
/// Every method may be called from any thread. In a forked child a lease is inert: each verb is Closed, and dropping
/// it does nothing.
#[must_use = "dropping a lease releases it"]
pub struct Lease {
    /// Not dropped in a forked child, where nothing that belongs to the parent may be touched.
    hold: ManuallyDrop<Arc<Hold>>,
}

impl Lease {
    pub(crate) fn new(hold: Arc<Hold>) -> Lease {
        Lease { hold: ManuallyDrop::new(hold) }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.hold.name
    }

    /// The fencing token: below 2^53, and larger than that of every lease of this name that was completed before.
    /// Hand it to the store that the lock protects, which refuses smaller ones.
    pub fn fence(&self) -> u64 {
        self.hold.fence
    }

    /// The TTL: as acquired, or as last extended.
    pub fn ttl(&self) -> Duration {
        self.hold.ttl()
    }

    /// Whether it is still held, by the local clock. Costs no command.
    pub fn held(&self) -> bool {
        !self.foreign() && self.hold.held()
    }

    /// How long it may still be relied on, by the local clock. Zero once it is released or lost, and in another process.
    pub fn remaining(&self) -> Duration {
        if self.held() { self.hold.deadline().since(self.hold.shared.clock.now()) } else { Duration::ZERO }
    }

    /// Fails unless the lease is held, by the local clock. Costs no command.
    ///
    /// # Errors
    /// Lost; Closed if it was released, or acquired in another process.
    pub fn ensure_held(&self) -> Result<()> {
        self.check_process()?;
        self.hold.ensure_held()
    }

    /// Why it was lost, if it was.
    pub fn lost_reason(&self) -> Option<LostReason> {
        if self.foreign() {
            return None;
        }
        self.hold.held();
        self.hold.lost_reason()
    }

    /// Whether [`Lease::release`] was called in time.
    pub fn released(&self) -> bool {
        self.hold.released()
    }

    /// Asks the servers whether the lock is still ours and nobody has taken a larger fence since. Prolongs nothing.
    /// After a pause it tells for certain whether work may go on.
    ///
    /// # Errors
    /// Lost (nothing is sent if the deadline has passed); Unavailable if too few servers answered, and the lease goes
    /// on; Closed.
    pub async fn confirm(&self) -> Result<()> {
        self.ensure_held()?;
        let hold = Arc::clone(&self.hold);
        runtime::run(Box::pin(async move { hold.confirm().await })).await
    }

    /// Sets the remaining time to `ttl` from now (the lease's own TTL by default), never adds to it. Gives the new
    /// remaining time. A `ttl` given here also governs later renewals.
    ///
    /// # Errors
    /// Invalid; Lost (nothing is sent if the deadline has passed); Unavailable if too few servers answered: the lease
    /// goes on until its deadline; Closed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the extension done or undone; the lease stays valid by the earlier deadline.
    pub async fn extend(&self, ttl: Option<Duration>) -> Result<Duration> {
        if let Some(ttl) = ttl {
            self.hold.shared.settings.check_ttl("ttl", ttl)?;
        }
        self.ensure_held()?;
        let hold = Arc::clone(&self.hold);
        runtime::run(Box::pin(async move { hold.extend_now(ttl).await })).await
    }

    /// Gives the lock up: true; false if it was released before. Once this is called nothing is sent for the lease but
    /// the release itself, which goes on in the background where a server does not answer.
    ///
    /// # Errors
    /// Lost: it was over before, and others' locks were not touched. Unavailable: too few servers have confirmed; the
    /// lock is free at the latest when its TTL ends. Closed: it was acquired in another process.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(&self) -> Result<bool> {
        self.check_process()?;
        if self.hold.begin_release() {
            let hold = Arc::clone(&self.hold);
            return runtime::run_to_end(Box::pin(async move { hold.free().await })).await;
        }
        match self.hold.lost_reason() {
            None => Ok(false),
            // It has run out on the servers too.
            Some(LostReason::Expired) => Err(self.hold.lost_error()),
            // Some servers may hold it still.
            Some(_) => {
                self.hold.settle_release();
                Err(self.hold.lost_error())
            }
        }
    }

    /// Waits for the loss; for ever, if it is released first.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        match self.ended().await {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Waits for the end: the reason of the loss, or `None` when it was released or abandoned. In another process it
    /// has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ended(&self) -> Option<LostReason> {
        if self.foreign() { None } else { self.hold.ended().await }
    }

    /// As [`Lease::ended`], for at most `timeout` (`None`: without limit). `None` too if it has not ended by then.
    ///
    /// # Errors
    /// Closed: it was acquired in another process.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_lost(&self, timeout: Option<Duration>) -> Result<Option<LostReason>> {
        self.check_process()?;
        let hold = Arc::clone(&self.hold);
        runtime::run(Box::pin(async move {
            match timeout {
                None => Ok(hold.ended().await),
                Some(limit) => Ok(tokio::time::timeout(limit, hold.ended()).await.unwrap_or(None)),
            }
        }))
        .await
    }

    /// Runs `callback` once when the lease is lost (at once if it is lost already), on a thread that drives the runtime:
    /// it must return soon and must not block. Replaces the previous one; `None` removes it. When this returns, no earlier
    /// callback runs any more, unless it is called from inside that callback.
    pub fn on_lost(&self, callback: Option<Box<dyn FnOnce(LostReason) + Send>>) {
        if self.foreign() {
            return;
        }
        self.hold.callback.set(callback);
        if self.hold.lost_reason().is_some() {
            let hold = Arc::clone(&self.hold);
            let runtime = hold.shared.runtime.clone();
            runtime.spawn(async move { hold.call_back() });
        }
    }

    /// Stops renewing and lets the lease run out by its TTL, with a warning: what a garbage collector does, which must
    /// not free a lock that the program may believe to hold.
    pub fn abandon(&self) {
        if !self.foreign() && self.hold.abandon() {
            tracing::warn!(target: "quorlock", name = %self.hold.name, "a lease was dropped without release: it runs out by its TTL");
        }
    }

    /// Whether it was acquired in another process, before a fork.
    fn foreign(&self) -> bool {
        self.hold.shared.pid != std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.foreign() {
            let message = format!("the lease was acquired in process {}", self.hold.shared.pid);
            return Err(Error::new(ErrorKind::Closed, message).with_name(&self.hold.name));
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.foreign() {
            return;
        }
        if self.hold.begin_release() {
            self.hold.settle_release();
        }
        self.hold.callback.set(None);
        #[allow(unsafe_code, reason = "the only way to drop, or not to drop, by the process")]
        // SAFETY: this is the end of its owner, so the field is never touched again.
        unsafe {
            ManuallyDrop::drop(&mut self.hold);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Lease");
        s.field("name", &self.name()).field("fence", &self.fence()).field("held", &self.held());
        s.finish()
    }
}
