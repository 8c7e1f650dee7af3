//! Log events on their way to Python's `logging`, and wake-ups for event loops that cannot watch a socket.
//!
//! The core reports events on its own threads, which never attach to the interpreter. They leave them here, and one
//! thread of Python's own, which waits detached, fetches them (`quorlock/_events.py`).

use pyo3::prelude::*;
use quorlock::log::{Event, Level, set_hook};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Events that wait for a thread which is kept from running. More are counted and dropped, not stored.
const CAPACITY: usize = 1000;

/// The thread's inbox; lives as long as somebody may put something into it.
#[derive(Default)]
pub struct Inbox {
    contents: Mutex<Contents>,
    ready: Condvar,
}

#[derive(Default)]
struct Contents {
    events: Vec<Event>,
    missed: usize,
    wakes: Vec<u64>,
    closed: bool,
}

impl Inbox {
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, change: impl FnOnce(&mut Contents)) {
        change(&mut self.contents());
        self.ready.notify_one();
    }

    /// Asks for a turn of the loop that is known as `key`.
    pub fn wake(&self, key: u64) {
        self.put(|contents| contents.wakes.push(key));
    }

    fn report(&self, event: &Event) {
        self.put(|contents| {
            if contents.events.len() < CAPACITY {
                contents.events.push(event.clone());
            } else {
                contents.missed += 1;
            }
        });
    }
}

/// One event: Python's level, the text, and named values.
type Record = (i32, String, Vec<(&'static str, String)>);

/// The inbox of one thread, of one process.
#[pyclass(frozen, module = "quorlock._quorlock")]
pub struct Mailbox {
    inbox: Arc<Inbox>,
    pid: u32,
}

impl Mailbox {
    /// For those who put something into it.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }
}

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> Mailbox {
        Mailbox { inbox: Arc::default(), pid: std::process::id() }
    }

    /// From now on events of `level` (as Python counts) and above arrive here, and nowhere else.
    fn listen(&self, level: i32) {
        let inbox = self.inbox.clone();
        let level = match level {
            ..=10 => Level::Debug,
            11..=20 => Level::Info,
            21..=30 => Level::Warn,
            31.. => Level::Error,
        };
        set_hook(level, Some(Box::new(move |event| inbox.report(event))));
    }

    /// Waits, detached from the interpreter, until something is there: events and wake-ups; `None` at the end.
    fn fetch(&self, py: Python<'_>) -> Option<(Vec<Record>, Vec<u64>)> {
        let Contents { events, missed, wakes, closed } = py.detach(|| {
            let mut contents = self.inbox.contents();
            while contents.events.is_empty() && contents.wakes.is_empty() && !contents.closed {
                contents = self.inbox.ready.wait(contents).unwrap_or_else(PoisonError::into_inner);
            }
            let closed = contents.closed;
            std::mem::replace(&mut *contents, Contents { closed, ..Contents::default() })
        });
        if closed && events.is_empty() && wakes.is_empty() {
            return None;
        }
        let mut records: Vec<Record> = events.into_iter().map(|e| (e.level as i32 * 10, e.message, e.fields)).collect();
        if missed > 0 {
            records.push((30, format!("{missed} more events were not logged"), Vec::new()));
        }
        Some((records, wakes))
    }

    /// No more events; `fetch` gives what is left, then `None`.
    fn close(&self) {
        set_hook(Level::Error, None);
        self.inbox.put(|contents| contents.closed = true);
    }
}

impl Drop for Mailbox {
    /// In a forked child it is the parent's, who may have been writing to it at the fork: left alone.
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            std::mem::forget(self.inbox.clone());
        }
    }
}
