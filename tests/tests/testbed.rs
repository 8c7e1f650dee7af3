//! The testbed itself: what the other tests stand on.

use quorlock_tests::{Connection, Dialogue, Process, Server, Source, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

/// The command, as a test in another language uses it.
struct Testbed(Dialogue);

impl Testbed {
    fn start() -> Testbed {
        Testbed(Dialogue::start(env!("CARGO_BIN_EXE_quorlock-testbed"), &[]))
    }

    fn answer(&mut self, line: &str) -> String {
        self.0.say(line);
        self.0.hear().expect("an answer")
    }

    fn ok(&mut self, line: &str) -> String {
        let answer = self.answer(line);
        assert!(answer == "ok" || answer.starts_with("ok "), "{line}: {answer}");
        answer[2..].trim_start().to_owned()
    }
}

fn open(url: &str) -> std::io::Result<Connection> {
    let address = url.strip_prefix("redis://").unwrap().parse().unwrap();
    Connection::open(address, None, Some(Duration::from_millis(500)))
}

#[test]
fn commands_and_their_answers() {
    let mut bed = Testbed::start();
    let urls = bed.ok("servers 2");
    assert_eq!(urls.split(' ').count(), 2);
    assert_eq!(bed.ok("url 1"), urls.split(' ').nth(1).unwrap());
    assert_eq!(bed.ok(r#"cmd 0 SET "a b" "\x41\"""#), r#""OK""#);
    assert_eq!(bed.ok(r#"cmd 0 GET "a b""#), r#""A\"""#);
    assert_eq!(bed.ok("cmd 0 GET none"), "null");
    assert_eq!(bed.ok("cmd 0 DBSIZE"), "1");
    assert_eq!(bed.ok("cmd 0 MGET none"), "[null]");
    assert!(bed.answer("cmd 0 INCR none x").starts_with("error ERR"));
    assert_eq!(bed.ok("flush 0"), "");
    assert_eq!(bed.ok("cmd 0 DBSIZE"), "0");
    for wrong in ["cmd 7 PING", "cmd 0", "nonsense", "proxy-set 0 pass", "\"open", "monitor 0 stop", "servers x"] {
        assert!(bed.answer(wrong).starts_with("error "), "{wrong}");
    }
    let secret = bed.ok("server --requirepass pw");
    assert_eq!(bed.ok("cmd 2 PING"), r#""PONG""#, "the testbed logs in by itself");
    assert!(open(&secret).unwrap().call(&["PING"]).unwrap().is_err(), "nobody else does");
    let socket = bed.ok("unix");
    let path = socket.strip_prefix("unix://").unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    bed.ok("reset");
    assert!(open(&secret).is_err());
    assert!(bed.answer("cmd 0 PING").starts_with("error "));
    bed.ok("server");
    assert_eq!(bed.ok("cmd 0 PING"), r#""PONG""#);
}

#[test]
fn a_dead_server_refuses_and_comes_back_empty_on_the_same_port() {
    let mut bed = Testbed::start();
    let url = bed.ok("server --appendonly yes --appendfsync always");
    bed.ok("cmd 0 SET k v");
    bed.ok("kill 0");
    assert_eq!(open(&url).err().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
    let address = url.strip_prefix("redis://").unwrap().parse().unwrap();
    assert!(TcpSocket::new_v4().unwrap().bind(address).is_err(), "nobody else can take the port");
    bed.ok("start-with-data 0");
    eventually("its data are loaded", || bed.answer("cmd 0 GET k") == r#"ok "v""#);
    bed.ok("restart 0");
    assert_eq!(bed.ok("cmd 0 GET k"), "null");
    assert_eq!(bed.ok("url 0"), url);
    bed.ok("kill 0");
    assert!(bed.answer("kill 0").starts_with("error "));
    assert!(bed.answer("cmd 0 PING").starts_with("error "));
    bed.ok("start 0");
    assert_eq!(bed.ok("cmd 0 PING"), r#""PONG""#);
}

#[test]
fn a_frozen_server_stays_silent_and_then_goes_on() {
    let server = Server::start();
    let mut client = open(&server.url()).unwrap();
    server.freeze();
    assert!(client.call(&["SET", "k", "late"]).is_err(), "no answer within the limit");
    server.thaw();
    eventually("the command is executed after the thaw", || server.get("k").as_deref() == Some("late"));
}

#[test]
fn a_monitor_shows_clients_and_scripts_but_not_the_test() {
    let mut bed = Testbed::start();
    let url = bed.ok("server");
    bed.ok("monitor 0 start");
    assert_eq!(bed.ok("monitor 0 count"), "0");
    let mut client = open(&url).unwrap();
    client.call(&["EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "k", "a \"b\""]).unwrap().unwrap();
    bed.ok("cmd 0 GET k");
    assert_eq!(bed.ok("monitor 0 count"), "1");
    let seen: Value = serde_json::from_str(&bed.ok("monitor 0 stop")).unwrap();
    assert_eq!(
        seen,
        json!([
            ["client", "EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "k", "a \"b\""],
            ["script", "SET", "k", "a \"b\""]
        ])
    );

    let server = Server::start();
    let mut monitor = server.monitor();
    open(&server.url()).unwrap().call(&["PING"]).unwrap().unwrap();
    assert_eq!(monitor.seen().len(), 1);
    assert_eq!((monitor.seen()[0].source, monitor.seen()[0].args[0].as_str()), (Source::Client, "PING"));
    monitor.clear();
    assert_eq!(monitor.count(), 0);
}

#[test]
fn clients_are_counted_and_killed_but_not_the_test() {
    let mut bed = Testbed::start();
    let url = bed.ok("server");
    bed.ok("monitor 0 start");
    let mut plain = open(&url).unwrap();
    let mut subscriber = open(&url).unwrap();
    plain.call(&["PING"]).unwrap().unwrap();
    subscriber.call(&["SUBSCRIBE", "c"]).unwrap().unwrap();
    assert_eq!(bed.ok("clients 0"), "2");
    assert_eq!(bed.ok("kill-clients 0"), "2");
    assert!(plain.call(&["PING"]).is_err());
    assert_eq!(bed.ok("clients 0"), "0");
    bed.ok("monitor 0 stop");
}

#[test]
fn a_proxy_delays_cuts_swallows_mutes_and_refuses() {
    let mut bed = Testbed::start();
    bed.ok("server");
    let url = bed.ok("proxy 0");
    let mut client = open(&url).unwrap();
    client.call(&["PING"]).unwrap().unwrap();

    bed.ok("proxy-set 0 delay=60");
    let begin = Instant::now();
    client.call(&["PING"]).unwrap().unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(120), "both ways: {:?}", begin.elapsed());
    bed.ok("proxy-set 0 pass");

    bed.ok("proxy-set 0 mute");
    assert!(client.call(&["SET", "muted", "1"]).is_err());
    assert_eq!(bed.ok("cmd 0 GET muted"), r#""1""#, "the server got it");
    let mut client = open(&url).unwrap();
    client.call(&["PING"]).unwrap().expect("new connections pass");

    bed.ok("proxy-set 0 swallow");
    let error = client.call(&["SET", "swallowed", "1"]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "open, but silent");
    assert_eq!(bed.ok("cmd 0 GET swallowed"), "null");
    bed.ok("proxy-set 0 pass");
    assert!(client.call(&["PING"]).is_err(), "swallowed for ever");

    let mut client = open(&url).unwrap();
    client.call(&["PING"]).unwrap().unwrap();
    bed.ok("proxy-set 0 cut");
    let error = client.call(&["PING"]).unwrap_err();
    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "closed at once");
    let mut client = open(&url).unwrap();
    client.call(&["PING"]).unwrap().expect("new connections pass");

    bed.ok("proxy-set 0 refuse");
    assert!(client.call(&["PING"]).is_err());
    assert_eq!(open(&url).err().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);
    bed.ok("proxy-set 0 pass");
    open(&url).unwrap().call(&["PING"]).unwrap().unwrap();
    assert!(bed.answer("proxy-set 0 nonsense").starts_with("error "));
}

#[test]
fn a_fake_does_not_know_some_commands_and_keeps_replies_in_order() {
    let mut bed = Testbed::start();
    let url = bed.ok("server");
    let fake = bed.ok("fake 0");
    let mut stream = TcpStream::connect(fake.strip_prefix("redis://").unwrap()).unwrap();
    let pipeline = b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n*1\r\n$4\r\nPING\r\n*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n";
    // In two parts, so that a command arrives in pieces.
    stream.write_all(&pipeline[..7]).unwrap();
    stream.write_all(&pipeline[7..]).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let starts: Vec<String> = (0..4).map(|_| lines.next().unwrap()[..4].to_owned()).collect();
    assert_eq!(starts, ["-ERR", "+PON", "-ERR", "+PON"]);
    assert!(open(&url).unwrap().call(&["CLIENT", "GETNAME"]).unwrap().is_ok(), "the server itself knows it");
    let fake = bed.ok("fake 0 EVALSHA");
    assert!(open(&fake).unwrap().call(&["EVALSHA", "x", "0"]).unwrap().unwrap_err().starts_with("ERR unknown command"));
}

#[test]
fn everything_ends_at_the_end_of_input_and_when_the_parent_dies() {
    let mut bed = Testbed::start();
    let url = bed.ok("server");
    let directory = bed.ok("cmd 0 CONFIG GET dir");
    let directory = serde_json::from_str::<Vec<String>>(&directory).unwrap().remove(1);
    bed.0.finish();
    assert!(open(&url).is_err());
    assert!(!std::path::Path::new(&directory).exists(), "its files are removed");

    let mut bed = Testbed::start();
    let url = bed.ok("server");
    bed.ok("freeze 0");
    bed.0.process.kill();
    eventually("a frozen server dies with its testbed", || open(&url).is_err());

    // The shell that starts this testbed dies; the pipe of its input stays open here.
    let script = "exec 3<&0; \"$0\" <&3 & wait";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_quorlock-testbed")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    writeln!(input, "server").unwrap();
    let mut answer = String::new();
    output.read_line(&mut answer).unwrap();
    let url = answer.trim_end().strip_prefix("ok ").unwrap().to_owned();
    open(&url).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    eventually("the testbed and its server die with the shell", || open(&url).is_err());
    drop(input);
}

#[test]
fn a_child_process_outlives_the_thread_that_started_it_but_not_its_owner() {
    let process = std::thread::spawn(|| {
        let mut command = Command::new("sleep");
        command.arg("60");
        Process::start(command).unwrap()
    });
    let mut process = process.join().unwrap();
    assert!(!process.ended());
    process.freeze();
    process.thaw();
    process.kill();
    assert!(process.ended());
}
