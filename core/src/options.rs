//! Every option, its default and its validation, once for all languages.
//!
//! Bindings pass what the caller gave as optionals; [`ClientOptions`] and [`LockOptions`] are filled and checked
//! here before anything is sent. A refused value is an [`Invalid`](crate::ErrorKind::Invalid) error that names the
//! parameter, the value in the caller's own unit, and what would be accepted.

use crate::error::{Error, Result};
use std::time::Duration;

/// How long an acquire may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// No limit: until it is acquired, or until too few servers have answered for longer than one TTL.
    #[default]
    Forever,
    /// At most this long for the whole call. Zero tries once.
    For(Duration),
}

impl From<Duration> for Wait {
    fn from(limit: Duration) -> Wait {
        Wait::For(limit)
    }
}

/// Options of a client. `None` means the default.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// Default TTL of its locks: 30 s. See [`LockOptions::ttl`].
    pub ttl: Option<Duration>,
    /// Default wait of its locks: no limit. See [`LockOptions::wait`].
    pub wait: Option<Wait>,
    /// Default label of its locks. See [`LockOptions::label`].
    pub label: Option<String>,
    /// Limit for one server and one call: 50 ms. Raise it for TLS or far servers.
    pub server_timeout: Option<Duration>,
    /// Part of the TTL set aside for clocks that run at different rates: 0.01. Another 2 ms are always added.
    pub drift: Option<f64>,
    /// What every key begins with: `lock:`. No braces.
    pub prefix: Option<String>,
    /// The lock's key is the name itself, shared with other libraries that use a plain string key: off.
    pub exact_keys: Option<bool>,
    /// How long a waiter to whom the lock is handed may take to claim it: 1 s. One that has died without closing its
    /// connection, or is frozen, costs the others this long, once.
    pub claim_window: Option<Duration>,
    /// PEM file with the certificate authorities to trust instead of the system's (with `rediss://`).
    pub ca_file: Option<String>,
    /// PEM file with the client's certificate (with `client_key`).
    pub client_cert: Option<String>,
    /// PEM file with the client's private key (with `client_cert`).
    pub client_key: Option<String>,
    /// What the language is called in the client's registration: `rust` unless a binding says otherwise.
    pub language: Option<&'static str>,
}

/// Options of one lock. `None` means the client's default.
#[derive(Debug, Clone, Default)]
pub struct LockOptions {
    /// How long the servers keep the lock without renewal. At least twice `server_timeout`.
    pub ttl: Option<Duration>,
    /// How long an acquire may take.
    pub wait: Option<Wait>,
    /// Renew the lease at every third of its TTL: on.
    pub renew: Option<bool>,
    /// Renewal stops this long after the grant, and the lease is lost: no limit.
    pub max_hold: Option<Duration>,
    /// A text for people, at most 256 bytes: shown in errors and events.
    pub label: Option<String>,
}

/// The unit in which a caller gave a duration, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Python.
    Seconds,
    /// Node and C.
    Milliseconds,
}

/// Longest duration any option takes. Longer ones are mistakes of unit.
pub const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);
/// Longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;
/// Longest label, in bytes.
pub const MAX_LABEL_BYTES: usize = 256;

const DEFAULT_TTL: Duration = Duration::from_secs(30);
const DEFAULT_SERVER_TIMEOUT: Duration = Duration::from_millis(50);
const DEFAULT_DRIFT: f64 = 0.01;
const DEFAULT_PREFIX: &str = "lock:";
const DEFAULT_CLAIM_WINDOW: Duration = Duration::from_secs(1);
/// With less, a claim could hardly ever be in time.
const MIN_CLAIM_WINDOW: Duration = Duration::from_millis(10);

/// Converts a number in `unit` to a duration, rounded down to whole milliseconds.
///
/// # Errors
/// Invalid, naming `parameter` and `value`, if it is not a number, negative, or over a year.
pub fn duration(parameter: &str, value: f64, unit: Unit) -> Result<Duration> {
    let (name, per_ms) = match unit {
        Unit::Seconds => ("s", 1000.0),
        Unit::Milliseconds => ("ms", 1.0),
    };
    let ms = value * per_ms;
    if !ms.is_finite() || ms < 0.0 {
        return Err(Error::invalid(parameter, format_args!("{value} {name}"), "must be a finite number, zero or more"));
    }
    if ms > MAX_DURATION.as_millis() as f64 {
        return Err(Error::invalid(
            parameter,
            format_args!("{value} {name}"),
            "is over a year; the unit may be mistaken",
        ));
    }
    // Seconds such as 0.3 are a hair below or above the whole millisecond they mean.
    Ok(Duration::from_millis((ms + 1e-6).floor() as u64))
}

/// A client's options, filled and checked.
#[derive(Debug, Clone)]
pub(crate) struct ClientSettings {
    pub lock: LockOptions,
    pub server_timeout: Duration,
    pub drift: f64,
    pub prefix: String,
    pub exact_keys: bool,
    pub claim_window: Duration,
    pub ca_file: Option<String>,
    pub client_cert: Option<String>,
    pub client_key: Option<String>,
    pub language: &'static str,
}

/// A lock's options, filled and checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LockSettings {
    pub ttl: Duration,
    pub wait: Wait,
    pub renew: bool,
    pub max_hold: Option<Duration>,
    pub label: Option<String>,
}

impl ClientOptions {
    pub(crate) fn resolve(self) -> Result<ClientSettings> {
        let server_timeout = self.server_timeout.unwrap_or(DEFAULT_SERVER_TIMEOUT);
        check_duration("server_timeout", server_timeout)?;
        if server_timeout < Duration::from_millis(1) {
            return Err(Error::invalid("server_timeout", ms(server_timeout), "must be at least 1 ms"));
        }
        let drift = self.drift.unwrap_or(DEFAULT_DRIFT);
        if !(0.0..=0.5).contains(&drift) {
            return Err(Error::invalid("drift", drift, "is a part of the TTL, from 0 to 0.5"));
        }
        let prefix = self.prefix.unwrap_or_else(|| DEFAULT_PREFIX.to_owned());
        if prefix.contains(['{', '}']) || prefix.len() > MAX_NAME_BYTES {
            return Err(Error::invalid(
                "prefix",
                format_args!("{prefix:?}"),
                "must have no braces and at most 1024 bytes",
            ));
        }
        let claim_window = self.claim_window.unwrap_or(DEFAULT_CLAIM_WINDOW);
        check_duration("claim_window", claim_window)?;
        if claim_window < MIN_CLAIM_WINDOW {
            return Err(Error::invalid("claim_window", ms(claim_window), "must be at least 10 ms"));
        }
        if self.client_cert.is_some() != self.client_key.is_some() {
            let (given, missing) =
                if self.client_cert.is_some() { ("client_cert", "client_key") } else { ("client_key", "client_cert") };
            let value = self.client_cert.or(self.client_key).unwrap_or_default();
            return Err(Error::invalid(given, format_args!("{value:?}"), format_args!("needs {missing} too")));
        }
        let settings = ClientSettings {
            lock: LockOptions { ttl: self.ttl, wait: self.wait, label: self.label, ..LockOptions::default() },
            server_timeout,
            drift,
            prefix,
            exact_keys: self.exact_keys.unwrap_or(false),
            claim_window: whole_ms(claim_window),
            ca_file: self.ca_file,
            client_cert: self.client_cert,
            client_key: self.client_key,
            language: self.language.unwrap_or("rust"),
        };
        // A wrong default should show when the client is made, not at its first lock.
        settings.lock_settings(&LockOptions::default())?;
        Ok(settings)
    }
}

impl ClientSettings {
    /// Fills `options` from the client's defaults and checks them.
    pub(crate) fn lock_settings(&self, options: &LockOptions) -> Result<LockSettings> {
        let ttl = options.ttl.or(self.lock.ttl).unwrap_or(DEFAULT_TTL);
        self.check_ttl("ttl", ttl)?;
        let wait = options.wait.or(self.lock.wait).unwrap_or_default();
        if let Wait::For(limit) = wait {
            check_duration("wait", limit)?;
        }
        if let Some(max_hold) = options.max_hold {
            check_duration("max_hold", max_hold)?;
            if max_hold < self.min_ttl() {
                return Err(Error::invalid(
                    "max_hold",
                    ms(max_hold),
                    format_args!("must be at least {} with this server_timeout and drift", ms(self.min_ttl())),
                ));
            }
        }
        let label = options.label.clone().or_else(|| self.lock.label.clone());
        if let Some(label) = &label
            && label.len() > MAX_LABEL_BYTES
        {
            return Err(Error::invalid("label", format_args!("{label:?}"), "has more than 256 bytes"));
        }
        Ok(LockSettings {
            ttl: whole_ms(ttl),
            wait,
            renew: options.renew.unwrap_or(true),
            max_hold: options.max_hold,
            label,
        })
    }

    /// Checks a TTL that was given as `parameter`.
    pub(crate) fn check_ttl(&self, parameter: &str, ttl: Duration) -> Result<()> {
        check_duration(parameter, ttl)?;
        if ttl < self.min_ttl() {
            return Err(Error::invalid(
                parameter,
                ms(ttl),
                format_args!("must be at least {} with this server_timeout and drift", ms(self.min_ttl())),
            ));
        }
        Ok(())
    }

    /// Twice the limit of a call; and what is left after the drift must outlast one call, or no round is in time.
    fn min_ttl(&self) -> Duration {
        let drift = Duration::from_millis(2);
        let outlasts = (self.server_timeout + drift).div_f64(1.0 - self.drift);
        (self.server_timeout * 2).max(Duration::from_millis((outlasts.as_secs_f64() * 1000.0).ceil() as u64))
    }
}

/// The keys of one name. All of them share one hash slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub lock: String,
    pub fence: String,
    pub label: String,
    /// Who waits, in order.
    pub queue: String,
}

/// Checks `name` and gives its keys (ARCHITECTURE.md, "The protocol").
pub(crate) fn keys(name: &str, settings: &ClientSettings) -> Result<Keys> {
    let refuse = |why: &str| Err(Error::invalid("name", format_args!("{:?}", shorten(name)), why));
    if name.is_empty() {
        return refuse("is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return refuse("has more than 1024 bytes");
    }
    if name.starts_with('}') {
        return refuse("must not start with }, which would leave its keys without a common hash slot");
    }
    let tagged = has_hash_tag(name);
    if tagged && [":fence", ":queue", ":label"].iter().any(|end| name.ends_with(end)) {
        return refuse("a name with a hash tag must not end in :fence, :queue or :label");
    }
    if settings.exact_keys && !tagged && name.contains('}') {
        return refuse("with exact_keys a } needs a { before it, or its keys have no common hash slot");
    }
    Ok(Keys::new(&base(name, settings), settings.exact_keys.then_some(name)))
}

/// The keys of the lock that is at this key.
pub(crate) fn keys_of(lock: &str, settings: &ClientSettings) -> Keys {
    if settings.exact_keys { Keys::new(&base(lock, settings), Some(lock)) } else { Keys::new(lock, None) }
}

impl Keys {
    fn new(base: &str, exact: Option<&str>) -> Keys {
        Keys {
            lock: exact.unwrap_or(base).to_owned(),
            fence: format!("{base}:fence"),
            label: format!("{base}:label"),
            queue: format!("{base}:queue"),
        }
    }
}

/// What the keys of a lock begin with: the name with one hash tag, its own or one around it.
fn base(name: &str, settings: &ClientSettings) -> String {
    if has_hash_tag(name) { format!("{}{name}", settings.prefix) } else { format!("{}{{{name}}}", settings.prefix) }
}

/// Whether Redis Cluster would hash only a part of `name`: the text between its first `{` and the next `}`.
fn has_hash_tag(name: &str) -> bool {
    name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).is_some_and(|(tag, _)| !tag.is_empty())
}

pub(crate) fn check_duration(parameter: &str, value: Duration) -> Result<()> {
    if value > MAX_DURATION {
        return Err(Error::invalid(parameter, ms(value), "is over a year; the unit may be mistaken"));
    }
    Ok(())
}

fn whole_ms(d: Duration) -> Duration {
    Duration::from_millis(d.as_millis() as u64)
}

fn ms(d: Duration) -> String {
    format!("{} ms", d.as_secs_f64() * 1000.0)
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn settings() -> ClientSettings {
        ClientOptions::default().resolve().unwrap()
    }

    #[test]
    fn keys_of_a_name_share_a_hash_tag() {
        let k = keys("orders/42 ü", &settings()).unwrap();
        assert_eq!(k.lock, "lock:{orders/42 ü}");
        assert_eq!(k.fence, "lock:{orders/42 ü}:fence");
        assert_eq!(k.label, "lock:{orders/42 ü}:label");
        assert_eq!(keys("{job}", &settings()).unwrap(), keys("job", &settings()).unwrap());
        assert_eq!(keys("x{y}z", &settings()).unwrap().fence, "lock:x{y}z:fence");
        assert_eq!(keys("{}x", &settings()).unwrap().lock, "lock:{{}x}");
    }

    #[test]
    fn exact_keys_use_the_name_itself() {
        let s = ClientOptions { exact_keys: Some(true), ..Default::default() }.resolve().unwrap();
        let k = keys("orders:42", &s).unwrap();
        assert_eq!((k.lock.as_str(), k.fence.as_str()), ("orders:42", "lock:{orders:42}:fence"));
        assert_eq!(keys("a}b", &s).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(1025);
        for name in ["", "}", "}x", "{a}:fence", "{a}b:queue", "{a}:label", long.as_str()] {
            let e = keys(name, &settings()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid, "{name}");
            assert!(e.message().starts_with("name = "), "{e}");
        }
        assert!(keys(&"x".repeat(1024), &settings()).is_ok());
        assert!(keys("a:fence", &settings()).is_ok(), "it is wrapped, so it is no side key");
    }

    #[test]
    fn durations_name_their_unit() {
        assert_eq!(duration("ttl", 123.45, Unit::Milliseconds).unwrap(), Duration::from_millis(123));
        assert_eq!(duration("ttl", 0.3, Unit::Seconds).unwrap(), Duration::from_millis(300));
        assert_eq!(duration("ttl", 0.5, Unit::Seconds).unwrap(), Duration::from_millis(500));
        for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9.1e15] {
            let e = duration("ttl", bad, Unit::Milliseconds).unwrap_err();
            assert!(e.message().starts_with("ttl = ") && e.message().contains(" ms"), "{e}");
        }
    }

    #[test]
    fn o02_ttl_below_the_smallest_usable_one_is_invalid() {
        for ttl in [0, 1, 2, 99] {
            let o = LockOptions { ttl: Some(Duration::from_millis(ttl)), ..Default::default() };
            let e = settings().lock_settings(&o).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Invalid);
            assert!(e.message().contains("at least 100 ms"), "{e}");
        }
        let o = LockOptions { ttl: Some(Duration::from_millis(100)), ..Default::default() };
        assert!(settings().lock_settings(&o).is_ok());
        // However small the limit of a call: something must be left after the drift.
        let quick = ClientOptions { server_timeout: Some(Duration::from_millis(1)), ..Default::default() };
        let quick = quick.resolve().unwrap();
        for (ttl, fine) in [(2, false), (3, false), (4, true)] {
            let o = LockOptions { ttl: Some(Duration::from_millis(ttl)), ..Default::default() };
            assert_eq!(quick.lock_settings(&o).is_ok(), fine, "{ttl} ms");
        }
    }

    #[test]
    fn client_options_are_checked_when_the_client_is_made() {
        let bad = [
            ClientOptions { ttl: Some(Duration::from_millis(1)), ..Default::default() },
            ClientOptions { server_timeout: Some(Duration::ZERO), ..Default::default() },
            ClientOptions { drift: Some(f64::NAN), ..Default::default() },
            ClientOptions { claim_window: Some(Duration::from_millis(9)), ..Default::default() },
            ClientOptions { prefix: Some("a{b".into()), ..Default::default() },
            ClientOptions { client_cert: Some("c.pem".into()), ..Default::default() },
            ClientOptions { label: Some("x".repeat(257)), ..Default::default() },
        ];
        for o in bad {
            assert_eq!(o.clone().resolve().unwrap_err().kind(), ErrorKind::Invalid, "{o:?}");
        }
    }
}
