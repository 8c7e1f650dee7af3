"""Runs the scenarios that every language runs (tests/conformance/README.md), blocking and with asyncio."""

import asyncio
import inspect
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bed import ROOT, Bed, quoted

import quorlock

FOLDER = ROOT / "tests/conformance"
TESTBED_STEPS = "freeze thaw kill start restart cmd flush kill-clients clients monitor".split()
WORD = re.compile(r'(?:"(?:\\.|[^"\\])*"(?:\*\d+)?|[^\s"])+')
PIECE = re.compile(r'"((?:\\.|[^"\\])*)"(?:\*(\d+))?|([^"]+)')
TIMES = {"ttl", "wait", "server_timeout", "claim_window", "max_hold", "timeout", "drain"}


def words(text: str) -> list[str]:
    def piece(match: re.Match[str]) -> str:
        if match[3] is not None:
            return match[3]
        return re.sub(r"\\(.)", r"\1", match[1]) * int(match[2] or 1)

    return ["".join(piece(match) for match in PIECE.finditer(word)) for word in WORD.findall(text)]


def options(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, _, value in (word.partition("=") for word in given):
        if key in TIMES:
            found[key] = None if value == "forever" else int(value) / 1000
        elif key in ("renew", "exact_keys"):
            found[key] = value == "on"
        else:
            found[key] = float(value) if key == "drift" else value
    return found


class Loop:
    """A loop that runs on a thread of its own; `finish` awaits what is awaitable there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def finish(self, value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value

        async def wait() -> Any:
            return await value

        return asyncio.run_coroutine_threadsafe(wait(), self.loop).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Outcome:
    """What an actor's step came to: a word or a value, or an error, with the time that it took."""

    def __init__(self, step: Callable[[], Any]) -> None:
        begin = time.monotonic()
        self.error: quorlock.QuorlockError | None = None
        self.value: Any = None
        try:
            self.value = step()
        except quorlock.QuorlockError as error:
            self.error = error
        self.ms = (time.monotonic() - begin) * 1000

    def __repr__(self) -> str:
        return f"{self.error!r} or {self.value!r} in {self.ms:.1f} ms"


class Scenario:
    def __init__(self, bed: Bed, kind: Any, finish: Callable[[Any], Any]) -> None:
        self.bed, self.kind, self.finish = bed, kind, finish
        self.urls: list[str] = []
        self.clients: dict[str, Any] = {}
        self.slots: dict[str, Any] = {}
        self.kept: list[Any] = []
        self.jobs: dict[str, Future[Outcome]] = {}
        self.variables: dict[str, str] = {}
        self.pool = ThreadPoolExecutor(16)

    def close(self) -> None:
        for client in self.clients.values():
            self.finish(client.close())
        self.pool.shutdown()

    def line(self, text: str) -> None:
        command, _, expected = (part.strip() for part in text.partition(" -> "))
        first, *rest = command.split(maxsplit=1)
        tail = rest[0] if rest else ""
        if first == "servers":
            answer = self.bed.raw(command)
            assert answer.startswith("ok"), answer
            self.urls = answer.split()[1:]
        elif first == "&":
            job, step = tail.split(maxsplit=1)
            self.client(words(step)[0])
            self.jobs[job] = self.pool.submit(self.actor, step)
        elif first == "join":
            self.check(self.jobs.pop(tail).result(60), expected)
        elif first == "running":
            assert not self.jobs[tail].done(), self.jobs[tail].result()
        elif first == "pause":
            time.sleep(int(tail) / 1000)
        elif first == "until":
            limit, step = tail.split(maxsplit=1)
            end = time.monotonic() + int(limit) / 1000
            while True:
                try:
                    return self.step(step, expected)
                except AssertionError:
                    if time.monotonic() > end:
                        raise
                time.sleep(0.01)
        else:
            self.step(command, expected)

    def step(self, command: str, expected: str) -> None:
        first = command.split()[0]
        if first == "client":
            self.check(Outcome(lambda: self.make(words(command)[1:])), expected)
        elif first in TESTBED_STEPS:
            self.testbed(self.filled(command), self.filled(expected))
        else:
            self.check(self.actor(command), expected)

    def filled(self, text: str) -> str:
        return re.sub(r"\$([A-Z][A-Z0-9]*)", lambda match: self.variables[match[1]], text)

    def testbed(self, command: str, expected: str) -> None:
        status, _, answer = self.bed.raw(command).partition(" ")
        if expected.startswith("error "):
            assert status == "error" and expected[6:] in answer, answer
            return
        assert status == "ok", answer
        if match := re.fullmatch(r"(\d+)\.\.(\d+)", expected):
            assert int(match[1]) <= int(answer) <= int(match[2]), answer
        elif match := re.fullmatch(r"store ([A-Z][A-Z0-9]*)", expected):
            self.variables[match[1]] = answer
        elif expected:
            assert answer == expected, answer

    def make(self, given: list[str]) -> str:
        actor, *rest = given
        chosen = options(rest)
        urls = [self.urls[int(n)] for n in chosen.pop("servers").split(",")] if "servers" in chosen else self.urls
        user, password, db = (chosen.pop(key, "") for key in ("user", "password", "db"))
        login = f"{user}:{password}@" if user or password else ""
        urls = [url.replace("//", f"//{login}") + (f"/{db}" if db else "") for url in urls]
        self.clients[actor] = self.kind(urls, **chosen)
        return "ok"

    def client(self, slot: str) -> Any:
        actor = slot.split(".")[0]
        if actor not in self.clients:
            self.make([actor])
        return self.clients[actor]

    def actor(self, step: str) -> Outcome:
        slot, verb, *rest = words(step)
        client = self.client(slot)
        return Outcome(lambda: self.call(client, slot, verb, rest))

    def call(self, client: Any, slot: str, verb: str, rest: list[str]) -> Any:
        if verb in ("acquire", "try"):
            method = client.acquire if verb == "acquire" else client.try_acquire
            lease = self.finish(method(rest[0], **options(rest[1:])))
            if lease is not None:
                self.kept.append(lease)
                self.slots[slot] = lease
            return lease
        if verb == "inspect":
            lock = self.finish(client.inspect(rest[0]))
            if rest[1] == "language":
                return "known" if lock.holder and lock.holder.language else "none"
            if rest[1] == "label":
                return (lock.holder and lock.holder.label) or "none"
            return str(lock.waiters) if rest[1] == "waiters" else getattr(lock, rest[1])
        if verb == "break":
            return self.finish(client.break_lock(rest[0]))
        if verb == "ping":
            statuses = self.finish(client.ping(**({"timeout": 1.0} | options(rest))))
            return f"up={sum(status.error is None for status in statuses)}"
        if verb == "close":
            return self.finish(client.close(**options(rest))) or "ok"
        lease = self.slots[slot]
        if verb == "await-lost":
            self.finish(lease.wait_lost(int(rest[0]) / 1000))
            return lease.lost_reason or "none"
        if verb in ("held", "name", "fence", "remaining"):
            return getattr(lease, verb)
        if verb == "lost":
            return lease.lost_reason or "none"
        method = {"ensure": lease.ensure_held}.get(verb) or getattr(lease, verb)
        value = self.finish(method(**options(rest)))
        return "ok" if value is None else value

    def check(self, outcome: Outcome, expected: str) -> None:
        parts = words(expected)
        value, error = outcome.value, outcome.error
        if not parts:
            assert error is None and value is not None, outcome
            return
        if re.match(r"fence[=>]", parts[0]):
            assert error is None, outcome
        else:
            self.main(outcome, parts.pop(0))
        for part in parts:
            key, sign, wanted = re.fullmatch(r"(\w+)([=>])(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
            if key == "fence":
                fence = value if isinstance(value, int) else value.fence
                if sign == ">":
                    assert fence > int(self.variables[wanted]), outcome
                else:
                    wanted = wanted if wanted.isdigit() else self.variables.setdefault(wanted, str(fence))
                    assert str(fence) == wanted, outcome
            elif key == "in":
                low, high = wanted.split("..")
                assert int(low) <= outcome.ms <= int(high), outcome
            elif key == "text":
                assert wanted in str(error), outcome
            elif key == "hides":
                assert error is not None
                shown = str(error) + repr(error) + json.dumps(error.__dict__)
                assert wanted not in shown, outcome
            elif key == "servers":
                assert error is not None and len(error.servers) == int(wanted), outcome
            elif key == "cause":
                assert error is not None and any(wanted in cause for _, cause in error.servers), outcome
            else:
                raise AssertionError(f"unknown part {part}")

    def main(self, outcome: Outcome, wanted: str) -> None:
        value, error = outcome.value, outcome.error
        if error is not None:
            assert error.kind == wanted, outcome
        elif match := re.fullmatch(r"(\d+)\.\.(\d+)", wanted):
            assert int(match[1]) <= int(value * 1000) <= int(match[2]), outcome
        elif wanted == "held":
            assert hasattr(value, "fence"), outcome
        elif wanted == "none" and value is None:
            pass
        else:
            shown = str(value).lower() if isinstance(value, bool) else value
            assert shown == wanted, outcome


@pytest.fixture(params=["sync", "async"])
def scenario(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Scenario]:
    if request.param == "sync":
        scenario = Scenario(bed, quorlock.Client, lambda value: value)
        yield scenario
        scenario.close()
    else:
        loop = Loop()
        scenario = Scenario(bed, quorlock.AsyncClient, loop.finish)
        yield scenario
        scenario.close()
        loop.close()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.scenario")), ids=lambda file: file.stem)
def test_conformance(scenario: Scenario, file: Path) -> None:
    for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if text.strip() and not text.startswith("#"):
            try:
                scenario.line(text)
            except Exception as error:
                raise AssertionError(f"{file.name}:{number}: {text}: {error}") from error


def test_words() -> None:
    assert words(r'a try "x y" text="say \"hi\" \\" "ab"*3 ""') == ["a", "try", "x y", 'text=say "hi" \\', "ababab", ""]
    assert quoted('a "b"\\') == r'"a \"b\"\\"'
