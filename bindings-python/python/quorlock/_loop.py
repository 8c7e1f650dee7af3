"""Awaiting the core's calls: the Python half of the completion queue, one for each event loop."""

import asyncio
import itertools
import os
import weakref
from typing import TypeVar

from . import _events
from ._quorlock import Call, Queue

T = TypeVar("T")

# The loop's reader holds its queue, and nothing else does: a loop that is closed takes it along.
_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Queue]] = weakref.WeakKeyDictionary()
_keys = itertools.count()


async def run(call: Call[T]) -> T:
    """Awaits the call's answer. Cancelled, it undoes the call: an answer that came just then as well."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    call.start(queue_of(loop), future)
    try:
        return await future
    except asyncio.CancelledError:
        call.cancel()
        # It may hold a lease by now. Freeing that releases it, which must not wait for the end of the traceback.
        del future
        raise


def queue_of(loop: asyncio.AbstractEventLoop) -> Queue:
    """The queue of the loop on which the caller runs."""
    found = _queues.get(loop)
    queue = found() if found is not None else None
    if queue is None:
        queue = _new_queue(loop)
        _queues[loop] = weakref.ref(queue)
    return queue


def _new_queue(loop: asyncio.AbstractEventLoop) -> Queue:
    queue = Queue()
    try:
        loop.add_reader(queue.fileno(), queue.drain)
    except NotImplementedError:
        return _new_woken_queue(loop)
    return queue


def _new_woken_queue(loop: asyncio.AbstractEventLoop) -> Queue:
    woken = _events.woken
    for key in [key for key, (other, _) in woken.items() if other.is_closed()]:
        del woken[key]
    key = next(_keys)
    queue = Queue(_events.start(), key)
    woken[key] = loop, queue
    return queue


# A loop that a forked child inherits gets a queue of its own there.
os.register_at_fork(after_in_child=_queues.clear)
