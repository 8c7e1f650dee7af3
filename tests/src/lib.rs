//! Real servers and faulty links for tests.
//!
//! [`Server`] is a redis-server that starts on a free port, freezes, dies and comes back. [`Proxy`] stands between it
//! and a client: it delays, cuts, swallows, refuses. [`Monitor`] tells what clients have sent. Everything that these
//! start ends when they are dropped, and with the process. The command `quorlock-testbed` gives all of it to tests in
//! other languages; [`words`] is the syntax that it shares with the conformance scenarios.
//!
//! All calls block and panic on surprise: they are for tests, and the clients under test have threads of their own.

mod monitor;
mod process;
mod proxy;
mod resp;
mod server;
pub mod words;

pub use monitor::{Monitor, Seen, Source};
pub use process::{Dialogue, Process, boot_time, eventually};
pub use proxy::Proxy;
pub use resp::{Connection, Reply};
pub use server::Server;

/// Milliseconds.
pub const fn ms(count: u64) -> std::time::Duration {
    std::time::Duration::from_millis(count)
}

/// How many waiters stand in the queue of the lock `name`.
pub fn waiting(server: &Server, name: &str) -> i64 {
    server.cmd(&["ZCARD", &format!("lock:{{{name}}}:queue")]).as_i64().expect("a number")
}

/// What is left of locks on a server: all but fences and the registrations of clients.
pub fn left(server: &Server) -> Vec<String> {
    let mut keys = server.keys("lock:*");
    keys.retain(|key| !key.ends_with(":fence") && !key.starts_with("lock:client:"));
    keys
}

/// Options of a client whose limit for one server is as long as locks with this TTL allow, at most a second: on a
/// loaded machine even a server that is well may take longer than the usual 50 ms to answer.
pub fn patient(ttl: std::time::Duration) -> quorlock::ClientOptions {
    quorlock::ClientOptions { server_timeout: Some((ttl / 2).min(ms(1000))), ..Default::default() }
}
