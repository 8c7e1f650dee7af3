//! What servers answer, and what their errors mean to a lock.

use redis::{RedisError, Value};

/// A script's answer: integers, and whether it was sent more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub numbers: Vec<i64>,
    pub resent: bool,
}

impl Reply {
    /// The first number: each script's result code.
    pub(crate) fn code(&self) -> i64 {
        self.numbers.first().copied().unwrap_or_default()
    }
}

/// Why a server gave no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// In words, without secrets.
    pub cause: String,
    /// It said no for good: rights, password, type.
    pub for_good: bool,
    /// The request was sent and no answer came: it may have happened, or may yet.
    pub maybe_applied: bool,
}

impl Failure {
    pub(crate) fn not_sent(cause: impl Into<String>) -> Failure {
        Failure { cause: cause.into(), for_good: false, maybe_applied: false }
    }

    pub(crate) fn unanswered(cause: impl Into<String>) -> Failure {
        Failure { cause: cause.into(), for_good: false, maybe_applied: true }
    }

    pub(crate) fn unexpected(reply: &Reply) -> Failure {
        Failure::unanswered(format!("unexpected reply {:?}", reply.numbers))
    }
}

/// A reply, read.
pub(crate) enum Answer {
    Numbers(Vec<i64>),
    NoScript,
    Failed(Failure),
    Broken,
}

pub(crate) fn read(answer: Result<Value, RedisError>) -> Answer {
    let error = match answer {
        Ok(Value::Int(n)) => return Answer::Numbers(vec![n]),
        Ok(Value::Array(items)) => {
            return Answer::Numbers(
                items
                    .into_iter()
                    .map(|v| match v {
                        Value::Int(n) => n,
                        _ => i64::MIN,
                    })
                    .collect(),
            );
        }
        Ok(Value::ServerError(e)) => RedisError::from(e),
        Ok(_) => return Answer::Failed(Failure::unanswered("a reply of an unexpected type")),
        Err(e) => e,
    };
    match error.code() {
        Some("NOSCRIPT") => Answer::NoScript,
        Some(_) => Answer::Failed(classify(&error)),
        None => Answer::Broken,
    }
}

/// Whether the error came from a server rather than from the way to it.
pub(crate) fn reached(e: &RedisError) -> bool {
    e.code().is_some() || e.is_connection_dropped()
}

/// Errors that no retry mends.
pub(crate) fn refuses(e: &RedisError) -> bool {
    matches!(
        e.code(),
        Some(
            "WRONGPASS"
                | "NOAUTH"
                | "NOPERM"
                | "WRONGTYPE"
                | "NOTALOCK"
                | "NOTAFENCE"
                | "FENCEEXHAUSTED"
                | "MOVED"
                | "ASK"
                | "CROSSSLOT"
        )
    ) || matches!(e.kind(), redis::ErrorKind::AuthenticationFailed)
}

/// An error in words. The server's own text says most; secrets are in none of them.
pub(crate) fn classify(e: &RedisError) -> Failure {
    let code = e.code();
    let detail = e.detail().unwrap_or_default();
    // A script's error ends in where it happened, which helps nobody.
    let detail = detail.split(" script: ").next().unwrap_or_default().trim();
    // An unknown command comes with its arguments: a password (HELLO, AUTH) or an owner token.
    let detail = detail.split(", with args beginning with").next().unwrap_or_default();
    let cause = match (code, detail.split_once(' ')) {
        (Some("NOTALOCK"), Some((kind, key))) => format!("key {key:?} holds a {kind}, not a lock"),
        (Some("NOTAFENCE"), Some((kind, key))) => format!("key {key:?} holds a {kind}, not a fence"),
        (Some("FENCEEXHAUSTED"), _) => format!("fence exhausted: key {detail:?} has reached 2^53 - 1"),
        (Some("MOVED" | "ASK"), _) => {
            format!("cluster redirect ({} {detail}): this is a node of a cluster", code.unwrap_or_default())
        }
        (Some("WRONGPASS"), _) => "wrong user or password".to_owned(),
        (Some("NOAUTH"), _) => "a password is needed".to_owned(),
        (Some("ERR"), _) if detail.is_empty() => "error".to_owned(),
        (Some("ERR"), _) => detail.to_owned(),
        (Some(code), _) => format!("{code} {detail}").trim_end().to_owned(),
        (None, _) if e.is_connection_refusal() => "connection refused".to_owned(),
        (None, _) if matches!(e.kind(), redis::ErrorKind::AuthenticationFailed) => "wrong user or password".to_owned(),
        (None, _) if e.is_connection_dropped() => "the server closed the connection".to_owned(),
        (None, _) => e.to_string(),
    };
    // A script's ACL failure, and a server that cannot run scripts, come under a general code.
    let impossible = cause.contains("can't run this command")
        || cause.contains("ACL failure")
        || cause.contains("No permissions")
        || cause.contains("unknown command");
    Failure { cause, for_good: refuses(e) || impossible, maybe_applied: false }
}
