//! Taking a lock away from whoever holds it.
//!
//! The holder is told at its next renewal or question. Until then it may go on writing, so what protects the data is
//! the fence: the new one is above every earlier grant's, and below every later one's.

use crate::ballot::Ballot;
use crate::client::{Client, Shared};
use crate::error::Result;
use crate::options::{self, Keys};
use crate::quorum::majority;
use crate::runtime;
use crate::script::{BREAK, Call, LIFT};
use futures_util::future::join_all;
use std::sync::Arc;

impl Client {
    /// Frees a lock whoever holds it, and hands it to the first waiter. Gives a new fencing token: above that of every
    /// lease so far, and below that of every later one. Where a store has seen it, the old holder's writes are refused;
    /// the holder's lease is lost (taken) at its next renewal; without renewal, when it ends. Also works on a lock that
    /// nobody holds.
    ///
    /// For people who know that a holder is gone, or must go. If a connection breaks in the middle of it, the lock may be
    /// broken twice: it is then taken from the next holder, too, who is told like the first.
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

async fn break_lock(shared: &Shared, keys: &Keys) -> Result<u64> {
    let began = shared.clock.now();
    let n = shared.links.len();
    // As for an acquire: one server's own clock decides.
    let proposal = if n == 1 { 0 } else { shared.clock.wall_us() };
    let settings = &shared.settings;
    let call = Call::new(
        &BREAK,
        [&keys.lock, &keys.fence, &keys.label, &keys.queue],
        [proposal.to_string(), settings.claim_window.as_millis().to_string(), settings.prefix.clone()],
    );
    let mut ballot = Ballot::open(shared, call, |reply| reply.code() > 0);
    ballot.decide().await;
    // Those of this process who ask now and again need not wait for it.
    shared.turns.freed(&keys.lock);
    if ballot.tally.yes < majority(n) {
        return Err(ballot.failed(shared, "break", began));
    }
    // Fences from here on are those of a clock that is far ahead.
    let mut limit = u64::MAX;
    loop {
        let given = ballot.answers.iter().map(|answer| u64::try_from(answer.as_ref()?.as_ref().ok()?.code()).ok());
        let fences: Vec<_> = given.map(|given| given.filter(|fence| *fence < limit)).collect();
        if fences.iter().flatten().count() >= majority(n) {
            let fence = fences.iter().flatten().copied().max().unwrap_or_default();
            let confirmed = fences.iter().filter(|given| **given == Some(fence)).count();
            // By one more: a server that has been lifted may have handed the lock over before, with a lower fence, and
            // must not let that be claimed with this one.
            let lift = Arc::new(Call::new(&LIFT, [&keys.fence], [(fence + 1).to_string()]));
            let lower = fences.iter().zip(&shared.links).filter(|(given, _)| given.is_some_and(|given| given < fence));
            let lifted = join_all(lower.map(|(_, link)| link.run(lift.clone()))).await;
            let count = |code| lifted.iter().flatten().filter(|reply| reply.code() == code).count();
            if confirmed + count(1) >= majority(n) {
                return Ok(fence);
            }
            if count(-1) > 0 {
                tracing::warn!(target: "quorlock", fence, "a server gave a fence far in the future: its clock is ahead");
                limit = fence;
                continue;
            }
        }
        if !ballot.next().await {
            return Err(ballot.failed(shared, "break", began));
        }
    }
}
