"""The race: four workers, one lock, and faults on the way. Says what happens while it happens, and keeps it."""

import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from processes import Event, Failure, Server, Worker

LIMIT = 120
"""Seconds after which something must be wrong. On an idle machine it takes about 15."""

Condition = Callable[[], bool]


@dataclass
class Tally:
    """What one worker has done."""

    waited: list[int] = field(default_factory=list)
    written: int = 0
    lost: int = 0
    refused: int = 0


@dataclass
class Hold:
    """A worker held the lock: from the grant to the end of its section, or of its lease if that came first."""

    language: str
    fence: int
    begin: int
    end: int


@dataclass
class Freeze:
    """A worker was frozen in its critical section."""

    language: str
    fence: int
    begin: int
    lease_end: int
    end: int = 0
    late_write: int = 0
    """When it wrote, too late."""
    refused: bool = False
    written_meanwhile: int = 0


@dataclass
class Outage:
    """A server was killed or frozen."""

    server: str
    kind: str
    begin: int
    end: int = 0
    written_meanwhile: int = 0


class Race:
    """Runs it. Times are ns of CLOCK_MONOTONIC; `begin` and `end` are the whole run's."""

    def __init__(self, servers: list[Server], workers: list[Worker], events: "queue.Queue[Event]") -> None:
        self.servers, self.workers, self.events = servers, workers, events
        self.tallies = {worker.language: Tally() for worker in workers}
        self.holds: list[Hold] = []
        self.freezes: list[Freeze] = []
        self.outages: list[Outage] = []
        self.last: dict[Worker, dict[str, int]] = {worker: {} for worker in workers}
        """When each worker last told each kind of event."""
        self.running = set(workers)
        self.paused: set[Worker] = set()
        """Those that wait in their critical section to be frozen, or are frozen."""
        self.begin = self.end = 0

    @property
    def written(self) -> int:
        return sum(tally.written for tally in self.tallies.values())

    def run(self) -> None:
        self.begin = time.monotonic_ns()
        self.wait_for(lambda: all("ready" in told for told in self.last.values()))
        self.begin = time.monotonic_ns()
        for worker in self.workers:
            worker.go()
        # Each fault is a generator: it yields what it waits for.
        faults = [self.kill(self.servers[1]), self.freeze_server(self.servers[3])]
        faults += [self.freeze_worker(worker) for worker in self.workers]
        waits = {fault: next(fault) for fault in faults}
        said = 0
        while self.running or waits:
            self.wait_for(lambda: True)
            for fault, condition in list(waits.items()):
                if condition():
                    following = next(fault, None)
                    if following:
                        waits[fault] = following
                    else:
                        del waits[fault]
            if self.written >= said + 40:
                said = self.written - self.written % 40
                self.say_progress()
        self.end = max(told["ended"] for told in self.last.values())

    # --- what workers tell

    def wait_for(self, condition: Condition) -> None:
        """Takes events in until `condition` holds, and at least for a moment."""
        while True:
            try:
                self.take(self.events.get(timeout=0.01))
                while True:
                    self.take(self.events.get_nowait())
            except queue.Empty:
                pass
            if time.monotonic_ns() > self.begin + LIMIT * 10**9:
                raise Failure(f"not done after {LIMIT} s, {self.written} increments")
            if condition():
                return

    def take(self, event: Event) -> None:
        worker, language, told = event.worker, event.worker.language, self.last[event.worker]
        told[event.kind] = event.t
        told.update(event.details)
        tally = self.tallies[language]
        match event.kind:
            case "acquired":
                tally.waited.append(event.t - told["asked"])
                self.holds.append(Hold(language, told["fence"], event.t, event.t))
            case "wrote" | "refused":
                tally.written += event.kind == "wrote"
                tally.refused += event.kind == "refused"
                self.end_hold(language, event.t)
                for freeze in self.freezes:
                    if freeze.fence == told["fence"]:
                        freeze.late_write, freeze.refused = event.t, event.kind == "refused"
            case "paused":
                self.paused.add(worker)
            case "lost":
                tally.lost += 1
                self.end_hold(language, event.t)
            case "ended":
                self.running.discard(worker)
                if event.details["status"] != 0:
                    raise Failure(f"the worker in {language} ended with status {event.details['status']}")

    def end_hold(self, language: str, t: int) -> None:
        hold = next(hold for hold in reversed(self.holds) if hold.language == language)
        if hold.end == hold.begin:
            # One that was frozen held it until its lease ran out.
            frozen = [freeze for freeze in self.freezes if freeze.fence == hold.fence]
            hold.end = min([t, *(freeze.lease_end for freeze in frozen)])

    # --- faults

    def kill(self, server: Server) -> Iterator[Condition]:
        yield lambda: self.written >= 30
        outage = Outage(server.name, "killed", time.monotonic_ns(), written_meanwhile=-self.written)
        server.kill()
        self.say(f"{server.name} killed with SIGKILL")
        yield self.after(1)
        server.start()
        self.finish(outage)
        self.say(f"{server.name} started again, empty; meanwhile {outage.written_meanwhile} increments")

    def freeze_server(self, server: Server) -> Iterator[Condition]:
        yield lambda: len(self.freezes) == len(self.workers) and all(freeze.end for freeze in self.freezes)
        outage = Outage(server.name, "frozen", time.monotonic_ns(), written_meanwhile=-self.written)
        server.freeze()
        self.say(f"{server.name} frozen with SIGSTOP")
        yield self.after(2)
        server.thaw()
        self.finish(outage)
        self.say(f"{server.name} continued after 2 s; meanwhile {outage.written_meanwhile} increments")

    def finish(self, outage: Outage) -> None:
        outage.end = time.monotonic_ns()
        outage.written_meanwhile += self.written
        self.outages.append(outage)

    def freeze_worker(self, worker: Worker) -> Iterator[Condition]:
        told, language = self.last[worker], worker.language
        yield lambda: worker in self.paused or worker not in self.running
        if worker not in self.paused:
            return
        worker.freeze()
        lease_end = told["paused"] + told["remaining_ms"] * 10**6
        freeze = Freeze(language, told["fence"], time.monotonic_ns(), lease_end, written_meanwhile=-self.written)
        self.freezes.append(freeze)
        self.say(f"{language} holds the lock and is about to write: frozen with SIGSTOP")
        # Another one that waits to be frozen has the lock, and the store knows its fence: that is as good as a write.
        yield lambda: self.written + freeze.written_meanwhile >= 6 or len(self.paused) > 1 or self.running == {worker}
        self.paused.discard(worker)
        worker.go()
        worker.thaw()
        freeze.end = time.monotonic_ns()
        freeze.written_meanwhile += self.written
        self.say(f"{language} continued: its lease ran out, and others made {freeze.written_meanwhile} increments")
        yield lambda: freeze.late_write > 0
        self.say(f"{language}'s late write: {'refused, its fence is too small' if freeze.refused else 'accepted'}")

    @staticmethod
    def after(seconds: float) -> Condition:
        end = time.monotonic() + seconds
        return lambda: time.monotonic() >= end

    # --- progress

    def say(self, text: str) -> None:
        print(f"{(time.monotonic_ns() - self.begin) / 1e9:6.2f} s  {text}", flush=True)

    def say_progress(self) -> None:
        each = "  ".join(f"{language} {tally.written}" for language, tally in self.tallies.items())
        self.say(f"{self.written} increments: {each}")
