//! Taking a lock on one server: in order of arrival, handed over from holder to waiter.
//!
//! A waiter has a place in the server's queue, and sleeps. A release gives the lock to the first of the queue and tells
//! it so; the waiter claims it for its whole TTL, as validity counts only from a message that the holder itself has sent.
//! Each waiter also looks for itself when the lock is known to expire, the first one once a second: a message may have
//! gone to a process that is dead or asleep, or never have been sent. ARCHITECTURE.md, "Waiting".

use crate::acquire::{Acquire, FIRST_PAUSE, Granted, Why, release_call, until};
use crate::answer::{Failure, Reply};
use crate::channels::Listening;
use crate::client::Shared;
use crate::clock::Moment;
use crate::error::Result;
use crate::hold::Hold;
use crate::lease::Lease;
use crate::options::Keys;
use crate::quorum;
use crate::script::{Call, EXTEND, TRY};
use crate::token;
use crate::wait::{Message, Waiter};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// How often the first waiter looks: a lock may vanish without a message.
const FIRST_LOOKS_EVERY: Duration = Duration::from_secs(1);
/// How often the others look at a lock that has no TTL.
const LOOK_WITHOUT_TTL: Duration = Duration::from_secs(10);
/// Between the looks of two neighbours in the queue when a lock expires, up to so many of them.
const STAGGER: (Duration, u32) = (Duration::from_millis(50), 20);
/// The longest pause of a waiter that no message reaches.
const LONGEST_POLL: Duration = Duration::from_millis(500);
/// The longest pause while the server gives no useful answer.
const LONGEST_RETRY: Duration = Duration::from_millis(200);

/// What the server made of a try.
enum Said {
    Granted { fence: u64 },
    Busy { free_in: Option<Duration>, look_in: Duration },
    Failed(Failure),
}

/// Takes the lock or says why not.
pub(crate) async fn take(acquire: &mut Acquire<'_>) -> Result<Lease> {
    let (shared, end) = (acquire.shared, acquire.end);
    let turn = (!acquire.once()).then(|| shared.turns.enter(&acquire.keys.lock));
    let mut place = Place::new(acquire, 0);
    let mut listening = None;
    let mut pause = FIRST_PAUSE;
    let mut silent_since = None;
    let mut before = Why::Short;
    loop {
        let mut ready = Ready::No;
        if let Some(turn) = &turn {
            // Others of this process want it too, so it will hardly be free.
            if listening.is_none() && turn.contended() {
                listening = Some(shared.links[0].listen(&shared.wakeups.channel));
            } else if listening.is_none() {
                listening = shared.links[0].join(&shared.wakeups.channel);
            }
            if let Some(listening) = &mut listening {
                match until(end, Ready::wait(shared, listening)).await {
                    Some(now) => ready = now,
                    None => return Err(acquire.error(before)),
                }
            }
        }
        let began = shared.clock.now();
        let enqueue = matches!(ready, Ready::On(_));
        acquire.attempts += 1;
        let Some(said) = until(end, place.ask(enqueue)).await else {
            acquire.unanswered = true;
            return Err(acquire.error(before));
        };
        let mut rest = acquire.jittered(pause);
        match said {
            Said::Granted { fence } => match place.hold(acquire, began, fence) {
                Ok(lease) => return Ok(lease),
                Err(late) => {
                    place = late;
                    before = Why::Late;
                    acquire.known[0] = Some("answered too late".to_owned());
                }
            },
            Said::Busy { free_in, look_in } => {
                before = Why::Busy { free_in };
                acquire.known[0] = Some("held by others".to_owned());
                match (ready, &mut listening) {
                    (Ready::On(generation), Some(listening)) => {
                        pause = FIRST_PAUSE;
                        silent_since = None;
                        acquire.warn_of_own();
                        let granted = tokio::select! {
                            granted = place.granted(look_in) => granted,
                            () = listening.over(generation) => None,
                            () = over(end) => return Err(acquire.error(before)),
                        };
                        if let Some(fence) = granted {
                            let began = shared.clock.now();
                            let Some(claimed) = until(end, place.claim(fence)).await else {
                                return Err(acquire.error(before));
                            };
                            if claimed {
                                match place.hold(acquire, began, fence) {
                                    Ok(lease) => return Ok(lease),
                                    Err(late) => place = late,
                                }
                            }
                        }
                        continue;
                    }
                    (_, None) if turn.is_some() => {
                        listening = Some(shared.links[0].listen(&shared.wakeups.channel));
                        continue;
                    }
                    _ => rest = free_in.map_or(rest, |free_in| rest.min(free_in.max(FIRST_PAUSE))),
                }
            }
            Said::Failed(failure) => {
                before = if failure.for_good { Why::Refused } else { Why::Short };
                acquire.known[0] = Some(failure.cause);
            }
        }
        acquire.unanswered = place.maybe;
        silent_since = if before.silent() { silent_since.or(Some(began)) } else { None };
        if acquire.once() || before == Why::Refused || acquire.outage(silent_since) {
            return Err(acquire.error(before));
        }
        acquire.warn_of_own();
        pause = (pause * 2).min(if before.silent() { LONGEST_RETRY } else { LONGEST_POLL });
        let freed = async {
            match &turn {
                Some(turn) => turn.place.freed.notified().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep(rest) => {}
            () = freed => {}
            () = over(end) => return Err(acquire.error(before)),
        }
    }
}

/// Ends at the end of the wait.
async fn over(end: Option<tokio::time::Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Whether messages reach us.
enum Ready {
    /// On this connection.
    On(u64),
    /// Not yet, or the server refuses: then waiting goes on by asking now and again.
    No,
}

impl Ready {
    async fn wait(shared: &Shared, listening: &mut Listening) -> Ready {
        match tokio::time::timeout(shared.settings.server_timeout, listening.ready()).await {
            Ok(Ok(generation)) => Ready::On(generation),
            Ok(Err(cause)) => {
                if !shared.wakeups.warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(target: "quorlock", server = shared.links[0].address(), cause,
                        "cannot subscribe to wake-ups: waiting goes on by polling, late by up to a second and not in order");
                }
                Ready::No
            }
            Err(_) => Ready::No,
        }
    }
}

/// A place in the queue, with an owner token of its own. Dropping it gives up the place, and the lock if it has it.
struct Place {
    shared: Arc<Shared>,
    keys: Keys,
    ttl: Duration,
    label: String,
    token: String,
    waiter: Waiter,
    /// Kept when asking again: an entry that was served is gone from the queue.
    ticket: i64,
    /// Whether the server may have something of ours.
    owed: bool,
    /// Whether a call without an answer may yet be run.
    maybe: bool,
}

impl Place {
    fn new(acquire: &Acquire<'_>, ticket: i64) -> Place {
        let (shared, settings) = (acquire.shared, acquire.settings);
        let token = token::fresh(&*shared.rng, &shared.uuid);
        Place {
            waiter: shared.wakeups.enter(&token),
            shared: shared.clone(),
            keys: acquire.keys.clone(),
            ttl: settings.ttl,
            label: settings.label.clone().unwrap_or_default(),
            token,
            ticket,
            owed: false,
            maybe: false,
        }
    }

    async fn ask(&mut self, enqueue: bool) -> Said {
        let settings = &self.shared.settings;
        let call = Call::new(
            &TRY,
            [&self.keys.lock, &self.keys.fence, &self.keys.label, &self.keys.queue],
            [
                self.token.clone(),
                self.ttl.as_millis().to_string(),
                self.label.clone(),
                u8::from(enqueue).to_string(),
                self.ticket.to_string(),
                settings.claim_window.as_millis().to_string(),
                settings.prefix.clone(),
            ],
        );
        // Until there is an answer it may have been granted.
        let owed = std::mem::replace(&mut self.owed, true);
        let answer = self.shared.links[0].run(Arc::new(call)).await;
        match answer {
            Ok(reply) => {
                self.maybe = false;
                let said = self.read(&reply);
                if !enqueue && matches!(said, Said::Busy { .. }) {
                    self.owed = owed;
                }
                said
            }
            Err(failure) => {
                self.owed = owed || failure.maybe_applied;
                self.maybe = failure.maybe_applied;
                Said::Failed(failure)
            }
        }
    }

    fn read(&mut self, reply: &Reply) -> Said {
        match reply.numbers[..] {
            [1, fence] if fence > 0 => Said::Granted { fence: fence as u64 },
            [0, left, rank, ticket] => {
                if rank >= 0 {
                    self.ticket = ticket;
                }
                let free_in = u64::try_from(left).ok().map(Duration::from_millis);
                let rank = u32::try_from(rank).unwrap_or_default();
                let stagger = STAGGER.0 * rank.min(STAGGER.1);
                let look_in = match left {
                    // Free, but it could not be handed over.
                    -2 => LONGEST_RETRY,
                    -1 => LOOK_WITHOUT_TTL,
                    // A key may outlive its TTL, which is rounded, by a millisecond.
                    _ => free_in.unwrap_or_default() + FIRST_PAUSE,
                };
                let look_in = if rank == 0 { look_in.min(FIRST_LOOKS_EVERY) } else { look_in + stagger };
                Said::Busy { free_in, look_in }
            }
            _ => Said::Failed(Failure::unexpected(reply)),
        }
    }

    /// Waits until it is granted, with which fence; `None` when it is time to look.
    async fn granted(&self, mut look_in: Duration) -> Option<u64> {
        loop {
            match tokio::time::timeout(look_in, self.waiter.message()).await {
                Ok(Message::Granted { fence }) => return Some(fence),
                Ok(Message::Look { at }) => {
                    look_in = (at.since(self.shared.clock.now()) + FIRST_PAUSE).min(FIRST_LOOKS_EVERY);
                }
                Err(_) => return None,
            }
        }
    }

    /// Makes a grant that lasts for the claim window one for the whole TTL; false if it is gone.
    async fn claim(&mut self, fence: u64) -> bool {
        let call = Call::new(
            &EXTEND,
            [&self.keys.lock, &self.keys.fence, &self.keys.label],
            [
                self.token.clone(),
                self.ttl.as_millis().to_string(),
                fence.to_string(),
                "1".to_owned(),
                self.label.clone(),
            ],
        );
        matches!(self.shared.links[0].run(Arc::new(call)).await, Ok(reply) if reply.code() == 1)
    }

    /// The lease, if the clock, read now, is before its deadline; else another place with the same ticket.
    fn hold(mut self, acquire: &Acquire<'_>, began: Moment, fence: u64) -> Result<Lease, Place> {
        let deadline = began + quorum::validity(self.ttl, self.shared.settings.drift);
        if self.shared.clock.now() >= deadline {
            return Err(Place::new(acquire, self.ticket));
        }
        self.owed = false;
        let granted = Granted { late: None, token: self.token.clone(), fence, began, deadline, may_hold: vec![true] };
        Ok(Lease::new(Hold::begin(acquire.shared, acquire.name, acquire.keys, acquire.settings, granted)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.owed {
            let release = release_call(&self.shared, &self.keys, &self.token);
            self.shared.links[0].settle(Arc::new(release), self.ttl);
        }
    }
}
