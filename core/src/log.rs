//! Events for the bindings' own log channels. In Rust, use the `tracing` crate: the target is `quorlock`.

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
/// Sends every event of `level` and above to `hook`, on whichever thread it happens; replaces the previous hook.
/// For a library that owns its copy of this crate (the bindings): it takes the process-wide `tracing` subscriber of that copy.
#[allow(unused_variables)]
pub fn set_hook(level: Level, hook: Option<Box<dyn Fn(&Event) + Send + Sync>>) {
    todo!()
}
