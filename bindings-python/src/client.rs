//! The native client and lock. Python's `Client`, `AsyncClient` and their locks are built around them.

use crate::call::Call;
use crate::convert;
use crate::errors;
use crate::lease::Lease;
use crate::stats;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use quorlock::{ClientOptions, LockOptions};
use std::time::{SystemTime, UNIX_EPOCH};

/// A client of the core.
#[pyclass(frozen, module = "quorlock._quorlock")]
pub struct Client(quorlock::Client);

/// A lock of the core: a name and how to take it.
#[pyclass(frozen, module = "quorlock._quorlock")]
pub struct Lock(quorlock::Lock);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (urls, *, ttl, wait, label, server_timeout, drift, prefix, exact_keys, claim_window, ca_file, client_cert, client_key))]
    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn new(
        py: Python<'_>,
        urls: Bound<'_, PyAny>,
        ttl: Bound<'_, PyAny>,
        wait: Bound<'_, PyAny>,
        label: Bound<'_, PyAny>,
        server_timeout: Bound<'_, PyAny>,
        drift: Bound<'_, PyAny>,
        prefix: Bound<'_, PyAny>,
        exact_keys: Bound<'_, PyAny>,
        claim_window: Bound<'_, PyAny>,
        ca_file: Bound<'_, PyAny>,
        client_cert: Bound<'_, PyAny>,
        client_key: Bound<'_, PyAny>,
    ) -> PyResult<Client> {
        let options = ClientOptions {
            ttl: convert::optional_duration("ttl", &ttl)?,
            wait: convert::wait(&wait)?,
            label: convert::text_or_none("label", &label)?,
            server_timeout: convert::optional_duration("server_timeout", &server_timeout)?,
            drift: convert::optional_fraction("drift", &drift)?,
            prefix: convert::optional_text("prefix", &prefix)?,
            exact_keys: convert::optional_bool("exact_keys", &exact_keys)?,
            claim_window: convert::optional_duration("claim_window", &claim_window)?,
            ca_file: convert::path_or_none("ca_file", &ca_file)?,
            client_cert: convert::path_or_none("client_cert", &client_cert)?,
            client_key: convert::path_or_none("client_key", &client_key)?,
            language: Some("python"),
        };
        let client = quorlock::Client::with_options(convert::urls(&urls)?, options);
        client.map(Client).map_err(|error| errors::to_python(py, error))
    }

    #[expect(clippy::too_many_arguments, reason = "Python's keyword arguments")]
    fn lock(
        &self,
        py: Python<'_>,
        name: Bound<'_, PyAny>,
        ttl: Bound<'_, PyAny>,
        wait: Bound<'_, PyAny>,
        renew: Bound<'_, PyAny>,
        max_hold: Bound<'_, PyAny>,
        label: Bound<'_, PyAny>,
    ) -> PyResult<Lock> {
        let name = convert::text("name", &name)?;
        let options = LockOptions {
            ttl: convert::optional_duration("ttl", &ttl)?,
            wait: convert::wait(&wait)?,
            renew: convert::optional_bool("renew", &renew)?,
            max_hold: convert::duration_or_none("max_hold", &max_hold)?,
            label: convert::text_or_none("label", &label)?,
        };
        self.0.lock_with(name, options).map(Lock).map_err(|error| errors::to_python(py, error))
    }

    fn ping(&self, timeout: Bound<'_, PyAny>) -> PyResult<Call> {
        let timeout = convert::duration("timeout", &timeout)?;
        let client = self.0.clone();
        Ok(Call::new(async move { client.ping(timeout).await }, |py, servers| {
            let rows = servers.into_iter().map(|server| match server.answer {
                Ok(latency) => (server.address, Some(latency.as_secs_f64()), None),
                Err(cause) => (server.address, None, Some(cause)),
            });
            rows.collect::<Vec<_>>().into_py_any(py)
        }))
    }

    fn inspect(&self, name: Bound<'_, PyAny>) -> PyResult<Call> {
        let (client, name) = (self.0.clone(), convert::text("name", &name)?);
        Ok(Call::new(async move { client.inspect(&name).await }, |py, lock| {
            let since = |since: SystemTime| since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let holder = lock.holder.map(|h| (h.host, h.pid, h.language, h.version, h.since.map(since), h.label));
            (lock.held, lock.remaining.as_secs_f64(), holder, lock.waiters, lock.fence).into_py_any(py)
        }))
    }

    fn break_lock(&self, name: Bound<'_, PyAny>) -> PyResult<Call> {
        let (client, name) = (self.0.clone(), convert::text("name", &name)?);
        Ok(Call::new(async move { client.break_lock(&name).await }, |py, fence| fence.into_py_any(py)).unstoppable())
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        stats::to_python(py, &self.0.stats())
    }

    fn close(&self, drain: Bound<'_, PyAny>) -> PyResult<Call> {
        let drain = convert::duration("drain", &drain)?;
        let client = self.0.clone();
        Ok(Call::new(async move { client.close(drain).await }, |py, ()| Ok(py.None())).unstoppable())
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.0.addresses()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.closed()
    }
}

#[pymethods]
impl Lock {
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn acquire(&self) -> Call {
        let lock = self.0.clone();
        Call::new(async move { lock.acquire().await }, |py, lease| Lease::new(lease).into_py_any(py))
    }

    fn try_acquire(&self) -> Call {
        let lock = self.0.clone();
        Call::new(async move { lock.try_acquire().await }, |py, lease| lease.map(Lease::new).into_py_any(py))
    }
}
