//! Field cases: scripts, databases, handshakes, keys and the last fence.

use quorlock::ErrorKind;
use quorlock::blocking::Client;
use quorlock_tests::{Server, eventually, ms, patient};
use std::time::Instant;

#[test]
fn o32_a_server_may_forget_its_scripts_at_any_time() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    client.lock("a").acquire().unwrap().release().unwrap();
    let mut monitor = server.monitor();
    for _ in 0..100 {
        let flush = || server.cmd(&["SCRIPT", "FLUSH"]);
        flush();
        let lease = client.lock("a").acquire().unwrap();
        flush();
        lease.extend(None).unwrap();
        flush();
        lease.confirm().unwrap();
        flush();
        assert!(lease.release().unwrap());
        assert!(!server.exists("lock:{a}"));
    }
    assert!(monitor.count() <= 100 * 4 * 3, "at most two commands more for each call: {}", monitor.count());
}

#[test]
fn o34_the_database_is_kept_on_every_connection() {
    let tcp = Server::start();
    let unix = Server::on_unix_socket(&[]);
    for (server, url) in [(&tcp, format!("{}/5", tcp.url())), (&unix, format!("{}?db=5", unix.url()))] {
        let client = Client::with_options(&url, patient(ms(2000))).unwrap();
        let first = client.lock("a").acquire().unwrap();
        assert!(server.kill_clients() >= 1);
        let second = client.lock("b").wait(ms(5000)).acquire().unwrap();
        assert_eq!(server.cmd(&["DBSIZE"]), 0, "{url}");
        let in_five = "redis.call('SELECT', 5) return redis.call('EXISTS', 'lock:{a}', 'lock:{b}')";
        assert_eq!(server.cmd(&["EVAL", in_five, "0"]), 2, "{url}");
        assert!(first.release().unwrap() && second.release().unwrap());
    }
}

#[test]
fn o35_servers_without_hello_and_client_are_good_enough() {
    let server = Server::start();
    let fronts = [
        server.front_without(&["HELLO", "CLIENT"]),
        server.front_without(&["HELLO"]),
        server.front_without(&["CLIENT"]),
    ];
    for front in fronts {
        let client = Client::with_options(front.url(), patient(ms(2000))).unwrap();
        let lease = client.lock("a").wait(ms(2000)).acquire().unwrap();
        lease.extend(None).unwrap();
        lease.confirm().unwrap();
        assert!(lease.release().unwrap());
        assert!(client.ping(ms(1000)).unwrap()[0].answer.is_ok());
    }
}

#[test]
fn o56_a_name_may_equal_a_data_key() {
    let server = Server::start();
    let client = Client::with_options(server.url(), patient(ms(2000))).unwrap();
    server.cmd(&["HSET", "account:42", "field", "value"]);
    let lease = client.lock("account:42").acquire().unwrap();
    assert!(lease.release().unwrap());
    server.cmd(&["HSET", "lock:{account:43}", "field", "value"]);
    let begin = Instant::now();
    let error = client.lock("account:43").wait(ms(5000)).acquire().err().unwrap();
    assert!(begin.elapsed() < ms(50 + 250), "{:?}", begin.elapsed());
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("lock:{account:43}") && error.to_string().contains("hash"), "{error}");
    for key in ["account:42", "lock:{account:43}"] {
        assert_eq!(server.cmd(&["HGET", key, "field"]), "value");
    }
}

#[test]
fn o57_the_key_of_a_name_is_the_same_everywhere() {
    let server = Server::start();
    // Every key; of a client's registration only what is the same in each run.
    let keys = |server: &Server| -> Vec<String> {
        let shown = |key: String| key.find("client:").map_or(key.clone(), |at| format!("{}client:…", &key[..at]));
        server.keys("*").into_iter().map(shown).collect()
    };
    let [a, b] = std::array::from_fn(|_| Client::with_options(server.url(), patient(ms(2000))).unwrap());
    let lease = a.lock("orders/42 ü").acquire().unwrap();
    assert_eq!(keys(&server), ["lock:client:…", "lock:{orders/42 ü}", "lock:{orders/42 ü}:fence"]);
    assert_eq!(b.lock("orders/42 ü").wait(ms(0)).acquire().err().unwrap().kind(), ErrorKind::Busy);
    assert!(lease.release().unwrap());
    server.cmd(&["FLUSHALL"]);
    let options = || quorlock::ClientOptions { prefix: Some("shop/".to_owned()), ..patient(ms(2000)) };
    let [a, b] = std::array::from_fn(|_| Client::with_options(server.url(), options()).unwrap());
    let lease = a.lock("orders/42 ü").acquire().unwrap();
    assert_eq!(keys(&server), ["shop/client:…", "shop/{orders/42 ü}", "shop/{orders/42 ü}:fence"]);
    assert!(b.lock("orders/42 ü").try_acquire().unwrap().is_none());
    assert!(lease.release().unwrap());
}

#[test]
fn o73_the_last_fence_is_exact_and_then_the_lock_is_refused() {
    for count in [1, 3] {
        let servers: Vec<Server> = (0..count).map(|_| Server::start()).collect();
        for server in &servers {
            server.cmd(&["SET", "lock:{a}:fence", &((1u64 << 53) - 2).to_string()]);
        }
        let client =
            Client::with_options(servers.iter().map(Server::url).collect::<Vec<_>>(), patient(ms(2000))).unwrap();
        let lease = client.lock("a").acquire().unwrap();
        assert_eq!(lease.as_async().fence(), (1 << 53) - 1);
        lease.extend(None).unwrap();
        assert!(lease.release().unwrap());
        let error = client.lock("a").wait(ms(5000)).acquire().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("fence exhausted") && error.to_string().contains("lock:{a}"), "{error}");
        // On a quorum the release of the slowest server may still be under way.
        eventually("no lock is left", || servers.iter().all(|server| !server.exists("lock:{a}")));
    }
}
