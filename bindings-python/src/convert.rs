//! From Python's values to the core's. A value of the wrong type is Invalid like any other wrong value, and named.
//!
//! `...` (Ellipsis) is how the Python side says "not given": `None` is a value of its own (`wait=None`: no limit).

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyFloat, PyInt, PyString};
use quorlock::{Error, Unit, Wait};
use std::time::Duration;

/// The exception for a value that `parameter` does not take.
fn wrong(parameter: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string());
    errors::to_python(value.py(), Error::invalid(parameter, shown, format_args!("must be {expected}")))
}

/// Runs `read` unless the value was not given.
fn given<'py, T>(
    value: &Bound<'py, PyAny>,
    read: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    if value.is(value.py().Ellipsis()) { Ok(None) } else { read(value).map(Some) }
}

/// Seconds (an int or a float) or a timedelta.
pub fn duration(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let expected = "seconds (an int or a float) or a timedelta";
    if value.is_instance_of::<PyBool>() {
        return Err(wrong(parameter, value, expected));
    }
    let seconds = if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() {
        // Only an int beyond the largest float fails here.
        value.extract::<f64>().map_err(|_| wrong(parameter, value, "at most a year, in seconds"))?
    } else if value.is_instance_of::<PyDelta>() {
        value.call_method0("total_seconds")?.extract()?
    } else {
        return Err(wrong(parameter, value, expected));
    };
    quorlock::duration(parameter, seconds, Unit::Seconds).map_err(|error| errors::to_python(value.py(), error))
}

/// A duration, or nothing if it was not given.
pub fn optional_duration(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    given(value, |value| duration(parameter, value))
}

/// A duration, or `None` for "without".
pub fn duration_or_none(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<Duration>> {
    if value.is_none() { Ok(None) } else { duration(parameter, value).map(Some) }
}

/// The `wait` option: `None` is no limit.
pub fn wait(value: &Bound<'_, PyAny>) -> PyResult<Option<Wait>> {
    given(value, |value| Ok(duration_or_none("wait", value)?.map_or(Wait::Forever, Wait::For)))
}

/// A fraction.
pub fn optional_fraction(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    given(value, |value| {
        let number =
            !value.is_instance_of::<PyBool>() && (value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>());
        let fraction = if number { value.extract::<f64>().ok() } else { None };
        fraction.ok_or_else(|| wrong(parameter, value, "a number"))
    })
}

/// True or False, and nothing that merely counts as such.
pub fn optional_bool(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    given(value, |value| {
        value.cast::<PyBool>().map(|flag| flag.is_true()).map_err(|_| wrong(parameter, value, "True or False"))
    })
}

/// A str.
pub fn text(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text = value.cast::<PyString>().map_err(|_| wrong(parameter, value, "a str"))?;
    // A lone surrogate has no UTF-8 form.
    text.to_str().map(str::to_owned).map_err(|_| wrong(parameter, value, "text without lone surrogates"))
}

/// A str, or nothing if it was not given.
pub fn optional_text(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    given(value, |value| text(parameter, value))
}

/// A str, or `None` for "without".
pub fn text_or_none(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() { Ok(None) } else { text(parameter, value).map(Some) }
}

/// A path (a str or an `os.PathLike`), or `None` for "without".
pub fn path_or_none(parameter: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() {
        return Ok(None);
    }
    let path = match value.call_method0("__fspath__") {
        Ok(path) => path,
        Err(_) => value.clone(),
    };
    path.cast::<PyString>().map_err(|_| wrong(parameter, value, "a path (a str or an os.PathLike)"))?;
    text(parameter, &path).map(Some)
}

/// One URL (a str) or several (an iterable of str). A wrong value is not shown: a URL may hold a password.
pub fn urls(value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Ok(vec![text("urls", value)?]);
    }
    let refuse = || {
        let shown = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        errors::to_python(value.py(), Error::invalid("urls", shown, "must be a str or a list of str"))
    };
    let mut urls = Vec::new();
    for url in value.try_iter().map_err(|_| refuse())? {
        urls.push(url?.cast::<PyString>().map_err(|_| refuse())?.to_str().map_err(|_| refuse())?.to_owned());
    }
    Ok(urls)
}
