"""The rules that keep bindings thin (CONTRIBUTING.md), as checks. Prints the figures."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_LINES = 300
FORBIDDEN = {"redis", "tokio"}
problems = []


def lines(folder, pattern="*.rs"):
    return {p: sum(1 for _ in p.open()) for p in sorted((ROOT / folder).rglob(pattern))}


def check(condition, message):
    if not condition:
        problems.append(message)


core = sum(lines("core/src").values())
print(f"ok core: {core} lines of Rust")
for binding in ("bindings-python", "bindings-node", "bindings-c"):
    files = lines(f"{binding}/src")
    total, longest = sum(files.values()), max(files, key=files.get)
    for path, n in files.items():
        check(n <= MAX_LINES, f"{path.relative_to(ROOT)} has {n} lines; at most {MAX_LINES}")
    check(total * 3 < core, f"{binding} has {total} lines: not under a third of core's {core}")
    manifest = (ROOT / binding / "Cargo.toml").read_text()
    section = re.search(r"^\[dependencies\]\n(.*?)(?:^\[|\Z)", manifest, re.S | re.M)
    direct = set(re.findall(r"^([\w-]+)", section[1], re.M))
    check(not direct & FORBIDDEN, f"{binding} depends on {direct & FORBIDDEN}")
    print(f"ok {binding}: {total} lines in {len(files)} files ({total / core:.0%} of core), longest {longest.name} {files[longest]}")

tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines()
for path in tracked:
    check(not re.search(r"(^|/)(target|node_modules|\.venv|__pycache__)/|\.(so|node|whl|tgz|o|a)$", path), f"build output in git: {path}")
print(f"ok git: {len(tracked)} files, no build output")

version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
for path, pattern in {
    "bindings-node/package.json": r'"version": "(.+?)"',
    "include/quorlock.h": r'#define QUORLOCK_VERSION "(.+?)"',
    "CHANGELOG.md": r"^## (\S+)",
}.items():
    found = re.search(pattern, (ROOT / path).read_text(), re.M)
    check(found and found[1] == version, f"{path} has version {found and found[1]}, not {version}")
print(f"ok version {version} everywhere")

if problems:
    sys.exit("\n".join(problems))
