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
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Pauses between rounds while others hold the lock: doubled each time, with jitter.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// Takes the lock or says why not, as `settings.wait` says.
pub(crate) async fn acquire(shared: &Arc<Shared>, name: String, keys: Keys, settings: LockSettings) -> Result<Lease> {
    let began = shared.clock.now();
    let _counted = shared.acquiring();
    let mut interrupted = pin!(shared.interrupted.notified());
    interrupted.as_mut().enable();
    let mut work =
        Acquire { shared, name: &name, keys: &keys, settings: &settings, began, attempts: 0, silent_since: None };
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
    /// Since when too few servers have answered.
    silent_since: Option<Moment>,
}

impl Acquire<'_> {
    async fn take(&mut self) -> Result<Lease> {
        let end = match self.settings.wait {
            Wait::Forever => None,
            Wait::For(limit) if limit.is_zero() => return self.attempt_once().await,
            Wait::For(limit) => Some(tokio::time::Instant::now() + limit),
        };
        let enter = self.shared.turns.enter(&self.keys.lock);
        let turn = match end {
            None => enter.await,
            Some(end) => match tokio::time::timeout_at(end, enter).await {
                Ok(turn) => turn,
                // One look at the servers tells whether it was held or whether they are down.
                Err(_) => return self.attempt_once().await,
            },
        };
        let mut pause = PAUSE.0;
        let mut warned = false;
        loop {
            let missed = match self.attempt().await {
                Ok(lease) => return Ok(lease),
                Err(missed) => missed,
            };
            let now = tokio::time::Instant::now();
            if missed.why == Why::Refused || end.is_some_and(|end| now >= end) || (end.is_none() && self.outage()) {
                return Err(self.give_up(missed).await);
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
            // Undone before the pause, not after it.
            drop(missed);
            let until = now + rest;
            tokio::select! {
                () = tokio::time::sleep_until(end.map_or(until, |end| until.min(end))) => {}
                () = turn.freed.notified() => {}
            }
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Whether too few servers have answered for longer than one TTL.
    fn outage(&self) -> bool {
        self.silent_since.is_some_and(|since| self.shared.clock.now().since(since) > self.settings.ttl)
    }

    async fn attempt_once(&mut self) -> Result<Lease> {
        match self.attempt().await {
            Ok(lease) => Ok(lease),
            Err(missed) => Err(self.give_up(missed).await),
        }
    }

    async fn attempt(&mut self) -> Result<Lease, Missed> {
        self.attempts += 1;
        let began = self.shared.clock.now();
        match Round::start(self.shared, self.keys, self.settings).run().await {
            Ok(granted) => Ok(Lease::new(Hold::begin(self.shared, self.name, self.keys, self.settings, granted))),
            Err(missed) => {
                self.silent_since = match missed.why {
                    Why::Short => self.silent_since.or(Some(began)),
                    _ => None,
                };
                Err(missed)
            }
        }
    }

    async fn give_up(&self, missed: Missed) -> Error {
        let Missed { why, mut round } = missed;
        if why == Why::Short {
            // The outcome is known; what the others say, within their limits, may help whoever reads the error.
            while let Some((i, said)) = round.asked.next().await {
                round.hear(i, said);
            }
        }
        let servers = round.reports();
        let (kind, message) = match why {
            Why::Busy { .. } => (ErrorKind::Busy, "others hold the lock"),
            Why::Short => (ErrorKind::Unavailable, "too few servers answered usefully"),
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
            _ if round.unanswered() => error.with_outcome(Outcome::Unknown),
            _ => error.with_outcome(Outcome::NotApplied),
        }
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

    async fn run(mut self) -> Result<Granted, Missed> {
        let why = loop {
            self.raise();
            match self.votes.step() {
                Step::Open => {}
                Step::Confirmed { fence } => {
                    // This reading of the clock is the completion: the lock is ours from here, if it is in time.
                    let deadline = self.began + quorum::validity(self.ttl, self.shared.settings.drift);
                    if self.shared.clock.now() >= deadline {
                        break Why::Late;
                    }
                    self.undo = false;
                    let (token, began) = (self.token.clone(), self.began);
                    let late = Some(self).filter(|round| !round.asked.is_empty());
                    return Ok(Granted { late, token, fence, began, deadline });
                }
                Step::Busy { free_in } => break Why::Busy { free_in },
                Step::Short => break Why::Short,
                Step::Refused => break Why::Refused,
            }
            match self.asked.next().await {
                Some((i, said)) => self.hear(i, said),
                None => break Why::Short,
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
                1 => self.votes.raised(i, fence),
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

    fn reports(&self) -> Vec<ServerReport> {
        let report = |(i, said): (usize, &Option<Result<(), Failure>>)| ServerReport {
            address: self.shared.links[i].address().to_owned(),
            cause: match said {
                None => "not answered yet".to_owned(),
                Some(Ok(())) if self.votes.is_busy(i) => "held by others".to_owned(),
                Some(Ok(())) => "granted".to_owned(),
                Some(Err(failure)) => failure.cause.clone(),
            },
        };
        self.said.iter().enumerate().map(report).collect()
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        if !self.undo {
            return;
        }
        let mut release = None;
        for (i, link) in self.shared.links.iter().enumerate() {
            let maybe = matches!(&self.said[i], Some(Err(failure)) if failure.maybe_applied);
            if self.votes.may_hold(i, maybe) {
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
