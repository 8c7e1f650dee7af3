//! The lock is handed over in order of arrival: the traces of the protocol's model (f7, f8, fb, ff: what used to lose a
//! wake-up), who is served when, and field cases. Most of it on one server and on a quorum of three.

use quorlock::blocking::{Client, Lease};
use quorlock::{ClientOptions, ErrorKind, Wait};
use quorlock_tests::{Dialogue, Monitor, Proxy, Server, eventually, left, ms, patient, waiting};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");
/// Longer than any test: whoever gets the lock sooner has been told, and has not just looked.
const LONG: Duration = ms(30_000);
/// What a loaded machine may add to anything that happens at once.
const SLACK: Duration = ms(700);

/// Runs a test on one server and on a quorum of three, side by side.
fn on_one_and_on_three(test: impl Fn(&[Server]) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| test(&Server::several::<1>()));
        scope.spawn(|| test(&Server::several::<3>()));
    });
}

fn urls(servers: &[Server]) -> Vec<String> {
    servers.iter().map(Server::url).collect()
}

fn client(urls: Vec<String>) -> Client {
    Client::with_options(urls, patient(ms(2000))).unwrap()
}

/// A client whose hand-overs last for longer than any test: if one goes to the dead, it shows.
fn client_with_long_window(urls: Vec<String>) -> Client {
    Client::with_options(urls, ClientOptions { claim_window: Some(LONG), ..patient(ms(2000)) }).unwrap()
}

/// Waits until so many stand in the queue of the lock `name`, on every server.
fn eventually_waiting(servers: &[Server], name: &str, count: i64) {
    eventually(&format!("{count} stand in the queue"), || servers.iter().all(|server| waiting(server, name) == count));
}

/// Takes the lock on every server: a majority is enough for a lease, and a waiter may be given the rest.
fn hold(servers: &[Server], client: &Client, name: &str) -> Lease {
    let lease = client.lock(name).ttl(LONG).acquire().unwrap();
    eventually("all servers have it", || servers.iter().all(|server| server.exists(&format!("lock:{{{name}}}"))));
    lease
}

/// A waiter on a thread of its own, once it stands in the queue as number `place`.
fn queue_up(servers: &[Server], client: &Client, name: &str, place: i64) -> JoinHandle<(Lease, Instant)> {
    let lock = client.lock(name).ttl(LONG).wait(ms(20_000));
    let waiter = std::thread::spawn(move || {
        let lease = lock.acquire().unwrap();
        (lease, Instant::now())
    });
    eventually_waiting(servers, name, place);
    waiter
}

/// A waiter in a process of its own, once it stands in the queue as number `place`.
fn queue_up_process(servers: &[Server], urls: Vec<String>, place: i64) -> Dialogue {
    let worker = Dialogue::start(WORKER, &[&urls.join(","), "hold", "a", "ttl=1000", "wait=20000"]);
    eventually_waiting(servers, "a", place);
    worker
}

/// A process that holds the lock `a` with a TTL of one second.
fn holder_process(servers: &[Server]) -> Dialogue {
    let mut holder = Dialogue::start(WORKER, &[&urls(servers).join(","), "hold", "a", "ttl=1000"]);
    assert!(holder.hear().unwrap().starts_with("acquired "));
    eventually("all servers have it", || servers.iter().all(|server| server.exists("lock:{a}")));
    holder
}

/// The fence in a worker's line `acquired T FENCE`.
fn fence_of(worker: &mut Dialogue) -> u64 {
    let line = worker.hear().expect("it acquires");
    line.strip_prefix("acquired ").and_then(|rest| rest.split(' ').nth(1)?.parse().ok()).expect("a fence")
}

/// Waits until so many connections to each server listen to the channel of the client whose waiter is number `place` in
/// the queue of `a`.
fn eventually_listening(servers: &[Server], place: usize, count: i64) {
    eventually("the servers know who listens", || {
        servers.iter().all(|server| {
            let place = place.to_string();
            let token = server.cmd(&["ZRANGE", "lock:{a}:queue", &place, &place]);
            let channel = format!("lock:wake:{}", &token[0].as_str().expect("somebody waits")[..32]);
            server.cmd(&["PUBSUB", "NUMSUB", &channel])[1] == count
        })
    });
}

fn nothing_is_left(servers: &[Server]) {
    eventually("nothing is left", || servers.iter().all(|server| left(server).iter().all(|key| key == "lock:boot")));
}

/// An administrator deletes the lock.
fn delete(servers: &[Server], name: &str) {
    servers.iter().for_each(|server| drop(server.cmd(&["DEL", &format!("lock:{{{name}}}")])));
}

/// A proxy in front of each server, and their URLs.
fn proxies(servers: &[Server]) -> (Vec<Proxy>, Vec<String>) {
    let proxies: Vec<_> = servers.iter().map(Server::proxy).collect();
    let urls = proxies.iter().map(Proxy::url).collect();
    (proxies, urls)
}

// --- the model's traces ----------------------------------------------------------------------------------------------
// --- the model's traces ----------------------------------------------------------------------------------------------

#[test]
fn f7_the_next_waiter_gets_it_when_holder_and_first_waiter_die_together() {
    // Half open: the servers still count the subscription of the dead one, and hand over to it.
    for half_open in [false, true] {
        on_one_and_on_three(|servers| {
            let mut holder = holder_process(servers);
            let (proxies, through_proxies) = proxies(servers);
            let mut first = queue_up_process(servers, through_proxies, 1);
            let second = queue_up(servers, &client(urls(servers)), "a", 2);
            if half_open {
                proxies.iter().for_each(Proxy::swallow);
            }
            first.process.kill();
            eventually_listening(servers, 0, i64::from(half_open));
            let killed = Instant::now();
            holder.process.kill();
            let (lease, at) = second.join().unwrap();
            // The TTL; then, half open, the claim window of the dead.
            let expected = ms(if half_open { 1000 + 50 + 1000 } else { 1000 + 50 });
            assert!(at < killed + expected + SLACK, "half open {half_open}: {:?}", at - killed);
            assert!(!half_open || at > killed + ms(1000), "it was handed to the dead one first: {:?}", at - killed);
            assert!(lease.release().unwrap());
            nothing_is_left(servers);
        });
    }
}

#[test]
fn f8_the_next_waiter_gets_it_when_the_holder_dies_and_the_first_waiter_is_frozen() {
    on_one_and_on_three(|servers| {
        let mut holder = holder_process(servers);
        let mut first = queue_up_process(servers, urls(servers), 1);
        let others = client(urls(servers));
        let second = queue_up(servers, &others, "a", 2);
        let third = queue_up(servers, &others, "a", 3);
        first.process.freeze();
        let killed = Instant::now();
        holder.process.kill();
        let (lease, at) = second.join().unwrap();
        assert!(at < killed + ms(1000 + 50 + 1000) + SLACK, "{:?}", at - killed);
        // The frozen one was served, in vain.
        eventually_waiting(servers, "a", 1);
        // Awake, it claims too late, is refused, and goes back to its old place: before the third.
        first.process.thaw();
        eventually_waiting(servers, "a", 2);
        let fence = lease.fence();
        assert!(lease.release().unwrap());
        let first_fence = fence_of(&mut first);
        assert!(first_fence > fence);
        first.say("release");
        assert!(first.hear().unwrap().ends_with(" true"));
        let (lease, _) = third.join().unwrap();
        assert!(lease.fence() > first_fence);
        assert!(lease.release().unwrap());
        nothing_is_left(servers);
    });
}

#[test]
fn fb_a_waiter_gets_the_lock_whenever_its_connections_break() {
    // 20 ms each way: the waiter connects, tries, subscribes, tries again by 200 ms or so, sleeps, is granted from 300
    // and claims by 360. It is cut off after 0, 20, 40 … 400 ms.
    const RELEASE: u64 = 300;
    on_one_and_on_three(|servers| {
        let holder = client(urls(servers));
        let round = |cut_after: u64| {
            let name = format!("a{cut_after}");
            let held = hold(servers, &holder, &name);
            let (proxies, through_proxies) = proxies(servers);
            proxies.iter().for_each(|proxy| proxy.delay(ms(20)));
            let lock = client(through_proxies).lock(&name).ttl(LONG).wait(ms(20_000));
            let begin = Instant::now();
            let waiter = std::thread::spawn(move || {
                let lease = lock.acquire().unwrap();
                (lease, begin.elapsed())
            });
            let cut = std::thread::spawn(move || {
                std::thread::sleep(ms(cut_after).saturating_sub(begin.elapsed()));
                proxies.iter().for_each(Proxy::cut);
                proxies
            });
            std::thread::sleep(ms(RELEASE).saturating_sub(begin.elapsed()));
            assert!(held.release().unwrap());
            let (lease, took) = waiter.join().unwrap();
            assert!(took < ms(RELEASE + 1000) + SLACK, "cut after {cut_after} ms: {took:?}");
            assert!(lease.fence() > held.fence());
            let _proxies = cut.join().unwrap();
            assert!(lease.release().unwrap());
        };
        std::thread::scope(|scope| (0..=20).for_each(|number| drop(scope.spawn(move || round(number * 20)))));
        nothing_is_left(servers);
    });
}

#[test]
fn fb_a_waiter_keeps_its_place_over_a_broken_connection() {
    on_one_and_on_three(|servers| {
        let (proxies, through_proxies) = proxies(servers);
        let [holder, second] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        let first = client_with_long_window(through_proxies);
        let cut = || proxies.iter().for_each(Proxy::cut);
        let kill_all = || servers.iter().for_each(|server| assert!(server.kill_clients() >= 2));
        let breaks: [(&dyn Fn(), usize); 2] = [(&cut, 1), (&kill_all, 2)];
        for (break_connections, broken) in breaks {
            let held = hold(servers, &holder, "a");
            let one = queue_up(servers, &first, "a", 1);
            let two = queue_up(servers, &second, "a", 2);
            let mut monitors: Vec<_> = servers.iter().map(Server::monitor).collect();
            break_connections();
            let subscriptions = |monitor: &mut Monitor| {
                monitor.seen().iter().filter(|seen| seen.args[0].eq_ignore_ascii_case("SUBSCRIBE")).count()
            };
            eventually("they have subscribed again", || monitors.iter_mut().all(|m| subscriptions(m) == broken));
            let released = Instant::now();
            assert!(held.release().unwrap());
            let (one, at) = one.join().unwrap();
            assert!(at < released + SLACK, "{:?}", at - released);
            assert!(!two.is_finished());
            let released = Instant::now();
            assert!(one.release().unwrap());
            let (two, at) = two.join().unwrap();
            assert!(at < released + SLACK, "{:?}", at - released);
            assert!(two.fence() > one.fence());
            assert!(two.release().unwrap());
            nothing_is_left(servers);
        }
    });
}

#[test]
fn fb_a_waiter_that_is_away_when_its_turn_comes_is_skipped_and_keeps_its_place() {
    on_one_and_on_three(|servers| {
        let (proxies, through_proxies) = proxies(servers);
        let [holder, others] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        let away = client_with_long_window(through_proxies);
        let held = hold(servers, &holder, "a");
        let first = queue_up(servers, &others, "a", 1);
        let second = queue_up(servers, &away, "a", 2);
        let third = queue_up(servers, &others, "a", 3);
        let fourth = queue_up(servers, &others, "a", 4);
        proxies.iter().for_each(Proxy::refuse);
        eventually_listening(servers, 1, 0);
        assert!(held.release().unwrap());
        assert!(first.join().unwrap().0.release().unwrap());
        let released = Instant::now();
        let (lease, at) = third.join().unwrap();
        assert!(at < released + SLACK, "the second is skipped at once: {:?}", at - released);
        eventually_waiting(servers, "a", 1);
        // Back long before the lock expires.
        proxies.iter().for_each(Proxy::pass);
        eventually_waiting(servers, "a", 2);
        let third_fence = lease.fence();
        assert!(lease.release().unwrap());
        let (lease, _) = second.join().unwrap();
        assert!(lease.fence() > third_fence && !fourth.is_finished());
        assert!(lease.release().unwrap());
        assert!(fourth.join().unwrap().0.release().unwrap());
        nothing_is_left(servers);
    });
}

#[test]
fn fb_one_server_of_three_may_hang_die_or_come_back_empty_while_others_wait() {
    let servers = Server::several::<3>();
    let [_, _, ill] = &servers;
    let [holder, others] = std::array::from_fn(|_| client_with_long_window(urls(&servers)));
    let mut lease = hold(&servers, &holder, "a");
    let mut waiters = Vec::new();
    for place in 1..=4 {
        waiters.push(queue_up(&servers, &others, "a", place));
    }
    let happens: [&dyn Fn(); 4] = [&|| ill.freeze(), &|| ill.thaw(), &|| ill.kill(), &|| ill.start_empty()];
    let mut fence = lease.fence();
    for (number, (happens, waiter)) in happens.iter().zip(waiters).enumerate() {
        happens();
        let released = Instant::now();
        assert!(lease.release().unwrap());
        let (next, at) = waiter.join().unwrap();
        // A server that hangs is waited for: the limit of a call is a second here.
        assert!(at < released + ms(1000) + SLACK, "{number}: {:?}", at - released);
        assert!(next.fence() > fence, "{number}");
        fence = next.fence();
        lease = next;
    }
    assert!(lease.release().unwrap());
    nothing_is_left(&servers);
}

#[test]
fn fb_servers_that_hung_and_woke_up_still_hand_over() {
    on_one_and_on_three(|servers| {
        let [holder, others] = std::array::from_fn(|_| client(urls(servers)));
        let held = hold(servers, &holder, "a");
        let first = queue_up(servers, &others, "a", 1);
        let second = queue_up(servers, &others, "a", 2);
        // Long enough for two looks of the first waiter without an answer: the servers count as silent.
        servers.iter().for_each(Server::freeze);
        std::thread::sleep(ms(3500));
        assert!(!first.is_finished() && !second.is_finished());
        servers.iter().for_each(Server::thaw);
        let released = Instant::now();
        // They may still count as silent: then it goes on in the background.
        let _ = held.release();
        for waiter in [first, second] {
            let (lease, at) = waiter.join().unwrap();
            assert!(at < released + ms(1000) + 2 * SLACK, "{:?}", at - released);
            assert!(lease.release().unwrap());
        }
        nothing_is_left(servers);
    });
}

#[test]
fn fb_waiters_outlive_servers_that_come_back_empty() {
    on_one_and_on_three(|servers| {
        let [holder, one, two] = std::array::from_fn(|_| client(urls(servers)));
        let _held = hold(servers, &holder, "a");
        let mut waiters = Vec::new();
        for place in 1..=4 {
            waiters.push(queue_up(servers, if place % 2 == 0 { &one } else { &two }, "a", place));
        }
        servers.iter().for_each(Server::kill);
        servers.iter().for_each(Server::start_empty);
        let back = Instant::now();
        let waiters = waiters.into_iter().map(|waiter| {
            std::thread::spawn(move || {
                let (lease, at) = waiter.join().unwrap();
                assert!(at < back + ms(2000) + SLACK, "{:?}", at - back);
                assert!(lease.release().unwrap());
                lease.fence()
            })
        });
        let mut fences: Vec<_> = waiters.collect::<Vec<_>>().into_iter().map(|waiter| waiter.join().unwrap()).collect();
        fences.sort_unstable();
        fences.dedup();
        assert_eq!(fences.len(), 4);
        nothing_is_left(servers);
    });
}

#[test]
fn ff_the_next_waiter_is_told_when_the_first_leaves() {
    on_one_and_on_three(|servers| {
        let [holder, leaving, staying] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        for wait in [Wait::Forever, Wait::For(ms(500))] {
            let held = hold(servers, &holder, "a");
            let lock = leaving.lock("a").wait(wait);
            let first = std::thread::spawn(move || lock.acquire().err().unwrap().kind());
            eventually_waiting(servers, "a", 1);
            let second = queue_up(servers, &staying, "a", 2);
            if wait == Wait::Forever {
                leaving.interrupt();
                assert_eq!(first.join().unwrap(), ErrorKind::Cancelled);
            } else {
                assert_eq!(first.join().unwrap(), ErrorKind::Busy);
            }
            eventually_waiting(servers, "a", 1);
            // Only the first waiter looks once a second; without a word the other would sleep until the lock expires.
            let deleted = Instant::now();
            delete(servers, "a");
            let (lease, at) = second.join().unwrap();
            assert!(at < deleted + ms(1000) + SLACK, "{:?}", at - deleted);
            assert!(lease.release().unwrap());
            drop(held);
            nothing_is_left(servers);
        }
    });
}

#[test]
fn ff_a_wait_that_ends_while_it_is_served_hands_the_lock_on() {
    // 200 ms each way: the grant is made at 0 and known at 200, the claim arrives at 400 and is known at 600.
    for ends_after in [100, 300, 500] {
        on_one_and_on_three(|servers| {
            let (proxies, through_proxies) = proxies(servers);
            let [holder, others] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
            let leaving = client_with_long_window(through_proxies);
            let held = hold(servers, &holder, "a");
            let lock = leaving.lock("a").ttl(LONG);
            let first = std::thread::spawn(move || lock.acquire().err().unwrap().kind());
            eventually_waiting(servers, "a", 1);
            let second = queue_up(servers, &others, "a", 2);
            proxies.iter().for_each(|proxy| proxy.delay(ms(200)));
            let released = Instant::now();
            assert!(held.release().unwrap());
            std::thread::sleep(ms(ends_after).saturating_sub(released.elapsed()));
            eventually_waiting(servers, "a", 1);
            leaving.interrupt();
            assert_eq!(first.join().unwrap(), ErrorKind::Cancelled);
            let (lease, at) = second.join().unwrap();
            let expected = ms(ends_after + 200) + SLACK;
            assert!(at < released + expected, "ended after {ends_after} ms: {:?}", at - released);
            assert!(lease.release().unwrap());
            nothing_is_left(servers);
        });
    }
}

// --- who is served when ----------------------------------------------------------------------------------------------

#[test]
fn waiters_of_all_processes_and_clients_are_served_in_order_of_arrival() {
    on_one_and_on_three(|servers| {
        let [holder, one, two] = std::array::from_fn(|_| client(urls(servers)));
        let held = hold(servers, &holder, "a");
        let mut waiters = Vec::new();
        for place in 1..=18 {
            waiters.push(if place % 3 == 0 {
                let mut worker = queue_up_process(servers, urls(servers), place);
                std::thread::spawn(move || {
                    let fence = fence_of(&mut worker);
                    worker.say("release");
                    assert!(worker.hear().unwrap().ends_with(" true"));
                    fence
                })
            } else {
                let waiter = queue_up(servers, if place % 3 == 1 { &one } else { &two }, "a", place);
                std::thread::spawn(move || {
                    let (lease, _) = waiter.join().unwrap();
                    assert!(lease.release().unwrap());
                    lease.fence()
                })
            });
        }
        assert!(held.release().unwrap());
        let fences: Vec<u64> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert!(fences.is_sorted_by(|a, b| a < b) && held.fence() < fences[0], "{fences:?}");
        nothing_is_left(servers);
    });
}

#[test]
fn all_waiters_of_a_client_stand_in_the_queue_also_when_it_waits_for_another_lock() {
    on_one_and_on_three(|servers| {
        let [holder, others] = std::array::from_fn(|_| client(urls(servers)));
        let names = ["b", "a", "a", "a"];
        let held = ["a", "b"].map(|name| hold(servers, &holder, name));
        let waiters = names.iter().zip([1, 1, 2, 3]).map(|(name, place)| queue_up(servers, &others, name, place));
        let waiters: Vec<_> = waiters.collect();
        assert!(held.iter().all(|held| held.release().unwrap()));
        for waiter in waiters {
            assert!(waiter.join().unwrap().0.release().unwrap());
        }
        nothing_is_left(servers);
    });
}

#[test]
fn dead_waiters_are_skipped_at_once() {
    on_one_and_on_three(|servers| {
        let [holder, last] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        let held = hold(servers, &holder, "a");
        let mut dead: Vec<_> = (1..=3).map(|place| queue_up_process(servers, urls(servers), place)).collect();
        let alive = queue_up(servers, &last, "a", 4);
        dead.iter_mut().for_each(|worker| worker.process.kill());
        (0..3).for_each(|place| eventually_listening(servers, place, 0));
        let released = Instant::now();
        assert!(held.release().unwrap());
        let (lease, at) = alive.join().unwrap();
        assert!(at < released + SLACK, "{:?}", at - released);
        assert!(lease.release().unwrap());
        nothing_is_left(servers);
    });
}

#[test]
fn a_frozen_waiter_costs_one_claim_window_once() {
    on_one_and_on_three(|servers| {
        let [holder, others] = std::array::from_fn(|_| client(urls(servers)));
        let held = hold(servers, &holder, "a");
        let mut frozen = queue_up_process(servers, urls(servers), 1);
        let second = queue_up(servers, &others, "a", 2);
        let third = queue_up(servers, &others, "a", 3);
        frozen.process.freeze();
        let released = Instant::now();
        assert!(held.release().unwrap());
        let (lease, at) = second.join().unwrap();
        assert!(at > released + ms(1000 - 100) && at < released + ms(1000) + SLACK, "{:?}", at - released);
        let released = Instant::now();
        assert!(lease.release().unwrap());
        let (lease, at) = third.join().unwrap();
        assert!(at < released + SLACK, "once: {:?}", at - released);
        frozen.process.thaw();
        eventually_waiting(servers, "a", 1);
        assert!(lease.release().unwrap());
        assert!(fence_of(&mut frozen) > lease.fence());
        frozen.say("release");
        assert!(frozen.hear().unwrap().ends_with(" true"));
        nothing_is_left(servers);
    });
}

#[test]
fn a_wait_that_ends_leaves_neither_queue_nor_key() {
    on_one_and_on_three(|servers| {
        let holder = client(urls(servers));
        let held = hold(servers, &holder, "a");
        let ends: [fn(&Client); 3] = [|_| {}, Client::interrupt, |client| client.close(ms(0)).unwrap()];
        for (end, kind) in ends.into_iter().zip([ErrorKind::Busy, ErrorKind::Cancelled, ErrorKind::Closed]) {
            let waiter = client(urls(servers));
            let lock = waiter.lock("a").wait(if kind == ErrorKind::Busy { ms(500) } else { ms(20_000) });
            let wait = std::thread::spawn(move || lock.acquire().err().unwrap().kind());
            eventually_waiting(servers, "a", 1);
            end(&waiter);
            assert_eq!(wait.join().unwrap(), kind);
            eventually("it has left", || {
                servers.iter().all(|server| server.keys("lock:{*") == ["lock:{a}", "lock:{a}:fence"])
            });
        }
        assert!(held.release().unwrap());
        eventually("only the fence is left", || {
            servers.iter().all(|server| server.keys("lock:{*") == ["lock:{a}:fence"])
        });
    });
}

#[test]
fn the_queue_expires_when_everybody_is_dead() {
    on_one_and_on_three(|servers| {
        let mut workers = vec![holder_process(servers)];
        workers.extend((1..=2).map(|place| queue_up_process(servers, urls(servers), place)));
        workers.iter_mut().for_each(|worker| worker.process.kill());
        let killed = Instant::now();
        // PROTOCOL: what is left of the lock's TTL, and 5 s.
        assert!(servers.iter().all(|server| (1..=6000).contains(&server.pttl("lock:{a}:queue"))));
        eventually("the lock is gone", || servers.iter().all(|server| !server.exists("lock:{a}")));
        assert!(killed.elapsed() < ms(1000) + SLACK);
        nothing_is_left(servers);
        assert!(killed.elapsed() < ms(6000) + SLACK, "{:?}", killed.elapsed());
    });
}

#[test]
fn a_single_try_never_overtakes_a_waiter() {
    on_one_and_on_three(|servers| {
        let [holder, waits, tries] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        for round in 0..10 {
            let held = hold(servers, &holder, "a");
            let waiter = queue_up(servers, &waits, "a", 1);
            // Free without a message: the waiter does not know yet.
            let deleted = Instant::now();
            delete(servers, "a");
            assert!(tries.lock("a").try_acquire().unwrap().is_none(), "round {round}");
            // The try has handed it over.
            let (lease, at) = waiter.join().unwrap();
            assert!(at < deleted + SLACK, "round {round}: {:?}", at - deleted);
            assert!(lease.release().unwrap());
            drop(held);
            nothing_is_left(servers);
        }
        // The dead are no obstacle.
        let held = hold(servers, &holder, "a");
        let mut dead = queue_up_process(servers, urls(servers), 1);
        dead.process.kill();
        eventually_listening(servers, 0, 0);
        delete(servers, "a");
        assert!(tries.lock("a").try_acquire().unwrap().expect("only a dead one is ahead").release().unwrap());
        drop(held);
        nothing_is_left(servers);
    });
}

// --- field cases -----------------------------------------------------------------------------------------------------

#[test]
fn o32_a_server_may_forget_its_scripts_while_others_wait() {
    on_one_and_on_three(|servers| {
        let [holder, others] = std::array::from_fn(|_| client_with_long_window(urls(servers)));
        let mut lease = hold(servers, &holder, "a");
        for _ in 0..5 {
            let waiter = queue_up(servers, &others, "a", 1);
            servers.iter().for_each(|server| drop(server.cmd(&["SCRIPT", "FLUSH"])));
            let released = Instant::now();
            assert!(lease.release().unwrap());
            let at;
            (lease, at) = waiter.join().unwrap();
            assert!(at < released + SLACK, "{:?}", at - released);
        }
        assert!(lease.release().unwrap());
        nothing_is_left(servers);
    });
}

#[test]
fn o49_whoever_takes_it_again_at_once_does_not_starve_the_waiter() {
    on_one_and_on_three(|servers| {
        let one = client(urls(servers));
        // The waiter in the same client, and in another.
        for other in [one.clone(), client(urls(servers))] {
            let (cycles, stop) = (AtomicU32::new(0), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        let lease = one.lock("a").acquire().unwrap();
                        cycles.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(ms(50));
                        assert!(lease.release().unwrap());
                    }
                });
                for round in 0..10 {
                    let before = cycles.load(Ordering::SeqCst);
                    let lease = other.lock("a").wait(ms(20_000)).acquire().unwrap();
                    let after = cycles.load(Ordering::SeqCst);
                    assert!(after <= before + 2, "round {round}: {} cycles", after - before);
                    assert!(lease.release().unwrap());
                }
                stop.store(true, Ordering::SeqCst);
            });
        }
        nothing_is_left(servers);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn o36_waits_dropped_while_the_lock_goes_round_cost_the_others_nothing() {
    for count in [1, 3] {
        let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
        let (proxies, through_proxies) = proxies(&servers);
        proxies.iter().for_each(|proxy| proxy.delay(ms(5)));
        let options = ClientOptions { claim_window: Some(LONG), ..patient(ms(2000)) };
        let client = quorlock::Client::with_options(through_proxies, options).unwrap();
        let held = client.lock("a").ttl(LONG).acquire().await.unwrap();
        eventually("all servers have it", || servers.iter().all(|server| server.exists("lock:{a}")));
        let (begin, begun) = tokio::sync::watch::channel(false);
        let tasks = (0..100u64).map(|task| {
            let (lock, mut begun) = (client.lock("a").ttl(LONG), begun.clone());
            tokio::spawn(async move {
                let turn = async {
                    let lease = lock.acquire().await.unwrap();
                    assert!(lease.release().await.unwrap());
                };
                // Every other one is dropped, at any moment of the time that it takes to serve the rest.
                let limit = async {
                    begun.wait_for(|begun| *begun).await.unwrap();
                    tokio::time::sleep(ms(task * 16)).await;
                };
                tokio::select! {
                    () = turn => true,
                    () = limit, if task % 2 == 0 => false,
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        eventually_waiting(&servers, "a", 100);
        begin.send(true).unwrap();
        let begin = Instant::now();
        assert!(held.release().await.unwrap());
        let mut served = 0;
        for (number, task) in tasks.into_iter().enumerate() {
            let done = task.await.unwrap();
            assert!(done || number % 2 == 0, "{number} was not served");
            served += u32::from(done);
        }
        assert!((50..100).contains(&served), "some were dropped: {served}");
        assert!(begin.elapsed() < ms(6000), "none of the dropped cost a claim window: {:?}", begin.elapsed());
        nothing_is_left(&servers);
    }
}

#[test]
fn o52_a_release_is_not_missed_while_the_subscription_is_on_its_way() {
    on_one_and_on_three(|servers| {
        let holder = client(urls(servers));
        // As told, and then 59 more with the release at any moment up to 600 ms.
        let round = |number: u64| {
            let (proxies, through_proxies) = proxies(servers);
            proxies.iter().for_each(|proxy| proxy.delay_command("SUBSCRIBE", ms(300)));
            let waiter = client(through_proxies);
            waiter.ping(ms(5000)).unwrap();
            let name = format!("a{number}");
            let held = hold(servers, &holder, &name);
            let release_after = ms(if number == 0 { 100 } else { number * 10 });
            let begin = Instant::now();
            let lock = waiter.lock(&name).ttl(LONG).wait(ms(20_000));
            let wait = std::thread::spawn(move || (lock.acquire().unwrap(), begin.elapsed()));
            std::thread::sleep(release_after.saturating_sub(begin.elapsed()));
            assert!(held.release().unwrap());
            let released = begin.elapsed();
            let (lease, took) = wait.join().unwrap();
            let late = took.saturating_sub(released);
            assert!(late < ms(1000), "round {number}: {late:?} after the release");
            assert!(lease.release().unwrap());
        };
        std::thread::scope(|scope| (0..60).for_each(|number| drop(scope.spawn(move || round(number)))));
        nothing_is_left(servers);
    });
}

#[test]
fn o53_a_holder_may_vanish_without_a_message() {
    on_one_and_on_three(|servers| {
        let mut holder = holder_process(servers);
        let waiter = queue_up(servers, &client(urls(servers)), "a", 1);
        holder.process.kill();
        let left = servers.iter().map(|server| server.pttl("lock:{a}").max(0)).max().unwrap();
        let expires = Instant::now() + ms(left as u64);
        let (lease, at) = waiter.join().unwrap();
        assert!(
            at + ms(200) > expires && at < expires + SLACK,
            "{:?} after the expiry",
            at.saturating_duration_since(expires)
        );
        // Deleted by an administrator, long before it would have expired: the first waiter looks once a second.
        let next = queue_up(servers, &client(urls(servers)), "a", 1);
        let deleted = Instant::now();
        delete(servers, "a");
        let (next, at) = next.join().unwrap();
        assert!(at < deleted + ms(1000) + SLACK, "{:?}", at - deleted);
        assert_eq!(lease.release().unwrap_err().kind(), ErrorKind::Lost);
        assert!(next.release().unwrap());
        nothing_is_left(servers);
    });
}

#[test]
fn o53_another_library_that_shares_the_key_sends_no_message() {
    let server = Server::start();
    let options = || ClientOptions { exact_keys: Some(true), ..patient(ms(2000)) };
    let [one, two] = std::array::from_fn(|_| Client::with_options(server.url(), options()).unwrap());
    server.cmd(&["SET", "shared", "of another library", "PX", "30000"]);
    let first = queue_up(std::slice::from_ref(&server), &one, "shared", 1);
    let second = queue_up(std::slice::from_ref(&server), &two, "shared", 2);
    let deleted = Instant::now();
    server.cmd(&["DEL", "shared"]);
    let (lease, at) = first.join().unwrap();
    assert!(at < deleted + ms(1000) + SLACK, "{:?}", at - deleted);
    // Among ourselves it is handed over.
    let released = Instant::now();
    assert!(lease.release().unwrap());
    let (lease, at) = second.join().unwrap();
    assert!(at < released + SLACK, "{:?}", at - released);
    assert!(lease.release().unwrap());
    assert!(!server.exists("shared"));
    nothing_is_left(std::slice::from_ref(&server));
}
