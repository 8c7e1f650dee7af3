//! The lease's handle.

use crate::error::Failure;
use crate::port::{Call, Port};
use napi::bindgen_prelude::Either5;
use napi_derive::napi;
use quorlock::{Error, ErrorKind, Unit, duration};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Shared by the handle and the calls that are under way on it.
struct Held {
    lease: quorlock::Lease,
    /// Whether it has reached the program. Until then nobody has it, and its end undoes it.
    accepted: AtomicBool,
    /// Whom to tell of the loss.
    watch: Mutex<Option<Call>>,
}

impl Held {
    fn end_watch(&self, failure: Option<Error>) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = watch {
            call.settle(move || failure.map_or(Ok(None), Err));
        }
    }
}

impl Drop for Held {
    /// Nobody can reach the lease any more, so nobody can have meant to end it now: it was forgotten. A garbage
    /// collector must not release a lock in the middle of the work that it protects; the TTL ends it.
    fn drop(&mut self) {
        let forgotten = *self.accepted.get_mut() && self.lease.held();
        if forgotten {
            self.lease.abandon();
        }
        self.end_watch(forgotten.then(|| {
            let name = self.lease.name();
            Error::new(
                ErrorKind::Lost,
                format!("{name:?}: the lease was forgotten: garbage-collected before its release"),
            )
        }));
    }
}

/// The handle of a core lease.
#[napi]
pub struct Lease {
    held: Arc<Held>,
    port: Port,
}

impl Lease {
    pub fn new(lease: quorlock::Lease, port: Port) -> Lease {
        Lease { held: Arc::new(Held { lease, accepted: AtomicBool::new(false), watch: Mutex::default() }), port }
    }
}

#[napi]
impl Lease {
    /// The program has it from now on. Gives the fencing token: below 2^53, so a number holds it exactly.
    #[napi(catch_unwind)]
    pub fn accept(&self) -> f64 {
        self.held.accepted.store(true, Ordering::Relaxed);
        self.held.lease.fence() as f64
    }

    #[napi(getter, catch_unwind)]
    pub fn held(&self) -> bool {
        self.held.lease.held()
    }

    /// Whole milliseconds, rounded down.
    #[napi(getter, catch_unwind)]
    pub fn remaining(&self) -> f64 {
        whole_millis(self.held.lease.remaining())
    }

    #[napi(getter, catch_unwind)]
    pub fn lost_reason(&self) -> Option<&'static str> {
        self.held.lease.lost_reason().map(|reason| reason.name())
    }

    /// The failure, if it is not held.
    #[napi(catch_unwind)]
    pub fn ensure_held(&self) -> Option<Failure> {
        self.held.lease.ensure_held().err().map(Into::into)
    }

    /// Starts asking the servers.
    #[napi(catch_unwind)]
    pub fn confirm(&self, call: f64) {
        let held = self.held.clone();
        self.port.run(call, async move { held.lease.confirm().await }, |()| None);
    }

    /// Starts an extension; gives the new remaining.
    #[napi(catch_unwind)]
    pub fn extend(&self, call: f64, ttl: Option<f64>) {
        let held = self.held.clone();
        let ttl = ttl.map(|ttl| duration("ttl", ttl, Unit::Milliseconds)).transpose();
        let extend = async move { held.lease.extend(ttl?).await };
        self.port.run(call, extend, |remaining| Some(Either5::C(whole_millis(remaining))));
    }

    /// Starts the release; gives whether it was still to be released.
    #[napi(catch_unwind)]
    pub fn release(&self, call: f64) {
        let held = self.held.clone();
        self.port.run(call, async move { held.lease.release().await }, |released| Some(Either5::B(released)));
    }

    /// Settles `call` as failed when the lease is lost or forgotten; with nothing after its release, when the handle is
    /// collected. Called once.
    #[napi(catch_unwind)]
    pub fn watch(&self, call: f64) {
        *self.held.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.port.call(call));
        let held = Arc::downgrade(&self.held);
        self.held.lease.on_lost(Some(Box::new(move |_| {
            if let Some(held) = held.upgrade() {
                held.end_watch(held.lease.ensure_held().err());
            }
        })));
    }
}

fn whole_millis(duration: Duration) -> f64 {
    duration.as_millis() as f64
}
