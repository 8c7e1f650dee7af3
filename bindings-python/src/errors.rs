//! The table of exceptions. The classes themselves are Python's (`quorlock/_errors.py`), so that they pickle.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorlock::{Error, ErrorKind};

/// Where the exception of a kind lives. Without a wildcard: a new kind must find its class before this compiles.
fn class(kind: ErrorKind) -> (&'static str, &'static str) {
    let name = match kind {
        ErrorKind::Busy => "LockBusyError",
        ErrorKind::Lost => "LockLostError",
        ErrorKind::Unavailable => "UnavailableError",
        ErrorKind::Stale => "StaleFenceError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Refused => "ServerRefusedError",
        ErrorKind::Invalid => "InvalidArgumentError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Internal => "InternalError",
        ErrorKind::Cancelled => return ("asyncio", "CancelledError"),
    };
    ("quorlock._errors", name)
}

/// The exception that says what `error` says.
pub fn to_python(py: Python<'_>, error: Error) -> PyErr {
    build(py, &error).unwrap_or_else(|failure| failure)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (module, name) = class(error.kind());
    let class = py.import(module)?.getattr(name)?;
    let text = error.to_string();
    if error.kind() == ErrorKind::Cancelled {
        return Ok(PyErr::from_value(class.call1((text,))?));
    }
    let servers: Vec<_> = error.servers().iter().map(|s| (s.address.as_str(), s.cause.as_str())).collect();
    let details = PyDict::new(py);
    details.set_item(intern!(py, "name"), error.name())?;
    details.set_item(intern!(py, "servers"), servers)?;
    details.set_item(intern!(py, "attempts"), error.attempts())?;
    details.set_item(intern!(py, "elapsed"), error.elapsed().as_secs_f64())?;
    details.set_item(intern!(py, "outcome"), error.outcome().map(|outcome| outcome.name()))?;
    Ok(PyErr::from_value(class.call((text,), Some(&details))?))
}
