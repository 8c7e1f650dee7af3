//! The native lease. Python's `Lease` and `AsyncLease` are built around it.
//!
//! What freeing it means is decided here, and not by a `__del__` in Python, which could swallow a Ctrl-C. Freed before
//! the program has received it (its caller was cancelled just then), it is released, as a lease of the core that is
//! dropped. After that only the program may release it: it is abandoned, with a warning.

use crate::call::Call;
use crate::convert;
use crate::errors;
use crate::queue::{Queue, Ticket};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyResourceWarning;
use pyo3::prelude::*;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A lease of the core.
#[pyclass(frozen, module = "quorlock._quorlock")]
pub struct Lease {
    core: Arc<quorlock::Lease>,
    watch: Mutex<Option<Ticket>>,
    /// The program has received it.
    kept: AtomicBool,
    /// Its release was asked for, and may be on its way to begin.
    releasing: AtomicBool,
}

impl Lease {
    /// Takes over a lease of the core.
    pub fn new(core: quorlock::Lease) -> Lease {
        Lease {
            core: Arc::new(core),
            watch: Mutex::new(None),
            kept: AtomicBool::new(false),
            releasing: AtomicBool::new(false),
        }
    }
}

#[pymethods]
impl Lease {
    #[getter]
    fn name(&self) -> &str {
        self.core.name()
    }

    #[getter]
    fn fence(&self) -> u64 {
        self.core.fence()
    }

    #[getter]
    fn held(&self) -> bool {
        self.core.held()
    }

    #[getter]
    fn remaining(&self) -> f64 {
        self.core.remaining().as_secs_f64()
    }

    #[getter]
    fn released(&self) -> bool {
        self.core.released()
    }

    #[getter]
    fn lost_reason(&self) -> Option<&'static str> {
        self.core.lost_reason().map(|reason| reason.name())
    }

    fn ensure_held(&self, py: Python<'_>) -> PyResult<()> {
        self.core.ensure_held().map_err(|error| errors::to_python(py, error))
    }

    fn confirm(&self) -> Call {
        let lease = self.core.clone();
        Call::new(async move { lease.confirm().await }, |py, ()| Ok(py.None()))
    }

    fn extend(&self, ttl: Bound<'_, PyAny>) -> PyResult<Call> {
        let ttl = convert::duration_or_none("ttl", &ttl)?;
        let lease = self.core.clone();
        Ok(Call::new(async move { lease.extend(ttl).await }, |py, left| left.as_secs_f64().into_py_any(py)))
    }

    fn release(&self) -> Call {
        self.releasing.store(true, Ordering::Relaxed);
        let lease = self.core.clone();
        Call::new(async move { lease.release().await }, |py, released| released.into_py_any(py)).unstoppable()
    }

    fn wait_lost(&self, timeout: Bound<'_, PyAny>) -> PyResult<Call> {
        let timeout = convert::duration_or_none("timeout", &timeout)?;
        let lease = self.core.clone();
        let lost = async move { Ok(lease.wait_lost(timeout).await?.is_some()) };
        Ok(Call::new(lost, |py, lost| lost.into_py_any(py)))
    }

    /// Settles `future` with the reason when the lease is lost.
    fn watch(&self, queue: &Queue, future: Bound<'_, PyAny>) {
        let (ticket, reply) = queue.watch(future.unbind());
        self.core.on_lost(Some(Box::new(move |reason| reply.send(Box::new(move |py| reason.name().into_py_any(py))))));
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
    }

    /// Ends `watch`: its future is not settled any more.
    fn unwatch(&self) {
        if let Some(ticket) = self.watch.lock().unwrap_or_else(PoisonError::into_inner).take() {
            ticket.cancel();
            self.core.on_lost(None);
        }
    }

    /// The program has received it. An attribute, since Python looks for Ctrl-C after every call.
    #[setter]
    fn set_kept(&self, kept: bool) {
        self.kept.store(kept, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let kept = *self.kept.get_mut() && !*self.releasing.get_mut();
        if kept && self.core.held() {
            self.core.abandon();
            Python::attach(|py| {
                let text =
                    format!("the quorlock lease {:?} was never released; it ends with its TTL", self.core.name());
                let text = CString::new(text).unwrap_or_default();
                if let Err(error) = PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}
