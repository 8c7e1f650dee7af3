"""What a kill run has shown: from what workers told, what the lock's servers did, and what the store accepted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """What a worker told, or what was done to it: a time (seconds since 1970), a word, a detail."""

    t: float
    word: str
    detail: str


class Failure(Exception):
    """The run, or the check of it, went wrong; the text says why."""


def waiting(events: Iterable[Event], end: float) -> Iterator[Span]:
    """When a worker waited and could have taken the lock: not while it was stopped, not once it was killed."""
    asks, runs, since = False, True, None
    for event in [*sorted(events, key=lambda event: event.t), Event(end, "killed", "")]:
        match event.word:
            case "wait":
                asks = True
            case "granted" | "ended":
                asks = False
            case "stopped" | "killed":
                runs = False
            case "continued":
                runs = True
        if asks and runs:
            since = event.t if since is None else since
        elif since is not None:
            yield since, event.t
            since = None


def holds(monitor: Iterable[str], key: str, end: float) -> Iterator[tuple[str, Span]]:
    """When the key had each owner, by the server's own record (MONITOR) of the commands that change it.

    It is exact, whatever the load of this machine: the server stamps each command, also those in scripts, and what a
    command sets is known. A key that was handed to a waiter which is frozen or has died since exists until it expires.
    """
    owner, since, expires = "", 0.0, 0.0
    for line in monitor:
        t, words = float(line[1 : line.index(" ")]), re.findall(r'"((?:[^"\\]|\\.)*)"', line)
        if key not in words[1:]:
            continue
        if owner and expires < t:
            yield owner, (since, expires)
            owner = ""
        match words[0].upper():
            case "SET" if "PX" in words:
                if owner:
                    yield owner, (since, t)
                owner, since, expires = words[2], t, t + int(words[words.index("PX") + 1]) / 1000
            case "PEXPIRE":
                expires = t + int(words[2]) / 1000
            case "DEL":
                if owner:
                    yield owner, (since, t)
                owner = ""
            case "GET" | "PTTL" | "EXISTS" | "EVAL" | "EVALSHA":
                pass
            case other:
                raise Failure(f"the check does not know what {other} does to the lock: {line}")
    if owner:
        yield owner, (since, min(expires, end))


def free(servers: list[list[str]], key: str, began: float, end: float) -> Iterator[Span]:
    """When no owner had the key on a majority of the servers: on the one server, if there is but one."""
    changes: list[tuple[float, int, str]] = []
    for monitor in servers:
        for owner, (begin, over) in holds(monitor, key, end):
            changes += [(begin, 1, owner), (over, -1, owner)]
    has, since, need = Counter[str](), began, len(servers) // 2 + 1
    for t, step, owner in sorted(changes):
        if step > 0 and has[owner] == need - 1 and since < t:
            yield since, t
        has[owner] += step
        if step < 0 and has[owner] == need - 1:
            since = t
    if max(has.values(), default=0) < need and since < end:
        yield since, end


def union(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def both(a: list[Span], b: list[Span]) -> Iterator[Span]:
    """Where two unions overlap."""
    i = j = 0
    while i < len(a) and j < len(b):
        begin, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if begin < end:
            yield begin, end
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1


def at_once(journal: Iterable[str]) -> list[str]:
    """Two bodies behind the fence at once: what the store accepted of one lies between what it accepted of another.

    Nothing else counts as being in the body: a worker that was stopped in it may go on after the next one has come, and
    is refused then. Two bodies with one fence, and a write over a value that has changed since it was read, are worse.
    """
    problems: list[str] = []
    current, bodies, fences, written = "", set[str](), set[str](), 0
    for line in journal:
        body, fence, value, verdict = line.split()
        if verdict == "refused":
            continue
        if body != current and body in bodies:
            problems.append(f"{body} and {current} at once")
        if body not in bodies and fence in fences:
            problems.append(f"{body} has the fence of an earlier one, {fence}")
        if value != "enter":
            written += 1
            if int(value) != written:
                problems.append(f"{body} wrote {value} as number {written}: an update is lost")
                written = int(value)
        current = body
        bodies.add(body)
        fences.add(fence)
    return problems
