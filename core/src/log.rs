//! Events for the bindings' own log channels. In Rust, use the `tracing` crate: the target is `quorlock`.

use crate::runtime::PerProcess;
use std::fmt::{self, Debug, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Once, PoisonError, RwLock};
use tracing::field::{Field, Visit};
use tracing::span;

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Level {
    /// For tracking down a fault.
    Debug = 1,
    /// Normal, but worth knowing.
    Info = 2,
    /// Something that somebody should look at.
    Warn = 3,
    /// Something failed for good.
    Error = 4,
}

/// One event.
#[derive(Debug, Clone)]
pub struct Event {
    /// How grave.
    pub level: Level,
    /// One line.
    pub message: String,
    /// Named values: `name`, `server`, `reason`, … Never a token or a password.
    pub fields: Vec<(&'static str, String)>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (key, value) in &self.fields {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

type Hook = Box<dyn Fn(&Event) + Send + Sync>;

/// Of one process: a forked child has none until it sets its own, and never waits for a lock that the parent's
/// threads held.
static HOOK: PerProcess<RwLock<Option<Hook>>> = PerProcess::new();
/// The level from which events reach the hook; above every level when there is none.
static FROM: AtomicI32 = AtomicI32::new(NONE);
const NONE: i32 = i32::MAX;

/// Sends every event of `level` and above to `hook`, on whichever thread it happens; replaces the previous hook.
/// When this returns, the previous hook runs no more. A hook must not call this function.
///
/// For a library that owns its copy of this crate (the bindings): it takes the process-wide `tracing` subscriber of
/// that copy.
pub fn set_hook(level: Level, hook: Option<Hook>) {
    static SUBSCRIBE: Once = Once::new();
    SUBSCRIBE.call_once(|| {
        let _ = tracing::subscriber::set_global_default(Subscriber);
    });
    let Ok(slot) = HOOK.get_or_init(|| Ok(Arc::default())) else { return };
    let mut slot = slot.write().unwrap_or_else(PoisonError::into_inner);
    FROM.store(if hook.is_some() { level as i32 } else { NONE }, Ordering::Relaxed);
    *slot = hook;
}

struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "quorlock" && level(metadata) as i32 >= FROM.load(Ordering::Relaxed)
    }

    fn register_callsite(&self, metadata: &'static tracing::Metadata<'static>) -> tracing::subscriber::Interest {
        // Never "always": the level may change with the next hook.
        if metadata.target() == "quorlock" {
            tracing::subscriber::Interest::sometimes()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Some(slot) = HOOK.get() else { return };
        if let Some(hook) = &*slot.read().unwrap_or_else(PoisonError::into_inner) {
            let mut fields =
                Fields(Event { level: level(event.metadata()), message: String::new(), fields: Vec::new() });
            event.record(&mut fields);
            hook(&fields.0);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn level(metadata: &tracing::Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        _ => Level::Debug,
    }
}

struct Fields(Event);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.0.message, "{value:?}");
        } else {
            self.0.fields.push((field.name(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.fields.push((field.name(), value.to_owned()));
    }
}
