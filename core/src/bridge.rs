//! How bindings run a future: on the core's runtime with a callback, or blocking, with signals checked.

use crate::client::{Client, Shared};
use crate::driver;
use crate::runtime;
use futures_util::future::join_all;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A future that [`spawn`] runs. Dropping the handle changes nothing.
pub struct Task(Option<tokio::task::AbortHandle>);

impl Task {
    /// Drops the future, which undoes what it began. Its `done` is not called afterwards, unless it already runs.
    pub fn cancel(&self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Runs `future` on the runtime of this process, then `done` on a thread of it. `done` must be quick and must not
/// block. If the system gives no thread for a runtime, both run here: the future only tells so.
pub fn spawn<F>(future: F, done: impl FnOnce(F::Output) + Send + 'static) -> Task
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Ok(process) = runtime::process() else {
        done(block_on(future));
        return Task(None);
    };
    let task = process.spawn(async move { done(future.await) });
    Task(Some(task.abort_handle()))
}

/// Blocks this thread until `future` ends. `check` runs whenever a signal interrupts the wait; its error drops the
/// future, which undoes what it began, and is returned (Ctrl-C in Python).
///
/// The thread sleeps in poll(2) on a descriptor that the runtime writes: a signal ends poll at once.
pub fn wait<F: Future, E>(future: F, check: impl FnMut() -> Result<(), E>) -> Result<F::Output, E> {
    wakeup::wait(future, check)
}

/// Blocks this thread until `future` ends.
pub fn block_on<F: Future>(future: F) -> F::Output {
    driver::block_on(future)
}

/// Whether this thread belongs to the runtime (a callback of ours): nothing may block on it.
pub fn on_runtime_thread() -> bool {
    runtime::is_this_thread()
}

/// How long the end of an interpreter may take for the sake of its leases.
pub const EXIT_BUDGET: Duration = Duration::from_millis(300);

/// Closes every client of this process, for the end of the interpreter: takes at most `budget`. A client that is used
/// for the first time afterwards is Closed.
pub fn close_all(budget: Duration) {
    if let Ok(process) = runtime::process() {
        close(process.end(), budget);
    }
}

/// Closes these clients, for the end of one of several interpreters in a process: takes at most `budget`.
pub fn close_clients(clients: &[Client], budget: Duration) {
    close(clients.iter().filter_map(Client::shut).collect(), budget);
}

fn close(clients: Vec<Arc<Shared>>, budget: Duration) {
    if clients.is_empty() || on_runtime_thread() {
        return;
    }
    let closing = join_all(clients.into_iter().map(|c| async move { c.close(Duration::ZERO).await }));
    let _ = block_on(runtime::run(Box::pin(async move {
        let _ = tokio::time::timeout(budget, closing).await;
        Ok(())
    })));
}

#[cfg(target_os = "linux")]
mod wakeup {
    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
    use rustix::fd::OwnedFd;
    use std::cell::RefCell;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    /// How long a wait may go on before signals are looked at.
    const BRIEFLY: Duration = Duration::from_millis(50);
    /// Sleeps between looks for signals that came at the wrong moment: doubled from the first to the longest.
    const FIRST_SLEEP: Duration = Duration::from_millis(10);
    const LONGEST_SLEEP: Duration = Duration::from_secs(1);

    thread_local! {
        /// One descriptor a thread, with its process: a child shares the parent's file and would steal its wake-ups.
        static OWN: RefCell<Option<(u32, Waker, Arc<Signal>)>> = const { RefCell::new(None) };
    }

    struct Signal(OwnedFd);

    impl Wake for Signal {
        fn wake(self: Arc<Self>) {
            let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        }
    }

    fn own() -> Option<(Waker, Arc<Signal>)> {
        OWN.with_borrow_mut(|own| {
            let pid = std::process::id();
            if own.as_ref().is_none_or(|(owner, ..)| *owner != pid) {
                let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
                let signal = Arc::new(Signal(fd));
                *own = Some((pid, signal.clone().into(), signal));
            }
            own.as_ref().map(|(_, waker, signal)| (waker.clone(), signal.clone()))
        })
    }

    pub(super) fn wait<F: Future, E>(future: F, mut check: impl FnMut() -> Result<(), E>) -> Result<F::Output, E> {
        // Without a descriptor there is still an answer, only no signal on the way to it.
        let Some((waker, signal)) = own() else { return Ok(super::block_on(future)) };
        let mut future = pin!(future);
        // An answer that comes soon is not worth a look at signals.
        let process = crate::runtime::process().ok();
        // What begins in the runtime's context has to go on in it.
        let _context = match process {
            None => None,
            Some(process) => {
                let brief = process.timeout(BRIEFLY, future.as_mut());
                if let Ok(output) = super::block_on(brief) {
                    return Ok(output);
                }
                check()?;
                Some((process.handle().enter(), process.driver.other()))
            }
        };
        let mut pause = FIRST_SLEEP;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
            let limit = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
            match poll(&mut [PollFd::new(&signal.0, PollFlags::IN)], Some(&limit)) {
                // A signal that came just before the sleep has not ended it.
                Ok(0) => {
                    pause = (pause * 2).min(LONGEST_SLEEP);
                    check()?;
                }
                Ok(_) => {
                    let _ = rustix::io::read(&signal.0, &mut [0; 8]);
                }
                Err(_) => check()?,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod wakeup {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake};
    use std::thread::{Thread, current, park_timeout};
    use std::time::Duration;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Without eventfd: looks for signals every 50 ms.
    pub(super) fn wait<F: Future, E>(future: F, mut check: impl FnMut() -> Result<(), E>) -> Result<F::Output, E> {
        let waker = Arc::new(Unpark(current())).into();
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
            park_timeout(Duration::from_millis(50));
            check()?;
        }
    }
}
