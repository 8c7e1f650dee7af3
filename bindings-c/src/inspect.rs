//! Seeing who holds a lock, and taking it away.

use crate::client::quorlock_client;
use crate::error::{quorlock_status, status};
use crate::ffi::{c_string, output, required, text};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// A lock as the servers see it, for people: it may have changed when you read this. What is not known of the holder is
/// NULL or 0: all but the label, if another library holds the lock.
#[repr(C)]
pub struct quorlock_lock_info {
    /// 1 if somebody holds it: on a quorum, the same owner on a majority of the servers.
    pub held: u32,
    /// The holder's process id on its machine.
    pub holder_pid: u32,
    /// For how long they will keep it, if it is not renewed; 0 if it is not held.
    pub remaining_ms: u64,
    /// How many stand in its queue, in all processes; those who can only poll do not.
    pub waiters: u64,
    /// The largest fencing token given out so far; 0 if there was none for a day.
    pub fence: u64,
    /// When the holder's client came into use, by its own clock: milliseconds since 1970.
    pub holder_since_ms: u64,
    /// The name of the holder's machine (of its container).
    pub holder_host: *const c_char,
    /// "rust", "python", "node" or "c".
    pub holder_language: *const c_char,
    /// The version of quorlock that the holder uses.
    pub holder_version: *const c_char,
    /// The label of the lock.
    pub label: *const c_char,
}

/// Takes what quorlock_client_inspect found. The struct and its strings live during the call.
pub type quorlock_inspect_fn = Option<unsafe extern "C" fn(user: *mut c_void, lock: *const quorlock_lock_info)>;

/// Asks who holds the lock `name`, for how long, and how many wait; changes nothing. Then calls `found` once, on this
/// thread. QUORLOCK_UNAVAILABLE, QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED: `found` is not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_inspect(
    client: Option<&quorlock_client>,
    name: *const c_char,
    found: quorlock_inspect_fn,
    user: *mut c_void,
) -> quorlock_status {
    status(|| {
        let found = required("found", found)?;
        // SAFETY: the caller gives a string that ends in NUL.
        let lock = required("client", client)?.0.inspect(unsafe { text("name", name) }?)?;
        let holder = lock.holder.unwrap_or_default();
        let since = |since: SystemTime| since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let texts = [holder.host, holder.language, holder.version, holder.label].map(|text| text.map(c_string));
        let [host, language, version, label] =
            texts.each_ref().map(|text| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr()));
        let info = quorlock_lock_info {
            held: u32::from(lock.held),
            holder_pid: holder.pid.unwrap_or_default(),
            remaining_ms: u64::try_from(lock.remaining.as_millis()).unwrap_or(u64::MAX),
            waiters: lock.waiters,
            fence: lock.fence.unwrap_or_default(),
            holder_since_ms: holder.since.map(since).and_then(|ms| u64::try_from(ms).ok()).unwrap_or_default(),
            holder_host: host,
            holder_language: language,
            holder_version: version,
            label,
        };
        // SAFETY: a function of this type, as the caller says; the struct and its strings outlive the call.
        unsafe { found(user, &raw const info) };
        Ok(())
    })
}

/// Frees the lock `name` whoever holds it, and hands it to the first waiter. `fence` gets a new fencing token: above that
/// of every lease so far, and below that of every later one. The holder's lease is lost at its next renewal.
/// QUORLOCK_UNAVAILABLE (it may have happened), QUORLOCK_REFUSED, QUORLOCK_INVALID, QUORLOCK_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_client_break_lock(
    client: Option<&quorlock_client>,
    name: *const c_char,
    fence: Option<&mut MaybeUninit<u64>>,
) -> quorlock_status {
    status(|| {
        let fence = output("fence", fence, 0)?;
        // SAFETY: the caller gives a string that ends in NUL.
        *fence = required("client", client)?.0.break_lock(unsafe { text("name", name) }?)?;
        Ok(())
    })
}
