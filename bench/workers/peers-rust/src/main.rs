//! Rust worker: rslock, and the raw floors.
//! floor-rust / floor-rust-mt: SET NX PX + EVALSHA compare-and-delete on one multiplexed connection
//! (current-thread / two-thread runtime); contended it spins with `spin_ms`.
//! floor-blpop: a token in a list, BLPOP to take it and LPUSH to pass it on (hand-off floor, no TTL, no safety).

#[path = "../../driver.rs"]
mod driver;

use driver::{Adapter, Work};
use redis::aio::MultiplexedConnection;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNLOCK: &str = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

enum Held {
    Rs(rslock::Lock),
    Raw(String),
    Tok(MultiplexedConnection),
}

#[derive(Clone)]
enum Peer {
    Rs(rslock::LockManager),
    Raw { con: MultiplexedConnection, unlock: Arc<redis::Script>, spin: Duration },
    Blpop { client: redis::Client, pool: Arc<Mutex<Vec<MultiplexedConnection>>> },
}

impl Peer {
    async fn new(cfg: &Value) -> Peer {
        let urls = driver::urls(cfg);
        match cfg["peer"].as_str().unwrap() {
            "rslock" => {
                let mut m = rslock::LockManager::new(urls);
                if cfg["variant"] == "aggressive" {
                    m.set_retry(1_000_000, Duration::from_millis(10));
                }
                Peer::Rs(m)
            }
            "floor-blpop" => {
                Peer::Blpop { client: redis::Client::open(urls[0].as_str()).unwrap(), pool: Default::default() }
            }
            _ => {
                let c = redis::Client::open(urls[0].as_str()).unwrap();
                Peer::Raw {
                    con: c.get_multiplexed_async_connection().await.unwrap(),
                    unlock: Arc::new(redis::Script::new(UNLOCK)),
                    spin: Duration::from_millis(cfg["spin_ms"].as_u64().unwrap_or(50)),
                }
            }
        }
    }
}

impl Adapter for Peer {
    type Held = Held;

    async fn acquire(&self, key: &str, ttl: u64) -> Result<Held, String> {
        match self {
            Peer::Rs(m) => {
                // `lock` gives up after its retry count; `acquire` loops for ever, and that is what waiters want
                m.acquire(key, Duration::from_millis(ttl)).await.map(|g| Held::Rs(g.lock)).map_err(|e| e.to_string())
            }
            Peer::Raw { con, spin, .. } => {
                let mut con = con.clone();
                let tok = uuid::Uuid::new_v4().simple().to_string();
                loop {
                    let mut set = redis::cmd("SET");
                    set.arg(key).arg(&tok).arg("NX").arg("PX").arg(ttl);
                    let r: Option<String> = set.query_async(&mut con).await.map_err(|e| e.to_string())?;
                    if r.is_some() {
                        return Ok(Held::Raw(tok));
                    }
                    tokio::time::sleep(*spin).await;
                }
            }
            Peer::Blpop { client, pool } => {
                let idle = pool.lock().unwrap().pop();
                let mut con = match idle {
                    Some(c) => c,
                    None => {
                        let c = redis::AsyncConnectionConfig::new().set_response_timeout(None);
                        client.get_multiplexed_async_connection_with_config(&c).await.map_err(|e| e.to_string())?
                    }
                };
                let mut pop = redis::cmd("BLPOP");
                let _: (String, String) = pop.arg(key).arg(0).query_async(&mut con).await.map_err(|e| e.to_string())?;
                Ok(Held::Tok(con))
            }
        }
    }

    async fn release(&self, key: &str, h: Held) -> Result<String, String> {
        match (self, h) {
            (Peer::Rs(m), Held::Rs(l)) => {
                m.unlock(&l).await;
                Ok("() - release says nothing".into())
            }
            (Peer::Raw { con, unlock, .. }, Held::Raw(tok)) => {
                let mut call = unlock.key(key);
                let n: i64 = call.arg(tok).invoke_async(&mut con.clone()).await.map_err(|e| e.to_string())?;
                Ok(n.to_string())
            }
            (Peer::Blpop { pool, .. }, Held::Tok(mut con)) => {
                let mut push = redis::cmd("LPUSH");
                let n: i64 = push.arg(key).arg(1).query_async(&mut con).await.map_err(|e| e.to_string())?;
                pool.lock().unwrap().push(con);
                Ok(n.to_string())
            }
            _ => unreachable!(),
        }
    }

    async fn watched(&self, key: &str, ttl: u64, work: Work) -> Result<String, String> {
        match self {
            // `using` drops the routine when an extension fails: the drop is the notice
            Peer::Rs(m) => {
                let routine = || work.run(|| false);
                let r = m.using(key.as_bytes(), Duration::from_millis(ttl), routine).await;
                r.map(|_| "routine done".to_string()).map_err(|e| e.to_string())
            }
            _ => {
                let h = self.acquire(key, ttl).await?;
                work.run(|| false).await;
                self.release(key, h).await
            }
        }
    }
}

fn main() {
    let cfg = driver::config();
    let rt = if cfg["peer"] == "floor-rust-mt" {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    } else {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    };
    let peer = rt.block_on(Peer::new(&cfg));
    driver::main(rt, peer, "rslock 0.10.0, redis-rs 1.8.1, tokio 1.54.1");
}
