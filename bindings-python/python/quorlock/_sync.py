"""The blocking half: `Client`, `Lock`, `Lease`. Ctrl-C ends every call at once and leaves nothing locked."""

import threading
from collections.abc import Callable
from types import EllipsisType, TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, overload

from . import _events
from ._base import BaseClient, BaseLease, BaseLock, Duration, LockInfo, ServerStatus, lock_info
from ._errors import LockBusyError, LockLostError, QuorlockError, UnavailableError, attach
from ._locked import Name, check_decorated, lock_name, wraps

P = ParamSpec("P")
R = TypeVar("R")


class Client(BaseClient):
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
    ) -> "Lock":
        """How to take a lock: a context manager that is reusable and may be shared. Sends nothing yet.

        ttl, wait, label: as for the client, whose values are the defaults.
        renew: renew the lease at every third of its TTL (True).
        max_hold: renewal stops this long after the grant, and the lease is lost (None: no limit).

        Raises InvalidArgumentError.
        """
        return Lock(self._native.lock(name, ttl, wait, renew, max_hold, label))

    def acquire(
        self,
        name: str,
        *,
        ttl: Duration | EllipsisType = ...,
        wait: Duration | None | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
    ) -> "Lease":
        """Takes a lock, waiting as `wait` says. See `lock` for the options and `Lock.acquire` for the errors."""
        return Lock(self._native.lock(name, ttl, wait, renew, max_hold, label)).acquire()

    def try_acquire(
        self,
        name: str,
        *,
        ttl: Duration | EllipsisType = ...,
        renew: bool | EllipsisType = ...,
        max_hold: Duration | None = None,
        label: str | None = None,
    ) -> "Lease | None":
        """Tries once; None if others hold it. See `lock` for the options and `Lock.acquire` for the errors."""
        return Lock(self._native.lock(name, ttl, ..., renew, max_hold, label)).try_acquire()

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
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
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
    ) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
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
    ) -> Callable[[Callable[P, R]], Callable[P, Any]]:
        """Decorates a function, to run only with the lock.

        name: the lock's name, or a callable that makes it from the function's arguments.
        busy: when others held the lock for the whole wait, raise LockBusyError, or skip the call and return None.

        If the lease was lost before the function returned, LockLostError carries what it returned as `result`.
        See `lock` for the other options and `Lock.acquire` for the errors.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
            check_decorated(function, busy, asynchronous=False)

            @wraps(function)
            def locked_function(*args: P.args, **kwargs: P.kwargs) -> R | None:
                lock = self.lock(
                    lock_name(name, args, kwargs), ttl=ttl, wait=wait, renew=renew, max_hold=max_hold, label=label
                )
                try:
                    lease = lock.acquire()
                except LockBusyError:
                    if busy == "skip":
                        return None
                    raise
                results: list[R] = []
                try:
                    with lease:
                        results.append(function(*args, **kwargs))
                except LockLostError as loss:
                    if results:
                        loss.result = results[0]
                    raise
                return results[0]

            return locked_function

        return decorate

    def ping(self, timeout: Duration) -> list[ServerStatus]:
        """Asks every server: a readiness probe. Raises ClosedError."""
        return [ServerStatus(*row) for row in self._native.ping(timeout).wait()]

    def inspect(self, name: str) -> LockInfo:
        """Who holds a lock, for how long, and how many wait. Changes nothing.

        Raises UnavailableError, ServerRefusedError, InvalidArgumentError, ClosedError.
        """
        return lock_info(*self._native.inspect(name).wait())

    def break_lock(self, name: str) -> int:
        """Frees a lock whoever holds it, and hands it to the first waiter. Gives a new fencing token: above that of
        every lease so far, and below that of every later one. The holder's lease is lost at its next renewal.

        Raises UnavailableError (its `outcome` says whether it may have happened), ServerRefusedError,
        InvalidArgumentError, ClosedError.
        """
        return self._native.break_lock(name).wait()

    def close(self, drain: Duration = 0) -> None:
        """Refuses new calls, ends waits (ClosedError), waits up to `drain` for leases to be released, then signals
        their loss to those left and releases them."""
        self._native.close(drain).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Lock(BaseLock[int, "Lease"]):
    __doc__ = BaseLock.__doc__

    __slots__ = ()

    def acquire(self) -> "Lease":
        """Takes the lock, waiting as `wait` says.

        Raises LockBusyError, UnavailableError, ServerRefusedError, ClosedError.
        """
        lease = self._acquire()
        lease._native.kept = True
        return lease

    def try_acquire(self) -> "Lease | None":
        """Tries once, whatever `wait` says; None if others hold it.

        Raises UnavailableError, ServerRefusedError, ClosedError.
        """
        _events.ensure_listening()
        native = self._native.try_acquire().wait()
        if native is None:
            return None
        lease = Lease(native)
        lease._native.kept = True
        return lease

    def _acquire(self) -> "Lease":
        _events.ensure_listening()
        return Lease(self._native.acquire().wait())

    def __enter__(self) -> "Lease":
        lease = self._acquire()
        self._entered(threading.get_ident(), lease)
        return lease

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._left(threading.get_ident()).__exit__(exc_type, exc, traceback)


class Lease(BaseLease):
    __doc__ = BaseLease.__doc__

    __slots__ = ()

    def confirm(self) -> None:
        """Asks the servers whether it is still ours; prolongs nothing.

        Raises LockLostError, UnavailableError, ClosedError.
        """
        self._native.confirm().wait()

    def extend(self, ttl: Duration | None = None) -> float:
        """Sets the remaining time to `ttl` (its own by default) from now, never adds to it; gives the new remaining.
        A `ttl` given here also governs later renewals.

        Raises LockLostError, UnavailableError, InvalidArgumentError, ClosedError.
        """
        return self._native.extend(ttl).wait()

    def release(self) -> bool:
        """Releases it: True; False if it was released before. Interrupted or cancelled, it is released all the same.

        Raises LockLostError if it was lost, ClosedError in another process.
        """
        return self._native.release().wait()

    def wait_lost(self, timeout: Duration | None = None) -> bool:
        """Waits for the loss. False if it is not lost after `timeout`, or was released."""
        return self._native.wait_lost(timeout).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.release()
        except UnavailableError:
            pass  # the block had the lock to its end; the release goes on in the background
        except QuorlockError as error:
            if exc is None:
                raise
            attach(exc, error)
