//! Field cases: TTL and its units, bad arguments, expiry while the work still runs, clocks.

use quorlock::blocking::Client;
use quorlock::{ErrorKind, LostReason, MAX_NAME_BYTES, Unit, duration};
use quorlock_tests::{Dialogue, Monitor, Seen, Server, Source, boot_time, eventually, left, ms, patient};
use std::time::{Duration, Instant};

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");

/// The clients' commands that name `key`.
fn about<'m>(monitor: &'m mut Monitor, key: &str) -> Vec<&'m Seen> {
    let of_clients = monitor.seen().iter().filter(|seen| seen.source == Source::Client);
    of_clients.filter(|seen| seen.args.iter().any(|arg| arg == key)).collect()
}

#[test]
fn o01_a_fractional_ttl_is_no_contention() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(123))).unwrap();
    client.ping(ms(1000)).unwrap();
    let begin = Instant::now();
    let lock = client.lock("a").ttl(Duration::from_micros(123_450)).renew(false).wait(ms(2000));
    let lease = lock.acquire().unwrap();
    assert!(begin.elapsed() < ms(1000), "no wait");
    assert!((0..=124).contains(&server.pttl("lock:{a}").max(0)));
    assert!(lease.as_async().remaining() < ms(124));
}

#[test]
fn o02_a_ttl_too_small_to_be_usable_is_invalid_at_once() {
    let servers = Server::several::<3>();
    let mut monitors = servers.each_ref().map(Server::monitor);
    let client = Client::new(servers.each_ref().map(Server::url)).unwrap();
    for ttl in [0, 1, 2] {
        let begin = Instant::now();
        let error = client.lock("a").ttl(ms(ttl)).wait(ms(5000)).acquire().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("ttl") && error.to_string().contains("at least 100 ms"), "{error}");
        assert!(begin.elapsed() < ms(500));
    }
    assert_eq!(monitors.each_mut().map(Monitor::count), [0, 0, 0]);
}

#[test]
fn o03_thirty_seconds_are_thirty_seconds() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let _lease = client.lock("a").ttl(Duration::from_secs(30)).acquire().unwrap();
    assert!((25_000..=30_000).contains(&server.pttl("lock:{a}")));
    let _default = client.lock("b").acquire().unwrap();
    assert!((25_000..=30_000).contains(&server.pttl("lock:{b}")));
    assert_eq!(duration("ttl", 30.0, Unit::Seconds).unwrap(), duration("ttl", 30_000.0, Unit::Milliseconds).unwrap());
}

#[test]
fn o04_extend_sets_and_does_not_add() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let lease = client.lock("a").ttl(ms(10_000)).renew(false).acquire().unwrap();
    for _ in 0..5 {
        let remaining = lease.extend(Some(ms(10_000))).unwrap();
        assert!(remaining <= ms(9_898) && remaining > ms(8_000), "{remaining:?}");
        assert!((8_000..=10_000).contains(&server.pttl("lock:{a}")));
        assert!(lease.as_async().remaining() <= remaining, "the same lease is current");
        assert!(lease.as_async().remaining() > ms(8_000));
    }
}

#[test]
fn o05_no_key_is_ever_without_expiry_whenever_the_client_dies() {
    let server = Server::start();
    // Everything on the server in one look: keys with their PTTL.
    let look = "local r = {} for _, k in ipairs(redis.call('KEYS', '*')) do r[#r+1] = k; r[#r+1] = redis.call('PTTL', k) end return r";
    let check = || {
        let found = server.cmd(&["EVAL", look, "0"]);
        for pair in found.as_array().unwrap().chunks(2) {
            let (key, pttl) = (pair[0].as_str().unwrap(), pair[1].as_i64().unwrap());
            // 0: it expires in this very millisecond.
            assert!(pttl >= 0, "{key} has no expiry");
            let long = key.ends_with(":fence") || key.starts_with("lock:client:");
            assert!(pttl <= 2000 || long, "{key} lives for {pttl} ms");
        }
    };
    for round in 0..60 {
        let mut worker = Dialogue::start(WORKER, &[&server.url(), "loop", &format!("a{}", round % 8), "ttl=2000"]);
        worker.hear().expect("it began");
        let end = Instant::now() + Duration::from_micros(round * 337);
        while Instant::now() < end {
            check();
        }
        worker.process.kill();
        check();
    }
    eventually("no lock is left", || left(&server).is_empty());
}

#[test]
fn o06_hostile_arguments_are_invalid_and_nothing_is_sent() {
    let server = Server::start();
    let mut monitor = server.monitor();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let invalid = |result: quorlock::Result<quorlock::blocking::Lease>| {
        let error = result.expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().len() < 1000, "a name is not repeated at length");
    };
    invalid(client.lock("a").ttl(Duration::ZERO).acquire());
    invalid(client.lock("a").ttl(Duration::MAX).acquire());
    invalid(client.lock("a").ttl(Duration::from_millis(1 << 53)).acquire());
    invalid(client.lock("a").wait(Duration::MAX).acquire());
    invalid(client.lock("a").max_hold(Duration::ZERO).acquire());
    invalid(client.lock("a").max_hold(Duration::MAX).acquire());
    invalid(client.lock("a").label("x".repeat(257)).acquire());
    invalid(client.lock("").acquire());
    invalid(client.lock("x".repeat(MAX_NAME_BYTES + 1)).acquire());
    for value in [-1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, (1u64 << 53) as f64, u64::MAX as f64] {
        for unit in [Unit::Seconds, Unit::Milliseconds] {
            assert_eq!(duration("wait", value, unit).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
    assert_eq!(monitor.count(), 0);
    let lease = client.lock("x".repeat(MAX_NAME_BYTES)).acquire().unwrap();
    for ttl in [Duration::ZERO, Duration::MAX] {
        assert_eq!(lease.extend(Some(ttl)).unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(lease.release().unwrap());
}

#[test]
fn o07_releasing_a_lost_lease_says_so_without_asking() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(200))).unwrap();
    let lease = client.lock("a").ttl(ms(200)).renew(false).acquire().unwrap();
    server.freeze();
    assert_eq!(lease.wait_lost(Some(ms(5000))).unwrap(), Some(LostReason::Expired));
    let begin = Instant::now();
    let error = lease.release().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(begin.elapsed() < ms(40), "no server was asked: {:?}", begin.elapsed());
}

#[test]
fn o08_the_holder_notices_by_its_own_clock() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(1000))).unwrap();
    let lease = client.lock("a").ttl(ms(1000)).acquire().unwrap();
    std::thread::sleep(ms(500));
    assert!(lease.as_async().held());
    server.freeze();
    let frozen = Instant::now();
    std::thread::scope(|scope| {
        let zero = scope.spawn(|| {
            while lease.as_async().remaining() > Duration::ZERO {
                std::thread::sleep(ms(1));
            }
            Instant::now()
        });
        assert_eq!(lease.wait_lost(Some(ms(10_000))).unwrap(), Some(LostReason::Expired));
        let lost = Instant::now();
        let zero = zero.join().unwrap();
        // The last renewal was sent before the freeze: TTL less drift from there, and 1 ms of the poll.
        assert!(zero <= frozen + ms(989 + 150), "{:?}", zero - frozen);
        assert!(lost <= zero + ms(150) && zero <= lost + ms(150), "{lost:?} {zero:?}");
        assert!(!lease.as_async().held());
    });
}

#[test]
fn o09_max_hold_ends_a_stuck_holder() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(300))).unwrap();
    let lease = client.lock("a").ttl(ms(300)).max_hold(ms(1000)).acquire().unwrap();
    let begin = Instant::now();
    let second = std::thread::spawn({
        let other = Client::with_options(server.url(), patient(ms(300))).unwrap();
        move || {
            let lease = other.lock("a").wait(ms(10_000)).acquire().unwrap();
            (lease.as_async().fence(), Instant::now())
        }
    });
    assert_eq!(lease.wait_lost(Some(ms(5000))).unwrap(), Some(LostReason::MaxHold));
    assert!(begin.elapsed() >= ms(950) && begin.elapsed() < ms(1300 + 200), "{:?}", begin.elapsed());
    assert!(!lease.as_async().held());
    let (fence, at) = second.join().unwrap();
    assert!(fence > lease.as_async().fence());
    assert!(at >= begin + ms(950) && at < begin + ms(1450 + 550), "{:?}", at - begin);
}

#[test]
fn o17_validity_counts_from_the_winning_attempt() {
    let server = Server::start();
    let holder = Client::with_options(server.url(), patient(ms(1000))).unwrap();
    let client = Client::with_options(server.url(), patient(ms(1000))).unwrap();
    let held = holder.lock("a").acquire().unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let lease = client.lock("a").ttl(ms(1000)).renew(false).wait(ms(10_000)).acquire().unwrap();
            (lease.as_async().remaining(), server.pttl("lock:{a}"))
        });
        std::thread::sleep(ms(1200));
        held.release().unwrap();
        let (remaining, pttl) = waiter.join().unwrap();
        assert!(remaining <= ms(988) && remaining > ms(700), "{remaining:?}");
        assert!(pttl > 700, "{pttl}");
    });
}

#[test]
fn o54_a_client_that_slept_past_its_ttl_knows_it_when_it_wakes() {
    let server = Server::start();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "hold", "a", "ttl=600"]);
    assert!(worker.hear().unwrap().starts_with("acquired "));
    worker.process.freeze();
    let mut monitor = server.monitor();
    std::thread::sleep(ms(1200));
    worker.say("remaining");
    let woken = boot_time();
    worker.process.thaw();
    let mut lines = [worker.hear().unwrap(), worker.hear().unwrap()];
    lines.sort();
    let [lost, remaining] = lines.each_ref().map(|line| line.split(' ').collect::<Vec<_>>());
    assert_eq!((lost[0], lost[2]), ("lost", "expired"));
    let told = Duration::from_millis(lost[1].parse().unwrap());
    assert!(told < woken + ms(50 + 100), "told after {:?}", told - woken);
    assert_eq!((remaining[0], remaining[2]), ("remaining", "0"));
    assert_eq!(about(&mut monitor, "lock:{a}"), Vec::<&Seen>::new(), "nothing is sent for it");
    worker.say("release");
    assert!(worker.hear().unwrap().ends_with(" lost"));
    assert!(worker.finish());
}
