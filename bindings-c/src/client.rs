//! The client: its life, and taking locks.

use crate::error::{boundary, quorlock_status, status};
use crate::ffi::{c_string, output, required, text, text_n, texts};
use crate::lease::quorlock_lease;
use crate::options::{client_options, limit, lock_options, quorlock_client_options, quorlock_lock_options};
use core_::blocking::Client;
use core_::{LockOptions, Result, Wait};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// Its servers, and the entry to everything.
pub struct quorlock_client(pub(crate) Client);

/// Makes a client of `n` URLs, without I/O: one is one server; three or more are a quorum of independent
/// servers. redis://[user:password@]host[:port][/db], rediss:// (TLS), unix:///path/to/socket. `options` may be
/// NULL. QUORLOCK_INVALID for a bad URL or option, or the same address twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_new(
    urls: *const *const c_char,
    n: usize,
    options: *const quorlock_client_options,
    client: Option<&mut MaybeUninit<Option<Box<quorlock_client>>>>,
) -> quorlock_status {
    status(|| {
        let client = output("client", client, None)?;
        // SAFETY: the caller gives `n` strings that end in NUL.
        let urls = unsafe { texts("urls", urls, n) }?;
        // SAFETY: the caller gives NULL, or a struct that begins with its size.
        let options = unsafe { client_options(options) }?;
        *client = Some(Box::new(quorlock_client(Client::with_options(urls.as_slice(), options)?)));
        Ok(())
    })
}

/// Frees the client. Leases of it go on, renewed, until they are released or freed; quorlock_client_close ends
/// them.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_free(client: Option<Box<quorlock_client>>) {
    boundary(|| {
        drop(client);
        Ok(())
    })
}

/// Takes the lock `name`, waiting as the options say (NULL: as the client's say). QUORLOCK_OK gives a lease, to
/// be released and freed. QUORLOCK_BUSY: others held it for the whole wait. QUORLOCK_UNAVAILABLE: too few
/// servers answered. QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED; QUORLOCK_CANCELLED after
/// quorlock_client_interrupt. Whatever ends it, a failed call leaves no lock behind. Signals do not end the
/// wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_acquire(
    client: Option<&quorlock_client>,
    name: *const c_char,
    options: *const quorlock_lock_options,
    lease: Option<&mut MaybeUninit<Option<Box<quorlock_lease>>>>,
) -> quorlock_status {
    status(|| {
        let lease = output("lease", lease, None)?;
        // SAFETY: the caller gives a string that ends in NUL.
        let name = unsafe { text("name", name) }?;
        // SAFETY: the caller gives NULL, or a struct that begins with its size.
        acquire(client, name, unsafe { lock_options(options) }?, lease)
    })
}

/// As quorlock_client_acquire, with a name of `name_len` bytes that need not end in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_acquire_n(
    client: Option<&quorlock_client>,
    name: *const c_char,
    name_len: usize,
    options: *const quorlock_lock_options,
    lease: Option<&mut MaybeUninit<Option<Box<quorlock_lease>>>>,
) -> quorlock_status {
    status(|| {
        let lease = output("lease", lease, None)?;
        // SAFETY: the caller gives `name_len` bytes.
        let name = unsafe { text_n("name", name, name_len) }?;
        // SAFETY: the caller gives NULL, or a struct that begins with its size.
        acquire(client, name, unsafe { lock_options(options) }?, lease)
    })
}

/// As quorlock_client_acquire, but tries once, whatever wait_ms says. QUORLOCK_BUSY if others hold the lock: an
/// outcome to expect. QUORLOCK_OK always means that you hold it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_try_acquire(
    client: Option<&quorlock_client>,
    name: *const c_char,
    options: *const quorlock_lock_options,
    lease: Option<&mut MaybeUninit<Option<Box<quorlock_lease>>>>,
) -> quorlock_status {
    status(|| {
        let lease = output("lease", lease, None)?;
        // SAFETY: the caller gives a string that ends in NUL.
        let name = unsafe { text("name", name) }?;
        // SAFETY: the caller gives NULL, or a struct that begins with its size.
        let options = unsafe { lock_options(options) }?;
        // In C the status is the value, so Busy with its details says more than the core's `None`.
        acquire(client, name, LockOptions { wait: Some(Wait::For(Duration::ZERO)), ..options }, lease)
    })
}

fn acquire(
    client: Option<&quorlock_client>,
    name: &str,
    options: LockOptions,
    lease: &mut Option<Box<quorlock_lease>>,
) -> Result<()> {
    let lock = required("client", client)?.0.lock_with(name, options)?;
    *lease = Some(Box::new(quorlock_lease(lock.acquire()?)));
    Ok(())
}

/// What quorlock_client_ping tells of one server: its address (host:port or a socket's path, never a password),
/// and either the round trip in microseconds with `cause` NULL, or why there was no answer. The strings live
/// during the call.
pub type quorlock_ping_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, address: *const c_char, round_trip_us: u64, cause: *const c_char)>;

/// Asks every server for a sign of life, in parallel, for at most `timeout_ms`; then calls `each` for one after
/// the other, in the order of the URLs, on this thread. QUORLOCK_OK even if none answered: count in `each`. A
/// readiness probe.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_ping(
    client: Option<&quorlock_client>,
    timeout_ms: u32,
    each: quorlock_ping_fn,
    user: *mut c_void,
) -> quorlock_status {
    status(|| {
        let each = required("each", each)?;
        for server in required("client", client)?.0.ping(limit(timeout_ms))? {
            let address = c_string(server.address);
            let (round_trip, cause) = match server.answer {
                Ok(time) => (u64::try_from(time.as_micros()).unwrap_or(u64::MAX), None),
                Err(cause) => (0, Some(c_string(cause))),
            };
            let cause = cause.as_ref().map_or(std::ptr::null(), |cause| cause.as_ptr());
            // SAFETY: a function of this type, as the caller says; the strings outlive the call.
            unsafe { each(user, address.as_ptr(), round_trip, cause) };
        }
        Ok(())
    })
}

/// Refuses new calls and ends waits (QUORLOCK_CLOSED), waits up to `drain_ms` for holders to finish, tells
/// those left that their lease is lost, and releases it. Handles stay valid until they are freed.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_close(client: Option<&quorlock_client>, drain_ms: u32) -> quorlock_status {
    status(|| required("client", client)?.0.close(limit(drain_ms)))
}

/// Ends the waits of the moment, in all threads, with QUORLOCK_CANCELLED; later calls are as before. On Linux it may be
/// called in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_interrupt(client: Option<&quorlock_client>) {
    boundary(|| {
        // NULL is no error here: recording one would allocate, which a signal handler must not.
        if let Some(client) = client {
            client.0.interrupt();
        }
        Ok(())
    })
}
