//! Taking a lock away from whoever holds it.
//!
//! The holder is told at its next renewal or question. Until then it may go on writing, so what protects the data is
//! the fence: the new one is above every earlier grant's, and below every later one's.
//!
//! Two steps, each sent to all servers. The first takes a new fence on each of them, so that none of the holder's
//! extensions counts any more. F, the largest of these that a majority can have, is the fence of the break. The second
//! lifts every server to F, deletes the lock and hands it to the first waiter, with a larger fence. In one step a waiter could
//! be served with a fence below F, and be outdated in the same moment. And each step may arrive twice: where the lock was
//! granted since, the second finds nothing to do.

use crate::ballot::Ballot;
use crate::client::{Client, Shared};
use crate::error::{Outcome, Result};
use crate::options::{self, Keys};
use crate::quorum::{self, Verdict};
use crate::runtime;
use crate::script::{BREAK, Call, OUTDATE};
use std::sync::Arc;

impl Client {
    /// Frees a lock whoever holds it, and hands it to the first waiter. Gives a new fencing token: above that of every
    /// lease so far, and below that of every later one. Where a store has seen it, the old holder's writes are refused;
    /// the holder's lease is lost (taken) at its next renewal; without renewal, when it ends. Also works on a lock that
    /// nobody holds.
    ///
    /// For people who know that a holder is gone, or must go.
    ///
    /// # Errors
    /// Unavailable: fewer than a majority of the servers have confirmed it; its outcome says whether it may have happened
    /// all the same. Refused: they said no for good (rights, a key that holds something other than a lock, fence
    /// exhausted). Invalid: a wrong name; nothing was sent. Closed.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop it.
    pub async fn break_lock(&self, name: &str) -> Result<u64> {
        let keys = options::keys(name, self.settings())?;
        let shared = self.shared().map_err(|e| e.with_name(name))?.clone();
        let fence = runtime::run_to_end(Box::pin(async move { break_lock(&shared, &keys).await })).await;
        let fence = fence.map_err(|e| e.with_name(name))?;
        tracing::warn!(target: "quorlock", name, fence, "lock broken");
        Ok(fence)
    }
}

async fn break_lock(shared: &Arc<Shared>, keys: &Keys) -> Result<u64> {
    let began = shared.clock.now();
    let n = shared.links.len();
    // As for an acquire: one server's own clock decides.
    let proposal = if n == 1 { 0 } else { shared.clock.wall_us() };
    let outdate = Call::new(&OUTDATE, [&keys.lock, &keys.fence, &keys.label], [proposal.to_string()]);
    let mut ballot = Ballot::open(shared, outdate, |reply| reply.code() > 0);
    // All of them, if they answer in time: a fence that we do not know of may be larger.
    while ballot.next().await {}
    let given = ballot.answers.iter().map(|answer| {
        let reply = answer.as_ref()?.as_ref().ok()?;
        Some((u64::try_from(reply.number(0)?).ok()?, u64::try_from(reply.number(1)?).ok()?))
    });
    let given: Vec<_> = given.collect();
    let Some(fence) = quorum::break_fence(&given) else {
        return Err(ballot.failed(shared, "break", began));
    };
    if given.iter().flatten().any(|(own, _)| *own > fence) {
        tracing::warn!(target: "quorlock", fence, "a server gave a fence far in the future: its clock is ahead");
    }
    let settings = &shared.settings;
    let call = |i: usize| {
        // A server that is far ahead keeps its own.
        let fence = given[i].map_or(fence, |(own, _)| own.max(fence));
        Call::new(
            &BREAK,
            [&keys.lock, &keys.fence, &keys.label, &keys.queue],
            [fence.to_string(), settings.claim_window.as_millis().to_string(), settings.prefix.clone()],
        )
    };
    let mut ballot = Ballot::each(shared, call, |reply| reply.code() == 1);
    let verdict = ballot.decide().await;
    // Those of this process who ask now and again need not wait for it.
    shared.turns.freed(&keys.lock);
    if verdict != Verdict::Yes {
        // Whatever came of the second step, the first has been done.
        return Err(ballot.failed(shared, "break", began).with_outcome(Outcome::Unknown));
    }
    // Those that are late still get it.
    shared.runtime.spawn(async move { while ballot.next().await {} });
    Ok(fence)
}
