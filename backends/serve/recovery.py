"""What becomes of batches that overrun, and of those whose worker died.

A worker ends a batch at its limit and gives back the requests that are not done: they are scored again one by one, row by row where
rows have a limit. A batch that it does not end is left to itself, and the worker asked whether it is alive; so is one that is long at
batches whose rows have no limit of their own. A worker that cannot say so (C code holds the interpreter) is killed. The row it was at is
ERROR if the worker did nothing else and said which it was; if not, there is no telling which of them held it: they are tried again on a
worker each, which is asked all the time, and then row by row.
A batch whose worker died of something else is tried once more as it is, on a worker that does nothing else, then row by row: the row
that kills a third worker is ERROR `lost_worker`, and the others have lost nothing but time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from guerdon.backends.serve.batch import Batch, Retry, Unit
from guerdon.backends.serve.frames import PING
from guerdon.backends.serve.staff import Worker

if TYPE_CHECKING:
    from guerdon.backends.serve.dispatch import Dispatcher

__all__ = ["Recovery"]

log = logging.getLogger("guerdon.serve")

PONG_S = 1.5
"""A worker that does not answer within this is taken for held."""
HELD_S, HEARD_S = 3.0, 5.0
"""How often a worker that is long at its batches is asked whether it is alive, and within what time it must then answer."""
GRACE_S = 0.5
"""A worker ends a batch or a row at its limit by itself; the front looks this much later."""
ABANDON_S = 5.0
"""A batch that still runs so long after everybody stopped waiting for it takes its worker with it."""
LOSSES = 3
"""Workers that a row may take with it."""


class Recovery:
    """See the module. Acts on the dispatcher's batches."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def watch(self, batch: Batch) -> None:
        """(Re)start the clock of a batch, or of the row that it is at."""
        if batch.timer is not None:
            batch.timer.cancel()
            batch.timer = None
        if not batch.abandoned:
            batch.timer = asyncio.get_running_loop().call_later(batch.limit_s + GRACE_S, self._overrun, batch)

    def _overrun(self, batch: Batch) -> None:
        batch.timer = None
        if batch.abandoned:
            return
        batch.overdue = True
        self._ping(batch.worker)
        if batch.stepwise:
            self.watch(batch)
            return
        units = batch.open
        self.abandon(batch)
        self.step(units)
        self._dispatcher.pump()

    def step(self, units: list[Unit]) -> None:
        """Have requests scored again, each alone: row by row where rows have a limit, else with all the time that is left."""
        stepwise = self._dispatcher.settings.timeout_s is not None
        self._dispatcher.retries.extend(Retry([unit], stepwise, exclusive=False) for unit in units)

    def abandon(self, batch: Batch) -> None:
        """Nobody waits for the batch any more."""
        batch.abandoned = True
        self._ping(batch.worker)
        asyncio.get_running_loop().call_later(max(ABANDON_S, batch.limit_s), self._check_abandoned, batch)

    def _check_abandoned(self, batch: Batch) -> None:
        if batch.number in batch.worker.busy:
            self._dispatcher.staff.retire(batch.worker, "a batch is still running long after its limit")

    def _ping(self, worker: Worker, patience_s: float = PONG_S) -> None:
        if worker.ping is None and not worker.ended:
            loop = asyncio.get_running_loop()
            worker.send(PING)
            worker.asked = loop.time()
            worker.ping = loop.call_later(patience_s, self._unheard, worker)

    def feel(self, worker: Worker) -> None:
        """Ask a worker now and then that is long at its batches: a row may hold the others until their deadline.

        Not one that is at a single batch whose rows have a limit, unless they are suspect: these may take as long as they have been given.
        """
        before, batches = asyncio.get_running_loop().time() - HELD_S, worker.busy.values()
        bounded = len(batches) == 1 and all(batch.by_timeout and not batch.exclusive for batch in batches)
        if worker.asked < before and not bounded and any(batch.sent < before for batch in batches):
            self._ping(worker, HEARD_S)

    def heard(self, worker: Worker) -> None:
        """The worker has said that it is alive."""
        if worker.ping is not None:
            worker.ping.cancel()
            worker.ping = None

    def _unheard(self, worker: Worker) -> None:
        if not worker.ended:
            worker.doomed = True
            worker.kill()

    def after(self, worker: Worker) -> None:
        """A worker has ended: what it had not answered is tried again, or lost."""
        alone = len(worker.busy) == 1
        for batch in worker.busy.values():
            if batch.timer is not None:
                batch.timer.cancel()
            if batch.abandoned or not (units := batch.open):
                continue
            if worker.doomed:
                self._after_kill(batch, alone)
            else:
                self._after_death(batch, units)
        worker.busy.clear()

    def _after_kill(self, batch: Batch, alone: bool) -> None:
        """We killed it, as it did not answer or is to be replaced."""
        suspect = batch.overdue or batch.exclusive
        if alone and suspect and batch.stepwise:
            if batch.by_timeout:
                self._lose(batch, "checker_timeout", f"scoring the row took longer than {batch.limit_s:g} s, and its worker was killed")
            else:
                self._lose(batch, "lost_worker", "scoring the row kept its worker from answering, which was killed")
        units = batch.open
        single = len(units) == 1 and not batch.stepwise
        stepwise = batch.stepwise or (alone and (single or batch.exclusive))
        if single or stepwise:
            self._again(units, stepwise, exclusive=suspect or single)
        else:
            self.step(units)

    def _after_death(self, batch: Batch, units: list[Unit]) -> None:
        if batch.stepwise and batch.at is not None:
            guilty = batch.units[batch.at[0]]
            guilty.losses += 1
            if guilty.losses >= LOSSES:
                guilty.losses = LOSSES - 1  # its next row that does so is known at once
                self._lose(batch, "lost_worker", "scoring the row killed its worker, three times in all")
            self._again(batch.open, stepwise=True, exclusive=True)
            return
        for unit in units:
            unit.losses += 1
        self._again(units, stepwise=max(unit.losses for unit in units) >= LOSSES - 1, exclusive=True)

    def _lose(self, batch: Batch, reason: str, detail: str) -> None:
        """Mark the row that a batch was at as lost, or its whole request where there is no telling."""
        if batch.at is None:
            return
        number, row = batch.at
        unit = batch.units[number]
        log.warning("a request lost %s: %s", f"row {row}" if row >= 0 else "all rows", detail)
        if row < 0:
            self._dispatcher.give_up(unit, reason, detail)
        else:
            unit.lost[row] = reason, detail

    def _again(self, units: list[Unit], stepwise: bool, exclusive: bool) -> None:
        if units:
            self._dispatcher.retries.appendleft(Retry(units, stepwise, exclusive))
