//! Where a server is and how to enter it: a checked URL.

use crate::error::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// One server's endpoint and credentials. Shown without user and password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub place: Place,
    pub username: Option<String>,
    pub password: Option<String>,
    pub db: i64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

impl Place {
    /// Whether the two lead to one server, with TLS or without.
    pub(crate) fn same_server(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Tcp { host: a, port: p, .. }, Place::Tcp { host: b, port: q, .. }) => a == b && p == q,
            (Place::Unix(a), Place::Unix(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Address {
    /// Whether it is reached through TLS.
    pub(crate) fn tls(&self) -> bool {
        matches!(self.place, Place::Tcp { tls: true, .. })
    }

    /// Reads `redis://[user][:password@]host[:port][/db]`, with `rediss`, `valkey`, `valkeys` likewise, and
    /// `unix:///path[?db=N&user=…&pass=…]`.
    ///
    /// # Errors
    /// Invalid. The message shows the URL without its credentials.
    pub(crate) fn parse(text: &str) -> Result<Address> {
        let shown = hide_credentials(text);
        let refuse = |why: &str| Err(Error::invalid("url", format_args!("{shown:?}"), why));
        let Ok(url) = url::Url::parse(text) else {
            return refuse("is not a URL such as redis://host:6379/0");
        };
        let decode = |s: &str| percent_decode(s);
        let mut username = Some(decode(url.username())).filter(|u| !u.is_empty());
        let mut password = url.password().map(decode);
        let mut db = None;
        for (key, value) in url.query_pairs() {
            match &*key {
                "db" => db = Some(value.into_owned()),
                "user" => username = Some(value.into_owned()),
                "pass" => password = Some(value.into_owned()),
                "protocol" => {} // the protocol is negotiated
                _ => return refuse("has a query parameter other than db, user and pass"),
            }
        }
        let place = match url.scheme() {
            scheme @ ("redis" | "rediss" | "valkey" | "valkeys") => {
                let Some(host) = url.host_str().filter(|h| !h.is_empty()) else { return refuse("has no host") };
                if url.port() == Some(0) {
                    return refuse("has port 0");
                }
                if db.is_none() {
                    db = Some(url.path().trim_start_matches('/').trim_end_matches('/').to_owned())
                        .filter(|s| !s.is_empty());
                }
                let tls = scheme.ends_with("ss") || scheme == "valkeys";
                if tls && !cfg!(feature = "tls") {
                    return refuse("needs TLS, which this build leaves out");
                }
                let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
                Place::Tcp { host, port: url.port().unwrap_or(6379), tls }
            }
            "unix" | "redis+unix" | "valkey+unix" => {
                let path = decode(url.path());
                if path.is_empty() || url.host_str().is_some_and(|h| !h.is_empty()) {
                    return refuse("must have an absolute path: unix:///path/to/socket");
                }
                Place::Unix(PathBuf::from(path))
            }
            _ => return refuse("must begin with redis://, rediss://, valkey://, valkeys:// or unix://"),
        };
        let db = match db.as_deref().map(str::parse::<i64>) {
            None => 0,
            Some(Ok(n)) if n >= 0 => n,
            Some(_) => return refuse("has a database that is not a number from 0"),
        };
        Ok(Address { place, username, password, db })
    }
}

/// The text without user, password and query, as far as a text that may be no URL shows where they are.
fn hide_credentials(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or((String::new(), text), |(s, rest)| (format!("{s}://"), rest));
    let shown = match (rest.rfind('@'), rest.find('?')) {
        // An @ behind a ? may belong to a password that was not escaped, or to one in the query.
        (Some(at), Some(query)) if query < at => "…",
        (Some(at), _) => &rest[at..],
        (None, _) => rest,
    };
    let shown = shown.split('?').next().unwrap_or_default();
    let hidden = if shown.starts_with('@') { "…" } else { "" };
    format!("{scheme}{hidden}{shown}")
}

fn percent_decode(text: &str) -> String {
    // `Url` leaves percent escapes as they are; its own query parser is the decoder that the crate offers.
    let escaped = text.replace('+', "%2B").replace('&', "%26");
    url::form_urlencoded::parse(escaped.as_bytes())
        .next()
        .map(|(k, v)| if v.is_empty() { k.into_owned() } else { format!("{k}={v}") })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn urls_of_every_scheme() {
        let a = Address::parse("redis://user:p%40ss@example.org:7000/5").unwrap();
        assert_eq!(a.place.to_string(), "example.org:7000");
        assert_eq!((a.username.as_deref(), a.password.as_deref(), a.db), (Some("user"), Some("p@ss"), 5));
        assert_eq!(Address::parse("valkey://[::1]").unwrap().place.to_string(), "[::1]:6379");
        assert!(matches!(Address::parse("rediss://h").unwrap().place, Place::Tcp { tls: true, .. }));
        let u = Address::parse("unix:///run/redis.sock?db=3&pass=a+b").unwrap();
        assert_eq!((u.place.to_string().as_str(), u.db), ("/run/redis.sock", 3));
        assert_eq!(Address::parse("redis://:a=b%26c+d@h").unwrap().password.as_deref(), Some("a=b&c+d"));
    }

    #[test]
    fn wrong_urls_are_invalid_and_show_no_secret() {
        for bad in [
            "",
            "localhost:6379",
            "http://user:geheim@h",
            "redis://",
            "redis://:geheim@h:99999",
            "redis://:geheim@h/x",
            "redis://h/-1",
            "redis://h:0",
            "unix://",
            "redis://h?tls=1",
            "redis://:gehe im@h x",
            "redis://:ge?heim@h",
            "user:geheim?x@h",
            "redis://h?pass=ge@heim&x=1",
            "geheim@h",
        ] {
            let e = Address::parse(bad).err().unwrap_or_else(|| panic!("{bad} was taken"));
            assert_eq!(e.kind(), ErrorKind::Invalid);
            assert!(!e.to_string().contains("gehe") && !e.to_string().contains("heim"), "{e}");
        }
    }
}
