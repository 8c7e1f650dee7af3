//! The version.

use std::ffi::c_char;

/// The version of the library as "MAJOR.MINOR.PATCH". Compare it with QUORLOCK_VERSION, that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
