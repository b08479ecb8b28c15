"""One jail for all tests of this folder, and small helpers to judge in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import guerdon
from guerdon import Rollout, Verdict
from guerdon.sandboxes.base import Capabilities, Job, Limits, RunResult
from guerdon.sandboxes.zygote import Zygote
from guerdon.verifiers.code import CodeVerifier

BOX = Zygote(workers=2, limits=Limits(cpu_s=5.0, wall_s=15.0))
IMPATIENT = Zygote(workers=1, limits=Limits(cpu_s=0.5, wall_s=10.0))


@pytest.fixture(scope="session", autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


@pytest.fixture
def box() -> Zygote:
    """The spec of the jail that all share."""
    return BOX


@pytest.fixture
def impatient() -> Zygote:
    """The spec of a jail whose runs end after half a second."""
    return IMPATIENT


@pytest.fixture
def canned() -> type[Canned]:
    """`canned((result, ...))`: a spec whose runs give these results."""
    return Canned


@pytest.fixture
def judge() -> Callable[..., Verdict]:
    """`judge(code, tests, **options)`: the verdict on one program."""

    def one(code: str, tests: Any, *, entry_point: str = "", prompt: str = "", fence: bool = True, **options: Any) -> Verdict:
        options.setdefault("sandbox", BOX)
        columns = {"tests": tests, **({"entry_point": entry_point} if entry_point else {})}
        completion = f"```python\n{code}\n```" if fence else code
        return CodeVerifier(**options).judge([Rollout(completion, prompt=prompt, columns=columns)])[0]

    return one


@dataclass(frozen=True)
class Canned:
    """A sandbox spec whose runs give what they are told, in turn; the last for ever."""

    results: tuple[RunResult, ...]
    limits: Limits = field(default_factory=Limits)

    def start(self) -> CannedBox:
        return CannedBox(list(self.results))


class CannedBox:
    def __init__(self, results: list[RunResult]) -> None:
        self.results, self.jobs = results, []  # type: ignore[var-annotated]

    def run(self, job: Job) -> RunResult:
        self.jobs.append(job)
        return self.results.pop(0) if len(self.results) > 1 else self.results[0]

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return [self.run(job) for job in jobs]

    async def arun(self, job: Job) -> RunResult:
        return self.run(job)

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return self.run_many(jobs)

    def capabilities(self) -> Capabilities:
        return Capabilities("canned", "container", ("python",), 1)

    def close(self) -> None: ...

    def disown(self) -> None: ...

    def __enter__(self) -> CannedBox:
        return self

    def __exit__(self, *exc: object) -> None: ...
