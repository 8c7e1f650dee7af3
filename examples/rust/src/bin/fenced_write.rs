//! Writes the state of an order to SQLite, safely even if this process stalls while it holds the lock.
//!
//!     fenced_write orders.db paid [seconds of work before the write]

use quorlock::Client;
use rusqlite::{Connection, params};
use std::error::Error;
use std::time::Duration;

/// The store remembers the largest fence that has written each row, and refuses a smaller one: 0 rows change.
const WRITE: &str = "INSERT INTO orders (id, state, fence) VALUES (42, ?1, ?2)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, fence = excluded.fence WHERE fence <= excluded.fence";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let database = args.next().ok_or("which database?")?;
    let state = args.next().ok_or("which state?")?;
    let work = args.next().map_or(Ok(0.0), |text| text.parse())?;

    let db = Connection::open(database)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)", ())?;

    let urls = std::env::var("REDIS_URLS").unwrap_or_else(|_| "redis://localhost".into());
    let client = Client::new(urls.split(',').collect::<Vec<_>>())?;

    // It is renewed while we hold it. The short TTL means that others wait for a dead holder 2 s at most.
    let lock = client.lock("orders/42").ttl(Duration::from_secs(2)).wait(Duration::from_secs(5));
    let lease = lock.acquire().await?;
    println!("holding the lock with fence {}", lease.fence());

    // Whatever has to be done first: ask the payment service, ...
    tokio::time::sleep(Duration::from_secs_f64(work)).await;

    // A pause before this line (swapped out, suspended) may have been longer than the TTL. No check here could rule
    // out another one right after it; so the store has the last word.
    let changed = db.execute(WRITE, params![state, lease.fence()])?;
    if changed == 0 {
        return Err("refused: a newer holder has written this order".into());
    }
    println!("written");

    lease.release().await?; // an error if the lease was lost on the way, for what else had relied on it
    client.close(Duration::ZERO).await?; // the release has reached every server that answers
    Ok(())
}
