"""A block under a lease in asyncio: cancelled when the lease is lost, with a release at its end."""

import asyncio

from . import _quorlock
from ._errors import QuorlockError, UnavailableError, attach
from ._loop import queue_of, run


class Scope:
    """From entering a block to leaving it, in one task. Cancels as asyncio.timeout does: a cancellation by somebody
    else is told apart by the task's count of them, and goes on."""

    __slots__ = ("_cancelled", "_cancelling", "_lost", "_native", "_task")

    def __init__(self, native: _quorlock.Lease) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a lease can only be entered inside a task")
        self._native = native
        self._task = task
        self._cancelling = task.cancelling()
        self._cancelled = False
        loop = task.get_loop()
        self._lost: asyncio.Future[str] | None = loop.create_future()
        self._lost.add_done_callback(self._on_lost)
        native.watch(queue_of(loop), self._lost)

    def _on_lost(self, _lost: "asyncio.Future[str]") -> None:
        if self._lost is not None:
            self._cancelled = True
            self._task.cancel()

    async def leave(self, exc: BaseException | None) -> None:
        """Releases the lease, whatever cancels this task; then raises what must be raised."""
        self._lost = None
        self._native.unwatch()
        loss: QuorlockError | None = None
        late: asyncio.CancelledError | None = None
        try:
            # Cancelled, the release goes on by itself; no server can hold it up for longer than its own limit.
            await run(self._native.release())
        except UnavailableError:
            pass  # the block had the lock to its end
        except QuorlockError as error:
            loss = error
        except asyncio.CancelledError as cancellation:
            late = cancellation
        ours = self._uncancel()
        if late is not None and not ours:
            raise late
        if late is not None:
            loss = self._loss()
        if loss is None:
            return
        if exc is None:
            raise loss
        if ours and isinstance(exc, asyncio.CancelledError):
            raise loss from exc
        attach(exc, loss)

    def _uncancel(self) -> bool:
        """Takes our cancellation back. True if it was the only one."""
        if not self._cancelled or asyncio.current_task() is not self._task:
            return False
        return self._task.uncancel() <= self._cancelling

    def _loss(self) -> QuorlockError | None:
        try:
            self._native.ensure_held()
        except QuorlockError as error:
            return error
        return None
