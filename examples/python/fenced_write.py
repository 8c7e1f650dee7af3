"""Writes the state of an order to SQLite, safely even if this process stalls while it holds the lock.

    python fenced_write.py orders.db paid [seconds of work before the write]
"""

import os
import sqlite3
import sys
import time

import quorlock

# The store remembers the largest fence that has written each row, and refuses a smaller one: 0 rows change.
WRITE = """INSERT INTO orders (id, state, fence) VALUES (42, ?, ?)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, fence = excluded.fence WHERE fence <= excluded.fence"""


def main(database: str, state: str, work: str = "0") -> None:
    db = sqlite3.connect(database)
    db.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER)")

    urls = os.environ.get("REDIS_URLS", "redis://localhost").split(",")
    client = quorlock.Client(urls)

    # It is renewed while we hold it. The short TTL means that others wait for a dead holder 2 s at most.
    with client.lock("orders/42", ttl=2, wait=5) as lease:
        print(f"holding the lock with fence {lease.fence}", flush=True)

        # Whatever has to be done first: ask the payment service, ...
        time.sleep(float(work))

        # A pause before this line (swapped out, suspended) may have been longer than the TTL. No check here could
        # rule out another one right after it; so the store has the last word.
        with db:
            changed = db.execute(WRITE, (state, lease.fence)).rowcount
        if changed == 0:
            raise quorlock.StaleFenceError("refused: a newer holder has written this order")
        print("written")

    # Without an error of its own, the block ends with LockLostError if the lease was lost on the way.


if __name__ == "__main__":
    main(*sys.argv[1:])
