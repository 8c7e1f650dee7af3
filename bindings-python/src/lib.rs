//! The native half of the Python package `quorlock`: `quorlock._quorlock`.
//!
//! Thin on purpose. Every verb converts its arguments ([`convert`]), names one function of the core, and gives back a
//! [`Call`](call::Call): Python then either blocks on it or lets an event loop await it. [`call`] is the one place
//! where a future is run; [`queue`] brings results to an event loop; [`mailbox`] brings log events to Python's
//! `logging`; [`errors`] is the table of exceptions. The classes that users see are written in Python, around these.
//!
//! No thread of the core ever attaches to the interpreter: such a thread could still be at it when the interpreter
//! goes away. What happens over there waits in a queue until a thread of Python's own fetches it.

mod call;
mod client;
mod convert;
mod errors;
mod lease;
mod mailbox;
mod queue;
mod stats;

use pyo3::prelude::*;
use quorlock::bridge;

/// Closes every client of this process. For the end of the interpreter.
#[pyfunction]
fn close_all(py: Python<'_>) {
    py.detach(|| bridge::close_all(bridge::EXIT_BUDGET));
}

#[pymodule(gil_used = false)]
fn _quorlock(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", quorlock::VERSION)?;
    module.add_function(wrap_pyfunction!(close_all, module)?)?;
    module.add_class::<client::Client>()?;
    module.add_class::<client::Lock>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<call::Call>()?;
    module.add_class::<queue::Queue>()?;
    module.add_class::<mailbox::Mailbox>()?;
    Ok(())
}
