//! Rust worker for quorlock, called from a runtime of its own, as a user's program would.

#[path = "../../driver.rs"]
mod driver;

use driver::{Adapter, Work};
use quorlock::{Client, ClientOptions, Error, Lease, Wait};
use std::time::Duration;

#[derive(Clone)]
struct Ours(Client);

fn text(e: Error) -> String {
    format!("{}: {e}", e.kind().name())
}

impl Adapter for Ours {
    type Held = Lease;

    async fn acquire(&self, key: &str, ttl_ms: u64) -> Result<Lease, String> {
        self.0.lock(key).ttl(Duration::from_millis(ttl_ms)).acquire().await.map_err(text)
    }

    async fn release(&self, _key: &str, lease: Lease) -> Result<String, String> {
        lease.release().await.map(|first| first.to_string()).map_err(text)
    }

    async fn watched(&self, key: &str, ttl_ms: u64, work: Work) -> Result<String, String> {
        let lease = self.acquire(key, ttl_ms).await?;
        work.run(|| lease.lost_reason().is_some()).await;
        self.release(key, lease).await
    }
}

fn main() {
    let cfg = driver::config();
    let options = ClientOptions {
        // M3 (it alone names a client) tries once; elsewhere waiters wait without limit, as by default.
        wait: cfg["client"].is_string().then_some(Wait::For(Duration::ZERO)),
        server_timeout: cfg["server_timeout_ms"].as_u64().map(Duration::from_millis),
        ..Default::default()
    };
    let ours = Ours(Client::with_options(driver::urls(&cfg), options).expect("the harness gives good options"));
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    driver::main(rt, ours, &format!("quorlock {}, tokio 1.54.1", quorlock::VERSION));
}
