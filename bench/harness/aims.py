"""What quorlock's waiting has to reach."""
import operator

AT_MOST, AT_LEAST = operator.le, operator.ge
SIGN = {AT_MOST: "<=", AT_LEAST: ">="}

# By metric: what it is called, which figure, and the bound.
AIMS = {
    "M2drain": (
        ("commands/hand-over", "sent_per_handover", AT_MOST, 4.0), ("tau", "tau", AT_LEAST, 0.995),
        ("hand-overs/s x floor", "handovers_s_x", AT_LEAST, 0.5), ("gap x floor", "gap_p50_x", AT_MOST, 2.5),
        ("failed", "failed", AT_MOST, 0), ("violations", "violations", AT_MOST, 0)),
    "M2loop": (("starved", "starved", AT_MOST, 0), ("Jain", "jain", AT_LEAST, 0.98), ("failed", "failed", AT_MOST, 0),
               ("violations", "violations", AT_MOST, 0)),
    "M2one": (("gap x floor", "gap_p50_x", AT_MOST, 2.0), ("failed", "failed", AT_MOST, 0)),
    "M2scale": (("commands/hand-over", "sent_per_handover", AT_MOST, 4.0), ("of that with 100", "of_100", AT_MOST, 1.1),
                ("with 100 of that", "of_100", AT_LEAST, 1 / 1.1), ("failed", "failed", AT_MOST, 0), ("violations", "violations", AT_MOST, 0)),
    "article": (("commands/hold", "sent_per_hold", AT_MOST, 4.0), ("hand-overs/s", "handovers_s", AT_LEAST, 3.25),
                ("cores", "client_cores", AT_MOST, 0.05), ("failed", "failed", AT_MOST, 0), ("violations", "violations", AT_MOST, 0)),
    "M4": (("hand-overs/s", "handovers_s", AT_LEAST, 500), ("commands/hand-over", "sent_per_handover", AT_MOST, 130),
           ("failed", "failed", AT_MOST, 0), ("starved", "starved", AT_MOST, 0), ("wait max ms", "wait_max_ms", AT_MOST, 300),
           ("violations", "violations", AT_MOST, 0)),
}


def missed(metric, figures):
    """The aims that were not reached, as texts. A figure that is not there is not reached."""
    for name, key, reached, bound in AIMS[metric]:
        value = figures.get(key)
        if value is None or not reached(value, bound):
            yield f"{name} {'?' if value is None else f'{value:.4g}'}, aim {SIGN[reached]} {bound:.4g}"
