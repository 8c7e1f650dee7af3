use crate::Result;
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
#[must_use = "dropping a lease releases it"]
pub struct Lease {}

#[allow(unused_variables)]
impl Lease {
    /// The lock's name.
    pub fn name(&self) -> &str {
        todo!()
    }
    /// The fencing token: below 2^53, larger than that of every earlier lease of the name.
    pub fn fence(&self) -> u64 {
        todo!()
    }
    /// Whether it is still held, by the local clock. Free.
    pub fn held(&self) -> bool {
        todo!()
    }
    /// How long it may still be relied on, by the local clock. Zero once released, lost, or in another process.
    pub fn remaining(&self) -> Duration {
        todo!()
    }
    /// Err(Lost) if the lease is lost, Err(Closed) if it was released or acquired in another process. Local and free.
    pub fn ensure_held(&self) -> Result<()> {
        todo!()
    }
    /// Why it was lost, if it was.
    pub fn lost_reason(&self) -> Option<LostReason> {
        todo!()
    }
    /// Whether [`Lease::release`] was called.
    pub fn released(&self) -> bool {
        todo!()
    }
    /// Asks the servers whether it is still ours; prolongs nothing. Lost, Unavailable or Closed otherwise.
    pub async fn confirm(&self) -> Result<()> {
        todo!()
    }
    /// Sets the remaining time to `ttl` (its own by default) from now; gives the new remaining.
    pub async fn extend(&self, ttl: Option<Duration>) -> Result<Duration> {
        todo!()
    }
    /// True; false if it was released before; Lost if it was lost. Dropping the future does not stop the release.
    pub async fn release(&self) -> Result<bool> {
        todo!()
    }
    /// Waits for the loss; pending for ever after a release.
    pub async fn lost(&self) -> LostReason {
        todo!()
    }
    /// Waits for the end: the reason of the loss, or `None` when it was released.
    pub async fn ended(&self) -> Option<LostReason> {
        todo!()
    }
    /// Runs `callback` once when the lease is lost (at once if it is lost already), on a thread of the runtime:
    /// it must return soon and must not block. Replaces the previous one; `None` removes it. When this returns, no
    /// earlier callback runs any more, unless it is called from inside that callback.
    pub fn on_lost(&self, callback: Option<Box<dyn FnOnce(LostReason) + Send>>) {
        todo!()
    }
    /// Stops renewing and lets the lease run out by its TTL, with a warning: what a garbage collector does.
    pub fn abandon(&self) {
        todo!()
    }
}
