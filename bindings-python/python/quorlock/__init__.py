"""Distributed locks on Redis and Valkey.

A client knows one server, or several independent ones (a quorum). It gives locks; a lock that is held is a lease.

    client = quorlock.Client("redis://localhost")
    with client.lock("orders/42", wait=5) as lease:
        store.write(row, fence=lease.fence)

`Client` blocks, `AsyncClient` is for asyncio; their names and signatures are the same. Durations are seconds (an int
or a float) or a `datetime.timedelta`. `...` as an option's default means: what the client says, else the package's
default. Every error is a `QuorlockError`; its subclasses say what to do about it.
"""

from ._async import AsyncClient, AsyncLease, AsyncLock
from ._base import Duration, Histogram, Holder, LockInfo, ServerStats, ServerStatus, Stats
from ._errors import (
    ClosedError,
    ConflictError,
    InternalError,
    InvalidArgumentError,
    LockBusyError,
    LockLostError,
    QuorlockError,
    ServerRefusedError,
    StaleFenceError,
    UnavailableError,
)
from ._quorlock import VERSION as __version__
from ._sync import Client, Lease, Lock

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "AsyncLock",
    "Client",
    "ClosedError",
    "ConflictError",
    "Duration",
    "Histogram",
    "Holder",
    "InternalError",
    "InvalidArgumentError",
    "Lease",
    "Lock",
    "LockBusyError",
    "LockInfo",
    "LockLostError",
    "QuorlockError",
    "ServerRefusedError",
    "ServerStats",
    "ServerStatus",
    "StaleFenceError",
    "Stats",
    "UnavailableError",
    "__version__",
]
