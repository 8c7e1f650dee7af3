"""The blocking and the asyncio classes have the same names and signatures, and both match the documented verbs."""

import inspect

import pytest

import quorlock

PAIRS = [
    (quorlock.Client, quorlock.AsyncClient),
    (quorlock.Lock, quorlock.AsyncLock),
    (quorlock.Lease, quorlock.AsyncLease),
]
VERBS = {
    quorlock.Client: {"lock", "acquire", "try_acquire", "locked", "ping", "inspect", "break_lock", "stats", "close"},
    quorlock.Lock: {"name", "acquire", "try_acquire"},
    quorlock.Lease: {"name", "fence", "held", "remaining", "lost", "lost_reason", "ensure_held", "confirm", "extend"}
    | {"release", "wait_lost"},
}
LOCAL = {"stats", "lock", "locked", "ensure_held"}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "twin"), PAIRS)
def test_names_and_signatures(sync: type, twin: type) -> None:
    assert public(sync) == public(twin) == VERBS[sync]
    assert inspect.signature(sync) == inspect.signature(twin)
    for name in public(sync):
        one, other = inspect.getattr_static(sync, name), inspect.getattr_static(twin, name)
        if isinstance(one, property):
            assert isinstance(other, property)
            continue
        assert inspect.iscoroutinefunction(other) == (name not in LOCAL) and not inspect.iscoroutinefunction(one)
        ours, theirs = inspect.signature(one).parameters, inspect.signature(other).parameters
        assert list(ours) == list(theirs)
        for parameter in ours:
            assert ours[parameter].kind == theirs[parameter].kind
            assert ours[parameter].default == theirs[parameter].default
            assert ours[parameter].annotation == theirs[parameter].annotation


def test_everything_public_is_documented() -> None:
    for name in quorlock.__all__:
        if name in ("Duration", "__version__"):
            continue
        thing = getattr(quorlock, name)
        assert thing.__doc__, name
        for member in public(thing) - public(Exception) - public(OSError) - public(tuple):
            static = inspect.getattr_static(thing, member)
            assert static.__doc__ or not callable(static) and not isinstance(static, property), f"{name}.{member}"
