//! Renewal and the lost signal: one keeper task a lease, on the runtime.
//!
//! It extends at every third of the TTL, tries again while validity lasts when servers fail, and ends the lease at its
//! deadline or when the servers say that it is not ours. Timers are only hints: what counts is the lease's clock.

use crate::clock::Moment;
use crate::error::ErrorKind;
use crate::hold::Hold;
use crate::runtime::Process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Starts the keeper of a lease that was acquired by a round which began at `began`.
pub(crate) fn start(lease: &Arc<Hold>, began: Moment) {
    watch_suspend(lease.shared.process);
    let lease = lease.clone();
    let runtime = lease.shared.runtime.clone();
    runtime.spawn(async move {
        keep(&lease, began).await;
        lease.call_back();
    });
}

async fn keep(lease: &Hold, began: Moment) {
    let clock = &lease.shared.clock;
    let mut next = began + lease.ttl() / 3;
    loop {
        let ended = lease.ended.notified();
        let resumed = lease.shared.process.resumed.notified();
        if !lease.held() {
            return;
        }
        let now = clock.now();
        if lease.renew && now >= next {
            // Not beyond the deadline: a loss is told when it happens, even if a server still lets us wait.
            let Ok(renewed) = timeout(lease.deadline().since(now), lease.renew_now()).await else { continue };
            match renewed {
                Ok(()) => next = now + lease.ttl() / 3,
                Err(e) if e.kind() == ErrorKind::Unavailable => {
                    tracing::debug!(target: "quorlock", error = %e, "renewal failed; trying again while the lease is valid");
                    next =
                        clock.now() + (lease.ttl() / 30).clamp(Duration::from_millis(10), Duration::from_millis(200));
                }
                // Lost, or ended otherwise: the next look says so.
                Err(_) => {}
            }
            continue;
        }
        let wake = if lease.renew { next.min(lease.deadline()) } else { lease.deadline() };
        tokio::select! {
            () = ended => return,
            () = sleep(wake.since(now)) => {}
            () = resumed => {}
            () = lease.changed.notified() => next = clock.now() + lease.ttl().min(lease.deadline().since(clock.now())) / 3,
        }
    }
}

/// Timers stand still while the machine is asleep, and would then tell of a loss late. A timer on the clock that runs
/// in suspend goes off at once when the machine wakes, and lets every lease look at its deadline.
#[cfg(target_os = "linux")]
fn watch_suspend(process: &'static Process) {
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    if process.watching_suspend.swap(true, Ordering::Relaxed) {
        return;
    }
    process.handle().spawn(async move {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let Ok(timer) = timerfd_create(TimerfdClockId::Boottime, flags) else { return };
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let every = Itimerspec { it_interval: second, it_value: second };
        if timerfd_settime(&timer, TimerfdTimerFlags::empty(), &every).is_err() {
            return;
        }
        let Ok(timer) = crate::runtime::readable(Arc::new(timer)) else { return };
        let mut asleep = slept();
        while let Ok(mut ready) = timer.readable().await {
            let _ = rustix::io::read(timer.get_ref(), &mut [0; 8]);
            ready.clear_ready();
            if slept() > asleep + Duration::from_millis(1) {
                asleep = slept();
                process.resumed.notify_waiters();
            }
        }
    });
}

/// How long the machine has been asleep since it was started.
#[cfg(target_os = "linux")]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |clock| {
        let t = clock_gettime(clock);
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    // In this order the reading is never too large.
    let running = read(ClockId::Boottime);
    running.saturating_sub(read(ClockId::Monotonic))
}

#[cfg(not(target_os = "linux"))]
fn watch_suspend(_: &'static Process) {}
