"""The asyncio half: `AsyncClient`, `AsyncLock`, `AsyncLease`. Cancelling ends every call at once and leaves nothing
locked."""

import asyncio
from collections.abc import Callable, Coroutine
from types import EllipsisType, TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, overload

from . import _events, _quorlock
from ._base import BaseClient, BaseLease, BaseLock, Duration, LockInfo, ServerStatus, lock_info
from ._errors import LockBusyError, LockLostError
from ._locked import Name, check_decorated, lock_name, wraps
from ._loop import run
from ._scope import Scope

P = ParamSpec("P")
R = TypeVar("R")


class AsyncClient(BaseClient):
    __doc__ = BaseClient.__doc__

    __slots__ = ()

    def lock(
        self,
        name: str,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
    ) -> "AsyncLock":
        """How to take a lock: a context manager that is reusable and may be shared. Sends nothing yet.

        ttl, wait, label: as for the client, whose values are the defaults.
        renew: renew the lease at every third of its TTL (True).
        max_hold: renewal stops this long after the grant, and the lease is lost (None: no limit).

        Raises InvalidArgumentError.
        """
        return AsyncLock(self._native.lock(name, ttl, wait, renew, max_hold, label))

    async def acquire(
        self,
        name: str,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
    ) -> "AsyncLease":
        """Takes a lock, waiting as `wait` says. See `lock` for the options and `Lock.acquire` for the errors."""
        return await AsyncLock(self._native.lock(name, ttl, wait, renew, max_hold, label)).acquire()

    async def try_acquire(
        self,
        name: str,
        *,
        ttl: Duration | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
    ) -> "AsyncLease | None":
        """Tries once; None if others hold it. See `lock` for the options and `Lock.acquire` for the errors."""
        return await AsyncLock(self._native.lock(name, ttl, ..., renew, max_hold, label)).try_acquire()

    @overload
    def locked(
        self,
        name: Name,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
        busy: Literal["raise"] = "raise",
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]: ...
    @overload
    def locked(
        self,
        name: Name,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
        busy: Literal["skip"],
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R | None]]]: ...
    def locked(
        self,
        name: Name,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
        busy: Literal["raise", "skip"] = "raise",
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, Any]]]:
        """Decorates a function, to run only with the lock.

        name: the lock's name, or a callable that makes it from the function's arguments.
        busy: when others held the lock for the whole wait, raise LockBusyError, or skip the call and return None.

        If the lease was lost before the function returned, LockLostError carries what it returned as `result`.
        See `lock` for the other options and `Lock.acquire` for the errors.
        """

        def decorate(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R | None]]:
            check_decorated(function, busy, asynchronous=True)

            @wraps(function)
            async def locked_function(*args: P.args, **kwargs: P.kwargs) -> R | None:
                lock = self.lock(
                    lock_name(name, args, kwargs), ttl=ttl, wait=wait, renew=renew, max_hold=max_hold, label=label
                )
                try:
                    lease = await lock.acquire()
                except LockBusyError:
                    if busy == "skip":
                        return None
                    raise
                results: list[R] = []
                try:
                    async with lease:
                        results.append(await function(*args, **kwargs))
                except LockLostError as loss:
                    if results:
                        loss.result = results[0]
                    raise
                return results[0]

            return locked_function

        return decorate

    async def ping(self, timeout: Duration) -> list[ServerStatus]:
        """Asks every server: a readiness probe. Raises ClosedError."""
        return [ServerStatus(*row) for row in await run(self._native.ping(timeout))]

    async def inspect(self, name: str) -> LockInfo:
        """Who holds a lock, for how long, and how many wait. Changes nothing.

        Raises UnavailableError, ServerRefusedError, InvalidArgumentError, ClosedError.
        """
        return lock_info(*await run(self._native.inspect(name)))

    async def break_lock(self, name: str) -> int:
        """Frees a lock whoever holds it, and hands it to the first waiter. Gives a new fencing token: above that of
        every lease so far, and below that of every later one. The holder's lease is lost at its next renewal.

        Raises UnavailableError (its `outcome` says whether it may have happened), ServerRefusedError,
        InvalidArgumentError, ClosedError.
        """
        return await run(self._native.break_lock(name))

    async def close(self, drain: Duration = 0) -> None:
        """Refuses new calls, ends waits (ClosedError), waits up to `drain` for leases to be released, then signals
        their loss to those left and releases them."""
        await run(self._native.close(drain))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class AsyncLock(BaseLock["asyncio.Task[Any] | None", "AsyncLease"]):
    __doc__ = BaseLock.__doc__

    __slots__ = ()

    async def acquire(self) -> "AsyncLease":
        """Takes the lock, waiting as `wait` says.

        Raises LockBusyError, UnavailableError, ServerRefusedError, ClosedError.
        """
        lease = await self._acquire()
        lease._native.kept = True
        return lease

    async def try_acquire(self) -> "AsyncLease | None":
        """Tries once, whatever `wait` says; None if others hold it.

        Raises UnavailableError, ServerRefusedError, ClosedError.
        """
        _events.ensure_listening()
        native = await run(self._native.try_acquire())
        if native is None:
            return None
        lease = AsyncLease(native)
        lease._native.kept = True
        return lease

    async def _acquire(self) -> "AsyncLease":
        _events.ensure_listening()
        return AsyncLease(await run(self._native.acquire()))

    async def __aenter__(self) -> "AsyncLease":
        lease = await self._acquire()
        self._entered(asyncio.current_task(), lease)
        return await lease.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._left(asyncio.current_task()).__aexit__(exc_type, exc, traceback)


class AsyncLease(BaseLease):
    __doc__ = f"""{BaseLease.__doc__}
    If the lease is lost in the block, the block is cancelled, and LockLostError comes out of it, as asyncio.timeout does.
    """

    __slots__ = ("_scope",)

    def __init__(self, native: _quorlock.Lease) -> None:
        super().__init__(native)
        self._scope: Scope | None = None

    async def confirm(self) -> None:
        """Asks the servers whether it is still ours; prolongs nothing.

        Raises LockLostError, UnavailableError, ClosedError.
        """
        await run(self._native.confirm())

    async def extend(self, ttl: Duration | None = None) -> float:
        """Sets the remaining time to `ttl` (its own by default) from now, never adds to it; gives the new remaining.
        A `ttl` given here also governs later renewals.

        Raises LockLostError, UnavailableError, InvalidArgumentError, ClosedError.
        """
        return await run(self._native.extend(ttl))

    async def release(self) -> bool:
        """Releases it: True; False if it was released before. Interrupted or cancelled, it is released all the same.

        Raises LockLostError if it was lost, ClosedError in another process.
        """
        return await run(self._native.release())

    async def wait_lost(self, timeout: Duration | None = None) -> bool:
        """Waits for the loss. False if it is not lost after `timeout`, or was released."""
        return await run(self._native.wait_lost(timeout))

    async def __aenter__(self) -> Self:
        self._scope = Scope(self._native)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            await scope.leave(exc)
