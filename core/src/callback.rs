//! The function to call when a lease is lost, at most once.

use crate::lease::LostReason;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

/// The function to call when the lease is lost, and the thread that is in it.
#[derive(Default)]
pub(crate) struct Callback {
    slot: Mutex<Slot>,
    done: Condvar,
}

#[derive(Default)]
struct Slot {
    function: Option<Box<dyn FnOnce(LostReason) + Send>>,
    running: Option<ThreadId>,
}

impl Callback {
    /// Replaces the function. When this returns, the previous one runs no more, unless this is called from inside it.
    pub(crate) fn set(&self, function: Option<Box<dyn FnOnce(LostReason) + Send>>) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        while slot.running.is_some_and(|thread| thread != std::thread::current().id()) {
            slot = self.done.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
        slot.function = function;
    }

    /// Runs the function, if there is one left.
    pub(crate) fn run(&self, reason: LostReason) {
        let function = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(function) = slot.function.take() else { return };
            slot.running = Some(std::thread::current().id());
            function
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(reason)));
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).running = None;
        self.done.notify_all();
        if result.is_err() {
            tracing::error!(target: "quorlock", "a callback for a lost lease panicked");
        }
    }
}
