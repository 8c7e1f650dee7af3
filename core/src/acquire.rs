//! Taking a lock, or saying why not: what one server ([`handover`]) and a quorum ([`contend`]) have in common.

use crate::client::{self, Shared};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Outcome, Result, ServerReport};
use crate::lease::Lease;
use crate::options::{Keys, LockSettings, Wait};
use crate::script::{Call, RELEASE};
use crate::{contend, handover};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The first pause before asking again; the following are longer.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(2);

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
        end: match settings.wait {
            Wait::For(limit) if !limit.is_zero() => Some(Instant::now() + limit),
            _ => None,
        },
        began,
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
        if self.shared.links.len() == 1 { handover::take(self).await } else { contend::take(self).await }
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
        if !self.warned
            && self.shared.clock.now().since(self.began) > self.settings.ttl
            && self.shared.holds(|lease| lease.key() == self.keys.lock)
        {
            self.warned = true;
            tracing::warn!(target: "quorlock", name = self.name,
                "waiting for a lock that this process holds itself: a lock is not re-entrant");
        }
    }

    /// A pause before the next attempt. Half of it is jitter, so that contenders fall out of step.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + 0.5 * self.shared.rng.unit())
    }

    pub(crate) fn error(&self, why: Why) -> Error {
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
}

/// A lock that has been granted and confirmed, in time.
pub(crate) struct Granted {
    /// The rest of the round, if some servers have not answered yet.
    pub late: Option<crate::round::Round>,
    pub token: String,
    pub fence: u64,
    /// Before the message was sent from which validity counts.
    pub began: Moment,
    pub deadline: Moment,
    /// For each server, whether it may have granted it.
    pub may_hold: Vec<bool>,
}

/// Runs `work` until `end`, if there is one; `None` if it takes longer.
pub(crate) async fn until<T>(end: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match end {
        None => Some(work.await),
        Some(end) => tokio::time::timeout_at(end, work).await.ok(),
    }
}

/// The call that gives up whatever `token` holds, and its place in the queue.
pub(crate) fn release_call(shared: &Shared, keys: &Keys, token: &str) -> Call {
    let settings = &shared.settings;
    Call::new(
        &RELEASE,
        [&keys.lock, &keys.fence, &keys.label, &keys.queue],
        [
            token.to_owned(),
            settings.claim_window.as_millis().to_string(),
            settings.prefix.clone(),
            if shared.links.len() == 1 { String::new() } else { keys.free.clone() },
        ],
    )
}
