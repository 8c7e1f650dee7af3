//! Counters and histograms of a client: what contention costs, told without asking a server.
//!
//! They are counted for each client and process, and carry no names of locks: so there are as many of them however many
//! locks there are.

use crate::client::{Client, Shared};
use crate::clock::{Clock, Moment};
use crate::error::ErrorKind;
use crate::lease::LostReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a client has done so far in this process. All but `waiting` and `holding` only grow.
///
/// `acquired + busy + unavailable + refused + cancelled` is the number of acquires that have ended, and `wait.count`;
/// `released + abandoned + lost.total()` is the number of leases that have ended, and `hold.count`. A snapshot that is
/// taken while others work may be off by what happened in that moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Acquires under way now, those that others make wait among them.
    pub waiting: u64,
    /// Leases held now.
    pub holding: u64,
    /// How often acquires have asked the servers for a lock: as [`Error::attempts`](crate::Error::attempts), of all.
    pub attempts: u64,
    /// Acquires that gave a lease.
    pub acquired: u64,
    /// Acquires that others made wait for too long: `try_acquire` without success, too.
    pub busy: u64,
    /// Acquires that too few servers answered.
    pub unavailable: u64,
    /// Acquires that the servers refused for good.
    pub refused: u64,
    /// Acquires that ended otherwise: their future was dropped, they were interrupted, or the client was closed.
    pub cancelled: u64,
    /// Leases that were released, or dropped in Rust.
    pub released: u64,
    /// Leases that a garbage collector found unreleased.
    pub abandoned: u64,
    /// Leases that were lost, by reason.
    pub lost: Losses,
    /// How long acquires took, whatever their end.
    pub wait: Histogram,
    /// How long leases were held, whatever their end.
    pub hold: Histogram,
    /// Each server, in the order of the URLs.
    pub servers: Vec<ServerStats>,
}

/// Lost leases by [reason](LostReason).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// [`LostReason::Expired`]
    pub expired: u64,
    /// [`LostReason::Taken`]
    pub taken: u64,
    /// [`LostReason::MaxHold`]
    pub max_hold: u64,
    /// [`LostReason::Closed`]
    pub closed: u64,
}

impl Losses {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.expired + self.taken + self.max_hold + self.closed
    }
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How often it took at most as long as the bound of the same place in [`Histogram::BOUNDS_MS`], and longer than the
    /// one before; at the last place, how often it took longer than all of them.
    pub counts: [u64; 16],
    /// How often in all: the sum of `counts`.
    pub count: u64,
    /// How long in all, in whole ms.
    pub sum_ms: u64,
}

impl Histogram {
    /// The upper bounds of all counts but the last, in ms.
    pub const BOUNDS_MS: [u64; 15] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];
}

/// How one server has answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// `host:port` or the socket's path; never the password.
    pub address: String,
    /// Questions that calls, waits and renewals had for it. What is undone in the background is not counted.
    pub calls: u64,
    /// Those without a useful answer: it was down, silent or too slow, or it refused.
    pub failures: u64,
}

impl Client {
    /// What this client has done so far in this process: all zero before its first use. Costs no command; works on a closed
    /// client, too. Names of locks are not told apart, so what a metrics system makes of it is bounded.
    pub fn stats(&self) -> Stats {
        match self.used() {
            Some(shared) => shared.counters.snapshot(shared),
            None => {
                let server = |address| ServerStats { address, ..ServerStats::default() };
                Stats { servers: self.addresses().into_iter().map(server).collect(), ..Stats::default() }
            }
        }
    }
}

/// A number that is changed from many threads, and never in step with another.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What [`Stats`] is made from.
#[derive(Default)]
pub(crate) struct Counters {
    pub attempts: Counter,
    begun: Counter,
    acquired: Counter,
    busy: Counter,
    unavailable: Counter,
    refused: Counter,
    cancelled: Counter,
    granted: Counter,
    pub released: Counter,
    pub abandoned: Counter,
    /// By the numbers of [`LostReason`], from 1.
    lost: [Counter; 4],
    wait: Buckets,
    hold: Buckets,
}

#[derive(Default)]
struct Buckets {
    counts: [Counter; 16],
    sum_us: Counter,
}

impl Buckets {
    fn add(&self, took: Duration) {
        let us = took.as_micros() as u64;
        self.counts[Histogram::BOUNDS_MS.partition_point(|bound| bound * 1000 < us)].add(1);
        self.sum_us.add(us);
    }

    fn snapshot(&self) -> Histogram {
        let counts = self.counts.each_ref().map(Counter::get);
        Histogram { counts, count: counts.iter().sum(), sum_ms: self.sum_us.get() / 1000 }
    }
}

impl Counters {
    /// Counts an acquire that began then.
    pub(crate) fn waiting<'a>(&'a self, clock: &'a dyn Clock, began: Moment) -> Waiting<'a> {
        self.begun.add(1);
        Waiting { counters: self, clock, began, end: &self.cancelled }
    }

    /// Counts a lease.
    pub(crate) fn holding(&self) {
        self.granted.add(1);
    }

    /// Counts the end of a lease that was held for so long. `end`: `released`, `abandoned`, or what [`Counters::lost`] gives.
    pub(crate) fn held(&self, held: Duration, end: &Counter) {
        self.hold.add(held);
        end.add(1);
    }

    pub(crate) fn lost(&self, reason: LostReason) -> &Counter {
        &self.lost[reason as usize - 1]
    }

    fn snapshot(&self, shared: &Shared) -> Stats {
        let [expired, taken, max_hold, closed] = self.lost.each_ref().map(Counter::get);
        let (wait, hold) = (self.wait.snapshot(), self.hold.snapshot());
        Stats {
            // What has ended was read before; begun is begun first.
            waiting: self.begun.get().saturating_sub(wait.count),
            holding: self.granted.get().saturating_sub(hold.count),
            attempts: self.attempts.get(),
            acquired: self.acquired.get(),
            busy: self.busy.get(),
            unavailable: self.unavailable.get(),
            refused: self.refused.get(),
            cancelled: self.cancelled.get(),
            released: self.released.get(),
            abandoned: self.abandoned.get(),
            lost: Losses { expired, taken, max_hold, closed },
            wait,
            hold,
            servers: shared.links.iter().map(|link| link.stats()).collect(),
        }
    }
}

/// An acquire that is under way. Dropping it counts its end: as cancelled, unless [`Waiting::ends`] has said how.
pub(crate) struct Waiting<'a> {
    counters: &'a Counters,
    clock: &'a dyn Clock,
    began: Moment,
    end: &'a Counter,
}

impl Waiting<'_> {
    /// How it ends: `None` with a lease.
    pub(crate) fn ends(mut self, error: Option<ErrorKind>) {
        self.end = match error {
            None => &self.counters.acquired,
            Some(ErrorKind::Busy) => &self.counters.busy,
            Some(ErrorKind::Unavailable) => &self.counters.unavailable,
            Some(ErrorKind::Refused) => &self.counters.refused,
            Some(_) => &self.counters.cancelled,
        };
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.counters.wait.add(self.clock.now().since(self.began));
        self.end.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[test]
    fn a_time_is_counted_up_to_its_bound() {
        let buckets = Buckets::default();
        for (us, place) in [(0, 0), (1000, 0), (1001, 1), (2000, 1), (9_999, 3), (60_000_000, 14), (60_000_001, 15)] {
            let before = buckets.snapshot();
            buckets.add(Duration::from_micros(us));
            let after = buckets.snapshot();
            let changed: Vec<_> = (0..16).filter(|i| after.counts[*i] != before.counts[*i]).collect();
            assert_eq!(changed, [place], "{us} us");
        }
        let all = buckets.snapshot();
        assert_eq!((all.count, all.counts.iter().sum::<u64>()), (7, 7));
        assert_eq!(all.sum_ms, 120_014, "whole ms of the sum, not a sum of whole ms");
        assert!(Histogram::BOUNDS_MS.is_sorted());
    }

    #[test]
    fn each_end_is_counted_once_and_a_dropped_acquire_as_cancelled() {
        let counters = Counters::default();
        let begin = || counters.waiting(&SystemClock, SystemClock.now());
        for kind in ErrorKind::ALL {
            begin().ends(Some(kind));
        }
        begin().ends(None);
        drop(begin());
        let counts =
            [&counters.acquired, &counters.busy, &counters.unavailable, &counters.refused, &counters.cancelled];
        assert_eq!(counts.map(Counter::get), [1, 1, 1, 1, ErrorKind::ALL.len() as u64 - 3 + 1]);
        assert_eq!(counters.wait.snapshot().count, counters.begun.get());
    }

    #[test]
    fn losses_are_told_by_reason() {
        let counters = Counters::default();
        for (n, reason) in
            [LostReason::Expired, LostReason::Taken, LostReason::MaxHold, LostReason::Closed].into_iter().enumerate()
        {
            counters.lost(reason).add(n as u64 + 1);
        }
        assert_eq!(counters.lost.each_ref().map(Counter::get), [1, 2, 3, 4]);
    }
}
