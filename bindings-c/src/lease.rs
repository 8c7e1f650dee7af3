//! The lease: what its holder may know and do.

use crate::error::{boundary, quorlock_status, status};
use crate::ffi::{User, copy_out, required, whole_ms};
use crate::options::{QUORLOCK_FOREVER, duration};
use core_::blocking::Lease;
use core_::{Error, ErrorKind, LostReason};
use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// A lock that is held, until it is released, lost or freed.
pub struct quorlock_lease(pub(crate) Lease);

/// Why a lease was lost.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub enum quorlock_lost_reason {
    /// It is not lost.
    #[default]
    QUORLOCK_REASON_NONE = 0,
    /// Its deadline passed without a confirmed renewal.
    QUORLOCK_REASON_EXPIRED = 1,
    /// The servers say that it is not ours any more.
    QUORLOCK_REASON_TAKEN = 2,
    /// max_hold_ms is over.
    QUORLOCK_REASON_MAX_HOLD = 3,
    /// The client was closed while it was held.
    QUORLOCK_REASON_CLOSED = 4,
}
use quorlock_lost_reason::*;

impl From<Option<LostReason>> for quorlock_lost_reason {
    fn from(reason: Option<LostReason>) -> quorlock_lost_reason {
        match reason {
            None => QUORLOCK_REASON_NONE,
            Some(LostReason::Expired) => QUORLOCK_REASON_EXPIRED,
            Some(LostReason::Taken) => QUORLOCK_REASON_TAKEN,
            Some(LostReason::MaxHold) => QUORLOCK_REASON_MAX_HOLD,
            Some(LostReason::Closed) => QUORLOCK_REASON_CLOSED,
        }
    }
}

/// Frees the lease. One that is still held is released in the background; in a forked child nothing is done. No
/// on_lost callback runs after this returned. It may be called in that callback.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_free(lease: Option<Box<quorlock_lease>>) {
    boundary(|| {
        drop(lease);
        Ok(())
    })
}

/// The fencing token: below 2^53, and larger than that of every earlier lease of the name. Give it to the store
/// with each write, and let the store refuse a smaller one than it has seen. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_fence(lease: Option<&quorlock_lease>) -> u64 {
    boundary(|| Ok(required("lease", lease)?.0.fence()))
}

/// The lock's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorlock_lease_name(lease: Option<&quorlock_lease>, buf: *mut c_char, len: usize) -> usize {
    // SAFETY: the caller gives `len` writable bytes, or NULL.
    boundary(|| Ok(unsafe { copy_out(required("lease", lease)?.0.name(), buf, len) }))
}

/// Whether it is still held, by the local clock, which runs through suspend. Free: no network.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_held(lease: Option<&quorlock_lease>) -> bool {
    boundary(|| Ok(required("lease", lease)?.0.held()))
}

/// How long it may still be relied on, by the local clock; 0 once released, lost, or in another process. Free.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_remaining_ms(lease: Option<&quorlock_lease>) -> u32 {
    boundary(|| Ok(whole_ms(required("lease", lease)?.0.remaining())))
}

/// QUORLOCK_OK while it is held; QUORLOCK_LOST; QUORLOCK_CLOSED if it was released, or acquired in another
/// process. Free.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_ensure_held(lease: Option<&quorlock_lease>) -> quorlock_status {
    status(|| required("lease", lease)?.0.ensure_held())
}

/// Why it was lost; QUORLOCK_REASON_NONE if it was not.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_lost_reason(lease: Option<&quorlock_lease>) -> quorlock_lost_reason {
    boundary(|| Ok(required("lease", lease)?.0.as_async().lost_reason().into()))
}

/// Asks the servers whether it is still ours; prolongs nothing. QUORLOCK_LOST, QUORLOCK_UNAVAILABLE or
/// QUORLOCK_CLOSED otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_confirm(lease: Option<&quorlock_lease>) -> quorlock_status {
    status(|| required("lease", lease)?.0.confirm())
}

/// Sets the remaining time to `ttl_ms` from now (never adds); QUORLOCK_DEFAULT for the lease's own TTL.
/// `remaining_ms` gets the new remaining time, and may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_extend(
    lease: Option<&quorlock_lease>,
    ttl_ms: u32,
    remaining_ms: Option<&mut MaybeUninit<u32>>,
) -> quorlock_status {
    status(|| {
        let mut ignored = MaybeUninit::uninit();
        let out = remaining_ms.unwrap_or(&mut ignored).write(0);
        *out = whole_ms(required("lease", lease)?.0.extend(duration("ttl_ms", ttl_ms)?)?);
        Ok(())
    })
}

/// Releases the lock and keeps the handle, which is still to be freed. QUORLOCK_OK: this call released it.
/// QUORLOCK_CLOSED: it was released before. QUORLOCK_LOST: it was lost; the lock of whoever has it now is not
/// touched.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_release(lease: Option<&quorlock_lease>) -> quorlock_status {
    status(|| {
        let lease = &required("lease", lease)?.0;
        match lease.release()? {
            true => Ok(()),
            // OK must mean "by this call", also when two threads release at once: so `false` is a status here.
            false => Err(Error::new(ErrorKind::Closed, format!("{:?} was released before", lease.name()))),
        }
    })
}

/// Waits for the loss of the lease, at most `timeout_ms` (or QUORLOCK_FOREVER). `reason` gets one of
/// quorlock_lost_reason: QUORLOCK_REASON_NONE if it is not lost by then, or was released meanwhile. It may be
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_wait_lost(
    lease: Option<&quorlock_lease>,
    timeout_ms: u32,
    reason: Option<&mut MaybeUninit<quorlock_lost_reason>>,
) -> quorlock_status {
    status(|| {
        let mut ignored = MaybeUninit::uninit();
        let out = reason.unwrap_or(&mut ignored).write(QUORLOCK_REASON_NONE);
        let timeout = (timeout_ms != QUORLOCK_FOREVER).then(|| Duration::from_millis(timeout_ms.into()));
        *out = required("lease", lease)?.0.wait_lost(timeout)?.into();
        Ok(())
    })
}

/// What is called when a lease is lost; `reason` is one of quorlock_lost_reason.
pub type quorlock_lost_fn = Option<unsafe extern "C" fn(user: *mut c_void, reason: c_int)>;

/// Calls `callback` once when the lease is lost (soon, if it is lost already), on a thread of the library or on one that
/// waits in a call of it. It replaces the previous callback; NULL only removes it. After this returned, the previous one
/// does not run any more, unless this was called inside of it. Not called after a release.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lease_on_lost(
    lease: Option<&quorlock_lease>,
    callback: quorlock_lost_fn,
    user: *mut c_void,
) -> quorlock_status {
    status(|| {
        let user = User::new(user);
        let callback = callback.map(|callback| -> Box<dyn FnOnce(LostReason) + Send> {
            // SAFETY: a function of this type, as the caller says; `user` is whatever the caller wants to see again.
            Box::new(move |reason| unsafe {
                callback(user.pointer(), quorlock_lost_reason::from(Some(reason)) as c_int)
            })
        });
        required("lease", lease)?.0.as_async().on_lost(callback);
        Ok(())
    })
}
