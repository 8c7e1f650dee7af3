//! What can go wrong, told by what the caller should do about it.
//!
//! [`ErrorKind`] is the one table that every binding maps from, without a wildcard arm: a new kind does not
//! compile until each language has a name for it. A kind exists only where a caller would act differently;
//! the text says the rest, and never contains a password or an owner token.

use std::fmt;
use std::time::Duration;

/// What a caller should do. Numbers are the C status codes, and are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ErrorKind {
    /// Others held the lock for the whole wait: try later.
    Busy = 1,
    /// The lease is over (expired, or taken by others): stop the protected work.
    Lost = 2,
    /// Too few servers answered usefully in time: retry with back-off.
    Unavailable = 3,
    /// A store refused our fencing token: stop, a newer holder exists.
    Stale = 4,
    /// A value kept changing and the retries are spent: read again, decide again.
    Conflict = 5,
    /// The servers said no for good (rights, password, type of the key, fence exhausted): mend the server or the key.
    Refused = 6,
    /// A wrong argument or option; nothing was sent: mend the code.
    Invalid = 7,
    /// The client is closed, the lease is released already, or it was acquired in another process: make a new one.
    Closed = 8,
    /// A bug of ours: report it.
    Internal = 9,
    /// The caller ended the wait. Each language shows its own form of this.
    Cancelled = 10,
}

impl ErrorKind {
    /// Every kind, in the order of the numbers.
    pub const ALL: [ErrorKind; 10] = [
        ErrorKind::Busy,
        ErrorKind::Lost,
        ErrorKind::Unavailable,
        ErrorKind::Stale,
        ErrorKind::Conflict,
        ErrorKind::Refused,
        ErrorKind::Invalid,
        ErrorKind::Closed,
        ErrorKind::Internal,
        ErrorKind::Cancelled,
    ];

    /// The stable name, as in the conformance scenarios: `busy`, `lost`, …
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Busy => "busy",
            ErrorKind::Lost => "lost",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Stale => "stale",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Refused => "refused",
            ErrorKind::Invalid => "invalid",
            ErrorKind::Closed => "closed",
            ErrorKind::Internal => "internal",
            ErrorKind::Cancelled => "cancelled",
        }
    }
}

/// Whether a write whose reply is missing took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was never sent, or the server refused it.
    NotApplied,
    /// It was sent and no reply came: it may have happened.
    Unknown,
}

impl Outcome {
    /// `not applied` or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::NotApplied => "not applied",
            Outcome::Unknown => "unknown",
        }
    }
}

/// What one server said in the last round of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// `host:port` or the socket's path; never the password.
    pub address: String,
    /// The cause, in words: `connection refused`, `no answer within 50 ms`, `held by others`, …
    pub cause: String,
}

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error with its [kind](ErrorKind) and all that is known about it.
#[derive(Debug, Clone)]
pub struct Error(Box<Details>);

#[derive(Debug, Clone)]
struct Details {
    kind: ErrorKind,
    message: String,
    name: Option<String>,
    servers: Vec<ServerReport>,
    attempts: u32,
    elapsed: Duration,
    outcome: Option<Outcome>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Details {
            kind,
            message: message.into(),
            name: None,
            servers: Vec::new(),
            attempts: 0,
            elapsed: Duration::ZERO,
            outcome: None,
        }))
    }

    /// The Invalid error for a parameter and the value it was given.
    pub fn invalid(parameter: &str, value: impl fmt::Display, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Invalid, format!("{parameter} = {value}: {why}"))
    }

    pub(crate) fn with_name(mut self, name: &str) -> Error {
        self.0.name = Some(name.to_owned());
        self
    }

    pub(crate) fn with_servers(mut self, servers: Vec<ServerReport>) -> Error {
        self.0.servers = servers;
        self
    }

    pub(crate) fn with_effort(mut self, attempts: u32, elapsed: Duration) -> Error {
        self.0.attempts = attempts;
        self.0.elapsed = elapsed;
        self
    }

    pub(crate) fn with_outcome(mut self, outcome: Outcome) -> Error {
        self.0.outcome = Some(outcome);
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence without name, servers and effort.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The lock's name, if the error is about one.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// What each server said in the last round; empty if none was asked.
    pub fn servers(&self) -> &[ServerReport] {
        &self.0.servers
    }

    /// How many rounds were tried.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// How long the call took.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed
    }

    /// For a write whose reply is missing: whether it took effect.
    pub fn outcome(&self) -> Option<Outcome> {
        self.0.outcome
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &*self.0;
        if let Some(name) = &d.name {
            write!(f, "{name:?}: ")?;
        }
        f.write_str(&d.message)?;
        if d.attempts > 0 {
            let plural = if d.attempts == 1 { "attempt" } else { "attempts" };
            write!(f, " ({} {plural} in {} ms", d.attempts, d.elapsed.as_millis())?;
            for s in &d.servers {
                write!(f, "; {}: {}", s.address, s.cause)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
