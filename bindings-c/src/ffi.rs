//! Strings, buffers and pointers across the border. Each `unsafe fn` states what it takes from the header's contract.

use core_::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

/// The Invalid error for a NULL that is not allowed.
pub(crate) fn null(parameter: &str) -> Error {
    Error::invalid(parameter, "NULL", "must not be NULL")
}

/// The object behind a pointer, or Invalid.
pub(crate) fn required<T>(parameter: &str, pointer: Option<T>) -> Result<T> {
    pointer.ok_or_else(|| null(parameter))
}

/// An output of the caller, which may have held anything before, set to its `first` value; or Invalid for NULL.
pub(crate) fn output<'a, T>(parameter: &str, out: Option<&'a mut MaybeUninit<T>>, first: T) -> Result<&'a mut T> {
    required(parameter, out).map(|out| out.write(first))
}

/// A duration for C: whole milliseconds, the largest number if there are more.
pub(crate) fn whole_ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// A string that ends in NUL.
///
/// # Safety
/// `text` is NULL, or ends in NUL and stays as it is during `'a`.
pub(crate) unsafe fn text<'a>(parameter: &str, text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(parameter));
    }
    // SAFETY: not NULL, so it ends in NUL, as promised to this function.
    utf8(parameter, unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// A string that ends in NUL, copied; NULL is none.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text(parameter: &str, text: *const c_char) -> Result<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: what was promised to this function.
    unsafe { self::text(parameter, text) }.map(|text| Some(text.to_owned()))
}

/// A string of `len` bytes, which may contain NUL.
///
/// # Safety
/// `text` is NULL, or has `len` readable bytes that stay as they are during `'a`.
pub(crate) unsafe fn text_n<'a>(parameter: &str, text: *const c_char, len: usize) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(parameter));
    }
    if isize::try_from(len).is_err() {
        return Err(Error::invalid(parameter, format_args!("{len} bytes"), "is larger than the address space"));
    }
    // SAFETY: not NULL, so it has `len` bytes, as promised to this function; the limit of slices was checked.
    utf8(parameter, unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) })
}

/// An array of `n` strings that end in NUL.
///
/// # Safety
/// `texts` is NULL, or has `n` readable elements, each as in [`text`].
pub(crate) unsafe fn texts<'a>(parameter: &str, texts: *const *const c_char, n: usize) -> Result<Vec<&'a str>> {
    if texts.is_null() {
        return Err(null(parameter));
    }
    let name = |i| format!("{parameter}[{i}]");
    // SAFETY: `i` is below `n`, so the element is readable and as in `text`.
    (0..n).map(|i| unsafe { text(&name(i), *texts.add(i)) }).collect()
}

fn utf8<'a>(parameter: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|e| Error::invalid(parameter, format_args!("{:?}", String::from_utf8_lossy(bytes)), e))
}

/// Copies `text` to the buffer as snprintf does: cut at a whole character, ended by NUL if `len` is not 0. Gives the
/// full length of `text`.
///
/// # Safety
/// `buffer` is NULL (as `len` = 0), or has `len` writable bytes.
pub(crate) unsafe fn copy_out(text: &str, buffer: *mut c_char, len: usize) -> usize {
    if !buffer.is_null() && len > 0 {
        let fits = (0..=text.len().min(len - 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        // SAFETY: `fits` bytes of text and the NUL are at most `len`, and the caller's buffer is none of our strings.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast::<u8>(), fits);
            buffer.add(fits).write(0);
        }
    }
    text.len()
}

/// A string for a callback, without the NULs that a C string cannot have inside.
pub(crate) fn c_string(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    CString::new(bytes).unwrap_or_default()
}

/// What the caller wants to see again in a callback. We never look behind it.
#[derive(Clone, Copy)]
pub(crate) struct User(*mut c_void);

// SAFETY: it is only handed back. The header says that callbacks run on other threads, so what it points to
// is shared with that thread by the caller's own decision.
unsafe impl Send for User {}
// SAFETY: as above; the header says that log callbacks may run on several threads at once.
unsafe impl Sync for User {}

impl User {
    pub(crate) fn new(user: *mut c_void) -> User {
        User(user)
    }

    // A method, not the field, so that closures capture the whole (and thereby Send) value.
    pub(crate) fn pointer(self) -> *mut c_void {
        self.0
    }
}
