//! Field cases: many locks, many waiters, many processes.

use quorlock::blocking::Client;
use quorlock::{ClientOptions, ErrorKind, Wait};
use quorlock_tests::{Dialogue, Server, Source, eventually, left, ms, patient, waiting};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");

/// A crowd of waiters in a process of its own, connected and ready to begin.
fn crowd(urls: &str, name: &str, count: usize, options: &[&str]) -> Dialogue {
    let count = count.to_string();
    let mut worker = Dialogue::start(WORKER, &[&[urls, "crowd", name, &count], options].concat());
    assert!(worker.hear().unwrap().starts_with("ready "));
    worker
}

/// Who held the lock from when to when (microseconds since boot), in order of their fences.
fn bodies(workers: &mut [Dialogue], each: usize) -> Vec<(u64, u64, u64)> {
    let mut bodies = Vec::new();
    for worker in workers {
        for _ in 0..each {
            let line = worker.hear().expect("it tells of each");
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(words[0], "served", "{line}");
            let [fence, from, to] = [2, 3, 4].map(|word| words[word].parse().unwrap());
            bodies.push((fence, from, to));
        }
    }
    bodies.sort_unstable();
    bodies
}

fn assert_one_at_a_time(bodies: &[(u64, u64, u64)]) {
    for pair in bodies.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[0].2 <= pair[1].1, "two at once: {pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_a_stuck_server_stops_no_renewal_of_other_locks() {
    let [good, stuck] = Server::several::<2>();
    let [client, other] =
        [&good, &stuck].map(|server| quorlock::Client::with_options(server.url(), patient(ms(1000))).unwrap());
    let _stuck_lease = other.lock("b").ttl(ms(1000)).acquire().await.unwrap();
    let mut leases = Vec::new();
    for number in 0..200 {
        leases.push(client.lock(format!("a{number}")).ttl(ms(1000)).acquire().await.unwrap());
    }
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|thread| {
        let name = std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()?;
        name.starts_with("quorlock").then_some(name)
    });
    assert_eq!(threads.collect::<Vec<_>>(), ["quorlock\n"], "no thread per lock or client");
    stuck.freeze();
    tokio::time::sleep(ms(3000)).await;
    let lost: Vec<_> = leases.iter().filter_map(quorlock::Lease::lost_reason).collect();
    assert_eq!(lost, []);
    for lease in &leases {
        lease.ensure_held().unwrap();
        assert!(lease.release().await.unwrap());
    }
    assert_eq!(left(&good), [""; 0]);
}

#[test]
fn o25_twenty_processes_do_not_split_the_votes_for_ever() {
    let servers = Server::several::<5>();
    let urls = servers.each_ref().map(Server::url).join(",");
    let mut workers: Vec<_> = (0..20).map(|_| crowd(&urls, "a", 1, &["body=10", "ttl=10000", "wait=20000"])).collect();
    let begin = Instant::now();
    workers.iter_mut().for_each(|worker| worker.say("go"));
    let bodies = bodies(&mut workers, 1);
    assert!(begin.elapsed() < ms(3000 + 1000), "{:?}", begin.elapsed());
    assert_one_at_a_time(&bodies);
    eventually("nothing is left", || {
        servers.iter().all(|server| left(server).is_empty() || left(server) == ["lock:boot"])
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn o25_servers_that_were_given_to_different_waiters_are_given_back() {
    // Each server is near to another waiter, so all begin with one server each; and what is given to one who does not get
    // a majority would stay with it for longer than this test may take.
    let servers = Server::several::<3>();
    let mut proxies = Vec::new();
    let mut clients = Vec::new();
    for near in 0..3 {
        let urls = servers.iter().enumerate().map(|(number, server)| {
            let proxy = server.proxy();
            proxy.delay(ms(if number == near { 0 } else { 30 }));
            proxies.push(proxy);
            proxies[proxies.len() - 1].url()
        });
        let urls: Vec<_> = urls.collect();
        let options = ClientOptions { claim_window: Some(ms(30_000)), ..patient(ms(2000)) };
        let client = quorlock::Client::with_options(urls, options).unwrap();
        client.ping(ms(5000)).await.unwrap();
        clients.push(client);
    }
    for round in 0..10 {
        let begin = Instant::now();
        let mut waits = JoinSet::new();
        for client in &clients {
            let lock = client.lock(format!("a{round}")).ttl(ms(30_000)).wait(ms(20_000));
            waits.spawn(async move {
                let lease = lock.acquire().await.unwrap();
                assert!(lease.release().await.unwrap());
                lease.fence()
            });
        }
        let mut fences = waits.join_all().await;
        fences.sort_unstable();
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        assert!(begin.elapsed() < ms(3000), "round {round}: {:?}", begin.elapsed());
    }
    eventually("nothing is left", || servers.iter().all(|server| left(server).iter().all(|key| key == "lock:boot")));
}

#[tokio::test(flavor = "multi_thread")]
async fn o33_waiters_take_no_connection_from_the_holder() {
    let server = Server::start();
    let [client, others] =
        std::array::from_fn(|_| quorlock::Client::with_options(server.url(), patient(ms(2000))).unwrap());
    let mut names: Vec<String> = (0..500).map(|number| format!("b{number}")).collect();
    let mut blocking = Vec::new();
    for name in &names {
        blocking.push(others.lock(name).acquire().await.unwrap());
    }
    let others_connections = server.clients().len();
    let held = client.lock("a").acquire().await.unwrap();
    names.extend(std::iter::repeat_n("a".to_owned(), 50));
    let mut waits = JoinSet::new();
    for name in &names {
        let lock = client.lock(name);
        waits.spawn(async move { lock.acquire().await?.release().await });
    }
    eventually("all stand in the queues", || names.iter().all(|name| waiting(&server, name) > 0));
    eventually("all stand in the queue", || waiting(&server, "a") == 50);
    let connections = server.clients().len() - others_connections;
    assert!(connections <= 3, "{connections}");
    // With the test's own connection there is room for one more.
    let full = (server.clients().len() + 2).to_string();
    server.cmd(&["CONFIG", "SET", "maxclients", &full]);
    let begin = Instant::now();
    assert!(held.release().await.unwrap());
    assert!(begin.elapsed() < ms(50 + 200), "{:?}", begin.elapsed());
    for lease in blocking {
        assert!(lease.release().await.unwrap());
    }
    while let Some(released) = waits.join_next().await {
        assert!(released.unwrap().unwrap());
    }
    assert_eq!(server.clients().len() - others_connections, connections);
    assert_eq!(left(&server), [""; 0]);
}

#[test]
fn o45_closing_frees_what_is_held_and_ends_what_waits() {
    let servers = Server::several::<3>();
    let urls = servers.each_ref().map(Server::url);
    let [client, other] = std::array::from_fn(|_| Client::with_options(&urls[..], patient(ms(2000))).unwrap());
    let leases: Vec<_> =
        (0..20).map(|number| client.lock(format!("a{number}")).ttl(ms(60_000)).acquire().unwrap()).collect();
    let _others = other.lock("b").acquire().unwrap();
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let lock = client.lock("b").wait(Wait::Forever);
            std::thread::spawn(move || (lock.acquire().err().unwrap().kind(), Instant::now()))
        })
        .collect();
    let [good @ .., hung] = &servers;
    eventually("they wait", || good.iter().all(|server| server.cmd(&["PUBSUB", "CHANNELS"]) != serde_json::json!([])));
    hung.freeze();
    let closing = {
        let client = client.clone();
        std::thread::spawn(move || client.close(ms(0)))
    };
    let begin = Instant::now();
    let held = || good.iter().flat_map(|server| server.keys("lock:{a*}")).count();
    eventually("the locks are free", || held() == 0);
    assert!(begin.elapsed() < ms(300 + 400), "{:?}", begin.elapsed());
    for wait in waits {
        let (kind, at) = wait.join().unwrap();
        assert_eq!(kind, ErrorKind::Closed);
        assert!(at < begin + ms(200 + 400), "{:?}", at - begin);
    }
    closing.join().unwrap().unwrap();
    assert!(begin.elapsed() < ms(1000 + 1000), "{:?}", begin.elapsed());
    assert!(leases.iter().all(|lease| lease.as_async().lost_reason() == Some(quorlock::LostReason::Closed)));
}

#[test]
fn o45_what_a_killed_process_held_is_free_after_its_ttl() {
    let server = Server::start();
    let mut worker = crowd(&server.url(), "a#", 20, &["body=60000", "ttl=1000"]);
    worker.say("go");
    let held = || left(&server).len();
    eventually("it holds all", || held() == 20);
    worker.process.kill();
    let killed = Instant::now();
    eventually("all are free", || held() == 0);
    assert!(killed.elapsed() < ms(1000 + 200), "{:?}", killed.elapsed());
}

#[test]
fn o50_a_hundred_waiters_cost_four_commands_a_hold() {
    // Bodies of 30 ms instead of 300.
    const BODY: Duration = ms(30);
    for (processes, each) in [(1, 100), (10, 10)] {
        let server = Server::start();
        let holder = Client::with_options(server.url(), patient(ms(2000))).unwrap();
        // So that the server knows all scripts.
        let first = holder.lock("a").acquire().unwrap();
        let second = holder.lock("a");
        let second = std::thread::spawn(move || second.acquire().unwrap().release());
        eventually("it stands in the queue", || waiting(&server, "a") == 1);
        assert!(first.release().unwrap() && second.join().unwrap().unwrap());

        let held = holder.lock("a").acquire().unwrap();
        let mut workers: Vec<_> =
            (0..processes).map(|_| crowd(&server.url(), "a", each, &["body=30", "ttl=30000", "wait=60000"])).collect();
        let mut monitor = server.monitor();
        workers.iter_mut().for_each(|worker| worker.say("go"));
        eventually("all stand in the queue", || waiting(&server, "a") == 100);
        let cpu_time = |workers: &[Dialogue]| workers.iter().map(|worker| worker.process.cpu_time()).sum::<Duration>();
        let cpu_before = cpu_time(&workers);
        std::thread::sleep(ms(1000));
        let cpu_waiting = cpu_time(&workers) - cpu_before;
        assert!(cpu_waiting < ms(1000) / 20, "waiting: {cpu_waiting:?}");

        let cpu_before = cpu_time(&workers);
        let begin = Instant::now();
        assert!(held.release().unwrap());
        let bodies = bodies(&mut workers, each);
        let took = begin.elapsed();
        let cpu = cpu_time(&workers) - cpu_before;
        assert!(cpu < took / 20, "{cpu:?} in {took:?}");
        assert_one_at_a_time(&bodies);
        assert!(took >= 100 * BODY && took < 110 * BODY + ms(1000), "{took:?}");
        let commands = monitor.seen().iter().filter(|seen| seen.source == Source::Client).count();
        // The first waiter looks once a second: apart.
        let looks = took.as_secs() as usize + 2;
        assert!(commands <= 4 * 100 + looks, "{commands} commands");
        assert_eq!(left(&server), [""; 0]);
    }
}
