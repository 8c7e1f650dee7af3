//! Child processes that can be stopped and never outlive this one.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

/// A child process; killed when dropped, and when this process dies.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command`.
    pub fn start(mut command: Command) -> io::Result<Process> {
        // A child is killed when the *thread* that made it ends; tests run on short-lived threads, so one thread that
        // never ends makes all children.
        type Request = (Command, mpsc::Sender<io::Result<Child>>);
        static MAKER: LazyLock<mpsc::Sender<Request>> = LazyLock::new(|| {
            let (requests, queue) = mpsc::channel::<Request>();
            std::thread::spawn(move || {
                for (mut command, reply) in queue {
                    let _ = reply.send(command.spawn());
                }
            });
            requests
        });
        #[allow(unsafe_code)]
        // SAFETY: the closure makes one system call, which is allowed between fork and exec.
        unsafe {
            command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        let (reply, answer) = mpsc::channel();
        MAKER.send((command, reply)).expect("the thread that makes children never ends");
        Ok(Process { child: answer.recv().expect("it answers each request")? })
    }

    /// SIGSTOP; returns when the process has stopped.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        rustix::process::waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)
            .expect("wait for the stop");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// CPU time that its threads have used so far.
    pub fn cpu_time(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let of_thread = |thread: io::Result<std::fs::DirEntry>| {
            // Nothing of a thread that has just ended. `NANOSECONDS …`
            let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        };
        threads.filter_map(of_thread).sum()
    }

    /// Memory that it has in use (RSS), in bytes.
    pub fn resident(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse::<i64>().expect("a number") * 1024
    }

    /// Whether it has ended by itself.
    pub fn ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("signal a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A child process with which a test talks line by line: a `quorlock-worker` or a `quorlock-testbed`.
pub struct Dialogue {
    /// The process.
    pub process: Process,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Dialogue {
    /// Starts the program at `path` (in a test: `env!("CARGO_BIN_EXE_quorlock-worker")`).
    pub fn start(path: &str, args: &[&str]) -> Dialogue {
        let mut command = Command::new(path);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command).expect("start the program");
        let input = process.child.stdin.take();
        let output = BufReader::new(process.child.stdout.take().expect("its output is a pipe")).lines();
        Dialogue { process, input, output }
    }

    /// Writes one line to its input.
    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_ref().expect("its input is a pipe"), "{line}").expect("write to the program");
    }

    /// Waits for the next line of its output; `None` at its end.
    pub fn hear(&mut self) -> Option<String> {
        self.output.next().map(|line| line.expect("read from the program"))
    }

    /// Ends its input and waits for its end; gives whether that was a good one.
    pub fn finish(mut self) -> bool {
        self.input = None;
        self.process.child.wait().expect("wait for the program").success()
    }
}

/// Time since boot: the same clock in every process of the machine.
pub fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Waits for what happens without us, looking every 5 ms for at most 10 s.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < patience, "not within 10 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
