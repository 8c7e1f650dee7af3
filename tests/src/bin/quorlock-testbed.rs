//! Servers, proxies and a look at clients for tests in other languages: see tests/README.md.

use quorlock_tests::{Monitor, Proxy, Server, Source, words};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

type Answer = Result<String, String>;

#[derive(Default)]
struct Testbed {
    servers: Vec<Server>,
    monitors: HashMap<usize, Monitor>,
    proxies: Vec<Proxy>,
    fakes: Vec<Proxy>,
}

fn main() {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("set the signal for the parent's death");
    // The library panics where a test would fail; here the text of the panic is the answer.
    std::panic::set_hook(Box::new(|_| ()));
    let mut testbed = Testbed::default();
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let answer = catch_unwind(AssertUnwindSafe(|| testbed.run(&line))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
        });
        let answer = match answer {
            Ok(text) if text.is_empty() => "ok".to_owned(),
            Ok(text) => format!("ok {text}"),
            Err(text) => format!("error {text}"),
        };
        if writeln!(output, "{}", answer.replace(['\r', '\n'], " ")).and_then(|()| output.flush()).is_err() {
            break;
        }
    }
}

impl Testbed {
    fn run(&mut self, line: &str) -> Answer {
        let words = words::split_escaped(line)?;
        let text: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let text: Vec<&str> = text.iter().map(|word| &**word).collect();
        let done = Ok(String::new());
        match text[..] {
            ["servers", count, ref args @ ..] => {
                let count: usize = count.parse().map_err(|_| format!("not a number of servers: {count}"))?;
                let urls: Vec<_> = (0..count).map(|_| self.add(Server::with_args(args))).collect();
                Ok(urls.join(" "))
            }
            ["server", ref args @ ..] => Ok(self.add(Server::with_args(args))),
            ["unix", ref args @ ..] => Ok(self.add(Server::on_unix_socket(args))),
            ["url", i] => Ok(self.server(i)?.url()),
            [what @ ("freeze" | "thaw" | "kill" | "start" | "start-with-data" | "restart" | "flush"), i] => {
                act(self.server(i)?, what);
                done
            }
            ["cmd", i, _, ..] => {
                let reply = self.server(i)?.try_cmd(&words[2..]).map_err(|error| error.to_string())?;
                reply.map(|value| value.to_string())
            }
            ["kill-clients", i] => Ok(self.server(i)?.kill_clients().to_string()),
            ["clients", i] => Ok(self.server(i)?.clients().len().to_string()),
            ["monitor", i, "start"] => {
                let monitor = self.server(i)?.monitor();
                self.monitors.insert(index(i)?, monitor);
                done
            }
            ["monitor", i, "count"] => {
                let monitor = self.monitors.get_mut(&index(i)?).ok_or("no monitor was started there")?;
                Ok(monitor.count().to_string())
            }
            ["monitor", i, "stop"] => {
                let mut monitor = self.monitors.remove(&index(i)?).ok_or("no monitor was started there")?;
                let commands = monitor.seen().iter().map(|seen| {
                    let source = if seen.source == Source::Client { "client" } else { "script" };
                    std::iter::once(source).chain(seen.args.iter().map(String::as_str)).collect::<Value>()
                });
                Ok(commands.collect::<Value>().to_string())
            }
            ["proxy", i] => {
                let proxy = self.server(i)?.proxy();
                let url = proxy.url();
                self.proxies.push(proxy);
                Ok(url)
            }
            ["proxy-set", k, what] => {
                let proxy = self.proxies.get(index(k)?).ok_or_else(|| format!("no proxy {k}"))?;
                fault(proxy, what)?;
                done
            }
            ["fake", i, ref names @ ..] => {
                let names = if names.is_empty() { &["HELLO", "CLIENT"] } else { names };
                let fake = self.server(i)?.front_without(names);
                let url = fake.url();
                self.fakes.push(fake);
                Ok(url)
            }
            ["reset"] => {
                *self = Testbed::default();
                done
            }
            _ => Err(format!("not a command: {line}")),
        }
    }

    fn add(&mut self, server: Server) -> String {
        let url = server.url();
        self.servers.push(server);
        url
    }

    fn server(&self, i: &str) -> Result<&Server, String> {
        self.servers.get(index(i)?).ok_or_else(|| format!("no server {i}"))
    }
}

fn act(server: &Server, what: &str) {
    match what {
        "freeze" => server.freeze(),
        "thaw" => server.thaw(),
        "kill" => server.kill(),
        "start" => server.start_empty(),
        "start-with-data" => server.start_with_data(),
        "flush" => drop(server.cmd(&["FLUSHALL"])),
        _ => {
            server.kill();
            server.start_empty();
        }
    }
}

fn fault(proxy: &Proxy, what: &str) -> Result<(), String> {
    match what.split_once('=').unwrap_or((what, "")) {
        ("pass", "") => proxy.pass(),
        ("cut", "") => proxy.cut(),
        ("swallow", "") => proxy.swallow(),
        ("mute", "") => proxy.mute(),
        ("refuse", "") => proxy.refuse(),
        ("delay", ms) => proxy.delay(Duration::from_millis(ms.parse().map_err(|_| format!("not a delay: {what}"))?)),
        _ => return Err(format!("no such fault: {what}")),
    }
    Ok(())
}

fn index(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("not an index: {text}"))
}
