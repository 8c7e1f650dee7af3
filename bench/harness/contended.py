"""Many waiters on one lock: M2 on one server, M4 on a quorum, and the article's spin lock."""
import collections
import random

from .contend import contend, fold
from .machine import log, measured, med, pct
from .options import LOOP_MS, PEERS, TTL, A, variants
from .results import done, save
from .servers import S
from .worker import Hung, workers

LAYOUTS = ((2, 10),) if A.quick else ((1, 100), (10, 10))  # processes, waiters in each
HOLDS = (0,) if A.quick else (0, 30)
ROUNDS = max(1, A.rounds * 3 // 5)
M4_PROCS = 3 if A.quick else 10
M4_DRAINS = 1 if A.quick else 5


def asked_for(test):
    return [(p, v) for p in PEERS if test in PEERS[p]["tests"] for v in variants(p)]


def save_all(acc):
    """The floor of a metric is that of floor-blpop, which has one variant."""
    for (peer, metric), runs in acc.items():
        kind, _, *rest = metric.split(".")
        floor = acc.get(("floor-blpop", ".".join([kind, "default", *rest])))
        save(peer, metric, fold(runs, floor))


def in_rounds(test, cells, run):
    """Calls run(peer, variant, rest of the cell, note) for each cell in random order, in each round."""
    acc = collections.defaultdict(list)
    for i in range(ROUNDS):
        random.shuffle(cells)
        for peer, v, *rest in cells:
            def note(kind, result, *tag, peer=peer, v=v, i=i):
                acc[peer, ".".join([f"{test}{kind}", v, *tag])].append({**result, "round": i})

            try:
                run(peer, v, *rest, first=i == 0, note=note)
            except Hung as e:
                note("note", {"error": str(e)}, *(str(x) for x in rest))
                log(test, peer, v, *rest, e)
        save_all(acc)
        log(test, "round", i + 1)


def warm(ws, tasks):
    if not PEERS[ws[0].peer].get("seed_list"):
        for i, w in enumerate(ws):
            w.send(cmd="pairs", n=2 * tasks, tasks=tasks, key=f"w{i}", ttl_ms=TTL)
        for w in ws:
            w.recv(30)


def m2():
    peers = asked_for("M2")
    cells = [(p, v, layout) for p, v in peers for layout in LAYOUTS]
    if A.skip_done:
        cells = [c for c in cells if not done(c[0], f"M2loop.{c[1]}.{c[2][0]}x{c[2][1]}.hold{HOLDS[-1]}")]
    in_rounds("M2", cells, m2_cell)
    if not A.quick:
        scaled = [(p, v, procs, n) for p, v in peers if PEERS[p].get("ours") or p == "floor-blpop"
                  for procs in (1, 10) for n in (10, 100, 1000)]
        for p, v, procs, n in scaled:
            m2_scale(p, v, procs, n)
        log("M2 scaled")


def m2_cell(peer, v, layout, first, note):
    procs, per = layout
    tag = f"{procs}x{per}"
    with measured(), workers(procs, peer, [S[0].port], v) as ws:
        warm(ws, per)
        for hold in HOLDS:
            def drain(hold=hold, **k):
                note("drain", contend(ws, S[:1], f"k{hold}", per, "drain", hold * 1000, **k), tag, f"hold{hold}")

            if first:
                drain(monitor=True)
            for _ in range(0 if A.quick else 2 if hold == 0 else 1):
                drain()
            if first or hold == 0:
                # long enough for each to have its turn several times
                ms = 1000 if A.quick else LOOP_MS if hold == 0 else 5 * LOOP_MS
                note("loop", contend(ws, S[:1], f"l{hold}", per, "loop", hold * 1000, duration_ms=ms), tag, f"hold{hold}")
        if procs == 1:
            note("one", single_waiter(ws))


def single_waiter(ws):
    """One holder, one waiter already waiting: time from release() to the waiter's start, 12 times at random phases."""
    runs = [contend(ws, S[:1], f"one{i}", 1, "drain", 0, gate_ms=random.randint(100, 300), timeout=20) for i in range(12)]
    gaps = [x["gap_p50"] for x in runs if x.get("gap_p50")]
    counted = contend(ws, S[:1], "onec", 1, "drain", 0, monitor=True, timeout=20)
    return {"gap_p50": pct(gaps, 50), "gap_max": max(gaps, default=None), "failed": sum(x["failed"] for x in runs),
            "sent_each": sum(counted["sent"].values()) - counted["setup"], "other_cores_busy": med([x["other_cores_busy"] for x in runs])}


def m2_scale(peer, v, procs, n):
    """Commands with so many waiters: the first time, and again."""
    try:
        with measured(), workers(procs, peer, [S[0].port], v) as ws:
            warm(ws, n // procs)
            first, *again = (contend(ws, S[:1], f"s{i}", n // procs, "drain", 0, monitor=True, timeout=120) for i in range(3))
        save(peer, f"M2scale.{v}.{procs}.{n}", {**fold(again), "first": fold([first]), "tau": med([x["tau"] for x in again])})
    except Hung as e:
        save(peer, f"M2note.{v}.scale{procs}.{n}", {"errors": [str(e)]})


def m4():
    cells = [c for c in asked_for("M4") if not (A.skip_done and done(c[0], f"M4drain.{c[1]}"))]
    in_rounds("M4", cells, m4_cell)


def m4_cell(peer, v, first, note):
    with measured(), workers(M4_PROCS, peer, [s.port for s in S], v) as ws:
        for i, w in enumerate(ws):
            w.ask(cmd="pairs", n=5, tasks=1, key=f"w{i}", ttl_ms=TTL)
        note("loop", contend(ws, S, "q", 1, "loop", 0, duration_ms=1000 if A.quick else LOOP_MS))
        for monitor in ((True, False) if first else (False,)):
            for i in range(M4_DRAINS):
                note("drain", contend(ws, S, f"q{i}", 1, "drain", 0, monitor=monitor))


def article():
    """100 clients that come together, a 300 ms job. The spin lock (floor-rust) sleeps 50 ms between two attempts."""
    for peer, v in asked_for("article"):
        with measured(), workers(1, peer, [S[0].port], v) as ws:
            warm(ws, 10)
            r = contend(ws, S[:1], "art", 100, "drain", 300_000, monitor=True, timeout=120, stagger_us=0)
        holds = r["handovers"]
        r["sent_per_hold"] = (sum(r["sent"].values()) - r["setup"]) / holds if holds else None
        r["client_cores"] = r["cpu_us"] / 1000 / r["span_ms"] if holds else None
        save(peer, f"article.{v}", r)
        log("article", peer, v)
