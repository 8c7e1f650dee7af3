//! The arithmetic of leases and the counting of votes: pure, without I/O and without a clock.
//!
//! Sources: Redlock (redis.io/docs/latest/develop/clients/patterns/distributed-locks) for majority and validity;
//! ARCHITECTURE.md, "The protocol" for the confirmation of fences at exactly F, which Redlock does not have.

use std::time::Duration;

/// How many of `n` servers are a majority.
pub(crate) const fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// What is set aside of a TTL for clocks that run at different rates: `ttl x factor + 2 ms`.
pub(crate) fn drift(ttl: Duration, factor: f64) -> Duration {
    ttl.mul_f64(factor) + Duration::from_millis(2)
}

/// How long after the start of a round its lease may be relied on: `ttl - drift`.
pub(crate) fn validity(ttl: Duration, factor: f64) -> Duration {
    ttl.saturating_sub(drift(ttl, factor))
}

/// The fence of a break: the largest of those that servers gave (each with the largest that it would accept from
/// others, if the server has answered) to which a majority can go. `None` if too few have answered, or if it could be
/// below the fence of an earlier lease, because the clocks of those that know that one are far ahead.
pub(crate) fn break_fence(answers: &[Option<(u64, u64)>]) -> Option<u64> {
    let (n, need) = (answers.len(), majority(answers.len()));
    let mut given: Vec<(u64, u64)> = answers.iter().flatten().copied().collect();
    given.sort_unstable_by(|a, b| b.cmp(a));
    let can_have = |fence| given.iter().filter(|(own, limit)| *own >= fence || fence <= *limit).count() >= need;
    let fence = given.iter().map(|(own, _)| *own).find(|fence| can_have(*fence))?;
    // An earlier lease has its fence on a majority, so on so many of these, whose own are larger.
    let knowing = need - (n - given.len());
    (fence >= given[knowing - 1].0).then_some(fence)
}

/// A question with yes or no for answer, asked of all servers.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    n: usize,
    pub yes: usize,
    pub no: usize,
    pub failed: usize,
}

/// What the answers so far amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A majority said yes.
    Yes,
    /// So many said no that there can be no majority.
    No,
    /// All have answered or failed, and it is neither.
    Short,
    /// More answers may decide it.
    Open,
}

impl Tally {
    pub(crate) fn new(n: usize) -> Tally {
        Tally { n, yes: 0, no: 0, failed: 0 }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        if self.yes >= majority(self.n) {
            Verdict::Yes
        } else if self.no > self.n - majority(self.n) {
            Verdict::No
        } else if self.yes + self.no + self.failed >= self.n || self.failed > self.n - majority(self.n) {
            Verdict::Short
        } else {
            Verdict::Open
        }
    }
}

/// What one server said to an acquire, or to the raise that followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vote {
    Pending,
    /// Holds our lock with this fence.
    Granted {
        fence: u64,
    },
    /// A raise is on its way; the fence before it.
    Raising {
        from: u64,
    },
    Busy {
        free_in: Option<Duration>,
    },
    /// Granted, but with a fence so far ahead that it cannot be counted.
    Ahead,
    Failed,
    Refused,
}

/// The answers of an acquire round, and what to do next (ARCHITECTURE.md, "The protocol").
#[derive(Debug)]
pub(crate) struct Round {
    votes: Vec<Vote>,
    /// F: the fence that a majority must confirm exactly.
    fence: Option<u64>,
    /// The smallest fence that a server refused as too high: none from there on can be confirmed.
    limit: u64,
}

/// What a [`Round`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// More answers are needed.
    Open,
    /// A majority holds our lock with exactly this fence. It counts only if the clock, read now, is before the deadline.
    Confirmed { fence: u64 },
    /// Others hold it on so many servers that we cannot have it; when enough of them may be free, if they said so.
    Busy { free_in: Option<Duration> },
    /// Too few servers answered usefully.
    Short,
    /// A majority refuses for good.
    Refused,
}

impl Round {
    pub(crate) fn new(n: usize) -> Round {
        Round { votes: vec![Vote::Pending; n], fence: None, limit: u64::MAX }
    }

    /// The server holds our lock, with this fence: its own, or one that we raised it to.
    pub(crate) fn granted(&mut self, server: usize, fence: u64) {
        self.votes[server] = if fence < self.limit { Vote::Granted { fence } } else { Vote::Ahead };
    }

    pub(crate) fn busy(&mut self, server: usize, free_in: Option<Duration>) {
        self.votes[server] = Vote::Busy { free_in };
    }

    pub(crate) fn failed(&mut self, server: usize, for_good: bool) {
        self.votes[server] = if for_good { Vote::Refused } else { Vote::Failed };
    }

    /// A server refused to be raised so high: those that hold such a fence have a clock far ahead, and are left out.
    pub(crate) fn too_high(&mut self, server: usize, fence: u64) {
        if let Vote::Raising { from } = self.votes[server] {
            self.votes[server] = Vote::Granted { fence: from };
        }
        self.limit = self.limit.min(fence);
        for v in &mut self.votes {
            if let Vote::Granted { fence } | Vote::Raising { from: fence } = *v
                && fence >= self.limit
            {
                *v = Vote::Ahead;
            }
        }
        self.fence = self.fence.filter(|f| *f < self.limit);
    }

    /// Whether this server may hold our lock, so that it needs a release if the round fails. `maybe` says so of
    /// one that failed.
    pub(crate) fn may_hold(&self, server: usize, maybe: bool) -> bool {
        match self.votes[server] {
            Vote::Pending | Vote::Granted { .. } | Vote::Raising { .. } | Vote::Ahead => true,
            Vote::Failed | Vote::Refused => maybe,
            Vote::Busy { .. } => false,
        }
    }

    /// Whether this server was left out for a fence far ahead.
    pub(crate) fn is_ahead(&self, server: usize) -> bool {
        matches!(self.votes[server], Vote::Ahead)
    }

    /// Whether this server said that others hold the lock.
    pub(crate) fn is_busy(&self, server: usize) -> bool {
        matches!(self.votes[server], Vote::Busy { .. })
    }

    /// The servers to raise now, and to which fence. Each is given once; then its answer is awaited.
    pub(crate) fn raises(&mut self) -> Vec<(usize, u64)> {
        self.settle_fence();
        let Some(fence) = self.fence else { return Vec::new() };
        let mut out = Vec::new();
        for (i, v) in self.votes.iter_mut().enumerate() {
            if let Vote::Granted { fence: f } = *v
                && f < fence
            {
                *v = Vote::Raising { from: f };
                out.push((i, fence));
            }
        }
        out
    }

    /// What the answers so far amount to. Call [`Round::raises`] first.
    pub(crate) fn step(&mut self) -> Step {
        self.settle_fence();
        let n = self.votes.len();
        let need = majority(n);
        let (mut held, mut pending, mut confirmed, mut busy, mut failed, mut refused) = (0, 0, 0, 0, 0, 0);
        for v in &self.votes {
            match *v {
                Vote::Pending => pending += 1,
                Vote::Granted { fence } => {
                    held += 1;
                    confirmed += usize::from(Some(fence) == self.fence);
                }
                Vote::Raising { .. } => held += 1,
                Vote::Busy { .. } => busy += 1,
                Vote::Ahead | Vote::Failed => failed += 1,
                Vote::Refused => {
                    failed += 1;
                    refused += 1;
                }
            }
        }
        if let Some(fence) = self.fence
            && confirmed >= need
        {
            return Step::Confirmed { fence };
        }
        if held + pending >= need {
            return Step::Open;
        }
        if refused >= need {
            Step::Refused
        } else if held + busy >= need {
            Step::Busy { free_in: self.free_in(need) }
        } else if failed > n - need {
            Step::Short
        } else {
            Step::Open
        }
    }

    /// Fixes F when a majority has granted, and again, higher, when this F can have no majority any more.
    fn settle_fence(&mut self) {
        let need = majority(self.votes.len());
        let fences = || {
            self.votes.iter().filter_map(|v| match *v {
                Vote::Granted { fence } => Some(fence),
                Vote::Raising { from } => Some(from),
                _ => None,
            })
        };
        let Some(highest) = fences().max() else { return };
        match self.fence {
            None if fences().count() >= need => self.fence = Some(highest),
            Some(f) if highest > f => {
                // A server above F never counts for F. If the others cannot make it, all go up to it.
                let possible = self
                    .votes
                    .iter()
                    .filter(|v| match **v {
                        Vote::Pending | Vote::Raising { .. } => true,
                        Vote::Granted { fence } => fence <= f,
                        _ => false,
                    })
                    .count();
                if possible < need {
                    self.fence = Some(highest);
                }
            }
            _ => {}
        }
    }

    /// When enough servers may be free, if those that are busy said when their locks expire.
    fn free_in(&self, need: usize) -> Option<Duration> {
        let mut times: Vec<Duration> = self
            .votes
            .iter()
            .filter_map(|v| match *v {
                Vote::Busy { free_in } => free_in,
                Vote::Granted { .. } | Vote::Raising { .. } => Some(Duration::ZERO),
                _ => None,
            })
            .collect();
        times.sort_unstable();
        times.get(need - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn o20_majority_for_every_n() {
        let table = [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)];
        for (n, quorum) in table {
            assert_eq!(majority(n), quorum);
        }
    }

    #[test]
    fn o22_validity_formula() {
        let rows = [
            (10000, 150, 9748),
            (1000, 20, 968),
            (300, 0, 295),
            (300, 294, 1),
            (300, 295, 0),
            (100, 96, 1),
            (100, 97, 0),
        ];
        for (ttl, elapsed, left) in rows {
            assert_eq!(validity(ms(ttl), 0.01).saturating_sub(ms(elapsed)), ms(left), "ttl {ttl}, elapsed {elapsed}");
        }
    }

    #[test]
    fn one_server_confirms_itself() {
        let mut r = Round::new(1);
        r.granted(0, 7);
        assert!(r.raises().is_empty());
        assert_eq!(r.step(), Step::Confirmed { fence: 7 });
    }

    #[test]
    fn equal_fences_need_no_raise_and_lower_ones_do() {
        let mut r = Round::new(3);
        r.granted(0, 9);
        assert_eq!(r.step(), Step::Open);
        r.granted(1, 8);
        assert_eq!(r.raises(), [(1, 9)]);
        assert!(r.raises().is_empty(), "each is raised once");
        assert_eq!(r.step(), Step::Open);
        r.granted(1, 9);
        assert_eq!(r.step(), Step::Confirmed { fence: 9 });
    }

    #[test]
    fn a_late_grant_above_f_never_counts_for_f() {
        let mut r = Round::new(3);
        r.granted(0, 5);
        r.granted(1, 4);
        assert_eq!(r.raises(), [(1, 5)]);
        r.granted(2, 8);
        assert_eq!(r.step(), Step::Open, "5 is confirmed once, 8 does not confirm it");
        r.failed(1, false);
        // 5 can have no majority now: both others go up to 8.
        assert_eq!(r.raises(), [(0, 8)]);
        r.granted(0, 8);
        assert_eq!(r.step(), Step::Confirmed { fence: 8 });
    }

    #[test]
    fn a_late_grant_below_f_is_raised() {
        let mut r = Round::new(3);
        r.granted(0, 5);
        r.granted(1, 5);
        assert_eq!(r.step(), Step::Confirmed { fence: 5 });
        r.granted(2, 3);
        assert_eq!(r.raises(), [(2, 5)]);
    }

    #[test]
    fn a_server_far_ahead_is_left_out() {
        let mut r = Round::new(3);
        r.granted(0, 1_000_000);
        r.granted(1, 5);
        assert_eq!(r.raises(), [(1, 1_000_000)]);
        r.too_high(1, 1_000_000);
        assert_eq!(r.step(), Step::Open, "one more may come");
        r.granted(2, 6);
        assert_eq!(r.raises(), [(1, 6)]);
        r.granted(1, 6);
        assert_eq!(r.step(), Step::Confirmed { fence: 6 });
    }

    #[test]
    fn servers_ahead_by_different_times_are_all_left_out() {
        // Hours ahead by 2 and by 3: the first accepts the fence of the second, the right one refuses both.
        let mut r = Round::new(3);
        for (server, fence) in [(0, 2_000_000), (1, 3_000_000), (2, 5)] {
            r.granted(server, fence);
        }
        assert_eq!(r.raises(), [(0, 3_000_000), (2, 3_000_000)]);
        r.granted(0, 3_000_000);
        r.too_high(2, 3_000_000);
        assert!(r.raises().is_empty(), "no second time");
        assert_eq!(r.step(), Step::Short);
        assert!(r.is_ahead(0) && r.is_ahead(1) && !r.is_ahead(2));
    }

    #[test]
    fn outcomes_of_failed_rounds() {
        let mut r = Round::new(5);
        for i in 0..3 {
            r.busy(i, Some(ms(100 + i as u64)));
        }
        assert_eq!(r.step(), Step::Busy { free_in: Some(ms(102)) });

        let mut r = Round::new(5);
        r.granted(0, 1);
        r.busy(1, None);
        r.failed(2, false);
        assert_eq!(r.step(), Step::Open);
        r.failed(3, false);
        r.failed(4, true);
        assert_eq!(r.step(), Step::Short);

        let mut r = Round::new(3);
        r.failed(0, true);
        r.failed(1, true);
        assert_eq!(r.step(), Step::Refused);

        // A split vote is Busy: a quorum of answers came.
        let mut r = Round::new(4);
        r.granted(0, 1);
        r.granted(1, 1);
        r.busy(2, Some(ms(50)));
        r.busy(3, Some(ms(60)));
        assert_eq!(r.step(), Step::Busy { free_in: Some(ms(50)) });
    }

    #[test]
    fn only_servers_that_may_hold_it_are_released() {
        let mut r = Round::new(5);
        r.granted(0, 1);
        r.busy(1, None);
        r.failed(2, false);
        assert!(r.may_hold(0, false) && r.may_hold(4, false));
        assert!(!r.may_hold(1, true));
        assert!(r.may_hold(2, true) && !r.may_hold(2, false));
    }

    #[test]
    fn the_fence_of_a_break_is_the_largest_that_a_majority_can_have() {
        let near = |fence| Some((fence, 1_000));
        let ahead = |fence| Some((fence, fence + 1_000));
        assert_eq!(break_fence(&[near(7)]), Some(7));
        assert_eq!(break_fence(&[near(5), near(7), near(6)]), Some(7));
        assert_eq!(break_fence(&[near(5), None, near(6)]), Some(6));
        assert_eq!(break_fence(&[near(5), None, None]), None);
        assert_eq!(break_fence(&[near(5), near(6), ahead(9_000)]), Some(6), "one clock far ahead is left out");
        assert_eq!(break_fence(&[near(5), ahead(9_500), ahead(9_000)]), Some(9_500), "unless it has a majority");
        assert_eq!(break_fence(&[near(5), None, ahead(9_000)]), None, "the third may have had a fence as high");
        assert_eq!(break_fence(&[near(5), near(6), near(7), None, ahead(9_000)]), Some(7));
    }

    #[test]
    fn tally_verdicts() {
        // n, yes, no, failed
        let table = [
            (1, 1, 0, 0, Verdict::Yes),
            (1, 0, 1, 0, Verdict::No),
            (1, 0, 0, 1, Verdict::Short),
            (2, 1, 1, 0, Verdict::No),
            (2, 1, 0, 1, Verdict::Short),
            (3, 2, 0, 0, Verdict::Yes),
            (3, 1, 1, 0, Verdict::Open),
            (3, 1, 1, 1, Verdict::Short),
            (3, 0, 2, 0, Verdict::No),
            (5, 2, 2, 0, Verdict::Open),
            (5, 0, 0, 3, Verdict::Short),
            (5, 2, 3, 0, Verdict::No),
        ];
        for (n, yes, no, failed, verdict) in table {
            assert_eq!(Tally { n, yes, no, failed }.verdict(), verdict, "{n} {yes} {no} {failed}");
        }
    }

    #[derive(Debug, Clone, Copy)]
    enum Answer {
        Granted(u64),
        Busy,
        Failed,
    }

    fn answers() -> impl Strategy<Value = Vec<Answer>> {
        let one = prop_oneof![(1u64..4).prop_map(Answer::Granted), Just(Answer::Busy), Just(Answer::Failed)];
        proptest::collection::vec(one, 1..8)
    }

    proptest! {
        /// Whatever comes in whatever order: a round ends, a confirmed fence is really stored by a majority, and
        /// without failures in raising the outcome follows from the counts.
        #[test]
        fn rounds_end_and_confirm_only_what_a_majority_stores(
            answers in answers(),
            order in any::<proptest::sample::Index>(),
            raise_fails in proptest::collection::vec(any::<bool>(), 8),
        ) {
            let n = answers.len();
            let mut r = Round::new(n);
            let mut stored = vec![None; n];
            let mut step = Step::Open;
            let start = order.index(n);
            let mut any_raise_failed = false;
            for k in 0..n {
                let i = (start + k) % n;
                match answers[i] {
                    Answer::Granted(f) => { stored[i] = Some(f); r.granted(i, f) }
                    Answer::Busy => r.busy(i, None),
                    Answer::Failed => r.failed(i, false),
                }
                loop {
                    let raises = r.raises();
                    if raises.is_empty() { break }
                    for (j, f) in raises {
                        if raise_fails[j] { any_raise_failed = true; stored[j] = None; r.failed(j, false) }
                        else { stored[j] = Some(f); r.granted(j, f) }
                    }
                }
                step = r.step();
                if let Step::Confirmed { fence } = step {
                    prop_assert!(stored.iter().filter(|s| **s == Some(fence)).count() >= majority(n));
                    break;
                }
            }
            prop_assert_ne!(step, Step::Open);
            let granted = answers.iter().filter(|a| matches!(a, Answer::Granted(_))).count();
            if !any_raise_failed {
                prop_assert_eq!(matches!(step, Step::Confirmed { .. }), granted >= majority(n));
            }
        }
    }
}
