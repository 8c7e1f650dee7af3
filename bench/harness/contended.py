"""Many waiters on one lock: M2 on one server, M4 on a quorum, and the article's spin lock."""
import collections
import itertools
import random
import statistics as st
import time

from .machine import QUIET, busy_ticks, log, measured, med, now, pct
from .options import LOOP_MS, PEERS, TTL, A, variants
from .results import done, save
from .servers import Monitor, S
from .worker import Hung, workers


def contend(ws, srvs, key, per, mode, hold_us, duration_ms=0, stagger_us=1000, monitor=False, seed=False, timeout=60, gate_ms=100):
    """Runs one contended scenario over the workers; per = waiters in each."""
    for s in srvs:
        s.cmd("FLUSHALL")
        s.cmd("CONFIG", "RESETSTAT")
    if seed:
        srvs[0].cmd("LPUSH", key, 1)
    total = per * len(ws)
    gate = mode == "drain"
    mon = [Monitor(s) for s in srvs] if monitor else []
    start = now() + (250 + 3 * len(ws) if total > 1 else 80) * 1_000_000
    gate_ns = start + (total * stagger_us + gate_ms * 1000) * 1000 if gate else None
    scpu, b0, t0 = [s.cpu_us() for s in srvs], busy_ticks(), time.time()
    for i, w in enumerate(ws):
        # interleave ids, so that arrival order alternates between the processes
        w.send(cmd="contend", key=key, ttl_ms=TTL, ids=list(range(i, total, len(ws))), mode=mode, hold_us=hold_us,
               start_ns=start, stagger_us=stagger_us, duration_ms=duration_ms, gate_ns=gate_ns if i == 0 else None)
        if i == 0 and gate:
            time.sleep(0.05)
    reps = [w.recv(timeout) for w in ws]
    r = {"waiters": total, "procs": len(ws), "mode": mode, "hold_us": hold_us}
    if monitor:
        ends = [m.end() for m in mon]
        r["outer"] = dict(sum((collections.Counter(o) for o, _ in ends), collections.Counter()))
        r["inner"] = dict(sum((collections.Counter(i) for _, i in ends), collections.Counter()))
        r["_lines"] = mon[0].lines
    r["cmds"] = dict(sum((collections.Counter(s.stats()) for s in srvs), collections.Counter()))
    g = sorted((x for rep in reps for x in rep["grants"]), key=lambda x: x[2])
    fails = [x for rep in reps for x in rep["fails"]]
    r["violations"] = sum(1 for a, b in itertools.pairwise(g) if b[2] < a[3])
    r["cpu_us"] = sum(rep["cpu_us"] for rep in reps)
    r["srv_cpu_us"] = sum(s.cpu_us() for s in srvs) - sum(scpu)
    r["other_cores_busy"] = round((busy_ticks() - b0 - (r["cpu_us"] + r["srv_cpu_us"]) / 1e6) / (time.time() - t0), 2)
    r["fail_kinds"] = dict(collections.Counter(str(f[3])[:90] for f in fails))
    r["failed"] = len(fails)
    if mode == "drain":
        gaps = [(b[2] - a[3]) / 1000 for a, b in itertools.pairwise(g)]
        if gaps:
            r["gap_p50"], r["gap_p99"], r["gap_max"] = pct(gaps, 50), pct(gaps, 99), max(gaps)
            span = g[-1][2] - g[0][3]
            r["handoffs"], r["span_ms"] = len(gaps), span / 1e6
            r["handoffs_s"] = len(gaps) / span * 1e9
            # hand-offs while at least half of the waiters still wait, so that the tail does not dominate
            half = gaps[:max(1, len(gaps) // 2)]
            r["gap_p50_first_half"] = pct(half, 50)
            r["busy"] = sum(x[3] - x[2] for x in g[1:]) / max(1, span)
            ids = [x[0] for x in g[1:]]
            n = len(ids)
            conc = sum(1 if ids[j] > ids[i] else -1 for i in range(n) for j in range(i + 1, n))
            r["tau"] = conc / (n * (n - 1) / 2) if n > 1 else None
            r["cmds_per_handoff"] = sum(r["cmds"].values()) / len(gaps)
            r["cpu_us_per_handoff"] = r["cpu_us"] / len(gaps)
    else:
        end = start + duration_ms * 1_000_000
        inn = [x for x in g if x[2] <= end]
        other = [(a, b) for a, b in itertools.pairwise(inn) if a[0] != b[0]]
        gaps = [(b[2] - a[3]) / 1000 for a, b in other]
        r["grants"], r["grants_s"] = len(inn), len(inn) / duration_ms * 1000
        r["handoffs"], r["handoffs_s"] = len(other), len(other) / duration_ms * 1000
        r["gap_p50"], r["gap_p99"] = pct(gaps, 50), pct(gaps, 99)
        per_id = collections.Counter(x[0] for x in inn)
        counts = [per_id.get(i, 0) for i in range(total)]
        r["starved"] = sum(1 for c in counts if c == 0)
        r["max_share"] = max(counts) / max(1, sum(counts))
        r["jain"] = sum(counts) ** 2 / (total * sum(c * c for c in counts)) if any(counts) else 0
        waits = [(min(x[2], end) - x[1]) / 1e6 for x in g if x[1] < end]
        r["wait_p50_ms"], r["wait_max_ms"] = pct(waits, 50), max(waits) if waits else None
        r["cmds_per_grant"] = sum(r["cmds"].values()) / max(1, len(g))
        r["cmds_per_handoff"] = sum(r["cmds"].values()) / max(1, len(other))
        r["cpu_us_per_grant"] = r["cpu_us"] / max(1, len(g))
    return r


def fold(runs):
    ok = [x for x in runs if "error" not in x and not x.get("counted")]
    quiet = [x for x in ok if x.get("other_cores_busy", 9) < QUIET]
    ok = quiet or ok
    d = {"quiet_runs": len(quiet), "runs": [{k: v for k, v in x.items() if k != "_lines"} for x in runs]}
    for k in ("handoffs", "handoffs_s", "gap_p50", "gap_p99", "gap_max", "gap_p50_first_half", "tau", "cmds_per_handoff", "cpu_us",
              "cpu_us_per_handoff", "span_ms", "failed", "violations", "grants", "grants_s", "starved", "max_share", "jain", "busy",
              "wait_p50_ms", "wait_max_ms", "cmds_per_grant", "cpu_us_per_grant", "srv_cpu_us"):
        d[k] = med([x.get(k) for x in ok])
    d["violations"] = sum(x.get("violations", 0) for x in runs)
    d["fail_kinds"] = dict(sum((collections.Counter(x.get("fail_kinds", {})) for x in ok), collections.Counter()))
    c = next((x for x in runs if x.get("counted") and "error" not in x), None)
    if c and c.get("handoffs"):
        d["outer_per_handoff"] = sum(c["outer"].values()) / c["handoffs"]
        d["inner_per_handoff"] = sum(c["inner"].values()) / c["handoffs"]
        d["outer"], d["inner"] = c["outer"], c["inner"]
    errs = [x["error"] for x in runs if "error" in x]
    if errs:
        d["errors"] = errs
    return d


def m2():
    names = [p for p in PEERS if "M2" in PEERS[p]["tests"]]
    acc = collections.defaultdict(list)
    reps = max(1, A.rounds * 3 // 5)
    cells = [(p, v, lay) for p in names for v in variants(p) for lay in ((1, 100), (10, 10))]
    if A.skip_done:
        cells = [c for c in cells if not done(c[0], f"M2loop.{c[1]}.{c[2][0]}x{c[2][1]}.hold30")]
    for rep in range(reps):
        random.shuffle(cells)
        for peer, v, (procs, per) in cells:
            seed = PEERS[peer].get("seed_list", False)
            tag = f"{v}.{procs}x{per}"
            try:
                with measured(), workers(procs, peer, [S[0].port], v) as ws:
                    for i, w in enumerate(ws):
                        if not seed:
                            w.send(cmd="pairs", n=2 * per, tasks=per, key=f"w{i}", ttl_ms=TTL)
                    for w in ws:
                        if not seed:
                            w.recv(30)
                    if procs == 1 and rep == 0:
                        save(peer, f"M2one.{v}", single_waiter(ws[0], seed))
                    for hold in (0, 30000):
                        jobs = ([("drain", True)] if rep == 0 else []) + [("drain", False)] * (2 if hold == 0 else 1)
                        for mode, mon in jobs:
                            try:
                                r = contend(ws, S[:1], f"k{hold}", per, mode, hold, monitor=mon, seed=seed)
                                if mon:
                                    r["counted"] = True
                                    r.pop("_lines")
                                acc[peer, f"M2drain.{tag}.hold{hold // 1000}"].append(r)
                            except Hung as e:
                                acc[peer, f"M2drain.{tag}.hold{hold // 1000}"].append({"error": str(e)})
                                raise
                        if rep == 0 or hold == 0:
                            acc[peer, f"M2loop.{tag}.hold{hold // 1000}"].append(
                                contend(ws, S[:1], f"l{hold}", per, "loop", hold, duration_ms=LOOP_MS, seed=seed))
            except Hung as e:
                acc[peer, f"M2note.{tag}"].append({"error": str(e)})
                log("M2", peer, tag, e)
            for (p2, metric), runs in acc.items():
                if p2 == peer:
                    save(p2, metric, fold(runs))
        log("M2 rep", rep + 1)


def single_waiter(w, seed):
    """One holder, one waiter already waiting: time from release() to the waiter's start, 15 times at random phases."""
    runs = [contend([w], S[:1], f"one{i}", 1, "drain", 0, seed=seed, gate_ms=random.randint(100, 300), timeout=20) for i in range(15)]
    gaps = [x["gap_p50"] / 1000 for x in runs if x.get("gap_p50")]
    return {"gap_ms_p50": pct(gaps, 50), "gap_ms_max": max(gaps) if gaps else None, "n": len(gaps), "failed": sum(x["failed"] for x in runs),
            "cmds_per_handoff": med([sum(x["cmds"].values()) for x in runs])}


def m4():
    names = [p for p in PEERS if "M4" in PEERS[p]["tests"]]
    acc = collections.defaultdict(list)
    cells = [(p, v) for p in names for v in variants(p)]
    if A.skip_done:
        cells = [c for c in cells if not done(c[0], f"M4drain.{c[1]}")]
    ports = [s.port for s in S]
    for rep in range(max(1, A.rounds * 3 // 5)):
        random.shuffle(cells)
        for peer, v in cells:
            try:
                with measured(), workers(10, peer, ports, v) as ws:
                    for i, w in enumerate(ws):
                        w.ask(cmd="pairs", n=5, tasks=1, key=f"w{i}", ttl_ms=TTL)
                    acc[peer, f"M4loop.{v}"].append(contend(ws, S, "q", 1, "loop", 0, duration_ms=LOOP_MS))
                    if rep == 0:
                        r = contend(ws, S, "qc", 1, "drain", 0, monitor=True)
                        r["counted"] = True
                        r.pop("_lines")
                        acc[peer, f"M4drain.{v}"].append(r)
                    acc[peer, f"M4drain.{v}"].append(contend(ws, S, "qd", 1, "drain", 0))
            except Hung as e:
                acc[peer, f"M4note.{v}"].append({"error": str(e)})
                log("M4", peer, v, e)
            for (p2, metric), runs in acc.items():
                if p2 == peer:
                    save(p2, metric, fold(runs))
        log("M4 rep", rep + 1)


def article():
    """100 clients, a 300 ms job, a spin lock that sleeps 50 ms: SET attempts in each hold."""
    with measured(), workers(1, "floor-rust", [S[0].port], spin_ms=50) as (w,):
        w.ask(cmd="pairs", n=10, tasks=1, key="w", ttl_ms=TTL)
        r = contend([w], S[:1], "art", 100, "drain", 300000, monitor=True, timeout=120, stagger_us=0)
    sets, per_hold = 0, []
    for ln in r.pop("_lines"):
        if '] "SET" "art"' in ln:
            sets += 1
        elif " lua] " in ln and '"del" "art"' in ln.lower():
            per_hold.append(sets)
            sets = 0
    # hold 0 is the gate; hold 1 starts with 99 others waiting
    r["attempts_per_hold"] = per_hold
    r["first_hold_attempts"] = per_hold[1] if len(per_hold) > 1 else None
    r["mean_attempts_per_hold"] = st.mean(per_hold[1:]) if len(per_hold) > 1 else None
    r["total_attempts"] = sum(per_hold[1:])
    save("floor-rust", "article", r)
    log("article", r["first_hold_attempts"], r["mean_attempts_per_hold"])
