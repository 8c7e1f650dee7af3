//! Brings answers to an event loop: one queue for each loop, one wake-up for many answers.
//!
//! A thread of the core pushes an answer and, only if the queue was empty, writes one byte to a socket that the loop
//! watches; the loop then settles every future whose answer has come. Under load one wake-up serves many futures,
//! which is what makes this several times faster than one `call_soon_threadsafe` for each.
//!
//! The reader that the loop keeps is the only strong reference to a queue. When the loop is closed, the queue goes,
//! and with it every call that was still under way: it is undone, silently.

use crate::call::{Answer, panicked};
use crate::errors;
use crate::mailbox::{Inbox, Mailbox};
use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use quorlock::bridge::Task;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The answers for one event loop.
#[pyclass(frozen, weakref, module = "quorlock._quorlock")]
pub struct Queue(Arc<Shared>);

struct Shared {
    pid: u32,
    next_id: AtomicU64,
    /// Answers that have come, in order; `None` once the queue is gone. Filled by threads of the core.
    answers: Mutex<Option<Vec<(u64, Answer)>>>,
    /// Calls under way. Python objects, so only threads that are attached to the interpreter put in or take out.
    calls: Mutex<HashMap<u64, Pending>>,
    waker: Waker,
}

struct Pending {
    future: Py<PyAny>,
    task: Option<Task>,
}

/// How the loop learns that there are answers.
enum Waker {
    /// It watches the first of a pair of sockets.
    Socket(UnixStream, UnixStream),
    /// It cannot watch (`add_reader` is missing): the mailbox' thread calls it.
    Inbox(Arc<Inbox>, u64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where one answer goes. Dropped while it is owed and somebody waits for it (the task panicked), it says so.
pub struct Reply {
    shared: Arc<Shared>,
    id: u64,
    owed: bool,
}

impl Reply {
    /// Hands over the answer. Called on a thread of the core: quick, and never attached.
    pub fn send(mut self, answer: Answer) {
        self.push(answer);
    }

    fn push(&mut self, answer: Answer) {
        self.owed = false;
        let mut answers = lock(&self.shared.answers);
        let Some(waiting) = answers.as_mut() else { return };
        waiting.push((self.id, answer));
        let first = waiting.len() == 1;
        drop(answers);
        if first {
            match &self.shared.waker {
                // Fails only if the socket is full of wake-ups already.
                Waker::Socket(_, ours) => drop((&*ours).write(&[1])),
                Waker::Inbox(inbox, key) => inbox.wake(*key),
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.owed && lock(&self.shared.calls).contains_key(&self.id) {
            self.push(Box::new(|py| Err(errors::to_python(py, panicked()))));
        }
    }
}

/// A call under way, to cancel it.
pub struct Ticket {
    shared: Arc<Shared>,
    id: u64,
}

impl Ticket {
    /// Forgets the call and undoes it: its answer, should it come or have come, finds nobody and is dropped.
    pub fn cancel(&self) {
        let pending = lock(&self.shared.calls).remove(&self.id);
        if let Some(Pending { task: Some(task), .. }) = &pending {
            task.cancel();
        }
    }
}

impl Queue {
    /// Notes that `future` waits for the answer of the call that `begin` starts. The task is given back if cancelling
    /// the call shall end it.
    pub fn submit(&self, future: Py<PyAny>, begin: impl FnOnce(Reply) -> Option<Task>) -> Ticket {
        let (ticket, reply) = self.expect(future, true);
        let task = begin(reply);
        if let Some(pending) = lock(&self.0.calls).get_mut(&ticket.id) {
            pending.task = task;
        }
        ticket
    }

    /// Notes that `future` waits for something that may never happen.
    pub fn watch(&self, future: Py<PyAny>) -> (Ticket, Reply) {
        self.expect(future, false)
    }

    fn expect(&self, future: Py<PyAny>, owed: bool) -> (Ticket, Reply) {
        let shared = &self.0;
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        lock(&shared.calls).insert(id, Pending { future, task: None });
        (Ticket { shared: shared.clone(), id }, Reply { shared: shared.clone(), id, owed })
    }
}

#[pymethods]
impl Queue {
    /// Without arguments: a queue whose `fileno` a loop watches. Else one whose wake-ups go to `mailbox` as `key`.
    #[new]
    #[pyo3(signature = (mailbox=None, key=0))]
    fn new(mailbox: Option<&Mailbox>, key: u64) -> PyResult<Queue> {
        let waker = match mailbox {
            Some(mailbox) => Waker::Inbox(mailbox.inbox().clone(), key),
            None => {
                let (theirs, ours) = UnixStream::pair()?;
                theirs.set_nonblocking(true)?;
                ours.set_nonblocking(true)?;
                Waker::Socket(theirs, ours)
            }
        };
        Ok(Queue(Arc::new(Shared {
            pid: std::process::id(),
            next_id: AtomicU64::new(0),
            answers: Mutex::new(Some(Vec::new())),
            calls: Mutex::default(),
            waker,
        })))
    }

    /// What the loop watches for reading.
    fn fileno(&self) -> PyResult<i32> {
        match &self.0.waker {
            Waker::Socket(theirs, _) => Ok(theirs.as_raw_fd()),
            Waker::Inbox(..) => Err(PyNotImplementedError::new_err("this queue is woken through a mailbox")),
        }
    }

    /// Settles the futures whose answers have come. Runs on the loop's thread.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        if let Waker::Socket(theirs, _) = &self.0.waker {
            // The byte is a mere wake-up; without one there is nothing to clear.
            let _ = (&*theirs).read(&mut [0; 16]);
        }
        let answers = lock(&self.0.answers).as_mut().map(std::mem::take).unwrap_or_default();
        for (id, answer) in answers {
            let Some(pending) = lock(&self.0.calls).remove(&id) else { continue };
            let future = pending.future.bind(py);
            if future.call_method0(intern!(py, "done"))?.is_truthy()? {
                continue;
            }
            match answer(py) {
                Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
                Err(error) => future.call_method1(intern!(py, "set_exception"), (error,))?,
            };
        }
        Ok(())
    }
}

impl Drop for Queue {
    /// The loop is closed: whatever is under way is undone. In a forked child it is the parent's, and left alone.
    fn drop(&mut self) {
        if self.0.pid != std::process::id() {
            std::mem::forget(self.0.clone());
            return;
        }
        let answers = lock(&self.0.answers).take();
        let calls = std::mem::take(&mut *lock(&self.0.calls));
        for task in calls.values().filter_map(|pending| pending.task.as_ref()) {
            task.cancel();
        }
        drop((answers, calls));
    }
}
