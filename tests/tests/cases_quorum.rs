//! Field cases: majorities, failing minorities, late writes, and what errors say.

use quorlock::blocking::{Client, Lease};
use quorlock::{ClientOptions, ErrorKind};
use quorlock_tests::{Server, eventually, ms, patient};
use std::time::{Duration, Instant};

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

/// What a call gave and how long it took.
fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = call();
    (result, begin.elapsed())
}

fn try_once(client: &Client) -> quorlock::Result<Lease> {
    client.lock("a").ttl(ms(10_000)).wait(ms(0)).acquire()
}

#[test]
fn o20_a_majority_is_right_for_every_number_of_servers() {
    let servers = Server::several::<7>();
    for (n, spare) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)] {
        let asked = &servers[..n];
        let (up, down) = asked.split_at(n - spare);
        down.iter().for_each(Server::kill);
        let client = Client::with_options(urls(asked), patient(ms(2000))).unwrap();
        let lease = try_once(&client).unwrap_or_else(|error| panic!("{n} servers without {spare}: {error}"));
        assert!(lease.release().unwrap());
        eventually("the lock is free", || up.iter().all(|server| !server.exists("lock:{a}")));

        up[0].kill();
        let (result, took) = timed(|| try_once(&client));
        let error = result.err().unwrap_or_else(|| panic!("{n} servers without {}", spare + 1));
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.servers().len(), n, "{error}");
        assert!(took < ms(100 + 400), "{took:?}");
        eventually("no key is left", || up[1..].iter().all(|server| !server.exists("lock:{a}")));
        up[..1].iter().chain(down).for_each(Server::start_empty);
    }
    assert_eq!(Client::new(Vec::<String>::new()).err().unwrap().kind(), ErrorKind::Invalid);
    let twice = [servers[0].url(), servers[1].url(), servers[0].url()];
    assert_eq!(Client::new(twice).err().unwrap().kind(), ErrorKind::Invalid);
}

#[test]
fn o21_one_bad_server_is_one_missing_vote() {
    let [one, two, refusing, read_only] = Server::several::<4>();
    refusing.kill();
    read_only.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    let locked = Server::with_args(&["--requirepass", "right"]);
    let wrong_password = locked.url().replace("redis://", "redis://:wrong@");
    let bad = [refusing.url(), "redis://no-such-host.invalid:6379".to_owned(), wrong_password, read_only.url()];
    for bad in bad {
        let client = Client::with_options([one.url(), two.url(), bad.clone()], patient(ms(2000))).unwrap();
        client.ping(ms(1000)).unwrap();
        let (lease, acquiring) = timed(|| try_once(&client).unwrap_or_else(|error| panic!("{bad}: {error}")));
        let (extended, extending) = timed(|| lease.extend(None));
        let (released, releasing) = timed(|| lease.release());
        assert!(extended.is_ok() && released.unwrap(), "{bad}");
        for took in [acquiring, extending, releasing] {
            assert!(took < ms(70 + 250), "{bad}: {took:?}");
        }
        eventually("the lock is free", || [&one, &two].iter().all(|server| !server.exists("lock:{a}")));
    }
}

#[test]
fn o22_the_time_of_the_call_is_taken_off_the_validity() {
    let server = Server::start();
    let proxy = server.proxy();
    let options = ClientOptions { server_timeout: Some(ms(2000)), ..Default::default() };
    let client = Client::with_options(proxy.url(), options).unwrap();
    client.ping(ms(5000)).unwrap();
    proxy.delay(ms(100));
    let lease = try_once(&client).unwrap();
    let remaining = lease.as_async().remaining();
    assert!(remaining <= ms(10_000 - 200 - 102), "{remaining:?}");
    let (extended, took) = timed(|| lease.extend(None).unwrap());
    assert!(took >= ms(200) && extended <= ms(10_000 - 200 - 102), "{extended:?}");
    // Too late to be worth anything: the answer comes when the shortest useful TTL is over.
    proxy.delay(ms(1000));
    let options = ClientOptions { server_timeout: Some(ms(1000)), drift: Some(0.5), ..Default::default() };
    let slow = Client::with_options(proxy.url(), options).unwrap();
    let error = slow.lock("b").ttl(ms(2004)).wait(ms(0)).acquire().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    proxy.pass();
    eventually("its key is gone", || !server.exists("lock:{b}"));
}

#[test]
fn o23_a_restarted_server_gets_the_lock_back_from_a_renewal() {
    let servers = Server::several::<3>();
    let client = Client::with_options(urls(&servers), patient(ms(900))).unwrap();
    let lease = client.lock("a").ttl(ms(900)).acquire().unwrap();
    // A majority was enough; the slowest may get it a little later.
    eventually("all have it", || servers.iter().all(|server| server.exists("lock:{a}")));
    let token = servers[0].get("lock:{a}");
    for restarted in [&servers[2], &servers[1], &servers[0]] {
        restarted.kill();
        restarted.start_empty();
        eventually("the lock is back", || restarted.get("lock:{a}") == token);
    }
    assert!(lease.as_async().held());
    assert_eq!(lease.as_async().lost_reason(), None);
    servers[2].cmd(&["SET", "lock:{a}", "theirs", "PX", "60000"]);
    assert_eq!(lease.wait_lost(Some(ms(900))).unwrap(), None);
    assert_eq!(servers[2].get("lock:{a}").as_deref(), Some("theirs"), "another's token is left alone");
    assert!(lease.release().unwrap());
    assert_eq!(servers[2].get("lock:{a}").as_deref(), Some("theirs"));
}

#[test]
fn o24_a_failed_attempt_leaves_no_minority_behind() {
    let servers = Server::several::<5>();
    for server in &servers[..3] {
        server.cmd(&["SET", "lock:{a}", "theirs", "PX", "60000"]);
    }
    let client = Client::with_options(urls(&servers), patient(ms(2000))).unwrap();
    assert_eq!(try_once(&client).err().unwrap().kind(), ErrorKind::Busy);
    let (_, took) =
        timed(|| eventually("nothing is left", || servers[3..].iter().all(|server| !server.exists("lock:{a}"))));
    assert!(took < ms(1000), "{took:?}");

    servers[4].freeze();
    assert_eq!(try_once(&client).err().unwrap().kind(), ErrorKind::Busy);
    std::thread::sleep(ms(300));
    servers[4].thaw();
    // The write may have been given up before it went out; an answer to a PING has passed it if not.
    eventually("the thawed server answers", || client.ping(ms(1000)).unwrap()[4].answer.is_ok());
    let (_, took) =
        timed(|| eventually("nothing is left", || servers[3..].iter().all(|server| !server.exists("lock:{a}"))));
    assert!(took < ms(2000), "{took:?}");
    assert!(servers[..3].iter().all(|server| server.get("lock:{a}").as_deref() == Some("theirs")));
}

#[test]
fn o24_a_release_is_not_ahead_of_the_acquire_that_it_undoes() {
    let servers = Server::several::<3>();
    let slow = servers[2].proxy();
    let client = Client::with_options([servers[0].url(), servers[1].url(), slow.url()], patient(ms(2000))).unwrap();
    client.ping(ms(1000)).unwrap();
    // The slow server knows the release but not the acquire, which it must be sent twice.
    servers[2].cmd(&["SCRIPT", "LOAD", include_str!("../../core/src/scripts/release.lua")]);
    slow.delay(ms(15));
    let lease = try_once(&client).unwrap();
    assert!(lease.release().unwrap());
    let mut monitor = servers[2].monitor();
    // An answer to a PING has passed everything that was sent before, both ways; so two have passed every repetition.
    for _ in 0..2 {
        eventually("the slow server answers", || client.ping(ms(1000)).unwrap()[2].answer.is_ok());
    }
    assert!(!servers[2].exists("lock:{a}"), "left behind: {:?}", monitor.seen());
}

#[test]
fn o26_silent_servers_cost_one_time_limit_at_most() {
    let servers = Server::several::<5>();
    let client = Client::with_options(urls(&servers), patient(ms(400))).unwrap();
    client.ping(ms(1000)).unwrap();
    servers[3..].iter().for_each(Server::freeze);
    let mut times = Vec::new();
    for _ in 0..100 {
        let (lease, took) = timed(|| client.lock("a").wait(ms(1000)).acquire().unwrap());
        times.push(took);
        times.push(timed(|| lease.extend(None).unwrap()).1);
        times.push(timed(|| assert!(lease.release().unwrap())).1);
    }
    times.sort();
    assert!(times[times.len() / 2] <= ms(20), "the half takes {:?}", times[times.len() / 2]);
    assert!(times[times.len() * 9 / 10] <= ms(70), "nine of ten take {:?}", times[times.len() * 9 / 10]);
    assert!(times[times.len() - 1] < ms(1000), "the worst takes {:?}", times[times.len() - 1]);
    servers[2].freeze();
    for _ in 0..5 {
        let (result, took) = timed(|| try_once(&client));
        let error = result.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(took < ms(200 + 400), "{took:?}");
    }
}

#[test]
fn o27_late_write_is_undone() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(400))).unwrap();
    // The server knows the script: it is the first command that will be late.
    assert!(try_once(&client).unwrap().release().unwrap());
    server.cmd(&["FLUSHALL"]);
    server.freeze();
    let (result, took) = timed(|| client.lock("a").ttl(ms(60_000)).wait(ms(0)).acquire());
    let error = result.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(took >= ms(195) && took < ms(200 + 400), "{took:?}");
    std::thread::sleep(ms(300));
    server.thaw();
    eventually("the late write has happened", || server.exists("lock:{a}:fence"));
    let (_, took) = timed(|| eventually("it is undone", || !server.exists("lock:{a}")));
    assert!(took < ms(2000), "{took:?}");
}

#[test]
fn o27_nothing_is_queued_for_a_server_that_is_down() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    client.ping(ms(1000)).unwrap();
    server.kill();
    assert_eq!(try_once(&client).err().unwrap().kind(), ErrorKind::Unavailable);
    server.start_empty();
    let mut monitor = server.monitor();
    eventually("the client is connected again", || client.ping(ms(200)).unwrap()[0].answer.is_ok());
    // Only the client's registration, which each new connection brings.
    let set = monitor.seen().iter().filter(|seen| seen.args[0].eq_ignore_ascii_case("SET"));
    assert!(set.into_iter().all(|seen| seen.args[1].starts_with("lock:client:")));
    assert_eq!(server.keys("*{a}*"), [""; 0]);
}

#[test]
fn o62_the_error_says_what_each_server_said() {
    let [refusing, held] = Server::several::<2>();
    let locked = Server::with_args(&["--requirepass", "right-s3cret"]);
    refusing.kill();
    held.cmd(&["SET", "lock:{a}", "their-token", "PX", "60000"]);
    let with_password = locked.url().replace("redis://", "redis://user:wrong-s3cret@");
    let client = Client::with_options([refusing.url(), with_password, held.url()], patient(ms(2000))).unwrap();
    let (result, took) = timed(|| client.lock("a").wait(ms(500)).acquire());
    let error = result.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.name(), Some("a"));
    assert!(error.attempts() >= 1);
    assert!(error.elapsed() <= took && error.elapsed() * 5 >= took * 4, "{:?} of {took:?}", error.elapsed());
    let reports: Vec<_> =
        error.servers().iter().map(|report| (report.address.as_str(), report.cause.as_str())).collect();
    let addresses = [&refusing, &locked, &held].map(|server| server.address().to_string());
    assert_eq!(reports.iter().map(|report| report.0).collect::<Vec<_>>(), addresses);
    for (report, word) in reports.iter().zip(["refused", "wrong user or password", "held"]) {
        assert!(report.1.contains(word), "{report:?}");
        assert!(error.to_string().contains(report.0) && error.to_string().contains(report.1), "{error}");
    }
    let shown = format!("{error} {error:?}");
    for secret in ["s3cret", "their-token"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
