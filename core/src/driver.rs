//! Who drives the runtime: its own thread, or a caller that blocks anyway.
//!
//! A call that waits for the runtime's thread costs two thread switches, which are dearer than the network on the same
//! machine. So a thread that calls again and again drives the runtime itself while it waits: it takes the runtime over
//! when its calls follow each other within [`GRACE`], and the runtime's own thread takes it back when they stop. Between
//! two such calls nobody drives, so what is due in the background (a renewal, the last answers of a round) is late by
//! at most [`GRACE`], or [`LONGEST_REST`] if the calls need no driving. That will not do for others who wait for an answer
//! or for a lock, so while there are any the runtime's own thread drives.

use crate::clock::{Clock, Moment, SystemClock};
use crate::runtime::{self, NoSigpipe, Process};
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;
use tokio::sync::Notify;

/// Calls that are no further apart drive the runtime themselves.
const GRACE: Duration = Duration::from_millis(5);

/// For how long calls may keep the runtime's own thread from driving, unless they do.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// The turn-taking of the runtime's own thread and of callers.
#[derive(Default)]
pub(crate) struct Driver {
    thread: OnceLock<Thread>,
    /// Whether the runtime's own thread drives.
    own: AtomicBool,
    /// Asks the runtime's own thread to leave off.
    wanted: Notify,
    /// Asks it to go on, as a task was given to a runtime that nobody drives.
    needed: AtomicBool,
    /// Callers that drive, or wait for their turn to.
    callers: AtomicUsize,
    /// Work whose caller does not drive.
    others: AtomicUsize,
    /// When the last blocking call ended.
    last: AtomicU64,
}

impl Driver {
    /// What the runtime's own thread does, for ever.
    pub(crate) fn run(&self, process: &Process) {
        let _ = self.thread.set(std::thread::current());
        loop {
            self.own.store(true, Ordering::SeqCst);
            process.block_on(self.wanted.notified());
            self.own.store(false, Ordering::SeqCst);
            let rest = SystemClock.now();
            while !self.needed.swap(false, Ordering::SeqCst) {
                // Calls that have their answers at once drive nothing: they must not keep a server from being dialled.
                let over = !self.busy() || self.others() || SystemClock.now().since(rest) > LONGEST_REST;
                if over && self.callers.load(Ordering::SeqCst) == 0 {
                    break;
                }
                std::thread::park_timeout(GRACE);
            }
        }
    }

    /// Whether the last call ended just now.
    fn busy(&self) -> bool {
        SystemClock.now().since(Moment(self.last.load(Ordering::Relaxed))) < GRACE
    }

    /// Whether somebody waits who does not drive.
    fn others(&self) -> bool {
        self.others.load(Ordering::SeqCst) > 0
    }

    /// Counts work whose caller does not drive, as long as the result lives.
    pub(crate) fn other(&'static self) -> Other {
        self.others.fetch_add(1, Ordering::SeqCst);
        self.ensure();
        Other(self)
    }

    /// Sees to it that somebody drives.
    fn ensure(&self) {
        if !self.own.load(Ordering::SeqCst)
            && self.callers.load(Ordering::SeqCst) == 0
            && let Some(thread) = self.thread.get()
        {
            self.needed.store(true, Ordering::SeqCst);
            thread.unpark();
        }
    }
}

/// Blocks this thread until `future` ends; drives the runtime meanwhile, where that is faster.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // Inside of another runtime, or of ours, a thread cannot drive.
    let may = |p: &&Process| cfg!(target_os = "linux") && p.single() && tokio::runtime::Handle::try_current().is_err();
    let process = runtime::process().ok().filter(may);
    let Some(process) = process else { return runtime::park_on(future) };
    let driver = &process.driver;
    let _ended = Ended(driver);
    if driver.own.load(Ordering::SeqCst) {
        if !driver.busy() || driver.others() {
            return runtime::park_on(future);
        }
        driver.wanted.notify_one();
    }
    driver.callers.fetch_add(1, Ordering::SeqCst);
    let _counted = Leaving(driver);
    let _quiet = NoSigpipe::begin();
    runtime::as_ours(|| process.block_on(future))
}

/// See [`Driver::other`].
pub(crate) struct Other(&'static Driver);

impl Drop for Other {
    fn drop(&mut self) {
        self.0.others.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Ended<'a>(&'a Driver);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.last.store(SystemClock.now().0, Ordering::Relaxed);
    }
}

struct Leaving<'a>(&'a Driver);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.0.callers.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.others() {
            self.0.ensure();
        }
    }
}
