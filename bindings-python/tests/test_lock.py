"""The lock and the lease, blocking: what they are, and the field cases of both (O…)."""

import copy
import gc
import logging
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable

import pytest
from bed import Bed, until

import quorlock
from quorlock import ClosedError, InvalidArgumentError, LockBusyError, LockLostError, UnavailableError

Keys = Callable[[], list[str]]


def test_with_holds_and_releases(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    lock = client.lock("orders/42", ttl=10)
    for _ in range(2):
        with lock as lease:
            assert lease.held and not lease.lost and lease.lost_reason is None
            assert lease.name == lock.name == "orders/42"
            assert 9 < lease.remaining < 10
            assert keys() == ["lock:{orders/42}"]
            lease.ensure_held()
            lease.confirm()
        assert not lease.held and not lease.lost and lease.remaining == 0
        assert keys() == []


def test_fences_rise(client: quorlock.Client) -> None:
    fences = []
    for _ in range(5):
        with client.lock("a") as lease:
            fences.append(lease.fence)
    assert fences == sorted(set(fences)) and fences[-1] < 2**53


def test_try_acquire_gives_none_if_others_hold_it(client: quorlock.Client, other: quorlock.Client) -> None:
    with client.acquire("a") as lease:
        assert other.try_acquire("a") is None
        assert other.lock("a").try_acquire() is None
        assert client.try_acquire("a") is None, "not re-entrant"
    again = other.try_acquire("a")
    assert again is not None and again.fence > lease.fence
    assert again.release() is True
    assert again.release() is False
    with pytest.raises(ClosedError):
        again.ensure_held()
    with pytest.raises(ClosedError):
        again.confirm()
    with pytest.raises(ClosedError):
        again.extend()


def test_extend_gives_the_new_remaining(client: quorlock.Client) -> None:
    with client.lock("a", ttl=10, renew=False) as lease:
        assert 19 < lease.extend(20) < 20
        assert 19 < lease.remaining < 20
        assert 19 < lease.extend() < 20, "it is the lease's TTL from now on"
        assert 9 < lease.extend(10) < lease.remaining + 0.001 < 10


def test_a_lock_keeps_its_leases_per_thread(url: str) -> None:
    with quorlock.Client(url, wait=5) as client:
        lock = client.lock("a")
        inside = 0
        seen = []

        def work() -> None:
            nonlocal inside
            for _ in range(20):
                with lock as lease:
                    inside += 1
                    seen.append((inside, lease.fence))
                    inside -= 1

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [count for count, _ in seen] == [1] * 100
        assert [fence for _, fence in seen] == sorted({fence for _, fence in seen})


def test_a_lock_releases_its_last_lease_first(client: quorlock.Client) -> None:
    lock = client.lock("a", ttl=0.2, renew=False)
    first = lock.__enter__()
    assert first.wait_lost(5)
    second = lock.__enter__()
    lock.__exit__(None, None, None)
    assert not second.held and not second.lost
    with pytest.raises(LockLostError):
        lock.__exit__(None, None, None)


def test_a_lock_that_was_not_entered_says_so(client: quorlock.Client) -> None:
    with pytest.raises(RuntimeError, match="was not entered"):
        client.lock("a").__exit__(None, None, None)


def test_a_block_that_ends_while_the_server_is_silent(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    with client.lock("a", ttl=30):
        bed.ask("freeze", 0)
    bed.ask("thaw", 0)
    until(lambda: keys() == [])


def test_repr_shows_state_and_no_secret(bed: Bed) -> None:
    url = bed.server("--requirepass", "hunter2").replace("//", "//:hunter2@")
    with quorlock.Client(url) as client:
        lease = client.acquire("a", ttl=5)
        token = bed.cmd(0, "GET", "lock:{a}")
        shown = [repr(client), repr(client.lock("a")), repr(lease)]
        assert f"<quorlock.Lease 'a' held fence={lease.fence}>" in shown
        lease.release()
        shown.append(repr(lease))
        assert "released" in shown[-1]
        with pytest.raises(ClosedError) as caught:
            lease.confirm()
        shown += [repr(caught.value), str(caught.value)]
        assert not [text for text in shown if "hunter2" in text or token in text or token.split(".")[-1] in text]
    assert "closed" in repr(client)


def test_what_belongs_to_a_process_does_not_pickle(client: quorlock.Client) -> None:
    with client.lock("a") as lease:
        for thing in (client, client.lock("a"), lease):
            for copying in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    copying(thing)


def test_close_ends_waits_and_leases(url: str, other: quorlock.Client, keys: Keys) -> None:
    client = quorlock.Client(url)
    lease = client.acquire("a")
    with other.lock("b"):
        failures: list[BaseException] = []

        def wait() -> None:
            try:
                client.acquire("b")
            except quorlock.QuorlockError as error:
                failures.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.05)  # it may be waiting by now; the result is the same if not
        client.close()
        thread.join()
        assert [type(failure) for failure in failures] == [ClosedError]
        assert lease.lost_reason == "closed"
        assert keys() == ["lock:{b}"]
    with pytest.raises(ClosedError):
        client.acquire("a")
    with pytest.raises(ClosedError):
        client.ping(1)


def test_close_drains(client: quorlock.Client) -> None:
    lease = client.acquire("a")
    timer = threading.Timer(0.2, lease.release)
    timer.start()
    begin = time.monotonic()
    client.close(drain=10)
    assert 0.1 < time.monotonic() - begin < 5
    assert not lease.lost
    timer.join()


def test_ping(bed: Bed) -> None:
    urls = bed.servers(2)
    bed.ask("kill", 1)
    with quorlock.Client(urls) as client:
        up, down = client.ping(1)
        assert up.address in urls[0] and up.error is None and up.latency is not None and 0 < up.latency < 1
        assert down.address in urls[1] and down.error and down.latency is None


def test_exceptions_are_as_documented() -> None:
    kinds = {
        LockBusyError: ("busy", TimeoutError),
        LockLostError: ("lost", Exception),
        UnavailableError: ("unavailable", ConnectionError),
        quorlock.StaleFenceError: ("stale", Exception),
        quorlock.ConflictError: ("conflict", Exception),
        quorlock.ServerRefusedError: ("refused", Exception),
        InvalidArgumentError: ("invalid", ValueError),
        ClosedError: ("closed", Exception),
        quorlock.InternalError: ("internal", RuntimeError),
    }
    assert set(kinds) == set(quorlock.QuorlockError.__subclasses__())
    for kind, (name, builtin) in kinds.items():
        error = kind("text", name="a", servers=[("host:1", "refused")], attempts=2, elapsed=0.5, outcome="unknown")
        assert error.kind == name and isinstance(error, builtin) and isinstance(error, quorlock.QuorlockError)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == "text" and again.__dict__ == error.__dict__
        assert (again.name, again.servers, again.attempts) == ("a", [("host:1", "refused")], 2)
        assert (again.elapsed, again.outcome) == (0.5, "unknown")


def test_errors_from_the_core_pickle(client: quorlock.Client, other: quorlock.Client) -> None:
    with client.lock("a"), pytest.raises(LockBusyError) as caught:
        other.acquire("a", wait=0)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.__dict__ == caught.value.__dict__
    assert again.name == "a" and again.attempts >= 1


def test_locked_decorator(client: quorlock.Client, other: quorlock.Client, keys: Keys) -> None:
    @client.locked(lambda order, **_: f"orders/{order}", wait=0)
    def pay(order: int, *, amount: int = 1) -> tuple[int, list[str]]:
        """Pays."""
        return amount, keys()

    assert pay(42, amount=3) == (3, ["lock:{orders/42}"])
    assert (pay.__name__, pay.__doc__) == ("pay", "Pays.")
    assert keys() == []

    @client.locked("report", wait=0, busy="skip")
    def report() -> str:
        raise LockBusyError("the body's own")

    with other.lock("orders/42"), other.lock("report"):
        with pytest.raises(LockBusyError):
            pay(42)
        assert report() is None
    with pytest.raises(LockBusyError, match="the body's own"):
        report()


def test_locked_refuses_what_it_cannot_hold(client: quorlock.Client) -> None:
    def generator() -> object:
        yield

    async def coroutine() -> None: ...

    for function in (generator, coroutine):
        with pytest.raises(InvalidArgumentError, match="^function = "):
            client.locked("a")(function)
    with pytest.raises(InvalidArgumentError, match="^busy = 'maybe'"):
        client.locked("a", busy="maybe")(len)  # type: ignore[call-overload]


def test_a_collected_lease_warns_and_runs_out(
    bed: Bed, client: quorlock.Client, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    lease = client.acquire("a", ttl=0.6)
    with pytest.warns(ResourceWarning, match='quorlock lease "a" was never released'):
        del lease
        gc.collect()
    collected = time.monotonic()
    assert bed.cmd(0, "PTTL", "lock:{a}") > 0, "it is never released early"
    until(lambda: keys() == [])
    assert time.monotonic() - collected < 2, "nobody renews it"
    until(lambda: [r for r in caplog.records if r.name == "quorlock" and r.levelno == logging.WARNING])


def test_a_released_lease_is_collected_silently(client: quorlock.Client) -> None:
    lease = client.acquire("a")
    lease.release()
    del lease
    lost = client.acquire("a", ttl=0.2, renew=False)
    assert lost.wait_lost(5)
    del lost
    gc.collect()


def test_events_reach_logging(bed: Bed, client: quorlock.Client, caplog: pytest.LogCaptureFixture) -> None:
    lease = client.acquire("a", ttl=0.3)
    bed.cmd(0, "DEL", "lock:{a}")
    assert lease.wait_lost(5)
    until(lambda: [record for record in caplog.records if record.name == "quorlock"])
    record = next(record for record in caplog.records if record.name == "quorlock")
    assert record.levelno >= logging.WARNING and "a" in record.getMessage()
    with pytest.raises(LockLostError):
        lease.release()


def test_o04_extend_sets_and_never_adds(bed: Bed, client: quorlock.Client) -> None:
    with client.lock("a", ttl=10, renew=False) as lease:
        for _ in range(5):
            time.sleep(0.1)
            assert 9.5 < lease.extend(10) < 10
            assert 9_500 < bed.cmd(0, "PTTL", "lock:{a}") <= 10_000
            assert 9.5 < lease.remaining < 10


def test_o07_loss_in_the_block(client: quorlock.Client) -> None:
    result = None
    with pytest.raises(LockLostError) as caught:
        with client.lock("a", ttl=0.2, renew=False) as lease:
            lease.wait_lost(5)
            result = 42
            begin = time.monotonic()
    assert time.monotonic() - begin < 0.5
    assert result == 42 and caught.value.kind == "lost"


def test_o07_the_blocks_own_error_wins(client: quorlock.Client) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        with client.lock("a", ttl=0.2, renew=False) as lease:
            lease.wait_lost(5)
            1 / 0  # noqa: B018
    assert isinstance(caught.value.__context__, LockLostError)
    assert caught.value.__context__.__context__ is None
    assert caught.value.__notes__[0].startswith("LockLostError: ")


def test_o07_a_decorated_functions_result_is_kept(client: quorlock.Client) -> None:
    @client.locked("a", ttl=0.2, renew=False)
    def work() -> int:
        time.sleep(0.3)
        return 42

    with pytest.raises(LockLostError) as caught:
        work()
    assert caught.value.result == 42


def test_o08_the_holder_notices(bed: Bed, client: quorlock.Client) -> None:
    lease = client.acquire("a", ttl=1)
    assert not lease.wait_lost(0.5)
    bed.ask("freeze", 0)
    frozen = time.monotonic()
    assert lease.wait_lost(5)
    noticed = time.monotonic()
    # The last renewal was sent at most a third of the TTL before the freeze, and none after it.
    assert 0.5 < noticed - frozen < 1.3
    assert lease.remaining == 0 and not lease.held and lease.lost_reason == "expired"
    with pytest.raises(LockLostError):
        lease.ensure_held()
    bed.ask("thaw", 0)


def test_o09_max_hold(client: quorlock.Client, other: quorlock.Client) -> None:
    begin = time.monotonic()
    lease = client.acquire("a", ttl=0.3, max_hold=1)
    with other.lock("a", wait=10):
        acquired = time.monotonic() - begin
    assert lease.lost_reason == "max_hold"
    assert 0.95 < acquired < 2


def test_o10_renewal_does_not_outlive_release(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    for round in range(400):
        lease = client.acquire(f"a{round % 7}", ttl=0.3)
        time.sleep(random.uniform(0, 0.005))
        assert lease.release() and not lease.lost
    # What was already under way (a release that the reply outran) is over by the next command on the connection.
    with client.lock("last"):
        pass
    bed.ask("monitor", 0, "start")
    time.sleep(0.5)
    assert bed.commands(0) == [] and keys() == []


def test_o13_a_blip_does_not_end_the_lock(bed: Bed, client: quorlock.Client) -> None:
    with client.lock("a", ttl=1) as lease:
        for pause in (0.25, 0.35, 0.8):
            assert not lease.wait_lost(pause)
            assert int(bed.ask("kill-clients", 0)) >= 1
        assert not lease.wait_lost(1.6)
        lease.confirm()


def test_o14_the_late_finisher_frees_nobody(bed: Bed, client: quorlock.Client, other: quorlock.Client) -> None:
    late = client.acquire("a", ttl=0.2, renew=False)
    with other.lock("a", ttl=5, wait=5):
        token = bed.cmd(0, "GET", "lock:{a}")
        with pytest.raises(LockLostError):
            late.release()
        assert bed.cmd(0, "GET", "lock:{a}") == token
        assert bed.cmd(0, "PTTL", "lock:{a}") > 2_500
        with pytest.raises(LockBusyError):
            client.acquire("a", wait=0)


def test_o16_waiting_is_a_matter_of_time(client: quorlock.Client, other: quorlock.Client) -> None:
    begin = time.monotonic()
    lease = client.acquire("a")
    timer = threading.Timer(1.5, lease.release)
    timer.start()
    with pytest.raises(LockBusyError) as caught:
        other.acquire("a", wait=1)
    busy = time.monotonic() - begin
    assert 1.0 <= busy < 1.4 and abs(caught.value.elapsed - busy) < 0.3
    with other.lock("a", wait=2):
        assert 1.5 <= time.monotonic() - begin < 2.2
    timer.join()


def test_o17_validity_counts_from_the_winning_attempt(
    bed: Bed, client: quorlock.Client, other: quorlock.Client
) -> None:
    lease = client.acquire("a")
    timer = threading.Timer(1.2, lease.release)
    timer.start()
    with other.lock("a", ttl=1, wait=5, renew=False) as late:
        assert 0.8 < late.remaining <= 0.988
        assert bed.cmd(0, "PTTL", "lock:{a}") > 800
    timer.join()


def test_o18_no_ghost_after_busy(bed: Bed, client: quorlock.Client, other: quorlock.Client, keys: Keys) -> None:
    lease = client.acquire("a")
    with pytest.raises(LockBusyError):
        other.acquire("a", wait=0.3)
    lease.release()
    bed.ask("monitor", 0, "start")
    time.sleep(0.7)
    assert bed.commands(0) == [] and keys() == []


def test_o19_the_block_never_runs_without_the_lock(client: quorlock.Client, other: quorlock.Client) -> None:
    with client.lock("a"):
        with pytest.raises(LockBusyError):
            with other.lock("a", wait=0.1):
                pytest.fail("the block ran")
        with pytest.raises(LockBusyError):
            with other.acquire("a", wait=0):
                pytest.fail("the block ran")


@pytest.mark.parametrize(("servers", "spare"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_o20_majority(bed: Bed, servers: int, spare: int) -> None:
    urls = bed.servers(servers)
    with quorlock.Client(urls) as client:
        for down in range(spare):
            bed.ask("kill", down)
        with client.lock("a"):
            pass
        bed.ask("kill", spare)
        with pytest.raises(UnavailableError) as caught:
            client.acquire("a", wait=0)
        assert len(caught.value.servers) == servers
        rest = range(spare + 1, servers)
        until(lambda: not any(bed.cmd(up, "EXISTS", "lock:{a}") for up in rest))


def test_o20_no_server_or_a_duplicate_is_invalid() -> None:
    for urls in ([], ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:1"]):
        with pytest.raises(InvalidArgumentError):
            quorlock.Client(urls)


def test_o26_a_call_costs_one_timeout_at_most(bed: Bed) -> None:
    with quorlock.Client(bed.servers(5), server_timeout=0.3) as client:
        with client.lock("warm"):
            pass
        for server in (0, 1):
            bed.ask("freeze", server)
        times = []
        for _ in range(20):
            begin = time.monotonic()
            lease = client.acquire("a")
            lease.extend()
            lease.release()
            times.append(time.monotonic() - begin)
        assert sorted(times)[10] < 0.1, "three servers decide; the silent ones cost nothing"
        bed.ask("freeze", 2)
        begin = time.monotonic()
        with pytest.raises(UnavailableError):
            client.acquire("b", wait=0)
        assert time.monotonic() - begin < 0.6, "asked in parallel"
        for server in (0, 1, 2):
            bed.ask("thaw", server)


def test_o27_late_write_is_undone(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    with client.lock("warm"):
        pass
    bed.ask("freeze", 0)
    begin = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        client.acquire("a", ttl=5, wait=0)
    assert time.monotonic() - begin < 0.4
    assert caught.value.outcome in ("unknown", "not applied", None)
    bed.ask("thaw", 0)
    until(lambda: keys() == [], limit=2)
    # The release has followed on the same connection: the next command of this client comes after it.
    client.ping(1)
    assert keys() == []


def test_o27_nothing_is_queued_while_the_server_is_down(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    bed.ask("kill", 0)
    with pytest.raises(UnavailableError):
        client.acquire("a", ttl=5, wait=0)
    bed.ask("start", 0)
    until(lambda: client.ping(1)[0].error is None)
    assert keys() == []


def test_o32_script_cache_emptied(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    for _ in range(20):
        lease = client.acquire("a")
        bed.cmd(0, "SCRIPT", "FLUSH")
        lease.extend()
        bed.cmd(0, "SCRIPT", "FLUSH")
        assert lease.release()
    assert keys() == []


def test_o34_the_database_is_kept(bed: Bed, url: str) -> None:
    with quorlock.Client(f"{url}/5") as client:
        first = client.acquire("a")
        assert int(bed.ask("kill-clients", 0)) >= 1
        second = client.acquire("b", wait=5)
        assert "db5:keys=5" in bed.cmd(0, "INFO", "keyspace") and "db0" not in bed.cmd(0, "INFO", "keyspace")
        assert first.release() and second.release()


def test_o35_a_server_without_client_and_hello(bed: Bed, url: str) -> None:
    with quorlock.Client(bed.ask("fake", 0), server_timeout=2) as client:  # it is not about slow machines
        with client.lock("a", wait=5) as lease:
            lease.extend()


def test_o41_acquired_here_released_there(client: quorlock.Client) -> None:
    lease = client.acquire("a")
    released = []
    thread = threading.Thread(target=lambda: released.append(lease.release()))
    thread.start()
    thread.join()
    assert released == [True] and lease.release() is False


def test_o56_a_name_may_equal_a_data_key(bed: Bed, client: quorlock.Client) -> None:
    bed.cmd(0, "HSET", "account:42", "a", 1)
    with client.lock("account:42"):
        pass
    bed.cmd(0, "HSET", "lock:{b}", "a", 1)
    begin = time.monotonic()
    with pytest.raises(quorlock.ServerRefusedError, match="hash") as caught:
        client.acquire("b", wait=5)
    assert time.monotonic() - begin < 1
    assert "lock:{b}" in str(caught.value)
    assert bed.cmd(0, "HGETALL", "lock:{b}") == bed.cmd(0, "HGETALL", "account:42")


def test_o57_same_name_same_key_in_every_language(bed: Bed, url: str, client: quorlock.Client, keys: Keys) -> None:
    with client.lock("orders/42 ü"):
        assert keys() == ["lock:{orders/42 ü}"]
    with quorlock.Client(url, prefix="app:") as other, other.lock("orders/42 ü"):
        assert [key for key in keys() if "client" not in key] == ["app:{orders/42 ü}"]


def test_o62_each_server_says_its_cause(bed: Bed) -> None:
    urls = bed.servers(3)
    bed.ask("kill", 0)
    bed.cmd(1, "CONFIG", "SET", "requirepass", "right")
    urls[1] = urls[1].replace("//", "//:hunter2@")
    bed.cmd(2, "SET", "lock:{a}", "somebody", "PX", 60_000)
    with quorlock.Client(urls) as client:
        begin = time.monotonic()
        with pytest.raises(quorlock.QuorlockError) as caught:
            client.acquire("a", wait=0.5)
        took = time.monotonic() - begin
    error = caught.value
    assert len(error.servers) == 3 and len({cause for _, cause in error.servers}) == 3
    assert all(address in "".join(urls) and address in str(error) for address, _ in error.servers)
    assert error.attempts >= 1 and error.elapsed <= took and took - error.elapsed < 0.2
    assert "hunter2" not in str(error) + repr(error) + repr(error.__dict__)


def test_o73_fences_are_exact(bed: Bed, client: quorlock.Client, keys: Keys) -> None:
    bed.cmd(0, "SET", "lock:{a}:fence", 2**53 - 2)
    with client.lock("a") as lease:
        assert lease.fence == 2**53 - 1
    with pytest.raises(quorlock.ServerRefusedError, match="fence exhausted") as caught:
        client.acquire("a", wait=5)
    assert "lock:{a}" in str(caught.value) and keys() == []


def test_signals_do_not_disturb_a_wait(client: quorlock.Client, other: quorlock.Client) -> None:
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    try:
        lease = other.acquire("a")
        main = threading.main_thread().ident
        assert main is not None
        timers = [threading.Timer(0.05 * n, signal.pthread_kill, (main, signal.SIGUSR1)) for n in (1, 2, 3)]
        for timer in timers:
            timer.start()
        with pytest.raises(LockBusyError) as caught:
            client.acquire("a", wait=0.4)
        assert caught.value.elapsed >= 0.4 and len(seen) == 3
        lease.release()
        for timer in timers:
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_o71_contention_is_counted_without_a_command(
    bed: Bed, url: str, client: quorlock.Client, other: quorlock.Client
) -> None:
    assert client.stats() == client.stats()._replace(acquired=0, waiting=0, holding=0)
    with client.lock("a"):
        assert other.try_acquire("a") is None
        assert client.stats().holding == 1
    client.acquire("a", label="x").release()
    bed.ask("monitor", 0, "start")
    stats, others = client.stats(), other.stats()
    assert bed.ask("monitor", 0, "count") == "0"
    assert (stats.acquired, stats.released, stats.holding, stats.waiting) == (2, 2, 0, 0)
    assert (others.busy, others.acquired) == (1, 0)
    assert stats.lost == {"expired": 0, "taken": 0, "max_hold": 0, "closed": 0}
    for histogram, count in ((stats.wait, 2), (stats.hold, 2), (others.wait, 1)):
        assert histogram.count == sum(histogram.counts) == count and histogram.sum >= 0
        assert len(histogram.counts) == len(histogram.bounds) + 1 and histogram.bounds[0] == 0.001
    (server,) = stats.servers
    assert server.address in url and server.calls >= 4 and server.failures == 0


def test_a_holder_is_seen(client: quorlock.Client, other: quorlock.Client) -> None:
    assert other.inspect("a") == quorlock.LockInfo(False, 0, None, 0, None)
    lease = client.acquire("a", ttl=20, label="nightly")
    info = other.inspect("a")
    assert info.held and 10 < info.remaining <= 20 and info.fence == lease.fence and info.waiters == 0
    assert info.holder is not None and info.holder.label == "nightly"
    assert (info.holder.pid, info.holder.language) == (os.getpid(), "python")
    assert info.holder.version == quorlock.__version__ and info.holder.host
    assert info.holder.since is not None and info.holder.since.tzinfo is not None
    assert other.break_lock("a") > lease.fence
    with pytest.raises(LockLostError):
        lease.confirm()
