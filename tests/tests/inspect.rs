//! What people see: who holds a lock, taking it away, counters.

use quorlock::blocking::{Client, Lease};
use quorlock::{ClientOptions, ErrorKind, Histogram, Holder, Losses, LostReason, Outcome, Stats, log};
use quorlock_tests::{Server, eventually, left, ms, patient, waiting};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

fn client(servers: &[Server]) -> Client {
    let urls: Vec<_> = servers.iter().map(Server::url).collect();
    Client::with_options(urls, patient(ms(2000))).unwrap()
}

fn hold(client: &Client, name: &str) -> Lease {
    client.lock(name).ttl(ms(20_000)).wait(ms(0)).acquire().unwrap()
}

/// Waits until every server is reached, again.
fn reach_all(client: &Client) {
    eventually("all are reached", || client.ping(ms(5000)).unwrap().iter().all(|server| server.answer.is_ok()));
}

/// The keys at which clients are registered.
fn registrations(server: &Server) -> Vec<String> {
    server.keys("lock:client:*")
}

#[test]
fn inspect_tells_who_holds_a_lock() {
    for n in [1, 3] {
        let servers: Vec<_> = (0..n).map(|_| Server::start()).collect();
        let [looking, holding] = std::array::from_fn(|_| client(&servers));
        let before = SystemTime::now();
        let nobody = looking.inspect("a").unwrap();
        assert!(!nobody.held && nobody.remaining.is_zero() && nobody.holder.is_none(), "{nobody:?}");
        assert_eq!((nobody.waiters, nobody.fence), (0, None));

        let lease = hold(&holding, "a");
        let info = looking.inspect("a").unwrap();
        assert!(info.held && info.remaining > ms(10_000) && info.remaining <= ms(20_000), "{info:?}");
        assert_eq!((info.waiters, info.fence), (0, Some(lease.fence())));
        let holder = info.holder.clone().unwrap();
        assert_eq!(holder.pid, Some(std::process::id()));
        assert_eq!(holder.language.as_deref(), Some("rust"));
        assert_eq!(holder.version.as_deref(), Some(quorlock::VERSION));
        assert_eq!(
            holder.host.as_deref().unwrap(),
            std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim()
        );
        assert_eq!(holder.label, None);
        let since = holder.since.unwrap();
        assert!(since + ms(1) > before && since <= SystemTime::now(), "{since:?}");

        // The token is a secret.
        // On a quorum any one of the servers may be late.
        let token = servers.iter().find_map(|server| server.get("lock:{a}")).unwrap();
        assert!(!format!("{info:?}").contains(token.split('.').next_back().unwrap()), "{info:?}");

        assert!(lease.release().unwrap());
        let released = looking.inspect("a").unwrap();
        assert!(!released.held && released.remaining.is_zero() && released.holder.is_none(), "{released:?}");
        assert_eq!(released.fence, info.fence, "it is known for a day");
    }
}

#[test]
fn inspect_tells_the_label_and_how_many_wait() {
    for n in [1, 3] {
        let servers: Vec<_> = (0..n).map(|_| Server::start()).collect();
        let [looking, holding] = std::array::from_fn(|_| client(&servers));
        let lease = holding.lock("a").label("nightly ✓").acquire().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let lock = looking.lock("a").wait(ms(20_000));
                std::thread::spawn(move || lock.acquire().unwrap().release().unwrap())
            })
            .collect();
        eventually("they wait", || waiting(&servers[0], "a") == 3);
        let info = looking.inspect("a").unwrap();
        assert_eq!(info.waiters, 3);
        assert_eq!(info.holder.unwrap().label.as_deref(), Some("nightly ✓"));
        assert!(lease.release().unwrap());
        assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        eventually("nobody waits", || !looking.inspect("a").unwrap().held);
        assert_eq!(looking.inspect("a").unwrap().waiters, 0);
    }
}

#[test]
fn inspect_knows_no_more_than_there_is() {
    let server = Server::start();
    let options = || ClientOptions { exact_keys: Some(true), ..patient(ms(2000)) };
    let client = Client::with_options(server.url(), options()).unwrap();
    // Other libraries' locks: with a TTL and without, and one whose token looks a little like ours.
    for (token, ttl) in [("secret-of-another", Some("9000")), ("secret-of-another", None), (&"a".repeat(73), None)] {
        server.cmd(&["SET", "report", token]);
        if let Some(ttl) = ttl {
            server.cmd(&["PEXPIRE", "report", ttl]);
        }
        let info = client.inspect("report").unwrap();
        assert!(info.held, "{info:?}");
        assert_eq!(info.holder, Some(Holder::default()), "its holder is unknown");
        assert_eq!(info.fence, None);
        match ttl {
            Some(_) => assert!(info.remaining > ms(5000) && info.remaining <= ms(9000), "{info:?}"),
            None => assert_eq!(info.remaining, quorlock::MAX_DURATION),
        }
        assert!(!format!("{info:?}").contains(token), "{info:?}");
    }
    // A client of ours whose registration is gone.
    server.cmd(&["DEL", "report"]);
    let other = Client::with_options(server.url(), ClientOptions { label: Some("known".into()), ..options() }).unwrap();
    let lease = hold(&other, "report");
    for key in registrations(&server) {
        server.cmd(&["DEL", &key]);
    }
    let holder = client.inspect("report").unwrap().holder.unwrap();
    assert_eq!(holder, Holder { label: Some("known".into()), ..Holder::default() });
    assert!(lease.release().unwrap());
}

#[test]
fn inspect_and_break_refuse_what_is_no_lock_and_bad_names() {
    for n in [1, 3] {
        let servers: Vec<_> = (0..n).map(|_| Server::start()).collect();
        let client = client(&servers);
        for (key, what) in [("lock:{a}", "lock"), ("lock:{a}:fence", "fence"), ("lock:{a}:queue", "queue")] {
            for server in &servers {
                server.cmd(&["DEL", "lock:{a}", "lock:{a}:fence", "lock:{a}:queue"]);
                server.cmd(&["HSET", key, "field", "value"]);
            }
            let mut errors = vec![client.inspect("a").unwrap_err()];
            // Breaking does not ask who waits before there is something to hand over.
            if what != "queue" {
                errors.push(client.break_lock("a").unwrap_err());
            }
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
                let text = error.to_string();
                assert!(text.contains(key) && text.contains(&format!("a hash, not a {what}")), "{text}");
                assert_eq!((error.name(), error.servers().len()), (Some("a"), n));
            }
            assert!(servers.iter().all(|server| server.cmd(&["HGET", key, "field"]) == "value"));
        }
        let mut monitor = servers[0].monitor();
        for name in ["", "}a", "{a}:fence", &"x".repeat(1025)] {
            assert_eq!(client.inspect(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
            assert_eq!(client.break_lock(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
        assert_eq!(monitor.count(), 0);
        client.close(ms(0)).unwrap();
        assert_eq!(client.inspect("a").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(client.break_lock("a").unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_quorum_is_inspected_by_majority() {
    let servers = Server::several::<3>();
    let [looking, holding] = std::array::from_fn(|_| client(&servers));
    let lease = hold(&holding, "a");
    eventually("all hold it", || servers.iter().all(|server| server.exists("lock:{a}")));
    let is_whole = |holder: Holder| holder.pid == Some(std::process::id());

    // One server short, then split: two say this owner, one another.
    servers[0].kill();
    let info = looking.inspect("a").unwrap();
    assert!(info.held && is_whole(info.holder.unwrap()));
    assert_eq!(info.fence, Some(lease.fence()));
    servers[0].start_empty();
    servers[0].cmd(&["SET", "lock:{a}", "another", "PX", "20000"]);
    reach_all(&looking);
    let info = looking.inspect("a").unwrap();
    assert!(info.held && is_whole(info.holder.clone().unwrap()), "{info:?}");

    // What a majority keeps: 20 s, 7 s and nothing is 7 s.
    servers[1].cmd(&["PEXPIRE", "lock:{a}", "7000"]);
    let info = looking.inspect("a").unwrap();
    assert!(info.remaining > ms(2000) && info.remaining <= ms(7000), "{info:?}");

    // Three owners, and one on one server only: nobody holds it.
    servers[1].cmd(&["SET", "lock:{a}", "a third", "PX", "20000"]);
    let info = looking.inspect("a").unwrap();
    assert!(!info.held && info.holder.is_none() && info.remaining.is_zero(), "{info:?}");
    assert_eq!(info.fence, Some(lease.fence()), "the largest");
    servers[0].cmd(&["DEL", "lock:{a}"]);
    servers[1].cmd(&["DEL", "lock:{a}"]);
    assert!(!looking.inspect("a").unwrap().held);

    servers[0].kill();
    servers[1].kill();
    let error = looking.inspect("a").unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Unavailable, Some("a")), "{error}");
    assert_eq!(error.servers().len(), 3);
}

#[test]
fn a_client_is_registered_while_it_is_open() {
    let servers = Server::several::<2>();
    let options = ClientOptions { language: Some("cobol"), prefix: Some("my:".into()), ..patient(ms(2000)) };
    let client = Client::with_options(servers.each_ref().map(Server::url), options).unwrap();
    assert_eq!(servers[0].keys("*"), [""; 0], "it is not connected yet");
    let lease = hold(&client, "a");
    let uuid = servers[0].get("my:{a}").unwrap().split_once('.').unwrap().0.to_owned();
    let key = format!("my:client:{uuid}");
    for server in &servers {
        let text = server.get(&key).unwrap();
        let lines: Vec<_> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
        assert_eq!(
            lines.iter().map(|line| line.0).collect::<Vec<_>>(),
            ["host", "pid", "language", "version", "since"]
        );
        assert_eq!((lines[1].1, lines[2].1), (std::process::id().to_string().as_str(), "cobol"));
        assert_eq!(lines[3].1, quorlock::VERSION);
        let since = Duration::from_millis(lines[4].1.parse().unwrap());
        assert!(since <= SystemTime::UNIX_EPOCH.elapsed().unwrap());
        let day = 24 * 3600 * 1000;
        assert!((day..=day + day / 24).contains(&server.pttl(&key)), "{}", server.pttl(&key));
        assert!(!text.contains(server.get("my:{a}").unwrap().split_once('.').unwrap().1));

        // Written on each new connection, and not with each call.
        server.cmd(&["DEL", &key]);
    }
    lease.confirm().unwrap();
    assert!(!servers[0].exists(&key));
    for server in &servers {
        assert!(server.kill_clients() >= 1);
        eventually("it is registered again", || lease.confirm().is_ok() && server.exists(&key));
    }
    assert!(lease.release().unwrap());
    client.close(ms(0)).unwrap();
    for server in &servers {
        assert_eq!(server.keys("*"), ["my:{a}:fence"]);
    }
}

#[test]
fn a_client_that_is_dropped_is_no_longer_registered() {
    let server = Server::start();
    let client = client(std::slice::from_ref(&server));
    assert!(hold(&client, "a").release().unwrap());
    assert_eq!(registrations(&server).len(), 1);
    drop(client);
    eventually("it has left", || registrations(&server).is_empty());
}

#[test]
fn a_client_without_the_right_to_register_works() {
    let server = Server::start();
    // The keys of locks begin with lock:{ only.
    server.cmd(&["ACL", "SETUSER", "app", "on", ">secret", "~lock:{*", "&lock:*", "+@all"]);
    let url = server.url().replace("redis://", "redis://app:secret@");
    let [a, b] = std::array::from_fn(|_| Client::with_options(&url, patient(ms(2000))).unwrap());
    let lease = a.lock("a").label("kept").acquire().unwrap();
    let info = b.inspect("a").unwrap();
    assert!(info.held);
    assert_eq!(info.holder, Some(Holder { label: Some("kept".into()), ..Holder::default() }));
    assert!(lease.release().unwrap());
    assert_eq!(registrations(&server), [""; 0]);
    a.close(ms(0)).unwrap();
}

#[test]
fn a_broken_lock_is_lost_and_its_fence_is_between() {
    for n in [1, 3] {
        let servers: Vec<_> = (0..n).map(|_| Server::start()).collect();
        let [breaking, holding] = std::array::from_fn(|_| client(&servers));
        if n == 3 {
            servers[2].kill();
        }
        let first = breaking.break_lock("a").unwrap();
        // The fence of a lock that nobody holds rises too.
        let lease = holding.lock("a").ttl(ms(6000)).acquire().unwrap();
        assert!(lease.fence() > first);
        let broken = breaking.break_lock("a").unwrap();
        assert!(broken > lease.fence(), "{broken} {}", lease.fence());
        assert!(!breaking.inspect("a").unwrap().held);
        assert_eq!(breaking.inspect("a").unwrap().fence, Some(broken));
        let next = hold(&breaking, "a");
        assert!(next.fence() > broken, "{} {broken}", next.fence());
        // It is told by its renewal, which comes after 2 s.
        assert_eq!(lease.wait_lost(Some(ms(5500))).unwrap(), Some(LostReason::Taken));
        assert_eq!(lease.release().unwrap_err().kind(), ErrorKind::Lost);
        next.confirm().unwrap();
        assert!(next.release().unwrap());
        assert!(left(&servers[0]).is_empty(), "{:?}", left(&servers[0]));
    }
}

#[test]
fn a_broken_lock_is_handed_to_the_first_waiter() {
    for n in [1, 3] {
        let servers: Vec<_> = (0..n).map(|_| Server::start()).collect();
        let [holding, waiting_client] = std::array::from_fn(|_| client(&servers));
        let lease = holding.lock("a").ttl(ms(20_000)).label("old").acquire().unwrap();
        let lock = waiting_client.lock("a").wait(ms(15_000));
        let waiter = std::thread::spawn(move || lock.acquire().unwrap());
        eventually("it waits", || waiting(&servers[0], "a") == 1);
        let broken = holding.break_lock("a").unwrap();
        let next = waiter.join().unwrap();
        assert!(next.fence() > broken && broken > lease.fence());
        assert_eq!(lease.confirm().unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(lease.as_async().lost_reason(), Some(LostReason::Taken));
        assert_eq!(holding.inspect("a").unwrap().holder.unwrap().label, None, "the label went with the holder");
        next.confirm().unwrap();
        assert!(next.release().unwrap());
    }
}

#[test]
fn a_broken_lock_on_a_quorum_has_one_fence_whatever_the_servers_had() {
    let servers = Server::several::<3>();
    let client = client(&servers);
    let day_ahead = |hours: u64| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        (now + Duration::from_secs(hours * 3600)).as_micros() as u64
    };
    let fence = |server: &Server| server.get("lock:{a}:fence").map_or(0, |fence| fence.parse::<u64>().unwrap());
    // A little ahead: the others are lifted to it.
    let ahead = day_ahead(0) + 600_000_000;
    servers[1].cmd(&["SET", "lock:{a}:fence", &ahead.to_string()]);
    servers[0].kill();
    let broken = client.break_lock("a").unwrap();
    assert_eq!(broken, ahead + 1);
    assert!(
        fence(&servers[1]) >= broken && fence(&servers[2]) >= broken,
        "{} {}",
        fence(&servers[1]),
        fence(&servers[2])
    );
    assert!(servers[2].pttl("lock:{a}:fence") > 24 * 3600 * 1000);
    assert!(hold(&client, "a").fence() > broken);

    // Two hours ahead: a broken clock, which must not poison the others.
    servers[0].start_empty();
    reach_all(&client);
    for server in &servers {
        server.cmd(&["DEL", "lock:{b}", "lock:{b}:fence"]);
    }
    let far = day_ahead(2);
    servers[1].cmd(&["SET", "lock:{b}:fence", &far.to_string()]);
    let broken = client.break_lock("b").unwrap();
    assert!(broken < far, "{broken}");
    for server in [&servers[0], &servers[2]] {
        let stored = server.get("lock:{b}:fence").unwrap().parse::<u64>().unwrap();
        assert!(stored >= broken && stored < far, "{stored}");
    }

    servers[0].kill();
    servers[1].kill();
    let error = client.break_lock("a").unwrap_err();
    assert_eq!((error.kind(), error.name()), (ErrorKind::Unavailable, Some("a")), "{error}");
    assert_eq!(error.outcome(), Some(Outcome::Unknown), "one server has done it");
}

#[test]
fn a_break_does_not_outdate_the_waiter_that_it_serves() {
    let servers = Server::several::<3>();
    let holding = client(&servers);
    let lease = hold(&holding, "a");
    eventually("all hold it", || servers.iter().all(|server| server.exists("lock:{a}")));
    // The waiter is far from the one server that has given out larger fences, so the others may serve it first.
    let far = servers[0].proxy();
    let urls = [far.url(), servers[1].url(), servers[2].url()];
    let waiter = Client::with_options(urls, patient(ms(2000))).unwrap();
    let lock = waiter.lock("a").ttl(ms(20_000)).wait(ms(15_000));
    let waiter = std::thread::spawn(move || lock.acquire().unwrap());
    eventually("it waits", || servers.iter().all(|server| waiting(server, "a") == 1));
    far.delay(ms(300));
    let ahead = lease.fence() + 600_000_000;
    servers[0].cmd(&["SET", "lock:{a}:fence", &ahead.to_string()]);
    // Whoever breaks it is far from all, so the waiter is served long before the answers are here.
    let proxies = servers.each_ref().map(Server::proxy);
    let breaking = Client::with_options(proxies.each_ref().map(|proxy| proxy.url()), patient(ms(2000))).unwrap();
    reach_all(&breaking);
    proxies.iter().for_each(|proxy| proxy.delay(ms(100)));
    let broken = breaking.break_lock("a").unwrap();
    assert!(broken > ahead);
    let next = waiter.join().unwrap();
    assert!(next.fence() > broken, "{} {broken}", next.fence());
    next.confirm().unwrap();
    assert_eq!(lease.confirm().unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.release().unwrap());
}

#[test]
fn a_break_that_arrives_twice_leaves_the_next_holder_alone() {
    let server = Server::start();
    let mut monitor = server.monitor();
    let [breaking, holding] = std::array::from_fn(|_| client(std::slice::from_ref(&server)));
    let lease = hold(&holding, "a");
    let fence = breaking.break_lock("a").unwrap().to_string();
    let next = hold(&holding, "a");
    let is_last_step = |seen: &&quorlock_tests::Seen| seen.args[0].starts_with("EVAL") && seen.args.contains(&fence);
    let last_step = monitor.seen().iter().rfind(is_last_step).expect("it names the fence").args.clone();
    assert_eq!(server.cmd(&last_step), 1);
    next.confirm().unwrap();
    assert_eq!(lease.confirm().unwrap_err().kind(), ErrorKind::Lost);
    assert!(next.release().unwrap());
}

#[test]
fn break_lock_says_when_there_is_no_fence_left_and_works_without_memory() {
    let server = Server::start();
    let client = client(std::slice::from_ref(&server));
    let held = hold(&client, "a");
    let label = client.lock("c").label("deleted").acquire().unwrap();
    let last = ((1u64 << 53) - 1).to_string();
    server.cmd(&["SET", "lock:{b}:fence", &last]);
    server.cmd(&["SET", "lock:{b}", "another"]);
    let error = client.break_lock("b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("fence exhausted") && error.to_string().contains("lock:{b}:fence"), "{error}");
    assert!(server.exists("lock:{b}"), "nothing was taken");

    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    for (name, lease) in [("a", held), ("c", label)] {
        assert!(client.break_lock(name).unwrap() > lease.fence());
        assert!(!client.inspect(name).unwrap().held);
        assert_eq!(lease.confirm().unwrap_err().kind(), ErrorKind::Lost);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o71_contention_can_be_seen_without_a_command() {
    let server = Server::start();
    let [holding, crowd] =
        std::array::from_fn(|_| quorlock::Client::with_options(server.url(), patient(ms(20_000))).unwrap());
    let nothing = crowd.stats();
    assert_eq!(nothing.servers.len(), 1);
    assert_eq!(format!("redis://{}", nothing.servers[0].address), server.url());
    assert_eq!(nothing, Stats { servers: nothing.servers.clone(), ..Stats::default() }, "it has not been used");

    let held = holding.lock("a").acquire().await.unwrap();
    let tasks: Vec<_> = (0..64)
        .map(|i| {
            // A quarter of them give up, or are given up.
            let wait = if i % 8 == 0 { ms(150) } else { ms(60_000) };
            let lock = crowd.lock("a").wait(wait);
            tokio::spawn(async move { lock.acquire().await?.release().await })
        })
        .collect();
    eventually("they wait", || waiting(&server, "a") == 56 && crowd.stats().busy == 8);
    assert_eq!((crowd.stats().waiting, crowd.stats().holding), (56, 0));
    assert_eq!((holding.stats().waiting, holding.stats().holding), (0, 1));
    // Now all of them will have waited for so long.
    tokio::time::sleep(ms(150)).await;
    tasks.iter().skip(1).step_by(8).for_each(|task| task.abort());
    eventually("they are given up", || crowd.stats().cancelled == 8);
    assert_eq!(crowd.stats().waiting, 48);
    assert!(held.release().await.unwrap());
    let mut ends = [0, 0, 0];
    for task in tasks {
        match task.await {
            Ok(Ok(released)) => ends[usize::from(!released)] += 1,
            Ok(Err(error)) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            Err(error) => ends[2] += usize::from(error.is_cancelled()),
        }
    }
    assert_eq!(ends, [48, 0, 8]);

    let stats = crowd.stats();
    assert_eq!((stats.waiting, stats.holding), (0, 0));
    assert_eq!((stats.acquired, stats.busy, stats.cancelled), (48, 8, 8));
    assert_eq!((stats.unavailable, stats.refused, stats.abandoned, stats.lost.total()), (0, 0, 0, 0));
    assert_eq!((stats.released, stats.hold.count, stats.wait.count), (48, 48, 64));
    // Whoever was in the queue had asked for its place.
    assert!(stats.attempts >= 56 && stats.servers[0].calls >= stats.attempts, "{stats:?}");
    for histogram in [&stats.wait, &stats.hold] {
        assert_eq!(histogram.counts.iter().sum::<u64>(), histogram.count);
    }
    let at_least_100: u64 = stats.wait.counts[6..].iter().sum();
    assert_eq!(Histogram::BOUNDS_MS[5..7], [50, 100]);
    assert!(at_least_100 == 64 && stats.wait.sum_ms >= 64 * 150, "{:?}", stats.wait);

    // What is undone in the background comes to an end.
    eventually("nothing is left", || left(&server).is_empty());
    let mut monitor = server.monitor();
    for _ in 0..100 {
        assert_eq!(crowd.stats(), stats);
    }
    assert_eq!(monitor.count(), 0);
    crowd.close(ms(0)).await.unwrap();
    assert_eq!(crowd.stats(), stats, "it can be read after the end");
}

#[test]
fn o71_every_end_of_a_lease_is_counted() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(1000))).unwrap();
    let lost = |lease: &Lease| lease.wait_lost(Some(ms(10_000))).unwrap();

    let expired = client.lock("expired").ttl(ms(1000)).renew(false).acquire().unwrap();
    let limited = client.lock("limited").ttl(ms(20_000)).max_hold(ms(1000)).acquire().unwrap();
    assert_eq!(lost(&expired), Some(LostReason::Expired));
    assert_eq!(lost(&limited), Some(LostReason::MaxHold));
    let taken = hold(&client, "taken");
    client.break_lock("taken").unwrap();
    assert_eq!(taken.confirm().unwrap_err().kind(), ErrorKind::Lost);
    drop(hold(&client, "dropped"));
    let abandoned = hold(&client, "abandoned");
    abandoned.as_async().abandon();
    let released = hold(&client, "released");
    assert!(client.lock("released").try_acquire().unwrap().is_none());
    assert!(released.release().unwrap() && !released.release().unwrap());
    server.cmd(&["HSET", "lock:{wrong}", "field", "value"]);
    assert_eq!(client.lock("wrong").acquire().err().unwrap().kind(), ErrorKind::Refused);
    let held = hold(&client, "held");
    assert_eq!(client.stats().holding, 1);
    let failures = client.stats().servers[0].failures;
    server.kill();
    assert_eq!(client.lock("x").wait(ms(0)).acquire().err().unwrap().kind(), ErrorKind::Unavailable);
    assert!(client.stats().servers[0].failures > failures);
    client.close(ms(0)).unwrap();
    assert_eq!(lost(&held), Some(LostReason::Closed));
    assert_eq!(client.lock("y").acquire().err().unwrap().kind(), ErrorKind::Closed);

    let stats = client.stats();
    assert_eq!(stats.lost, Losses { expired: 1, taken: 1, max_hold: 1, closed: 1 });
    assert_eq!((stats.released, stats.abandoned, stats.holding, stats.hold.count), (2, 1, 0, 7));
    assert_eq!((stats.acquired, stats.busy, stats.refused, stats.unavailable, stats.cancelled), (7, 1, 1, 1, 0));
    assert_eq!((stats.attempts, stats.wait.count), (10, 10));
    // Two were held for a second, of which taking them may have cost at most a half.
    assert!(stats.hold.counts[8..].iter().sum::<u64>() >= 2 && stats.hold.sum_ms >= 900, "{:?}", stats.hold);
}

#[test]
fn what_happens_to_a_lock_is_an_event() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let hook = move |event: &log::Event| {
        if event.fields.iter().any(|(key, value)| *key == "name" && value == "evented") {
            seen.lock().unwrap().push(event.clone());
        }
    };
    log::set_hook(log::Level::Debug, Some(Box::new(hook)));
    let server = Server::start();
    let client = client(std::slice::from_ref(&server));
    assert!(hold(&client, "evented").release().unwrap());
    let lease = hold(&client, "evented");
    let broken = client.break_lock("evented").unwrap();
    lease.confirm().unwrap_err();
    log::set_hook(log::Level::Debug, None);

    let events = events.lock().unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.level, event.message.as_str())).collect();
    use log::Level::{Debug, Warn};
    assert_eq!(
        told,
        [(Debug, "acquired"), (Debug, "released"), (Debug, "acquired"), (Warn, "lock broken"), (Warn, "lease lost")]
    );
    let field = |i: usize, key| events[i].fields.iter().find(|field| field.0 == key).map(|field| field.1.clone());
    let number = |i, key| field(i, key).unwrap().parse::<u64>().unwrap();
    assert!(number(0, "waited_ms") < 5000 && number(1, "held_ms") < 5000);
    assert_eq!((number(2, "fence"), number(3, "fence")), (lease.fence(), broken));
}

#[test]
fn the_rights_in_the_readme_are_enough() {
    let readme = include_str!("../../README.md");
    let rights = readme.lines().find(|line| line.starts_with("ACL SETUSER ")).unwrap();
    let servers = Server::several::<3>();
    for server in &servers {
        server.cmd(&rights.split(' ').collect::<Vec<_>>());
        server.cmd(&["ACL", "LOG", "RESET"]);
    }
    for n in [1, 3] {
        let urls: Vec<_> = servers[..n].iter().map(|s| s.url().replace("redis://", "redis://locks:secret@")).collect();
        let [a, b] = std::array::from_fn(|_| Client::with_options(&urls[..], patient(ms(2000))).unwrap());
        let lease = a.lock("a").label("rights").acquire().unwrap();
        let lock = b.lock("a").label("rights").wait(ms(10_000));
        let waiter = std::thread::spawn(move || lock.acquire().unwrap());
        eventually("it waits", || waiting(&servers[0], "a") == 1);
        let info = a.inspect("a").unwrap();
        assert_eq!((info.waiters, info.holder.unwrap().pid), (1, Some(std::process::id())));
        let broken = a.break_lock("a").unwrap();
        let next = waiter.join().unwrap();
        assert!(lease.fence() < broken && broken < next.fence());
        next.extend(None).unwrap();
        next.confirm().unwrap();
        assert!(next.release().unwrap());
        a.close(ms(0)).unwrap();
        b.close(ms(0)).unwrap();
    }
    for server in &servers {
        assert_eq!(server.cmd(&["ACL", "LOG"]).as_array().map(Vec::len), Some(0), "{}", server.cmd(&["ACL", "LOG"]));
        assert!(registrations(server).is_empty());
    }
}
