"""The exceptions. Each says what the caller should do; a new one exists only where that differs."""

from typing import Any, ClassVar


class QuorlockError(Exception):
    """Any error of this package. `str()` of it says all that is known; passwords and owner tokens never appear."""

    kind: ClassVar[str] = "internal"
    """The stable name of the kind, the same in every language."""

    name: str | None
    """The lock's name, if the error is about one."""
    servers: list[tuple[str, str]]
    """For each server of the last round: its address and what it said."""
    attempts: int
    """How many rounds were tried."""
    elapsed: float
    """How long the call took, in seconds."""
    outcome: str | None
    """For a write whose reply is missing: `"not applied"` or `"unknown"`."""

    def __init__(
        self,
        message: str = "",
        *,
        name: str | None = None,
        servers: list[tuple[str, str]] | None = None,
        attempts: int = 0,
        elapsed: float = 0.0,
        outcome: str | None = None,
    ) -> None:
        super().__init__(message)
        self.name = name
        self.servers = servers or []
        self.attempts = attempts
        self.elapsed = elapsed
        self.outcome = outcome

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, self.__dict__


class LockBusyError(QuorlockError, TimeoutError):
    """Others held the lock for the whole wait: try later."""

    kind = "busy"


class LockLostError(QuorlockError):
    """The lease is over, expired or taken by others: stop the protected work."""

    kind = "lost"

    result: Any = None
    """What a function decorated with `locked` returned, when the lease was lost before it ended."""


class UnavailableError(QuorlockError, ConnectionError):
    """Too few servers answered usefully in time: retry with back-off."""

    kind = "unavailable"


class StaleFenceError(QuorlockError):
    """A store refused our fencing token: stop, a newer holder exists."""

    kind = "stale"


class ConflictError(QuorlockError):
    """A value kept changing and the retries are spent: read again, decide again."""

    kind = "conflict"


class ServerRefusedError(QuorlockError):
    """The servers said no for good (rights, password, type of the key, fence exhausted): mend the server or the key."""

    kind = "refused"


class InvalidArgumentError(QuorlockError, ValueError):
    """A wrong argument or option; nothing was sent: mend the code."""

    kind = "invalid"


class ClosedError(QuorlockError):
    """The client is closed, the lease is released already, or it was acquired in another process: make a new one."""

    kind = "closed"


class InternalError(QuorlockError, RuntimeError):
    """A bug of ours: please report it."""

    kind = "internal"


def attach(error: BaseException, loss: QuorlockError) -> None:
    """Lets a body's own exception carry what went wrong with the lease."""
    error.add_note(f"{type(loss).__name__}: {loss}")
    loss.__context__ = None  # Python has set it to `error`: no circles
    if error.__context__ is None:
        error.__context__ = loss
