"""The kill run: 20 processes in four languages take one lock in turn, while they are killed, stopped and cut off.

    run.py FOLDER [--seconds 60] [--seed N]      FOLDER is where run.sh has installed the packages and built the workers
    run.py FOLDER --servers 3 [...]              on a quorum, whose servers are stopped, too, one at a time
    run.py FOLDER --sabotage                     a short one with a saboteur: the checks must see each thing it does

Its records are kept in FOLDER/record: what workers told, the lock's servers by MONITOR, the store's journal.
"""

import argparse
import heapq
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

import judge
from judge import Failure
from processes import HERE, PATIENCE, ROOT, Servers, Worker, port_of

NAME = "kill"
KEY = f"lock:{{{NAME}}}"
LANGUAGES = ["python", "node", "c", "rust"]
EACH = 5
TTL = 1.0
SERVER_TIMEOUT = 0.5
"""As long as the TTL allows: 20 processes and their servers share a loaded machine, where even one that is well may
take longer than the usual 50 ms to answer."""
LONGEST_FREE = 1.5
EVERY = {"kill": 0.9, "stop": 1.6, "cut": 1.6, "freeze": 4.0}
"""Mean time between faults, in seconds. Only servers of a quorum freeze."""
GRANTS, GRANTS_OF_EACH, KILLS = 300, 20, 50
"""At least, in 60 s."""


class Run:
    def __init__(self, folder: Path, servers: int, seed: int) -> None:
        self.record = folder / "record"
        self.record.mkdir(exist_ok=True)
        self._stderr = (self.record / "stderr.log").open("w")
        self._random = random.Random(seed)
        self._programs = {
            "python": [str(folder / "python/bin/python"), str(HERE / "worker.py")],
            "node": ["node", str(folder / "node/worker.mjs")],
            "c": [str(folder / "worker-c")],
            "rust": [str(ROOT / "target/ci/quorlock-killrun")],
            "saboteur": [sys.executable, str(HERE / "saboteur.py")],
        }
        self.servers = Servers(servers)
        self.began = time.time()
        self.all: list[Worker] = []
        """Every process of this run."""
        self.workers: list[Worker] = []
        """Those that are to run now."""
        self.cuts = self.freezes = 0

    def start(self, language: str) -> Worker:
        name = f"{language}-{len(self.all)}"
        numbers = [self._random.randrange(1, 2**31 - 1), int(TTL * 1000), int(SERVER_TIMEOUT * 1000)]
        port = port_of(self.servers.store)
        arguments = map(str, [",".join(self.servers.lock), port, NAME, name, *numbers])
        worker = Worker(name, [*self._programs[language], *arguments], self._stderr)
        self.all.append(worker)
        self.workers.append(worker)
        return worker

    def until_all_work(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not all(worker.told for worker in self.workers):
            self.check_alive()
            if time.monotonic() > deadline:
                raise Failure(f"{[w.name for w in self.workers if not w.told]} did not start")
            time.sleep(0.01)

    def check_alive(self) -> None:
        for worker in self.workers:
            if worker.status is not None:
                raise Failure(f"{worker.name} ended by itself, with {worker.status}: see {self._stderr.name}")

    def until_saboteur_has_acted(self, times: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while sum(line.startswith("saboteur") for line in self.servers.journal()) < times:
            self.check_alive()
            if time.monotonic() > deadline:
                raise Failure("the saboteur does not get to the store")
            time.sleep(0.1)

    # The faults.

    def inject(self, seconds: float) -> None:
        todo: list[tuple[float, int, Callable[[], None]]] = []
        number = count()

        def at(when: float, action: Callable[[], None]) -> None:
            heapq.heappush(todo, (when, next(number), action))

        def stop() -> None:
            victims = [worker for worker in self.workers if worker.told not in ("", "stopped")]
            if victims:
                worker = self._victim(victims)
                worker.stop()
                at(time.monotonic() + self._random.uniform(0.5, 3), lambda: self._go_on(worker))

        # No server suffers anything while another one is frozen: a quorum bears one at a time.

        def cut() -> None:
            if self.servers.frozen is None:
                self._cut(self._random.randrange(len(self.servers.lock)))

        def freeze() -> None:
            if self.servers.frozen is None:
                self.servers.freeze(self._random.randrange(len(self.servers.lock)))
                self.freezes += 1
                at(time.monotonic() + self._random.uniform(0.2, 2), self.servers.thaw)

        begin = time.monotonic()
        faults = {"kill": self._kill, "stop": stop, "cut": cut}
        if len(self.servers.lock) > 1:
            faults["freeze"] = freeze
        for name, action in faults.items():
            when = 0.0
            while (when := when + EVERY[name] * self._random.uniform(0.5, 1.5)) < seconds:
                at(begin + when, action)
        at(begin + seconds, lambda: None)
        while todo:
            when, _, action = heapq.heappop(todo)
            time.sleep(max(when - time.monotonic(), 0))
            action()
            self.check_alive()

    def _victim(self, victims: list[Worker]) -> Worker:
        """Any of them; every now and then the one that is in the body."""
        inside = [worker for worker in victims if worker.told == "granted"]
        return self._random.choice(inside if inside and self._random.random() < 0.3 else victims)

    def _kill(self) -> None:
        victims = [worker for worker in self.workers if worker.told]
        if victims:
            worker = self._victim(victims)
            worker.kill()
            self.workers.remove(worker)
            self.start(worker.language)

    def _go_on(self, worker: Worker) -> None:
        if worker in self.workers:
            worker.go_on()

    def _cut(self, server: int) -> None:
        """Closes one connection of a worker to it, or all that there are."""
        connections = self.servers.connections(server)
        if self._random.random() > 0.1:
            connections = connections and [self._random.choice(connections)]
        self.cuts += sum(self.servers.cmd(server, "CLIENT", "KILL", "ID", number) == 1 for number in connections)

    # The end, and what is judged.

    def end(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.end()
        deadline = time.monotonic() + PATIENCE
        for worker in workers:
            if status := worker.ended(deadline):
                raise Failure(f"{worker.name} ended with {status}: see {self._stderr.name}")
            self.workers.remove(worker)

    def close(self) -> None:
        """Ends what is left, and keeps the records."""
        for worker in self.workers:
            worker.kill()
        self.servers.thaw()
        self.over = time.time()
        self.left = [key for server in range(len(self.servers.lock)) for key in self._left(server)]
        self.servers.complete_records()
        self.journal = self.servers.journal()
        self.servers.close()
        told = [f"{e.t:.6f} {worker.name} {e.word} {e.detail}\n" for worker in self.all for e in worker.events]
        (self.record / "workers.log").write_text("".join(sorted(told)))
        for server, monitor in enumerate(self.servers.monitors):
            (self.record / f"monitor-{server}.log").write_text("".join(monitor))
        (self.record / "journal.log").write_text("\n".join(self.journal))

    def _left(self, server: int) -> list[str]:
        """Its keys that should be gone. A client's registration stays, for 25 h, only if its process was killed."""
        keys = [str(key) for key in self.servers.cmd(server, "KEYS", "*")]
        clients = [key for key in keys if key.startswith("lock:client:")]
        surplus = clients if len(clients) > self.count("killed") else []
        return [*surplus, *(key for key in keys if key not in clients and key != f"{KEY}:fence")]

    def count(self, word: str, detail: str | None = None) -> int:
        """How often that was told, or done."""
        told = [event for worker in self.all for event in worker.events]
        return sum(event.word == word and detail in (None, event.detail) for event in told)

    def grants(self) -> Counter[str]:
        told = ((worker.language, event.word) for worker in self.all for event in worker.events)
        return Counter(language for language, word in told if word == "granted")

    def longest_free(self) -> float:
        """The longest time that the lock was free while somebody waited who could have taken it."""
        waits = [span for worker in self.all for span in judge.waiting(worker.events, self.over)]
        free = list(judge.free(self.servers.monitors, KEY, self.began, self.over))
        return max((end - begin for begin, end in judge.both(judge.union(waits), free)), default=0.0)

    def problems(self) -> dict[str, str]:
        """What has happened that must never happen, for each promise."""
        at_once = judge.at_once(self.journal)
        held = self.count("refused", "held")
        longest = self.longest_free()
        return {
            "free": f"the lock was free for {longest:.2f} s while somebody waited" if longest > LONGEST_FREE else "",
            "one at a time": f"{len(at_once)} times two bodies behind the fence, first {at_once[0]}" if at_once else "",
            "fences rise": f"{held} times the store refused a body whose lease was held" if held else "",
            "nothing left": f"keys left: {', '.join(self.left)}" if self.left else "",
        }


def kill_run(folder: Path, servers: int, seconds: float, seed: int) -> None:
    place = "one server" if servers == 1 else f"{servers} servers"
    print(f"killrun: {EACH} workers in each of {', '.join(LANGUAGES)}, {place}, {seconds:g} s, seed {seed}", flush=True)
    run = Run(folder, servers, seed)
    try:
        for language in LANGUAGES * EACH:
            run.start(language)
        run.until_all_work()
        run.inject(seconds)
        run.until_all_work()
        run.end(list(run.workers))
        time.sleep(2 * TTL)  # so much later nothing may be left
    finally:
        run.close()

    grants, kills = run.grants(), run.count("killed")
    total, longest = sum(grants.values()), run.longest_free()
    languages = ", ".join(f"{language} {grants[language]}" for language in LANGUAGES)
    part = seconds / 60
    few = [language for language in LANGUAGES if grants[language] < GRANTS_OF_EACH * part]
    problems = {
        "enough grants": f"only {total} grants ({languages})" if few or total < GRANTS * part else "",
        "enough kills": f"only {kills} kills" if kills < KILLS * part else "",
        **run.problems(),
    }
    ends = {word: run.count("ended", word) for word in ("cancelled", "busy", "unavailable")}
    print(f"killrun: waits that ended otherwise: {ends}; releases: {run.count('released')}, "
          f"of lost leases {run.count('unreleased', 'lost')}, unanswered {run.count('unreleased', 'unavailable')}; "
          f"bodies that the store refused: {run.count('refused')}")
    freezes = f"{run.freezes} frozen servers, " if servers > 1 else ""
    figures = (f"{total} grants ({languages}), {kills} kills, {run.count('stopped')} stops, {run.cuts} client kills, "
               f"{freezes}{ends['cancelled']} cancels, longest free {longest:.2f} s")
    for name, problem in problems.items():
        print(f"not ok {name}: {problem}" if problem else f"ok {name}")
    bad = "; ".join(filter(None, problems.values()))
    if bad:
        raise Failure(f"{bad} [{figures}]")
    print(f"killrun: OK: {figures}")


def sabotage(folder: Path, servers: int, seed: int) -> None:
    """A run in which each promise is broken."""
    run = Run(folder, servers, seed)
    try:
        for language in [*LANGUAGES, "saboteur"]:
            run.start(language)
        run.until_all_work()
        run.until_saboteur_has_acted(60)
        run.end([worker for worker in run.workers if worker.language != "saboteur"])
        time.sleep(LONGEST_FREE + 0.5)  # the saboteur says that it waits
    finally:
        run.close()
    problems = run.problems()
    if unseen := [name for name, problem in problems.items() if not problem]:
        raise Failure(f"sabotage went unseen: {', '.join(unseen)}")
    print(f"ok sabotage: the checks see that {'; '.join(problems.values())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--sabotage", action="store_true")
    args = parser.parse_args()
    try:
        if args.sabotage:
            sabotage(args.folder, args.servers, args.seed)
        else:
            kill_run(args.folder, args.servers, args.seconds, args.seed)
    except Failure as failure:
        print(f"killrun: FAILED: {failure} (seed {args.seed}; records in {args.folder / 'record'})")
        sys.exit(1)


main()
