//! One question to every server, and the answers so far.

use crate::answer::{Failure, Reply};
use crate::client::Shared;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Outcome, ServerReport};
use crate::quorum::{Tally, Verdict, majority};
use crate::script::Call;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A script that runs on all servers at once. Dropping it stops waiting for the answers.
pub(crate) struct Ballot {
    pub tally: Tally,
    pub answers: Vec<Option<Result<Reply, Failure>>>,
    asked: FuturesUnordered<BoxFuture<'static, (usize, Result<Reply, Failure>)>>,
    count: fn(&Reply) -> bool,
}

impl Ballot {
    /// Asks every server; `count` says which answers mean yes.
    pub(crate) fn open(shared: &Shared, call: Call, count: fn(&Reply) -> bool) -> Ballot {
        let call = Arc::new(call);
        Ballot::ask(shared, |_| call.clone(), count, |_| None)
    }

    /// As [`Ballot::open`], with a call of its own for each server.
    pub(crate) fn each(shared: &Shared, call: impl Fn(usize) -> Call, count: fn(&Reply) -> bool) -> Ballot {
        Ballot::ask(shared, |i| Arc::new(call(i)), count, |_| None)
    }

    /// As [`Ballot::open`], and sees to it that the call reaches those of the `holders` that fail now, for about `keep`.
    pub(crate) fn insist(
        shared: &Shared,
        call: Call,
        count: fn(&Reply) -> bool,
        holders: &[AtomicBool],
        keep: Duration,
    ) -> Ballot {
        let call = Arc::new(call);
        Ballot::ask(shared, |_| call.clone(), count, |i| holders[i].load(Ordering::Acquire).then_some(keep))
    }

    fn ask(
        shared: &Shared,
        call: impl Fn(usize) -> Arc<Call>,
        count: fn(&Reply) -> bool,
        keep: impl Fn(usize) -> Option<Duration>,
    ) -> Ballot {
        let n = shared.links.len();
        let ballot = Ballot { tally: Tally::new(n), answers: vec![None; n], asked: FuturesUnordered::new(), count };
        for (i, link) in shared.links.iter().enumerate() {
            let call = call(i);
            let answer = link.run(call.clone());
            let (link, keep) = (link.clone(), keep(i));
            ballot.asked.push(Box::pin(async move {
                let answer = answer.await;
                if let (Err(_), Some(keep)) = (&answer, keep) {
                    link.settle(call, keep);
                }
                (i, answer)
            }));
        }
        ballot
    }

    /// Whether every server has answered or failed.
    pub(crate) fn complete(&self) -> bool {
        self.asked.is_empty()
    }

    /// Takes the next answer; false when there is none to come.
    pub(crate) async fn next(&mut self) -> bool {
        let Some((i, answer)) = self.asked.next().await else { return false };
        match &answer {
            Ok(reply) if (self.count)(reply) => self.tally.yes += 1,
            Ok(_) => self.tally.no += 1,
            Err(_) => self.tally.failed += 1,
        }
        self.answers[i] = Some(answer);
        true
    }

    /// Waits until the answers decide it.
    pub(crate) async fn decide(&mut self) -> Verdict {
        while self.tally.verdict() == Verdict::Open && self.next().await {}
        self.tally.verdict()
    }

    /// The error that too few servers have answered.
    pub(crate) fn short(&self, shared: &Shared, what: &str, began: Moment) -> Error {
        let message = format!("too few servers answered usefully to {what}");
        self.error(ErrorKind::Unavailable, message, shared, began)
    }

    /// As [`Ballot::short`]; or the error that a majority refuses for good.
    pub(crate) fn failed(&self, shared: &Shared, what: &str, began: Moment) -> Error {
        let refusals = || self.answers.iter().flatten().flat_map(|answer| answer.as_ref().err()).filter(|f| f.for_good);
        if refusals().count() < majority(self.answers.len()) {
            return self.short(shared, what, began);
        }
        let message = match (&self.answers[..], refusals().next()) {
            ([_], Some(only)) => format!("the servers refuse: {}", only.cause),
            _ => "the servers refuse".to_owned(),
        };
        self.error(ErrorKind::Refused, message, shared, began)
    }

    fn error(&self, kind: ErrorKind, message: String, shared: &Shared, began: Moment) -> Error {
        let report = |(answer, link): (&Option<Result<Reply, Failure>>, &Arc<dyn crate::server::Link>)| ServerReport {
            address: link.address().to_owned(),
            cause: match answer {
                None => "not answered yet".to_owned(),
                Some(Ok(_)) => "answered".to_owned(),
                Some(Err(failure)) => failure.cause.clone(),
            },
        };
        let unknown = self.answers.iter().any(|answer| !matches!(answer, Some(Err(f)) if !f.maybe_applied));
        Error::new(kind, message)
            .with_servers(self.answers.iter().zip(&shared.links).map(report).collect())
            .with_effort(1, shared.clock.now().since(began))
            .with_outcome(if unknown { Outcome::Unknown } else { Outcome::NotApplied })
    }
}
