"""Adds up what the parts of `make test` have counted: the last lines of a run. Fails if a part has counted nothing."""
import pathlib
import re
import sys

# How each runner says it: cargo, pytest, node --test, `ok NAME` lines of shell and C programs, demo and kill run.
PATTERNS = [
    (r"^test result: \w+\. (\d+) passed; (\d+) failed", None),
    (r"^(?:(\d+) failed, )?(\d+) passed.* in [\d.]+", "swap"),
    (r"^(?:#|ℹ) pass (\d+)", None),
    (r"^(?:#|ℹ) fail (\d+)", "fail"),
    (r"^ok (?!\d)", "one"),
    (r"^demo: (?:OK|UNFENCED):", "one"),
    (r"^(?:demo|killrun): (FAILED)", "fails"),
]


def count(text):
    passed = failed = 0
    for line in text.splitlines():
        for pattern, how in PATTERNS:
            m = re.match(pattern, line)
            if not m:
                continue
            if how == "one":
                passed += 1
            elif how == "fails":
                failed += 1
            elif how == "fail":
                failed += int(m[1])
            elif how == "swap":
                failed, passed = failed + int(m[1] or 0), passed + int(m[2])
            else:
                passed += int(m[1])
                failed += int(m[2]) if m.re.groups > 1 else 0
            break
    return passed, failed


def main():
    total = bad = 0
    for log in sorted(pathlib.Path(sys.argv[1]).glob("*.log"), key=lambda p: p.stat().st_mtime):
        passed, failed = count(log.read_text(errors="replace"))
        print(f"{log.stem:<10} {passed:>5} passed {failed:>3} failed")
        total, bad = total + passed, bad + failed
        if passed == 0:
            sys.exit(f"{log.stem} has counted no test")
    print(f"{'all':<10} {total:>5} passed {bad:>3} failed")
    sys.exit(bad > 0)


main()
