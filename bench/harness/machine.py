"""The machine that this runs on: whether others use it, and taking turns with them. Small statistics."""
import contextlib
import fcntl
import os
import statistics as st
import time

from .options import A

now = time.monotonic_ns
QUIET = 0.5  # runs during which other work kept more than this many cores busy are dropped, if quieter ones exist


def pct(v, p):
    if not v:
        return None
    v = sorted(v)
    return v[min(len(v) - 1, int(p / 100 * len(v)))]


def med(v):
    v = [x for x in v if x is not None]
    return st.median(v) if v else None


held = {"f": None, "since": 0.0}


def unlock():
    if held["f"]:
        held["f"].close()
        held["f"] = None
        time.sleep(0.5)  # let others have a turn


@contextlib.contextmanager
def measured(timing=True):
    """Holds the machine's benchmark lock, handing it on every few minutes.
    Behavioural runs, whose numbers are time-outs, go without it."""
    if not (A.lock and timing):
        unlock()
        yield
        return
    if not held["f"]:
        held["f"] = open(A.lock, "a")
        fcntl.flock(held["f"], fcntl.LOCK_EX)
        held["since"] = time.time()
    yield
    if time.time() - held["since"] > 200:
        unlock()


def busy_ticks():
    """CPU seconds spent by everything on the machine."""
    with open("/proc/stat") as file:
        f = [int(x) for x in file.readline().split()[1:9]]
    return (sum(f) - f[3] - f[4]) / os.sysconf("SC_CLK_TCK")


def log(*a):
    print(time.strftime("%H:%M:%S"), *a, flush=True)
