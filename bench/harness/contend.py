"""One contended scenario: many waiters on one lock, and its figures."""
import collections
import itertools
import time

from . import commands
from .machine import QUIET, busy_ticks, med, now, pct
from .options import PEERS, TTL
from .servers import Monitor

FIGURES = ("handovers", "handovers_s", "gap_p50", "gap_p99", "gap_max", "tau", "span_ms", "cpu_us", "cpu_us_per_handover", "srv_cpu_us",
           "failed", "grants", "grants_s", "starved", "max_share", "jain", "wait_p50_ms", "wait_max_ms", "all_per_grant", "sent_each")


def contend(ws, srvs, key, per, mode, hold_us, duration_ms=0, stagger_us=1000, monitor=False, timeout=60, gate_ms=100):
    """Runs it over the workers; per = waiters in each. With `monitor` the commands are counted, and the times are not to be used."""
    for s in srvs:
        s.cmd("FLUSHALL")
        s.cmd("CONFIG", "RESETSTAT")
    if PEERS[ws[0].peer].get("seed_list"):
        srvs[0].cmd("LPUSH", key, 1)
    total = per * len(ws)
    start = now() + (250 + 3 * len(ws) if total > 1 else 80) * 1_000_000
    gate = start + (total * stagger_us + gate_ms * 1000) * 1000 if mode == "drain" else None
    scpu, b0, t0 = sum(s.cpu_us() for s in srvs), busy_ticks(), time.time()
    for i, w in enumerate(ws):
        # interleave ids, so that arrival order alternates between the processes
        w.send(cmd="contend", key=key, ttl_ms=TTL, ids=list(range(i, total, len(ws))), mode=mode, hold_us=hold_us,
               start_ns=start, stagger_us=stagger_us, duration_ms=duration_ms, gate_ns=gate if i == 0 else None)
        if i == 0 and gate:
            time.sleep(0.05)
    # only now: that the gate took the lock belongs to no hand-over
    monitors = [Monitor(s) for s in srvs] if monitor else []
    reps = [w.recv(timeout) for w in ws]
    r = {"waiters": total, "procs": len(ws), "mode": mode, "hold_us": hold_us}
    grants = sorted((x for rep in reps for x in rep["grants"]), key=lambda x: x[2])
    fails = [x for rep in reps for x in rep["fails"]]
    if monitor:
        seen = list(commands.parse(line for m in monitors for line in m.end()))
        r.update(counted=True, **commands.count(seen))
        if mode == "drain" and len(grants) > 1:
            r["sent_in_first_hold"] = sent_between(seen, *grants[1][2:4])
    r["all"] = sum(sum(s.stats().values()) for s in srvs)
    r["cpu_us"] = sum(rep["cpu_us"] for rep in reps)
    r["srv_cpu_us"] = sum(s.cpu_us() for s in srvs) - scpu
    r["other_cores_busy"] = round((busy_ticks() - b0 - (r["cpu_us"] + r["srv_cpu_us"]) / 1e6) / (time.time() - t0), 2)
    r["violations"] = sum(1 for a, b in itertools.pairwise(grants) if b[2] < a[3])
    r["failed"], r["fail_kinds"] = len(fails), dict(collections.Counter(str(f[3])[:90] for f in fails))
    r["all_per_grant"] = r["all"] / max(1, len(grants))
    r.update(drained(grants) if gate else looped(grants, total, start + duration_ms * 1_000_000, duration_ms))
    if gate:
        r["cpu_us_per_handover"] = r["cpu_us"] / max(1, len(grants) - 1)
    return r


def sent_between(seen, begin, end):
    to_wall = time.time() - now() / 1e9
    return sum(1 for t, lua, _ in seen if not lua and begin / 1e9 + to_wall <= t <= end / 1e9 + to_wall)


def drained(grants):
    """Each waiter once. The first grant is the gate's."""
    if len(grants) < 2:
        return {"handovers": 0}
    gaps = [(b[2] - a[3]) / 1000 for a, b in itertools.pairwise(grants)]
    span = grants[-1][2] - grants[0][3]
    asked = [x[1] for x in grants[1:]]
    pairs = [(b > a) - (b < a) for a, b in itertools.combinations(asked, 2)]
    return {"handovers": len(gaps), "handovers_s": len(gaps) / span * 1e9, "span_ms": span / 1e6,
            "gap_p50": pct(gaps, 50), "gap_p99": pct(gaps, 99), "gap_max": max(gaps),
            "tau": sum(pairs) / len(pairs) if pairs else None}


def looped(grants, total, end, duration_ms):
    """Again and again until `end`."""
    in_time = [x for x in grants if x[2] <= end]
    gaps = [(b[2] - a[3]) / 1000 for a, b in itertools.pairwise(in_time) if a[0] != b[0]]
    per_id = collections.Counter(x[0] for x in in_time)
    counts = [per_id.get(i, 0) for i in range(total)]
    waits = [(min(x[2], end) - x[1]) / 1e6 for x in grants if x[1] < end]
    return {"grants": len(in_time), "grants_s": len(in_time) / duration_ms * 1000,
            "handovers": len(gaps), "handovers_s": len(gaps) / duration_ms * 1000, "gap_p50": pct(gaps, 50), "gap_p99": pct(gaps, 99),
            "starved": counts.count(0), "max_share": max(counts) / max(1, sum(counts)),
            "jain": sum(counts) ** 2 / (total * sum(c * c for c in counts)) if any(counts) else 0,
            "wait_p50_ms": pct(waits, 50), "wait_max_ms": max(waits) if waits else None}


def quiet(runs):
    """Those that count: the ones that nobody disturbed, if there are any."""
    ok = [x for x in runs if "error" not in x]
    return [x for x in ok if x["other_cores_busy"] < QUIET] or ok


def timed(runs):
    """Those whose times count."""
    return quiet([x for x in runs if not x.get("counted")])


def fold(runs, floor=None):
    """Many runs of one scenario as one result; `floor`: those of floor-blpop."""
    ok = timed(runs)
    d = {"runs": runs, "timed": len([x for x in runs if "other_cores_busy" in x and not x.get("counted")]),
         "quiet": sum(1 for x in ok if x["other_cores_busy"] < QUIET), **{k: med([x.get(k) for x in ok]) for k in FIGURES}}
    # what must never happen is no matter of medians, nor, for overlaps, of a quiet machine
    d["violations"] = sum(x.get("violations", 0) for x in runs)
    d["failed"] = sum(x["failed"] for x in quiet(runs))
    d["fail_kinds"] = dict(sum((collections.Counter(x.get("fail_kinds", {})) for x in runs), collections.Counter()))
    counted = [x for x in runs if x.get("counted") and x.get("handovers")]
    if counted:
        d.update(per_handover(counted))
    for k in ("handovers_s", "gap_p50"):
        d[f"{k}_x"] = ratio(runs, floor, k) if floor else None
    errors = [x["error"] for x in runs if "error" in x]
    if errors:
        d["errors"] = errors
    return d


def per_handover(counted):
    """Commands of runs that MONITOR saw."""
    n = sum(x["handovers"] for x in counted)
    sent = sum(sum(x["sent"].values()) for x in counted)
    setup, looks = (sum(x[k] for x in counted) for k in ("setup", "looks"))
    inner = sum(sum(x["inner"].values()) for x in counted)
    return {"sent_per_handover": (sent - setup - looks) / n, "inner_per_handover": inner / n, "setup": setup, "looks": looks}


def ratio(runs, floor, k):
    """Of the medians of each round; the median of those."""
    def by_round(runs):
        rounds = collections.defaultdict(list)
        for x in timed(runs):
            rounds[x["round"]].append(x.get(k))
        return {i: med(v) for i, v in rounds.items() if med(v)}

    ours, floors = by_round(runs), by_round(floor)
    both = ours.keys() & floors.keys()
    return med([ours[i] / floors[i] for i in both]) if both else None
