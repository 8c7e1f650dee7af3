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
    """Two redis-servers, by quorlock-testbed: the lock's, with a record of what it does, and the store's."""

    def __init__(self) -> None:
        testbed = os.environ.get("QUORLOCK_TESTBED", ROOT / "target/ci/quorlock-testbed")
        self._bed = spawn([str(testbed)], stdin=subprocess.PIPE, bufsize=1)
        self.lock, self.store = self._ask("servers 2").split()
        self.cmd(1, "FUNCTION", "LOAD", (HERE / "store.lua").read_text())
        watch = socket.create_connection(("127.0.0.1", port_of(self.lock)))
        lines = watch.makefile(errors="replace", newline="\r\n")
        watch.sendall(b"CLIENT ID\r\nMONITOR\r\n")
        self._own = {int(lines.readline()[1:]), self.cmd(0, "CLIENT", "ID")}
        if lines.readline() != "+OK\r\n":
            raise Failure("the server refuses MONITOR")
        self.monitor: list[str] = []
        """What its clients and their scripts have done, with the server's time."""
        threading.Thread(target=self._record, args=[lines], daemon=True).start()

    def _record(self, lines: TextIO) -> None:
        for line in lines:
            self.monitor.append(line)

    def complete_record(self) -> None:
        """Returns when the record has all that has happened before."""
        self.cmd(0, "ECHO", "the end of the record")
        deadline = time.monotonic() + PATIENCE
        while not any("the end of the record" in line for line in self.monitor[-1000:]):
            if time.monotonic() > deadline:
                raise Failure("the server's record has broken off")
            time.sleep(0.01)

    def _ask(self, line: str) -> str:
        assert self._bed.stdin and self._bed.stdout
        self._bed.stdin.write(line + "\n")
        status, _, answer = self._bed.stdout.readline().rstrip("\n").partition(" ")
        if status != "ok":
            raise Failure(f"{line}: {answer}")
        return answer

    def cmd(self, server: int, *words: object) -> Any:
        """The reply of a Redis command, to server 0 (the lock's) or 1 (the store's)."""
        return json.loads(self._ask(f"cmd {server} {' '.join(json.dumps(str(word)) for word in words)}"))

    def connections(self) -> list[int]:
        """Of the lock's server, without those of this program."""
        lines = str(self.cmd(0, "CLIENT", "LIST")).splitlines()
        return [i for i in (int(line.split()[0].removeprefix("id=")) for line in lines) if i not in self._own]

    def close(self) -> None:
        self._bed.communicate(timeout=PATIENCE)


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
