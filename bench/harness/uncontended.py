"""M1: one task alone, and 64 that do not meet."""
import collections
import random
import subprocess

from . import commands
from .machine import QUIET, busy_ticks, log, measured, med, pct
from .options import PEERS, TTL, A
from .results import save
from .servers import Monitor, S
from .worker import Hung, workers


def redis_benchmark(port, c, n):
    s = S[0]
    sha = s.cmd("SCRIPT", "LOAD", "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end")
    res = {}
    for name, cmd in (("set", ["set", "k:__rand_int__", "v", "nx", "px", "10000"]), ("evalsha", ["evalsha", sha, "1", "k:__rand_int__", "v"])):
        o = subprocess.run(["redis-benchmark", "-p", str(port), "-c", str(c), "-n", str(n), "-r", "100000000", "--csv", *cmd],
                           capture_output=True, text=True).stdout.splitlines()[-1]
        f = [x.strip('"') for x in o.split('","')]
        res[name] = {"rps": float(f[1]), "p50_ms": float(f[4]), "p99_ms": float(f[6])}
    res["pair_us"] = 1e6 * (1 / res["set"]["rps"] + 1 / res["evalsha"]["rps"])
    return res


def outer_share(w, srv):
    """By command, which part of its calls in a pair does not come from inside a script (whose time includes them)."""
    mon = Monitor(srv)
    w.ask(cmd="pairs", n=10, tasks=1, key="warm", ttl_ms=TTL)
    seen = commands.count(commands.parse(mon.end()))
    return {c: n / (n + seen["inner"].get(c, 0)) for c, n in seen["sent"].items()}


def m1():
    names = [p for p in PEERS if "M1" in PEERS[p]["tests"]]
    acc = collections.defaultdict(list)
    rb = []
    for r in range(A.rounds):
        if not A.quick:
            with measured():
                rb.append({"c1": redis_benchmark(S[0].port, 1, 20000), "c64": redis_benchmark(S[0].port, 64, 50000)})
        order = names[:]
        random.shuffle(order)
        for peer in order:
            try:
                with measured(), workers(1, peer, [S[0].port]) as (w,):
                    w.ask(cmd="pairs", n=600, tasks=1, key="warm", ttl_ms=TTL, max_ms=2000)
                    share = outer_share(w, S[0])
                    S[0].cmd("CONFIG", "RESETSTAT")
                    s0, b0 = S[0].cpu_us(), busy_ticks()
                    a = w.ask(cmd="pairs", n=A.pairs, tasks=1, key="m1", ttl_ms=TTL, max_ms=4000)
                    s1, usec = S[0].cpu_us(), S[0].stats("usec")
                    other = (busy_ticks() - b0 - (a["cpu_us"] + s1 - s0) / 1e6) / a["wall_us"] * 1e6
                    w.ask(cmd="pairs", n=640, tasks=64, key="warm", ttl_ms=TTL)
                    b = w.ask(cmd="pairs", n=64 * max(10, A.pairs // 64), tasks=64, key="m1c", ttl_ms=TTL, max_ms=4000)
                    info = w.info
                n = len(a["lat_us"])
                if not n:
                    raise Hung(f"no pair succeeded: {a['errors'][:1]}")
                acc[peer].append({
                    "p50": pct(a["lat_us"], 50), "p99": pct(a["lat_us"], 99), "pairs_s": n / a["wall_us"] * 1e6,
                    "cpu_us": a["cpu_us"] / n, "srv_cpu_us": (s1 - s0) / n,
                    "srv_us": sum(us * share.get(c.split("|")[0], 0) for c, us in usec.items()) / n,
                    "c64_pairs_s": len(b["lat_us"]) / b["wall_us"] * 1e6, "c64_cpu_us": b["cpu_us"] / max(1, len(b["lat_us"])),
                    "c64_p99": pct(b["lat_us"], 99), "other_cores_busy": round(other, 2), "errors": (a["errors"] + b["errors"])[:3], "info": info})
            except Hung as e:
                acc[peer].append({"error": str(e)})
        log("M1 round", r + 1)
    fl = acc.get("floor-rust", [])
    for peer, runs in acc.items():
        ok = [(i, x) for i, x in enumerate(runs) if "p50" in x]
        quiet = [(i, x) for i, x in ok if x["other_cores_busy"] < QUIET]
        ok = quiet or ok
        d = {"runs": runs, "info": ok[0][1]["info"] if ok else None, "quiet_runs": len(quiet)}
        for k in ("p50", "p99", "pairs_s", "cpu_us", "srv_us", "srv_cpu_us", "c64_pairs_s", "c64_cpu_us", "c64_p99"):
            d[k] = med([x[k] for _, x in ok])
            d[k + "_range"] = [min(x[k] for _, x in ok), max(x[k] for _, x in ok)] if ok else None
        for k, src in (("p50_x", "p50"), ("c64_x", "c64_pairs_s"), ("cpu_x", "cpu_us")):
            d[k] = med([x[src] / fl[i][src] for i, x in ok if i < len(fl) and src in fl[i]])
        save(peer, "M1", d)
    if rb:
        save("redis-benchmark", "M1", {"runs": rb, "c1_pair_us": med([x["c1"]["pair_us"] for x in rb]),
                                       "c64_pairs_s": med([1e6 / x["c64"]["pair_us"] for x in rb])})
