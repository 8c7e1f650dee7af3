"""Brings the core's events to `logging.getLogger("quorlock")`, and ends everything in order at exit.

The core's own threads never touch the interpreter; they leave events in a mailbox, which a thread of Python's own
empties. It starts with the first client of a process, and again with the first use in a forked child. What it gets is
at least as grave as the logger's level was when the last client was made.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import threading

from ._quorlock import Mailbox, Queue, close_all

_logger = logging.getLogger("quorlock")
_starting = threading.Lock()
_thread: threading.Thread | None = None
mailbox: Mailbox | None = None
woken: dict[int, tuple[asyncio.AbstractEventLoop, Queue]] = {}
"""Event loops that cannot watch a socket, by the key with which their queues wake the mailbox' thread."""


def listen() -> None:
    """Makes events arrive, from the logger's level on."""
    start().listen(_logger.getEffectiveLevel())


def ensure_listening() -> None:
    """The same, unless this process does so already. Cheap."""
    if mailbox is None:
        listen()


def start() -> Mailbox:
    """The mailbox of this process, with a thread that empties it."""
    global mailbox, _thread
    with _starting:
        if mailbox is None:
            mailbox = Mailbox()
            _thread = threading.Thread(target=_run, args=(mailbox,), name="quorlock-events", daemon=True)
            _thread.start()
        return mailbox


def _run(mailbox: Mailbox) -> None:
    while (fetched := mailbox.fetch()) is not None:
        events, wakes = fetched
        for key in wakes:
            if (found := woken.get(key)) is not None:
                loop, queue = found
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(queue.drain)
        for level, message, fields in events:
            values = "".join(f" {key}={value}" for key, value in fields)
            _logger.log(level, "%s%s", message, values, extra={"quorlock": dict(fields)})


def _forked() -> None:
    global mailbox, _thread, _starting
    mailbox, _thread, _starting = None, None, threading.Lock()
    woken.clear()


def _exit() -> None:
    # First the events: that what the program still holds ends with it is no news.
    if mailbox is not None and _thread is not None:
        mailbox.close()
        _thread.join(0.2)
    close_all()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
