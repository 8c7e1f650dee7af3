#!/usr/bin/env python3
"""Runs the examples of every language against real servers, and the code blocks of the README.

    examples/test.py [words]          only the tests whose names have one of these words: rust, long_work, readme, ...

`make test-examples` runs it. It installs the packages as a user would, below target/examples: the wheel and the npm
tarball from DIST (what `make wheel npm` makes: target/dist/PROFILE), and the C library into a prefix. PROFILE is the
cargo profile, ci by default.
"""

import contextlib
import http.client
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROFILE = os.environ.get("PROFILE", "ci")
DIST = Path(os.environ.get("DIST", TARGET / "dist" / PROFILE)).absolute()
WORK = TARGET / "examples"
PYTHON = str(WORK / "venv/bin/python")
PREFIX = str(WORK / "prefix")
TESTBED = str(TARGET / PROFILE / "quorlock-testbed")
LANGUAGES = ["rust", "python", "node", "c"]

TTL = 3.0
"""The TTL in every long_work."""
SLACK = 3.0
"""What a loaded machine may add to a time."""
EXPIRED = r"\(expired\)|deadline has passed|reason 1"
"""How the examples say that the deadline has passed."""


# What a user does before the first program.


def run(*argv: object, cwd: Path = ROOT, **env: str) -> None:
    subprocess.run([str(word) for word in argv], cwd=cwd, env=os.environ | env, check=True)


def c_environment() -> dict[str, str]:
    return {"PKG_CONFIG_PATH": f"{PREFIX}/lib/pkgconfig", "LD_LIBRARY_PATH": f"{PREFIX}/lib"}


def the(pattern: str) -> Path:
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"{len(found)} {pattern} in {DIST}: run `make wheel npm PROFILE={PROFILE}`"
    return found[0]


def prepare() -> None:
    """Builds and installs everything, into new folders."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    build = ("cargo", "build", "--quiet", "--profile", PROFILE)
    run(*build, "-p", "quorlock-tests", "--bin", "quorlock-testbed")
    run(*build, "-p", "quorlock-examples")

    run(sys.executable, "-m", "venv", WORK / "venv")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", the("*.whl"))

    node = WORK / "node"
    shutil.copytree(EXAMPLES / "node", node, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", the("*.tgz"), cwd=node)

    run(*build, "-p", "quorlock-c")
    run("bindings-c/install.sh", TARGET / PROFILE, PREFIX=PREFIX)
    (WORK / "c").mkdir()
    run("make", "--silent", "-f", EXAMPLES / "c/Makefile", f"VPATH={EXAMPLES / 'c'}", cwd=WORK / "c", **c_environment())


def program(language: str, name: str) -> list[str]:
    """How to start an example."""
    match language:
        case "rust":
            return [str(TARGET / PROFILE / name)]
        case "python":
            return [PYTHON, str(EXAMPLES / f"python/{name}.py")]
        case "node":
            return ["node", str(WORK / f"node/{name}.js")]
        case _:
            return [str(WORK / f"c/{name}")]


class Bed:
    """Servers of one test."""

    def __enter__(self) -> "Bed":
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([TESTBED], stdin=pipe, stdout=pipe, text=True, bufsize=1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def ask(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        status, _, answer = self._process.stdout.readline().rstrip("\n").partition(" ")
        assert status == "ok", f"{line}: {answer}"
        return answer

    def servers(self, count: int) -> str:
        """Starts them; gives REDIS_URLS."""
        return self.ask(f"servers {count}").replace(" ", ",")

    def everywhere(self, command: str) -> list[str]:
        """The answers of all three servers."""
        return [self.ask(f"cmd {server} {command}") for server in range(3)]


class Process:
    """A program that runs; killed at the end, and after a minute whatever happens."""

    def __init__(self, argv: list[str], urls: str, cwd: str | None = None, **env: str) -> None:
        environment = os.environ | c_environment() | {"REDIS_URLS": urls} | env
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=cwd)
        self._limit = threading.Timer(60, self._process.kill)

    def __enter__(self) -> "Process":
        self._limit.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._limit.cancel()

    def until(self, beginning: str) -> str:
        """Waits for a line that begins so, and gives the rest of it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line.removeprefix(beginning).strip()
        raise AssertionError(f"it ended without {beginning!r}: {self.end()}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Waits for the end; gives the exit code and what was not read yet."""
        output, errors = self._process.communicate()
        return self._process.returncode, output, errors


# The tests: one function a program.


def fenced_write(language: str) -> None:
    """A write under the lock arrives; the late one of a holder that was frozen past its TTL is refused."""
    with Bed() as bed, tempfile.TemporaryDirectory() as folder:
        urls = bed.servers(3)
        database = f"{folder}/orders.db"

        def writer(*arguments: str) -> Process:
            return Process([*program(language, "fenced_write"), database, *arguments], urls)

        def stored() -> tuple[str, int]:
            with contextlib.closing(sqlite3.connect(database)) as db:
                state, fence = db.execute("SELECT state, fence FROM orders WHERE id = 42").fetchone()
                return state, fence

        with writer("new") as first:
            fence = int(first.until("holding the lock with fence "))
            code, output, errors = first.end()
            assert (code, output) == (0, "written\n"), (code, output, errors)
        assert stored() == ("new", fence)

        with writer("paid late", "3") as slow:
            stale = int(slow.until("holding the lock with fence "))
            slow.signal(signal.SIGSTOP)
            with writer("paid") as quick:
                newer = int(quick.until("holding the lock with fence "))
                code, _, errors = quick.end()
                assert code == 0, errors
            assert newer > stale > fence
            slow.signal(signal.SIGCONT)
            code, output, errors = slow.end()
            assert code == 1 and "refused" in errors and "written" not in output, (code, output, errors)
        assert stored() == ("paid", newer)


def http_handler(language: str) -> None:
    """200 if the lock is free; 503 after 5 s if it is not, while other orders go on; 503 if the servers are down."""
    with Bed() as bed, handler(language, bed.servers(3)) as post, ThreadPoolExecutor() as pool:
        assert post("orders/42") == (200, None)

        # Held by somebody else: any Redis client.
        bed.everywhere('SET "lock:{orders/42}" somebody NX PX 60000')
        began = time.monotonic()
        busy = pool.submit(post, "orders/42")
        assert post("orders/43") == (200, None)
        assert not busy.done()
        assert busy.result() == (503, "1")
        assert 5 <= time.monotonic() - began < 5 + SLACK

        bed.everywhere('DEL "lock:{orders/42}"')
        assert post("orders/42") == (200, None)

        bed.ask("kill 0")
        bed.ask("kill 1")
        began = time.monotonic()
        assert post("orders/42") == (503, "1")
        assert 5 <= time.monotonic() - began < 5 + SLACK


@contextlib.contextmanager
def handler(language: str, urls: str) -> Iterator[Callable[[str], tuple[int, str | None]]]:
    """A function that asks the handler for one order and gives the status and Retry-After."""
    command = program(language, "http_handler")
    if language == "c":

        def cgi(order: str) -> tuple[int, str | None]:
            with Process(command, urls, PATH_INFO=f"/{order}") as process:
                code, output, errors = process.end()
                assert code == 0, errors
            headers = dict(line.split(": ", 1) for line in output.split("\n\n")[0].splitlines())
            return int(headers["Status"].split()[0]), headers.get("Retry-After")

        yield cgi
        return

    with Process(command, urls, PORT="0") as server:
        address = server.until("listening on http://")

        def post(order: str) -> tuple[int, str | None]:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("POST", f"/{order}")
            response = connection.getresponse()
            response.read()
            connection.close()
            return response.status, response.getheader("Retry-After")

        yield post


def long_work_ends(language: str) -> None:
    """It works to its end, and renews on the way; then nobody holds the lock."""
    with Bed() as bed, long_work(language, bed.servers(3), parts=40) as work:
        code, output, errors = work.end()
        assert code == 0 and output.endswith("done\n"), (code, output, errors)
        nothing_left(bed)


def long_work_when_the_key_is_gone(language: str) -> None:
    """It stops when the next renewal finds out, before the TTL is over."""
    with Bed() as bed, long_work(language, bed.servers(3)) as work:
        work.until("part 1 ")
        bed.everywhere('DEL "lock:{reports/daily}"')
        errors = stops_within(TTL + SLACK, work, time.monotonic())
        assert not re.search(EXPIRED, errors), errors


def long_work_when_the_servers_freeze(language: str) -> None:
    """It stops when the TTL is over, although no server says anything."""
    with Bed() as bed, long_work(language, bed.servers(3)) as work:
        work.until("part 1 ")
        frozen = time.monotonic()
        bed.ask("freeze 0")
        bed.ask("freeze 1")
        errors = stops_within(TTL + SLACK, work, frozen)
        assert re.search(EXPIRED, errors), errors


def long_work_at_sigterm(language: str) -> None:
    """It stops, without an error, and leaves no lock behind."""
    with Bed() as bed, long_work(language, bed.servers(3)) as work:
        work.until("part 1 ")
        work.signal(signal.SIGTERM)
        code, output, errors = work.end()
        assert code == 0 and output.endswith("stopped\n"), (code, output, errors)
        nothing_left(bed)


def long_work(language: str, urls: str, parts: int = 1000) -> Process:
    return Process([*program(language, "long_work"), str(parts)], urls)


def stops_within(limit: float, work: Process, since: float) -> str:
    """The work ends because of a loss; gives what it said about that."""
    code, output, errors = work.end()
    took = time.monotonic() - since
    assert code == 2 and "lost the lock" in errors and "stopped\n" not in output, (code, output, errors)
    assert took < limit, took
    return errors


def nothing_left(bed: Bed) -> None:
    """The release has been answered by a majority; the last server may be a moment late."""
    end = time.monotonic() + 1
    while (found := bed.everywhere('EXISTS "lock:{reports/daily}"')) != ["0", "0", "0"]:
        assert found.count("0") >= 2 and time.monotonic() < end, found
        time.sleep(0.01)


# The README.


def blocks(language: str) -> list[str]:
    """The code blocks of one language."""
    text = (ROOT / "README.md").read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"README has no {language} block"
    return found


def readme(language: str) -> None:
    """Every block is a program that runs. `redis://localhost`, `redis://a` and so on are servers of the test, and the
    folder has an orders.db with order 42, which a program that writes it leaves as paid."""
    if language == "rust":
        command = ["cargo", "test", "--quiet", "--profile", PROFILE, "-p", "quorlock-examples", "--doc"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        number = (ROOT / "README.md").read_text().count("\n```rust,no_run\n")
        assert done.returncode == 0 and f" {number} passed" in done.stdout, done.stdout + done.stderr
        return
    for number, block in enumerate(blocks({"node": "js"}.get(language, language))):
        with Bed() as bed, tempfile.TemporaryDirectory() as folder:
            urls = bed.servers(3).split(",")
            for name, url in zip(["localhost", "a", "b", "c"], [urls[0], *urls]):
                block = re.sub(rf"redis://{name}\b", url, block)
            database = sqlite3.connect(f"{folder}/orders.db")
            with database:
                database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)")
                database.execute("INSERT INTO orders VALUES (42, 'new', 0)")
            with Process(readme_program(language, number, block, folder), "", cwd=folder) as process:
                code, output, errors = process.end()
                assert code == 0, (block, code, output, errors)
            state, fence = database.execute("SELECT state, fence FROM orders").fetchone()
            database.close()
            if "orders.db" in block:
                assert state == "paid" and fence > 0, (block, state, fence)


def readme_program(language: str, number: int, block: str, folder: str) -> list[str]:
    match language:
        case "python":
            return [PYTHON, "-c", block]
        case "node":
            file = WORK / f"node/readme_{number}.js"
            file.write_text(block)
            return ["node", str(file)]
        case _:
            source, binary = Path(folder, "readme.c"), f"{folder}/readme"
            source.write_text(block)
            flags = subprocess.check_output(
                ["pkg-config", "--cflags", "--libs", "quorlock"], text=True, env=os.environ | c_environment()
            )
            run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", binary, *flags.split())
            return [binary]


def documents(_: str) -> None:
    """The tables of README and ARCHITECTURE name what exists, and all of it; every `make` target exists."""
    text = (ROOT / "README.md").read_text()
    core = (ROOT / "core/src/options.rs").read_text()
    header = (ROOT / "include/quorlock.h").read_text()
    node = (ROOT / "bindings-node/index.d.ts").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\|$", section(text, "Options"), re.MULTILINE)
    fields = re.findall(r"^    pub (\w+): Option", core.split("pub enum Unit")[0], re.MULTILINE)
    assert set(rows) == set(fields) - {"language"}, set(rows) ^ set(fields)
    for name in rows:
        assert re.search(rf"  {re.sub(r'_(.)', lambda m: m[1].upper(), name)}\?:", node), f"{name} in index.d.ts"
        assert re.search(rf" \*?{name}(_ms)?;", header), f"{name} in quorlock.h"

    errors = section(text, "Errors")
    ours = subprocess.check_output(
        [PYTHON, "-c", "import quorlock; print(*(n for n in quorlock.__all__ if n.endswith('Error')))"], text=True
    )
    for name in set(re.findall(r"`(\w+Error)`", errors)) - {"CancelledError", "AbortError"}:
        assert name in ours.split(), name
    for name in set(re.findall(r"`(QUORLOCK_\w+)`", errors)):
        assert name in header, name
        assert name in node or name == "QUORLOCK_CANCELLED", name


    architecture = section((ROOT / "ARCHITECTURE.md").read_text(), "The core, file by file")
    named = set(re.findall(r"`(\w+\.rs)`", architecture))
    files = {path.name for path in (ROOT / "core/src").glob("*.rs")}
    assert named == files, named ^ files

    targets = (ROOT / "Makefile").read_text()
    text += (ROOT / "CONTRIBUTING.md").read_text()
    for target in set(re.findall(r"\bmake ([\w-]+)", " ".join(re.findall(r"`[^`\n]+`", text)))):
        assert f"\n{target}:" in targets, f"make {target}"


def readme_rights(_: str) -> None:
    """The user of the README has the rights to do everything: with a label, a renewal and a quorum."""
    (line,) = blocks("redis")
    verbs = """
import os, time, quorlock
with quorlock.Client(os.environ["REDIS_URLS"].split(","), label="rights") as client:
    with client.lock("job", ttl=1) as lease:
        assert client.try_acquire("job") is None
        time.sleep(0.7)
        lease.extend(2)
        lease.confirm()
    assert all(status.error is None for status in client.ping(1))
"""
    with Bed() as bed:
        urls = bed.servers(3).replace("redis://", "redis://locks:secret@")
        bed.everywhere(line.strip())
        with Process([PYTHON, "-c", verbs], urls) as process:
            code, output, errors = process.end()
        assert code == 0, (output, errors)
        assert bed.everywhere("ACL LOG") == ["[]"] * 3


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def main(words: list[str]) -> int:
    programs = [
        fenced_write,
        http_handler,
        long_work_ends,
        long_work_when_the_key_is_gone,
        long_work_when_the_servers_freeze,
        long_work_at_sigterm,
        readme,
    ]
    tests: list[tuple[str, Callable[[str], None], str]]
    tests = [(f"{test.__name__} {language}", test, language) for test in programs for language in LANGUAGES]
    tests += [("documents", documents, ""), ("readme_rights", readme_rights, "")]
    tests = [test for test in tests if not words or any(word in test[0] for word in words)]
    prepare()

    def passes(test: tuple[str, Callable[[str], None], str]) -> bool:
        name, function, language = test
        began = time.monotonic()
        try:
            function(language)
        except Exception:
            print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            return False
        print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
        return True

    # They wait more than they work.
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(passes, tests))
    print(f"examples: {results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
