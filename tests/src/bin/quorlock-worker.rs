//! A client in a process of its own, for tests that stop, kill or fork it.
//!
//! `quorlock-worker URL[,URL…] hold NAME [ttl=MS] [wait=MS] [renew=off] [max_hold=MS]` acquires, then answers one line
//! of its input at a time (`remaining`, `release`, `extend MS`), and exits at its end.
//! `… loop NAME [ttl=MS]` acquires and releases for ever, telling each fence.
//! `… fork NAME CHILDREN TIMES` acquires, forks so many children one after the other, lets each use the inherited
//! client so many times (on names of its own) and try the inherited lease, waits for them, and releases.
//! `… crowd NAME COUNT [body=MS] […]` connects, tells `ready`, and at a line of its input begins so many acquires at once, on
//! NAME with `#` replaced by 0, 1, …; each holds for the time of its body, and tells when it began and ended. It exits at
//! the end of its input.
//! `… names NAME […]` takes and releases NAME0, NAME1, … up to the number that it reads, 100 at a time; then the next line.
//!
//! Events are lines of words: the event, the time since boot in ms, details. `acquired T FENCE`, `failed T KIND`,
//! `lost T REASON`, `remaining T MS`, `released T true`, `extended T MS`, `child T held=… release=… times=…`,
//! `served T FENCE FROM_US TO_US`, `done T TAKEN FAILED`.

use quorlock::blocking::{Client, Lease};
use quorlock::{LockOptions, Wait};
use quorlock_tests::boot_time;
use std::io::BufRead;
use std::time::Duration;
use tokio::task::JoinSet;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [urls, mode, name, ref rest @ ..] = args[..] else { panic!("too few arguments: {args:?}") };
    let ttl = rest.iter().find_map(|word| word.strip_prefix("ttl=")).map_or(ms("2000"), ms);
    let urls: Vec<_> = urls.split(',').collect();
    let patient = quorlock_tests::patient(ttl);
    if let "crowd" | "names" = mode {
        let client = quorlock::Client::with_options(urls, patient).expect("make the client");
        return if mode == "crowd" { crowd(&client, name, rest) } else { names(&client, name, rest) };
    }
    let client = Client::with_options(urls, patient).expect("make the client");
    match mode {
        "hold" => hold(&client, name, rest),
        "loop" => {
            let lock = client.lock_with(name, options(rest)).expect("options");
            loop {
                let lease = lock.acquire().expect("acquire");
                tell("acquired", lease.as_async().fence());
                lease.release().expect("release");
            }
        }
        "fork" => fork(&client, name, rest),
        other => panic!("no such mode: {other}"),
    }
}

fn tell(event: &str, details: impl std::fmt::Display) {
    println!("{event} {} {details}", boot_time().as_millis());
}

fn hold(client: &Client, name: &str, rest: &[&str]) {
    let lease = match client.lock_with(name, options(rest)).expect("options").acquire() {
        Ok(lease) => lease,
        Err(error) => return tell("failed", error.kind().name()),
    };
    tell("acquired", lease.as_async().fence());
    lease.as_async().on_lost(Some(Box::new(|reason| tell("lost", reason.name()))));
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("remaining", _) => tell("remaining", lease.as_async().remaining().as_millis()),
            ("release", _) => tell("released", outcome(lease.release())),
            ("extend", ttl) => tell("extended", outcome(lease.extend(Some(ms(ttl))).map(|left| left.as_millis()))),
            other => panic!("no such order: {other:?}"),
        }
    }
}

fn fork(client: &Client, name: &str, rest: &[&str]) {
    let [children, times] = rest[..] else { panic!("fork needs two numbers") };
    let lease = client.lock(name).acquire().expect("acquire in the parent");
    tell("acquired", lease.as_async().fence());
    for child in 0..children.parse().expect("a number of children") {
        #[allow(unsafe_code)]
        // SAFETY: that a child of a process with threads can go on using the client is what is tested here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            use_in_child(client, lease, child, times.parse().expect("a number of times"));
            // The end of main: whatever the inherited objects do when they are dropped has happened by now.
            return;
        }
        let pid = rustix::process::Pid::from_raw(pid).expect("fork");
        let end =
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).expect("wait for the child");
        assert_eq!(end.and_then(|(_, status)| status.exit_status()), Some(0), "the child ends well");
    }
    tell("released", outcome(lease.release()));
}

fn use_in_child(client: &Client, lease: Lease, child: u32, times: u32) {
    let mut acquired = 0;
    for time in 0..times {
        let own = client.lock(format!("child-{child}-{time}")).try_acquire().expect("try in the child");
        acquired += u32::from(own.expect("nobody else wants it").release().expect("release in the child"));
    }
    let held = lease.as_async().held();
    tell("child", format_args!("held={held} release={} times={acquired}", outcome(lease.release())));
}

#[tokio::main(flavor = "current_thread")]
async fn crowd(client: &quorlock::Client, name: &str, rest: &[&str]) {
    let (count, rest) = rest.split_first().expect("crowd needs a number");
    let (body, rest) = match rest.split_first().and_then(|(first, rest)| Some((first.strip_prefix("body=")?, rest))) {
        Some((body, rest)) => (ms(body), rest),
        None => (Duration::ZERO, rest),
    };
    client.ping(Duration::from_secs(5)).await.expect("ping");
    tell("ready", "");
    std::io::stdin().lock().lines().next();
    let mut tasks = JoinSet::new();
    for number in 0..count.parse::<usize>().expect("a number of waiters") {
        let name = name.replace('#', &number.to_string());
        let lock = client.lock_with(name, options(rest)).expect("options");
        tasks.spawn(async move {
            match lock.acquire().await {
                Ok(lease) => {
                    let from = boot_time().as_micros();
                    tokio::time::sleep(body).await;
                    let to = boot_time().as_micros();
                    lease.release().await.expect("release");
                    tell("served", format_args!("{} {from} {to}", lease.fence()));
                }
                Err(error) => tell("failed", error.kind().name()),
            }
        });
    }
    tasks.join_all().await;
    std::io::stdin().lock().lines().for_each(drop);
}

#[tokio::main(flavor = "current_thread")]
async fn names(client: &quorlock::Client, name: &str, rest: &[&str]) {
    let mut from = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let to: usize = line.parse().expect("a number of names");
        let mut tasks = JoinSet::new();
        for first in from..to.min(from + 100) {
            let locks: Vec<_> = (first..to).step_by(100).collect();
            let (client, name, options) = (client.clone(), name.to_owned(), options(rest));
            tasks.spawn(async move {
                let mut taken = 0;
                for number in &locks {
                    let lock = client.lock_with(format!("{name}{number}"), options.clone()).expect("options");
                    if let Ok(lease) = lock.acquire().await {
                        taken += usize::from(lease.release().await.expect("release"));
                    }
                }
                (taken, locks.len() - taken)
            });
        }
        let (taken, failed) = tasks.join_all().await.into_iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        tell("done", format_args!("{taken} {failed}"));
        from = to;
    }
}

fn outcome<T: std::fmt::Display>(result: quorlock::Result<T>) -> String {
    result.map_or_else(|error| error.kind().name().to_owned(), |value| value.to_string())
}

fn options(words: &[&str]) -> LockOptions {
    let mut options = LockOptions::default();
    for word in words {
        match word.split_once('=') {
            Some(("ttl", value)) => options.ttl = Some(ms(value)),
            Some(("wait", value)) => options.wait = Some(Wait::For(ms(value))),
            Some(("max_hold", value)) => options.max_hold = Some(ms(value)),
            Some(("renew", value)) => options.renew = Some(value != "off"),
            _ => panic!("no such option: {word}"),
        }
    }
    options
}

fn ms(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}
