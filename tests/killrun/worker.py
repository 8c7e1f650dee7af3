"""The kill run's worker in Python: takes the lock, works behind the store's check, and so on until SIGTERM.

Arguments: the lock's servers (URLs with commas between), the store's port, the lock's name, this worker's name, a seed,
TTL and server_timeout in ms. What it tells, and what it does at random, is in tests/README.md.
"""

import asyncio
import signal
import sys
import time

import quorlock

urls, port, name, me, seed, ttl, server_timeout = sys.argv[1:]
dice = int(seed)
stopping = False
waiting: asyncio.Task[quorlock.AsyncLease] | None = None


def tell(event: str, detail: object = "") -> None:
    print(event, f"{time.time():.6f}", detail, flush=True)


def pick(below: int) -> int:
    """The same numbers in every language."""
    global dice
    dice = dice * 48271 % 2147483647
    return dice % below


def stop() -> None:
    global stopping
    stopping = True
    if waiting:
        waiting.cancel()


async def acquire(client: quorlock.AsyncClient) -> quorlock.AsyncLease | None:
    global waiting
    plan, cancel_after, wait = pick(10), None, None
    if plan < 2:
        cancel_after = (1 + pick(300)) / 1000
    elif plan < 3:
        wait = (1 + pick(200)) / 1000
    elif plan < 6:
        wait = 5.0
    tell("wait")
    waiting = asyncio.create_task(client.acquire(name, wait=wait))
    if cancel_after:
        asyncio.get_running_loop().call_later(cancel_after, waiting.cancel)
    try:
        return await waiting
    except asyncio.CancelledError:
        tell("ended", "cancelled")
    except (quorlock.LockBusyError, quorlock.UnavailableError) as error:
        tell("ended", error.kind)
    finally:
        waiting = None
    return None


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    replies, orders = await asyncio.open_connection("127.0.0.1", int(port))

    async def act(*words: object) -> int:
        orders.write(f"FCALL act 0 {' '.join(map(str, words))}\r\n".encode())
        return int((await replies.readline()).removeprefix(b":"))

    bodies = 0
    options = {"ttl": int(ttl) / 1000, "server_timeout": int(server_timeout) / 1000}
    async with quorlock.AsyncClient(urls.split(","), **options) as client:
        while not stopping:
            lease = await acquire(client)
            if lease is None:
                continue
            tell("granted", lease.fence)
            bodies += 1
            body = f"{me}.{bodies}"
            value = await act(body, lease.fence)
            if value >= 0:
                await asyncio.sleep((5 + pick(46)) / 1000)
                value = await act(body, lease.fence, value + 1)
            if value < 0:
                tell("refused", "held" if lease.held else "lost")
            try:
                await lease.release()
                tell("released")
            except (quorlock.LockLostError, quorlock.UnavailableError) as error:
                tell("unreleased", error.kind)


asyncio.run(main())
