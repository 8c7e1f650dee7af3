//! The examples are the programs in `src/bin`. This library only lets rustdoc compile the Rust blocks of the README.
#![doc = include_str!("../../../README.md")]
