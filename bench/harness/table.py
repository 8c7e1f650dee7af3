"""The results as tables."""
import os

from .aims import missed
from .options import ALL_PEERS, CLIENTS, A
from .results import load

FAULTS = ("up", "hung1", "killed1", "killed2", "killed3", "hung3")


def fmt(x, digits=0):
    if x is None:
        return "-"
    if isinstance(x, float):
        return f"{x:,.{digits}f}"
    return str(x)


def fmt_ms(us, digits=0):
    return fmt(us and us / 1000, digits)


def tab(title, head, rows):
    """`head`: the titles of the columns, parted by bars."""
    if not rows:
        return []
    head = [x.strip() for x in head.split("|")]
    return ["", f"### {title}", "", *(f"| {' | '.join(r)} |" for r in (head, ["---"] * len(head), *rows))]


def m1(results):
    d = results.get(("redis-benchmark", "M1"))
    if d:
        yield (f"redis-benchmark floor: SET NX PX + EVALSHA pair {d['c1_pair_us']:.0f} us at 1 connection; "
               f"{d['c64_pairs_s']:,.0f} pairs/s at 64 connections")
    found = sorted(((d["p50"], p, d) for (p, m), d in results.items() if m == "M1" and d.get("p50")), key=lambda x: x[0])
    yield from tab(
        "M1 uncontended acquire+release, one server",
        "peer | p50 us | x floor | p99 us | pairs/s | client CPU us/pair | x floor | server us/pair"
        " | 64 tasks: pairs/s | x floor | 64: CPU us/pair",
        [[p, fmt(d["p50"]), fmt(d["p50_x"], 2), fmt(d["p99"]), fmt(d["pairs_s"]), fmt(d["cpu_us"]), fmt(d["cpu_x"], 1),
          fmt(d["srv_us"], 1), fmt(d["c64_pairs_s"]), fmt(d["c64_x"], 2), fmt(d["c64_cpu_us"])] for _, p, d in found])


def aim(p, metric, figures):
    """The last cells of a row: its quiet runs, and whether quorlock reached what it has to."""
    quiet = f"{figures['quiet']} of {figures['timed']}" if figures.get("timed") else "-"
    if A.quick or not ALL_PEERS[p].get("ours"):
        return [quiet, ""]
    problems = "; ".join(missed(metric, figures))
    return [quiet, f"missed: {problems}" if problems else "met"]


def found(results, kind):
    """Results of a metric such as M2drain: peer, the rest of the metric's name, the result."""
    for (p, m), d in results.items():
        name, *rest = m.split(".")
        if name == kind:
            yield p, rest, d


def m2(results):
    for hold in ("hold0", "hold30"):
        yield from tab(
            f"M2 drain, 100 waiters once each, {hold[4:]} ms (x: of floor-blpop in the same round)",
            "peer | variant | layout | hand-overs | failed | violations | order tau | hand-overs/s | x | gap p50 ms | x | gap p99 ms"
            " | commands/hand-over | looks | set-up | in scripts | client CPU us/hand-over | quiet | aim",
            [[p, *names, fmt(d["handovers"]), fmt(d["failed"]), fmt(d["violations"]), fmt(d["tau"], 3), fmt(d["handovers_s"], 1),
              fmt(d["handovers_s_x"], 2), fmt_ms(d["gap_p50"], 2), fmt(d["gap_p50_x"], 2), fmt_ms(d["gap_p99"], 1),
              fmt(d.get("sent_per_handover"), 2), fmt(d.get("looks")), fmt(d.get("setup")), fmt(d.get("inner_per_handover"), 1),
              fmt(d["cpu_us_per_handover"]), *aim(p, "M2drain", d)] for p, (*names, at), d in found(results, "M2drain") if at == hold])
    for hold, seconds in (("hold0", 2), ("hold30", 10)):
        yield from tab(
            f"M2 loop, 100 waiters again and again for {seconds} s, {hold[4:]} ms",
            "peer | variant | layout | grants/s | to another waiter/s | starved of 100 | largest share | Jain | wait p50 ms | wait max ms"
            " | max/p50 | commands/grant, those in scripts too | failed | violations | quiet | aim",
            [[p, *names, fmt(d["grants_s"]), fmt(d["handovers_s"]), fmt(d["starved"]), fmt(d["max_share"], 2), fmt(d["jain"], 3),
              fmt(d["wait_p50_ms"], 1), fmt(d["wait_max_ms"]), fmt(d["wait_p50_ms"] and d["wait_max_ms"] / d["wait_p50_ms"], 1),
              fmt(d["all_per_grant"], 1), fmt(d["failed"]), fmt(d["violations"]), *aim(p, "M2loop", d)]
             for p, (*names, at), d in found(results, "M2loop") if at == hold])
    yield from tab(
        "M2 one waiter behind one holder: release() to the waiter's start, 12 times a round",
        "peer | variant | gap p50 ms | x floor-blpop | gap max ms | commands with both releases | failed | quiet | aim",
        [[p, v, fmt_ms(d["gap_p50"], 2), fmt(d["gap_p50_x"], 2), fmt_ms(d["gap_max"], 1), fmt(d["sent_each"]), fmt(d["failed"]),
          *aim(p, "M2one", d)] for p, (v,), d in found(results, "M2one")])
    scaled = {(p, *rest): d for p, rest, d in found(results, "M2scale")}
    rows = []
    for (p, v, procs, n), d in sorted(scaled.items(), key=lambda x: (x[0][:2], int(x[0][2]), int(x[0][3]))):
        of_100 = scaled.get((p, v, procs, "100"), {}).get("sent_per_handover")
        mine = d.get("sent_per_handover")
        d = {**d, "of_100": mine / of_100 if mine and of_100 else None}
        rows.append([p, v, procs, n, fmt(mine, 2), fmt(d["of_100"], 2), fmt(d["first"].get("sent_per_handover"), 2), fmt(d.get("looks")),
                     fmt(d["first"].get("setup")), fmt(d["tau"], 3), fmt(d["failed"]), fmt(d["violations"]), aim(p, "M2scale", d)[1]])
    yield from tab(
        "M2 drain with more waiters, 0 ms: commands (counted, not timed)",
        "peer | variant | processes | waiters | commands/hand-over | of that with 100 | the first time | looks | set-up | order tau | failed"
        " | violations | aim", rows)


def m3_cell(fault, d):
    if d is None:
        return "-"
    if "error" in d:
        return d["error"]
    if fault.endswith("3"):
        if not d["errors"]:
            return f"SUCCEEDED {d['ok']}"
        us, text = d["errors"][0]
        return f"{text.split(':')[0][:40]} after {us / 1000:.0f} ms"
    cell = fmt_ms(d["p50"], 2)
    if fault != "up" and d["p50"]:
        ratio = f"{d['p50'] / d['before_p50']:.2f}x, " if d["before_p50"] else ""
        cell += f" ({ratio}first {fmt_ms(d['first_us'], 1)})"
    return cell + (f", {d['failed']} of {d['failed'] + d['ok']} failed" if d["failed"] else "")


def m3(results):
    rows = []
    for client in CLIENTS:
        for peer in ALL_PEERS:
            found = [results.get((peer, f"M3.{client}.{fault}")) for fault in FAULTS]
            if any(found):
                rows.append([peer, client, *(m3_cell(fault, d) for fault, d in zip(FAULTS, found, strict=True))])
    yield from tab(
        "M3 Redlock over 5 servers: pair p50 in ms (x: of the p50 just before the fault; quorlock with wait = 0)",
        "peer | client | all up | 1 hung | 1 killed | 2 killed | 3 killed | 3 hung", rows)


def m4(results):
    rows = []
    for p, (v,), d in found(results, "M4drain"):
        loop = results.get((p, f"M4loop.{v}"), {})
        worst = {**d, "starved": loop.get("starved"), "wait_max_ms": loop.get("wait_max_ms"),
                 **{k: d[k] + loop.get(k, 0) for k in ("failed", "violations")}}
        rows.append([
            p, v, fmt(d["handovers"]), fmt(d["handovers_s"], 1), fmt_ms(d["gap_p50"], 1), fmt_ms(d["gap_max"]),
            fmt(d.get("sent_per_handover"), 1), fmt(loop.get("grants_s"), 1), fmt(loop.get("handovers_s"), 1),
            fmt(loop.get("starved")), fmt(loop.get("wait_max_ms")), fmt(worst["failed"]), fmt(worst["violations"]), *aim(p, "M4", worst)])
    yield from tab(
        "M4 Redlock contended, 10 processes, 5 servers, hold 0",
        "peer | variant | drain: hand-overs | hand-overs/s | gap p50 ms | gap max ms | commands/hand-over | loop: grants/s"
        " | to another/s | starved | wait max ms | failed | violations | quiet | aim", rows)


def given_up(results):
    notes = [f"{p} {m}: {'; '.join(d.get('errors', []))}" for (p, m), d in results.items() if "note" in m]
    if notes:
        yield from ("", "Hung or died (the run was given up): " + ". ".join(notes))


def m5(results):
    yield from tab(
        "M5 holder stopped past its TTL",
        "peer | variant | told during work, ms after resume | release says | release took ms | new holder kept",
        [[p, m.split(".")[1], fmt(d.get("told_ms"), 1), (d.get("release") or d.get("error", "-"))[:70], fmt(d.get("release_ms")),
          fmt(d.get("thief_kept"))] for (p, m), d in results.items() if m.startswith("M5.")])


def m6_failure(run):
    text = (run.get("hung") or run.get("error") or "")[:80]
    after = run.get("error_after_kill_ms")
    return text if after is None else f"{text} ({after:+.0f} ms from the kill)"


def m6(results):
    yield from tab(
        "M6 server killed and restarted 1 s later under a waiter",
        "peer | variant | recovered of 3 | ms after it was up | otherwise",
        [[p, m.split(".")[1], fmt(d["recovered"]), fmt(d["after_up_ms"]),
          "; ".join(sorted({m6_failure(run) for run in d["runs"] if not run.get("recovered")}))]
         for (p, m), d in results.items() if m.startswith("M6.")])


def article(results):
    yield from tab(
        "The article's scenario: 100 clients at once, a 300 ms job each",
        "peer | commands/hold | in the first hold | looks | set-up | hand-overs/s | client CPU, cores | order tau | failed | violations | aim",
        [[p, fmt(d["sent_per_hold"], 2), fmt(d.get("sent_in_first_hold")), fmt(d["looks"]), fmt(d["setup"]), fmt(d["handovers_s"], 2),
          fmt(d["client_cores"], 3), fmt(d["tau"], 3), fmt(d["failed"]), fmt(d["violations"]), aim(p, "article", d)[1]]
         for p, _, d in found(results, "article")])


def table():
    """Writes table.md, and prints it."""
    results = load()
    text = "\n".join(line for part in (m1, m2, m3, m4, given_up, m5, m6, article) for line in part(results)) + "\n"
    with open(os.path.join(A.out, "table.md"), "w") as file:
        file.write(text)
    print(text)
