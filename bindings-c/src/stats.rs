//! The counters of a client.

use crate::client::quorlock_client;
use crate::error::{quorlock_status, status};
use crate::ffi::{c_string, required};
use core_::{Error, Histogram};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

/// How often something took how long. The bounds are 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000
/// and 60000 ms; a count is of what took at most as long as the bound of the same place, and longer than the one
/// before, the last of what took longer than all.
#[repr(C)]
pub struct quorlock_histogram {
    pub counts: [u64; 16],
    /// How often in all.
    pub count: u64,
    /// How long in all.
    pub sum_ms: u64,
}

/// What a client has done so far in this process. All but `waiting` and `holding` only grow.
#[repr(C)]
pub struct quorlock_stats {
    /// Acquires under way now.
    pub waiting: u64,
    /// Leases held now.
    pub holding: u64,
    /// How often acquires have asked the servers for a lock.
    pub attempts: u64,
    /// Acquires that gave a lease.
    pub acquired: u64,
    /// Acquires that others made wait for too long.
    pub busy: u64,
    /// Acquires that too few servers answered.
    pub unavailable: u64,
    /// Acquires that the servers refused for good.
    pub refused: u64,
    /// Acquires that ended otherwise: interrupted, or the client was closed.
    pub cancelled: u64,
    /// Leases that were released or freed.
    pub released: u64,
    /// Lost leases whose deadline had passed.
    pub lost_expired: u64,
    /// Lost leases that others had taken.
    pub lost_taken: u64,
    /// Lost leases whose max_hold_ms was over.
    pub lost_max_hold: u64,
    /// Lost leases of a client that was closed.
    pub lost_closed: u64,
    /// How long acquires took, whatever their end.
    pub wait: quorlock_histogram,
    /// How long leases were held, whatever their end.
    pub hold: quorlock_histogram,
}

/// How one server has answered: its address (never a password), the questions that calls, waits and renewals had for it,
/// and those without a useful answer. The string lives during the call.
pub type quorlock_server_stats_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, address: *const c_char, calls: u64, failures: u64)>;

fn histogram(h: &Histogram) -> quorlock_histogram {
    quorlock_histogram { counts: h.counts, count: h.count, sum_ms: h.sum_ms }
}

/// Counters and histograms of this client in this process, without a command to a server. `size` is sizeof *stats. Calls
/// `each`, if it is not NULL, for one server after the other, in the order of the URLs, on this thread. Works on a
/// closed client, too.
#[unsafe(no_mangle)]
pub extern "C" fn quorlock_client_stats(
    client: Option<&quorlock_client>,
    stats: Option<&mut MaybeUninit<quorlock_stats>>,
    size: usize,
    each: quorlock_server_stats_fn,
    user: *mut c_void,
) -> quorlock_status {
    status(|| {
        let out = required("stats", stats)?;
        if size != size_of::<quorlock_stats>() {
            return Err(Error::invalid("size", size, "is not sizeof(quorlock_stats) of this version"));
        }
        let stats = required("client", client)?.0.stats();
        out.write(quorlock_stats {
            waiting: stats.waiting,
            holding: stats.holding,
            attempts: stats.attempts,
            acquired: stats.acquired,
            busy: stats.busy,
            unavailable: stats.unavailable,
            refused: stats.refused,
            cancelled: stats.cancelled,
            released: stats.released,
            lost_expired: stats.lost.expired,
            lost_taken: stats.lost.taken,
            lost_max_hold: stats.lost.max_hold,
            lost_closed: stats.lost.closed,
            wait: histogram(&stats.wait),
            hold: histogram(&stats.hold),
        });
        for server in stats.servers {
            let address = c_string(server.address);
            if let Some(each) = each {
                // SAFETY: a function of this type, as the caller says; the string outlives the call.
                unsafe { each(user, address.as_ptr(), server.calls, server.failures) };
            }
        }
        Ok(())
    })
}
