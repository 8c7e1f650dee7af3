//! Taking a lock on a quorum: rounds, until one succeeds or the wait is over.
//!
//! While others hold the lock a contender listens for the servers' word that they are free. It asks again when enough
//! of them have said so, when the lock is known to expire, or after a pause that doubles each time: contenders split
//! the votes otherwise, again and again.

use crate::acquire::{Acquire, FIRST_PAUSE, Granted, Why, until};
use crate::error::{Error, ErrorKind, Result};
use crate::hold::Hold;
use crate::lease::Lease;
use crate::round::{Missed, Round};
use crate::turns::Place;
use std::time::Duration;
use tokio::time::Instant;

/// The longest pause between rounds: how late a message that was lost can be.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause while too few servers answer.
const LONGEST_RETRY: Duration = Duration::from_millis(200);

/// Takes the lock or says why not.
pub(crate) async fn take(acquire: &mut Acquire<'_>) -> Result<Lease> {
    let (shared, keys, end) = (acquire.shared, acquire.keys, acquire.end);
    if acquire.once() {
        return match attempt(acquire).await {
            Ok(lease) => Ok(lease),
            Err(missed) => Err(give_up(acquire, missed).await),
        };
    }
    let mut turn = shared.turns.enter(&keys.lock);
    if until(end, turn.come()).await.is_none() {
        return Err(never_came(&turn.place));
    }
    let freed = shared.wakeups.watch_free(&keys.free, shared.links.len());
    let mut listening = Vec::new();
    let mut pause = FIRST_PAUSE;
    let mut before = Why::Short;
    loop {
        let began = shared.clock.now();
        freed.reset();
        let mut missed = match attempt(acquire).await {
            Ok(lease) => {
                turn.place.answered();
                return Ok(lease);
            }
            Err(missed) => missed,
        };
        if missed.why == Why::Cut {
            missed.why = before;
            return Err(give_up(acquire, missed).await);
        }
        let silent_since = if missed.why.silent() {
            Some(turn.place.silent_since(began))
        } else {
            turn.place.answered();
            None
        };
        if missed.why == Why::Refused || acquire.outage(silent_since) {
            return Err(give_up(acquire, missed).await);
        }
        acquire.warn_of_own();
        let mut rest = acquire.jittered(pause);
        let mut longest = LONGEST_RETRY;
        let mut need = usize::MAX;
        if let Why::Busy { free_in } = missed.why {
            // Never longer than the lock is known to last.
            rest = free_in.map_or(rest, |free_in| rest.min(free_in.max(FIRST_PAUSE)));
            longest = LONGEST_PAUSE;
            need = missed.round.missing();
            if listening.is_empty() {
                listening.extend(shared.links.iter().map(|link| link.listen(&keys.free)));
            }
        }
        let next = Instant::now() + rest;
        let next = end.map_or(next, |end| end.min(next));
        if missed.why == Why::Short {
            missed.round.hear_all(Some(next)).await;
        }
        learn(acquire, &missed.round);
        before = missed.why;
        // Undone before the pause, not after it.
        drop(missed);
        pause = (pause * 2).min(longest);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = freed.enough(need) => pause = FIRST_PAUSE,
            () = turn.place.freed.notified() => {}
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(acquire.error(before));
        }
    }
}

/// One round, which is cut at the end of the wait.
async fn attempt(acquire: &mut Acquire<'_>) -> Result<Lease, Missed> {
    acquire.attempts += 1;
    let granted: Granted = Round::start(acquire.shared, acquire.keys, acquire.settings).run(acquire.end).await?;
    Ok(Lease::new(Hold::begin(acquire.shared, acquire.name, acquire.keys, acquire.settings, granted)))
}

async fn give_up(acquire: &mut Acquire<'_>, missed: Missed) -> Error {
    let Missed { why, mut round } = missed;
    if why == Why::Short {
        round.hear_all(acquire.end).await;
    }
    learn(acquire, &round);
    acquire.error(why)
}

/// Keeps what each server said last.
fn learn(acquire: &mut Acquire<'_>, round: &Round) {
    acquire.unanswered = round.unanswered();
    for (i, known) in acquire.known.iter_mut().enumerate() {
        *known = round.cause(i).or(known.take());
    }
}

/// The wait ended in the queue of this process. Who had the turn knows why.
fn never_came(place: &Place) -> Error {
    let (kind, message) = if place.found_busy() {
        (ErrorKind::Busy, "others hold the lock, and others of this process wait for it")
    } else {
        (ErrorKind::Unavailable, "too few servers answer others of this process")
    };
    Error::new(kind, message)
}
