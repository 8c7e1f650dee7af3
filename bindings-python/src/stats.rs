//! The counters of a client, as tuples in the order of Python's `Stats`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use quorlock::{Histogram, Stats};
use std::time::Duration;

type Seconds = (Vec<f64>, Vec<u64>, u64, f64);

fn histogram(histogram: &Histogram) -> Seconds {
    let seconds = |ms| Duration::from_millis(ms).as_secs_f64();
    let bounds = Histogram::BOUNDS_MS.map(seconds).to_vec();
    (bounds, histogram.counts.to_vec(), histogram.count, seconds(histogram.sum_ms))
}

/// The numbers, the losses by reason, both histograms, the servers.
pub fn to_python(py: Python<'_>, stats: &Stats) -> PyResult<Py<PyAny>> {
    let numbers = (
        stats.waiting,
        stats.holding,
        stats.attempts,
        stats.acquired,
        stats.busy,
        stats.unavailable,
        stats.refused,
        stats.cancelled,
        stats.released,
        stats.abandoned,
    );
    let lost = PyDict::new(py);
    lost.set_item("expired", stats.lost.expired)?;
    lost.set_item("taken", stats.lost.taken)?;
    lost.set_item("max_hold", stats.lost.max_hold)?;
    lost.set_item("closed", stats.lost.closed)?;
    let servers: Vec<_> = stats.servers.iter().map(|s| (s.address.as_str(), s.calls, s.failures)).collect();
    let all = (numbers, lost, histogram(&stats.wait), histogram(&stats.hold), servers);
    Ok(all.into_pyobject(py)?.into_any().unbind())
}
