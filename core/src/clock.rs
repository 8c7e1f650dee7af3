//! The clock of every deadline: one that runs through suspend, replaceable in the simulation.
//!
//! A lease that was taken before the machine slept is over when it wakes. `std::time::Instant` and tokio's timers
//! stop in suspend on Linux, so a deadline is a [`Moment`] of `CLOCK_BOOTTIME`; a timer is only a hint to look at it.

use std::time::Duration;

/// A point on the local clock, in nanoseconds since an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub u64);

impl Moment {
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, d: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The seam for time: the simulation moves both clocks.
pub(crate) trait Clock: Send + Sync {
    /// Monotonic, and running in suspend.
    fn now(&self) -> Moment;
    /// Wall clock in µs since 1970: only a proposal for fences, never a deadline.
    fn wall_us(&self) -> u64;
}

/// The machine's clocks.
pub(crate) struct SystemClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const RUNS_IN_SUSPEND: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// macOS: its CLOCK_MONOTONIC goes on while the machine sleeps.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const RUNS_IN_SUSPEND: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let t = rustix::time::clock_gettime(RUNS_IN_SUSPEND);
        Moment(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
    }

    fn wall_us(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        t.tv_sec as u64 * 1_000_000 + t.tv_nsec as u64 / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_advances() {
        let a = SystemClock.now();
        let b = SystemClock.now();
        assert!(b >= a);
        assert_eq!((a + Duration::from_millis(5)).since(a), Duration::from_millis(5));
        assert_eq!(a.since(a + Duration::from_millis(5)), Duration::ZERO);
        assert!(SystemClock.wall_us() > 1_700_000_000_000_000);
    }
}
