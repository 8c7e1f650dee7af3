"""What goes in: units, options, and what is refused before anything is sent."""

import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from bed import Bed

import quorlock
from quorlock import InvalidArgumentError

HOSTILE_DURATIONS = [0, -1, -1000, math.nan, math.inf, -math.inf, "5", b"5", None, True, False, [1], 2**53, 2**63 - 1]
HOSTILE_DURATIONS += [10**400, timedelta(seconds=-1), timedelta.max, complex(1)]


def test_o01_fractional_ttl_is_rounded_down(bed: Bed, url: str) -> None:
    begin = time.monotonic()
    with quorlock.Client(url) as client, client.lock("a", ttl=0.12345, wait=2, renew=False):
        assert 0 < bed.cmd(0, "PTTL", "lock:{a}") <= 124
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize("ttl", [0.001, 0.002, 0, -1])
def test_o02_ttl_below_the_drift_allowance(bed: Bed, ttl: float) -> None:
    with quorlock.Client(bed.servers(3)) as client:
        for server in range(3):
            bed.ask("monitor", server, "start")
        begin = time.monotonic()
        with pytest.raises(InvalidArgumentError, match=r"^ttl = .*"):
            client.acquire("a", ttl=ttl, wait=5)
        assert time.monotonic() - begin < 1
        assert [bed.ask("monitor", server, "count") for server in range(3)] == ["0", "0", "0"]


def test_o02_the_smallest_usable_ttl_is_told() -> None:
    client = quorlock.Client("redis://127.0.0.1:1")
    with pytest.raises(InvalidArgumentError, match="at least 100 ms"):
        client.lock("a", ttl=0.099)
    client.lock("a", ttl=0.1)


@pytest.mark.parametrize(
    ("ttl", "low", "high"),
    [(30, 29_000, 30_000), (30.0, 29_000, 30_000), (timedelta(seconds=30), 29_000, 30_000), (0.5, 400, 500)],
)
def test_o03_thirty_seconds(bed: Bed, client: quorlock.Client, ttl: quorlock.Duration, low: int, high: int) -> None:
    lease = client.acquire("a", ttl=ttl, renew=False)
    assert low <= bed.cmd(0, "PTTL", "lock:{a}") <= high
    assert low / 1000 - 0.01 * high / 1000 - 0.002 <= lease.remaining <= high / 1000
    lease.release()


@pytest.mark.parametrize("ttl", HOSTILE_DURATIONS, ids=repr)
def test_o06_hostile_ttl(bed: Bed, client: quorlock.Client, ttl: Any) -> None:
    bed.ask("monitor", 0, "start")
    for refused in (client.lock, client.acquire, client.try_acquire):
        with pytest.raises(InvalidArgumentError, match=r"^ttl = ") as caught:
            refused("a", ttl=ttl)
        assert isinstance(caught.value, ValueError) and caught.value.kind == "invalid"
    with pytest.raises(InvalidArgumentError, match=r"^ttl = "):
        quorlock.Client("redis://127.0.0.1:1", ttl=ttl)
    assert bed.ask("monitor", 0, "count") == "0"
    with client.lock("a"):
        pass


@pytest.mark.parametrize("wait", [-1.5, math.nan, "5", True, -math.inf, 2**63], ids=repr)
def test_o06_hostile_wait(client: quorlock.Client, wait: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^wait = "):
        client.acquire("a", wait=wait)


@pytest.mark.parametrize("name", ["", "x" * 1025, "ü" * 513, "}a", 5, None, b"a", "\ud800"], ids=lambda name: repr(name)[:9])
def test_o06_hostile_names(client: quorlock.Client, name: Any) -> None:
    for refused in (client.lock, client.acquire, client.try_acquire):
        with pytest.raises(InvalidArgumentError, match=r"^name = "):
            refused(name)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("label", 5),
        ("label", "x" * 257),
        ("server_timeout", "1"),
        ("server_timeout", None),
        ("drift", "0.01"),
        ("drift", 0.9),
        ("drift", True),
        ("prefix", None),
        ("prefix", "a{b"),
        ("exact_keys", 1),
        ("exact_keys", None),
        ("ca_file", 5),
        ("client_cert", "cert.pem"),
    ],
)
def test_client_options_are_checked_at_once(option: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{option} = "):
        quorlock.Client("redis://127.0.0.1:1", **{option: value})
    with pytest.raises(InvalidArgumentError, match=rf"^{option} = "):
        quorlock.AsyncClient("redis://127.0.0.1:1", **{option: value})


@pytest.mark.parametrize(
    ("option", "value"), [("renew", 1), ("renew", None), ("max_hold", "1"), ("max_hold", 0.001), ("label", b"x")]
)
def test_lock_options_are_checked_at_once(client: quorlock.Client, option: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{option} = "):
        client.lock("a", **{option: value})


@pytest.mark.parametrize("urls", [5, None, [5], b"redis://x", [], "", "http://x", ["redis://x", None]], ids=repr)
def test_urls_are_checked(urls: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        quorlock.Client(urls)


def test_a_wrong_url_does_not_show_its_password() -> None:
    for urls in ("redis://me:hunter2@host:99999", ["redis://me:hunter2@host", "redis://me:hunter2@host"], [b"hunter2"]):
        with pytest.raises(InvalidArgumentError) as caught:
            quorlock.Client(urls)  # type: ignore[arg-type]
        assert "hunter2" not in str(caught.value) + repr(caught.value)


def test_options_are_keyword_only(client: quorlock.Client) -> None:
    calls: list[Callable[..., Any]] = [client.lock, client.acquire, client.try_acquire, client.locked]
    for call in calls:
        with pytest.raises(TypeError):
            call("a", 5)


def test_wait_none_overrides_the_clients_default(url: str, other: quorlock.Client) -> None:
    with quorlock.Client(url, wait=0) as client:
        lease = other.acquire("a", ttl=0.4, renew=False)
        with pytest.raises(quorlock.LockBusyError):
            client.acquire("a")
        with pytest.raises(quorlock.LockBusyError):
            client.acquire("a", wait=...)
        with client.lock("a", wait=None):
            assert lease.lost


def test_extend_and_wait_lost_and_ping_and_close_check_their_durations(client: quorlock.Client) -> None:
    with client.lock("a") as lease:
        for value in ("5", math.nan, -1, True, 0):
            with pytest.raises(InvalidArgumentError, match=r"^ttl = "):
                lease.extend(value)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match=r"^timeout = "):
            lease.wait_lost("5")  # type: ignore[arg-type]
        assert lease.held
    with pytest.raises(InvalidArgumentError, match=r"^timeout = "):
        client.ping(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^drain = "):
        client.close(-1)
