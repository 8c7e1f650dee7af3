//! The options structs. A field that was left at QUORLOCK_DEFAULT or NULL goes down as `None`: the core fills it.

use crate::error::{quorlock_status, status};
use crate::ffi::{optional_text, required};
use core_::{ClientOptions, Error, LockOptions, MAX_DURATION, Result, Wait};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::time::Duration;

/// No limit, where a duration may be without one.
pub const QUORLOCK_FOREVER: u32 = 0xFFFF_FFFF;

/// In any numeric field, and as the ttl_ms of quorlock_lease_extend: the default.
pub const QUORLOCK_DEFAULT: u32 = 0xFFFF_FFFE;

/// How to take a lock. Begin with QUORLOCK_LOCK_OPTIONS_INIT (or quorlock_lock_options_init) and set what you
/// want.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_lock_options {
    /// sizeof(quorlock_lock_options): tells which fields your program knows.
    pub size: usize,
    /// How long the servers keep the lock without renewal: at least twice server_timeout_ms. Default: that of
    /// the client.
    pub ttl_ms: u32,
    /// How long an acquire may take in all; 0 tries once, QUORLOCK_FOREVER has no limit. Default: that of the
    /// client.
    pub wait_ms: u32,
    /// 1 renews the lease at every third of its TTL; 0 lets it end. Default: 1.
    pub renew: u32,
    /// Renewal stops this long after the grant, and the lease is lost. Default: QUORLOCK_FOREVER.
    pub max_hold_ms: u32,
    /// A text for people, at most 256 bytes, shown in errors and events; NULL for that of the client.
    pub label: *const c_char,
}

/// Options of a client. Begin with QUORLOCK_CLIENT_OPTIONS_INIT (or quorlock_client_options_init).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct quorlock_client_options {
    /// sizeof(quorlock_client_options): tells which fields your program knows.
    pub size: usize,
    /// TTL of its locks. Default: 30000.
    pub ttl_ms: u32,
    /// Wait of its locks. Default: QUORLOCK_FOREVER.
    pub wait_ms: u32,
    /// Limit for one server and one call. Default: 50. Raise it for TLS or far servers.
    pub server_timeout_ms: u32,
    /// 1: the lock's key is the name itself, shared with other libraries that use a plain string key. Default:
    /// 0.
    pub exact_keys: u32,
    /// How long a waiter to whom the lock is handed may take to claim it. Default: 1000.
    pub claim_window_ms: u32,
    /// Part of the TTL set aside for clocks that run at different rates, from 0 to 0.5. Default: 0.01.
    pub drift: f64,
    /// Label of its locks; NULL for none.
    pub label: *const c_char,
    /// What every key begins with, without braces; NULL for "lock:".
    pub prefix: *const c_char,
    /// PEM file with the certificate authorities to trust (with rediss://); NULL for those of the system.
    pub ca_file: *const c_char,
    /// PEM file with the client's certificate, or NULL.
    pub client_cert: *const c_char,
    /// PEM file with the client's private key, or NULL.
    pub client_key: *const c_char,
}

/// Sets every field to its default, as QUORLOCK_LOCK_OPTIONS_INIT does.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_lock_options_init(
    options: Option<&mut MaybeUninit<quorlock_lock_options>>,
) -> quorlock_status {
    status(|| {
        required("options", options)?.write(quorlock_lock_options {
            size: size_of::<quorlock_lock_options>(),
            ttl_ms: QUORLOCK_DEFAULT,
            wait_ms: QUORLOCK_DEFAULT,
            renew: QUORLOCK_DEFAULT,
            max_hold_ms: QUORLOCK_DEFAULT,
            label: std::ptr::null(),
        });
        Ok(())
    })
}

/// Sets every field to its default, as QUORLOCK_CLIENT_OPTIONS_INIT does.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_options_init(
    options: Option<&mut MaybeUninit<quorlock_client_options>>,
) -> quorlock_status {
    status(|| {
        required("options", options)?.write(quorlock_client_options {
            size: size_of::<quorlock_client_options>(),
            ttl_ms: QUORLOCK_DEFAULT,
            wait_ms: QUORLOCK_DEFAULT,
            server_timeout_ms: QUORLOCK_DEFAULT,
            exact_keys: QUORLOCK_DEFAULT,
            claim_window_ms: QUORLOCK_DEFAULT,
            drift: f64::from(QUORLOCK_DEFAULT),
            label: std::ptr::null(),
            prefix: std::ptr::null(),
            ca_file: std::ptr::null(),
            client_cert: std::ptr::null(),
            client_key: std::ptr::null(),
        });
        Ok(())
    })
}

/// # Safety
/// `options` is NULL, or points to what its first field, the size, says; its strings are as in
/// [`optional_text`].
pub(crate) unsafe fn lock_options(options: *const quorlock_lock_options) -> Result<LockOptions> {
    // SAFETY: as promised to this function.
    let Some(o) = (unsafe { read(options, options.cast()) })? else { return Ok(LockOptions::default()) };
    Ok(LockOptions {
        ttl: duration("ttl_ms", o.ttl_ms)?,
        wait: wait(o.wait_ms),
        renew: flag("renew", o.renew)?,
        max_hold: if o.max_hold_ms == QUORLOCK_FOREVER { None } else { duration("max_hold_ms", o.max_hold_ms)? },
        // SAFETY: as promised to this function.
        label: unsafe { optional_text("label", o.label) }?,
    })
}

/// # Safety
/// As [`lock_options`].
pub(crate) unsafe fn client_options(options: *const quorlock_client_options) -> Result<ClientOptions> {
    let defaults = ClientOptions { language: Some("c"), ..ClientOptions::default() };
    // SAFETY: as promised to this function.
    let Some(o) = (unsafe { read(options, options.cast()) })? else { return Ok(defaults) };
    // SAFETY: as promised to this function, for each of the strings.
    let text = |parameter, text| unsafe { optional_text(parameter, text) };
    Ok(ClientOptions {
        ttl: duration("ttl_ms", o.ttl_ms)?,
        wait: wait(o.wait_ms),
        server_timeout: duration("server_timeout_ms", o.server_timeout_ms)?,
        exact_keys: flag("exact_keys", o.exact_keys)?,
        claim_window: duration("claim_window_ms", o.claim_window_ms)?,
        drift: Some(o.drift).filter(|drift| *drift != f64::from(QUORLOCK_DEFAULT)),
        label: text("label", o.label)?,
        prefix: text("prefix", o.prefix)?,
        ca_file: text("ca_file", o.ca_file)?,
        client_cert: text("client_cert", o.client_cert)?,
        client_key: text("client_key", o.client_key)?,
        ..defaults
    })
}

/// Reads a struct whose first field is its size. There is one version of each struct so far; a later one will
/// accept the sizes of its earlier versions and fill in what they lack.
///
/// # Safety
/// `options` and `size` are the same pointer: NULL, or to as many bytes as `size` says.
unsafe fn read<T: Copy>(options: *const T, size: *const usize) -> Result<Option<T>> {
    if options.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, and a struct of any version begins with its size.
    let size = unsafe { size.read() };
    if size != size_of::<T>() {
        let why = format!("is not the {} bytes that this library knows; begin with _INIT", size_of::<T>());
        return Err(Error::invalid("options.size", size, why));
    }
    // SAFETY: the caller says that there are `size` bytes.
    Ok(Some(unsafe { options.read() }))
}

/// A duration that must have an end.
pub(crate) fn duration(parameter: &str, ms: u32) -> Result<Option<Duration>> {
    match ms {
        QUORLOCK_DEFAULT => Ok(None),
        QUORLOCK_FOREVER => Err(Error::invalid(parameter, "QUORLOCK_FOREVER", "needs an end")),
        ms => Ok(Some(Duration::from_millis(ms.into()))),
    }
}

/// A duration that may be without an end: the longest that the core takes.
pub(crate) fn limit(ms: u32) -> Duration {
    if ms == QUORLOCK_FOREVER { MAX_DURATION } else { Duration::from_millis(ms.into()) }
}

fn wait(ms: u32) -> Option<Wait> {
    match ms {
        QUORLOCK_DEFAULT => None,
        QUORLOCK_FOREVER => Some(Wait::Forever),
        ms => Some(Wait::For(Duration::from_millis(ms.into()))),
    }
}

fn flag(parameter: &str, value: u32) -> Result<Option<bool>> {
    match value {
        0 => Ok(Some(false)),
        1 => Ok(Some(true)),
        QUORLOCK_DEFAULT => Ok(None),
        other => Err(Error::invalid(parameter, other, "must be 0, 1 or QUORLOCK_DEFAULT")),
    }
}
