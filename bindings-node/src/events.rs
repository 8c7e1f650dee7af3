//! The core's events, on their way to `diagnostics_channel`.
//!
//! Core has one hook for the process; each JavaScript environment that listens gets every event. The functions are
//! weak, so listening keeps no process alive, and an environment that has ended drops out of the list by itself.

use napi::bindgen_prelude::{FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Status, bindgen_prelude::External};
use napi_derive::napi;
use quorlock::log::{self, Event, Level};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

type Published = FnArgs<(&'static str, String, BTreeMap<String, String>)>;
type Publish = ThreadsafeFunction<Event, (), Published, Status, false, true>;

static LISTENERS: Mutex<Vec<Weak<Publish>>> = Mutex::new(Vec::new());
static HOOK: Once = Once::new();

/// From now on `publish(level, message, fields)` is called for each event, until what this gives is collected.
#[napi(catch_unwind)]
pub fn listen(publish: Function<Published, ()>) -> napi::Result<External<Arc<Publish>>> {
    let publish =
        publish.build_threadsafe_function::<Event>().callee_handled::<false>().weak::<true>().build_callback(
            |ctx| {
                let Event { level, message, fields } = ctx.value;
                let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                Ok((channel(level), message, fields).into())
            },
        )?;
    let publish = Arc::new(publish);
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&publish));
    HOOK.call_once(|| log::set_hook(Level::Debug, Some(Box::new(broadcast))));
    Ok(External::new(publish))
}

fn broadcast(event: &Event) {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|listener| match listener.upgrade() {
        Some(publish) => {
            publish.call(event.clone(), ThreadsafeFunctionCallMode::NonBlocking);
            true
        }
        None => false,
    });
}

fn channel(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    }
}
