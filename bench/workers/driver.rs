//! Engine for Rust workers (protocol: ../README.md), included by their main.rs with `#[path]`.
//!
//! A worker implements [`Adapter`] and calls [`main`]. Commands run on the runtime it gives, one task a waiter.

use serde_json::{Value, json};
use std::future::Future;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One library, as the commands use it. Errors are texts.
pub trait Adapter: Clone + Send + Sync + 'static {
    /// A lock that is held.
    type Held: Send;
    /// Takes the lock, waiting as the library waits.
    fn acquire(&self, key: &str, ttl_ms: u64) -> impl Future<Output = Result<Self::Held, String>> + Send;
    /// Gives it back: what the library says to that.
    fn release(&self, key: &str, held: Self::Held) -> impl Future<Output = Result<String, String>> + Send;
    /// Takes the lock in its self-renewing form, does the work, releases.
    fn watched(&self, key: &str, ttl_ms: u64, work: Work) -> impl Future<Output = Result<String, String>> + Send;
}

pub fn now() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

fn cpu_us() -> i64 {
    let mut r: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut r) };
    (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1_000_000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec
}

fn out(v: Value) {
    let mut o = std::io::stdout().lock();
    writeln!(o, "{v}").unwrap();
    o.flush().unwrap();
}

async fn sleep_until(ns: i64) {
    let d = ns - now();
    if d > 0 {
        tokio::time::sleep(Duration::from_nanos(d as u64)).await;
    }
}

/// The protected work of the lock-lost test.
pub struct Work {
    ms: i64,
    told: Arc<Mutex<Told>>,
}

#[derive(Default, Clone, Copy)]
struct Told {
    lost: Option<i64>,
    end: Option<i64>,
}

impl Work {
    /// Looks every 2 ms whether `lost` says that the lock is lost. Being dropped unfinished is that notice too.
    pub async fn run(self, lost: impl Fn() -> bool) {
        struct Dropped(Arc<Mutex<Told>>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                let mut t = self.0.lock().unwrap();
                if t.end.is_none() {
                    t.lost.get_or_insert_with(now);
                }
            }
        }
        let told = Dropped(self.told);
        out(json!({"event": "held", "t": now()}));
        let end = now() + self.ms * 1_000_000;
        while now() < end {
            if lost() {
                told.0.lock().unwrap().lost.get_or_insert_with(now);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        told.0.lock().unwrap().end = Some(now());
    }
}

async fn pairs<A: Adapter>(a: &A, c: &Value) -> Value {
    let (n, tasks) = (c["n"].as_i64().unwrap(), c["tasks"].as_i64().unwrap());
    let end = now() + c["max_ms"].as_i64().unwrap_or(600_000) * 1_000_000;
    let ttl = c["ttl_ms"].as_u64().unwrap();
    let (t0, c0) = (now(), cpu_us());
    let mut hs = vec![];
    for i in 0..tasks {
        let (a, key) = (a.clone(), format!("{}:{i}", c["key"].as_str().unwrap()));
        hs.push(tokio::spawn(async move {
            let (mut lat, mut errs) = (vec![], vec![]);
            for _ in 0..(n / tasks).max(1) {
                let t = now();
                if t > end {
                    break;
                }
                let r = match a.acquire(&key, ttl).await {
                    Ok(h) => a.release(&key, h).await,
                    Err(e) => Err(e),
                };
                let us = (now() - t) as f64 / 1000.0;
                match r {
                    Ok(_) => lat.push(us),
                    Err(e) => errs.push(json!([us, e])),
                }
            }
            (lat, errs)
        }));
    }
    let (mut lat, mut errs) = (vec![], vec![]);
    for h in hs {
        let (l, e) = h.await.unwrap();
        lat.extend(l);
        errs.extend(e);
    }
    json!({"lat_us": lat, "errors": errs, "wall_us": (now() - t0) as f64 / 1000.0, "cpu_us": cpu_us() - c0})
}

async fn contend<A: Adapter>(a: &A, c: &Value) -> Value {
    let key = c["key"].as_str().unwrap().to_string();
    let ttl = c["ttl_ms"].as_u64().unwrap();
    let hold = Duration::from_micros(c["hold_us"].as_u64().unwrap());
    let start = c["start_ns"].as_i64().unwrap();
    let is_loop = c["mode"] == "loop";
    let end = start + c["duration_ms"].as_i64().unwrap_or(0) * 1_000_000;
    let stagger = c["stagger_us"].as_i64().unwrap() * 1000;
    let log = Arc::new(Mutex::new((vec![], vec![])));
    let c0 = cpu_us();
    let mut hs = vec![];
    let mut ids: Vec<(i64, Option<i64>)> =
        c["ids"].as_array().unwrap().iter().map(|v| (v.as_i64().unwrap(), None)).collect();
    if let Some(g) = c["gate_ns"].as_i64() {
        ids.insert(0, (-1, Some(g)));
    }
    for (i, until) in ids {
        let (a, key, log) = (a.clone(), key.clone(), log.clone());
        hs.push(tokio::spawn(async move {
            if until.is_none() {
                sleep_until(start + i * stagger).await;
            }
            loop {
                let t0 = now();
                let r = a.acquire(&key, ttl).await;
                let t1 = now();
                match r {
                    Err(e) => log.lock().unwrap().1.push(json!([i, t0, t1, e])),
                    Ok(h) => {
                        if let Some(u) = until {
                            sleep_until(u).await;
                        } else if !hold.is_zero() && (!is_loop || t1 < end) {
                            tokio::time::sleep(hold).await;
                        }
                        let t2 = now();
                        let r = a.release(&key, h).await;
                        let mut l = log.lock().unwrap();
                        if let Err(e) = r {
                            l.1.push(json!([i, t2, now(), format!("release: {e}")]));
                        }
                        l.0.push(json!([i, t0, t1, t2, now()]));
                    }
                }
                if until.is_some() || !is_loop || now() >= end {
                    break;
                }
            }
        }));
    }
    for h in hs {
        h.await.unwrap();
    }
    let l = log.lock().unwrap();
    json!({"grants": l.0, "fails": l.1, "cpu_us": cpu_us() - c0})
}

async fn watched<A: Adapter>(a: &A, c: &Value) -> Value {
    let told = Arc::new(Mutex::new(Told::default()));
    let work = Work { ms: c["work_ms"].as_i64().unwrap(), told: told.clone() };
    let release = a.watched(c["key"].as_str().unwrap(), c["ttl_ms"].as_u64().unwrap(), work).await;
    let (done, t) = (now(), *told.lock().unwrap());
    let release = release.unwrap_or_else(|e| format!("Err({e})"));
    json!({"lost_ns": t.lost, "end_ns": t.end.unwrap_or(done), "release": release, "done_ns": done})
}

/// The configuration the harness gave.
pub fn config() -> Value {
    serde_json::from_str(&std::env::args().nth(1).expect("usage: worker CONFIG")).expect("CONFIG is JSON")
}

/// The servers of the configuration.
pub fn urls(cfg: &Value) -> Vec<String> {
    cfg["ports"].as_array().unwrap().iter().map(|p| format!("redis://127.0.0.1:{p}/")).collect()
}

/// Says ready, then answers the commands until the end of input.
pub fn main(rt: tokio::runtime::Runtime, adapter: impl Adapter, info: &str) {
    out(json!({"event": "ready", "info": info}));
    for line in std::io::stdin().lock().lines() {
        let c: Value = serde_json::from_str(&line.unwrap()).unwrap();
        out(match c["cmd"].as_str().unwrap() {
            "pairs" => rt.block_on(pairs(&adapter, &c)),
            "contend" => rt.block_on(contend(&adapter, &c)),
            "watched" => rt.block_on(watched(&adapter, &c)),
            other => panic!("unknown command {other}"),
        });
    }
}
