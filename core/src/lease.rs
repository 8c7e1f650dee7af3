//! A lock that is held: its deadline, and the verbs on it.
//!
//! The lease relies only on the local clock: when the deadline has passed it is lost, whatever the servers say or fail
//! to say. Its state changes once, from held to released, abandoned or lost, and never back.

use crate::acquire::{Granted, release_call};
use crate::client::Shared;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Outcome, Result, ServerReport};
use crate::options::{Keys, LockSettings};
use crate::quorum::{self, Tally, Verdict};
use crate::renew;
use crate::runtime;
use crate::script::{CHECK, Call, EXTEND, RAISE, REPAIR};
use crate::server::{Failure, Reply};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::sync::Notify;

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum LostReason {
    /// Its deadline passed without a confirmed renewal.
    Expired = 1,
    /// The servers say that it is not ours any more.
    Taken = 2,
    /// `max_hold` is over.
    MaxHold = 3,
    /// The client was closed while it was held.
    Closed = 4,
}

impl LostReason {
    /// `expired`, `taken`, `max_hold`, `closed`.
    pub const fn name(self) -> &'static str {
        match self {
            LostReason::Expired => "expired",
            LostReason::Taken => "taken",
            LostReason::MaxHold => "max_hold",
            LostReason::Closed => "closed",
        }
    }
}

/// A lock that is held, until it is released, dropped or lost.
///
/// Every method may be called from any thread. In a forked child a lease is inert: each verb is Closed, and dropping
/// it does nothing.
#[must_use = "dropping a lease releases it"]
pub struct Lease {
    /// Not dropped in a forked child, where nothing that belongs to the parent may be touched.
    inner: ManuallyDrop<Arc<Inner>>,
}

/// What the lease, its keeper and the client share.
pub(crate) struct Inner {
    pub shared: Arc<Shared>,
    id: u64,
    name: String,
    keys: Keys,
    token: String,
    fence: u64,
    label: String,
    pub renew: bool,
    /// In ms; a later extension may change it, and then governs renewal too.
    ttl_ms: AtomicU64,
    /// In ns of the lease's clock.
    deadline: AtomicU64,
    max_hold: Option<Moment>,
    state: AtomicI32,
    /// Wakes whoever waits for the end of the lease.
    pub ended: Notify,
    /// Serialises what is sent for this lease: extensions, and the release after them.
    sending: Arc<tokio::sync::Mutex<()>>,
    callback: Callback,
}

const HELD: i32 = 0;
/// Positive states are the numbers of [`LostReason`].
const RELEASED: i32 = -1;
const ABANDONED: i32 = -2;

/// Makes the lease of a round that has completed.
pub(crate) fn grant(shared: &Arc<Shared>, name: &str, keys: &Keys, settings: &LockSettings, granted: Granted) -> Lease {
    let max_hold = settings.max_hold.map(|limit| granted.began + limit);
    let inner = shared.register(|id| {
        Arc::new(Inner {
            shared: shared.clone(),
            id,
            name: name.to_owned(),
            keys: keys.clone(),
            token: granted.token,
            fence: granted.fence,
            label: settings.label.clone().unwrap_or_default(),
            renew: settings.renew,
            ttl_ms: AtomicU64::new(settings.ttl.as_millis() as u64),
            deadline: AtomicU64::new(earlier(granted.deadline, max_hold).0),
            max_hold,
            state: AtomicI32::new(HELD),
            ended: Notify::new(),
            sending: Arc::default(),
            callback: Callback::default(),
        })
    });
    renew::start(&inner, granted.began);
    Lease { inner: ManuallyDrop::new(inner) }
}

fn earlier(a: Moment, b: Option<Moment>) -> Moment {
    b.map_or(a, |b| a.min(b))
}

impl Lease {
    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The fencing token: below 2^53, and larger than that of every lease of this name that was completed before.
    /// Hand it to the store that the lock protects, which refuses smaller ones.
    pub fn fence(&self) -> u64 {
        self.inner.fence
    }

    /// The TTL: as acquired, or as last extended.
    pub fn ttl(&self) -> Duration {
        self.inner.ttl()
    }

    /// Whether it is still held, by the local clock. Costs no command.
    pub fn held(&self) -> bool {
        !self.foreign() && self.inner.held()
    }

    /// How long it may still be relied on, by the local clock. Zero once it is released or lost, and in another process.
    pub fn remaining(&self) -> Duration {
        if self.held() { self.inner.deadline().since(self.inner.shared.clock.now()) } else { Duration::ZERO }
    }

    /// Fails unless the lease is held, by the local clock. Costs no command.
    ///
    /// # Errors
    /// Lost; Closed if it was released, or acquired in another process.
    pub fn ensure_held(&self) -> Result<()> {
        self.check_process()?;
        self.inner.ensure_held()
    }

    /// Why it was lost, if it was.
    pub fn lost_reason(&self) -> Option<LostReason> {
        if self.foreign() {
            return None;
        }
        self.inner.held();
        self.inner.lost_reason()
    }

    /// Whether [`Lease::release`] was called in time.
    pub fn released(&self) -> bool {
        self.inner.state.load(Ordering::Acquire) == RELEASED
    }

    /// Asks the servers whether the lock is still ours and nobody has taken a larger fence since. Prolongs nothing.
    /// After a pause it tells for certain whether work may go on.
    ///
    /// # Errors
    /// Lost (nothing is sent if the deadline has passed); Unavailable if too few servers answered, and the lease goes
    /// on; Closed.
    pub async fn confirm(&self) -> Result<()> {
        self.ensure_held()?;
        let inner = Arc::clone(&self.inner);
        runtime::run(async move { inner.confirm().await }).await
    }

    /// Sets the remaining time to `ttl` from now (the lease's own TTL by default), never adds to it. Gives the new
    /// remaining time. A `ttl` given here also governs later renewals.
    ///
    /// # Errors
    /// Invalid; Lost (nothing is sent if the deadline has passed); Unavailable if too few servers answered: the lease
    /// goes on until its deadline; Closed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the extension done or undone; the lease stays valid by the earlier deadline.
    pub async fn extend(&self, ttl: Option<Duration>) -> Result<Duration> {
        if let Some(ttl) = ttl {
            self.inner.shared.settings.check_ttl("ttl", ttl)?;
        }
        self.ensure_held()?;
        let inner = Arc::clone(&self.inner);
        runtime::run(async move { inner.extend_now(ttl).await }).await
    }

    /// Gives the lock up: true; false if it was released before. Once this is called nothing is sent for the lease but
    /// the release itself, which goes on in the background where a server does not answer.
    ///
    /// # Errors
    /// Lost: it was over before, and others' locks were not touched. Unavailable: too few servers have confirmed; the
    /// lock is free at the latest when its TTL ends. Closed: it was acquired in another process.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(&self) -> Result<bool> {
        self.check_process()?;
        if !self.inner.end(RELEASED) {
            return match self.inner.lost_reason() {
                None => Ok(false),
                Some(_) => {
                    self.inner.settle_release();
                    Err(self.inner.lost_error())
                }
            };
        }
        let inner = Arc::clone(&self.inner);
        runtime::run_to_end(async move { inner.free().await }).await
    }

    /// Waits for the loss; for ever, if it is released first.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn lost(&self) -> LostReason {
        match self.ended().await {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Waits for the end: the reason of the loss, or `None` when it was released or abandoned. In another process it
    /// has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ended(&self) -> Option<LostReason> {
        if self.foreign() { None } else { self.inner.ended().await }
    }

    /// As [`Lease::ended`], for at most `timeout` (`None`: without limit). `None` too if it has not ended by then.
    ///
    /// # Errors
    /// Closed: it was acquired in another process.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_lost(&self, timeout: Option<Duration>) -> Result<Option<LostReason>> {
        self.check_process()?;
        let inner = Arc::clone(&self.inner);
        runtime::run(async move {
            match timeout {
                None => Ok(inner.ended().await),
                Some(limit) => Ok(tokio::time::timeout(limit, inner.ended()).await.unwrap_or(None)),
            }
        })
        .await
    }

    /// Runs `callback` once when the lease is lost (at once if it is lost already), on a thread of the runtime: it must
    /// return soon and must not block. Replaces the previous one; `None` removes it. When this returns, no earlier
    /// callback runs any more, unless it is called from inside that callback.
    pub fn on_lost(&self, callback: Option<Box<dyn FnOnce(LostReason) + Send>>) {
        if self.foreign() {
            return;
        }
        self.inner.callback.set(callback);
        if self.inner.lost_reason().is_some() {
            let inner = Arc::clone(&self.inner);
            let runtime = inner.shared.runtime.clone();
            runtime.spawn(async move { inner.call_back() });
        }
    }

    /// Stops renewing and lets the lease run out by its TTL, with a warning: what a garbage collector does, which must
    /// not free a lock that the program may believe to hold.
    pub fn abandon(&self) {
        if !self.foreign() && self.inner.end(ABANDONED) {
            tracing::warn!(target: "quorlock", name = %self.inner.name, "a lease was dropped without release: it runs out by its TTL");
        }
    }

    /// Whether it was acquired in another process, before a fork.
    fn foreign(&self) -> bool {
        self.inner.shared.pid != std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.foreign() {
            let message = format!("the lease was acquired in process {}", self.inner.shared.pid);
            return Err(Error::new(ErrorKind::Closed, message).with_name(&self.inner.name));
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.foreign() {
            return;
        }
        if self.inner.end(RELEASED) {
            self.inner.settle_release();
        }
        self.inner.callback.set(None);
        // SAFETY-free: `inner` is not used again, as this is the end of its owner.
        drop(take(&mut self.inner));
    }
}

/// Takes the value out of the owner's last field access.
#[allow(unsafe_code)]
fn take(inner: &mut ManuallyDrop<Arc<Inner>>) -> Arc<Inner> {
    // SAFETY: called once, by `Lease::drop`, after which the field is never touched.
    unsafe { ManuallyDrop::take(inner) }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Lease");
        s.field("name", &self.name()).field("fence", &self.fence()).field("held", &self.held());
        s.finish()
    }
}

impl Inner {
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms.load(Ordering::Acquire))
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

    async fn ended(&self) -> Option<LostReason> {
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

    /// Ends a held lease as `state`; false if it has ended before, or its deadline has passed.
    fn end(&self, state: i32) -> bool {
        self.held() && self.change(state)
    }

    fn change(&self, state: i32) -> bool {
        let changed = self.state.compare_exchange(HELD, state, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if changed {
            self.ended.notify_waiters();
            self.shared.forget(self.id);
        }
        changed
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        if self.change(reason as i32) {
            tracing::warn!(target: "quorlock", name = %self.name, fence = self.fence, reason = reason.name(), "lease lost");
        }
    }

    fn ensure_held(&self) -> Result<()> {
        if self.held() {
            return Ok(());
        }
        Err(match self.lost_reason() {
            Some(_) => self.lost_error(),
            None => Error::new(ErrorKind::Closed, "the lease is released already").with_name(&self.name),
        })
    }

    fn lost_error(&self) -> Error {
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

    /// One question to every server, until the answers decide it.
    async fn ask(&self, call: Call, count: impl Fn(&Reply) -> Option<bool>) -> Ballot {
        let call = Arc::new(call);
        let mut ballot = Ballot::new(self.shared.links.len());
        for (i, link) in self.shared.links.iter().enumerate() {
            let answer = link.run(call.clone());
            ballot.asked.push(Box::pin(async move { (i, answer.await) }));
        }
        while ballot.tally.verdict() == Verdict::Open {
            if !ballot.next(&count).await {
                break;
            }
        }
        ballot
    }

    fn short(&self, what: &str, ballot: &Ballot, began: Moment) -> Error {
        let reports = ballot.answers.iter().enumerate().map(|(i, a)| ServerReport {
            address: self.shared.links[i].address().to_owned(),
            cause: match a {
                None => "not answered yet".to_owned(),
                Some(Ok(_)) => "answered".to_owned(),
                Some(Err(failure)) => failure.cause.clone(),
            },
        });
        let maybe = ballot.answers.iter().any(|a| match a {
            None | Some(Ok(_)) => true,
            Some(Err(failure)) => failure.maybe_applied,
        });
        Error::new(ErrorKind::Unavailable, format!("too few servers answered usefully to {what}"))
            .with_name(&self.name)
            .with_servers(reports.collect())
            .with_effort(1, self.shared.clock.now().since(began))
            .with_outcome(if maybe { Outcome::Unknown } else { Outcome::NotApplied })
    }

    async fn confirm(&self) -> Result<()> {
        let began = self.shared.clock.now();
        let call = Call::new(&CHECK, [&self.keys.lock, &self.keys.fence], [self.token.clone(), self.fence.to_string()]);
        let ballot = self.ask(call, |reply| Some(reply.code() == 1)).await;
        match ballot.tally.verdict() {
            Verdict::Yes => self.ensure_held(),
            Verdict::No => {
                self.lose(LostReason::Taken);
                self.ensure_held()
            }
            Verdict::Short | Verdict::Open => Err(self.short("confirm", &ballot, began)),
        }
    }

    /// [`Lease::extend`], on the runtime.
    async fn extend_now(self: &Arc<Self>, ttl: Option<Duration>) -> Result<Duration> {
        let sending = self.sending.clone().lock_owned().await;
        let repair = self.extend(ttl).await?;
        // Servers that have lost the lock get it back behind the caller's back, unless the lease ends first.
        let inner = self.clone();
        self.shared.runtime.spawn(async move {
            inner.until_ended(repair).await;
            drop(sending);
        });
        Ok(self.deadline().since(self.shared.clock.now()))
    }

    /// One renewal, as [`Inner::extend`], with the repair that follows; ends early if the lease does.
    pub(crate) async fn renew_now(&self) -> Result<()> {
        let renewal = async {
            let _sending = self.sending.lock().await;
            self.extend(None).await?.await;
            Ok(())
        };
        self.until_ended(renewal).await.unwrap_or(Ok(()))
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

    /// One round of extension (PROTOCOL.md section 2). Gives what remains to be done for servers that lack the lock.
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
        let ballot = self.ask(call, |reply| Some(reply.code() == 1)).await;
        match ballot.tally.verdict() {
            Verdict::Yes => {}
            Verdict::No => {
                self.lose(LostReason::Taken);
                return Err(self.lost_error());
            }
            Verdict::Short | Verdict::Open => return Err(self.short("extend", &ballot, began)),
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
        let shared = self.shared.clone();
        let (keys, token, fence, label) = (self.keys.clone(), self.token.clone(), self.fence, self.label.clone());
        async move {
            while ballot.next(&|_: &Reply| None).await {}
            let repair = Arc::new(Call::new(
                &REPAIR,
                [&keys.lock, &keys.fence, &keys.label],
                [token.clone(), ttl_ms.to_string(), fence.to_string(), label],
            ));
            let raise = Arc::new(Call::new(&RAISE, [&keys.lock, &keys.fence], [token, fence.to_string()]));
            let mut mending = FuturesUnordered::new();
            for (i, answer) in ballot.answers.iter().enumerate() {
                let Some(Ok(reply)) = answer else { continue };
                match (reply.code(), reply.numbers.get(1)) {
                    (0, _) => mending.push(shared.links[i].run(repair.clone())),
                    (2, Some(&lower)) if (lower as u64) < fence => mending.push(shared.links[i].run(raise.clone())),
                    _ => {}
                }
            }
            while mending.next().await.is_some() {}
        }
    }

    /// Releases on every server, and says what came of it. The lease has ended before.
    pub(crate) async fn free(&self) -> Result<bool> {
        let began = self.shared.clock.now();
        // An extension on its way is dropped by the end of the lease; its messages go first on each connection.
        let _sending = self.sending.lock().await;
        let call = Arc::new(release_call(&self.keys, &self.token));
        let mut ballot = Ballot::new(self.shared.links.len());
        for (i, link) in self.shared.links.iter().enumerate() {
            let answer = link.run(call.clone());
            let (link, call, keep) = (link.clone(), call.clone(), self.ttl());
            ballot.asked.push(Box::pin(async move {
                let answer = answer.await;
                if answer.is_err() {
                    link.settle(call, keep);
                }
                (i, answer)
            }));
        }
        // A second sending that finds nothing has met the first one's work.
        let count = |reply: &Reply| Some(reply.code() == 1 || reply.resent);
        while ballot.tally.yes < quorum::majority(self.shared.links.len()) && ballot.next(&count).await {}
        let tally = ballot.tally.clone();
        self.shared.turns.freed(&self.keys.lock);
        let outcome = match tally.verdict() {
            Verdict::Yes => Ok(true),
            Verdict::No => Err(Error::new(ErrorKind::Lost, "the lease was lost: the servers did not hold it any more")
                .with_name(&self.name)),
            // A majority is known to be free of it.
            Verdict::Short if tally.yes + tally.no >= quorum::majority(self.shared.links.len()) => Ok(true),
            Verdict::Short | Verdict::Open => Err(self.short("release", &ballot, began)),
        };
        if !ballot.asked.is_empty() {
            self.shared.runtime.spawn(async move { while ballot.asked.next().await.is_some() {} });
        }
        outcome
    }

    /// Releases on every server in the background.
    fn settle_release(&self) {
        let call = Arc::new(release_call(&self.keys, &self.token));
        for link in &self.shared.links {
            link.settle(call.clone(), self.ttl());
        }
        self.shared.turns.freed(&self.keys.lock);
    }
}

/// The answers to one question.
struct Ballot {
    tally: Tally,
    answers: Vec<Option<Result<Reply, Failure>>>,
    asked: FuturesUnordered<BoxFuture<'static, (usize, Result<Reply, Failure>)>>,
}

impl Ballot {
    fn new(n: usize) -> Ballot {
        Ballot { tally: Tally::new(n), answers: vec![None; n], asked: FuturesUnordered::new() }
    }

    /// Takes the next answer; false when there is none to come.
    async fn next(&mut self, count: &impl Fn(&Reply) -> Option<bool>) -> bool {
        let Some((i, answer)) = self.asked.next().await else { return false };
        match answer.as_ref().map(count) {
            Ok(Some(true)) => self.tally.yes += 1,
            Ok(Some(false)) => self.tally.no += 1,
            Ok(None) => {}
            Err(_) => self.tally.failed += 1,
        }
        self.answers[i] = Some(answer);
        true
    }
}

/// The function to call when the lease is lost, and the thread that is in it.
#[derive(Default)]
struct Callback {
    slot: Mutex<Slot>,
    done: Condvar,
}

#[derive(Default)]
struct Slot {
    function: Option<Box<dyn FnOnce(LostReason) + Send>>,
    running: Option<ThreadId>,
}

impl Callback {
    fn set(&self, function: Option<Box<dyn FnOnce(LostReason) + Send>>) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        while slot.running.is_some_and(|thread| thread != std::thread::current().id()) {
            slot = self.done.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
        slot.function = function;
    }

    fn run(&self, reason: LostReason) {
        let function = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(function) = slot.function.take() else { return };
            slot.running = Some(std::thread::current().id());
            function
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(reason)));
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).running = None;
        self.done.notify_all();
        if result.is_err() {
            tracing::error!(target: "quorlock", "a callback for a lost lease panicked");
        }
    }
}
