"""asyncio: cancelling, losing the lease inside of a block, loops that end, loops of other kinds."""

import asyncio
import gc
import os
import random
import socket
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop
from bed import Bed, connect, finish, line, python, until

import quorlock
from quorlock import AsyncClient, AsyncLease, InvalidArgumentError, LockBusyError, LockLostError

Keys = Callable[[], list[str]]


def run(url: str, body: Callable[[AsyncClient], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with AsyncClient(url, **({"server_timeout": 0.1} | options)) as client:
            return await body(client)

    return asyncio.run(main())


def test_verbs(url: str, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        lock = client.lock("a", ttl=10)
        async with lock as lease:
            assert isinstance(lease, AsyncLease) and lease.held and keys() == ["lock:{a}"]
            lease.ensure_held()
            await lease.confirm()
            assert 19 < await lease.extend(20) < 20
            assert await client.try_acquire("a") is None
            with pytest.raises(LockBusyError):
                await client.acquire("a", wait=0)
            assert not await lease.wait_lost(0.05)
        assert keys() == [] and await lease.release() is False
        async with await client.acquire("a") as again:
            assert again.fence > lease.fence
        (status,) = await client.ping(1)
        assert status.error is None and status.address in url

    run(url, body)


def test_tasks_share_a_lock(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        lock = client.lock("a")
        fences = []
        inside = 0

        async def work() -> None:
            nonlocal inside
            for _ in range(5):
                async with lock as lease:
                    inside += 1
                    assert inside == 1
                    await asyncio.sleep(0)
                    fences.append(lease.fence)
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(8)))
        assert fences == sorted(set(fences)) and len(fences) == 40

    run(url, body)


def test_one_wake_up_serves_many(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        async def pairs(name: str) -> None:
            for _ in range(20):
                async with client.lock(name):
                    pass

        await asyncio.gather(*(pairs(f"a{task}") for task in range(64)))

    run(url, body)


def test_locked_decorator(url: str, other: quorlock.Client, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        @client.locked(lambda order: f"orders/{order}", wait=0)
        async def pay(order: int) -> list[str]:
            """Pays."""
            await asyncio.sleep(0)
            return keys()

        @client.locked("report", wait=0, busy="skip")
        async def report() -> int:
            return 1

        assert await pay(42) == ["lock:{orders/42}"] and (pay.__name__, pay.__doc__) == ("pay", "Pays.")
        assert await report() == 1
        with other.lock("orders/42"), other.lock("report"):
            with pytest.raises(LockBusyError):
                await pay(42)
            assert await report() is None
        for function in (len, lambda: None):
            with pytest.raises(InvalidArgumentError, match="is not async"):
                client.locked("a")(function)  # type: ignore[arg-type]

        @client.locked("b", ttl=0.2, renew=False)
        async def late() -> int:
            time.sleep(0.3)  # noqa: ASYNC251 (the loss must come too late for the function)
            return 42

        with pytest.raises(LockLostError) as caught:
            await late()
        assert caught.value.result == 42

    run(url, body)


def test_a_loss_cancels_the_block(bed: Bed, url: str) -> None:
    async def body(client: AsyncClient) -> None:
        begin = time.monotonic()
        with pytest.raises(LockLostError) as caught:
            async with client.lock("a", ttl=0.3, renew=False) as lease:
                await asyncio.sleep(10)
        assert 0.2 < time.monotonic() - begin < 2
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert lease.lost and lease.lost_reason == "expired"
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        await asyncio.sleep(0.01)
        # Taken by an administrator: renewal notices.
        with pytest.raises(LockLostError):
            async with client.lock("b", ttl=0.6):
                bed.cmd(0, "SET", "lock:{b}", "mine", "PX", 10_000)
                await asyncio.sleep(10)
        assert bed.cmd(0, "GET", "lock:{b}") == "mine"

    run(url, body)


def test_o07_the_blocks_own_error_wins(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            async with client.lock("a", ttl=0.2, renew=False):
                try:
                    await asyncio.sleep(10)
                finally:
                    1 / 0  # noqa: B018
        assert caught.value.__notes__[0].startswith("LockLostError: ")
        assert isinstance(caught.value.__context__, asyncio.CancelledError)
        with pytest.raises(ZeroDivisionError) as caught:
            async with client.lock("b", ttl=0.2, renew=False):
                time.sleep(0.4)  # noqa: ASYNC251 (the loss is not delivered before the error)
                1 / 0  # noqa: B018
        assert isinstance(caught.value.__context__, LockLostError)
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0.01)
        assert task.cancelling() == 0

    run(url, body)


def test_o07_a_block_that_ends_before_it_hears_of_the_loss(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        result = None
        with pytest.raises(LockLostError):
            async with client.lock("a", ttl=0.2, renew=False):
                time.sleep(0.4)  # noqa: ASYNC251
                result = 42
        assert result == 42
        # A block that swallows the cancellation has succeeded, as far as Python can see.
        with pytest.raises(LockLostError):
            async with client.lock("b", ttl=0.2, renew=False):
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    result = 43
        assert result == 43
        await asyncio.sleep(0.01)

    run(url, body)


def test_somebody_elses_cancellation_goes_on(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        lost = asyncio.Event()

        async def work() -> None:
            async with client.lock("a", ttl=0.2, renew=False):
                try:
                    await asyncio.sleep(10)
                finally:
                    lost.set()
                    await asyncio.sleep(10)  # cancelled once by the loss, and here once more

        task = asyncio.create_task(work())
        await lost.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

        # Both at once.
        async def hold() -> None:
            async with client.lock("b", ttl=0.2, renew=False) as lease:
                leases.append(lease)
                await asyncio.sleep(10)

        leases: list[AsyncLease] = []
        task = asyncio.create_task(hold())
        while not leases:
            await asyncio.sleep(0.01)
        time.sleep(0.4)  # noqa: ASYNC251 (the loss is known to the core, not yet to the loop)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(url, body)


def test_inside_of_timeout_and_task_group(url: str, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        with pytest.raises(TimeoutError) as timeout:
            async with asyncio.timeout(0.1):
                async with client.lock("a", ttl=10):
                    await asyncio.sleep(10)
        assert not isinstance(timeout.value, LockBusyError)
        assert keys() == []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), client.lock("a"), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(10))
        assert keys() == []
        with pytest.raises(LockLostError):
            async with asyncio.timeout(10), client.lock("a", ttl=0.2, renew=False):
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(10))
        async with client.lock("held"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.acquire("held"), 0.1)

    run(url, body)


def test_o36_cancelled_while_acquiring(bed: Bed, url: str, keys: Keys) -> None:
    slow = bed.ask("proxy", 0)
    bed.ask("proxy-set", 0, "delay=100")

    async def body(client: AsyncClient) -> None:
        async with client.lock("warm"):
            pass
        late = []

        async def attempt(number: int) -> None:
            task = asyncio.create_task(client.acquire(f"a{number}", ttl=30))
            await asyncio.sleep(0.003 * number)
            cancelled = time.monotonic()
            task.cancel()
            try:
                lease = await task
            except asyncio.CancelledError:
                late.append(time.monotonic() - cancelled)
            else:
                await lease.release()

        await asyncio.gather(*(attempt(number) for number in range(100)))
        assert len(late) > 50 and sorted(late)[len(late) // 2] < 0.05 and max(late) < 0.5
        # Releases queue behind whatever was sent; a later call on the connection comes after them.
        bed.ask("proxy-set", 0, "pass")
        for number in range(100):
            async with client.lock(f"b{number}") as lease:
                await lease.confirm()
        gc.collect()
        until(lambda: keys() == [], limit=2)

    run(slow, body, server_timeout=1)


@pytest.mark.parametrize("contended", [False, True])
def test_cancel_at_random_points(url: str, keys: Keys, contended: bool) -> None:
    names = 1 if contended else 200

    async def body(client: AsyncClient) -> None:
        async def attempt(number: int) -> None:
            for _ in range(5):
                task = asyncio.create_task(hold(number % names))
                for _ in range(random.randrange(6)):
                    await asyncio.sleep(random.choice((0, 0, 0.0002, 0.001)))
                task.cancel()
                await asyncio.wait([task])

        async def hold(number: int) -> None:
            async with client.lock(f"a{number}", ttl=30):
                await asyncio.sleep(0.001)

        await asyncio.gather(*(attempt(number) for number in range(40)))
        until(lambda: keys() == [], limit=5)
        async with client.lock("a0", wait=5):
            pass

    run(url, body)


def test_o38_release_inside_a_cancelled_scope(url: str, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        held = asyncio.Event()

        async def hold() -> None:
            async with client.lock("a", ttl=30):
                held.set()
                await asyncio.sleep(10)

        for cancels in (1, 2):
            held.clear()
            task = asyncio.create_task(hold())
            await held.wait()
            task.cancel()
            if cancels == 2:  # the second one strikes in the midst of the release
                await asyncio.sleep(0)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            until(lambda: keys() == [], limit=1)

    run(url, body)


def test_o38_a_release_goes_on_when_its_caller_is_cancelled(url: str, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        for _ in range(50):
            lease = await client.acquire("a", ttl=30)
            task = asyncio.create_task(lease.release())
            await asyncio.sleep(0)  # it has begun
            task.cancel()
            del lease
            await asyncio.wait([task])
            until(lambda: keys() == [], limit=1)

    run(url, body)


def test_o38_release_is_limited_in_time(bed: Bed, url: str) -> None:
    async def body(client: AsyncClient) -> None:
        begin = 0.0
        with pytest.raises(asyncio.CancelledError):
            async with client.lock("a", ttl=30):
                bed.ask("freeze", 0)
                begin = time.monotonic()
                raise asyncio.CancelledError
        assert time.monotonic() - begin < 0.5
        bed.ask("thaw", 0)

    run(url, body)


def test_an_async_generator_closed_by_another_task_releases(url: str, keys: Keys) -> None:
    async def body(client: AsyncClient) -> None:
        lock = client.lock("a")

        async def numbers() -> Any:
            async with lock:
                yield 1
                yield 2

        async def first(generator: Any) -> int:
            return int(await anext(generator))

        generator = numbers()
        assert await asyncio.create_task(first(generator)) == 1
        assert keys() == ["lock:{a}"]
        await asyncio.create_task(generator.aclose())
        assert keys() == []

    run(url, body)


def test_a_collected_lease_warns(url: str) -> None:
    async def body(client: AsyncClient) -> None:
        lease = await client.acquire("a", ttl=0.3)
        with pytest.warns(ResourceWarning, match='quorlock lease "a" was never released'):
            del lease
            await asyncio.sleep(0)  # until then the loop holds the future that brought it
            gc.collect()

    run(url, body)


def test_a_result_for_a_closed_loop_is_undone(bed: Bed, url: str, keys: Keys) -> None:
    slow = bed.ask("proxy", 0)
    client = AsyncClient(slow, server_timeout=1)
    loop = asyncio.new_event_loop()

    async def warm() -> None:
        async with client.lock("warm"):
            pass

    loop.run_until_complete(warm())
    bed.ask("proxy-set", 0, "delay=100")
    task = loop.create_task(client.acquire("a", ttl=30))
    loop.run_until_complete(asyncio.sleep(0))
    task._log_destroy_pending = False  # type: ignore[attr-defined] # it is the point of this test
    loop.close()
    bed.ask("proxy-set", 0, "pass")
    asyncio.run(client.ping(2))  # what was sent before has arrived, and its release follows
    until(lambda: keys() == [], limit=2)
    del task
    asyncio.run(client.close())


def test_a_closed_loop_leaves_nothing_open(url: str) -> None:
    gone = []

    class Loop(asyncio.SelectorEventLoop):
        pass

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    client = AsyncClient(url)

    async def once() -> None:
        async with client.lock("a"):
            pass

    def cycle() -> None:
        loop = Loop()
        gone.append(weakref.ref(loop))
        loop.run_until_complete(once())
        loop.close()

    cycle()
    before = descriptors()
    for _ in range(20):
        cycle()
    # Each loop would leave two. Connections of other tests, which close in the background, may change the figure a bit.
    assert descriptors() < before + 20
    gc.collect()
    assert not [loop for loop in gone if loop() is not None]
    asyncio.run(client.close())


def test_a_client_serves_many_loops(url: str) -> None:
    import threading

    client = AsyncClient(url)
    failures = []

    async def pairs() -> None:
        for _ in range(50):
            async with client.lock("a"):
                pass

    def loop() -> None:
        try:
            asyncio.run(pairs())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    asyncio.run(client.close())


def test_a_loop_without_add_reader(url: str, keys: Keys) -> None:
    class Proactor(asyncio.SelectorEventLoop):
        """Without add_reader for others, as on Windows."""

        def add_reader(self, fd: Any, callback: Any, *arguments: Any) -> None:  # type: ignore[override]
            if isinstance(fd, socket.socket):
                super().add_reader(fd, callback, *arguments)
            raise NotImplementedError

    async def body() -> None:
        async with AsyncClient(url) as client:

            async def pairs(name: str) -> None:
                for _ in range(10):
                    async with client.lock(name):
                        pass

            await asyncio.gather(*(pairs(f"a{n % 4}") for n in range(8)))
            with pytest.raises(LockLostError):
                async with client.lock("b", ttl=0.2, renew=False):
                    await asyncio.sleep(10)
        until(lambda: keys() == [])  # the server lets go a little later than the holder

    with asyncio.Runner(loop_factory=Proactor) as runner:
        runner.run(body())


def test_uvloop(url: str, keys: Keys) -> None:
    async def body() -> None:
        async with AsyncClient(url) as client:

            async def pairs(name: str) -> None:
                for _ in range(10):
                    async with client.lock(name):
                        await asyncio.sleep(0)

            await asyncio.gather(*(pairs(f"a{n % 16}") for n in range(64)))
            with pytest.raises(LockLostError):
                async with client.lock("b", ttl=0.2, renew=False):
                    await asyncio.sleep(10)
            async with client.lock("c"):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.acquire("c"), 0.05)
        until(lambda: keys() == [])  # the server lets go a little later than the holder

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(body())


def test_asyncio_run_ends_with_waits_pending(url: str) -> None:
    process = python(
        """
import asyncio, sys, quorlock
client = quorlock.AsyncClient(sys.argv[1])
async def hold(name):
    async with client.lock(name, ttl=30):
        await asyncio.sleep(10)
async def main():
    tasks = [asyncio.create_task(client.acquire("held")) for _ in range(5)]
    tasks += [asyncio.create_task(hold(f"free{n}")) for n in range(5)]
    for _ in range(number % 8):
        await asyncio.sleep(0)
for number in range(200):
    asyncio.run(main())
print("done", flush=True)
""",
        url,
    )
    with quorlock.Client(url) as client, client.lock("held"):
        output, errors = finish(process)
    assert (output, errors, process.returncode) == ("done\n", "", 0)
    plain = connect(url)
    until(lambda: not [key for key in plain.keys("lock:{*") if not key.endswith(":fence")], limit=5)
    plain.close()


def test_ctrl_c_ends_asyncio_run(url: str, other: quorlock.Client) -> None:
    import signal

    process = python(
        """
import asyncio, sys, quorlock
async def main():
    async with quorlock.AsyncClient(sys.argv[1]) as client:
        print("waiting", flush=True)
        async with client.lock("a"):
            print("held", flush=True)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
""",
        url,
    )
    with other.lock("a"):
        assert line(process) == "waiting"
        time.sleep(0.2)  # asyncio itself may miss a signal that comes just as its loop goes to sleep
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        output, errors = finish(process)
        assert (output, errors, process.returncode) == ("interrupted\n", "", 0)
        assert time.monotonic() - begin < 2
