//! What clients have sent to a server.

use crate::resp::Connection;
use crate::server::Server;
use crate::words;
use std::collections::HashSet;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Where a command came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A connection.
    Client,
    /// A script.
    Script,
}

/// One command that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where it came from.
    pub source: Source,
    /// Its words; not quite the bytes where these are no UTF-8.
    pub args: Vec<String>,
}

/// Records the commands that a server gets, without those of the test itself, until it is dropped.
///
/// The server leaves out AUTH and its administrative commands.
pub struct Monitor {
    marker: Connection,
    own: Arc<Mutex<HashSet<String>>>,
    socket: TcpStream,
    lines: mpsc::Receiver<String>,
    thread: Option<JoinHandle<()>>,
    seen: Vec<Seen>,
    marks: u64,
}

impl Monitor {
    pub(crate) fn start(server: &Server) -> Monitor {
        let marker = server.connect(Some(Duration::from_secs(5))).expect("connect for marks");
        let mut connection = server.connect(None).expect("connect for MONITOR");
        connection.call(&["MONITOR"]).expect("send MONITOR").expect("MONITOR is allowed");
        let socket = connection.socket().expect("a second handle");
        let (sender, lines) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            while let Ok(Ok(line)) = connection.read() {
                let _ = sender.send(line.as_str().unwrap_or_default().to_owned());
            }
        });
        Monitor { marker, own: server.own(), socket, lines, thread: Some(thread), seen: Vec::new(), marks: 0 }
    }

    /// Everything since the start, in order: all that the server got before this call is in it.
    pub fn seen(&mut self) -> &[Seen] {
        // Our own ECHO comes back through the same stream: what came before it has been read then.
        self.marks += 1;
        let mark = format!("mark {}", self.marks);
        self.marker.call(&["ECHO", &mark]).expect("the server answers").expect("ECHO is allowed");
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(5)).expect("the monitor sees our own command");
            let (source, args) = parse(&line);
            if self.own.lock().unwrap().contains(source) {
                if args.last() == Some(&mark) {
                    return &self.seen;
                }
            } else {
                let source = if source == "lua" { Source::Script } else { Source::Client };
                self.seen.push(Seen { source, args });
            }
        }
    }

    /// How many commands clients have sent, not counting those inside of scripts.
    pub fn count(&mut self) -> usize {
        self.seen().iter().filter(|seen| seen.source == Source::Client).count()
    }

    /// Forgets what was seen so far.
    pub fn clear(&mut self) {
        self.seen();
        self.seen.clear();
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads `1700000000.123456 [0 127.0.0.1:50000] "SET" "k" "v"`: the source and the words.
fn parse(line: &str) -> (&str, Vec<String>) {
    let (head, args) = line.split_once("] ").unwrap_or((line, ""));
    let source = head.split_once(" [").and_then(|(_, place)| place.split_once(' ')).map_or("", |(_, source)| source);
    let args = words::split_escaped(args).unwrap_or_default();
    (source, args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect())
}
