"""A call from outside: deadlines, cancellation, close, recursion, forks. Nothing leaks, hangs or loses what was done."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import guerdon
import guerdon.rewards as R
from guerdon import Rollout, Status, Verdict
from guerdon.errors import ConfigError, SandboxError
from guerdon.rewards import health
from guerdon.rewards.loop import _Loop, _Spec
from guerdon.sandboxes import registry
from guerdon.sandboxes.deadline import remaining

ROWS = [Rollout("a"), Rollout("stuck"), Rollout("c")]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    guerdon.close()


async def quick(rollout: Rollout) -> float:
    return 1.0


async def stuck(rollout: Rollout) -> float:
    if rollout.completion == "stuck":
        await asyncio.sleep(100)
    return 1.0


async def slow_to_unwind(rollout: Rollout) -> float:
    try:
        return await stuck(rollout)
    finally:
        await asyncio.sleep(0.02)


async def scores_inside(rollout: Rollout) -> float | None:
    return R.from_function(quick)([rollout])[0]


async def exits(rollout: Rollout) -> float:
    raise SystemExit(1)


def background() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks(registry.get(_Spec(), _Loop).loop)


@pytest.mark.parametrize("f", [stuck, slow_to_unwind])
def test_a_cancelled_ascore_leaves_no_task_behind(f: object) -> None:
    async def main() -> int:
        call = asyncio.ensure_future(R.from_function(f).ascore(ROWS))  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return len(asyncio.all_tasks())

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(main()) == 1
    loop.close()
    gc.collect()  # a pending task destroyed would be an error here


@pytest.mark.parametrize("f", [stuck, slow_to_unwind])
def test_an_ascore_past_its_deadline_leaves_no_task_behind(f: object) -> None:
    loop = asyncio.new_event_loop()
    scores = loop.run_until_complete(R.from_function(f).ascore(ROWS, 0.2))  # type: ignore[arg-type]
    assert [v.reason for v in next(iter(scores.verdicts.values()))] == ["", "deadline", ""]
    assert not asyncio.all_tasks(loop)
    loop.close()


@dataclass(frozen=True)
class LooksAtTheTime(R.Leaf):
    """As worker pools do: all rows are handed over together, when the time is up."""

    name: str = "patient"

    def verdicts(self, rollouts: object) -> list[Verdict]:
        time.sleep(remaining() or 0.0)
        return [Verdict(1.0, Status.SCORED), Verdict.of(Status.ERROR, "deadline"), Verdict(1.0, Status.SCORED)]


@pytest.mark.parametrize("door", ["score", "ascore"])
def test_a_leaf_that_stops_at_its_deadline_can_hand_over_what_it_has(door: str) -> None:
    reward, start = LooksAtTheTime(), time.monotonic()
    scores = reward.score(ROWS, 0.5) if door == "score" else asyncio.run(reward.ascore(ROWS, 0.5))
    assert time.monotonic() - start < 0.5
    assert scores.totals() == [1.0, None, 1.0]


def test_an_interrupt_cancels_the_async_terms() -> None:
    class Interrupts(LooksAtTheTime):
        def verdicts(self, rollouts: object) -> list[Verdict]:
            time.sleep(0.05)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        (R.from_function(stuck) + Interrupts()).score(ROWS)
    give_up = time.monotonic() + 5
    while background() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not background()


@pytest.mark.parametrize("f", [stuck, slow_to_unwind])
def test_close_in_the_middle_of_a_call_is_an_error_on_the_rows_not_done(f: object) -> None:
    threading.Timer(0.1, guerdon.close).start()
    scores = R.from_function(f).score(ROWS)  # type: ignore[arg-type]
    assert [v.status for v in next(iter(scores.verdicts.values()))] == [Status.SCORED, Status.ERROR, Status.SCORED]
    gc.collect()


def test_calls_survive_a_close_at_any_moment() -> None:
    done = threading.Event()
    reward, raised = R.from_function(quick), list[BaseException]()

    def work() -> None:
        while not done.is_set():
            try:
                reward.score(ROWS, warn_broken=1.0, max_broken=1.0)
            except BaseException as error:
                raised.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        guerdon.close()
        time.sleep(0.005)
    done.set()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert not raised


def test_score_inside_an_async_function_says_to_await_ascore_and_does_not_hang() -> None:
    verdicts = R.from_function(scores_inside).score(ROWS, 10).verdicts["scores_inside"]
    assert {v.status for v in verdicts} == {Status.ERROR}
    assert "ascore" in verdicts[0].detail
    assert SandboxError.__name__ in verdicts[0].detail


def test_the_background_loop_outlives_a_system_exit_in_a_task() -> None:
    @dataclass(frozen=True)
    class Exits(R.Leaf):
        name: str = "exits"

        @property
        def is_async(self) -> bool:
            return True

        async def averdicts(self, rollouts: object) -> list[Verdict]:
            return await asyncio.get_running_loop().create_task(exits(ROWS[0]))  # type: ignore[return-value,arg-type]

    assert Exits().score(ROWS, 10).totals() == [None] * 3
    assert R.from_function(quick).score(ROWS, 10).totals() == [1.0] * 3


@pytest.mark.parametrize("deadline", [float("inf"), float("nan"), -1.0])
def test_a_deadline_is_finite(deadline: float) -> None:
    with pytest.raises(ConfigError, match="deadline_s"):
        R.from_function(quick).score(ROWS, deadline)


def test_a_deadline_may_lie_beyond_what_a_lock_can_wait() -> None:
    assert R.from_function(quick).score(ROWS, 1e12).totals() == [1.0] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_forked_while_others_score_can_score() -> None:
    R.from_function(quick)(ROWS)  # the background loop runs
    with health._lock, warnings.catch_warnings():  # held, as by a thread in the middle of a call
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
        if child == 0:
            worker = threading.Thread(target=lambda: os._exit(0 if R.from_function(quick)(ROWS) == [1.0] * 3 else 3), daemon=True)
            worker.start()
            worker.join(10)
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
