//! The demo's worker in Rust: adds 1 to a counter in SQLite, again and again, under the lock that all workers share.
//!
//! Arguments: the database, how many increments, the increment at which to pause, `fenced` or `unfenced`, the servers'
//! URLs.

use quorlock::ErrorKind;
use quorlock::blocking::{Client, Lease};
use rusqlite::{Connection, OptionalExtension, params};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [database, increments, pause_at, mode, urls @ ..] = &args[..] else { return Err("too few arguments".into()) };
    let (increments, pause_at): (u32, u32) = (increments.parse()?, pause_at.parse()?);
    let worker = Worker { client: Client::new(urls)?, store: Connection::open(database)?, fenced: mode == "fenced" };
    worker.store.busy_timeout(Duration::from_secs(10))?;

    tell("ready", "");
    next_order()?;
    let (mut done, mut paused) = (0, false);
    while done < increments {
        let pause = done + 1 == pause_at && !paused;
        paused |= pause;
        done += u32::from(worker.add_one(pause)?);
        sleep(Duration::from_millis(20)); // its other work
    }
    Ok(())
}

struct Worker {
    client: Client,
    store: Connection,
    fenced: bool,
}

impl Worker {
    /// Whether the increment was written: else it is to be tried again.
    fn add_one(&self, pause: bool) -> Result<bool, Box<dyn Error>> {
        tell("asked", "");
        let lock = self.client.lock("counter").ttl(Duration::from_millis(1500)).wait(Duration::from_secs(60));
        let lease = match lock.acquire() {
            Ok(lease) => lease,
            Err(e) => return ended(e).map(|()| false),
        };
        tell("acquired", &format!(r#", "fence": {}"#, lease.fence()));
        let written = self.add_one_with(&lease, pause)?;
        match lease.release() {
            Ok(_) => tell("released", ""),
            Err(e) => ended(e)?,
        }
        Ok(written)
    }

    fn add_one_with(&self, lease: &Lease, pause: bool) -> Result<bool, Box<dyn Error>> {
        // Without fencing every holder looks the same to the store.
        let fence = if self.fenced { lease.fence() as i64 } else { 0 };
        let value = self.read(fence)?;
        sleep(Duration::from_millis(10)); // the work
        if lease.ensure_held().is_err() {
            return Ok(false);
        }
        if pause {
            // Between the check and the write: no check of the lease can be the last thing that happens.
            tell("paused", &format!(r#", "remaining_ms": {}"#, lease.remaining().as_millis()));
            next_order()?;
        }
        let written = match value {
            Some(value) => self.write(value + 1, fence)?,
            None => false,
        };
        tell(if written { "wrote" } else { "refused" }, "");
        Ok(written)
    }

    /// The value, and from here on the store refuses smaller fences; `None` if it has seen a larger one.
    fn read(&self, fence: i64) -> rusqlite::Result<Option<i64>> {
        let sql = "UPDATE counter SET fence = ?1 WHERE fence <= ?1 RETURNING value";
        self.store.query_row(sql, [fence], |row| row.get(0)).optional()
    }

    /// False if the store has seen a larger fence: the write came too late.
    fn write(&self, value: i64, fence: i64) -> rusqlite::Result<bool> {
        let changed = self.store.execute("UPDATE counter SET value = ? WHERE fence <= ?", params![value, fence])?;
        Ok(changed == 1)
    }
}

/// Tells how an attempt ended, if that is a thing to go on after.
fn ended(error: quorlock::Error) -> Result<(), Box<dyn Error>> {
    match error.kind() {
        ErrorKind::Lost => tell("lost", ""),
        ErrorKind::Unavailable => tell("unavailable", ""),
        _ => return Err(error.into()),
    }
    Ok(())
}

fn tell(event: &str, details: &str) {
    let now = clock_gettime(ClockId::Monotonic);
    let ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
    println!(r#"{{"event": "{event}", "t": {ns}{details}}}"#);
}

fn next_order() -> std::io::Result<usize> {
    std::io::stdin().read_line(&mut String::new())
}
