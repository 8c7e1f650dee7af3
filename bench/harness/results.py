"""One JSON for each peer and metric."""
import json
import os

from .options import A

SAVED = {}  # what this run saved


def path(peer, metric):
    return os.path.join(A.out, f"{peer}.{metric}.json")


def save(peer, metric, result):
    SAVED[peer, metric] = result
    os.makedirs(A.out, exist_ok=True)
    with open(path(peer, metric), "w") as file:
        json.dump({"peer": peer, "metric": metric, **result}, file, indent=1)


def done(peer, metric):
    return os.path.exists(path(peer, metric))


def load():
    """All results in the folder, of earlier runs too."""
    results = {}
    for name in sorted(os.listdir(A.out)):
        if name.endswith(".json"):
            with open(os.path.join(A.out, name)) as file:
                d = json.load(file)
            results[d["peer"], d["metric"]] = d
    return results
