"""User functions and TRL functions as terms: statuses, purity, once per batch, async, deadlines."""

from __future__ import annotations

import asyncio
import functools
import math
import pickle
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Abstain, Message, Rollout, Status, Verdict
from guerdon.errors import ConfigError, MissingInput

ROWS = [Rollout("a"), Rollout("bb"), Rollout("ccc")]


def length(rollout: Rollout) -> float:
    return len(rollout.completion)


async def alength(rollout: Rollout) -> float:
    await asyncio.sleep(0)
    return len(rollout.completion)


def lengths(rollouts: Sequence[Rollout]) -> list[float]:
    return [len(r.completion) for r in rollouts]


async def alengths(rollouts: Sequence[Rollout]) -> list[float]:
    return lengths(rollouts)


class Scorer:
    async def __call__(self, rollout: Rollout) -> float:
        return len(rollout.completion)


ALL = [
    R.from_function(length),
    R.from_function(alength),
    R.from_function(lengths, batch=True),
    R.from_function(alengths, batch=True),
    R.from_function(Scorer(), name="scorer"),
    R.from_function(functools.partial(length), name="partial"),
    R.from_function(f"{__file__}:length"),
]


@pytest.mark.parametrize("reward", ALL, ids=lambda r: r.name)
def test_sync_and_async_functions_score_alike_from_both_doors(reward: R.Term) -> None:
    assert reward(ROWS) == [1.0, 2.0, 3.0]
    assert asyncio.run(reward.ascore(ROWS)).totals() == [1.0, 2.0, 3.0]
    assert [v.score for v in reward.verdicts(ROWS)] == [1.0, 2.0, 3.0]


def test_score_works_inside_a_running_loop() -> None:
    async def main() -> list[float | None]:
        return R.from_function(alength)(ROWS)

    assert asyncio.run(main()) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "status", "score"),
    [
        (True, Status.SCORED, 1.0),
        (-3, Status.SCORED, -3.0),
        (None, Status.NOT_APPLICABLE, None),
        (Abstain("why"), Status.UNSCORED, None),
        (ValueError("x"), Status.ERROR, None),
        (math.nan, Status.ERROR, None),
        (math.inf, Status.ERROR, None),
        ("many", Status.ERROR, None),
        ([1.0], Status.ERROR, None),
        (10**400, Status.ERROR, None),
        (Verdict.of(Status.TIMEOUT), Status.TIMEOUT, 0.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_function_returns_or_raises_becomes_a_verdict_of_its_row_alone(
    value: Any, status: Status, score: float | None, is_async: bool
) -> None:
    def f(rollout: Rollout) -> Any:
        if rollout.completion != "bb":
            return 1.0
        if isinstance(value, Exception):
            raise value
        return value

    async def g(rollout: Rollout) -> Any:
        return f(rollout)

    verdicts = R.from_function(g if is_async else f, name="f").verdicts(ROWS)
    assert [(v.status, v.score) for v in verdicts] == [(Status.SCORED, 1.0), (status, score), (Status.SCORED, 1.0)]


@pytest.mark.parametrize("value", [1.5, -0.1, 2])
def test_an_outcome_outside_the_unit_interval_is_an_error(value: float) -> None:
    assert R.from_function(lambda r: value, name="f", outcome=True).verdicts(ROWS[:1])[0].status is Status.ERROR


@pytest.mark.parametrize("returned", [[], [1.0], [1.0] * 4, None, 1.0, {"a": 1}])
def test_a_batch_function_that_returns_something_else_is_an_error_on_every_row(returned: Any) -> None:
    verdicts = R.from_function(lambda rollouts: returned, name="f", batch=True).verdicts(ROWS)
    assert {v.status for v in verdicts} == {Status.ERROR}
    assert len(verdicts) == 3


def test_a_leaf_used_twice_runs_once_per_batch() -> None:
    calls: list[int] = []

    def f(rollouts: Sequence[Rollout]) -> list[float]:
        calls.append(len(rollouts))
        return [1.0] * len(rollouts)

    leaf = R.from_function(f, batch=True)
    reward = R.gate(leaf, on=leaf, name="gated") + 0.5 * leaf + R.clip(leaf, 0, 2, name="clipped")
    assert reward(ROWS) == [2.5] * 3
    assert calls == [3]


def test_async_terms_run_concurrently() -> None:
    barrier = []

    def slow(name: str) -> R.Term:
        async def f(rollouts: Sequence[Rollout]) -> list[float]:
            barrier.append(name)
            for _ in range(200):
                if len(barrier) == 2:
                    return [1.0] * len(rollouts)
                await asyncio.sleep(0.01)
            return [0.0] * len(rollouts)

        return R.from_function(f, name=name, batch=True)

    assert (slow("a") + slow("b"))(ROWS) == [2.0] * 3


def test_ascore_does_not_block_the_loop_for_a_sync_term() -> None:
    def slow(rollouts: Sequence[Rollout]) -> list[float]:
        time.sleep(0.3)
        return [1.0] * len(rollouts)

    async def main() -> tuple[int, list[float | None]]:
        task = asyncio.ensure_future(R.from_function(slow, batch=True).ascore(ROWS))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return ticks, (await task).totals()

    ticks, totals = asyncio.run(main())
    assert totals == [1.0] * 3
    assert ticks > 5


@pytest.mark.parametrize("door", ["score", "ascore"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_deadline_ends_the_call_and_keeps_the_rows_that_were_done(door: str, is_async: bool) -> None:
    stuck = threading.Event()

    def f(rollout: Rollout) -> float:
        if rollout.completion == "ccc":
            stuck.wait(20)
        return 1.0

    async def g(rollout: Rollout) -> float:
        if rollout.completion == "ccc":
            await asyncio.sleep(20)
        return 1.0

    reward = R.from_function(g if is_async else f, name="f") + R.from_function(length)
    start = time.monotonic()
    scores = asyncio.run(reward.ascore(ROWS, 0.3)) if door == "ascore" else reward.score(ROWS, 0.3)
    took = time.monotonic() - start
    stuck.set()
    assert took < 5
    assert [v.status for v in scores.verdicts["f"]] == [Status.SCORED, Status.SCORED, Status.ERROR]
    assert scores.verdicts["f"][2].reason == "deadline"
    assert scores.totals() == [2.0, 3.0, None]


@pytest.mark.parametrize("deadline", [0, -1, math.nan])
def test_a_deadline_must_be_positive(deadline: float) -> None:
    with pytest.raises(ConfigError, match="deadline_s"):
        R.from_function(length).score(ROWS, deadline)


def test_declared_inputs_are_checked_before_the_function_runs() -> None:
    reward = R.from_function(lambda r: 1.0, name="f", reads=("difficulty", "num_tokens"))
    with pytest.raises(MissingInput, match="difficulty"):
        reward([Rollout("x", num_tokens=3)])
    with pytest.raises(MissingInput, match=r"num_tokens.*rollout 1"):
        reward([Rollout("x", num_tokens=3, columns={"difficulty": 1}), Rollout("y", columns={"difficulty": 1})])


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(ConfigError, match="name="):
        R.from_function(lambda r: 1.0)


def test_a_reward_of_a_module_level_function_pickles() -> None:
    reward = 0.5 * R.from_function(length)
    assert pickle.loads(pickle.dumps(reward)) == reward


def trl_style(prompts: list[Any], completions: list[Any], completion_ids: list[Any], level: list[int], **kwargs: Any) -> list[float | None]:
    assert len(prompts) == len(completions) == len(completion_ids) == len(level)
    return [None if lv == 0 else float(len(c)) for c, lv in zip(completions, level, strict=True)]


async def trl_async(completions: list[Any], answer: list[Any], **kwargs: Any) -> list[float]:
    return [float(c == a) for c, a in zip(completions, answer, strict=True)]


def test_a_trl_function_gets_what_trl_passes() -> None:
    rows = [Rollout("a", columns={"level": 1}), Rollout("bb", columns={"level": 0})]
    assert R.from_trl(trl_style)(rows) == [1.0, None]
    assert R.from_trl(trl_async, outcome=True)([Rollout("a", answer="a"), Rollout("b", answer="c")]) == [1.0, 0.0]


def test_a_trl_function_gets_chats_as_message_dicts() -> None:
    seen: list[Any] = []

    def spy(prompts: list[Any], completions: list[Any], **kwargs: Any) -> list[float]:
        seen.append((prompts, completions))
        return [1.0]

    R.from_trl(spy)([Rollout("4", prompt=(Message("user", "2+2?"),), messages=(Message("assistant", "4"),))])
    assert seen == [([[{"role": "user", "content": "2+2?"}]], [[{"role": "assistant", "content": "4"}]])]


class Foreign:
    """An object of another library that only follows the protocol."""

    name = "foreign"
    reads = frozenset[str]()
    fingerprint = "abc"

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [Verdict(2.0, Status.SCORED) for _ in rollouts]


def test_an_object_that_follows_the_protocol_is_lifted() -> None:
    reward = 0.5 * R.from_function(Foreign())  # type: ignore[arg-type]
    assert reward(ROWS) == [1.0] * 3
    assert reward.fingerprint is not None


class Wrong(R.Leaf):
    name = "wrong"

    def __init__(self, found: Any) -> None:
        self.found = found

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        if isinstance(self.found, Exception):
            raise self.found
        found: list[Verdict] = self.found
        return found


@pytest.mark.parametrize("found", [RuntimeError("x"), [], [1.0, 2.0, 3.0]], ids=repr)
def test_a_broken_leaf_is_an_error_on_its_rows_not_a_crash(found: Any) -> None:
    scores = (Wrong(found) + R.from_function(length)).score(ROWS)
    assert {v.status for v in scores.verdicts["wrong"]} == {Status.ERROR}
    assert scores.totals() == [None] * 3


def raises_configuration(rollout: Rollout) -> float:
    raise MissingInput("no judge key")


@pytest.mark.parametrize("deadline", [None, 5.0])
def test_a_configuration_error_inside_a_function_reaches_the_caller(deadline: float | None) -> None:
    with pytest.raises(MissingInput, match="no judge key"):
        R.from_function(raises_configuration).score(ROWS, deadline)


def test_an_input_may_be_one_of_two_columns() -> None:
    reward = R.from_function(lambda r: 1.0, name="f", reads=("tests|cases",))
    assert reward([Rollout("x", columns={"cases": 1}), Rollout("y", columns={"tests": 1})]) == [1.0, 1.0]
    with pytest.raises(MissingInput, match="tests or cases"):
        reward([Rollout("x", columns={"other": 1})])
