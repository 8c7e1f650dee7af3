//! How a future is run, and how its result gets back: the one place where the runtime's threads and JavaScript meet.
//!
//! Each JavaScript environment (the main thread, each worker thread) has one [`Port`]: a queue of results and one
//! thread-safe function that wakes the environment's loop. It is shared by all calls because creating one for each
//! promise costs more than the call itself. It is weak: whether a call keeps the process alive is the business of the
//! JavaScript half, which knows which calls somebody waits for.
//!
//! Results wait in our own queue and not inside the thread-safe function, which forgets its content (a lease among it,
//! held and renewed for nobody) when a worker thread is terminated. Here it is dropped, and a dropped lease is released.

use crate::client::{LockInfo, ServerState};
use crate::error::Failure;
use crate::lease::Lease;
use napi::bindgen_prelude::{Either5, FnArgs, Function};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Error, Status};
use napi_derive::napi;
use quorlock::bridge::Task;
use quorlock::{ErrorKind, Result};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// What a call gives; `None` for nothing.
pub type Value = Option<Either5<Lease, bool, f64, Vec<ServerState>, LockInfo>>;
/// The arguments of the JavaScript function `settle`: the call's number and how it ended.
type Settled = FnArgs<(f64, Option<Failure>, Value)>;
type Wake = ThreadsafeFunction<(), (), Settled, Status, false, true>;

/// A result on its way. The value is made on the environment's own thread, where alone it may be.
struct Settlement {
    call: f64,
    value: Box<dyn FnOnce() -> Result<Value> + Send>,
}

type Queue = Arc<Mutex<VecDeque<Settlement>>>;

/// The environment's end of the queue, which ends with it.
struct Results(Queue);

impl Drop for Results {
    /// Nobody asks any more. What is left must not wait for the queue's own end: a lease on its way holds its port, and
    /// so the queue that it is in.
    fn drop(&mut self) {
        discard(&self.0);
    }
}

/// The way back into one JavaScript environment.
#[napi]
#[derive(Clone)]
pub struct Port {
    queue: Queue,
    wake: Arc<Wake>,
}

/// Makes the environment's port. `settle(call, failure, value)` is called once for each call that was started on it.
#[napi(catch_unwind)]
pub fn open_port(settle: Function<Settled, ()>) -> napi::Result<Port> {
    let queue = Queue::default();
    let results = Results(queue.clone());
    let wake = settle.build_threadsafe_function::<()>().callee_handled::<false>().weak::<true>().build_callback(
        move |_| {
            let settlement = lock(&results.0).pop_front().ok_or_else(|| Error::from_reason("a wake-up too many"))?;
            Ok(match (settlement.value)() {
                Ok(value) => (settlement.call, None, value),
                Err(error) => (settlement.call, Some(error.into()), None),
            }
            .into())
        },
    )?;
    Ok(Port { queue, wake: Arc::new(wake) })
}

impl Port {
    /// Runs `future` on the core's runtime and settles call `number` with what `convert` makes of its result.
    pub fn run<T: Send + 'static>(
        &self,
        number: f64,
        future: impl Future<Output = Result<T>> + Send + 'static,
        convert: impl FnOnce(T) -> Value + Send + 'static,
    ) -> Task {
        let call = self.call(number);
        quorlock::bridge::spawn(future, move |result| call.settle(move || result.map(convert)))
    }

    /// A call that JavaScript has given `number`.
    pub fn call(&self, number: f64) -> Call {
        Call { number, port: Some(self.clone()) }
    }

    fn send(&self, settlement: Settlement) {
        lock(&self.queue).push_back(settlement);
        if self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            discard(&self.queue); // the environment is gone
        }
    }
}

/// A call that is under way: settled exactly once, because a promise that is forgotten hangs for ever.
pub struct Call {
    number: f64,
    port: Option<Port>,
}

impl Call {
    /// Settles it, from any thread.
    pub fn settle(mut self, value: impl FnOnce() -> Result<Value> + Send + 'static) {
        if let Some(port) = self.port.take() {
            port.send(Settlement { call: self.number, value: Box::new(value) });
        }
    }
}

impl Drop for Call {
    /// It was cancelled, and JavaScript has forgotten its number; or its future panicked.
    fn drop(&mut self) {
        if let Some(port) = self.port.take() {
            let panicked = || Err(quorlock::Error::new(ErrorKind::Internal, "the call panicked: please report this"));
            port.send(Settlement { call: self.number, value: Box::new(panicked) });
        }
    }
}

/// Drops what is in the queue, when the queue is free again: that may be more work.
fn discard(queue: &Queue) {
    let unclaimed = std::mem::take(&mut *lock(queue));
    drop(unclaimed);
}

/// Nothing panics while it holds the queue, so a poisoned one is still whole.
fn lock(queue: &Queue) -> std::sync::MutexGuard<'_, VecDeque<Settlement>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
