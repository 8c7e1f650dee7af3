"""The types: the package and its users (typing_sample.py, these tests) under `mypy --strict`, and the stub of the native
module against the module."""

import subprocess
import sys
from pathlib import Path

import quorlock

HERE = Path(__file__).parent


def run(*arguments: str, directory: Path) -> None:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict(tmp_path: Path) -> None:
    cache = f"--cache-dir={tmp_path}"
    run("mypy", "--strict", cache, "-p", "quorlock", directory=tmp_path)
    run("mypy", "--strict", cache, str(HERE), directory=HERE)


def test_stubs_match_the_native_module(tmp_path: Path) -> None:
    run("mypy.stubtest", "quorlock", directory=tmp_path)


def test_the_package_is_typed() -> None:
    assert (Path(quorlock.__file__).parent / "py.typed").exists()
