//! One contender per name inside a process: the others queue here, in order, instead of asking the servers too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Queue, Notify, OwnedMutexGuard};

/// Who tries to take which lock now.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<String, Arc<Place>>>);

struct Place {
    /// Served in order of arrival.
    queue: Arc<Queue<()>>,
    freed: Arc<Notify>,
}

/// The right to contend for a lock on behalf of this process, until it is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    key: &'a str,
    /// A lease of this process on this lock has just been released.
    pub freed: Arc<Notify>,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the turn. Cancel safe: a dropped wait leaves the queue.
    pub(crate) async fn enter<'a>(&'a self, key: &'a str) -> Turn<'a> {
        let place = {
            let mut places = self.lock();
            match places.get(key) {
                Some(place) => place.clone(),
                None => {
                    let place = Arc::new(Place { queue: Arc::default(), freed: Arc::default() });
                    places.insert(key.to_owned(), place.clone());
                    place
                }
            }
        };
        // Made before the wait, so that a wait that is dropped leaves no empty place behind.
        let mut turn = Turn { turns: self, key, freed: place.freed.clone(), guard: None };
        let queue = place.queue.clone();
        drop(place);
        turn.guard = Some(queue.lock_owned().await);
        turn
    }

    /// Tells the contender of this process, if there is one, that the lock has been released.
    pub(crate) fn freed(&self, key: &str) {
        if let Some(place) = self.lock().get(key) {
            place.freed.notify_one();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut places = self.turns.lock();
        // The map's own reference to the queue, and none of a waiter: nobody is left.
        if places.get(self.key).is_some_and(|p| Arc::strong_count(&p.queue) == 1) {
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
        let first = turns.enter("a").now_or_never().unwrap();
        assert!(turns.enter("b").now_or_never().is_some(), "another name has its own queue");
        let mut second = Box::pin(turns.enter("a"));
        let mut third = Box::pin(turns.enter("a"));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the second comes first");
        let second = second.now_or_never().unwrap();
        drop(third);
        assert_eq!(turns.lock().len(), 1);
        drop(second);
        assert!(turns.lock().is_empty());
    }
}
