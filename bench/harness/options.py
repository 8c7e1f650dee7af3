"""What was asked for: the command line, and the peers and tests that it selects."""
import argparse
import fnmatch
import json
import os
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(os.path.dirname(BENCH), "target")
METRICS = ("M1", "M2", "M3", "M4", "M5", "M6", "article")
CLIENTS = ("default", "tuned")

ap = argparse.ArgumentParser()
ap.add_argument("--cache", default=os.environ.get("BENCH_CACHE", os.path.join(TARGET, "bench-cache")))
ap.add_argument("--out", default=os.environ.get("BENCH_OUT", os.path.join(TARGET, "bench")))
ap.add_argument("--base-port", type=int, default=int(os.environ.get("BENCH_PORT", "0")), help="first of five ports; default: five free ones")
ap.add_argument("--lock", default=os.environ.get("BENCH_LOCK"), help="file to flock around each measured run")
ap.add_argument("--peers", help="names or patterns (quorlock-*), comma-separated; default all, with --quick quorlock-*")
ap.add_argument("--tests", help="default M1,M2,M3,M4,M5,M6,article; with --quick M1,M2,M4,M5")
ap.add_argument("--rounds", type=int, default=5, help="rounds of M1; M2 and M4 take 3/5 of it")
ap.add_argument("--pairs", type=int, default=3000)
ap.add_argument("--hard", type=float, default=20, help="seconds after which a worker counts as hung")
ap.add_argument("--quick", action="store_true", help="a wire check: few pairs, one round, no floor; exits with 1 if a metric came back with an error")
ap.add_argument("--skip-done", action="store_true", help="leave out M2 and M4 cells whose results exist (to resume)")
ap.add_argument("--table-only", action="store_true")
ap.add_argument("--needs", action="store_true", help="print what run.sh must prepare for this selection, and do nothing")
A = ap.parse_args()
A.cache = os.path.abspath(A.cache)
if A.quick:
    A.rounds, A.pairs, A.out = 1, 100, os.path.join(A.out, "quick")  # its figures mean nothing: they go elsewhere

TTL = 10000
LOOP_MS = 2000
M5_TTL = 600 if A.quick else 2000
# The wire check must not fail because a busy machine stood still for quorlock's 50 ms.
QUICK_CFG = {"server_timeout_ms": 300} if A.quick else {}


def selected_tests():
    tests = A.tests.split(",") if A.tests else ["M1", "M2", "M4", "M5"] if A.quick else METRICS
    for test in tests:
        if test not in METRICS:
            sys.exit(f"no test is called {test}; there are {', '.join(METRICS)}")
    return tests


def selected_peers():
    patterns = (A.peers or ("quorlock-*" if A.quick else "*")).split(",")
    for pattern in patterns:
        if not fnmatch.filter(ALL_PEERS, pattern):
            sys.exit(f"no peer is called {pattern}; there are {', '.join(ALL_PEERS)}")
    chosen = {name: peer for name, peer in ALL_PEERS.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    floors = {} if A.quick else {
        name: {**peer, "tests": peer["floor"]} for name, peer in ALL_PEERS.items() if set(peer.get("floor", ())) & set(TESTS)}
    return {**floors, **chosen}


def variants(peer):
    return PEERS[peer].get("variants", ["default"])


with open(os.path.join(BENCH, "peers.json")) as file:
    ALL_PEERS = {name: peer for name, peer in json.load(file).items() if name != "_"}
TESTS = selected_tests()
PEERS = selected_peers()
