//! Field cases: renewal and release of the right lease, tokens, threads, forks.

use quorlock::ErrorKind;
use quorlock::blocking::Client;
use quorlock_tests::{Dialogue, Monitor, Server, boot_time, left, ms, patient};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");

/// The owner tokens that clients sent, each with the keys it was sent for.
fn tokens(monitor: &mut Monitor) -> HashMap<String, HashSet<String>> {
    let mut tokens: HashMap<String, HashSet<String>> = HashMap::new();
    for seen in monitor.seen() {
        let is_token = |arg: &&String| {
            let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            arg.split_once('.')
                .is_some_and(|(id, secret)| id.len() == 32 && hex(id) && secret.len() >= 40 && hex(secret))
        };
        if let Some(token) = seen.args.iter().find(is_token) {
            let locks = seen.args.iter().filter(|arg| arg.starts_with("lock:{") && arg.ends_with('}'));
            tokens.entry(token.clone()).or_default().extend(locks.cloned());
        }
    }
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_no_renewal_outlives_its_release() {
    let server = Server::start();
    let client = quorlock::Client::with_options(server.url(), patient(ms(300))).unwrap();
    // The renewal is due after 100 ms: half of the bodies end just before it, half just after.
    let tasks = (0..100u64).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            for round in 0..8 {
                let lease = client.lock(format!("a{task}")).ttl(ms(300)).acquire().await.unwrap();
                let body = Duration::from_micros(96_000 + (task * 13 + round * 997) % 8_000);
                tokio::select! {
                    reason = lease.lost() => panic!("lost: {reason:?}"),
                    () = tokio::time::sleep(body) => {}
                }
                assert!(lease.release().await.unwrap());
                assert_eq!(lease.lost_reason(), None);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    for _ in 0..500 {
        assert!(client.lock("quick").ttl(ms(300)).acquire().await.unwrap().release().await.unwrap());
    }
    let mut monitor = server.monitor();
    tokio::time::sleep(ms(1000)).await;
    assert_eq!(monitor.seen().iter().filter(|seen| seen.args.iter().any(|arg| arg.starts_with("lock:"))).count(), 0);
    assert_eq!(left(&server), [""; 0]);
}

#[test]
fn o11_a_renewal_does_not_revive_what_was_lost_in_between() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "hold", "a", "ttl=600"]);
    let acquired = worker.hear().unwrap();
    worker.process.freeze();
    let lease = client.lock("a").wait(ms(10_000)).acquire().unwrap();
    assert!(lease.as_async().fence() > acquired.split(' ').nth(2).unwrap().parse().unwrap());
    assert!(lease.release().unwrap());
    let mut monitor = server.monitor();
    let woken = boot_time();
    worker.process.thaw();
    let lost = worker.hear().unwrap();
    let lost: Vec<_> = lost.split(' ').collect();
    assert_eq!((lost[0], lost[2]), ("lost", "expired"));
    let told = Duration::from_millis(lost[1].parse().unwrap());
    assert!(told < woken + ms(50 + 100), "told after {:?}", told - woken);
    worker.say("extend 5000");
    assert!(worker.hear().unwrap().ends_with(" lost"));
    assert!(!server.exists("lock:{a}"));
    assert!(!monitor.seen().iter().any(|seen| seen.args[0].eq_ignore_ascii_case("SET")), "nothing was set");
    assert!(worker.finish());
}

#[test]
fn o13_broken_connections_do_not_end_a_lease() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(1000))).unwrap();
    let lease = client.lock("a").ttl(ms(1000)).acquire().unwrap();
    let begin = Instant::now();
    for at in [250, 600, 1400] {
        assert_eq!(lease.wait_lost(Some(ms(at).saturating_sub(begin.elapsed()))).unwrap(), None);
        assert!(server.kill_clients() >= 1, "at {at} ms a connection is there to be killed");
    }
    assert_eq!(lease.wait_lost(Some(ms(3000).saturating_sub(begin.elapsed()))).unwrap(), None);
    lease.confirm().unwrap();
    assert!(lease.release().unwrap());
    assert!(!server.exists("lock:{a}"));
}

#[test]
fn o14_a_late_finisher_does_not_free_the_next_holder() {
    let server = Server::start();
    let [a, b, c] = std::array::from_fn(|_| Client::with_options(server.url(), patient(ms(200))).unwrap());
    let first = a.lock("a").ttl(ms(200)).renew(false).acquire().unwrap();
    let second = b.lock("a").ttl(ms(30_000)).renew(false).wait(ms(10_000)).acquire().unwrap();
    let token = server.get("lock:{a}");
    assert_eq!(first.release().unwrap_err().kind(), ErrorKind::Lost);
    drop(first);
    assert_eq!(c.lock("a").wait(ms(0)).acquire().err().unwrap().kind(), ErrorKind::Busy);
    assert_eq!(server.get("lock:{a}"), token);
    assert!(server.pttl("lock:{a}") > 15_000);
    second.confirm().unwrap();
    assert!(second.release().unwrap());
}

#[test]
fn o15_every_acquisition_has_a_token_of_its_own() {
    let server = Server::start();
    let mut monitor = server.monitor();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let client = &client;
            scope.spawn(move || {
                for time in 0..1000 {
                    assert!(client.lock(format!("{thread}-{time}")).try_acquire().unwrap().unwrap().release().unwrap());
                }
            });
        }
    });
    let tokens = tokens(&mut monitor);
    assert_eq!(tokens.len(), 8 * 1000);
    assert!(tokens.values().all(|locks| locks.len() == 1), "one token, one lock");
    let secrets: HashSet<_> = tokens.keys().map(|token| token.split_once('.').unwrap().1).collect();
    assert_eq!(secrets.len(), tokens.len());
}

#[test]
fn o15_forked_children_have_tokens_of_their_own() {
    let server = Server::start();
    let mut monitor = server.monitor();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "fork", "a", "50", "40"]);
    while worker.hear().is_some() {}
    assert!(worker.finish());
    let tokens = tokens(&mut monitor);
    assert_eq!(tokens.len(), 1 + 50 * 40);
    assert!(tokens.values().all(|locks| locks.len() == 1), "one token, one lock");
    let ids: HashSet<_> = tokens.keys().map(|token| token.split_once('.').unwrap().0).collect();
    assert_eq!(ids.len(), 1 + 50, "each process is a client instance of its own");
}

#[test]
fn o39_a_client_made_before_a_fork_works_in_the_child() {
    for servers in [1, 3] {
        let servers: Vec<Server> = (0..servers).map(|_| Server::start()).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let mut worker = Dialogue::start(WORKER, &[&urls.join(","), "fork", "a", "3", "5"]);
        let begin = Instant::now();
        assert!(worker.hear().unwrap().starts_with("acquired "));
        for _ in 0..3 {
            let child = worker.hear().unwrap();
            assert!(child.starts_with("child ") && child.ends_with(" times=5"), "{child}");
        }
        assert!(worker.hear().unwrap().ends_with(" true"), "the parent still works");
        assert!(begin.elapsed() < ms(5000));
        assert!(worker.finish());
    }
}

#[test]
fn o40_a_child_neither_frees_nor_renews_its_parents_lock() {
    let server = Server::start();
    let mut monitor = server.monitor();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "fork", "a", "2", "1"]);
    assert!(worker.hear().unwrap().starts_with("acquired "));
    for _ in 0..2 {
        let child = worker.hear().unwrap();
        assert!(child.contains(" held=false release=closed "), "{child}");
    }
    // The worker tells `true` only if the key still had its token after both children had ended.
    assert!(worker.hear().unwrap().ends_with(" true"));
    assert!(worker.finish());
    let about = monitor.seen().iter().filter(|seen| seen.args.iter().any(|arg| arg == "lock:{a}"));
    let by_clients = about.filter(|seen| seen.source == quorlock_tests::Source::Client).count();
    assert!(by_clients <= 4, "acquire and release, each at most sent twice (EVALSHA, EVAL): {by_clients}");
}

#[test]
fn o41_a_lease_acquired_in_one_thread_is_released_in_another() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let lease = std::thread::spawn(move || client.lock("a").acquire().unwrap()).join().unwrap();
    let lease = std::thread::spawn(move || {
        assert!(lease.release().unwrap());
        lease
    });
    let lease = lease.join().unwrap();
    assert!(!lease.release().unwrap(), "released already, not lost");
    assert_eq!(lease.as_async().lost_reason(), None);
    assert!(!server.exists("lock:{a}"));
}
