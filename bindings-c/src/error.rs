//! Status codes, the panic boundary, and the last error of a thread.

use crate::ffi::{copy_out, whole_ms};
use crate::lease::quorlock_lost_reason;
use core_::{Error, ErrorKind, Outcome, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What came of a call. The numbers stay as they are; new ones may be added.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum quorlock_status {
    /// It worked.
    QUORLOCK_OK = 0,
    /// Others held the lock for the whole wait: try later.
    QUORLOCK_BUSY = 1,
    /// The lease is over, expired or taken by others: stop the protected work.
    QUORLOCK_LOST = 2,
    /// Too few servers answered usefully in time: retry with back-off.
    QUORLOCK_UNAVAILABLE = 3,
    /// A store refused our fencing token: stop, a newer holder exists.
    QUORLOCK_STALE = 4,
    /// A value kept changing and the retries are spent: read again, decide again.
    QUORLOCK_CONFLICT = 5,
    /// The servers said no for good (rights, password, type of the key): mend the server or the key.
    QUORLOCK_REFUSED = 6,
    /// A wrong argument or option; nothing was sent: mend the code.
    QUORLOCK_INVALID = 7,
    /// The client is closed, the lease is released already, or it was acquired in another process.
    QUORLOCK_CLOSED = 8,
    /// A bug of ours: report it.
    QUORLOCK_INTERNAL = 9,
    /// quorlock_client_interrupt ended the wait.
    QUORLOCK_CANCELLED = 10,
}

/// For a write whose reply is missing: whether it took effect.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum quorlock_outcome {
    /// The error is not about a write.
    #[default]
    QUORLOCK_OUTCOME_NONE = 0,
    /// It was never sent, or the server refused it.
    QUORLOCK_OUTCOME_NOT_APPLIED = 1,
    /// It was sent and no reply came: it may have happened.
    QUORLOCK_OUTCOME_UNKNOWN = 2,
}

use quorlock_outcome::*;
use quorlock_status::*;

impl From<ErrorKind> for quorlock_status {
    fn from(kind: ErrorKind) -> quorlock_status {
        match kind {
            ErrorKind::Busy => QUORLOCK_BUSY,
            ErrorKind::Lost => QUORLOCK_LOST,
            ErrorKind::Unavailable => QUORLOCK_UNAVAILABLE,
            ErrorKind::Stale => QUORLOCK_STALE,
            ErrorKind::Conflict => QUORLOCK_CONFLICT,
            ErrorKind::Refused => QUORLOCK_REFUSED,
            ErrorKind::Invalid => QUORLOCK_INVALID,
            ErrorKind::Closed => QUORLOCK_CLOSED,
            ErrorKind::Internal => QUORLOCK_INTERNAL,
            ErrorKind::Cancelled => QUORLOCK_CANCELLED,
        }
    }
}

thread_local! {
    static LAST: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// What an exported function gives.
pub(crate) trait Answer {
    /// The value that says that `error` happened.
    fn failed(error: &Error) -> Self;
}
impl Answer for quorlock_status {
    fn failed(error: &Error) -> quorlock_status {
        error.kind().into()
    }
}
/// A function that gives a plain value has no room for more than its zero.
macro_rules! zero_when_failed {
    ($($t:ty),*) => { $(impl Answer for $t { fn failed(_: &Error) -> $t { <$t>::default() } })* };
}
zero_when_failed!((), bool, u32, u64, usize, quorlock_outcome, quorlock_lost_reason);

/// Runs the body of an exported function: an error or a panic becomes this thread's last error and the answer
/// for it.
pub(crate) fn boundary<T: Answer>(body: impl FnOnce() -> Result<T>) -> T {
    let body = || {
        #[cfg(feature = "test-panic")]
        test_panic();
        body()
    };
    // A handle is never left half changed: what changes is behind the core's own locks and channels.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(internal(panic.as_ref())));
    result.unwrap_or_else(|error| {
        let answer = T::failed(&error);
        // Fails only while the thread ends, when nobody can ask any more.
        let _ = LAST.try_with(|last| last.replace(Some(error)));
        answer
    })
}

/// As [`boundary`], for the many functions whose success has no value but the status.
pub(crate) fn status(body: impl FnOnce() -> Result<()>) -> quorlock_status {
    boundary(|| body().map(|()| QUORLOCK_OK))
}

fn internal(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::new(ErrorKind::Internal, format!("a bug in quorlock: {}", text.unwrap_or("panic without a text")))
}

#[cfg(feature = "test-panic")]
#[allow(clippy::panic)]
fn test_panic() {
    if std::env::var_os("QUORLOCK_TEST_PANIC").is_some() {
        panic!("induced by QUORLOCK_TEST_PANIC");
    }
}

/// A part of this thread's last error.
fn last<T>(part: impl FnOnce(&Error) -> Option<T>) -> Option<T> {
    LAST.try_with(|last| last.borrow().as_ref().and_then(part)).ok().flatten()
}

/// The status of the last failure on this thread; QUORLOCK_OK if there was none. A success leaves the last
/// error as it is, like errno.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_last_error_status() -> quorlock_status {
    boundary(|| Ok(last(|e| Some(e.kind().into())).unwrap_or(QUORLOCK_OK)))
}

/// The text of the last failure on this thread: what happened, the lock's name, the effort, and what each
/// server said; "" if there was none. It is for people; programs look at the functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_last_error_message(buf: *mut c_char, len: usize) -> usize {
    let text = || last(|e| Some(e.to_string())).unwrap_or_default();
    // SAFETY: the caller gives `len` writable bytes, or NULL.
    boundary(|| Ok(unsafe { copy_out(&text(), buf, len) }))
}

/// The name of the lock that the last error is about; "" if it is about none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_last_error_name(buf: *mut c_char, len: usize) -> usize {
    let text = || last(|e| e.name().map(str::to_owned)).unwrap_or_default();
    // SAFETY: the caller gives `len` writable bytes, or NULL.
    boundary(|| Ok(unsafe { copy_out(&text(), buf, len) }))
}

/// How many rounds of asking the servers the failed call tried.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_last_error_attempts() -> u32 {
    boundary(|| Ok(last(|e| Some(e.attempts())).unwrap_or(0)))
}

/// How long the failed call took.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_last_error_elapsed_ms() -> u32 {
    boundary(|| Ok(last(|e| Some(whole_ms(e.elapsed()))).unwrap_or(0)))
}

/// For a write whose reply is missing: whether it took effect.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_last_error_outcome() -> quorlock_outcome {
    boundary(|| {
        Ok(match last(Error::outcome) {
            None => QUORLOCK_OUTCOME_NONE,
            Some(Outcome::NotApplied) => QUORLOCK_OUTCOME_NOT_APPLIED,
            Some(Outcome::Unknown) => QUORLOCK_OUTCOME_UNKNOWN,
        })
    })
}

/// How many servers the last error tells about.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_last_error_server_count() -> usize {
    boundary(|| Ok(last(|e| Some(e.servers().len())).unwrap_or(0)))
}

/// The address of server number `index` (from 0) of the last error: host:port or a socket's path, never a
/// password; "" if there are not so many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_last_error_server_address(index: usize, buf: *mut c_char, len: usize) -> usize {
    let text = || last(|e| e.servers().get(index).map(|s| s.address.clone())).unwrap_or_default();
    // SAFETY: the caller gives `len` writable bytes, or NULL.
    boundary(|| Ok(unsafe { copy_out(&text(), buf, len) }))
}

/// What server number `index` (from 0) of the last error said, or why it said nothing; "" if there are not so
/// many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_last_error_server_cause(index: usize, buf: *mut c_char, len: usize) -> usize {
    let text = || last(|e| e.servers().get(index).map(|s| s.cause.clone())).unwrap_or_default();
    // SAFETY: the caller gives `len` writable bytes, or NULL.
    boundary(|| Ok(unsafe { copy_out(&text(), buf, len) }))
}

/// The name of a status: "ok", "busy", "lost", ... "unknown" for a number that is none. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_status_name(status: i32) -> *const c_char {
    let known =
        [QUORLOCK_OK].into_iter().chain(ErrorKind::ALL.map(quorlock_status::from)).find(|s| *s as i32 == status);
    known.map_or(c"unknown", name).as_ptr()
}

fn name(status: quorlock_status) -> &'static CStr {
    match status {
        QUORLOCK_OK => c"ok",
        QUORLOCK_BUSY => c"busy",
        QUORLOCK_LOST => c"lost",
        QUORLOCK_UNAVAILABLE => c"unavailable",
        QUORLOCK_STALE => c"stale",
        QUORLOCK_CONFLICT => c"conflict",
        QUORLOCK_REFUSED => c"refused",
        QUORLOCK_INVALID => c"invalid",
        QUORLOCK_CLOSED => c"closed",
        QUORLOCK_INTERNAL => c"internal",
        QUORLOCK_CANCELLED => c"cancelled",
    }
}
