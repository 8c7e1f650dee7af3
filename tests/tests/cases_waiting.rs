//! Field cases: waiting, and ways to stop it.

use quorlock::blocking::Client;
use quorlock::{ClientOptions, ErrorKind, Wait};
use quorlock_tests::{Server, Source, eventually, left, ms, patient, waiting};
use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[test]
fn o16_a_wait_is_a_time_and_not_a_number_of_attempts() {
    for servers in [1, 5] {
        let servers: Vec<Server> = (0..servers).map(|_| Server::start()).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let [a, b, c] = std::array::from_fn(|_| Client::with_options(&urls[..], patient(ms(2000))).unwrap());
        let held = a.lock("a").acquire().unwrap();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let patient = scope.spawn(|| {
                let lease = b.lock("a").wait(ms(6000)).acquire().unwrap();
                (begin.elapsed(), lease.release().unwrap())
            });
            let impatient = scope.spawn(|| {
                let error = c.lock("a").wait(ms(1000)).acquire().err().unwrap();
                (begin.elapsed(), error)
            });
            let (took, error) = impatient.join().unwrap();
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert!(took >= ms(1000) && took < ms(1000 + 300), "{took:?}");
            assert!(error.attempts() >= 1 && error.elapsed() >= ms(995), "{error}");
            std::thread::sleep(ms(1500).saturating_sub(begin.elapsed()));
            held.release().unwrap();
            let (took, released) = patient.join().unwrap();
            assert!(took >= ms(1500) && took < ms(1620 + 300), "{} servers: {took:?}", servers.len());
            assert!(released);
        });
    }
}

#[test]
fn o18_whoever_left_does_not_go_on_trying() {
    let server = Server::start();
    let holder = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let waiter = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let held = holder.lock("a").acquire().unwrap();
    assert_eq!(waiter.lock("a").wait(ms(300)).acquire().err().unwrap().kind(), ErrorKind::Busy);
    eventually("it has left the queue", || waiting(&server, "a") == 0);
    let mut monitor = server.monitor();
    assert!(held.release().unwrap());
    std::thread::sleep(ms(2000));
    assert_eq!(left(&server), [""; 0]);
    // The release, perhaps once more by EVAL.
    let commands: Vec<_> = monitor.seen().iter().filter(|seen| seen.source == Source::Client).collect();
    assert!(
        commands.len() <= 2 && commands.iter().all(|seen| seen.args.iter().any(|arg| arg == "lock:{a}")),
        "{commands:?}"
    );
}

#[test]
fn o19_the_body_does_not_run_without_the_lock() {
    let server = Server::start();
    let [a, b] = std::array::from_fn(|_| Client::with_options(server.url(), patient(ms(1000))).unwrap());
    let _held = a.lock("a").acquire().unwrap();
    let mut ran = false;
    let mut guarded = || -> quorlock::Result<()> {
        let _lease = b.lock("a").ttl(ms(1000)).wait(ms(200)).acquire()?;
        ran = true;
        Ok(())
    };
    let begin = Instant::now();
    assert_eq!(guarded().unwrap_err().kind(), ErrorKind::Busy);
    assert!(begin.elapsed() >= ms(200) && begin.elapsed() < ms(200 + 300), "{:?}", begin.elapsed());
    assert!(!ran);
}

#[tokio::test(flavor = "multi_thread")]
async fn o36_an_acquire_dropped_at_any_moment_leaves_nothing() {
    let server = Server::start();
    let proxy = server.proxy();
    let options = ClientOptions { server_timeout: Some(ms(1000)), ..Default::default() };
    let client = quorlock::Client::with_options(proxy.url(), options).unwrap();
    client.ping(ms(5000)).await.unwrap();
    proxy.delay(ms(100));
    let tasks = (0..100).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            let lock = client.lock(format!("a{task}")).ttl(ms(30_000));
            // A lease that comes before the drop is dropped with it.
            let _ = tokio::time::timeout(ms(task * 3), lock.acquire()).await;
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let dropped = Instant::now();
    eventually("no lock is left", || left(&server).is_empty());
    assert!(dropped.elapsed() < ms(2000), "{:?}", dropped.elapsed());
    proxy.pass();
    // The connection is still in step: each answer belongs to its question.
    let mut last = 0;
    for call in 0..100 {
        let lease = client.lock("b").acquire().await.unwrap();
        assert!(lease.fence() > last, "call {call}");
        last = lease.fence();
        assert!(client.lock("b").try_acquire().await.unwrap().is_none());
        assert!(lease.release().await.unwrap());
    }
    assert_eq!(left(&server), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn o36_an_acquire_dropped_while_it_waits_stops_asking() {
    let server = Server::start();
    let [a, b] = std::array::from_fn(|_| quorlock::Client::with_options(server.url(), patient(ms(2000))).unwrap());
    let held = a.lock("a").ttl(ms(60_000)).acquire().await.unwrap();
    let lock = b.lock("a").wait(Wait::Forever);
    assert!(tokio::time::timeout(ms(300), lock.acquire()).await.is_err());
    held.release().await.unwrap();
    let mut monitor = server.monitor();
    tokio::time::sleep(ms(500)).await;
    assert_eq!(monitor.seen().iter().filter(|seen| seen.args.iter().any(|arg| arg.contains("lock:"))).count(), 0);
    assert_eq!(left(&server), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn o38_a_dropped_scope_releases_its_lease() {
    let server = Server::start();
    let client = quorlock::Client::with_options(server.url(), patient(ms(2000))).unwrap();
    let body = async {
        let _lease = client.lock("a").ttl(ms(30_000)).acquire().await.unwrap();
        std::future::pending::<()>().await;
    };
    assert!(tokio::time::timeout(ms(500), body).await.is_err());
    let begin = Instant::now();
    eventually("the lock is free", || left(&server).is_empty());
    assert!(begin.elapsed() < ms(1000), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn o38_a_dropped_release_still_releases() {
    let server = Server::start();
    let proxy = server.proxy();
    let client = quorlock::Client::with_options(proxy.url(), patient(ms(2000))).unwrap();
    let lease = client.lock("a").ttl(ms(30_000)).acquire().await.unwrap();
    {
        let mut release = std::pin::pin!(lease.release());
        // Polled once: begun, and then dropped.
        assert!(matches!(release.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    assert!(!lease.held());
    eventually("the lock is free", || left(&server).is_empty());
    assert!(!lease.release().await.unwrap());
}

#[test]
fn interrupt_ends_the_waits_of_the_moment_only() {
    let server = Server::start();
    let [a, b] = std::array::from_fn(|_| Client::with_options(server.url(), patient(ms(2000))).unwrap());
    let held = a.lock("a").acquire().unwrap();
    let waiting = {
        let b = b.clone();
        std::thread::spawn(move || b.lock("a").wait(Wait::Forever).acquire().err().unwrap().kind())
    };
    // Whether the wait has begun cannot be seen from outside: interrupt until it has.
    eventually("the wait ends", || {
        b.interrupt();
        waiting.is_finished()
    });
    assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
    held.release().unwrap();
    assert!(b.lock("a").wait(ms(5000)).acquire().unwrap().release().unwrap(), "later calls go on");
}
