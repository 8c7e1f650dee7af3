"""The wire check: what is wrong with the results of a --quick run."""
from .options import PEERS, A
from .results import SAVED


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


def majority_down(metric):
    return metric.startswith("M3") and metric.endswith("3")
