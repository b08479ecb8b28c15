"""Shared by the sandbox tests: the target file, scripts run in a fresh interpreter, and what /proc says of processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import guerdon


@pytest.fixture(scope="session")
def targets() -> str:
    """The file of functions that workers run."""
    return str(Path(__file__).with_name("targets.py"))


@pytest.fixture
def python(tmp_path: Path, targets: str) -> Callable[..., str]:
    """Run an interpreter in an empty folder with guerdon importable; its standard output. Fails with its standard error."""
    source = str(Path(guerdon.__file__).parents[1])

    def run(*args: str, stdin: str = "", env: dict[str, str] | None = None) -> str:
        environment = {**os.environ, "PYTHONPATH": source, "TARGETS": targets, **(env or {})}
        done = subprocess.run(
            [sys.executable, *args], input=textwrap.dedent(stdin), env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def script(tmp_path: Path, python: Callable[..., str]) -> Callable[..., str]:
    """Run a script from a file."""

    def run(code: str, *flags: str, env: dict[str, str] | None = None) -> str:
        (tmp_path / "script.py").write_text(textwrap.dedent(code))
        return python(*flags, str(tmp_path / "script.py"), env=env)

    return run


def _state(pid: int | str) -> tuple[str, int]:
    """State letter and parent of a process; ("", 0) when there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "", 0
    return state, int(parent)


@pytest.fixture(scope="session")
def children() -> Callable[[], dict[int, str]]:
    """This process's children and their states ("Z" is a zombie)."""

    def find() -> dict[int, str]:
        states = {int(entry.name): _state(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        return {pid: state for pid, (state, parent) in states.items() if parent == os.getpid()}

    return find


@pytest.fixture(scope="session")
def alive() -> Callable[[int], bool]:
    """Whether a process exists and is no zombie."""
    return lambda pid: _state(pid)[0] not in ("", "Z", "X")


@pytest.fixture(scope="session")
def open_fds() -> Callable[[], int]:
    return lambda: len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="session")
def eventually() -> Callable[..., bool]:
    """Whether a condition comes true within some seconds."""
    import time

    def wait(condition: Callable[[], Any], seconds: float = 10.0) -> bool:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    return wait
