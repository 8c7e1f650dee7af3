//! Long work under a lock: stops when the lease is lost, and in good order at SIGTERM.
//!
//!     long_work [parts of work, 100 ms each]

use quorlock::Client;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let parts = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let urls = std::env::var("REDIS_URLS").unwrap_or_else(|_| "redis://localhost".into());
    let client = Client::new(urls.split(',').collect::<Vec<_>>())?;
    let mut stop = signal(SignalKind::terminate())?;

    let lock = client.lock("reports/daily").ttl(Duration::from_secs(3)).wait(Duration::from_secs(5));
    let lease = tokio::select! {
        lease = lock.acquire() => lease?,
        _ = stop.recv() => return Ok(ExitCode::SUCCESS), // the attempt is dropped here, and undone
    };
    println!("holding the lock");

    // It is renewed by a thread of the library, however long the work takes.
    tokio::select! {
        () = work(parts) => println!("done"),
        // The work is dropped at its next await.
        reason = lease.lost() => {
            eprintln!("lost the lock ({}): stopped", reason.name());
            return Ok(ExitCode::from(2));
        }
        _ = stop.recv() => println!("stopped"),
    }

    lease.release().await?;
    // In a program with more than one task: refuses new locks, and gives the holders 5 s to finish.
    client.close(Duration::from_secs(5)).await?;
    Ok(ExitCode::SUCCESS)
}

async fn work(parts: u32) {
    for part in 1..=parts {
        tokio::time::sleep(Duration::from_millis(100)).await;
        println!("part {part} of {parts}");
    }
}
