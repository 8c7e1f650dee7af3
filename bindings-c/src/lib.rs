//! libquorlock: the C door into quorlock.
//!
//! Every exported function is: convert, call one function of the core's blocking API, convert back; all of it inside
//! [`error::boundary`], so that no panic ever reaches C. The contract with callers is the header's first comment
//! (`cbindgen.toml`), and the only `unsafe` in the package is what follows from it: reading strings, options and
//! buffers where the caller says that they are.
//!
//! Ownership is in the types of the signatures, so that the compiler checks it. `Option<&T>` borrows a handle for the
//! call, `Option<Box<T>>` takes it back and frees it, `Option<&mut MaybeUninit<Option<Box<T>>>>` is where a new one
//! goes; each of them is a plain pointer in C, and NULL is `None`.
//!
//! Enums are returned but never accepted: an integer that is no variant would be undefined behaviour before we could
//! check it.
#![allow(unsafe_code, non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod error;
mod ffi;
mod inspect;
mod lease;
mod log;
mod options;
mod stats;
mod version;
