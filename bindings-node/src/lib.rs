//! The native half of the npm package `quorlock`: it converts, calls core, and converts back.
//!
//! The other half is JavaScript (`../lib`): classes, promises, AbortSignals and types. Between the two only numbers,
//! strings and the handles of [`client::Client`] and [`lease::Lease`] travel, by positional arguments, because each
//! property that native code reads or writes costs another crossing. This half has no public promises.
//!
//! Without it there is nothing to load; without the JavaScript half there are no errors, only [`error::Failure`]s.

mod client;
mod error;
mod events;
mod lease;
mod port;
mod stats;

use napi::bindgen_prelude::ClassInstance;
use napi_derive::napi;
use quorlock::bridge;

/// The version of the core, and so of the package.
#[napi]
pub const VERSION: &str = quorlock::VERSION;

/// For the end of the process: closes all its clients, within the core's budget for that.
#[napi(catch_unwind)]
pub fn close_all() {
    bridge::close_all(bridge::EXIT_BUDGET);
}

/// For the end of a worker thread: closes its clients, within the same budget.
#[napi(catch_unwind)]
pub fn close_clients(clients: Vec<ClassInstance<client::Client>>) {
    let clients: Vec<_> = clients.iter().map(|client| client.core()).collect();
    bridge::close_clients(&clients, bridge::EXIT_BUDGET);
}
