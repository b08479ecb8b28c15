"""Many pieces of work in lockstep: each yields the jobs it needs next, all jobs of a round are one `run_many`.

One place knows that a wall overrun counts only if a second run, alone, overruns too.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from guerdon.sandboxes.base import Job, RunResult

if TYPE_CHECKING:
    from guerdon.sandboxes.base import Sandbox
    from guerdon.verifiers.code.results import Report

__all__ = ["Work", "adrive", "drive"]

Work = Generator[list[Job], list[RunResult], "list[Report]"]

_ALONE = threading.Lock()


class _Round:
    """The works that still want something, and their jobs."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works = works
        self.done: list[list[Report]] = [[] for _ in works]
        self.wanted: dict[int, list[Job]] = {}
        for index, work in enumerate(works):
            self._step(index, work, None)

    def jobs(self) -> list[Job]:
        return [job for jobs in self.wanted.values() for job in jobs]

    def take(self, results: Sequence[RunResult]) -> None:
        at = 0
        for index, jobs in list(self.wanted.items()):
            self._step(index, self.works[index], list(results[at : at + len(jobs)]))
            at += len(jobs)

    def _step(self, index: int, work: Work, results: list[RunResult] | None) -> None:
        try:
            while True:
                self.wanted[index] = next(work) if results is None else work.send(results)
                if self.wanted[index]:
                    return
                results = []  # nothing to run: go on at once
        except StopIteration as stop:
            self.done[index] = stop.value
            self.wanted.pop(index, None)


def drive(works: Sequence[Work], box: Sandbox) -> list[list[Report]]:
    """Run all to their ends; what each returned, in order."""
    now = _Round(works)
    while jobs := now.jobs():
        results = box.run_many(jobs)
        for index, result in enumerate(results):
            if _overran(result):
                with _ALONE:
                    results[index] = box.run(jobs[index])
        now.take(results)
    return now.done


async def adrive(works: Sequence[Work], box: Sandbox) -> list[list[Report]]:
    """`drive` without blocking the loop: comparing a batch of results takes a while too."""
    import asyncio

    now = await asyncio.to_thread(_Round, works)
    while jobs := now.jobs():
        results = await box.arun_many(jobs)
        for index, result in enumerate(results):
            if _overran(result):
                results[index] = await box.arun(jobs[index])
        await asyncio.to_thread(now.take, results)
    return now.done


def _overran(result: RunResult) -> bool:
    return result.status == "timeout" and result.timed_out_by == "wall"
