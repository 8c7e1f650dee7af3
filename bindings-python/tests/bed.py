"""Real servers for the tests, through `quorlock-testbed` (see tests/README.md at the top of the repository)."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

ROOT = Path(__file__).resolve().parents[2]


def quoted(word: object) -> str:
    """A word of the testbed's language."""
    return '"' + str(word).replace("\\", "\\\\").replace('"', '\\"') + '"'


class Bed:
    """One testbed process."""

    def __init__(self) -> None:
        program = os.environ.get("QUORLOCK_TESTBED", str(ROOT / "target/ci/quorlock-testbed"))
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def raw(self, line: str) -> str:
        """The whole answer to one line, `ok…` or `error…`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        return self._process.stdout.readline().rstrip("\n")

    def ask(self, *words: object) -> str:
        line = " ".join(quoted(word) for word in words)
        status, _, answer = self.raw(line).partition(" ")
        assert status == "ok", f"{line}: {answer}"
        return answer

    def servers(self, count: int, *arguments: object) -> list[str]:
        return self.ask("servers", count, *arguments).split()

    def server(self, *arguments: object) -> str:
        return self.ask("server", *arguments)

    def cmd(self, server: int, *words: object) -> Any:
        return json.loads(self.ask("cmd", server, *words))

    def commands(self, server: int) -> list[list[str]]:
        """Ends the recording, and gives what was recorded: `[origin, command, arguments…]` each."""
        found: list[list[str]] = json.loads(self.ask("monitor", server, "stop"))
        return found

    def close(self) -> None:
        self._process.communicate(timeout=30)


def connect(url: str) -> Any:
    """A plain client, to look at the keys."""
    return redis.Redis.from_url(url, decode_responses=True)


def until(condition: Callable[[], object], limit: float = 5.0) -> None:
    """Waits for what can only be observed by looking."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s"
        time.sleep(0.002)


def python(code: str, *arguments: str) -> "subprocess.Popen[str]":
    """A Python of its own, running `code`. Warnings are errors there; pipes for input, output and errors."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)


def line(process: "subprocess.Popen[str]") -> str:
    """The next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: "subprocess.Popen[str]", text: str = "") -> tuple[str, str]:
    """Gives it `text` and waits for its end: the rest of its output, and its errors. (`communicate` would lose what
    `line` has read ahead.)"""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        with process:
            process.stdin.write(text)
            process.stdin.close()
            return process.stdout.read(), process.stderr.read()
    finally:
        killer.cancel()
