//! Who a client is, written on each server that it is connected to: so [`crate::Client::inspect`] can tell, from the
//! client's part of an owner token, who holds a lock.
//!
//! The text is for people too: `redis-cli GET lock:client:…` shows it, one `key=value` a line.

use crate::answer::classify;
use crate::inspect::Holder;
use crate::options::ClientSettings;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::sleep;

/// How long it outlives a client that dies.
const TTL: Duration = Duration::from_secs(25 * 3600);
/// How often it is written again.
const RENEW_EVERY: Duration = Duration::from_secs(3600);
/// How soon after a server could not take it: loading, read-only, out of memory.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// What one client in one process writes about itself.
pub(crate) struct Registration {
    key: String,
    text: String,
    ended: AtomicBool,
}

/// The key at which a client is registered. `client`: its part of an owner token.
pub(crate) fn key(settings: &ClientSettings, client: &str) -> String {
    format!("{}client:{client}", settings.prefix)
}

impl Registration {
    /// `since_us`: when the client came into use in this process.
    pub(crate) fn new(settings: &ClientSettings, uuid: &uuid::Uuid, since_us: u64) -> Registration {
        let text = format!(
            "host={}\npid={}\nlanguage={}\nversion={}\nsince={}\n",
            host_name(),
            std::process::id(),
            settings.language,
            crate::VERSION,
            since_us / 1000
        );
        let client = uuid.simple().to_string();
        Registration { key: key(settings, &client), text, ended: AtomicBool::new(false) }
    }

    /// Writes it on a new connection (at the first poll it is in the connection's queue), and every hour.
    pub(crate) async fn keep(&self, connection: MultiplexedConnection, server: &str) {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.text).arg("PX").arg(TTL.as_millis() as u64);
        while !self.ended.load(Ordering::Acquire) {
            let rest = match answer(connection.clone(), &set).await {
                Ok(()) => RENEW_EVERY,
                Err(e) => {
                    let failure = classify(&e);
                    tracing::debug!(target: "quorlock", server, cause = %failure.cause,
                        "cannot register the client: inspect will not say who holds its locks");
                    if failure.for_good { RENEW_EVERY } else { RETRY_AFTER }
                }
            };
            sleep(rest).await;
        }
    }

    /// Deletes it, for good: where the client is not connected, it ends by its TTL.
    pub(crate) async fn remove(&self, connection: Option<MultiplexedConnection>) {
        self.ended.store(true, Ordering::Release);
        if let Some(connection) = connection {
            let _ = answer(connection, redis::cmd("DEL").arg(&self.key)).await;
        }
    }
}

async fn answer(mut connection: MultiplexedConnection, command: &redis::Cmd) -> Result<(), RedisError> {
    match connection.send_packed_command(command).await? {
        Value::ServerError(e) => Err(e.into()),
        _ => Ok(()),
    }
}

/// Reads a registration, of whatever version and language; what it does not say is `None`.
pub(crate) fn read(text: &str) -> Holder {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let since = field("since").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
    Holder {
        host: field("host").map(str::to_owned),
        pid: field("pid").and_then(|pid| pid.parse().ok()),
        language: field("language").map(str::to_owned),
        version: field("version").map(str::to_owned),
        since: since.and_then(|since| UNIX_EPOCH.checked_add(since)),
        label: None,
    }
}

/// The machine's name, in one line.
fn host_name() -> String {
    let mut bytes = [0; 256];
    #[allow(unsafe_code, reason = "the one way to the name without another dependency")]
    // SAFETY: it writes at most this many bytes, and leaves the last one, a zero, as it is.
    unsafe {
        libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len() - 1);
    }
    let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy();
    name.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ClientOptions;

    fn settings() -> ClientSettings {
        ClientOptions { language: Some("python"), ..Default::default() }.resolve().unwrap()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let uuid = uuid::Uuid::new_v4();
        let registration = Registration::new(&settings(), &uuid, 1_764_547_200_123_456);
        assert_eq!(registration.key, format!("lock:client:{}", uuid.simple()));
        let holder = read(&registration.text);
        assert_eq!(holder.host, Some(host_name()));
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.language.as_deref(), Some("python"));
        assert_eq!(holder.version.as_deref(), Some(crate::VERSION));
        assert_eq!(holder.since, Some(UNIX_EPOCH + Duration::from_millis(1_764_547_200_123)));
        assert_eq!(holder.label, None);
        assert!(!host_name().is_empty());
    }

    #[test]
    fn strange_registrations_are_read_as_far_as_they_go() {
        for text in ["", "nonsense", "host", "pid=x\nsince=-1\n", "since=18446744073709551615", "hostname=a"] {
            let holder = read(text);
            assert_eq!((holder.host, holder.pid), (None, None), "{text}");
        }
        let later = read("shoe=9\nhost=a=b\r\npid=7\nsince=1000");
        assert_eq!((later.host.as_deref(), later.pid), (Some("a=b"), Some(7)));
        assert_eq!(later.since, Some(UNIX_EPOCH + Duration::from_secs(1)));
        assert_eq!(later.language, None);
    }
}
