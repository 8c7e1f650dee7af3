//! Taking a lock: rounds of ARCHITECTURE.md, "The protocol" until one succeeds or the wait is over.
//!
//! A round that does not end in a lease is undone on every server that may have granted it, whatever ended it: this
//! is [`Round`]'s drop, so that a dropped future, a lost vote and an error all take the same way.

use crate::answer::{Failure, Reply};
use crate::client::{self, Shared};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Outcome, Result, ServerReport};
use crate::hold::Hold;
use crate::lease::Lease;
use crate::options::{Keys, LockSettings, Wait};
use crate::quorum::{self, Step};
use crate::script::{ACQUIRE, Call, RAISE, RELEASE};
use crate::token;
use crate::turns::Place;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pauses between rounds while others hold the lock: doubled each time, with jitter.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

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
        began,
        attempts: 0,
        known: Vec::new(),
        unanswered: false,
    };
    let taken = tokio::select! {
        biased;
        () = shared.closing() => Err(client::closed()),
        () = interrupted => Err(Error::new(ErrorKind::Cancelled, "the wait was interrupted")),
        taken = work.take() => taken,
    };
    // The client may have begun to close in the same moment; it does not know this lease.
    let taken = taken.and_then(|lease| if shared.is_closing() { Err(client::closed()) } else { Ok(lease) });
    taken.map_err(|e| e.with_name(&name))
}

struct Acquire<'a> {
    shared: &'a Arc<Shared>,
    name: &'a str,
    keys: &'a Keys,
    settings: &'a LockSettings,
    began: Moment,
    attempts: u32,
    /// What each server said last.
    known: Vec<Option<String>>,
    /// Whether the last round may yet be granted somewhere, until its undoing gets there.
    unanswered: bool,
}

impl Acquire<'_> {
    async fn take(&mut self) -> Result<Lease> {
        let end = match self.settings.wait {
            Wait::Forever => None,
            Wait::For(limit) if limit.is_zero() => {
                return match self.attempt(None).await {
                    Ok(lease) => Ok(lease),
                    Err(missed) => Err(self.give_up(missed, None).await),
                };
            }
            Wait::For(limit) => Some(Instant::now() + limit),
        };
        let mut turn = self.shared.turns.enter(&self.keys.lock);
        if until(end, turn.come()).await.is_none() {
            return Err(self.never_came(&turn.place));
        }
        let mut pause = PAUSE.0;
        let mut warned = false;
        let mut before = Why::Short;
        loop {
            let began = self.shared.clock.now();
            let mut missed = match self.attempt(end).await {
                Ok(lease) => {
                    turn.place.answered();
                    return Ok(lease);
                }
                Err(missed) => missed,
            };
            if missed.why == Why::Cut {
                missed.why = before;
                return Err(self.give_up(missed, end).await);
            }
            let silent_since = if missed.why.silent() {
                Some(turn.place.silent_since(began))
            } else {
                turn.place.answered();
                None
            };
            // Without a limit, an outage of one TTL is enough.
            let outage = silent_since.is_some_and(|since| self.shared.clock.now().since(since) > self.settings.ttl);
            if missed.why == Why::Refused || (end.is_none() && outage) {
                return Err(self.give_up(missed, end).await);
            }
            if !warned
                && self.shared.clock.now().since(self.began) > self.settings.ttl
                && self.shared.holds(&self.keys.lock)
            {
                warned = true;
                tracing::warn!(target: "quorlock", name = self.name,
                    "waiting for a lock that this process holds itself: a lock is not re-entrant");
            }
            // Half of it is jitter, so that contenders fall out of step; and never longer than the lock is known to last.
            let mut rest = pause.mul_f64(0.5 + 0.5 * self.shared.rng.unit());
            if let Why::Busy { free_in: Some(free_in) } = missed.why {
                rest = rest.min(free_in.max(PAUSE.0));
            }
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
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// One round, which is cut at `end`.
    async fn attempt(&mut self, end: Option<Instant>) -> Result<Lease, Missed> {
        self.attempts += 1;
        let granted = Round::start(self.shared, self.keys, self.settings).run(end).await?;
        Ok(Lease::new(Hold::begin(self.shared, self.name, self.keys, self.settings, granted)))
    }

    async fn give_up(&mut self, missed: Missed, end: Option<Instant>) -> Error {
        let Missed { why, mut round } = missed;
        if why == Why::Short {
            round.hear_all(end).await;
        }
        self.learn(&round);
        self.error(why)
    }

    /// Keeps what each server said last.
    fn learn(&mut self, round: &Round) {
        self.unanswered = round.unanswered();
        self.known.resize(self.shared.links.len(), None);
        for (i, known) in self.known.iter_mut().enumerate() {
            *known = round.cause(i).or(known.take());
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
            _ if self.unanswered => error.with_outcome(Outcome::Unknown),
            _ => error.with_outcome(Outcome::NotApplied),
        }
    }

    /// The wait ended in the queue of this process. Who had the turn knows why.
    fn never_came(&self, place: &Place) -> Error {
        let (kind, message) = if place.found_busy() {
            (ErrorKind::Busy, "others hold the lock, and others of this process wait for it")
        } else {
            (ErrorKind::Unavailable, "too few servers answer others of this process")
        };
        Error::new(kind, message)
    }
}

/// A round that gave no lease. Dropping it undoes it.
struct Missed {
    why: Why,
    round: Round,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Busy {
        free_in: Option<Duration>,
    },
    Short,
    /// Confirmed, but after the deadline.
    Late,
    Refused,
    /// The wait was over before the round was.
    Cut,
}

impl Why {
    /// Whether too few servers answered in time.
    fn silent(self) -> bool {
        matches!(self, Why::Short | Why::Late)
    }
}

/// Runs `work` until `end`, if there is one; `None` if it takes longer.
async fn until<T>(end: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match end {
        None => Some(work.await),
        Some(end) => tokio::time::timeout_at(end, work).await.ok(),
    }
}

/// A lock that a majority has confirmed, in time.
pub(crate) struct Granted {
    /// The rest of the round, if some servers have not answered yet.
    pub late: Option<Round>,
    pub token: String,
    pub fence: u64,
    /// Before the first message was sent: validity counts from here.
    pub began: Moment,
    pub deadline: Moment,
    /// For each server, whether it may have granted it.
    pub may_hold: Vec<bool>,
}

enum Said {
    Acquire(Result<Reply, Failure>),
    Raise(u64, Result<Reply, Failure>),
}

/// One attempt on all servers, with a token of its own.
pub(crate) struct Round {
    shared: Arc<Shared>,
    keys: Keys,
    ttl: Duration,
    token: String,
    began: Moment,
    votes: quorum::Round,
    said: Vec<Option<Result<(), Failure>>>,
    asked: FuturesUnordered<BoxFuture<'static, (usize, Said)>>,
    /// Whether dropping it gives up what it may have been granted.
    undo: bool,
}

impl Round {
    fn start(shared: &Arc<Shared>, keys: &Keys, settings: &LockSettings) -> Round {
        let n = shared.links.len();
        let token = token::fresh(&*shared.rng, &shared.uuid);
        let began = shared.clock.now();
        // One server's own clock decides; several need one proposal to agree on in one trip.
        let proposal = if n == 1 { 0 } else { shared.clock.wall_us() };
        let call = Arc::new(Call::new(
            &ACQUIRE,
            [&keys.lock, &keys.fence, &keys.label],
            [
                token.clone(),
                settings.ttl.as_millis().to_string(),
                proposal.to_string(),
                settings.label.clone().unwrap_or_default(),
            ],
        ));
        let asked = FuturesUnordered::new();
        for (i, link) in shared.links.iter().enumerate() {
            let answer = link.run(call.clone());
            asked.push(Box::pin(async move { (i, Said::Acquire(answer.await)) }) as BoxFuture<_>);
        }
        Round {
            shared: shared.clone(),
            keys: keys.clone(),
            ttl: settings.ttl,
            token,
            began,
            votes: quorum::Round::new(n),
            said: vec![None; n],
            asked,
            undo: true,
        }
    }

    async fn run(mut self, end: Option<Instant>) -> Result<Granted, Missed> {
        let deadline = self.began + quorum::validity(self.ttl, self.shared.settings.drift);
        let why = loop {
            self.raise();
            match self.votes.step() {
                Step::Open if self.shared.clock.now() >= deadline => break Why::Late,
                Step::Open => {}
                // This reading of the clock is the completion: the lock is ours from here, if it is in time.
                Step::Confirmed { .. } if self.shared.clock.now() >= deadline => break Why::Late,
                Step::Confirmed { fence } => {
                    self.undo = false;
                    let (token, began) = (self.token.clone(), self.began);
                    let may_hold = (0..self.said.len()).map(|i| self.may_hold(i)).collect();
                    let late = Some(self).filter(|round| !round.asked.is_empty());
                    return Ok(Granted { late, token, fence, began, deadline, may_hold });
                }
                Step::Busy { free_in } => break Why::Busy { free_in },
                Step::Short => break Why::Short,
                Step::Refused => break Why::Refused,
            }
            match until(end, self.asked.next()).await {
                Some(Some((i, said))) => self.hear(i, said),
                Some(None) => break Why::Short,
                None => break Why::Cut,
            }
        };
        Err(Missed { why, round: self })
    }

    /// Servers that answer after the completion are still raised to the fence of the round.
    pub(crate) async fn finish(mut self) {
        while let Some((i, said)) = self.asked.next().await {
            self.hear(i, said);
            self.raise();
        }
    }

    /// When the outcome is known: what the others say, within their limits, may help whoever reads the error.
    async fn hear_all(&mut self, end: Option<Instant>) {
        while let Some(Some((i, said))) = until(end, self.asked.next()).await {
            self.hear(i, said);
        }
    }

    fn hear(&mut self, i: usize, said: Said) {
        match said {
            Said::Acquire(Ok(reply)) => match (reply.code(), reply.numbers.get(1)) {
                (1, Some(&fence)) if fence > 0 => {
                    // Later: a third number says that the server is in quarantine and its vote does not count.
                    self.said[i] = Some(Ok(()));
                    self.votes.granted(i, fence as u64);
                }
                (0, Some(&pttl)) => {
                    self.said[i] = Some(Ok(()));
                    self.votes.busy(i, u64::try_from(pttl).ok().map(Duration::from_millis));
                }
                _ => self.failed(i, Failure::unexpected(&reply)),
            },
            Said::Raise(fence, Ok(reply)) => match reply.code() {
                1 => self.votes.granted(i, fence),
                -1 => {
                    tracing::warn!(target: "quorlock", fence, server = self.shared.links[i].address(),
                        "a server gave a fence far in the future: its clock is ahead");
                    self.votes.too_high(i, fence);
                }
                _ => self.failed(
                    i,
                    Failure {
                        cause: "lost the lock before it was confirmed".into(),
                        for_good: false,
                        maybe_applied: true,
                    },
                ),
            },
            Said::Acquire(Err(failure)) => self.failed(i, failure),
            // It granted before, so it may hold the lock still.
            Said::Raise(_, Err(failure)) => self.failed(i, Failure { maybe_applied: true, ..failure }),
        }
    }

    fn failed(&mut self, i: usize, failure: Failure) {
        self.votes.failed(i, failure.for_good);
        self.said[i] = Some(Err(failure));
    }

    fn raise(&mut self) {
        for (i, fence) in self.votes.raises() {
            let call = Call::new(&RAISE, [&self.keys.lock, &self.keys.fence], [self.token.clone(), fence.to_string()]);
            let answer = self.shared.links[i].run(Arc::new(call));
            self.asked.push(Box::pin(async move { (i, Said::Raise(fence, answer.await)) }));
        }
    }

    /// Whether a server may yet do what it was asked, until the undoing reaches it.
    fn unanswered(&self) -> bool {
        self.said.iter().any(|said| !matches!(said, Some(Ok(()))) && !matches!(said, Some(Err(f)) if !f.maybe_applied))
    }

    /// Whether this server may hold the lock for us, now or when a late message gets there.
    fn may_hold(&self, server: usize) -> bool {
        let maybe = matches!(&self.said[server], Some(Err(failure)) if failure.maybe_applied);
        self.votes.may_hold(server, maybe)
    }

    /// What this server said, if it has.
    fn cause(&self, server: usize) -> Option<String> {
        Some(match self.said[server].as_ref()? {
            Ok(()) if self.votes.is_busy(server) => "held by others".to_owned(),
            Ok(()) if self.votes.is_ahead(server) => {
                "its fence is far ahead: its clock or the others' is wrong".to_owned()
            }
            Ok(()) => "granted".to_owned(),
            Err(failure) => failure.cause.clone(),
        })
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if !self.undo {
            return;
        }
        let mut release = None;
        for (i, link) in self.shared.links.iter().enumerate() {
            if self.may_hold(i) {
                let release = release.get_or_insert_with(|| Arc::new(release_call(&self.keys, &self.token)));
                link.settle(release.clone(), self.ttl);
            }
        }
    }
}

/// The call that gives up whatever `token` holds.
pub(crate) fn release_call(keys: &Keys, token: &str) -> Call {
    Call::new(&RELEASE, [&keys.lock, &keys.label], [token.to_owned()])
}
