"""A peer's process, and how to talk to it (README.md: worker protocol)."""
import contextlib
import json
import os
import selectors
import signal
import subprocess
import time

from .options import BENCH, PEERS, QUICK_CFG, A


class Hung(Exception):
    pass


class Worker:
    def __init__(self, peer, ports, variant="default", **cfg):
        self.peer, d = peer, PEERS[peer]
        argv = [x.format(CACHE=A.cache, BENCH=BENCH) for x in d["run"]]
        cfg = {"peer": peer, "ports": ports, "variant": variant, **d.get("cfg", {}), **QUICK_CFG, **cfg}
        env = dict(os.environ, NODE_PATH=os.path.join(A.cache, "env", d["needs"], "node_modules"),
                   PYTHONDONTWRITEBYTECODE="1")
        self.err = open(os.path.join(A.tmp, f"{peer}.stderr"), "ab")
        self.p = subprocess.Popen(argv + [json.dumps(cfg)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=self.err, env=env)
        self.buf, self.sel = b"", selectors.DefaultSelector()
        os.set_blocking(self.p.stdout.fileno(), False)
        self.sel.register(self.p.stdout, selectors.EVENT_READ)
        self.info = None

    def ready(self):
        self.info = self.recv(15)["info"]
        return self

    def send(self, **c):
        try:
            self.p.stdin.write(json.dumps(c).encode() + b"\n")
            self.p.stdin.flush()
        except OSError as e:
            raise Hung("worker died") from e

    def recv(self, timeout):
        end = time.time() + timeout
        while b"\n" not in self.buf:
            if not self.sel.select(max(0, end - time.time())):
                raise Hung(f"no answer in {timeout:.0f} s")
            b = self.p.stdout.read()
            if b == b"":
                raise Hung(f"worker died, exit {self.p.wait()}")
            self.buf += b or b""
        line, self.buf = self.buf.split(b"\n", 1)
        return json.loads(line)

    def ask(self, timeout=60, **c):
        self.send(**c)
        return self.recv(timeout)

    def close(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGCONT)
            self.p.kill()
        self.p.wait()
        self.p.stdout.close()
        with contextlib.suppress(OSError):
            self.p.stdin.close()
        self.err.close()
        self.sel.close()


@contextlib.contextmanager
def workers(n, *a, **k):
    ws = [Worker(*a, **k) for _ in range(n)]
    try:
        yield [w.ready() for w in ws]
    finally:
        for w in ws:
            w.close()
