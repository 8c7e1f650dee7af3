//! How bindings run a future: on the core's runtime with a callback, or blocking with signals checked.
use std::future::Future;
use std::time::Duration;

/// A future that [`spawn`] runs. Dropping the handle changes nothing.
pub struct Task {}
impl Task {
    /// Drops the future, which undoes what it began. Its `done` is not called afterwards, unless it already runs.
    pub fn cancel(&self) {
        todo!()
    }
}
/// Runs `future` on the runtime of this process, then `done` on a thread of it. `done` must be quick and must not block.
#[allow(unused_variables)]
pub fn spawn<F>(future: F, done: impl FnOnce(F::Output) + Send + 'static) -> Task
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    todo!()
}
/// Blocks this thread until `future` ends. `check` runs whenever a signal interrupts the wait; its error drops the
/// future and is returned (Ctrl-C in Python).
#[allow(unused_variables)]
pub fn wait<F, E>(future: F, check: impl FnMut() -> Result<(), E>) -> Result<F::Output, E>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    todo!()
}
/// Blocks this thread until `future` ends.
#[allow(unused_variables)]
pub fn block_on<F>(future: F) -> F::Output
where
    F: Future,
{
    todo!()
}
/// Whether this thread belongs to the runtime (a callback of ours): nothing may block on it.
pub fn on_runtime_thread() -> bool {
    todo!()
}
/// Closes every client of this process, for the end of the interpreter: at most `budget`.
#[allow(unused_variables)]
pub fn close_all(budget: Duration) {
    todo!()
}
