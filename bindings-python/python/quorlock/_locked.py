"""What both forms of the `locked` decorator share."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ._errors import InvalidArgumentError

Name: TypeAlias = str | Callable[..., str]
"""A lock's name, or a callable that makes it from the decorated function's arguments."""

wraps = functools.wraps


def lock_name(name: Name, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The name for one call."""
    return name(*args, **kwargs) if callable(name) else name


def check_decorated(function: Callable[..., Any], busy: str, *, asynchronous: bool) -> None:
    """Refuses what could not be locked: a function whose body runs only after the call has returned."""
    if busy not in ("raise", "skip"):
        raise InvalidArgumentError(f"busy = {busy!r}: must be 'raise' or 'skip'")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidArgumentError(f"function = {function!r}: is a generator; lock inside of it")
    if inspect.iscoroutinefunction(function) and not asynchronous:
        raise InvalidArgumentError(f"function = {function!r}: is async; use AsyncClient.locked")
    if asynchronous and not inspect.iscoroutinefunction(function):
        raise InvalidArgumentError(f"function = {function!r}: is not async; use Client.locked")
