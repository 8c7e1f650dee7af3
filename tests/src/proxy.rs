//! A TCP proxy that misbehaves on demand.

use crate::resp;
use crate::server::Port;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// All proxies of the process; apart from the runtime of the clients under test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime for proxies")
});

/// What becomes of one connection's data.
const PASS: u8 = 0;
const MUTE: u8 = 1;
const SWALLOW: u8 = 2;

/// Stands between clients and one server. Closes everything when dropped.
pub struct Proxy {
    port: Port,
    shared: Arc<Shared>,
    listening: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    server: SocketAddr,
    without: Vec<String>,
    delay: Mutex<Duration>,
    late: Mutex<Option<(String, Duration)>>,
    links: Mutex<Vec<Link>>,
}

/// One connection through the proxy.
struct Link {
    fate: Arc<AtomicU8>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr, without: &[&str]) -> Proxy {
        let shared = Shared {
            server,
            without: without.iter().map(|name| name.to_ascii_uppercase()).collect(),
            delay: Mutex::default(),
            late: Mutex::default(),
            links: Mutex::default(),
        };
        let proxy = Proxy { port: Port::reserve(), shared: Arc::new(shared), listening: Mutex::default() };
        proxy.pass();
        proxy
    }

    /// Its URL, to be used in place of the server's.
    pub fn url(&self) -> String {
        format!("redis://{}", self.port.address)
    }

    /// Back to normal, without delay. Connections that were ended or swallowed stay so.
    pub fn pass(&self) {
        self.delay(Duration::ZERO);
        let mut listening = self.listening.lock().unwrap();
        if listening.is_none() {
            let listener = self.port.listen();
            listener.set_nonblocking(true).expect("set non-blocking");
            let shared = self.shared.clone();
            *listening = Some(RUNTIME.spawn(async move {
                let listener = TcpListener::from_std(listener).expect("hand over the listener");
                while let Ok((client, _)) = listener.accept().await {
                    shared.clone().link(client);
                }
            }));
        }
    }

    /// Everything that arrives from now on is passed on this much later, each way.
    pub fn delay(&self, delay: Duration) {
        *self.shared.delay.lock().unwrap() = delay;
    }

    /// On connections made from now on, this command (its name) reaches the server this much later, and with it all that
    /// follow it on its connection.
    pub fn delay_command(&self, name: &str, delay: Duration) {
        *self.shared.late.lock().unwrap() = Some((name.to_ascii_uppercase(), delay));
    }

    /// Closes the connections of the moment at both ends; new ones pass.
    pub fn cut(&self) {
        // Taken in a statement of its own: a task that is being ended may be waiting for this lock.
        let tasks = self.shared.links.lock().unwrap().drain(..).map(|link| link.task).collect();
        end(tasks);
    }

    /// The connections of the moment stay open but carry nothing any more; new ones pass.
    pub fn swallow(&self) {
        self.set_fate(SWALLOW);
    }

    /// As [`Proxy::swallow`], but the server still gets the commands: only replies are lost.
    pub fn mute(&self) {
        self.set_fate(MUTE);
    }

    /// Closes the connections of the moment and refuses new ones, until [`Proxy::pass`].
    pub fn refuse(&self) {
        let listening = self.listening.lock().unwrap().take();
        end(listening.into_iter().collect());
        self.cut();
    }

    fn set_fate(&self, fate: u8) {
        for link in self.shared.links.lock().unwrap().iter() {
            link.fate.store(fate, Ordering::SeqCst);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
    }
}

/// Aborts tasks and waits until what they held is closed.
fn end(tasks: Vec<JoinHandle<()>>) {
    let (done, ended) = mpsc::channel();
    RUNTIME.spawn(async move {
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        let _ = done.send(());
    });
    ended.recv().expect("the proxies' runtime runs");
}

impl Shared {
    fn link(self: Arc<Shared>, client: TcpStream) {
        let fate = Arc::new(AtomicU8::new(PASS));
        let shared = self.clone();
        let own_fate = fate.clone();
        let task = RUNTIME.spawn(async move {
            let Ok(server) = TcpStream::connect(shared.server).await else { return };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let _ = tokio::join!(
                shared.pump(from_client, to_server, &own_fate, SWALLOW, true),
                shared.pump(from_server, to_client, &own_fate, MUTE, false),
            );
        });
        let mut links = self.links.lock().unwrap();
        links.retain(|link| !link.task.is_finished());
        links.push(Link { fate, task });
    }

    /// Carries one direction until its end; a fate of `lost_at` or worse throws its data away.
    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        fate: &AtomicU8,
        lost_at: u8,
        commands: bool,
    ) -> std::io::Result<()> {
        let (queue, mut due) = tokio::sync::mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
        let late = self.late.lock().unwrap().clone().filter(|_| commands);
        let read = async move {
            let mut pending = Vec::new();
            let mut chunk = vec![0; 1 << 16];
            loop {
                let length = from.read(&mut chunk).await.unwrap_or(0);
                if fate.load(Ordering::SeqCst) >= lost_at {
                    if length == 0 {
                        // The other end must not learn of it.
                        std::future::pending::<()>().await;
                    }
                    continue;
                }
                if length == 0 {
                    return;
                }
                pending.extend_from_slice(&chunk[..length]);
                let now = Instant::now() + *self.delay.lock().unwrap();
                if let Some((name, delay)) = &late {
                    while let Some((args, length)) = resp::unpack(&pending) {
                        let is_late = args.first().is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
                        let delay = if is_late { *delay } else { Duration::ZERO };
                        let _ = queue.send((now + delay, pending.drain(..length).collect()));
                    }
                } else if commands && !self.without.is_empty() {
                    let _ = queue.send((now, self.rewrite(&mut pending)));
                } else {
                    let _ = queue.send((now, std::mem::take(&mut pending)));
                }
            }
        };
        let write = async move {
            while let Some((at, bytes)) = due.recv().await {
                tokio::time::sleep_until(at).await;
                // Swallowed while it was on its way.
                if fate.load(Ordering::SeqCst) < lost_at {
                    to.write_all(&bytes).await?;
                }
            }
            to.shutdown().await
        };
        tokio::join!(read, write).1
    }

    /// Takes the complete commands out of `pending`. An unwanted one becomes a name that no server knows, so that the
    /// server itself gives the error, in its place among the replies.
    fn rewrite(&self, pending: &mut Vec<u8>) -> Vec<u8> {
        let mut ready = Vec::new();
        while let Some((args, length)) = resp::unpack(pending) {
            let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
            if self.without.iter().any(|unwanted| unwanted.as_bytes() == name) {
                ready.extend(resp::pack(&["NO-SUCH-COMMAND"]));
            } else {
                ready.extend_from_slice(&pending[..length]);
            }
            pending.drain(..length);
        }
        ready
    }
}
