"""The demo's worker in Python: adds 1 to a counter in SQLite, again and again, under the lock that all workers share.

Arguments: the database, how many increments, the increment at which to pause, `fenced` or `unfenced`, the servers'
URLs.
"""

import json
import logging
import sqlite3
import sys
import time

import quorlock

database, increments, pause_at, mode, *urls = sys.argv[1:]
client = quorlock.Client(urls, ttl=1.5, wait=60)
lock = client.lock("counter")
logging.getLogger("quorlock").setLevel(logging.ERROR)  # the demo tells of a loss itself
store = sqlite3.connect(database, isolation_level=None, timeout=10)


def tell(event: str, **details: object) -> None:
    print(json.dumps({"event": event, "t": time.monotonic_ns(), **details}), flush=True)


def read(fence: int) -> int | None:
    """The value, and from here on the store refuses smaller fences; None if it has seen a larger one."""
    rows = store.execute("UPDATE counter SET fence = ?1 WHERE fence <= ?1 RETURNING value", (fence,)).fetchall()
    return rows[0][0] if rows else None


def write(value: int, fence: int) -> bool:
    """False if the store has seen a larger fence: the write came too late."""
    return store.execute("UPDATE counter SET value = ? WHERE fence <= ?", (value, fence)).rowcount == 1


def add_one_with(lease: quorlock.Lease, pause: bool) -> bool:
    # Without fencing every holder looks the same to the store.
    fence = lease.fence if mode == "fenced" else 0
    value = read(fence)
    time.sleep(0.01)  # the work
    lease.ensure_held()
    if pause:  # Between the check and the write: no check of the lease can be the last thing that happens.
        tell("paused", remaining_ms=int(lease.remaining * 1000))
        sys.stdin.readline()
    written = value is not None and write(value + 1, fence)
    tell("wrote" if written else "refused")
    return written


def add_one(pause: bool) -> bool:
    """Whether the increment was written: else it is to be tried again."""
    written = False
    tell("asked")
    try:
        with lock as lease:
            tell("acquired", fence=lease.fence)
            written = add_one_with(lease, pause)
        tell("released")
    except quorlock.LockLostError:
        tell("lost")
    except quorlock.UnavailableError:
        tell("unavailable")
    return written


tell("ready")
sys.stdin.readline()
done, paused = 0, False
while done < int(increments):
    pause = done + 1 == int(pause_at) and not paused
    paused = paused or pause
    done += add_one(pause)
    time.sleep(0.02)  # its other work
client.close()
