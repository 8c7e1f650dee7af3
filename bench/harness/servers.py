"""Real redis-servers: started, stopped, killed, and asked what they did."""
import contextlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from .options import A

S = []  # the five of this run


def free_base_port():
    """Below the range that the system gives to outgoing connections: a killed server must get its port back."""
    while True:
        base = random.randrange(20000, 32000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for i in range(5):
                stack.enter_context(socket.create_server(("127.0.0.1", base + i)))
            return base


class Server:
    def __init__(self, port):
        self.port, self.p = port, None

    def start(self):
        self.p = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", A.tmp, "--loglevel", "warning"], stdout=subprocess.DEVNULL)
        end = time.time() + 5
        while time.time() < end and self.p.poll() is None:
            with contextlib.suppress(OSError):
                if f"process_id:{self.p.pid}\r" in self.cmd("INFO", "server"):
                    return
            time.sleep(0.01)
        sys.exit(f"redis-server on {self.port} did not come up, or the port is another's")

    def cmd(self, *a):
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as s:
            s.sendall(b"*%d\r\n" % len(a) + b"".join(b"$%d\r\n%s\r\n" % (len(x), x) for x in (str(y).encode() for y in a)))
            f = s.makefile("rb")
            h = f.readline().rstrip()
            if h[:1] == b"$":
                return f.read(int(h[1:])).decode() if int(h[1:]) >= 0 else None
            return h[1:].decode()

    def stop(self):
        self.p.send_signal(signal.SIGSTOP)

    def cont(self):
        self.p.send_signal(signal.SIGCONT)

    def kill(self):
        if self.p and self.p.poll() is None:
            self.p.send_signal(signal.SIGCONT)
            self.p.kill()
            self.p.wait()

    def heal(self):
        if self.p.poll() is None:
            self.cont()
        else:
            self.start()
        self.cmd("FLUSHALL")

    def stats(self, field="calls"):
        """By command, since RESETSTAT: `calls`, or `usec` of execution. Counts commands inside scripts too."""
        r = {}
        for line in self.cmd("INFO", "commandstats").splitlines():
            m = re.match(rf"cmdstat_([\w|]+):.*\b{field}=(\d+)", line)
            if m and m[1] not in ("info", "config|resetstat", "monitor"):
                r[m[1]] = int(m[2])
        return r

    def cpu_us(self):
        t = self.cmd("INFO", "cpu")
        return sum(float(re.search(rf"used_cpu_{k}:([\d.]+)", t)[1]) for k in ("sys", "user")) * 1e6


class Monitor(threading.Thread):
    """What MONITOR prints (never during a timed run)."""

    def __init__(self, srv):
        super().__init__(daemon=True)
        self.s = socket.create_connection(("127.0.0.1", srv.port))
        self.s.sendall(b"MONITOR\r\n")
        self.buf = []
        self.s.recv(5)
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                b = self.s.recv(1 << 20)
                if not b:
                    return
                self.buf.append(b)

    def end(self):
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            self.s.shutdown(socket.SHUT_RDWR)
        self.join(2)
        self.s.close()
        return b"".join(self.buf).decode("utf-8", "replace").split("\r\n")
