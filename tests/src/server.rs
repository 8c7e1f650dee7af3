//! A real redis-server under control.

use crate::process::Process;
use crate::resp::{Connection, Reply};
use crate::{Monitor, Proxy};
use serde_json::Value;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;

/// Limit for anything that is asked of a server that should answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Directories of servers: this, the process that started the server, the port.
const DIRECTORY: &str = "quorlock-server-";

static SWEPT: Once = Once::new();

/// Removes what processes that were killed have left behind.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY)?.split('-').next());
        if process.is_some_and(|id| !std::path::Path::new("/proc").join(id).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// A loopback port that nobody else can take, while a server listens on it and while none does.
///
/// A bound socket that does not listen refuses connections, keeps the port from being chosen for outgoing ones, and,
/// once it allows reuse, lets one other socket listen.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    _holder: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Port {
        let holder = TcpSocket::new_v4().expect("make a socket");
        holder.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("bind to a free port");
        holder.set_reuseaddr(true).expect("allow reuse");
        Port { address: holder.local_addr().expect("the port"), _holder: holder }
    }

    /// Listens on it. A process that is being made by another thread has a copy of our sockets until its program starts:
    /// so a listener that was closed a moment ago may still be there.
    pub(crate) fn listen(&self) -> TcpListener {
        let patience = Instant::now() + PATIENCE;
        loop {
            match TcpListener::bind(self.address) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                listener => return listener.expect("listen on the reserved port"),
            }
        }
    }
}

/// One redis-server on a port of its own. Stops, and removes its files, when dropped.
pub struct Server {
    port: Port,
    args: Vec<String>,
    directory: PathBuf,
    unix: bool,
    process: Mutex<Option<Process>>,
    control: Mutex<Option<Connection>>,
    /// Addresses of the test's own connections, that a look at clients leaves out.
    own: Arc<Mutex<HashSet<String>>>,
}

impl Server {
    /// Starts a server that keeps nothing on disk.
    pub fn start() -> Server {
        Server::with_args(&[])
    }

    /// Starts a server with these arguments in addition.
    pub fn with_args(args: &[&str]) -> Server {
        Server::launch(args, false)
    }

    /// Starts a server whose URL is a unix socket.
    pub fn on_unix_socket(args: &[&str]) -> Server {
        Server::launch(args, true)
    }

    /// Starts `N` servers.
    pub fn several<const N: usize>() -> [Server; N] {
        std::array::from_fn(|_| Server::start())
    }

    fn launch(args: &[&str], unix: bool) -> Server {
        SWEPT.call_once(sweep);
        let port = Port::reserve();
        let directory = std::env::temp_dir().join(format!("{DIRECTORY}{}-{}", std::process::id(), port.address.port()));
        let server = Server {
            port,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            directory,
            unix,
            process: Mutex::default(),
            control: Mutex::default(),
            own: Arc::default(),
        };
        server.start_with_data();
        server
    }

    /// The URL, without a password.
    pub fn url(&self) -> String {
        if self.unix { format!("unix://{}", self.socket().display()) } else { format!("redis://{}", self.address()) }
    }

    /// The TCP address.
    pub fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// SIGSTOP: it accepts connections (the kernel does) and stays silent.
    pub fn freeze(&self) {
        self.process.lock().unwrap().as_ref().expect("it runs").freeze();
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.process.lock().unwrap().as_ref().expect("it runs").thaw();
    }

    /// SIGKILL. From here on its port refuses connections.
    pub fn kill(&self) {
        let process = self.process.lock().unwrap().take();
        process.expect("it runs").kill();
        *self.control.lock().unwrap() = None;
    }

    /// Starts it after a kill, with the same port and arguments, empty.
    pub fn start_empty(&self) {
        std::fs::remove_dir_all(&self.directory).expect("remove its files");
        self.start_with_data();
    }

    /// Starts it after a kill, with what it kept on disk.
    pub fn start_with_data(&self) {
        std::fs::create_dir_all(&self.directory).expect("make its directory");
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &self.address().port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"]);
        command.arg("--dir").arg(&self.directory).arg("--logfile").arg(self.directory.join("log"));
        if self.unix {
            command.arg("--unixsocket").arg(self.socket());
        }
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process::start(command).expect("start redis-server: is it installed?");
        let patience = Instant::now() + PATIENCE;
        while let Err(error) = self.try_cmd(&["PING"]) {
            if process.ended() || Instant::now() > patience {
                let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                panic!("redis-server did not start: {error}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        *self.process.lock().unwrap() = Some(process);
    }

    /// One command. Panics if there is no reply, or an error reply.
    pub fn cmd<A: AsRef<[u8]>>(&self, args: &[A]) -> Value {
        let reply = self.try_cmd(args).unwrap_or_else(|error| panic!("{}: {error}", self.address()));
        reply.unwrap_or_else(|error| panic!("{}: {error}", self.address()))
    }

    /// One command; the outer error says that no reply came.
    pub fn try_cmd<A: AsRef<[u8]>>(&self, args: &[A]) -> std::io::Result<Reply> {
        let mut slot = self.control.lock().unwrap();
        if slot.is_none() {
            *slot = Some(self.connect(Some(PATIENCE))?);
        }
        let result = slot.as_mut().expect("it was filled").call(args);
        if result.is_err() {
            *slot = None;
        }
        result
    }

    /// A connection of the test's own.
    pub(crate) fn connect(&self, limit: Option<Duration>) -> std::io::Result<Connection> {
        let password = self.args.iter().skip_while(|arg| *arg != "--requirepass").nth(1);
        let connection = Connection::open(self.address(), password.map(String::as_str), limit)?;
        self.own.lock().unwrap().insert(connection.local_address()?.to_string());
        Ok(connection)
    }

    pub(crate) fn own(&self) -> Arc<Mutex<HashSet<String>>> {
        self.own.clone()
    }

    /// Whether `key` exists.
    pub fn exists(&self, key: &str) -> bool {
        self.cmd(&["EXISTS", key]) == 1
    }

    /// The string at `key`.
    pub fn get(&self, key: &str) -> Option<String> {
        self.cmd(&["GET", key]).as_str().map(str::to_owned)
    }

    /// Milliseconds until `key` expires; -1 without an expiry, -2 without the key.
    pub fn pttl(&self, key: &str) -> i64 {
        self.cmd(&["PTTL", key]).as_i64().expect("PTTL gives a number")
    }

    /// Every key that matches `pattern`, sorted.
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let keys = self.cmd(&["KEYS", pattern]);
        let mut keys: Vec<String> =
            keys.as_array().into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)).collect();
        keys.sort();
        keys
    }

    /// The clients' connections by id, without the test's own.
    pub fn clients(&self) -> Vec<String> {
        let list = self.cmd(&["CLIENT", "LIST"]);
        let own = self.own.lock().unwrap();
        let field = |line: &str, name: &str| {
            line.split(' ').find_map(|f| f.strip_prefix(name)?.strip_prefix('=').map(str::to_owned)).unwrap_or_default()
        };
        let lines = list.as_str().unwrap_or_default().lines();
        lines.filter(|line| !own.contains(&field(line, "addr"))).map(|line| field(line, "id")).collect()
    }

    /// Closes every client's connection, of whatever type; gives how many were hit.
    pub fn kill_clients(&self) -> usize {
        self.clients().iter().filter(|id| self.cmd(&["CLIENT", "KILL", "ID", id.as_str()]) == 1).count()
    }

    /// Begins to record what clients send.
    pub fn monitor(&self) -> Monitor {
        Monitor::start(self)
    }

    /// A proxy in front of it.
    pub fn proxy(&self) -> Proxy {
        Proxy::start(self.address(), &[])
    }

    /// A front that answers `-ERR unknown command` to these commands and passes on all others.
    pub fn front_without(&self, commands: &[&str]) -> Proxy {
        Proxy::start(self.address(), commands)
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.lock().unwrap().take());
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
