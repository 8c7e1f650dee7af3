//! One attempt on all servers: ARCHITECTURE.md, "The life of an acquire".
//!
//! A round that does not end in a lease is undone on every server that may have granted it, whatever ended it: this
//! is [`Round`]'s drop, so that a dropped future, a lost vote and an error all take the same way.

use crate::acquire::{Granted, Why, settle_release, try_call, until};
use crate::answer::{Failure, Reply};
use crate::client::Shared;
use crate::clock::Moment;
use crate::options::{Keys, LockSettings};
use crate::quorum::{self, Step};
use crate::script::{Call, RAISE};
use crate::token;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A round that gave no lease. Dropping it undoes it.
pub(crate) struct Missed {
    pub why: Why,
    pub round: Round,
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
    pub(crate) fn start(shared: &Arc<Shared>, keys: &Keys, settings: &LockSettings) -> Round {
        let n = shared.links.len();
        let token = token::fresh(&*shared.rng, &shared.uuid);
        let began = shared.clock.now();
        // One server's own clock decides; several need one proposal to agree on in one trip.
        let proposal = if n == 1 { 0 } else { shared.clock.wall_us() };
        let label = settings.label.as_deref().unwrap_or_default();
        let call = Arc::new(try_call(shared, keys, &token, settings.ttl, proposal, label, None));
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

    pub(crate) async fn run(mut self, end: Option<Instant>) -> Result<Granted, Missed> {
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
                    let late = (!self.asked.is_empty()).then(|| Box::pin(self.finish()) as BoxFuture<'static, ()>);
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
    async fn finish(mut self) {
        while let Some((i, said)) = self.asked.next().await {
            self.hear(i, said);
            self.raise();
        }
    }

    /// When the outcome is known: what the others say, within their limits, may help whoever reads the error.
    pub(crate) async fn hear_all(&mut self, end: Option<Instant>) {
        while let Some(Some((i, said))) = until(end, self.asked.next()).await {
            self.hear(i, said);
        }
    }

    fn hear(&mut self, i: usize, said: Said) {
        match said {
            Said::Acquire(Ok(reply)) => match (reply.code(), reply.number(1)) {
                (1, Some(fence)) if fence > 0 => {
                    // Later: a third number says that the server is in quarantine and its vote does not count.
                    self.said[i] = Some(Ok(()));
                    self.votes.granted(i, fence as u64);
                }
                (0, Some(pttl)) => {
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
    pub(crate) fn unanswered(&self) -> bool {
        self.said.iter().any(|said| !matches!(said, Some(Ok(()))) && !matches!(said, Some(Err(f)) if !f.maybe_applied))
    }

    /// Whether this server may hold the lock for us, now or when a late message gets there.
    fn may_hold(&self, server: usize) -> bool {
        let maybe = matches!(&self.said[server], Some(Err(failure)) if failure.maybe_applied);
        self.votes.may_hold(server, maybe)
    }

    /// What this server said, if it has.
    pub(crate) fn cause(&self, server: usize) -> Option<String> {
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
        if self.undo {
            settle_release(&self.shared, &self.keys, &self.token, self.ttl, |server| self.may_hold(server));
        }
    }
}
