//! Taking a lock, or saying why not.
//!
//! First a round: it takes the lock in one trip, if it is free and nobody waits. Then a place in the queue, until the
//! lock is handed over. Where no messages reach us (rights, no RESP3), rounds again, with pauses in between.

use crate::channels::Listening;
use crate::client::{self, Shared};
use crate::clock::Moment;
use crate::error::{self, Error, ErrorKind, Result, ServerReport};
use crate::handover::{self, Outcome};
use crate::hold::Hold;
use crate::lease::Lease;
use crate::options::{Keys, LockSettings, Wait};
use crate::quorum;
use crate::round::{Missed, Round};
use crate::script::{Call, RELEASE, TRY};
use crate::server::Link;
use crate::turns::Place;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The first pause before asking again; it doubles each time.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest pause of a waiter that no message reaches.
const LONGEST_POLL: Duration = Duration::from_millis(500);
/// The longest pause while too few servers answer.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_millis(200);

/// Takes the lock or says why not, as `settings.wait` says. `interrupts`: how many there were when the call began.
pub(crate) async fn acquire(
    shared: &Arc<Shared>,
    name: String,
    keys: Keys,
    settings: LockSettings,
    interrupts: u64,
) -> Result<Lease> {
    let began = shared.clock.now();
    let _counted = shared.acquiring();
    let waiting = shared.counters.waiting(&*shared.clock, began);
    let interrupted = async {
        // The count tells: one may have come before this task began, and a notice may be of one before the call.
        loop {
            let next = shared.interrupted.notified();
            if shared.interrupts() != interrupts {
                break;
            }
            next.await;
        }
    };
    let mut work = Acquire {
        shared,
        name: &name,
        keys: &keys,
        settings: &settings,
        end: match settings.wait {
            Wait::For(limit) if !limit.is_zero() => Some(Instant::now() + limit),
            _ => None,
        },
        began,
        began_us: shared.clock.wall_us(),
        attempts: 0,
        known: vec![None; shared.links.len()],
        unanswered: false,
        warned: false,
    };
    let taken = tokio::select! {
        biased;
        () = shared.closing() => Err(client::closed()),
        () = interrupted => Err(Error::new(ErrorKind::Cancelled, "the wait was interrupted")),
        taken = work.take() => taken,
    };
    waiting.ends(taken.as_ref().err().map(Error::kind));
    if let Ok(lease) = &taken {
        tracing::debug!(target: "quorlock", name, fence = lease.fence(),
            waited_ms = shared.clock.now().since(began).as_millis() as u64, "acquired");
    }
    if taken.is_err() {
        // What it gives up is sent before its caller asks again, who must not meet it.
        tokio::task::yield_now().await;
    }
    // The client may have begun to close in the same moment; it does not know this lease.
    let taken = taken.and_then(|lease| if shared.is_closing() { Err(client::closed()) } else { Ok(lease) });
    taken.map_err(|e| e.with_name(&name))
}

/// One acquire, and what it has learnt.
pub(crate) struct Acquire<'a> {
    pub shared: &'a Arc<Shared>,
    pub name: &'a str,
    pub keys: &'a Keys,
    pub settings: &'a LockSettings,
    /// When the wait is over, if it has a limit other than zero.
    pub end: Option<Instant>,
    began: Moment,
    /// When it began, by the wall clock.
    pub began_us: u64,
    pub attempts: u32,
    /// What each server said last.
    pub known: Vec<Option<String>>,
    /// Whether it may yet be granted somewhere, until its undoing gets there.
    pub unanswered: bool,
    warned: bool,
}

/// Why an attempt gave no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Others hold the lock; when enough servers may be free, if they said so.
    Busy { free_in: Option<Duration> },
    /// Too few servers answered usefully.
    Short,
    /// Confirmed, but after the deadline.
    Late,
    /// They refuse for good.
    Refused,
    /// The wait was over before the attempt was.
    Cut,
}

impl Why {
    /// Whether too few servers answered in time.
    pub(crate) fn silent(self) -> bool {
        matches!(self, Why::Short | Why::Late)
    }
}

impl Acquire<'_> {
    async fn take(&mut self) -> Result<Lease> {
        if self.once() {
            return match self.round().await {
                Ok(lease) => Ok(lease),
                Err(missed) => Err(self.give_up(missed).await),
            };
        }
        let (shared, end) = (self.shared, self.end);
        let mut turn = shared.turns.enter(&self.keys.lock);
        let mut polling = false;
        let mut queue = self.join(turn.contended());
        if until(end, turn.behind_first()).await.is_none() {
            return Err(self.error(Why::Short));
        }
        let mut pause = FIRST_PAUSE;
        let mut before = Why::Short;
        loop {
            if let Some(listening) = queue.take() {
                // Nothing is awaited before its own try goes out, so those that stand behind it still come later.
                turn.first_is_over();
                match handover::wait(self, listening).await {
                    Outcome::Taken(lease) => return Ok(lease),
                    Outcome::Missed(why) => return Err(self.error(why)),
                    Outcome::NoMessages => polling = true,
                }
                // One contender for each name is enough.
                if until(end, turn.come()).await.is_none() {
                    return Err(never_came(&turn.place));
                }
            }
            let began = shared.clock.now();
            let round = self.round().await;
            turn.first_is_over();
            let mut missed = match round {
                Ok(lease) => {
                    turn.place.answered();
                    return Ok(lease);
                }
                Err(missed) => missed,
            };
            if missed.why == Why::Cut {
                missed.why = before;
                return Err(self.give_up(missed).await);
            }
            let silent_since = if missed.why.silent() {
                Some(turn.place.silent_since(began))
            } else {
                turn.place.answered();
                None
            };
            if missed.why == Why::Refused || self.outage(silent_since) {
                return Err(self.give_up(missed).await);
            }
            self.warn_of_own();
            // Half of it is jitter, so that contenders fall out of step.
            let mut rest = pause.mul_f64(0.5 + 0.5 * shared.rng.unit());
            let mut longest = LONGEST_RETRY;
            if let Why::Busy { free_in } = missed.why {
                if !polling {
                    self.learn(&missed.round);
                    queue = self.join(true);
                    continue;
                }
                // Never longer than the lock is known to last.
                rest = free_in.map_or(rest, |free_in| rest.min(free_in.max(FIRST_PAUSE)));
                longest = LONGEST_POLL;
            }
            pause = (pause * 2).min(longest);
            let next = Instant::now() + rest;
            let next = end.map_or(next, |end| end.min(next));
            if missed.why == Why::Short {
                missed.round.hear_all(Some(next)).await;
            }
            self.learn(&missed.round);
            before = missed.why;
            // Undone before the pause, not after it.
            drop(missed);
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = turn.place.freed.notified() => {}
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(self.error(before));
            }
        }
    }

    /// Listens to each server's wake-ups, if others wait or the client does so already.
    fn join(&self, others: bool) -> Option<Vec<Listening>> {
        let channel = &self.shared.wakeups.channel;
        let links = &self.shared.links;
        let joined: Vec<_> = links.iter().map(|link| link.join(channel)).collect();
        let known = joined.iter().flatten().count() >= quorum::majority(links.len());
        let listen =
            |(joined, link): (Option<Listening>, &Arc<dyn Link>)| joined.unwrap_or_else(|| link.listen(channel));
        (others || known).then(|| joined.into_iter().zip(links).map(listen).collect())
    }

    /// One round, which is cut at the end of the wait.
    async fn round(&mut self) -> Result<Lease, Missed> {
        self.count_attempt();
        let granted = Round::start(self.shared, self.keys, self.settings).run(self.end).await?;
        Ok(Lease::new(Hold::begin(self.shared, self.name, self.keys, self.settings, granted)))
    }

    /// Notes that the servers are asked for the lock.
    pub(crate) fn count_attempt(&mut self) {
        self.attempts += 1;
        self.shared.counters.attempts.add(1);
    }

    async fn give_up(&mut self, missed: Missed) -> Error {
        let Missed { why, mut round } = missed;
        if why == Why::Short {
            round.hear_all(self.end).await;
        }
        self.learn(&round);
        self.error(why)
    }

    /// Keeps what each server said last.
    fn learn(&mut self, round: &Round) {
        self.unanswered = round.unanswered();
        for (i, known) in self.known.iter_mut().enumerate() {
            *known = round.cause(i).or(known.take());
        }
    }

    /// Whether it is to try only once.
    pub(crate) fn once(&self) -> bool {
        self.settings.wait == Wait::For(Duration::ZERO)
    }

    /// Whether an outage that began then is to be told: without a limit of the wait, one TTL is enough.
    pub(crate) fn outage(&self, silent_since: Option<Moment>) -> bool {
        let over = |since| self.shared.clock.now().since(since) > self.settings.ttl;
        self.end.is_none() && silent_since.is_some_and(over)
    }

    /// Warns once of a wait that may never end.
    pub(crate) fn warn_of_own(&mut self) {
        let now = self.shared.clock.now();
        // Not one that a waiter of this process has just been handed.
        let own = |lease: &Hold| lease.key() == self.keys.lock && now.since(lease.since()) > self.settings.ttl;
        if !self.warned && now.since(self.began) > self.settings.ttl && self.shared.lease(own).is_some() {
            self.warned = true;
            tracing::warn!(target: "quorlock", name = self.name,
                "waiting for a lock that this process holds itself: a lock is not re-entrant");
        }
    }

    fn error(&self, why: Why) -> Error {
        let servers: Vec<_> = self
            .shared
            .links
            .iter()
            .zip(&self.known)
            .map(|(link, cause)| ServerReport {
                address: link.address().to_owned(),
                cause: cause.clone().unwrap_or_else(|| "not answered yet".to_owned()),
            })
            .collect();
        let (kind, message) = match why {
            Why::Busy { .. } => (ErrorKind::Busy, "others hold the lock"),
            Why::Short | Why::Cut => (ErrorKind::Unavailable, "too few servers answered usefully"),
            Why::Late => (ErrorKind::Unavailable, "the servers answered too late"),
            Why::Refused => (ErrorKind::Refused, "the servers refuse"),
        };
        let message = match &servers[..] {
            [only] if kind != ErrorKind::Busy => format!("{message}: {}", only.cause),
            _ => message.to_owned(),
        };
        let error = Error::new(kind, message)
            .with_servers(servers)
            .with_effort(self.attempts, self.shared.clock.now().since(self.began));
        match kind {
            ErrorKind::Busy => error,
            _ if self.unanswered => error.with_outcome(error::Outcome::Unknown),
            _ => error.with_outcome(error::Outcome::NotApplied),
        }
    }
}

/// A lock that has been granted and confirmed, in time.
pub(crate) struct Granted {
    /// The rest of the round, if some servers have not answered yet.
    pub late: Option<BoxFuture<'static, ()>>,
    pub token: String,
    pub fence: u64,
    /// Before the message was sent from which validity counts.
    pub began: Moment,
    pub deadline: Moment,
    /// For each server, whether it may have granted it.
    pub may_hold: Vec<bool>,
}

/// The wait ended while others of this process were asking, by turns. They know why.
fn never_came(place: &Place) -> Error {
    let (kind, message) = if place.found_busy() {
        (ErrorKind::Busy, "others hold the lock, and others of this process wait for it")
    } else {
        (ErrorKind::Unavailable, "too few servers answer others of this process")
    };
    Error::new(kind, message)
}

/// Ends at `end`, if there is one.
pub(crate) async fn over(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Runs `work` until `end`, if there is one; `None` if it takes longer.
pub(crate) async fn until<T>(end: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match end {
        None => Some(work.await),
        Some(end) => tokio::time::timeout_at(end, work).await.ok(),
    }
}

/// The call that takes the lock for `ttl` if it is free and nobody waits, with this fence or a larger one (0: the server's
/// clock decides); else, with a ticket, stands in the queue.
pub(crate) fn try_call(
    shared: &Shared,
    keys: &Keys,
    token: &str,
    ttl: Duration,
    proposal_us: u64,
    label: &str,
    ticket: Option<i64>,
) -> Call {
    let settings = &shared.settings;
    Call::new(
        &TRY,
        [&keys.lock, &keys.fence, &keys.label, &keys.queue],
        [
            token.to_owned(),
            ttl.as_millis().to_string(),
            proposal_us.to_string(),
            label.to_owned(),
            u8::from(ticket.is_some()).to_string(),
            ticket.unwrap_or_default().to_string(),
            settings.claim_window.as_millis().to_string(),
            settings.prefix.clone(),
            // Only on several servers may the lock have been given to a later ticket than one that comes.
            u8::from(shared.links.len() > 1).to_string(),
        ],
    )
}

/// The call that gives up whatever `token` holds, and its place in the queue.
pub(crate) fn release_call(shared: &Shared, keys: &Keys, token: &str) -> Call {
    let settings = &shared.settings;
    Call::new(
        &RELEASE,
        [&keys.lock, &keys.fence, &keys.label, &keys.queue],
        [token.to_owned(), settings.claim_window.as_millis().to_string(), settings.prefix.clone()],
    )
}

/// Gives up, in the background, whatever `token` has on the servers to which that is `owed`.
pub(crate) fn settle_release(shared: &Shared, keys: &Keys, token: &str, keep: Duration, owed: impl Fn(usize) -> bool) {
    let mut release = None;
    for (server, link) in shared.links.iter().enumerate() {
        if owed(server) {
            let release = release.get_or_insert_with(|| Arc::new(release_call(shared, keys, token)));
            link.settle(release.clone(), keep);
        }
    }
}
