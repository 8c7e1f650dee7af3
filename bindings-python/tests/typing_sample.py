"""What a user writes, checked by `mypy --strict` (test_typing.py). Never run."""

from datetime import timedelta

import quorlock
from quorlock import AsyncClient, AsyncLease, Client, Duration, Lease


def pause() -> Duration:
    return timedelta(seconds=5)


def blocking() -> None:
    with Client("redis://localhost", ttl=30, wait=None, label="me") as client:
        with client.lock("orders/42", wait=pause(), max_hold=60, renew=True) as lease:
            fence: int = lease.fence
            left: float = lease.remaining + lease.extend(10)
            lost: bool = lease.lost or lease.wait_lost(0.5)
            print(fence, left, lost, lease.lost_reason, lease.name)
        maybe: Lease | None = client.try_acquire("report")
        if maybe is not None:
            released: bool = maybe.release()
            print(released)

        @client.locked("report", busy="skip")
        def report(day: int, *, quick: bool = False) -> str:
            return f"{day} {quick}"

        @client.locked(lambda order: f"orders/{order}", wait=5)
        def pay(order: int) -> int:
            return order

        text: str | None = report(1, quick=True)
        number: int = pay(42)
        print(text, number)
        for status in client.ping(1):
            print(status.address, status.latency, status.error)
        client.close(drain=timedelta(seconds=1))


async def asynchronous() -> None:
    async with AsyncClient(["redis://a", "redis://b", "redis://c"]) as client:
        async with client.lock("orders/42", wait=5) as lease:
            held: AsyncLease = lease
            await held.confirm()
            left: float = await held.extend()
            print(left)
        maybe: AsyncLease | None = await client.try_acquire("report")
        if maybe is not None:
            await maybe.release()

        @client.locked("report", busy="skip")
        async def report(day: int) -> str:
            return f"{day}"

        @client.locked(lambda order: f"orders/{order}")
        async def pay(order: int) -> int:
            return order

        text: str | None = await report(1)
        number: int = await pay(42)
        print(text, number)


def errors(client: Client) -> None:
    try:
        client.acquire("orders/42", wait=0)
    except quorlock.LockBusyError as error:
        timeout: TimeoutError = error
        name: str | None = error.name
        print(timeout, name, error.attempts, error.elapsed, error.outcome)
    except quorlock.UnavailableError as error:
        connection: ConnectionError = error
        for address, cause in error.servers:
            print(connection, address, cause)
    except (quorlock.LockLostError, quorlock.StaleFenceError, quorlock.ConflictError, quorlock.ServerRefusedError):
        raise
    except quorlock.InvalidArgumentError as error:
        value: ValueError = error
        print(value)
    except (quorlock.ClosedError, quorlock.InternalError) as error:
        kind: str = error.kind
        print(kind)
