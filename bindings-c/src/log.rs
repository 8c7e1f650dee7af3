//! Events for the program's own log.

use crate::error::{quorlock_status, status};
use crate::ffi::{User, c_string};
use core_::log::{Event, Level, set_hook};
use std::ffi::{c_char, c_int, c_void};

/// How grave an event is.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum quorlock_log_level {
    /// For tracking down a fault.
    QUORLOCK_LOG_DEBUG = 1,
    /// Normal, but worth knowing.
    QUORLOCK_LOG_INFO = 2,
    /// Something that somebody should look at.
    QUORLOCK_LOG_WARN = 3,
    /// Something failed for good.
    QUORLOCK_LOG_ERROR = 4,
}

/// What is called for each event: `level` is one of quorlock_log_level; `message` is one line, such as
/// lease lost name=orders/42 fence=7 reason=expired, and lives during the call.
pub type quorlock_log_fn = Option<unsafe extern "C" fn(user: *mut c_void, level: c_int, message: *const c_char)>;

/// Sends every event of this process to `callback`, on whichever thread it happens, also on several at once. It
/// replaces the previous one; NULL only removes it. After this returned, the previous one does not run any more. Not
/// to be called in such a callback. A forked child has no callback until it sets its own.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_set_log(callback: quorlock_log_fn, user: *mut c_void) -> quorlock_status {
    status(|| {
        let user = User::new(user);
        let hook = callback.map(|callback| -> Box<dyn Fn(&Event) + Send + Sync> {
            Box::new(move |event| {
                let message = c_string(event.to_string());
                // SAFETY: a function of this type, as the caller says; the string outlives the call.
                unsafe { callback(user.pointer(), level(event.level) as c_int, message.as_ptr()) }
            })
        });
        set_hook(Level::Debug, hook);
        Ok(())
    })
}

fn level(level: Level) -> quorlock_log_level {
    match level {
        Level::Debug => quorlock_log_level::QUORLOCK_LOG_DEBUG,
        Level::Info => quorlock_log_level::QUORLOCK_LOG_INFO,
        Level::Warn => quorlock_log_level::QUORLOCK_LOG_WARN,
        Level::Error => quorlock_log_level::QUORLOCK_LOG_ERROR,
    }
}
