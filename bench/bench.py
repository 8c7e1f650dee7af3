"""Benchmark of quorlock and other Redis lock libraries: see README.md. Standard library only."""
import os
import shutil
import signal
import sys
import tempfile

from harness.check import check
from harness.contended import article, m2, m4
from harness.faults import m3, m5, m6
from harness.machine import log, unlock
from harness.options import PEERS, TESTS, A
from harness.servers import S, Server, free_base_port
from harness.table import table
from harness.uncontended import m1


def needs():
    """What run.sh must prepare."""
    used = [d for d in PEERS.values() if set(d["tests"]) & set(TESTS)]
    return dict.fromkeys(d["needs"] for d in used)


def measure():
    if A.quick:
        shutil.rmtree(A.out, ignore_errors=True)
    os.makedirs(A.out, exist_ok=True)
    A.tmp = tempfile.mkdtemp(prefix="lockbench")
    base = A.base_port or free_base_port()
    S.extend(Server(base + i) for i in range(5))
    try:
        for s in S:
            s.start()
        for test in TESTS:
            log("start", test)
            unlock()
            {"M1": m1, "M2": m2, "M3": m3, "M4": m4, "M5": m5, "M6": m6, "article": article}[test]()
    finally:
        for s in S:
            s.kill()
        for name in os.listdir(A.tmp):
            if name.endswith(".stderr") and os.path.getsize(os.path.join(A.tmp, name)):
                shutil.copy(os.path.join(A.tmp, name), A.out)
        shutil.rmtree(A.tmp, ignore_errors=True)


def main():
    if A.needs:
        print(*([] if A.table_only else needs()))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not A.table_only:
        measure()
    table()
    if A.quick:
        sys.exit(0 if check() else 1)


if __name__ == "__main__":
    main()
