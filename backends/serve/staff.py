"""Keeps a number of workers alive: starts them, replaces those that die or are retired, and changes all of them on reload.

What they are given to do is the dispatcher's business.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from guerdon.backends.serve.process import Process
from guerdon.backends.serve.settings import Settings
from guerdon.errors import GuerdonError, LoadError

if TYPE_CHECKING:
    from guerdon.backends.serve.batch import Batch

__all__ = ["Staff", "Worker", "worker_count"]

log = logging.getLogger("guerdon.serve")

START_S = 600.0
"""A worker that has not loaded the reward by then (a model from a network disk) is given up."""
BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 5.0


class Worker(Process):
    """A worker and what it is doing. `busy`: batches sent and not done, whether or not anyone still waits for them."""

    def __init__(self, on_message: Callable[[Process, Any], None], on_end: Callable[[Process], None]) -> None:
        super().__init__(on_message, on_end)
        self.busy: dict[int, Batch] = {}
        self.retiring = False
        self.doomed = False
        """We killed it, or will: its batches are not to blame."""
        self.ping: asyncio.TimerHandle | None = None  # set while it is asked whether it is alive
        self.asked = 0.0
        self.up = False


def worker_count(settings: Settings) -> int:
    """Scoring processes of one front."""
    from guerdon.sandboxes.workers import default_workers

    return settings.workers or max(1, default_workers() // settings.processes)


class Staff:
    """The workers of one front. `idle` is called when one becomes ready, `gone` after one has ended."""

    def __init__(
        self, settings: Settings, on_message: Callable[[Any, Any], None], on_ready: Callable[[], None], on_gone: Callable[[Any], None]
    ) -> None:
        self._settings, self._on_message, self._on_ready, self._on_gone = settings, on_message, on_ready, on_gone
        self.size = worker_count(settings)
        self.workers: set[Worker] = set()
        self.info: Mapping[str, Any] | None = None
        self.restarts = 0
        self._closed = False
        self._failures = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Start all and wait for them. Raises LoadError if one cannot load the reward."""
        await self._start(self.size)

    async def reload(self) -> None:
        """Load the reward anew in fresh workers; when all have it, retire the others. LoadError: nothing has changed."""
        old = set(self.workers)
        try:
            await self._start(self.size)
        except GuerdonError:
            self._replace(0)  # those that ended meanwhile
            raise
        for worker in old:
            worker.retiring = worker.doomed = True
            self.end_if_idle(worker)

    async def _start(self, number: int) -> Worker:
        """Start some and wait until all have loaded the reward; the last of them. Raises LoadError, and then none are left."""
        started: list[Worker] = []
        try:
            for _ in range(number):
                started.append(await self._launch())
            async with asyncio.timeout(START_S):
                infos = [await worker.ready for worker in started]
        except (TimeoutError, GuerdonError) as error:
            for worker in started:
                worker.retiring = worker.doomed = True
                worker.kill()
            raise error if isinstance(error, GuerdonError) else LoadError(f"the reward was not loaded within {START_S:g} s") from None
        self.info = infos[-1]
        for worker in started:
            worker.up = not worker.ended
        if not all(worker.up for worker in started):
            self._replace(1)
        self._on_ready()
        return started[-1]

    async def _launch(self) -> Worker:
        worker = Worker(self._on_message, self._ended)
        options = {"reward": self._settings.reward, "fill": self._settings.fill, "log_level": self._settings.log_level}
        self.workers.add(worker)
        try:
            await worker.start(options, _environment(self.size * self._settings.processes))
        except OSError as error:
            self.workers.discard(worker)
            raise LoadError(f"cannot start a worker: {error}") from error
        return worker

    def retire(self, worker: Worker, why: str) -> None:
        """Give it nothing more, replace it, and end it when it is idle."""
        if not worker.retiring:
            log.warning("worker %d is replaced: %s", worker.pid, why)
            worker.retiring = worker.doomed = True
            self._replace(1)
            self.end_if_idle(worker)

    def end_if_idle(self, worker: Worker) -> None:
        """End a retiring worker for whose batches nobody waits any more."""
        if worker.retiring and all(batch.abandoned for batch in worker.busy.values()):
            worker.kill()

    def _ended(self, process: Process) -> None:
        worker = process
        assert isinstance(worker, Worker)
        self.workers.discard(worker)
        was_up, worker.up = worker.up, False
        if not worker.retiring and not self._closed and was_up:
            log.warning("worker %d %s", worker.pid, "was killed: it did not answer" if worker.doomed else "died")
            self._replace(1)
        self._on_gone(worker)

    def _replace(self, lost: int) -> None:
        """Hire for those that were lost, and whoever else is missing."""
        self.restarts += lost
        task = asyncio.ensure_future(self._hire())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hire(self) -> None:
        """Start workers until there are as many as there should be and all have loaded the reward."""
        while not self._closed and sum(not worker.retiring for worker in self.workers) < self.size:
            served = self.info
            try:
                worker = await self._start(1)
            except GuerdonError as error:
                self._failures += 1
                pause = min(BACKOFF_S * 2**self._failures, LONGEST_BACKOFF_S)
                log.error("%s; trying again in %.1f s", error, pause)
                await asyncio.sleep(pause)
                continue
            self._failures = 0
            if served is not None and served["fingerprint"] != (self.info or {})["fingerprint"]:
                log.error("worker %d loaded another reward than the others: its file has changed. POST /reload gives it to all", worker.pid)

    @property
    def up(self) -> int:
        """How many can be given work."""
        return sum(worker.up and not worker.retiring for worker in self.workers)

    async def close(self) -> None:
        """Kill and reap all."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for worker in list(self.workers):
            worker.retiring = worker.doomed = True
            worker.kill()
        while self.workers:
            await asyncio.sleep(0.01)


def _environment(workers: int) -> dict[str, str]:
    """This process's environment, with what makes verdicts repeatable, and verifiers' own pools sized for several such workers."""
    from guerdon.sandboxes.workers import default_workers

    share = str(max(1, default_workers() // workers))
    env = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GUERDON_WORKERS": share} | os.environ
    return env | {"PYTHONHASHSEED": "0"}
