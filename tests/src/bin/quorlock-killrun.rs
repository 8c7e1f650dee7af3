//! The kill run's worker in Rust: takes the lock, works behind the store's check, and so on until SIGTERM.
//!
//! Arguments: the lock's servers (URLs with commas between), the store's port, the lock's name, this worker's name, a
//! seed, TTL and server_timeout in ms. What it tells, and what it does at random, is in tests/README.md.

use quorlock::{Client, ClientOptions, ErrorKind, Lease, LockOptions, Wait};
use quorlock_tests::{Connection, ms};
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [urls, port, name, me, seed, ttl, server_timeout] = args[..] else { panic!("seven arguments") };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let options = ClientOptions {
        ttl: Some(ms(number(ttl))),
        server_timeout: Some(ms(number(server_timeout))),
        ..ClientOptions::default()
    };
    let address = format!("127.0.0.1:{port}").parse().expect("a port");
    let mut worker = Worker {
        client: Client::with_options(urls.split(',').collect::<Vec<_>>(), options).expect("make the client"),
        name,
        store: Connection::open(address, None, None).expect("reach the store"),
        dice: number(seed),
        stop: signal(SignalKind::terminate()).expect("listen to SIGTERM"),
        stopping: false,
    };
    let mut bodies = 0;
    while !worker.stopping {
        if let Some(lease) = worker.acquire().await {
            bodies += 1;
            worker.work(lease, &format!("{me}.{bodies}")).await;
        }
    }
    worker.client.close(Duration::ZERO).await.expect("close");
}

struct Worker<'a> {
    client: Client,
    name: &'a str,
    store: Connection,
    dice: u64,
    stop: Signal,
    stopping: bool,
}

impl Worker<'_> {
    /// The same numbers in every language.
    fn pick(&mut self, below: u64) -> u64 {
        self.dice = self.dice * 48271 % 2147483647;
        self.dice % below
    }

    async fn acquire(&mut self) -> Option<Lease> {
        let (mut cancel_after, mut wait) = (Duration::MAX, Wait::Forever);
        match self.pick(10) {
            0..2 => cancel_after = ms(1 + self.pick(300)),
            2 => wait = Wait::For(ms(1 + self.pick(200))),
            3..6 => wait = Wait::For(ms(5000)),
            _ => {}
        }
        tell("wait", "");
        let options = LockOptions { wait: Some(wait), ..LockOptions::default() };
        let lock = self.client.lock_with(self.name, options).expect("options");
        let taken = tokio::select! {
            taken = lock.acquire() => taken,
            // From here on the future of the acquire is dropped.
            () = sleep(cancel_after) => {
                tell("ended", "cancelled");
                return None;
            }
            _ = self.stop.recv() => {
                self.stopping = true;
                tell("ended", "cancelled");
                return None;
            }
        };
        match taken {
            Ok(lease) => Some(lease),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable) => {
                tell("ended", error.kind().name());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn work(&mut self, lease: Lease, body: &str) {
        tell("granted", lease.fence());
        let mut value = self.act(body, lease.fence(), None);
        if value >= 0 {
            sleep(ms(5 + self.pick(46))).await;
            value = self.act(body, lease.fence(), Some(value + 1));
        }
        if value < 0 {
            tell("refused", if lease.held() { "held" } else { "lost" });
        }
        match lease.release().await {
            Ok(_) => tell("released", ""),
            Err(error) if matches!(error.kind(), ErrorKind::Lost | ErrorKind::Unavailable) => {
                tell("unreleased", error.kind().name());
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The store's value, or -1 if it refuses.
    fn act(&mut self, body: &str, fence: u64, value: Option<i64>) -> i64 {
        let words = ["FCALL", "act", "0", body, &fence.to_string()].map(str::to_owned);
        let words: Vec<_> = words.into_iter().chain(value.map(|value| value.to_string())).collect();
        let reply = self.store.call(&words).expect("an answer of the store").expect("the store knows its function");
        reply.as_i64().expect("a number")
    }
}

fn tell(event: &str, detail: impl std::fmt::Display) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
    println!("{event} {:.6} {detail}", now.as_secs_f64());
}
