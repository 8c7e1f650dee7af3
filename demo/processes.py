"""The processes of the demo: redis-servers and workers. None outlives the demo, whatever ends it."""

import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# The kernel ends a child when the thread that started it ends: everything is started by the main thread.
TIED = ["setpriv", "--pdeathsig", "KILL"]


def spawn(command: list[str], pipe: int | None = None) -> subprocess.Popen[str]:
    """Starts it in a session of its own: Ctrl-C is for the demo, which then ends the rest."""
    return subprocess.Popen([*TIED, *command], stdin=pipe, stdout=pipe, text=True, start_new_session=True)


class Failure(Exception):
    """The demo cannot go on; the text says why."""


class Server:
    """A redis-server on a free port of the loopback, without persistence: killed and started again it is empty."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"server {number}"
        self.log = folder / f"server-{number}.log"
        # Bound but not listening, it keeps the port for this server even while the server is down.
        self.place = socket.socket()
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.place.bind(("127.0.0.1", 0))
        self.port = self.place.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        quiet = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--logfile", str(self.log)]
        self.process = spawn(["redis-server", "--port", str(self.port), *quiet])
        deadline = time.monotonic() + 20
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"{self.name} does not start: see {self.log}")
            time.sleep(0.01)

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) == b"+PONG\r\n"
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        stop(self.process)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self.place.close()


@dataclass(frozen=True)
class Event:
    """What a worker has told: `kind` at `t` (ns of CLOCK_MONOTONIC, which all processes of a machine share)."""

    worker: "Worker"
    kind: str
    t: int
    details: dict[str, int]


class Worker:
    """A worker in one language. It tells its events to `events`, and `ended` last."""

    def __init__(self, language: str, command: list[str], events: "queue.Queue[Event]") -> None:
        self.language = language
        self.process = spawn(command, subprocess.PIPE)
        threading.Thread(target=self.listen, args=[events], daemon=True).start()

    def listen(self, events: "queue.Queue[Event]") -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            told = json.loads(line)
            events.put(Event(self, told.pop("event"), told.pop("t"), told))
        events.put(Event(self, "ended", time.monotonic_ns(), {"status": self.process.wait()}))

    def go(self) -> None:
        """Lets it go on from where it waits for an order."""
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        stop(self.process)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def stop(process: subprocess.Popen[str]) -> None:
    """SIGSTOP; returns when the process has stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
