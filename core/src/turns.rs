//! Who of this client wants a lock. Where waiting has to poll, one contender per name asks and the others queue here.

use crate::clock::Moment;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Queue, Notify, OwnedMutexGuard, OwnedRwLockWriteGuard, RwLock};

/// Who tries to take which lock now.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Place>>>);

/// What the contenders of one lock share.
#[derive(Default)]
pub(crate) struct Place {
    /// Served in order of arrival.
    queue: Arc<Queue<()>>,
    /// Held by a call that found no other, until it knows whether it has to wait: those that come later stand behind it.
    first: Arc<RwLock<()>>,
    /// A lease of this process on this lock has just been released.
    pub freed: Notify,
    last: Mutex<Last>,
}

/// What the servers said last to whoever had the turn.
#[derive(Default, Clone, Copy)]
enum Last {
    #[default]
    Nothing,
    /// Enough of them answered.
    Answers,
    /// Too few have answered since then.
    SilentSince(Moment),
}

impl Place {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a round that enough servers answered.
    pub(crate) fn answered(&self) {
        *self.last() = Last::Answers;
    }

    /// Notes a round that too few servers answered, and gives since when that is so.
    pub(crate) fn silent_since(&self, began: Moment) -> Moment {
        let mut last = self.last();
        let since = if let Last::SilentSince(since) = *last { since } else { began };
        *last = Last::SilentSince(since);
        since
    }

    /// Whether the last round was answered: then, as nobody else got the turn, others held the lock.
    pub(crate) fn found_busy(&self) -> bool {
        matches!(*self.last(), Last::Answers)
    }
}

/// The right to contend for a lock on behalf of this process, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: &'a str,
    pub place: Arc<Place>,
    guard: Option<OwnedMutexGuard<()>>,
    first: Option<OwnedRwLockWriteGuard<()>>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stands in the queue. What is returned is the turn once [`Turn::come`] has ended; dropping it leaves the queue.
    pub(crate) fn enter<'a>(&'a self, key: &'a str) -> Turn<'a> {
        let mut places = self.lock();
        let known = places.get(key).cloned();
        let place = known.unwrap_or_else(|| places.entry(key.to_owned()).or_default().clone());
        // The map's own reference and ours: nobody else.
        let alone = Arc::strong_count(&place) == 2;
        let first = place.first.clone();
        Turn { turns: self, key, place, guard: None, first: alone.then(|| first.try_write_owned().ok()).flatten() }
    }

    /// Tells the contender of this process, if there is one, that the lock has been released.
    pub(crate) fn freed(&self, key: &str) {
        if let Some(place) = self.lock().get(key) {
            place.freed.notify_one();
        }
    }
}

impl Turn<'_> {
    /// Whether others of this client wanted the lock before.
    pub(crate) fn contended(&self) -> bool {
        self.first.is_none()
    }

    /// Waits until a call that came first knows whether it has to wait.
    pub(crate) async fn behind_first(&self) {
        if self.contended() {
            drop(self.place.first.read().await);
        }
    }

    /// This call knows whether it has to wait.
    pub(crate) fn first_is_over(&mut self) {
        self.first = None;
    }

    /// Waits for the turn, in order of the calls.
    pub(crate) async fn come(&mut self) {
        self.guard = Some(self.place.queue.clone().lock_owned().await);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.first = None;
        let mut places = self.turns.lock();
        // The map's own reference and ours: nobody else is left.
        if Arc::strong_count(&self.place) == 2 {
            places.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn turns_are_taken_in_order_and_nothing_is_left() {
        let turns = Turns::default();
        let [mut first, mut second, mut third] = std::array::from_fn(|_| turns.enter("a"));
        assert!(first.come().now_or_never().is_some());
        assert!(turns.enter("b").come().now_or_never().is_some(), "another name has its own queue");
        {
            let mut second_comes = Box::pin(second.come());
            let mut third_comes = Box::pin(third.come());
            assert!(second_comes.as_mut().now_or_never().is_none());
            assert!(third_comes.as_mut().now_or_never().is_none());
            drop(first);
            assert!(third_comes.as_mut().now_or_never().is_none(), "the second comes first");
            assert!(second_comes.now_or_never().is_some());
        }
        drop(third);
        assert_eq!(turns.lock().len(), 1);
        drop(second);
        assert!(turns.lock().is_empty());
    }
}
