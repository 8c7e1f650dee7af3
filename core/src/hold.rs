//! What is behind a lease: its state, its deadline, and what it asks the servers.
//!
//! It relies only on the local clock: when the deadline has passed the lease is lost, whatever the servers say or fail
//! to say. Its state changes once, from held to released, abandoned or lost, and never back. What is sent for one
//! lease is sent in order: nothing overtakes the round that took the lock, and nothing follows its release.

use crate::acquire::{self, Granted, release_call};
use crate::ballot::Ballot;
use crate::callback::Callback;
use crate::client::Shared;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::handover::claim_call;
use crate::lease::LostReason;
use crate::options::{Keys, LockSettings};
use crate::quorum::{self, Verdict};
use crate::renew;
use crate::script::{CHECK, Call, EXTEND, RAISE, REPAIR};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// What the lease, its keeper and the client share.
pub(crate) struct Hold {
    pub shared: Arc<Shared>,
    id: u64,
    pub name: String,
    keys: Keys,
    token: String,
    pub fence: u64,
    label: String,
    /// For each server, whether it may hold the lock for us: a release is owed to these.
    holders: Arc<[AtomicBool]>,
    pub renew: bool,
    /// In ms; a later extension may change it, and then governs renewal too.
    ttl_ms: AtomicU64,
    /// In ns of the lease's clock.
    deadline: AtomicU64,
    max_hold: Option<Moment>,
    /// When it was taken.
    since: Moment,
    state: AtomicI32,
    /// Wakes whoever waits for the end of the lease.
    pub ended: Notify,
    /// Tells the keeper of another deadline.
    pub changed: Notify,
    /// Held by what is left of the round that took the lock: a release must not overtake it.
    late: Arc<tokio::sync::Mutex<()>>,
    /// Serialises what is sent for this lease: extensions, and the release after them.
    sending: Arc<tokio::sync::Mutex<()>>,
    pub callback: Callback,
}

const HELD: i32 = 0;
/// Positive states are the numbers of [`LostReason`].
const RELEASED: i32 = -1;
const ABANDONED: i32 = -2;

fn earlier(a: Moment, b: Option<Moment>) -> Moment {
    b.map_or(a, |b| a.min(b))
}

impl Hold {
    /// Begins with a round that has completed.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        name: &str,
        keys: &Keys,
        settings: &LockSettings,
        granted: Granted,
    ) -> Arc<Hold> {
        let max_hold = settings.max_hold.map(|limit| granted.began + limit);
        let hold = shared.register(|id| {
            Arc::new(Hold {
                shared: shared.clone(),
                id,
                name: name.to_owned(),
                keys: keys.clone(),
                token: granted.token,
                fence: granted.fence,
                label: settings.label.clone().unwrap_or_default(),
                holders: granted.may_hold.into_iter().map(AtomicBool::new).collect(),
                renew: settings.renew,
                ttl_ms: AtomicU64::new(settings.ttl.as_millis() as u64),
                deadline: AtomicU64::new(earlier(granted.deadline, max_hold).0),
                max_hold,
                since: shared.clock.now(),
                state: AtomicI32::new(HELD),
                ended: Notify::new(),
                changed: Notify::new(),
                late: Arc::default(),
                sending: Arc::default(),
                callback: Callback::default(),
            })
        });
        if let Some(late) = granted.late
            && let Ok(guard) = hold.late.clone().try_lock_owned()
        {
            let hold = hold.clone();
            shared.runtime.spawn(async move {
                hold.until_ended(late).await;
                drop(guard);
            });
        }
        shared.counters.holding();
        renew::start(&hold, granted.began);
        hold
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.load(Ordering::Acquire))
    }

    pub(crate) fn key(&self) -> &str {
        &self.keys.lock
    }

    /// Since when it is held.
    pub(crate) fn since(&self) -> Moment {
        self.since
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment(self.deadline.load(Ordering::Acquire))
    }

    /// Looks at the clock: a lease whose deadline has passed is lost from that moment on.
    pub(crate) fn held(&self) -> bool {
        if self.state.load(Ordering::Acquire) != HELD {
            return false;
        }
        let now = self.shared.clock.now();
        if now < self.deadline() {
            return true;
        }
        let over = self.max_hold.is_some_and(|limit| now >= limit);
        self.lose(if over { LostReason::MaxHold } else { LostReason::Expired });
        false
    }

    pub(crate) async fn ended(&self) -> Option<LostReason> {
        loop {
            let ended = self.ended.notified();
            if !self.held() {
                return self.lost_reason();
            }
            ended.await;
        }
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        match self.state.load(Ordering::Acquire) {
            1 => Some(LostReason::Expired),
            2 => Some(LostReason::Taken),
            3 => Some(LostReason::MaxHold),
            4 => Some(LostReason::Closed),
            _ => None,
        }
    }

    pub(crate) fn released(&self) -> bool {
        self.state.load(Ordering::Acquire) == RELEASED
    }

    fn change(&self, state: i32) -> bool {
        let changed = self.state.compare_exchange(HELD, state, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if changed {
            let counters = &self.shared.counters;
            let end = match self.lost_reason() {
                Some(reason) => counters.lost(reason),
                None if state == RELEASED => &counters.released,
                None => &counters.abandoned,
            };
            counters.held(self.shared.clock.now().since(self.since), end);
        }
        changed
    }

    /// Ends a held lease as released; false if it has ended before, or its deadline has passed. [`Hold::free`] or
    /// [`Hold::settle_release`] must follow, on the runtime, where waking the keeper costs no system call: they tell
    /// those who wait for the end, and let the client forget the lease.
    pub(crate) fn begin_release(&self) -> bool {
        let released = self.held() && self.change(RELEASED);
        if released {
            tracing::debug!(target: "quorlock", name = %self.name, fence = self.fence,
                held_ms = self.shared.clock.now().since(self.since).as_millis() as u64, "released");
        }
        released
    }

    /// Ends a held lease without releasing it; false if it has ended before.
    pub(crate) fn abandon(&self) -> bool {
        let abandoned = self.held() && self.change(ABANDONED);
        if abandoned {
            self.ended.notify_waiters();
            self.shared.forget(self.id);
        }
        abandoned
    }

    /// Ends a held lease as lost; false if it has ended before.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        let lost = self.change(reason as i32);
        if lost {
            self.ended.notify_waiters();
            self.shared.forget(self.id);
            tracing::warn!(target: "quorlock", name = %self.name, fence = self.fence, reason = reason.name(), "lease lost");
        }
        lost
    }

    pub(crate) fn ensure_held(&self) -> Result<()> {
        if self.held() {
            return Ok(());
        }
        Err(match self.lost_reason() {
            Some(_) => self.lost_error(),
            None => Error::new(ErrorKind::Closed, "the lease is released already").with_name(&self.name),
        })
    }

    pub(crate) fn lost_error(&self) -> Error {
        let why = match self.lost_reason() {
            Some(LostReason::Taken) => "the servers say that the lock is not ours any more",
            Some(LostReason::MaxHold) => "max_hold is over",
            Some(LostReason::Closed) => "the client was closed while it was held",
            Some(LostReason::Expired) | None => "its deadline has passed",
        };
        Error::new(ErrorKind::Lost, format!("the lease is lost: {why}")).with_name(&self.name)
    }

    /// Runs the callback if the lease was lost, on a thread of the runtime; drops it if it ended otherwise.
    pub(crate) fn call_back(&self) {
        match self.lost_reason() {
            Some(reason) => self.callback.run(reason),
            None => self.callback.set(None),
        }
    }

    pub(crate) async fn confirm(&self) -> Result<()> {
        let began = self.shared.clock.now();
        let call = Call::new(&CHECK, [&self.keys.lock, &self.keys.fence], [self.token.clone(), self.fence.to_string()]);
        let mut ballot = Ballot::open(&self.shared, call, |reply| reply.code() == 1);
        match ballot.decide().await {
            Verdict::Yes => self.ensure_held(),
            Verdict::No => {
                self.lose(LostReason::Taken);
                self.ensure_held()
            }
            Verdict::Short | Verdict::Open => Err(ballot.short(&self.shared, "confirm", began).with_name(&self.name)),
        }
    }

    /// [`Lease::extend`], on the runtime.
    pub(crate) async fn extend_now(self: &Arc<Self>, ttl: Option<Duration>) -> Result<Duration> {
        let sending = self.sending.clone().lock_owned().await;
        let repair = self.extend(ttl).await?;
        self.changed.notify_one();
        // Servers that have lost the lock get it back behind the caller's back, unless the lease ends first.
        let hold = self.clone();
        self.shared.runtime.spawn(async move {
            hold.until_ended(repair).await;
            drop(sending);
        });
        Ok(self.deadline().since(self.shared.clock.now()))
    }

    /// One renewal, as [`Hold::extend`], with the repair that follows; ends early if the lease does.
    pub(crate) async fn renew_now(&self) -> Result<()> {
        let renewal = async {
            let _sending = self.sending.lock().await;
            self.extend(None).await?.await;
            Ok(())
        };
        self.until_ended(renewal).await.unwrap_or(Ok(()))
    }

    /// Claims a server that hands the lock to us when we have it already. It counts from the next extension on.
    pub(crate) fn claim_more(self: Arc<Self>, server: usize) {
        let call = claim_call(&self.keys, &self.token, self.ttl(), self.fence, &self.label);
        let answer = self.shared.links[server].run(Arc::new(call));
        self.shared.runtime.clone().spawn(async move { self.until_ended(answer).await });
    }

    async fn until_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let ended = self.ended.notified();
        if self.state.load(Ordering::Acquire) != HELD {
            return None;
        }
        tokio::select! {
            biased;
            () = ended => None,
            done = work => Some(done),
        }
    }

    /// One round of extension (ARCHITECTURE.md, "The protocol"). Gives what remains to be done for servers that lack the lock.
    /// The caller holds `sending`.
    async fn extend(&self, ttl: Option<Duration>) -> Result<impl Future<Output = ()> + use<>> {
        self.ensure_held()?;
        let began = self.shared.clock.now();
        let old = self.deadline();
        let ttl = ttl.map_or_else(|| self.ttl(), |ttl| Duration::from_millis(ttl.as_millis() as u64));
        let new = earlier(began + quorum::validity(ttl, self.shared.settings.drift), self.max_hold);
        if new < old {
            // Servers never shorten; so the local deadline comes first.
            self.deadline.store(new.0, Ordering::Release);
            self.changed.notify_one();
        }
        let single = self.shared.links.len() == 1;
        let ttl_ms = ttl.as_millis() as u64;
        let call = Call::new(
            &EXTEND,
            [&self.keys.lock, &self.keys.fence, &self.keys.label],
            [
                self.token.clone(),
                ttl_ms.to_string(),
                self.fence.to_string(),
                u8::from(single).to_string(),
                self.label.clone(),
            ],
        );
        let mut ballot = Ballot::open(&self.shared, call, |reply| reply.code() == 1);
        match ballot.decide().await {
            Verdict::Yes => {}
            Verdict::No => {
                self.lose(LostReason::Taken);
                return Err(self.lost_error());
            }
            Verdict::Short | Verdict::Open => {
                return Err(ballot.short(&self.shared, "extend", began).with_name(&self.name));
            }
        }
        // Confirmed only before the deadline that was in force, by the clock read now.
        self.ensure_held()?;
        self.ttl_ms.store(ttl_ms, Ordering::Release);
        self.deadline.store(new.0, Ordering::Release);
        Ok(self.repair(ballot, ttl_ms))
    }

    /// After a confirmed extension: gives the lock back to servers that have lost it, and lifts the fence of those
    /// that granted late.
    fn repair(&self, mut ballot: Ballot, ttl_ms: u64) -> impl Future<Output = ()> + use<> {
        let (shared, holders) = (self.shared.clone(), self.holders.clone());
        let (keys, token, fence, label) = (self.keys.clone(), self.token.clone(), self.fence, self.label.clone());
        async move {
            while ballot.next().await {}
            let repair = Arc::new(Call::new(
                &REPAIR,
                [&keys.lock, &keys.fence, &keys.label],
                [token.clone(), ttl_ms.to_string(), fence.to_string(), label],
            ));
            let raise = Arc::new(Call::new(&RAISE, [&keys.lock, &keys.fence], [token, fence.to_string()]));
            let mending = ballot.answers.iter().enumerate().filter_map(|(i, answer)| {
                let (reply, link) = (answer.as_ref()?.as_ref().ok()?, &shared.links[i]);
                match (reply.code(), reply.number(1)) {
                    (0, _) => {
                        holders[i].store(true, Ordering::Release);
                        Some(link.run(repair.clone()))
                    }
                    (2, Some(lower)) if (lower as u64) < fence => Some(link.run(raise.clone())),
                    _ => None,
                }
            });
            join_all(mending).await;
        }
    }

    /// Releases on every server, and says what came of it. The lease has ended before.
    pub(crate) async fn free(self: &Arc<Self>) -> Result<bool> {
        let began = self.shared.clock.now();
        self.ended.notify_waiters();
        let _alone = self.alone().await;
        let majority = quorum::majority(self.shared.links.len());
        let call = release_call(&self.shared, &self.keys, &self.token);
        // A second sending that finds nothing has met the first one's work.
        let freed = |reply: &crate::answer::Reply| reply.code() == 1 || reply.resent;
        let mut ballot = Ballot::insist(&self.shared, call, freed, &self.holders, self.ttl());
        while ballot.tally.yes < majority && ballot.next().await {}
        self.shared.turns.freed(&self.keys.lock);
        let outcome = match ballot.tally.verdict() {
            Verdict::Yes => Ok(true),
            Verdict::No => Err(Error::new(ErrorKind::Lost, "the lease was lost: the servers did not hold it any more")
                .with_name(&self.name)),
            // A majority is known to be free of it.
            Verdict::Short if ballot.tally.yes + ballot.tally.no >= majority => Ok(true),
            Verdict::Short | Verdict::Open => Err(ballot.short(&self.shared, "release", began).with_name(&self.name)),
        };
        // The client knows the lease until every server has been told, so that closing it does not cut that off.
        if ballot.complete() {
            self.shared.forget(self.id);
        } else {
            let hold = self.clone();
            self.shared.runtime.spawn(async move {
                while ballot.next().await {}
                hold.shared.forget(hold.id);
            });
        }
        // A waiter of this process that has just been given the lock sends its claim before our caller is woken.
        tokio::task::yield_now().await;
        outcome
    }

    /// Releases on every server in the background.
    pub(crate) fn settle_release(self: &Arc<Self>) {
        let hold = self.clone();
        self.shared.runtime.spawn(async move {
            hold.ended.notify_waiters();
            let _alone = hold.alone().await;
            let holds = |server: usize| hold.holders[server].load(Ordering::Acquire);
            acquire::settle_release(&hold.shared, &hold.keys, &hold.token, hold.ttl(), holds);
            hold.shared.forget(hold.id);
            hold.shared.turns.freed(&hold.keys.lock);
        });
    }

    /// Waits until nothing else is being sent for a lease that has ended: what is under way is dropped by its end, and
    /// what was sent goes first on each connection.
    async fn alone(&self) -> (tokio::sync::MutexGuard<'_, ()>, tokio::sync::MutexGuard<'_, ()>) {
        (self.sending.lock().await, self.late.lock().await)
    }
}
