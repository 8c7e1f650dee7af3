"""The processes of the kill run: servers and workers. None outlives it, whatever ends it."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from judge import Event, Failure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = 60.0
"""For what must happen at all: processes that start, or end."""


def spawn(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """The kernel ends it when this program ends."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdout=subprocess.PIPE, text=True, **options)


class Servers:
    """The lock's redis-servers, with a record of what they do, and last the store's, all by quorlock-testbed."""

    def __init__(self, n: int) -> None:
        testbed = os.environ.get("QUORLOCK_TESTBED", ROOT / "target/ci/quorlock-testbed")
        self._bed = spawn([str(testbed)], stdin=subprocess.PIPE, bufsize=1)
        *self.lock, self.store = self._ask(f"servers {n + 1}").split()
        self.frozen: int | None = None
        """The lock's server that is stopped: never more than one."""
        self.store_cmd("FUNCTION", "LOAD", (HERE / "store.lua").read_text())
        self._own: list[set[int]] = []
        self.monitors: list[list[str]] = []
        """What the clients of each, and their scripts, have done, with the server's time."""
        for server in range(n):
            self._watch(server)

    def _watch(self, server: int) -> None:
        watch = socket.create_connection(("127.0.0.1", port_of(self.lock[server])))
        lines = watch.makefile(errors="replace", newline="\r\n")
        watch.sendall(b"CLIENT ID\r\nMONITOR\r\n")
        self._own.append({int(lines.readline()[1:]), self.cmd(server, "CLIENT", "ID")})
        if lines.readline() != "+OK\r\n":
            raise Failure("the server refuses MONITOR")
        monitor: list[str] = []
        self.monitors.append(monitor)
        threading.Thread(target=record, args=[lines, monitor], daemon=True).start()

    def complete_records(self) -> None:
        """Returns when the records have all that has happened before."""
        deadline = time.monotonic() + PATIENCE
        for server, monitor in enumerate(self.monitors):
            self.cmd(server, "ECHO", "the end of the record")
            while not any("the end of the record" in line for line in monitor[-1000:]):
                if time.monotonic() > deadline:
                    raise Failure("a server's record has broken off")
                time.sleep(0.01)

    def freeze(self, server: int) -> None:
        self._ask(f"freeze {server}")
        self.frozen = server

    def thaw(self) -> None:
        if self.frozen is not None:
            self._ask(f"thaw {self.frozen}")
            self.frozen = None

    def _ask(self, line: str) -> str:
        assert self._bed.stdin and self._bed.stdout
        self._bed.stdin.write(line + "\n")
        status, _, answer = self._bed.stdout.readline().rstrip("\n").partition(" ")
        if status != "ok":
            raise Failure(f"{line}: {answer}")
        return answer

    def cmd(self, server: int, *words: object) -> Any:
        """The reply of a Redis command."""
        return json.loads(self._ask(f"cmd {server} {' '.join(json.dumps(str(word)) for word in words)}"))

    def store_cmd(self, *words: object) -> Any:
        return self.cmd(len(self.lock), *words)

    def journal(self) -> list[str]:
        """What the store has accepted and refused so far."""
        return [str(line) for line in self.store_cmd("LRANGE", "journal", 0, -1)]

    def connections(self, server: int) -> list[int]:
        """Of one of the lock's servers, without those of this program."""
        lines = str(self.cmd(server, "CLIENT", "LIST")).splitlines()
        numbers = (int(line.split()[0].removeprefix("id=")) for line in lines)
        return [number for number in numbers if number not in self._own[server]]

    def close(self) -> None:
        self._bed.communicate(timeout=PATIENCE)


def record(lines: TextIO, into: list[str]) -> None:
    for line in lines:
        into.append(line)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


class Worker:
    """One process, and what it told and suffered."""

    def __init__(self, name: str, command: list[str], stderr: TextIO) -> None:
        self.name = name
        self.language = name.split("-")[0]
        self.events: list[Event] = []
        self._process = spawn(command, stderr=stderr)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            # A worker that is killed may leave half a line.
            if line.endswith("\n"):
                word, t, *detail = line.split()
                self.events.append(Event(float(t), word, " ".join(detail)))

    def _note(self, word: str) -> None:
        self.events.append(Event(time.time(), word, ""))

    @property
    def told(self) -> str:
        """The last word; "" before the first, which says that it is at work."""
        return self.events[-1].word if self.events else ""

    @property
    def status(self) -> int | None:
        return self._process.poll()

    # A worker counts as one that waits only where it certainly runs: noted before a signal that ends that, after one
    # that begins it.

    def kill(self) -> None:
        self._note("killed")
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def stop(self) -> None:
        self._note("stopped")
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._note("continued")

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def ended(self, deadline: float) -> int:
        """Its exit status."""
        try:
            status = self._process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} does not end after SIGTERM; it told {self.told} last") from None
        self._listener.join()
        return status
