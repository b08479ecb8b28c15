"""The jails that the tests run in: both rungs that isolate, as this user and, where we are root, as an ordinary one."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import guerdon
from guerdon.sandboxes import Capabilities, Job, Limits, RunResult, Zygote

SOURCE = str(Path(guerdon.__file__).parents[1])
USER = 1500
LIMITS = Limits(cpu_s=5.0, wall_s=15.0)


class Far:
    """A sandbox in another process, possibly another user's."""

    def __init__(self, python: str, user: int | None) -> None:
        kind: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        command = [python, str(Path(__file__).with_name("runner.py")), SOURCE]
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "SECRET_TOKEN": "tok-4711"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=environment, **kind)

    def ask(self, *request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(request, self.process.stdin)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Jail:
    """A sandbox under test, and how to ask it."""

    def __init__(self, far: Far, spec: Zygote, user: int) -> None:
        self.far, self.user = far, user
        self.capabilities: Capabilities = far.ask("start", spec)[0]
        self.level = self.capabilities.level
        self.private = self.level == "namespaces"  # own mounts and processes
        self.sums_memory = not any("cgroup" in note for note in self.capabilities.notes)

    def many(self, jobs: list[Job]) -> list[RunResult]:
        results: list[RunResult] = self.far.ask("run", jobs)
        return results

    def run(self, code: str, stdin: bytes = b"", limits: Limits = LIMITS, **fields: Any) -> RunResult:
        return self.many([Job(textwrap.dedent(code), stdin=stdin, limits=limits, **fields)])[0]

    def says(self, code: str, **fields: Any) -> str:
        """What a program that must end well prints."""
        result = self.run(code, **fields)
        assert result.status == "ok", result
        return result.stdout.decode().strip()

    def processes(self) -> dict[int, list[int]]:
        """The guards and what lives below each: one zygote when nothing runs."""
        found: dict[int, list[int]] = self.far.ask("processes")
        return found


def reachable_python() -> str:
    """An interpreter that any user can start, and that can import guerdon's sources; empty if there is none."""

    def open_to_all(path: str) -> bool:
        at = Path(path).resolve()
        return at.exists() and bool(at.stat().st_mode & 0o004) and all(part.stat().st_mode & 0o001 for part in at.parents)

    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if open_to_all(python) and open_to_all(str(Path(SOURCE) / "guerdon" / "errors.py")):
            check = "import sys; sys.exit(sys.version_info < (3, 11))"
            if subprocess.run([python, "-c", check]).returncode == 0:
                return python
    return ""


_AS_USER = [pytest.param(f"user-{level}", marks=pytest.mark.slow) for level in ("namespaces", "landlock")]  # the same again, for 10 s


@pytest.fixture(scope="session", params=["namespaces", "landlock", *_AS_USER])
def jail(request: pytest.FixtureRequest) -> Iterator[Jail]:
    """A jail of two slots at each rung, skipped where this machine does not have the rung."""
    user, _, level = request.param.rpartition("-")
    python, uid = sys.executable, None
    if user:
        if os.geteuid() != 0:
            pytest.skip("already an ordinary user")
        python, uid = reachable_python(), USER
        if not python:
            pytest.skip("no interpreter that an ordinary user could start")
    far = Far(python, uid)
    try:
        yield Jail(far, Zygote(workers=2, limits=LIMITS, level=level, min_isolation=level), USER if user else os.geteuid())
    finally:
        far.close()


@pytest.fixture
def far() -> Iterator[Callable[..., Far]]:
    """Makes processes with a sandbox of their own, ended after the test."""
    made: list[Far] = []

    def make(python: str = sys.executable, user: int | None = None) -> Far:
        made.append(Far(python, user))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def box() -> Iterator[Any]:
    """The default sandbox of this machine, in this process."""
    with Zygote(workers=2, limits=LIMITS).start() as sandbox:
        yield sandbox
