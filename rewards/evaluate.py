"""Runs a reward's leaves once per batch, concurrently where that helps, and combines their verdicts.

Leaves run on the rows their routes need (on all rows when they read the group). Without a deadline sync leaves run in
the caller's thread; with one, each in a daemon thread of its own, so that a leaf that never returns is left behind and
only its rows become ERROR (brief leaves on few rows stay with the caller). Async leaves share one loop. Nothing here knows what a
term means.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from guerdon.errors import ConfigError, SandboxError
from guerdon.rewards.components import OFF_ROUTE
from guerdon.rewards.grading import caught, failed
from guerdon.rewards.inputs import ALWAYS, as_rollouts, check_input
from guerdon.rewards.term import Combinator, Leaf, Term
from guerdon.sandboxes.deadline import DEADLINE, until
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores

__all__ = ["Batch", "aevaluate", "evaluate"]

HAND_OVER_S = 0.3
"""A leaf's deadline is this much before the call's (a tenth of the call where that is less). Gathering 1e5 results takes 0.2 s."""

BRIEF_ROWS = 64
"""Up to so many rows brief leaves run in the caller's thread."""

UNWIND_S = 0.1
"""How long a cancelled async leaf may take to unwind."""


def evaluate(reward: Term, rollouts: Sequence[Rollout], deadline_s: float | None, *, check: bool = True) -> Scores:
    """Score a batch from sync code. See `Term.score`. Without `check`, terms meet absent inputs row by row, as a door that knows the
    columns of its data wants: a small batch may hold nothing but rows without an answer."""
    from guerdon.rewards.scores import make_scores

    batch = Batch([reward], rollouts)
    if check:
        batch.check_inputs()
    batch.run(_absolute(deadline_s))
    return make_scores(reward, batch)


async def aevaluate(reward: Term, rollouts: Sequence[Rollout], deadline_s: float | None, *, check: bool = True) -> Scores:
    """Score a batch from a running event loop. See `evaluate` and `Term.ascore`."""
    from guerdon.rewards.scores import make_scores

    batch = Batch([reward], rollouts)
    if check:
        batch.check_inputs()
    await batch.arun(_absolute(deadline_s))
    return make_scores(reward, batch)


def _absolute(deadline_s: float | None) -> float | None:
    """The monotonic time this call must end, no later than the deadline already in force."""
    if deadline_s is not None and not 0 < deadline_s < math.inf:
        raise ConfigError(f"deadline_s: expected finite seconds above 0, or None, got {deadline_s!r}")
    own = None if deadline_s is None else time.monotonic() + deadline_s
    outer = DEADLINE.get()
    return min((t for t in (own, outer) if t is not None), default=None)


@dataclass(eq=False)
class _Job:
    """One leaf and the rows it is to judge. `out` has a slot a row, None until judged."""

    leaf: Leaf
    rows: set[int]
    rollouts: list[Rollout] = field(default_factory=list)
    out: list[Verdict | None] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def brief(self) -> bool:
        """Whether it may run in the caller's thread under a deadline: for one row a thread costs several times what the check does."""
        return len(self.rollouts) <= BRIEF_ROWS and self.leaf.is_brief

    def fill(self) -> None:
        start = time.perf_counter()
        try:
            self.leaf.fill(list(self.rollouts), self.out)  # a list of its own: other terms read the rollouts too
        except BaseException as error:
            self.failed(caught(error))
        self.seconds = time.perf_counter() - start

    async def afill(self) -> None:
        start = time.perf_counter()
        try:
            await self.leaf.afill(list(self.rollouts), self.out)
        except BaseException as error:
            self.failed(caught(error))
        self.seconds = time.perf_counter() - start

    def failed(self, error: BaseException) -> None:
        """The rows not judged yet become ERROR."""
        broken = failed(self.leaf.name, error)
        self.out[:] = [v if isinstance(v, Verdict) else broken for v in self.out]

    def results(self) -> list[Verdict]:
        """The verdicts of the rows; the call's deadline has passed for those not judged."""
        done, n = list(self.out), len(self.rollouts)
        if len(done) != n:
            lost = Verdict.of(Status.ERROR, "wrong_length", f"{self.leaf.name} returned {len(done)} verdicts for {n} rollouts")
            return [lost] * n
        late = Verdict.of(Status.ERROR, "deadline", f"{self.leaf.name} was not done when the call's deadline passed")
        return [late if v is None else v if isinstance(v, Verdict) else _not_a_verdict(self.leaf, v) for v in done]


def _not_a_verdict(leaf: Leaf, value: Any) -> Verdict:
    return Verdict.of(Status.ERROR, "wrong_type", f"{leaf.name}: expected a Verdict, got {type(value).__name__}")


class Batch:
    """The leaves of some terms on some rollouts: planned, checked, run once, and read."""

    def __init__(self, terms: Sequence[Term], rollouts: Sequence[Rollout]) -> None:
        self.rollouts = as_rollouts(rollouts)
        self.jobs: dict[Hashable, _Job] = {}
        self._readers: list[tuple[Combinator, Sequence[int]]] = []
        self._values: dict[Hashable, list[Verdict]] = {}
        every = range(len(self.rollouts))
        for term in terms:
            self._plan(term, every)
        for job in self.jobs.values():
            if "group" in job.leaf.reads:
                job.rows = set(every)
            job.rollouts = self.rollouts if len(job.rows) == len(self.rollouts) else [self.rollouts[i] for i in sorted(job.rows)]
            job.out = [None] * len(job.rollouts)

    def _plan(self, term: Term, rows: Sequence[int]) -> None:
        if isinstance(term, Leaf):
            self.jobs.setdefault(_key(term), _Job(term, set())).rows.update(rows)
        elif isinstance(term, Combinator):
            if term.own_reads:
                self._readers.append((term, rows))
            for part, part_rows in zip(term.parts, term.routes(self.rollouts, rows), strict=True):
                self._plan(part, part_rows)
        else:
            raise ConfigError(f"{term.name}: a Term must be a Leaf or a Combinator, got {type(term).__name__}")

    def check_inputs(self) -> None:
        """MissingInput where rollouts lack what a term reads on them."""
        for term, rows in self._readers:
            for name in sorted(term.own_reads):
                check_input(term, name, [self.rollouts[i] for i in rows])
        for job in self.jobs.values():
            for name in sorted(job.leaf.reads - ALWAYS):
                check_input(job.leaf, name, job.rollouts)

    def run(self, deadline: float | None) -> None:
        """Run every leaf; return when all are done or the deadline has passed."""
        waiting = [j for j in self.jobs.values() if j.rollouts]
        later = [j for j in waiting if j.leaf.is_async or (deadline is not None and not j.brief)]
        futures: list[Future[None]] = []
        try:
            with until(_for_leaves(deadline)):
                for job in later:
                    futures.append(_start(job))
                for job in waiting:
                    if job not in later:
                        job.fill()
            wait_for(futures, timeout=_wait_s(deadline))
            for job, future in zip(later, futures, strict=True):
                if future.cancelled():  # not by us: nobody else knows it, but all of the loop's tasks end with the loop
                    job.failed(SandboxError("guerdon.close() ended it"))
                elif future.done():
                    future.result()
        finally:  # also on KeyboardInterrupt
            for future in futures:
                future.cancel()

    async def arun(self, deadline: float | None) -> None:
        """`run` on the running loop: async leaves on it, the others in threads."""
        import asyncio

        waiting = [j for j in self.jobs.values() if j.rollouts]
        with until(_for_leaves(deadline)):
            tasks = [asyncio.ensure_future(j.afill() if j.leaf.is_async else asyncio.wrap_future(_thread(j.fill))) for j in waiting]
        if not tasks:
            return
        late: set[asyncio.Future[None]] = set(tasks)
        try:
            _, late = await asyncio.wait(tasks, timeout=_wait_s(deadline))
        finally:  # also when this call is cancelled
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=UNWIND_S)
        failures = []
        for job, task in zip(waiting, tasks, strict=True):
            if task.done() and task.cancelled() and task not in late:
                job.failed(asyncio.CancelledError("something else cancelled it"))
            elif task.done() and not task.cancelled() and (failure := task.exception()) is not None:
                failures.append(failure)
        if failures:
            raise failures[0]

    def value(self, term: Term) -> list[Verdict]:
        """The term's verdict on every row (OFF_ROUTE where it was not needed)."""
        key = _key(term)
        if key not in self._values:
            self._values[key] = self._leaf_value(key) if isinstance(term, Leaf) else self._combined(term)
        return self._values[key]

    def seconds(self, term: Term) -> float:
        """Wall seconds spent in the leaves below the term."""
        leaves = {_key(t) for t in _leaves(term)}
        return sum(job.seconds for key, job in self.jobs.items() if key in leaves)

    def _leaf_value(self, key: Hashable) -> list[Verdict]:
        job = self.jobs[key]
        results = job.results()
        if len(job.rows) == len(self.rollouts):
            return results
        out = [OFF_ROUTE] * len(self.rollouts)
        for i, verdict in zip(sorted(job.rows), results, strict=True):
            out[i] = verdict
        return out

    def _combined(self, term: Term) -> list[Verdict]:
        assert isinstance(term, Combinator)
        return term.combine(self.rollouts, [self.value(part) for part in term.parts])


def _for_leaves(deadline: float | None) -> float | None:
    """What leaves are told: a little earlier, so that one that looks at the time can still hand over the rows it has done."""
    return None if deadline is None else deadline - min(HAND_OVER_S, (deadline - time.monotonic()) / 10)


def _wait_s(deadline: float | None) -> float | None:
    return None if deadline is None else min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)


def _leaves(term: Term) -> list[Leaf]:
    return [term] if isinstance(term, Leaf) else [leaf for part in term.parts for leaf in _leaves(part)]


def _key(term: Term) -> Hashable:
    """Equal terms share one run; a term that holds something unhashable shares only with itself."""
    try:
        hash(term)
    except TypeError:
        return id(term)
    return term


def _start(job: _Job) -> Future[None]:
    if not job.leaf.is_async:
        return _thread(job.fill)
    from guerdon.rewards.loop import submit

    return submit(job.afill())


def _thread(work: Callable[[], None]) -> Future[None]:
    """Run `work` in a daemon thread: one that never returns must not keep the interpreter alive."""
    future: Future[None] = Future()
    context = copy_context()

    def main() -> None:
        failure: BaseException | None = None
        try:
            context.run(work)
        except BaseException as error:
            failure = error
        if not future.set_running_or_notify_cancel():
            return
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)

    threading.Thread(target=main, name="guerdon-leaf", daemon=True).start()
    return future
