//! What a core error looks like to JavaScript, which makes a `QuorlockError` of it.

use napi_derive::napi;
use quorlock::{Error, ErrorKind};

/// The parts of an error: plain data, because only JavaScript can make an instance of a JavaScript class.
#[napi(object)]
pub struct Failure {
    /// The stable code: `QUORLOCK_BUSY`, …
    pub code: String,
    /// The kind's name: `busy`, …
    pub kind: String,
    /// The whole text: name, cause, effort and what each server said. Core keeps secrets out of it.
    pub message: String,
    /// The lock's name, if the error is about one.
    pub lock_name: Option<String>,
    /// What each server said in the last round.
    pub servers: Vec<ServerCause>,
    /// How many rounds were tried.
    pub attempts: u32,
    /// Milliseconds that the call took.
    pub elapsed: f64,
    /// For a write whose reply is missing: whether it took effect.
    pub outcome: Option<String>,
}

/// What one server said.
#[napi(object)]
pub struct ServerCause {
    /// `host:port` or the socket's path; never the password.
    pub address: String,
    /// The cause, in words.
    pub cause: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            code: code(error.kind()).to_owned(),
            kind: error.kind().name().to_owned(),
            message: error.to_string(),
            lock_name: error.name().map(str::to_owned),
            servers: error
                .servers()
                .iter()
                .map(|s| ServerCause { address: s.address.clone(), cause: s.cause.clone() })
                .collect(),
            attempts: error.attempts(),
            elapsed: error.elapsed().as_secs_f64() * 1000.0,
            outcome: error.outcome().map(|o| o.name().to_owned()),
        }
    }
}

/// The one table of Node's codes. Without a wildcard arm: a new kind does not compile until it has one.
fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Busy => "QUORLOCK_BUSY",
        ErrorKind::Lost => "QUORLOCK_LOST",
        ErrorKind::Unavailable => "QUORLOCK_UNAVAILABLE",
        ErrorKind::Stale => "QUORLOCK_STALE",
        ErrorKind::Conflict => "QUORLOCK_CONFLICT",
        ErrorKind::Refused => "QUORLOCK_REFUSED",
        ErrorKind::Invalid => "QUORLOCK_INVALID",
        ErrorKind::Closed => "QUORLOCK_CLOSED",
        ErrorKind::Internal => "QUORLOCK_INTERNAL",
        ErrorKind::Cancelled => "ABORT_ERR",
    }
}
