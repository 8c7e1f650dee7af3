"""The demo: four workers in four languages share one lock on five servers, and servers and workers fail meanwhile.

Usage: demo.py FOLDER RUST_WORKER, where FOLDER has the workers that run.sh has made; it gets the results too.
UNFENCED=1 in the environment takes the fence away from the store. Needs nothing but Python's standard library.
"""

import os
import queue
import signal
import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import timeline
from processes import Event, Failure, Server, Worker
from race import Race

INCREMENTS = 100
"""For each worker."""
PAUSE_AT = {"Python": 24, "Node": 34, "C": 44, "Rust": 54}
"""The increment in which each worker is frozen: early enough that others are still at work."""


def main() -> None:
    out, rust_worker = Path(sys.argv[1]).resolve(), sys.argv[2]
    fenced = os.environ.get("UNFENCED", "0") in ("", "0")
    python_worker = Path(__file__).parent / "python" / "worker.py"
    programs = {
        "Python": [str(out / "python/bin/python"), str(python_worker)],
        "Node": ["node", str(out / "node/worker.mjs")],
        "C": [str(out / "worker-c")],
        "Rust": [rust_worker],
    }
    # As any other end, so that `finally` and `with` do their work.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with ExitStack() as stack:
            database = new_database(out / "counter.sqlite")
            servers = []
            for number in range(1, 6):
                servers.append(stack.enter_context(closing(Server(number, out))))
            events: queue.Queue[Event] = queue.Queue()
            workers = []
            for language, program in programs.items():
                options = [str(INCREMENTS), str(PAUSE_AT[language]), "fenced" if fenced else "unfenced"]
                command = [*program, str(database), *options, *(server.url for server in servers)]
                workers.append(stack.enter_context(closing(Worker(language, command, events))))
            race = Race(servers, workers, events)
            race.run()
        expected = INCREMENTS * len(programs)
        lost_updates = expected - final_value(database)
        print_table(race)
        picture = out / ("timeline.svg" if fenced else "timeline-unfenced.svg")
        picture.write_text(timeline.draw(race, expected, lost_updates, fenced), encoding="utf-8")
        print(f"the picture: {os.path.relpath(picture)}")
        print(verdict(race, expected, lost_updates, fenced))
    except Failure as failure:
        print(f"demo: FAILED: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def new_database(path: Path) -> Path:
    """The counter. Reading and writing it are two statements, each a transaction of its own: only the lock keeps others
    out in between. `fence` is the largest that the store has seen; it refuses smaller ones."""
    for old in path.parent.glob(path.name + "*"):
        old.unlink()
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("PRAGMA journal_mode = WAL")
        store.execute("CREATE TABLE counter (value INTEGER NOT NULL, fence INTEGER NOT NULL)")
        store.execute("INSERT INTO counter VALUES (0, 0)")
    return path


def final_value(database: Path) -> int:
    with closing(sqlite3.connect(database)) as store:
        (value,) = store.execute("SELECT value FROM counter").fetchone()
        return int(value)


def print_table(race: Race) -> None:
    print("\nlanguage  increments  acquired  waited p50      p99  lost  writes refused")
    for language, tally in race.tallies.items():
        p50, p99 = (percentile(tally.waited, part) / 1e6 for part in (0.5, 0.99))
        counts = f"{tally.written:10}  {len(tally.waited):8}  {p50:7.1f} ms  {p99:5.0f} ms"
        print(f"{language:8}  {counts}  {tally.lost:4}  {tally.refused:14}")
    print()


def percentile(values: list[int], part: float) -> int:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def verdict(race: Race, expected: int, lost_updates: int, fenced: bool) -> str:
    """The last line; raises Failure if not everything happened that should."""
    if race.written != expected:
        raise Failure(f"{race.written} increments instead of {expected}")
    if sorted(outage.kind for outage in race.outages) != ["frozen", "killed"]:
        raise Failure("no server was killed, or none was frozen")
    if len(race.freezes) != len(race.workers):
        raise Failure("not every worker was frozen")
    if not fenced:
        if lost_updates < 1:
            raise Failure("no update was lost, although nothing checked the fence")
        return f"demo: UNFENCED: {lost_updates} lost updates, which fencing prevents"
    if lost_updates != 0:
        raise Failure(f"{lost_updates} lost updates")
    accepted = [freeze.language for freeze in race.freezes if not freeze.refused]
    if accepted:
        raise Failure(f"the late write was not refused: {', '.join(accepted)}")
    refused = sum(tally.refused for tally in race.tallies.values())
    return f"demo: OK: {expected} increments, {lost_updates} lost updates, {refused} stale writes refused"


if __name__ == "__main__":
    main()
