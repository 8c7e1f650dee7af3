//! The limit of a call, cheap enough for every command.
//!
//! A timer of its own for each call costs two system calls: it is always the earliest, so the runtime's driver has to
//! be woken to take note of it, and hardly one in a million goes off. Here one ticker serves all calls of the process,
//! and rests when there are none; a limit is kept to within one tick.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How late a limit may be noticed.
const TICK: Duration = Duration::from_millis(5);
/// Ticks without a call after which the ticker rests.
const REST_AFTER: u32 = 100;

/// The ticker and those who wait for it.
#[derive(Default)]
pub(crate) struct Limits {
    tick: Notify,
    calls: AtomicUsize,
    awake: AtomicBool,
}

impl Limits {
    /// Runs `work` until `deadline`; `None` if it takes longer.
    pub(crate) async fn until<T>(&'static self, deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
        let _counted = Counted::new(&self.calls);
        if !self.awake.swap(true, Ordering::SeqCst) {
            tokio::spawn(self.run());
        }
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = self.tick.notified() => if Instant::now() >= deadline { return None },
            }
        }
    }

    async fn run(&self) {
        let mut idle = 0;
        while idle < REST_AFTER {
            sleep(TICK).await;
            idle = if self.calls.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
            self.tick.notify_waiters();
        }
        self.awake.store(false, Ordering::SeqCst);
        // A call that came in just now has seen it awake: one of the two sees the other, as all four are ordered.
        if self.calls.load(Ordering::SeqCst) > 0 && !self.awake.swap(true, Ordering::SeqCst) {
            Box::pin(self.run()).await;
        }
    }
}

/// One more, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Counted<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
