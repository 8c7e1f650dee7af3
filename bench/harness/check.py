"""The wire check: what is wrong with the results of a --quick run."""
from .options import PEERS, A
from .results import SAVED

COMMANDS = 4.0


def check():
    """Prints what is well and what is not. Whether all is well."""
    well = True
    for (peer, metric), result in SAVED.items():
        problems = list(filter(None, wrong(peer, metric, result)))
        print("not ok" if problems else "ok", peer, metric, *problems)
        well = well and not problems
    if not well:
        print(f"what the workers wrote to stderr is in {A.out}")
    return well


def wrong(peer, metric, result):
    yield result.get("error")
    yield from result.get("errors", []) if not majority_down(metric) else ()
    if result.get("violations"):
        yield f"{result['violations']} violations"
    for run in result.get("runs", []):
        yield from (run.get("error"), run.get("hung"), *run.get("errors", []), *run.get("fail_kinds", []))
    if metric.startswith(("M2", "M4")):
        yield from contended(peer, metric, result)
    if metric.startswith("M3"):
        if majority_down(metric) and result.get("ok"):
            yield "a pair succeeded without a majority"
        elif not majority_down(metric) and not result.get("ok"):
            yield "no pair succeeded"
    if metric.startswith("M5"):
        if not result.get("thief_kept"):
            yield "the lock of the next holder is gone"
        if PEERS[peer].get("ours") and result.get("told_ms") is None:
            yield "its holder was not told of the loss"


def contended(peer, metric, result):
    if "loop" in metric and result["starved"] != 0:
        yield f"starved: {result['starved']}"
    if "drain" in metric and not all(run["handovers"] == run["waiters"] for run in result["runs"] if "error" not in run):
        yield "not every waiter had its turn"
    if PEERS[peer].get("ours") and any(run.get("tries") == 0 for run in result["runs"]):
        yield "MONITOR showed no try: looks cannot be told from other commands"
    sent = result.get("sent_per_handover")
    if metric.startswith("M2drain") and (sent is None or sent > COMMANDS):
        yield f"{sent} commands a hand-over, more than {COMMANDS}"


def majority_down(metric):
    return metric.startswith("M3") and metric.endswith("3")
