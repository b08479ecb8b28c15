"""Holds the rollouts of a group back until the last of them is there, so that they can be scored together.

OpenRLHF's rollout actor makes the n calls of a prompt in one go and then waits for all of them. Hence the rule: the calls that one asyncio
task makes before any of them starts are a group. Two groups of one prompt at the same time stay two, and nothing has to be known of n.
Nobody waits for a sibling that failed or was cancelled. Generation itself has no deadline here, as it has none in OpenRLHF.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Groups"]

Made = TypeVar("Made")
Settled = TypeVar("Settled")


class Groups(Generic[Made, Settled]):
    """`join` a coroutine to the group its caller is putting together. `settle` turns what a group made into one result each."""

    def __init__(self, settle: Callable[[Sequence[Made]], Awaitable[Sequence[Settled]]]) -> None:
        self._settle = settle
        self._open: dict[asyncio.Task[Any] | None, _Group[Made, Settled]] = {}
        self._running: set[asyncio.Task[None]] = set()  # the loop itself holds tasks weakly

    def join(self, making: Coroutine[Any, Any, Made]) -> asyncio.Task[Settled]:
        """Start `making` now; the task that is returned ends with its result, once the whole group has been settled."""
        caller = asyncio.current_task()
        group = self._open.get(caller)
        if group is None:
            group = self._open[caller] = _Group()
            running = asyncio.create_task(self._run(caller, group))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        made = asyncio.create_task(making)
        group.made.append(made)
        member = asyncio.create_task(_member(made, group.settled))
        member.add_done_callback(lambda task: made.cancel() if task.cancelled() else None)  # one that was never begun cancels nothing
        return member

    async def _run(self, caller: asyncio.Task[Any] | None, group: _Group[Made, Settled]) -> None:
        del self._open[caller]  # this runs after the caller has let go of the loop: the group is complete
        try:
            await asyncio.wait(group.made)
            there = [task for task in group.made if not task.cancelled() and task.exception() is None]
            results = await self._settle([task.result() for task in there]) if there else ()
            group.settled.set_result(dict(zip(there, results, strict=True)))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                group.settled.cancel()
            else:
                group.settled.set_exception(error)
            raise


class _Group(Generic[Made, Settled]):
    def __init__(self) -> None:
        self.made: list[asyncio.Task[Made]] = []
        self.settled: asyncio.Future[dict[asyncio.Task[Made], Settled]] = asyncio.get_running_loop().create_future()


async def _member(made: asyncio.Task[Made], settled: asyncio.Future[dict[asyncio.Task[Made], Settled]]) -> Settled:
    await made
    return (await asyncio.shield(settled))[made]
