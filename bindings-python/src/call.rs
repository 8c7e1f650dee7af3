//! How a verb is run: a thread blocks on it, or an event loop awaits it. The only place that does either.
//!
//! A [`Call`] is a verb with its arguments, not begun yet. Its answer stays in the core's form until a thread that is
//! attached to the interpreter fetches it; an answer that nobody fetches is dropped, and dropping a lease of the core
//! releases it. So a lock that was granted to a caller who has left is given back, whatever made him leave.

use crate::errors;
use crate::queue::{Queue, Ticket};
use pyo3::prelude::*;
use quorlock::bridge;
use quorlock::{Error, ErrorKind, Result};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

/// The end of a call, still in the core's form: turns itself into a Python value or exception.
pub type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// One verb with its arguments, to be run once.
#[pyclass(frozen, generic, module = "quorlock._quorlock")]
pub struct Call {
    state: Mutex<State>,
    /// Whether it goes on, once begun, when its caller gives it up.
    unstoppable: bool,
}

enum State {
    New(Work),
    Started(Ticket),
    Over,
}

/// The answer to a call that ended with neither a result nor an error.
pub fn panicked() -> Error {
    Error::new(ErrorKind::Internal, "a task of quorlock panicked")
}

impl Call {
    /// A call of `work`, whose result `convert` brings to Python.
    pub fn new<T: Send + 'static>(
        work: impl Future<Output = Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Call {
        let work: Work = Box::pin(async move {
            let result = work.await;
            let answer: Answer = Box::new(move |py| match result {
                Ok(value) => convert(py, value),
                Err(error) => Err(errors::to_python(py, error)),
            });
            answer
        });
        Call { state: Mutex::new(State::New(work)), unstoppable: false }
    }

    /// The same, going on when its caller gives it up: what ends something must not be left undone.
    pub fn unstoppable(self) -> Call {
        Call { unstoppable: true, ..self }
    }

    fn replace(&self, state: State) -> State {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    fn take_work(&self, py: Python<'_>) -> PyResult<Work> {
        match self.replace(State::Over) {
            State::New(work) => Ok(work),
            state => {
                self.replace(state);
                Err(errors::to_python(py, Error::new(ErrorKind::Internal, "a call was run twice")))
            }
        }
    }
}

#[pymethods]
impl Call {
    /// Blocks this thread, detached from the interpreter, until the answer is there. Signals are looked at meanwhile:
    /// if a handler raises (Ctrl-C), the call is given up and undone.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let work = self.take_work(py)?;
        let ended = py.detach(|| {
            let check = || Python::attach(|py| py.check_signals());
            catch_unwind(AssertUnwindSafe(|| bridge::wait(work, check)))
        });
        match ended {
            Ok(answer) => answer?(py),
            Err(_panic) => Err(errors::to_python(py, panicked())),
        }
    }

    /// Begins the call; its answer settles `future` when the event loop that owns `queue` turns.
    fn start(&self, py: Python<'_>, queue: &Queue, future: Bound<'_, PyAny>) -> PyResult<()> {
        let work = self.take_work(py)?;
        let ticket = queue.submit(future.unbind(), |reply| {
            let task = bridge::spawn(work, move |answer| reply.send(answer));
            (!self.unstoppable).then_some(task)
        });
        self.replace(State::Started(ticket));
        Ok(())
    }

    /// Gives up a call that was begun, and undoes it (unless it is unstoppable), even if its answer has come by now.
    fn cancel(&self) {
        if let State::Started(ticket) = self.replace(State::Over) {
            ticket.cancel();
        }
    }
}
