"""Waiting in the server's queue: in order, at no cost, and leaving nothing."""

import asyncio
import signal
import threading
import time

import pytest
from bed import Bed, connect, finish, line, python, until

import quorlock
from quorlock import AsyncClient


def waiting(bed: Bed) -> int:
    count: int = bed.cmd(0, "ZCARD", "lock:{a}:queue")
    return count


@pytest.mark.parametrize("servers", [1, 3])
def test_threads_are_served_in_the_order_of_their_calls(bed: Bed, servers: int) -> None:
    urls = bed.servers(servers)
    with quorlock.Client(urls, server_timeout=0.5) as client, quorlock.Client(urls, server_timeout=0.5) as other:
        held = client.acquire("a")
        until(lambda: bed.cmd(0, "EXISTS", "lock:{a}"))  # a majority is enough for a lease
        fences = [0] * 10

        def wait(number: int) -> None:
            with other.lock("a", wait=20) as lease:
                fences[number] = lease.fence

        threads = [threading.Thread(target=wait, args=[number]) for number in range(10)]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda: waiting(bed) == number + 1)
        held.release()
        for thread in threads:
            thread.join()
        assert fences == sorted(fences) and held.fence < fences[0]
        assert bed.cmd(0, "KEYS", "lock:{*") == ["lock:{a}:fence"]


def test_a_cancelled_wait_leaves_the_queue(bed: Bed, url: str) -> None:
    async def body() -> None:
        async with AsyncClient(url, server_timeout=0.5) as client:
            held = await client.acquire("a")
            first = asyncio.create_task(client.acquire("a"))
            await asyncio.to_thread(until, lambda: waiting(bed) == 1)
            second = asyncio.create_task(client.acquire("a"))
            await asyncio.to_thread(until, lambda: waiting(bed) == 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            await asyncio.to_thread(until, lambda: waiting(bed) == 1)
            begin = time.monotonic()
            await held.release()
            lease = await second
            assert time.monotonic() - begin < 0.7
            await lease.release()
            assert bed.cmd(0, "KEYS", "lock:{*") == ["lock:{a}:fence"]

    asyncio.run(body())


def test_a_wait_that_is_interrupted_leaves_the_queue(bed: Bed, url: str, client: quorlock.Client) -> None:
    with client.lock("a"):
        process = python("import quorlock, sys; quorlock.Client(sys.argv[1]).acquire('a')", url)
        until(lambda: waiting(bed) == 1)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = finish(process)
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert time.monotonic() - begin < 1.5
        until(lambda: waiting(bed) == 0)
    assert bed.cmd(0, "KEYS", "lock:{*") == ["lock:{a}:fence"]


# 25 threads and 26 tasks; 4 s in place of 60, and a TTL so short that each waiter looks many times.
LONG_WAITS = """
import asyncio, quorlock, sys, threading, time

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))

def wait(client):
    with client.lock("a", ttl=1):
        pass

async def tasks(url):
    async def wait():
        async with client.lock("a", ttl=1):
            pass
    async with quorlock.AsyncClient(url, server_timeout=0.5) as client:
        await asyncio.gather(*(wait() for _ in range(26)))

with quorlock.Client(sys.argv[1], server_timeout=0.5) as client:
    waits = [threading.Thread(target=wait, args=[client]) for _ in range(25)]
    waits.append(threading.Thread(target=asyncio.run, args=[tasks(sys.argv[1])]))
    for thread in waits:
        thread.start()
    time.sleep(1)
    before = resident()
    time.sleep(4)
    print(resident() - before, flush=True)
    for thread in waits:
        thread.join()
print("served")
"""


def test_o47_many_long_waits_cost_neither_memory_nor_warnings(bed: Bed, url: str, client: quorlock.Client) -> None:
    with client.lock("a", ttl=1):
        process = python(LONG_WAITS, url)
        growth = int(line(process))
        assert growth < 5 << 20
        assert waiting(bed) == 51
    assert finish(process) == ("served\n", "")
