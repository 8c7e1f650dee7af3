"""Long work under a lock, in asyncio: stops when the lease is lost, and in good order at SIGTERM.

    python long_work.py [parts of work, 100 ms each]
"""

import asyncio
import os
import signal
import sys

import quorlock


async def work(client: quorlock.AsyncClient, parts: int) -> None:
    # It is renewed by a thread of the library, however long the work takes and whatever blocks the event loop.
    # If it is lost, the block is cancelled at its await, and LockLostError comes out.
    async with client.lock("reports/daily", ttl=3, wait=5):
        print("holding the lock", flush=True)
        for part in range(1, parts + 1):
            await asyncio.sleep(0.1)
            print(f"part {part} of {parts}", flush=True)
        print("done")


async def main(parts: int) -> int:
    client = quorlock.AsyncClient(os.environ.get("REDIS_URLS", "redis://localhost").split(","))
    worker = asyncio.create_task(work(client, parts))
    # A cancelled task releases its lock on the way out.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.cancel)
    try:
        await worker
    except quorlock.LockLostError as error:
        print(f"lost the lock: stopped ({error})", file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        print("stopped")
    # In a program with more than one task: refuses new locks, and gives the holders 5 s to finish.
    await client.close(drain=5)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)))
