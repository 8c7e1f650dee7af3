//! Field cases: what grows with the number of names, of waiters, and with time, on either side.

use quorlock::blocking::Client;
use quorlock::{ErrorKind, Wait};
use quorlock_tests::{Dialogue, Server, eventually, left, ms, patient, waiting};
use serde_json::json;
use std::time::Instant;

const WORKER: &str = env!("CARGO_BIN_EXE_quorlock-worker");
const MIB: i64 = 1 << 20;

/// Lets a worker in the mode `names` go up to this number; gives how many it took and how many it could not take.
fn up_to(worker: &mut Dialogue, number: usize) -> (usize, usize) {
    worker.say(&number.to_string());
    let line = worker.hear().expect("it goes on");
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words[0], "done", "{line}");
    (words[2].parse().unwrap(), words[3].parse().unwrap())
}

#[test]
fn o46_no_memory_is_kept_for_a_name() {
    // 40,000 names more after the first 4,000, and 2 MiB, in place of 180,000 and 10 MiB: 52 bytes a name.
    let server = Server::start();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "names", "a"]);
    assert_eq!(up_to(&mut worker, 4_000), (4_000, 0));
    let before = worker.process.resident();
    assert_eq!(up_to(&mut worker, 44_000), (40_000, 0));
    let growth = worker.process.resident() - before;
    assert!(growth < 2 * MIB, "{growth} bytes");
    assert!(worker.finish());
}

#[test]
fn o46_no_memory_is_kept_for_a_name_that_was_busy() {
    let server = Server::start();
    let hold = "for i = ARGV[1], ARGV[2] - 1 do redis.call('SET', 'lock:{b' .. i .. '}', 'another', 'PX', 600000) end";
    server.cmd(&["EVAL", hold, "0", "0", "11000"]);
    // With a wait each of them stands in the queue for a while.
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "names", "b", "wait=30"]);
    assert_eq!(up_to(&mut worker, 1_000), (0, 1_000));
    let before = worker.process.resident();
    assert_eq!(up_to(&mut worker, 11_000), (0, 10_000));
    let growth = worker.process.resident() - before;
    assert!(growth < MIB, "{growth} bytes");
    eventually("no queue is left", || server.keys("*:queue").is_empty());
    assert!(worker.finish());
}

#[test]
fn o47_no_memory_is_kept_for_a_long_wait() {
    // 5 s in place of 60, but with a TTL so short that each waiter looks many times; on a quorum they ask all the time.
    std::thread::scope(|scope| {
        for count in [1, 3] {
            scope.spawn(move || {
                let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
                let urls: Vec<String> = servers.iter().map(Server::url).collect();
                let holder = Client::with_options(&urls[..], patient(ms(1000))).unwrap();
                let held = holder.lock("a").ttl(ms(1000)).acquire().unwrap();
                let crowd = [&urls.join(","), "crowd", "a", "51", "ttl=1000", "wait=60000"];
                let mut worker = Dialogue::start(WORKER, &crowd);
                assert!(worker.hear().unwrap().starts_with("ready "));
                worker.say("go");
                if count == 1 {
                    eventually("all stand in the queue", || waiting(&servers[0], "a") == 51);
                }
                std::thread::sleep(ms(1000));
                let before = worker.process.resident();
                std::thread::sleep(ms(4000));
                let growth = worker.process.resident() - before;
                assert!(growth < MIB / 2, "{count} servers: {growth} bytes");
                assert!(held.release().unwrap());
                assert!((0..51).all(|_| worker.hear().unwrap().starts_with("served ")));
            });
        }
    });
}

#[test]
fn o47_the_error_of_a_long_wait_is_short() {
    for count in [1, 3] {
        let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
        let urls: Vec<String> = servers.iter().map(Server::url).collect();
        let [holder, waiter] = std::array::from_fn(|_| Client::with_options(&urls[..], patient(ms(400))).unwrap());
        let _held = holder.lock("a").ttl(ms(400)).acquire().unwrap();
        let waited = waiter.lock("a").ttl(ms(400)).wait(ms(2000)).acquire().err().unwrap();
        assert_eq!(waited.kind(), ErrorKind::Busy);
        assert!(waited.attempts() > 3, "it has asked many times: {waited}");
        assert_eq!(waited.servers().len(), count);
        let once = waiter.lock("a").ttl(ms(400)).wait(ms(0)).acquire().err().unwrap();
        assert!(waited.to_string().len() < once.to_string().len() + 10, "{waited}\n{once}");
        assert!(format!("{waited:?}").len() < format!("{once:?}").len() + 20, "{waited:?}\n{once:?}");
    }
}

/// Memory in use on the server.
fn used_memory(server: &Server) -> i64 {
    let info = server.cmd(&["INFO", "memory"]);
    let line = info.as_str().unwrap().lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it says so");
    line.parse().unwrap()
}

#[test]
fn o48_a_server_keeps_a_fence_for_a_day_and_nothing_else() {
    // 10,000 names in place of 100,000, and 2 MiB / 10.
    const NAMES: i64 = 10_000;
    let server = Server::start();
    let mut worker = Dialogue::start(WORKER, &[&server.url(), "names", "a"]);
    assert_eq!(up_to(&mut worker, 100), (100, 0));
    server.cmd(&["FLUSHALL"]);
    let before = used_memory(&server);
    assert_eq!(up_to(&mut worker, 100 + NAMES as usize), (NAMES as usize, 0));
    assert_eq!(left(&server), [""; 0]);
    let fences = server.keys("lock:*:fence");
    assert_eq!(fences.len(), NAMES as usize);
    let day = 24 * 3600 * 1000;
    for fence in fences.iter().step_by(100) {
        let pttl = server.pttl(fence);
        assert!(pttl > day - 60_000 && pttl < day + 60_000, "{fence} lives for {pttl} ms");
    }
    let each = (used_memory(&server) - before) / NAMES;
    assert!(each < 250, "{each} bytes a fence");
    // A day later.
    let expire = "for _, key in ipairs(redis.call('KEYS', 'lock:*:fence')) do redis.call('PEXPIRE', key, 1) end";
    server.cmd(&["EVAL", expire, "0"]);
    eventually("the fences are gone", || server.keys("lock:*:fence").is_empty());
    // The table of keys shrinks when its turn comes.
    eventually("the memory is back", || used_memory(&server) - before < 2 * MIB / 10);
    assert!(worker.finish());
}

#[test]
fn o48_a_server_keeps_nothing_of_a_wait() {
    let servers = Server::several::<4>();
    let [urls @ .., single] = servers.each_ref().map(Server::url);
    let clients = [vec![single], urls.to_vec()]
        .map(|urls| std::array::from_fn::<_, 2, _>(|_| Client::with_options(&urls[..], patient(ms(2000))).unwrap()));
    std::thread::scope(|scope| {
        for [holder, waiter] in &clients {
            for number in 0..20 {
                scope.spawn(move || {
                    let name = format!("a{number}");
                    let held = holder.lock(&name).acquire().unwrap();
                    // One wait of two is in vain.
                    let error = waiter.lock(&name).wait(ms(300)).acquire().err().unwrap();
                    assert_eq!(error.kind(), ErrorKind::Busy);
                    let lock = waiter.lock(&name).wait(Wait::Forever);
                    let next = std::thread::spawn(move || lock.acquire().unwrap().release().unwrap());
                    std::thread::sleep(ms(100));
                    assert!(held.release().unwrap() && next.join().unwrap());
                });
            }
        }
    });
    let ended = Instant::now();
    let listening = || servers.iter().any(|server| server.cmd(&["PUBSUB", "CHANNELS"]) != json!([]));
    while listening() {
        assert!(ended.elapsed() < ms(5000 + 1000), "somebody still listens");
        std::thread::sleep(ms(50));
    }
    for server in &servers {
        let mut left = left(server);
        left.retain(|key| key != "lock:boot");
        assert_eq!(left, [""; 0]);
        assert_eq!(server.keys("lock:*:fence").len(), 20);
    }
}
