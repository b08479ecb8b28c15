"""From requests to workers and back: the queue, the micro-batches, the deadline.

Requests wait until a worker is free and go to it together. A worker whose batch takes long (it waits for a sandbox, a judge) is given
further ones beside it. What becomes of batches that overrun or lose their worker is said in `recovery`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from typing import Any

from guerdon.backends.serve import frames
from guerdon.backends.serve.batch import Batch, Retry, Unit, row_count
from guerdon.backends.serve.doors import Refused, answer, error_body, read
from guerdon.backends.serve.frames import Door, Marks, Work
from guerdon.backends.serve.metrics import Metrics
from guerdon.backends.serve.recovery import Recovery
from guerdon.backends.serve.rows import Lost
from guerdon.backends.serve.settings import Settings
from guerdon.backends.serve.staff import Staff, Worker

__all__ = ["Dispatcher", "Full"]

log = logging.getLogger("guerdon.serve")

THREADS = 8
"""Batches that one worker has at once, at most."""
STALL_S = 0.03
"""A worker gets another batch beside those it has when these are older than this: it seems to wait for something."""
BATCH_BYTES = 1 << 20
SPLIT_S = 0.5
"""Where no row limit is given, a batch that takes this and 8 times the usual is split, that a slow row does not hold up the others."""
MARGIN_S = 0.5
"""What a worker is told of a request's deadline is this much earlier: it then answers itself, with the rows that are done."""
TICK_S = 0.1

Answer = tuple[int, bytes]


class Full(Exception):
    """The queue is full. `retry_s`: when to come again."""

    def __init__(self, retry_s: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_s} s")
        self.retry_s = retry_s


class Dispatcher:
    """The requests of one front and its workers."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.staff = Staff(settings, self._message, self.pump, self._gone)
        self.recovery = Recovery(self)
        self.waiting: deque[Unit] = deque()
        self.retries: deque[Retry] = deque()
        self.rows = self.bytes = self.in_flight = self.coming = 0  # coming: bytes of requests that are not whole
        self._open: dict[int, Unit] = {}  # in order of arrival, and so of deadlines
        self._numbers = itertools.count()
        self._alarm: asyncio.TimerHandle | None = None
        self._row_s = 0.004  # seconds a row takes in a batch that ends by itself; starts high, as the first ones import things
        self._waiting_rows = 0
        self._margin_s = min(MARGIN_S, settings.deadline_s / 10)
        self._sweeper: asyncio.Task[None] | None = None
        self._kept: Worker | None = None

    # -- life

    async def open(self) -> None:
        """Start the workers and wait until they have loaded the reward. Raises LoadError."""
        self._sweeper = asyncio.ensure_future(self._sweep())
        await self.staff.open()

    async def close(self) -> None:
        """End the workers; requests that still wait are told to come again."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for unit in list(self._open.values()):
            self.resolve(unit, 503, error_body("the server is stopping"))
        await self.staff.close()

    # -- requests

    def submit(self, door: Door, body: bytes) -> asyncio.Future[Answer]:
        """The answer to a request, in time: status and body. Raises Full."""
        rows, size, settings = row_count(door, body), len(body), self.settings
        if self.in_flight and self.is_full(rows, size):
            raise Full(1 + min(30, int(self._row_s * self.rows / max(1, self.staff.up))))
        loop = asyncio.get_running_loop()
        now = loop.time()
        unit = Unit(next(self._numbers), door, body, rows, now, now + settings.deadline_s, loop.create_future(), size)
        self.rows += rows
        self.bytes += size
        self.in_flight += 1
        self._waiting_rows += rows
        self.waiting.append(unit)
        self._open[unit.number] = unit
        if self._alarm is None or self._waiting_rows >= settings.batch_size:
            self.pump()
        return unit.future

    def is_full(self, rows: int, size: int) -> bool:
        """Whether so much more is too much."""
        limit = self.settings.max_queue_mb * (1 << 20)
        return self.rows + rows > self.settings.max_queue or self.bytes + self.coming + size > limit

    def resolve(self, unit: Unit, status: int, body: bytes, marks: Marks = ()) -> None:
        """Answer a request; the first answer counts."""
        if unit.done:
            return
        self.metrics.answered(marks)
        unit.done = True
        del self._open[unit.number]
        self.rows -= unit.rows
        self.bytes -= unit.size
        self.in_flight -= 1
        unit.body = b""
        if not unit.future.done():
            unit.future.set_result((status, body))

    def give_up(self, unit: Unit, reason: str, detail: str) -> None:
        """Answer a request that no worker could: every row ERROR."""
        info = self.staff.info
        if unit.done:
            return
        if info is None:
            self.resolve(unit, 503, error_body(f"{detail}: the reward is still being loaded"))
            return
        try:
            found = read(unit.door, unit.body, frozenset(info["names"]))
        except Refused as refused:
            self.resolve(unit, refused.status, error_body(refused.detail))
            return
        except Exception:  # not foreseen, and nobody may be left waiting
            log.exception("a request could not be read")
            self.resolve(unit, 500, error_body("the request could not be read"))
            return
        lost = [Lost(info, reason, detail)] * len(found)
        ids = [None if isinstance(row, str) else row.id for row in found]
        self.resolve(unit, 200, answer(unit.door, lost, ids, self.settings.fill), tuple([(True, row.statuses()) for row in lost]))

    # -- to the workers

    def pump(self) -> None:
        """Send what can be sent now; set the alarm for what cannot."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self.retries:
            retry = self.retries[0]
            retry.units = [unit for unit in retry.units if not unit.done]
            if retry.units:
                if (worker := self._free(alone=retry.exclusive)) is None:
                    break
                self._send(worker, retry.units, retry.stepwise, retry.exclusive)
            self.retries.popleft()
        pause = self._pump_waiting()
        if pause is not None:
            self._alarm = asyncio.get_running_loop().call_later(pause, self.pump)

    def _pump_waiting(self) -> float | None:
        """Send batches of what waits; in how many seconds to look again, None if nothing waits."""
        settings = self.settings
        while self.waiting:
            if self.waiting[0].done:
                self._waiting_rows -= self.waiting.popleft().rows
                continue
            if (worker := self._free(alone=False)) is None:
                return STALL_S
            if self._waiting_rows < settings.batch_size:
                early = self.waiting[0].arrived + settings.batch_wait_s - asyncio.get_running_loop().time()
                if early > 0.0002:
                    return early
            self._send(worker, self._take(), stepwise=False, exclusive=False)
        return STALL_S if self.retries else None

    def _take(self) -> list[Unit]:
        taken: list[Unit] = []
        rows = size = 0
        while self.waiting:
            unit = self.waiting[0]
            if taken and (rows + unit.rows > self.settings.batch_size or size + unit.size > BATCH_BYTES):
                break
            self.waiting.popleft()
            self._waiting_rows -= unit.rows
            if not unit.done:
                taken.append(unit)
                rows, size = rows + unit.rows, size + unit.size
        return taken

    def _free(self, *, alone: bool) -> Worker | None:
        """A worker that can take a batch: an idle one, else one that seems to wait."""
        old = asyncio.get_running_loop().time() - STALL_S
        able = [w for w in self.staff.workers if w.up and not w.retiring and w.ping is None]
        for worker in able:
            if not worker.busy:
                return worker
        if alone:
            return None
        kept = self._kept_idle(able)
        able = [w for w in able if w is not kept and len(w.busy) < THREADS]
        able = [w for w in able if not any(batch.sent > old or batch.exclusive for batch in w.busy.values())]
        return min(able, key=lambda w: len(w.busy), default=None)

    def _kept_idle(self, able: list[Worker]) -> Worker | None:
        """The busy worker that is given nothing more, because something waits for one to itself."""
        if not self.retries or not self.retries[0].exclusive:
            self._kept = None
        elif self._kept not in able:
            self._kept = min(able, key=lambda w: (sum(b.abandoned for b in w.busy.values()), len(w.busy)), default=None)
        return self._kept

    def _send(self, worker: Worker, units: list[Unit], stepwise: bool, exclusive: bool) -> None:
        now, timeout = asyncio.get_running_loop().time(), self.settings.timeout_s
        left = max(0.1, min(unit.deadline for unit in units) - now - self._margin_s)
        by_timeout = timeout is not None and timeout < left
        final = not stepwise and len(units) == 1 and (not by_timeout or units[0].rows == 1)
        if final or stepwise:
            limit = left if timeout is None else min(timeout, left)
        else:
            least = SPLIT_S if timeout is None else timeout + min(timeout, SPLIT_S)  # for a row in it that keeps to the limit by itself
            limit = min(left, max(least, 8 * self._row_s * sum(unit.rows for unit in units)))
        batch = Batch(next(self._numbers), {u.number: u for u in units}, worker, now, stepwise, exclusive, limit, by_timeout)
        worker.busy[batch.number] = batch
        worker.send(Work(batch.number, tuple([unit.item for unit in units]), limit, left, stepwise, final, by_timeout, timeout))
        self.recovery.watch(batch)

    # -- from the workers

    def _message(self, worker: Worker, message: Any) -> None:
        kind = message[0]
        if kind == frames.PONG:
            self.recovery.heard(worker)
            self.pump()
            return
        if kind == frames.STUCK:
            self.staff.retire(worker, "a check cut by its limit is still running")
            return
        batch = worker.busy.get(message[1])
        if batch is None:
            return
        if kind == frames.SOME:
            self._replies(batch, message[2])
        elif kind == frames.STEP:
            batch.at, batch.overdue = (message[2], message[3]), False
            self.recovery.watch(batch)
        else:
            self._done(worker, batch, *message[2:])

    def _replies(self, batch: Batch, replies: list[tuple[int, int, bytes, Marks]]) -> None:
        late = []
        for number, status, body, marks in replies:
            unit = batch.units[number]
            if status == frames.LATE:
                late.append(batch.units.pop(number))
            else:
                self.resolve(unit, status, body, marks)
        self.recovery.step([unit for unit in late if not batch.abandoned and not unit.done])

    def _done(self, worker: Worker, batch: Batch, seconds: float, counts: Any) -> None:
        del worker.busy[batch.number]
        if batch.timer is not None:
            batch.timer.cancel()
        if counts.rows and not counts.late:  # those cut by a limit say nothing, and would raise it
            found = seconds / counts.rows
            self._row_s += (found - self._row_s) / 2 if found < self._row_s else (min(found, 4 * self._row_s) - self._row_s) / 10
        self.metrics.batch(counts.rows)
        if not batch.abandoned:
            for unit in batch.open:
                self.give_up(unit, "exception", "the worker failed over this request")
        self.staff.end_if_idle(worker)
        self.pump()

    def _gone(self, worker: Worker) -> None:
        self.recovery.after(worker)
        self.pump()

    async def _sweep(self) -> None:
        """Answer what has not been answered by its deadline."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time() + TICK_S
            while (unit := next(iter(self._open.values()), None)) is not None and unit.deadline <= now:
                self.give_up(unit, "deadline", f"the request's deadline of {self.settings.deadline_s:g} s passed")
            for worker in list(self.staff.workers):
                for batch in list(worker.busy.values()):
                    if not batch.abandoned and not batch.open:
                        self.recovery.abandon(batch)
                self.recovery.feel(worker)
            self.metrics.gauges(self)
