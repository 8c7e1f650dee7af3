//! A client in a process of its own, for tests that stop, kill or fork it.
//!
//! `quorlock-worker URL[,URL…] hold NAME [ttl=MS] [wait=MS] [renew=off] [max_hold=MS]` acquires, then answers one line
//! of its input at a time (`remaining`, `release`, `extend MS`), and exits at its end.
//! `… loop NAME [ttl=MS]` acquires and releases for ever, telling each fence.
//! `… fork NAME CHILDREN TIMES` acquires, forks so many children one after the other, lets each use the inherited
//! client so many times (on names of its own) and try the inherited lease, waits for them, and releases.
//!
//! Events are lines of words: the event, the time since boot in ms, details. `acquired T FENCE`, `failed T KIND`,
//! `lost T REASON`, `remaining T MS`, `released T true`, `extended T MS`, `child T held=… release=… times=…`.

use quorlock::blocking::{Client, Lease};
use quorlock::{LockOptions, Wait};
use std::io::BufRead;
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [urls, mode, name, ref rest @ ..] = args[..] else { panic!("too few arguments: {args:?}") };
    let ttl = options(if mode == "fork" { &[] } else { rest }).ttl.unwrap_or(ms("2000"));
    let urls: Vec<_> = urls.split(',').collect();
    let client = Client::with_options(urls, quorlock_tests::patient(ttl)).expect("make the client");
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
    println!("{event} {} {details}", quorlock_tests::boot_time().as_millis());
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
