//! The one tokio runtime of the process, and what else belongs to the process rather than to a client.
//!
//! Everything runs on it, whatever runtime (or none) the caller has: so a lease is renewed while its holder blocks an
//! event loop, holds the GIL or burns CPU. It is made at first use. In a forked child its threads do not exist, so the
//! slot remembers the process id: a child makes its own, and the parent's is leaked, never dropped, since dropping it
//! would join threads that are not there. No mutex stands in the way that another thread could hold at the fork.
//! Without this, a child that uses a lock hangs for ever.
#![allow(unsafe_code)]

use crate::client::Shared;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::limit::Limits;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// What belongs to one process.
pub(crate) struct Process {
    pid: u32,
    runtime: Runtime,
    pub driver: Driver,
    /// The limits of the calls under way.
    pub limits: Limits,
    /// Tells leases that the machine has been asleep.
    pub resumed: Notify,
    pub watching_suspend: AtomicBool,
    /// Every client's state, to be closed when the interpreter ends; `None` once it has.
    clients: Mutex<Option<Vec<Weak<Shared>>>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread belongs to the runtime.
pub(crate) fn is_this_thread() -> bool {
    OURS.get()
}

/// The state of this process, made now if need be.
///
/// # Errors
/// Internal, if the system gives no thread or no descriptor.
pub(crate) fn process() -> Result<&'static Process> {
    let pid = std::process::id();
    let current = PROCESS.load(Ordering::Acquire);
    // SAFETY: a pointer in the slot comes from `Box::leak` below and is never freed.
    if let Some(process) = unsafe { current.as_ref() }
        && process.pid == pid
    {
        return Ok(process);
    }
    let made = Box::new(Process {
        pid,
        runtime: build()?,
        driver: Driver::default(),
        limits: Limits::default(),
        resumed: Notify::new(),
        watching_suspend: AtomicBool::new(false),
        clients: Mutex::new(Some(Vec::new())),
    });
    let made = Box::into_raw(made);
    match PROCESS.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            // SAFETY: `made` is ours, valid, and leaked from here on.
            let made: &'static Process = unsafe { &*made };
            made.start()?;
            Ok(made)
        }
        Err(winner) => {
            // SAFETY: `made` was not published, so this is its only owner.
            let loser = unsafe { Box::from_raw(made) };
            // Not a plain drop: this may run on a thread of some other runtime, where blocking is forbidden.
            loser.runtime.shutdown_background();
            // SAFETY: as for `current`; another thread of this very process has put it there.
            Ok(unsafe { &*winner })
        }
    }
}

impl Process {
    /// Notes a client that has come into use; false if the interpreter has ended.
    pub(crate) fn register(&self, client: &Arc<Shared>) -> bool {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = &mut *clients {
            clients.retain(|c| c.strong_count() > 0);
            clients.push(Arc::downgrade(client));
        }
        clients.is_some()
    }

    /// Takes all clients, and lets no other come into use.
    pub(crate) fn end(&self) -> Vec<Arc<Shared>> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner).take();
        clients.unwrap_or_default().iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Whether one thread at a time drives the runtime, so that a caller may be it.
    pub(crate) fn single(&self) -> bool {
        self.handle().runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Limits `work` by the runtime's clock, from any thread.
    pub(crate) fn timeout<F: Future>(&self, limit: Duration, work: F) -> tokio::time::Timeout<F> {
        let _context = self.handle().enter();
        tokio::time::timeout(limit, work)
    }

    /// As a task, from any thread.
    pub(crate) fn spawn<T: Send + 'static>(
        &'static self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let other = self.driver.other();
        self.handle().spawn(async move {
            let _other = other;
            work.await
        })
    }

    fn start(&'static self) -> Result<()> {
        if !self.single() {
            return Ok(());
        }
        let run = || {
            as_ours(|| {
                block_signals();
                self.driver.run(self)
            })
        };
        let thread = std::thread::Builder::new().name("quorlock".to_owned()).spawn(run);
        thread.map(drop).map_err(|e| Error::new(ErrorKind::Internal, format!("cannot start a thread: {e}")))
    }
}

/// Runs `work` with this thread counted as one of the runtime's.
pub(crate) fn as_ours<T>(work: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            OURS.set(self.0);
        }
    }
    let _reset = Reset(OURS.replace(true));
    work()
}

/// Keeps a broken connection from ending a program in C, whose threads do not ignore SIGPIPE, while one of them drives
/// the runtime. Dropping it takes back what came meanwhile.
#[cfg(target_os = "linux")]
pub(crate) struct NoSigpipe(libc::sigset_t);

#[cfg(target_os = "linux")]
impl NoSigpipe {
    pub(crate) fn begin() -> NoSigpipe {
        // SAFETY: the calls write only to these two sets and change the mask of this thread.
        unsafe {
            let (mut pipe, mut old) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut pipe);
            libc::sigaddset(&mut pipe, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut old);
            NoSigpipe(old)
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for NoSigpipe {
    fn drop(&mut self) {
        // SAFETY: as in `begin`; `self.0` is the mask that this thread had.
        unsafe {
            if libc::sigismember(&self.0, libc::SIGPIPE) == 1 {
                return; // the program's own affair
            }
            let mut pipe = std::mem::zeroed();
            libc::sigemptyset(&mut pipe);
            libc::sigaddset(&mut pipe, libc::SIGPIPE);
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while libc::sigtimedwait(&pipe, std::ptr::null_mut(), &at_once) == libc::SIGPIPE {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

/// Elsewhere callers do not drive.
#[cfg(not(target_os = "linux"))]
pub(crate) struct NoSigpipe;

#[cfg(not(target_os = "linux"))]
impl NoSigpipe {
    pub(crate) fn begin() -> NoSigpipe {
        NoSigpipe
    }
}

fn build() -> Result<Runtime> {
    let threads = match std::env::var("QUORLOCK_WORKER_THREADS") {
        Err(_) => 1,
        Ok(text) => text.parse().ok().filter(|n| (1..=256).contains(n)).ok_or_else(|| {
            Error::invalid("QUORLOCK_WORKER_THREADS", format_args!("{text:?}"), "must be a number from 1 to 256")
        })?,
    };
    let mut builder = if threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder
        .worker_threads(threads)
        .thread_name("quorlock")
        .enable_all()
        .on_thread_start(|| {
            OURS.set(true);
            block_signals();
        })
        .build()
        .map_err(|e| Error::new(ErrorKind::Internal, format!("cannot start the runtime: {e}")))
}

/// Signals are for the program's own threads: a handler of Python or C must not run on ours.
fn block_signals() {
    #[cfg(unix)]
    // SAFETY: both calls only write to `set`, which outlives them, and change the mask of this thread.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
    }
}

/// What runs on the runtime. Boxed where it is made: such a future has kilobytes, and would be copied at every step on
/// its way into a task.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Runs `work` on the runtime. Dropping the returned future drops `work` there.
pub(crate) async fn run<T: Send + 'static>(work: Work<T>) -> Result<T> {
    if is_this_thread() {
        return work.await;
    }
    let (mut tx, rx) = oneshot::channel();
    process()?.spawn(async move {
        let result = tokio::select! {
            biased;
            result = work => result,
            () = tx.closed() => return,
        };
        // A result that nobody receives is dropped here, or in the channel: a lease undoes itself.
        let _ = tx.send(result);
    });
    rx.await.unwrap_or_else(|_| Err(panicked()))
}

/// Runs `work` on the runtime to its end, whether or not anybody awaits the returned future.
pub(crate) async fn run_to_end<T: Send + 'static>(work: Work<T>) -> Result<T> {
    process()?.spawn(work).await.unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Error {
    Error::new(ErrorKind::Internal, "a task of quorlock's runtime panicked")
}

/// Blocks this thread until `future` ends, without driving the runtime.
///
/// By parking the thread, one system call to sleep and one to wake: a mutex with a condition variable needs four.
pub(crate) fn park_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }

        fn wake_by_ref(self: &Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        // A wake-up that comes between the poll and the park makes the park return at once.
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// Lets a task of the runtime wait until `fd` can be read.
#[cfg(target_os = "linux")]
pub(crate) fn readable(
    fd: Arc<rustix::fd::OwnedFd>,
) -> std::io::Result<tokio::io::unix::AsyncFd<Arc<rustix::fd::OwnedFd>>> {
    // SAFETY: the descriptor stays open as long as the `Arc` that the result owns, and is always the same.
    unsafe { tokio::io::unix::AsyncFd::register(fd) }.map_err(Into::into)
}

/// A value that belongs to one process: made at first use, and again in a forked child, where the parent's is leaked.
pub(crate) struct PerProcess<T>(AtomicPtr<(u32, Arc<T>)>);

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// This process's value, if it has one.
    pub(crate) fn get(&self) -> Option<&Arc<T>> {
        // SAFETY: a pointer in the slot comes from `Box::into_raw` in `get_or_init` and is freed only by `drop`.
        let (pid, value) = unsafe { self.0.load(Ordering::Acquire).as_ref() }?;
        (*pid == std::process::id()).then_some(value)
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> Result<Arc<T>>) -> Result<&Arc<T>> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let old = self.0.load(Ordering::Acquire);
        let made = Box::into_raw(Box::new((std::process::id(), make()?)));
        // Another thread may have been faster. An old value stays where it is, untouched: it is the parent's.
        if self.get().is_some() || self.0.compare_exchange(old, made, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: `made` was not published.
            drop(unsafe { Box::from_raw(made) });
        }
        self.get().ok_or_else(|| Error::new(ErrorKind::Internal, "the process forked in the middle of a call"))
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: nobody else can reach the slot any more, and the value was made in this process.
            drop(unsafe { Box::from_raw(*self.0.get_mut()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_calls_may_race() {
        let seen: Vec<usize> = std::thread::scope(|s| {
            let threads: Vec<_> =
                (0..32).map(|_| s.spawn(|| std::ptr::from_ref(process().unwrap()) as usize)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|p| *p == seen[0]));
    }

    #[test]
    fn per_process_is_made_once() {
        let cell = PerProcess::new();
        assert!(cell.get().is_none());
        let a = Arc::as_ptr(cell.get_or_init(|| Ok(Arc::new(5))).unwrap());
        assert_eq!(Arc::as_ptr(cell.get_or_init(|| Ok(Arc::new(6))).unwrap()), a);
    }

    #[test]
    fn dropping_the_future_drops_the_work() {
        let (tx, rx) = oneshot::channel::<()>();
        let future = run(Box::pin(async move {
            let _tx = tx;
            std::future::pending::<Result<()>>().await
        }));
        let mut future = Box::pin(future);
        let waker = std::task::Waker::noop();
        assert!(future.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        drop(future);
        assert!(crate::bridge::block_on(rx).is_err(), "its sender was dropped");
    }
}
