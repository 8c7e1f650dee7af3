"""Side by side with others who use the same keys: redis-py's Lock, and whoever writes `SET … NX PX`."""

import asyncio

import pytest
import redis
from bed import Bed, connect, until
from redis.exceptions import LockNotOwnedError

import quorlock


def test_a_plain_set_excludes_us_and_we_them(bed: Bed, client: quorlock.Client) -> None:
    assert bed.cmd(0, "SET", "lock:{orders/42}", "somebody", "NX", "PX", 300) == "OK"
    assert client.try_acquire("orders/42") is None
    with client.lock("orders/42", wait=5):
        assert bed.cmd(0, "SET", "lock:{orders/42}", "somebody", "NX", "PX", 300) is None
    assert bed.cmd(0, "SET", "lock:{orders/42}", "somebody", "NX", "PX", 300) == "OK"


def test_exact_keys_with_redis_pys_lock(url: str) -> None:
    plain = connect(url)
    with quorlock.Client(url, exact_keys=True) as client:
        theirs = plain.lock("orders:42", timeout=30)
        assert theirs.acquire(blocking=False)
        assert client.try_acquire("orders:42") is None
        with pytest.raises(quorlock.LockBusyError):
            client.acquire("orders:42", wait=0.1)
        theirs.release()
        with client.lock("orders:42", wait=5) as lease:
            assert not plain.lock("orders:42", timeout=30).acquire(blocking=False)
            assert not plain.lock("orders:42", timeout=30).acquire(blocking_timeout=0.1)
            stranger = plain.lock("orders:42", timeout=30)
            stranger.local.token = b"not the token"
            with pytest.raises(LockNotOwnedError):
                stranger.release()
            lease.confirm()
        assert theirs.acquire(blocking=False)
        theirs.release()
        # Each waits for the other.
        theirs = plain.lock("orders:42", timeout=0.3)
        assert theirs.acquire(blocking=False)
        ours = client.acquire("orders:42", ttl=0.3, renew=False, wait=5)
        assert plain.lock("orders:42", timeout=1).acquire(blocking_timeout=5)
        assert ours.lost
    plain.close()


def test_exact_keys_with_redis_pys_asyncio_lock(url: str) -> None:
    async def main() -> None:
        plain = redis.asyncio.Redis.from_url(url)
        async with quorlock.AsyncClient(url, exact_keys=True) as client:
            async with plain.lock("orders:42", timeout=30):
                assert await client.try_acquire("orders:42") is None
            async with client.lock("orders:42"):
                assert not await plain.lock("orders:42", timeout=30).acquire(blocking=False)
        await plain.aclose()

    import redis.asyncio

    asyncio.run(main())


def test_side_keys_stay_under_the_prefix(url: str) -> None:
    plain = connect(url)
    with quorlock.Client(url, exact_keys=True) as client, client.lock("orders:42", label="me"):
        registered, *side = sorted(plain.keys("*"))
        assert registered.startswith("lock:client:")
        assert side == ["lock:{orders:42}:fence", "lock:{orders:42}:label", "orders:42"]
    until(lambda: plain.keys("*") == ["lock:{orders:42}:fence"])
    plain.close()
