"""What the process does around a lock: threads, signals, forks, blocked interpreters, pauses, and its end."""

import ctypes
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from bed import Bed, connect, finish, line, python, until

import quorlock
from quorlock import ClosedError, LockBusyError, LockLostError

Keys = Callable[[], list[str]]
Fork = Callable[[Callable[[], object]], int]


def wait_child(child: int, limit: float = 10) -> int:
    """The child's exit code."""
    done, status = 0, 0

    def ended() -> bool:
        nonlocal done, status
        done, status = os.waitpid(child, os.WNOHANG)
        return done != 0

    until(ended, limit)
    return os.waitstatus_to_exitcode(status)


def test_the_interpreter_runs_while_a_thread_waits(client: quorlock.Client, other: quorlock.Client) -> None:
    lease = other.acquire("a")
    counted = 0
    acquired: list[quorlock.Lease] = []
    thread = threading.Thread(target=lambda: acquired.append(client.acquire("a")))
    thread.start()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        counted += 1
    assert counted > 1000 and not acquired
    lease.release()
    thread.join(10)
    assert acquired[0].release()


def test_ctrl_c_ends_a_wait(url: str, client: quorlock.Client, keys: Keys) -> None:
    process = python(
        """
import sys, time, quorlock
client = quorlock.Client(sys.argv[1])
for _ in range(3):
    print("waiting", flush=True)
    try:
        client.acquire("a")
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
print("done", flush=True)
""",
        url,
    )
    lease = client.acquire("a")
    for _ in range(3):
        assert line(process) == "waiting"
        time.sleep(0.2)  # it is waiting by now, or the interrupt comes before the wait: both must work
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert float(line(process)) - sent < 0.2
    output, errors = finish(process)
    assert (output, errors, process.returncode) == ("done\n", "", 0)
    lease.release()
    assert keys() == []


def test_ctrl_c_as_a_wait_begins(url: str, client: quorlock.Client, keys: Keys) -> None:
    process = python(
        """
import sys, quorlock
client = quorlock.Client(sys.argv[1])
for _ in range(100):
    try:
        sys.stdout.write("waiting\\n")
        sys.stdout.flush()
        client.acquire("a")
    except KeyboardInterrupt:
        sys.stdout.write("interrupted\\n")
        sys.stdout.flush()
""",
        url,
    )
    with client.lock("a"):
        for _ in range(100):
            assert line(process) == "waiting"
            end = time.monotonic() + random.uniform(0, 0.0003)
            while time.monotonic() < end:
                pass
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert line(process) == "interrupted"
            assert time.monotonic() - sent < 0.5
        assert finish(process) == ("", "")
    until(lambda: keys() == [], limit=1)


def test_ctrl_c_at_random_points_leaves_nothing_locked(url: str, keys: Keys) -> None:
    process = python(
        """
import sys, quorlock
client = quorlock.Client(sys.argv[1])
count = 0
print("ready", flush=True)
while count < 200:
    try:
        while True:
            with client.lock(f"a{count}", ttl=30):
                pass
    except KeyboardInterrupt:
        count += 1
        print(count, flush=True)
sys.stdin.readline()
""",
        url,
    )
    assert line(process) == "ready"
    for number in range(200):
        time.sleep(random.uniform(0, 0.002))
        process.send_signal(signal.SIGINT)
        assert line(process) == str(number + 1)
    until(lambda: keys() == [], limit=5)
    assert finish(process, "\n") == ("", "")


def test_o15_tokens_are_unique_also_after_a_fork(bed: Bed, url: str, fork: Fork) -> None:
    client = quorlock.Client(url)
    mine = client.acquire("mine")

    def child(number: int) -> None:
        for n in range(40):
            leases.append(client.acquire(f"{number}/{n}", ttl=60))

    leases: list[quorlock.Lease] = []
    children = [fork(lambda number=number: child(number)) for number in range(50)]  # type: ignore[misc]
    assert [wait_child(pid, 60) for pid in children] == [0] * 50

    def worker(number: int) -> None:
        for n in range(250):
            kept.append(client.acquire(f"thread{number}/{n}", ttl=60, renew=False))

    kept: list[quorlock.Lease] = []
    threads = [threading.Thread(target=worker, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    plain = connect(url)
    names = [key for key in plain.keys("lock:{*") if not key.endswith(":fence")]
    tokens = [token for token in plain.mget(names) if token is not None]
    plain.close()
    assert len(tokens) == 50 * 40 + 8 * 250 + 1 == len(set(tokens))
    secrets = {token.split(".")[-1] for token in tokens}
    assert len(secrets) == len(tokens) and all(len(bytes.fromhex(secret)) >= 20 for secret in secrets)
    mine.release()
    client.close()


def test_o05_a_key_always_expires(url: str, fork: Fork) -> None:
    plain = connect(url)

    def lifetimes() -> list[int]:
        # One script, so that no key ends between its listing and the question.
        script = """local left = {} for _, key in ipairs(redis.call('KEYS', 'lock:{*')) do
            if key:sub(-6) ~= ':fence' then left[#left + 1] = redis.call('PTTL', key) end end return left"""
        return list(plain.eval(script, 0))

    def child() -> None:
        client = quorlock.Client(url, ttl=2)
        while True:
            with client.lock(f"a{random.randrange(3)}", wait=0):
                pass

    def robust_child() -> None:
        while True:
            try:
                child()
            except LockBusyError:
                pass

    for _ in range(60):
        pid = fork(robust_child)
        end = time.monotonic() + random.uniform(0, 0.03)
        while time.monotonic() < end:
            assert all(0 < left <= 2_000 for left in lifetimes())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert all(0 < left <= 2_000 for left in lifetimes())
    until(lambda: lifetimes() == [], limit=4)
    plain.close()


@pytest.mark.parametrize("used", ["imported", "made", "used", "held"])
def test_o39_client_made_before_fork(url: str, fork: Fork, used: str) -> None:
    client = quorlock.Client(url) if used != "imported" else None
    held = None
    if client is not None and used != "made":
        held = client.acquire("held")
        if used == "used":
            held.release()

    def child() -> None:
        mine = client or quorlock.Client(url)
        begin = time.monotonic()
        for _ in range(3):
            with mine.lock("free") as lease:
                lease.confirm()
        assert time.monotonic() - begin < 1, time.monotonic() - begin
        if used == "held":
            assert mine.try_acquire("held") is None

        async def pair() -> None:
            async with quorlock.AsyncClient(url) as other, other.lock("free"):
                pass

        import asyncio

        asyncio.run(pair())

    for _ in range(3):
        assert wait_child(fork(child)) == 0
    if client is not None:
        with client.lock("free", wait=5):
            pass
        if used == "held":
            assert held is not None
            held.confirm()
            held.release()
        client.close()


def test_o39_an_async_client_made_before_fork(url: str, fork: Fork) -> None:
    import asyncio

    client = quorlock.AsyncClient(url)

    async def pair() -> None:
        async with client.lock("free", wait=5):
            await asyncio.sleep(0)

    asyncio.run(pair())
    assert wait_child(fork(lambda: asyncio.run(pair()))) == 0
    asyncio.run(pair())
    asyncio.run(client.close())


def test_o39_multiprocessing(url: str, client: quorlock.Client) -> None:
    with client.lock("warm"):
        pass
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        with client.lock("shared", wait=20) as lease:
            results.put((number, lease.fence))

    results = context.SimpleQueue()
    processes = [context.Process(target=work, args=(number,)) for number in range(4)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join(10)
    assert [process.exitcode for process in processes] == [0] * 4
    assert [fence for _, fence in found] == sorted({fence for _, fence in found})


def test_fifty_children_of_a_busy_parent(url: str, client: quorlock.Client, fork: Fork) -> None:
    ended = threading.Event()

    def busy(number: int) -> None:
        while not ended.is_set():
            with client.lock(f"busy{number}"):
                pass

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()

    def child() -> None:
        with client.lock(f"child{os.getpid()}", wait=10):
            pass

    try:
        for _ in range(10):
            children = [fork(child) for _ in range(5)]
            assert [wait_child(pid, 20) for pid in children] == [0] * 5
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_the_first_call_comes_from_many_threads(url: str) -> None:
    for _ in range(10):
        process = python(
            """
import sys, threading, quorlock
client = quorlock.Client(sys.argv[1])
gate = threading.Barrier(32)
def first(n):
    gate.wait()
    with client.lock(f"a{n}"):
        pass
threads = [threading.Thread(target=first, args=(n,)) for n in range(32)]
for t in threads: t.start()
for t in threads: t.join()
""",
            url,
        )
        assert finish(process) == ("", "") and process.returncode == 0


@pytest.mark.parametrize("end", ["exits", "raises", "releases", "collects"])
def test_o40_a_child_leaves_its_parents_lock_alone(bed: Bed, url: str, end: str) -> None:
    process = python(
        f"""
import gc, os, sys, time, quorlock
client = quorlock.Client(sys.argv[1])
lease = client.acquire("a", ttl=30)
child = os.fork()
if child == 0:
    end = {end!r}
    if end == "raises":
        sys.stderr = None
        raise ValueError
    if end == "releases":
        for verb in (lease.release, lease.extend, lease.confirm, lease.ensure_held):
            try:
                verb()
            except quorlock.ClosedError as error:
                assert str(os.getppid()) in str(error), error
            else:
                sys.exit(5)
        assert not lease.held and lease.remaining == 0 and "another process" in repr(lease)
    if end == "collects":
        lease = None
        gc.collect()
    sys.exit(3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, flush=True)
sys.stdin.readline()
lease.confirm()
print(lease.release(), flush=True)
""",
        url,
    )
    code = line(process)
    assert code == ("1" if end == "raises" else "3")
    assert bed.cmd(0, "PTTL", "lock:{a}") > 20_000
    output, errors = finish(process, "\n")
    assert (output, errors, process.returncode) == ("True\n", "", 0)


def test_logging_works_in_a_child(url: str, fork: Fork) -> None:
    client = quorlock.Client(url)

    def child() -> int:
        records: list[logging.LogRecord] = []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                records.append(record)

        logging.getLogger("quorlock").addHandler(Handler())
        lease = client.acquire("a", ttl=0.2, renew=False)
        assert lease.wait_lost(5)
        until(lambda: records)
        return 7

    assert wait_child(fork(child)) == 7
    client.close()


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError", 1)])
@pytest.mark.parametrize("form", ["sync", "async", "thread"])
def test_o43_python_exits(url: str, keys: Keys, form: str, end: str, code: int) -> None:
    forms = {
        "sync": 'lease = client.acquire("a")',
        "async": 'lease = asyncio.run(quorlock.AsyncClient(sys.argv[1]).acquire("a"))',
        # A daemon thread that waits for ever must not keep the interpreter, nor crash when it goes away.
        "thread": """
lease = client.acquire("a")
def wait():
    try:
        client.acquire("a")
    except quorlock.ClosedError:
        pass
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.05)
""",
    }
    process = python(
        f"""
import asyncio, sys, threading, time, quorlock
client = quorlock.Client(sys.argv[1])
{forms[form]}
print("held", flush=True)
{end}
""",
        url,
    )
    assert line(process) == "held"
    begin = time.monotonic()
    _, errors = finish(process)
    assert time.monotonic() - begin < 1.5
    assert process.returncode == code
    assert errors == "" or code == 1 and errors.strip().endswith("ValueError")
    assert "quorlock" not in errors and "panicked" not in errors
    assert keys() == [], "what is held is released at the end"


def test_o43_python_exits_although_the_server_hangs(bed: Bed, url: str) -> None:
    process = python(
        """
import sys, quorlock
lease = quorlock.Client(sys.argv[1]).acquire("a")
print("held", flush=True)
sys.stdin.readline()
""",
        url,
    )
    assert line(process) == "held"
    bed.ask("freeze", 0)
    begin = time.monotonic()
    assert finish(process, "\n") == ("", "") and process.returncode == 0
    assert time.monotonic() - begin < 1.5
    bed.ask("thaw", 0)


def test_exit_at_any_time_is_silent(url: str) -> None:
    """Events, waits and results on their way while the interpreter goes away."""
    for number in range(20):
        process = python(
            """
import asyncio, sys, threading, time, logging, quorlock
logging.getLogger("quorlock").setLevel(logging.DEBUG)
logging.getLogger("quorlock").addHandler(logging.NullHandler())
client = quorlock.Client(sys.argv[1])
def busy(n):
    try:
        while True:
            with client.lock(f"a{n % 3}", ttl=1):
                pass
    except quorlock.QuorlockError:
        pass
async def pairs():
    async with quorlock.AsyncClient(sys.argv[1]) as other:
        while True:
            async with other.lock("b"):
                pass
def loop():
    try:
        asyncio.run(pairs())
    except quorlock.QuorlockError:
        pass
for n in range(6):
    threading.Thread(target=busy, args=(n,), daemon=True).start()
threading.Thread(target=loop, daemon=True).start()
time.sleep(float(sys.argv[2]))
sys.exit(4)
""",
            url,
            str(number * 0.007),
        )
        output, errors = finish(process)
        assert (output, errors, process.returncode) == ("", "", 4)


HOLDER = """
import sys, time, quorlock
lease = quorlock.Client(sys.argv[1]).acquire("a", ttl=float(sys.argv[2]))
print("held", flush=True)
sys.stdin.readline()
remaining = lease.remaining
begin = time.monotonic()
lost = lease.wait_lost(5)
print(remaining, lost, time.monotonic() - begin, flush=True)
sys.stdin.readline()
"""


def test_o11_and_o54_a_holder_that_was_paused(bed: Bed, url: str, client: quorlock.Client, keys: Keys) -> None:
    process = python(HOLDER, url, "0.3")
    assert line(process) == "held"
    process.send_signal(signal.SIGSTOP)
    client.acquire("a", wait=5).release()
    bed.ask("monitor", 0, "start")
    time.sleep(0.3)
    assert process.stdin is not None
    process.stdin.write("\n")
    process.send_signal(signal.SIGCONT)
    remaining, lost, took = line(process).split()
    assert float(remaining) == 0 and lost == "True" and float(took) < 0.5
    assert keys() == []
    sets = [command for _, command, *_ in bed.commands(0) if command.upper() in ("SET", "PEXPIRE")]
    assert sets == [], "it is not revived"
    finish(process, "\n")


def test_o74_the_interpreter_is_held_for_three_seconds(client: quorlock.Client, other: quorlock.Client) -> None:
    lease = client.acquire("a", ttl=0.3)
    attempts = python(CONTENDER, client._native.addresses[0])
    assert line(attempts) == "trying"
    ctypes.PyDLL(None).sleep(3)  # PyDLL keeps the GIL
    assert lease.held and not lease.lost
    assert finish(attempts) == ("busy\n", "")
    lease.confirm()
    lease.release()


CONTENDER = """
import sys, quorlock
client = quorlock.Client("redis://" + sys.argv[1])
print("trying", flush=True)
try:
    client.acquire("a", wait=2.5)
    print("acquired", flush=True)
except quorlock.LockBusyError:
    print("busy", flush=True)
"""


def test_o74_a_loss_during_the_block_is_seen_at_once(bed: Bed, client: quorlock.Client) -> None:
    lease = client.acquire("a", ttl=0.3)
    bed.ask("freeze", 0)
    ctypes.PyDLL(None).usleep(600_000)
    assert lease.remaining == 0 and not lease.held and lease.lost
    with pytest.raises(LockLostError):
        lease.ensure_held()
    bed.ask("thaw", 0)


def test_o74_a_starved_cpu(client: quorlock.Client) -> None:
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        with client.lock("a", ttl=1) as lease:
            assert not lease.wait_lost(3)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_a_lease_of_another_process_is_closed(client: quorlock.Client, fork: Fork) -> None:
    lease = client.acquire("a")

    def child() -> int:
        with pytest.raises(ClosedError):
            lease.wait_lost(1)
        with pytest.raises(ClosedError):
            with lease:
                pass
        return 9

    assert wait_child(fork(child)) == 9
    assert lease.release()
