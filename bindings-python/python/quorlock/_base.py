"""What the blocking and the asyncio half share: all that neither blocks nor awaits."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from os import PathLike
from types import EllipsisType
from typing import Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

from . import _events, _quorlock

Duration: TypeAlias = float | timedelta
"""Seconds (an int or a float) or a timedelta."""

Owner = TypeVar("Owner")
L = TypeVar("L", bound="BaseLease")


class ServerStatus(NamedTuple):
    """What one server answered to `ping`."""

    address: str
    """`host:port` or the socket's path; never the password."""
    latency: float | None
    """The round trip in seconds; None if there was none."""
    error: str | None
    """Why there was none."""


class Holder(NamedTuple):
    """Who holds a lock, as far as it is known.

    All but the label is None where the holder is another library, or its client died more than a day ago.
    """

    host: str | None
    """The name of its machine (of its container)."""
    pid: int | None
    """Its process id there."""
    language: str | None
    """`rust`, `python`, `node`, `c`."""
    version: str | None
    """The version of quorlock that it uses."""
    since: datetime | None
    """When its client came into use, by its own clock."""
    label: str | None
    """The label of the lock."""


class LockInfo(NamedTuple):
    """A lock as the servers see it, for people: it may have changed when you read this."""

    held: bool
    """Whether somebody holds it: on a quorum, the same owner on a majority of the servers."""
    remaining: float
    """For how many seconds they will keep it, if it is not renewed; 0 if it is not held."""
    holder: Holder | None
    """Who holds it; None if nobody does."""
    waiters: int
    """How many stand in its queue, in all processes; those who can only poll do not."""
    fence: int | None
    """The largest fencing token given out so far; None if there was none for a day."""


def lock_info(
    held: bool,
    remaining: float,
    holder: tuple[str | None, int | None, str | None, str | None, float | None, str | None] | None,
    waiters: int,
    fence: int | None,
) -> LockInfo:
    if holder is None:
        return LockInfo(held, remaining, None, waiters, fence)
    host, pid, language, version, since, label = holder
    moment = None if since is None else datetime.fromtimestamp(since, UTC)
    return LockInfo(held, remaining, Holder(host, pid, language, version, moment, label), waiters, fence)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often something took how long."""

    bounds: list[float]
    """The upper bounds of all counts but the last, in seconds."""
    counts: list[int]
    """How often it took at most as long as the bound of the same place, and longer than the one before."""
    count: int
    """How often in all."""
    sum: float
    """How many seconds in all."""


class ServerStats(NamedTuple):
    """How one server has answered."""

    address: str
    """`host:port` or the socket's path; never the password."""
    calls: int
    """Questions that calls, waits and renewals had for it."""
    failures: int
    """Those without a useful answer: it was down, silent or too slow, or it refused."""


class Stats(NamedTuple):
    """What a client has done so far in this process. All but `waiting` and `holding` only grow."""

    waiting: int
    """Acquires under way now."""
    holding: int
    """Leases held now."""
    attempts: int
    """How often acquires have asked the servers for a lock."""
    acquired: int
    """Acquires that gave a lease."""
    busy: int
    """Acquires that others made wait for too long: `try_acquire` without success, too."""
    unavailable: int
    """Acquires that too few servers answered."""
    refused: int
    """Acquires that the servers refused for good."""
    cancelled: int
    """Acquires that ended otherwise: cancelled, or the client was closed."""
    released: int
    """Leases that were released."""
    abandoned: int
    """Leases that the garbage collector found unreleased."""
    lost: dict[str, int]
    """Leases that were lost, by reason: `expired`, `taken`, `max_hold`, `closed`."""
    wait: Histogram
    """How long acquires took, whatever their end."""
    hold: Histogram
    """How long leases were held, whatever their end."""
    servers: list[ServerStats]
    """Each server, in the order of the URLs."""


class ProcessBound:
    """Something that belongs to the process that made it."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a quorlock {type(self).__name__} cannot be copied or pickled: "
            "share it between threads and tasks as it is, and make a client of its own in another process "
            "(a forked child may use its parent's client)"
        )


class BaseClient(ProcessBound):
    """Its servers, and the entry to every verb. Made without I/O; may be shared by threads, and used after a fork.

    One URL is one server; several are a quorum of independent servers.

    ttl: how long the servers keep a lock without renewal (30 s).
    wait: how long an acquire may take; None is no limit (the default), 0 tries once.
    label: a text for people, at most 256 bytes, shown in errors and events.
    server_timeout: limit for one server and one call (50 ms). Raise it for TLS or far servers.
    drift: part of the TTL set aside for clocks that run at different rates (0.01).
    prefix: what every key begins with (`lock:`).
    exact_keys: the key is the name itself, shared with other libraries that use a plain string key (False).
    claim_window: how long a waiter to whom the lock is handed may take to claim it (1 s).
    ca_file, client_cert, client_key: PEM files, with `rediss://`.

    Raises InvalidArgumentError.
    """

    __slots__ = ("_native",)

    def __init__(
        self,
        urls: str | Iterable[str],
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        label: str | None = None,
        server_timeout: Duration | EllipsisType = ...,
        drift: float | EllipsisType = ...,
        prefix: str | EllipsisType = ...,
        exact_keys: bool | EllipsisType = ...,
        claim_window: Duration | EllipsisType = ...,
        ca_file: str | PathLike[str] | None = None,
        client_cert: str | PathLike[str] | None = None,
        client_key: str | PathLike[str] | None = None,
    ) -> None:
        self._native = _quorlock.Client(
            urls,
            ttl=ttl,
            wait=wait,
            label=label,
            server_timeout=server_timeout,
            drift=drift,
            prefix=prefix,
            exact_keys=exact_keys,
            claim_window=claim_window,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
        )
        _events.listen()

    def stats(self) -> Stats:
        """Counters and histograms of this client in this process, without a command to a server. Names of locks are not
        told apart, so what a metrics system makes of it is bounded."""
        numbers, lost, wait, hold, servers = self._native.stats()
        each = [ServerStats(*server) for server in servers]
        return Stats(*numbers, lost, Histogram(*wait), Histogram(*hold), each)

    def __repr__(self) -> str:
        state = "closed " if self._native.closed else ""
        return f"<quorlock.{type(self).__name__} {state}{' '.join(self._native.addresses)}>"


class BaseLock(ProcessBound, Generic[Owner, L]):
    """How to take a lock: a name and options. Reusable; may be shared by threads and tasks; not re-entrant.

    As a context manager it acquires and releases, and the block never runs without the lock. Each thread (or task)
    has its own leases; the last one is released first.
    """

    __slots__ = ("_leases", "_native")

    def __init__(self, native: _quorlock.Lock) -> None:
        self._native = native
        self._leases: dict[Owner, list[L]] = {}

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._native.name

    def _entered(self, owner: Owner, lease: L) -> None:
        leases = self._leases.setdefault(owner, [])
        # Python looks for Ctrl-C at calls only: from here to the block it cannot strike.
        leases += [lease]

    def _left(self, owner: Owner) -> L:
        if not self._leases:
            raise RuntimeError(f"{self!r} was not entered")
        if owner not in self._leases:
            # A generator's block may be closed by another than the one that ran it.
            owner = next(reversed(self._leases))
        leases = self._leases[owner]
        lease = leases.pop()
        if not leases:
            del self._leases[owner]
        return lease

    def __repr__(self) -> str:
        return f"<quorlock.{type(self).__name__} {self.name!r}>"


class BaseLease(ProcessBound):
    """A lock that is held, until it is released or lost. Any thread or task may use it.

    As a context manager it is released at the end of the block. An exception of the block's own goes on, and carries
    the loss of the lease, if any, as a note; LockLostError is raised only after a block that succeeded. Servers that
    cannot be told of the release then are told in the background, without an error here.

    Garbage-collected while held, it is not released (the program may rely on it still) but renewed no more, with a
    warning.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, native: _quorlock.Lease) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._native.name

    @property
    def fence(self) -> int:
        """The fencing token: below 2**53, larger than that of every earlier lease of the name."""
        return self._native.fence

    @property
    def held(self) -> bool:
        """Whether it is still held, by the local clock. Free."""
        return self._native.held

    @property
    def remaining(self) -> float:
        """For how many seconds it may still be relied on, by the local clock. Zero once it is over."""
        return self._native.remaining

    @property
    def lost(self) -> bool:
        """Whether it was lost."""
        return self._native.lost_reason is not None

    @property
    def lost_reason(self) -> str | None:
        """Why it was lost: `expired`, `taken`, `max_hold` or `closed`."""
        return self._native.lost_reason

    def ensure_held(self) -> None:
        """Raises LockLostError if it is lost, ClosedError if it was released or acquired in another process. Free."""
        self._native.ensure_held()

    def __repr__(self) -> str:
        native = self._native
        if native.held:
            state = "held"
        elif native.released:
            state = "released"
        else:
            state = f"lost ({native.lost_reason})" if self.lost else "of another process"
        return f"<quorlock.{type(self).__name__} {native.name!r} {state} fence={native.fence}>"
