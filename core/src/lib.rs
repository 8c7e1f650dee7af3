//! Distributed locks on Redis and Valkey: a tour of the crate.
//!
//! A [`Client`] knows one server, or several independent ones (a quorum). [`Client::lock`] names a lock and how to
//! take it; [`Lock::acquire`] gives a [`Lease`], which is renewed until it is released, dropped or lost. The lease
//! carries a [fencing token](Lease::fence) that a store can check, and says at once when it is [lost](Lease::lost).
//!
//! ```no_run
//! # async fn demo() -> quorlock::Result<()> {
//! use std::time::Duration;
//! let client = quorlock::Client::new("redis://localhost")?;
//! let lease = client.lock("orders/42").wait(Duration::from_secs(5)).acquire().await?;
//! println!("fencing token {}", lease.fence());
//! lease.release().await?;
//! # Ok(()) }
//! ```
//!
//! [`blocking`] has the same verbs for callers without a runtime. [`bridge`] and [`log`] serve the bindings.

mod acquire;
mod address;
mod answer;
mod ballot;
mod break_lock;
mod callback;
mod channels;
mod client;
mod clock;
mod dial;
mod driver;
mod error;
mod handover;
mod hold;
mod inspect;
mod lease;
mod limit;
mod lock;
mod options;
mod quorum;
mod registration;
mod renew;
mod round;
mod runtime;
mod script;
mod server;
mod stats;
#[cfg(feature = "tls")]
mod tls;
mod token;
mod turns;
mod wait;

pub mod blocking;
pub mod bridge;
pub mod log;

pub use client::{Client, IntoUrls, ServerStatus};
pub use error::{Error, ErrorKind, Outcome, Result, ServerReport};
pub use inspect::{Holder, LockInfo};
pub use lease::{Lease, LostReason};
pub use lock::Lock;
pub use options::{ClientOptions, LockOptions, MAX_DURATION, MAX_LABEL_BYTES, MAX_NAME_BYTES, Unit, Wait, duration};
pub use stats::{Histogram, Losses, ServerStats, Stats};

/// The version of this crate and of every package made from it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
