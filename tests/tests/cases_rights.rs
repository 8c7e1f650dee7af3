//! Field cases: what users may do, and servers that cannot do what they are asked: read-only, out of memory, loading.

use quorlock::blocking::{Client, Lease};
use quorlock::log::{Event, Level, set_hook};
use quorlock::{ErrorKind, Wait};
use quorlock_tests::{Dialogue, Server, eventually, left, ms, patient, waiting};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");
/// What a loaded machine may add to anything that happens at once.
const SLACK: Duration = ms(700);

fn client(url: &str) -> Client {
    Client::with_options(url, patient(ms(2000))).unwrap()
}

/// Lets a user `app` do this.
fn allow(server: &Server, rules: &[&str]) {
    server.cmd(&[&["ACL", "SETUSER", "app", "reset", "on", ">pw"], rules].concat());
}

/// The URL for the user `app`.
fn as_app(server: &Server) -> String {
    server.url().replace("redis://", "redis://app:pw@")
}

/// What was said about the server at this URL, at level warn and above. The hook is one for the process, and stays.
fn warnings(url: &str) -> Vec<String> {
    static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());
    static HOOK: LazyLock<()> = LazyLock::new(|| {
        set_hook(Level::Warn, Some(Box::new(|event| events().push(event.clone()))));
    });
    fn events() -> std::sync::MutexGuard<'static, Vec<Event>> {
        EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
    }
    LazyLock::force(&HOOK);
    let address = url.rsplit(['/', '@']).next().expect("an address");
    let of_server = |event: &&Event| event.fields.iter().any(|(_, value)| *value == address);
    events().iter().filter(of_server).map(Event::to_string).collect()
}

/// A waiter on a thread of its own.
fn wait_for(client: &Client, name: &str) -> JoinHandle<(Lease, Instant)> {
    let lock = client.lock(name).wait(ms(20_000));
    std::thread::spawn(move || {
        let lease = lock.acquire().unwrap();
        (lease, Instant::now())
    })
}

// --- rights ----------------------------------------------------------------------------------------------------------

#[test]
fn o58_without_rights_to_channels_waiting_goes_on_by_polling() {
    for count in [1, 3] {
        let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
        let mut warned = 0;
        for server in &servers {
            allow(server, &["~lock:*", "resetchannels", "+@all", "-@dangerous"]);
            assert_eq!(warnings(&server.url()), [""; 0]);
        }
        let urls: Vec<String> = servers.iter().map(as_app).collect();
        let [holder, waiter] = std::array::from_fn(|_| Client::with_options(&urls[..], patient(ms(2000))).unwrap());
        for round in 0..3 {
            let held = holder.lock("a").acquire().unwrap();
            held.extend(None).unwrap();
            let wait = wait_for(&waiter, "a");
            std::thread::sleep(ms(500));
            let released = Instant::now();
            assert!(held.release().unwrap());
            let (lease, at) = wait.join().unwrap();
            assert!(at < released + ms(1000) + SLACK, "{count} servers, round {round}: {:?}", at - released);
            assert!(lease.release().unwrap());
        }
        for server in &servers {
            let warnings = warnings(&server.url());
            assert!(warnings.iter().all(|warning| warning.contains("cannot subscribe")), "{warnings:?}");
            assert!(
                warnings.iter().all(|warning| warning.contains("channels")),
                "it says what is missing: {warnings:?}"
            );
            warned += warnings.len();
            eventually("nothing is left", || left(server).iter().all(|key| key == "lock:boot"));
        }
        assert_eq!(warned, 1, "{count} servers");
    }
}

#[test]
fn o58_a_holder_without_rights_to_channels_still_frees_the_lock() {
    let server = Server::start();
    allow(&server, &["~lock:*", "resetchannels", "+@all", "-@dangerous"]);
    let [holder, waiter] = [&as_app(&server), &server.url()].map(|url| client(url));
    let held = holder.lock("a").acquire().unwrap();
    let wait = wait_for(&waiter, "a");
    eventually("it stands in the queue", || waiting(&server, "a") == 1);
    // Nobody can tell the waiter: as the first it looks once a second.
    let released = Instant::now();
    assert!(held.release().unwrap());
    let (lease, at) = wait.join().unwrap();
    assert!(at < released + ms(1000) + SLACK, "{:?}", at - released);
    assert!(lease.release().unwrap());
    assert_eq!(left(&server), [""; 0]);
}

#[test]
fn o58_rights_to_the_channels_of_the_prefix_are_enough() {
    let all_but_dangerous = ["+@all", "-@dangerous"].as_slice();
    let smallest = [
        "-@all +eval +evalsha +get +set +del +exists +type +pttl +pexpire +time +ping".split(' '),
        "+zadd +zrem +zrange +zscore +zrank +publish +subscribe +unsubscribe +pubsub|numsub".split(' '),
    ];
    let smallest: Vec<_> = smallest.into_iter().flatten().collect();
    for rights in [all_but_dangerous, &smallest] {
        let server = Server::start();
        allow(&server, &[&["~lock:*", "resetchannels", "&lock:*"], rights].concat());
        assert_eq!(warnings(&server.url()), [""; 0]);
        let [holder, waiter] = std::array::from_fn(|_| client(&as_app(&server)));
        let held = holder.lock("a").label("me").acquire().unwrap();
        let wait = wait_for(&waiter, "a");
        eventually("it stands in the queue", || waiting(&server, "a") == 1);
        let mut monitor = server.monitor();
        assert!(held.release().unwrap());
        let (lease, _) = wait.join().unwrap();
        // Told, and not found out by looking: the release and the claim, each perhaps once more by EVAL.
        assert!(monitor.count() <= 4, "{:?}", monitor.seen());
        assert!(lease.release().unwrap());
        assert_eq!(warnings(&server.url()), [""; 0]);
        assert_eq!(left(&server), [""; 0]);
    }
}

#[test]
fn o35_without_resp3_waiting_goes_on_by_polling() {
    let server = Server::start();
    let front = server.front_without(&["HELLO"]);
    assert_eq!(warnings(&front.url()), [""; 0]);
    let [holder, waiter] = std::array::from_fn(|_| client(&front.url()));
    for _ in 0..2 {
        let held = holder.lock("a").acquire().unwrap();
        let wait = wait_for(&waiter, "a");
        std::thread::sleep(ms(500));
        let released = Instant::now();
        assert!(held.release().unwrap());
        let (lease, at) = wait.join().unwrap();
        assert!(at < released + ms(1000) + SLACK, "{:?}", at - released);
        assert!(lease.release().unwrap());
    }
    let warnings = warnings(&front.url());
    assert!(warnings.len() == 1 && warnings[0].contains("RESP3"), "{warnings:?}");
    eventually("nothing is left", || left(&server).is_empty());
}

#[test]
fn o58_a_missing_right_to_scripts_is_named_and_nothing_is_set() {
    let server = Server::start();
    for (missing, named) in [("-evalsha", "evalsha"), ("-eval", "eval")] {
        allow(&server, &["~lock:*", "resetchannels", "+@all", "-@dangerous", missing]);
        server.cmd(&["SCRIPT", "FLUSH"]);
        let client = client(&as_app(&server));
        for wait in [Wait::For(ms(0)), Wait::For(ms(5000)), Wait::Forever] {
            let begin = Instant::now();
            let error = client.lock("a").wait(wait).acquire().err().unwrap();
            assert!(begin.elapsed() < SLACK, "{missing}: {:?}", begin.elapsed());
            assert_eq!(error.kind(), ErrorKind::Refused, "{missing}: {error}");
            assert!(error.to_string().contains(named), "{missing}: {error}");
            assert!(!error.to_string().contains("pw"), "{error}");
        }
        assert_eq!(server.keys("*{a}*"), [""; 0], "{missing}");
    }
}

// --- servers that cannot do what they are asked ----------------------------------------------------------------------

/// How many commands of ours the server has got, refused ones included.
fn commands(server: &Server) -> u64 {
    let info = server.cmd(&["INFO", "commandstats"]);
    let of_line = |line: &str| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let field =
            |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let ours = ["eval", "evalsha", "subscribe", "unsubscribe", "hello", "ping"].contains(&name);
        ours.then(|| field("calls").unwrap_or(0) + field("rejected_calls").unwrap_or(0))
    };
    info.as_str().unwrap().lines().filter_map(of_line).sum()
}

/// A process with ten waiters on the lock `a`, that somebody else holds for another two seconds.
fn ten_waiters(server: &Server) -> Dialogue {
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "crowd", "a", "10", "ttl=2000", "wait=60000"]);
    assert!(worker.hear().unwrap().starts_with("ready "));
    server.cmd(&["SET", "lock:{a}", "another", "PX", "2000"]);
    worker.say("go");
    eventually("all stand in the queue", || waiting(server, "a") == 10);
    worker
}

/// While the server is in a bad state: the waiters ask now and then, and cost next to nothing.
fn assert_patient(server: &Server, worker: &Dialogue, what: &str) {
    let (commands_before, cpu_before, begin) = (commands(server), worker.process.cpu_time(), Instant::now());
    std::thread::sleep(ms(2000));
    let asked = (commands(server) - commands_before) as f64 / begin.elapsed().as_secs_f64();
    assert!(asked <= 10.0 * 20.0, "{what}: {asked} commands a second");
    let cpu = worker.process.cpu_time() - cpu_before;
    assert!(cpu < begin.elapsed() / 10, "{what}: CPU {cpu:?}");
}

/// After it: the first is served within a second, and then all.
fn assert_served_soon(mut worker: Dialogue, what: &str) {
    let begin = Instant::now();
    for number in 0..10 {
        let line = worker.hear().expect("it is served");
        assert!(line.starts_with("served "), "{what}: {line}");
        if number == 0 {
            assert!(begin.elapsed() < ms(1000) + SLACK, "{what}: {:?}", begin.elapsed());
        }
    }
    assert!(begin.elapsed() < ms(1000) + 2 * SLACK, "{what}: {:?}", begin.elapsed());
}

#[test]
fn o51_waiters_are_patient_with_a_server_that_is_read_only_or_out_of_memory() {
    type Set = fn(&Server);
    let read_only: [Set; 2] = [
        |server| drop(server.cmd(&["REPLICAOF", "127.0.0.1", "1"])),
        |server| drop(server.cmd(&["REPLICAOF", "NO", "ONE"])),
    ];
    let out_of_memory: [Set; 2] = [
        |server| drop(server.cmd(&["CONFIG", "SET", "maxmemory", "1"])),
        |server| drop(server.cmd(&["CONFIG", "SET", "maxmemory", "0"])),
    ];
    std::thread::scope(|scope| {
        for (what, [begin, end]) in [("read-only", read_only), ("out of memory", out_of_memory)] {
            scope.spawn(move || {
                let server = Server::start();
                let worker = ten_waiters(&server);
                begin(&server);
                // All look when it expires, one after the other.
                eventually("it has expired", || server.get("lock:{a}").is_none());
                std::thread::sleep(ms(500));
                assert_patient(&server, &worker, what);
                end(&server);
                assert_served_soon(worker, what);
                eventually("nothing is left", || left(&server).is_empty());
            });
        }
    });
}

/// Stops the server; it comes back with what it had, and takes a while to load it.
fn restart_loading(server: &Server) {
    server.cmd(&["SAVE"]);
    server.kill();
    server.start_with_data();
    assert!(server.try_cmd(&["GET", "a"]).unwrap().unwrap_err().starts_with("LOADING"));
}

/// A server that takes about three seconds to load its data.
fn slow_to_load() -> Server {
    let slow = ["--key-load-delay", "1500", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::with_args(&slow);
    server.cmd(&["DEBUG", "POPULATE", "2000"]);
    server
}

fn loaded(server: &Server) -> Instant {
    eventually("it has loaded", || server.try_cmd(&["GET", "a"]).unwrap().is_ok());
    Instant::now()
}

#[test]
fn o51_waiters_are_patient_with_a_server_that_is_loading() {
    let server = slow_to_load();
    let worker = ten_waiters(&server);
    restart_loading(&server);
    assert_patient(&server, &worker, "loading");
    loaded(&server);
    assert_served_soon(worker, "loading");
    eventually("nothing is left", || left(&server).is_empty());
}

#[test]
fn o61_a_loading_server_is_waited_for() {
    let server = slow_to_load();
    restart_loading(&server);
    let begin = Instant::now();
    let [patient_one, impatient] = std::array::from_fn(|_| client(&server.url()));
    let wait = wait_for(&patient_one, "a");
    let error = impatient.lock("a").wait(ms(500)).acquire().err().unwrap();
    assert!(begin.elapsed() >= ms(500) && begin.elapsed() < ms(500) + SLACK, "{:?}", begin.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("LOADING"), "{error}");
    let loaded = loaded(&server);
    let (lease, at) = wait.join().unwrap();
    assert!(at < loaded + ms(500) + SLACK, "{:?}", at - loaded);
    assert!(lease.release().unwrap());
}

#[test]
fn o61_of_three_servers_one_may_be_loading() {
    let [one, two] = Server::several::<2>();
    let loading = slow_to_load();
    restart_loading(&loading);
    let urls = [&one, &two, &loading].map(Server::url);
    let client = Client::with_options(urls, patient(ms(2000))).unwrap();
    client.ping(ms(5000)).unwrap();
    let begin = Instant::now();
    let lease = client.lock("a").wait(ms(0)).acquire().unwrap();
    assert!(begin.elapsed() < ms(70 + 200), "{:?}", begin.elapsed());
    assert!(lease.release().unwrap());
}

#[test]
fn o59_a_server_out_of_memory_says_so_and_keeps_what_is_held() {
    let server = Server::start();
    let [client, other] = std::array::from_fn(|_| client(&server.url()));
    let held = client.lock("a").ttl(ms(2000)).acquire().unwrap();
    let wait = wait_for(&other, "a");
    eventually("it stands in the queue", || waiting(&server, "a") == 1);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let begin = Instant::now();
    let error = other.lock("b").wait(ms(0)).acquire().err().unwrap();
    assert!(begin.elapsed() < ms(50 + 50) + SLACK, "{:?}", begin.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("OOM"), "{error}");
    assert_eq!(server.keys("lock:{b}*"), [""; 0]);
    // 3 s in place of 5, with a TTL of 2 s: renewed, and released.
    assert_eq!(held.wait_lost(Some(ms(3000))).unwrap(), None);
    // A script that has deleted something may write, so even the next holder gets it.
    let released = Instant::now();
    assert!(held.release().unwrap());
    let (lease, at) = wait.join().unwrap();
    assert!(at < released + SLACK, "{:?}", at - released);
    assert!(lease.release().unwrap());
    assert!(!server.exists("lock:{a}"));
    let wait = wait_for(&other, "b");
    std::thread::sleep(ms(500));
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let begin = Instant::now();
    let (lease, at) = wait.join().unwrap();
    assert!(at < begin + ms(500), "{:?}", at - begin);
    assert!(lease.release().unwrap());
    eventually("nothing is left", || left(&server).is_empty());
}

#[test]
fn o59_no_lock_is_left_where_its_fence_cannot_be_written() {
    let server = Server::start();
    let [holder, waiter] = std::array::from_fn(|_| client(&server.url()));
    let held = holder.lock("a").acquire().unwrap();
    let wait = std::thread::spawn({
        let lock = waiter.lock("a").wait(ms(20_000));
        move || lock.acquire().err().unwrap()
    });
    eventually("it stands in the queue", || waiting(&server, "a") == 1);
    server.cmd(&["DEL", "lock:{a}:fence"]);
    server.cmd(&["HSET", "lock:{a}:fence", "field", "value"]);
    // Neither handed over nor taken.
    assert!(held.release().unwrap());
    let error = wait.join().unwrap();
    eventually("the waiter has left", || waiting(&server, "a") == 0);
    let again = holder.lock("a").wait(ms(0)).acquire().err().unwrap();
    for error in [error, again] {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("lock:{a}:fence") && error.to_string().contains("hash"), "{error}");
    }
    eventually("nothing is left", || left(&server).is_empty());
}
