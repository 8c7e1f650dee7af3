//! What servers answer, and what their errors mean to a lock.

use redis::{RedisError, Value};

/// A script's answer: numbers, texts and nils.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    items: Vec<Value>,
    /// The script was sent more than once, so it may have run more than once.
    pub resent: bool,
}

impl Reply {
    pub(crate) fn new(items: Vec<Value>, resent: bool) -> Reply {
        Reply { items, resent }
    }

    /// The first number: the result code of a script that has one. No script's, if there is none.
    pub(crate) fn code(&self) -> i64 {
        self.number(0).unwrap_or(i64::MIN)
    }

    /// The number at this place.
    pub(crate) fn number(&self, place: usize) -> Option<i64> {
        match self.items.get(place) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// The text at this place; what is not UTF-8 in it is replaced.
    pub(crate) fn text(&self, place: usize) -> Option<String> {
        match self.items.get(place) {
            Some(Value::BulkString(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
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
        Failure::unanswered(format!("unexpected reply {:?}", reply.items))
    }
}

/// A reply, read.
pub(crate) enum Answer {
    Items(Vec<Value>),
    NoScript,
    Failed(Failure),
    Broken,
}

pub(crate) fn read(answer: Result<Value, RedisError>) -> Answer {
    let error = match answer {
        Ok(number @ Value::Int(_)) => return Answer::Items(vec![number]),
        Ok(Value::Array(items)) => return Answer::Items(items),
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

/// Whether the server has as many clients as it takes.
pub(crate) fn full(e: &RedisError) -> bool {
    e.detail().is_some_and(|detail| detail.contains("max number of clients"))
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
                | "NOTAQUEUE"
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
        (Some("NOTAQUEUE"), Some((kind, key))) => format!("key {key:?} holds a {kind}, not a queue"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_numbers_texts_and_nils() {
        let items = vec![Value::Int(7), Value::BulkString(b"f\xffx".to_vec()), Value::Nil];
        let Answer::Items(items) = read(Ok(Value::Array(items))) else { panic!("not read") };
        let reply = Reply::new(items, false);
        assert_eq!((reply.code(), reply.number(0), reply.text(0)), (7, Some(7), None));
        assert_eq!((reply.number(1), reply.text(1)), (None, Some("f\u{fffd}x".to_owned())));
        assert_eq!((reply.number(2), reply.text(2)), (None, None));
        assert_eq!((reply.number(3), reply.text(3)), (None, None));
    }

    #[test]
    fn a_reply_without_a_number_has_no_code_of_a_script() {
        for items in [vec![], vec![Value::Nil], vec![Value::BulkString(b"1".to_vec())]] {
            assert!(![1, 0, -1].contains(&Reply::new(items, false).code()));
        }
        assert!(matches!(read(Ok(Value::Nil)), Answer::Failed(_)));
    }
}
