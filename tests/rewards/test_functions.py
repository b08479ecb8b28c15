"""User functions and TRL functions as terms: statuses, purity, once per batch, async, deadlines."""

from __future__ import annotations

import asyncio
import functools
import gc
import math
import pickle
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Abstain, Message, Rollout, Status, Verdict
from guerdon.errors import ConfigError, MissingInput
from guerdon.rewards.grading import shown

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


class TwoNumbers:
    """What a tensor of two elements does."""

    def __float__(self) -> float:
        raise RuntimeError("cannot be converted to a scalar")

    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


class Silent(Exception):
    """Its message cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no")


class LibraryTimeout(BaseException):
    """Some libraries' timeouts are no Exceptions."""


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
        (10**5000, Status.ERROR, None),
        ("0.5", Status.ERROR, None),
        (b"1", Status.ERROR, None),
        (TwoNumbers(), Status.ERROR, None),
        (Silent("x"), Status.ERROR, None),
        (ConfigError("from a Verdict or Rollout it built wrongly"), Status.ERROR, None),
        (SystemExit(3), Status.ERROR, None),
        (LibraryTimeout(), Status.ERROR, None),
        (asyncio.CancelledError(), Status.ERROR, None),
        (Verdict.of(Status.TIMEOUT), Status.TIMEOUT, 0.0),
    ],
    ids=lambda value: shown(value, 30),
)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_function_returns_or_raises_becomes_a_verdict_of_its_row_alone(
    value: Any, status: Status, score: float | None, is_async: bool
) -> None:
    def f(rollout: Rollout) -> Any:
        if rollout.completion != "bb":
            return 1.0
        if isinstance(value, BaseException):
            raise value
        return value

    async def g(rollout: Rollout) -> Any:
        return f(rollout)

    verdicts = R.from_function(g if is_async else f, name="f").verdicts(ROWS)
    assert [(v.status, v.score) for v in verdicts] == [(Status.SCORED, 1.0), (status, score), (Status.SCORED, 1.0)]


@pytest.mark.parametrize("value", [1.5, -0.1, 2])
def test_an_outcome_outside_the_unit_interval_is_an_error(value: float) -> None:
    assert R.from_function(lambda r: value, name="f", outcome=True).verdicts(ROWS[:1])[0].status is Status.ERROR


@pytest.mark.parametrize("returned", [[], [1.0], [1.0] * 4, None, 1.0, {"a": 1}, {0: 1.0, 1: 1.0, 2: 1.0}, "101", b"101", {1.0, 2.0, 3.0}])
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
    with pytest.raises(MissingInput, match=r"tests or cases', which is absent from all 1 rollouts \(they have other\): name yours"):
        reward([Rollout("x", columns={"other": 1})])


def test_a_column_that_is_there_is_called_empty_and_not_absent() -> None:
    rows = [Rollout("x", columns={"cases": None, "other": 1})] * 3
    with pytest.raises(MissingInput, match="column 'cases' is empty on all 3 rows: fill it"):
        R.from_function(lambda r: 1.0, name="f", reads=("tests|cases",))(rows)
    with pytest.raises(MissingInput, match=r"'answer', which is absent or empty on all 3 rollouts \(they have other\)"):
        R.exact()(rows)


@pytest.mark.parametrize("batch", [False, True])
def test_a_coroutine_returned_by_mistake_is_an_error_that_says_so_and_is_closed(batch: bool) -> None:
    async def score(of: Any) -> float:
        return 1.0

    verdicts = R.from_function(lambda of: score(of), name="f", batch=batch).verdicts(ROWS)
    gc.collect()  # a coroutine never awaited would warn here
    assert {(v.status, v.reason) for v in verdicts} == {(Status.ERROR, "wrong_type")}
    assert "async def" in verdicts[0].detail


def test_a_batch_function_cannot_change_what_other_terms_see() -> None:
    def spoil(rollouts: list[Rollout]) -> list[float]:
        n = len(rollouts)
        rollouts.clear()
        return [1.0] * n

    assert (R.from_function(spoil, batch=True) + R.from_function(length))(ROWS) == [2.0, 3.0, 4.0]


class Terminated(BaseException):
    """What a program's signal handler may raise."""


def test_what_a_signal_handler_raises_ends_the_call_not_a_row() -> None:
    def stop(*_: object) -> None:
        raise Terminated

    def f(rollout: Rollout) -> float:
        signal.raise_signal(signal.SIGUSR1)
        return 1.0

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(Terminated):
            R.from_function(f)(ROWS)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("reads", ["answer"])
@pytest.mark.parametrize("lift", [R.from_function, R.from_trl])
def test_inputs_given_as_one_text_are_refused(lift: Any, reads: str) -> None:
    with pytest.raises(ConfigError, match=r"reads=\('answer',\)"):
        lift(lengths, reads=reads)


def test_completion_and_prompt_are_always_there_to_read() -> None:
    assert R.from_function(length, reads=("completion", "prompt"))(ROWS) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("rollouts", [Rollout("a"), ["a"], "a", [{"completion": "a"}]])
def test_only_a_list_of_rollouts_is_scored(rollouts: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        R.from_function(length).score(rollouts)


class Clears:
    """A verifier that empties the list it is given."""

    reads = frozenset[str]()

    def judge(self, rollouts: list[Rollout]) -> list[Verdict]:
        rollouts.clear()
        return []


def test_a_verifier_cannot_change_what_other_terms_see() -> None:
    scores = (R.verified(Clears()) + R.from_function(length)).score(ROWS)  # type: ignore[arg-type]
    assert [v.reason for v in scores.verdicts["Clears"]] == ["wrong_length"] * 3
    assert [v.score for v in scores.verdicts["length"]] == [1.0, 2.0, 3.0]


class LaterVerifier(Clears):
    async def judge(self, rollouts: list[Rollout]) -> list[Verdict]:  # type: ignore[override]
        return []


class OneText(Clears):
    reads = "answer"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: R.from_function(Foreign), "the class Foreign"),
        (lambda: R.verified(Clears), "the class Clears"),
        (lambda: R.verified(LaterVerifier()), "ajudge"),
        (lambda: R.verified(OneText()).reads, "answer"),
        (lambda: R.by_column(5, {"a": R.exact()}), "name of a data column"),
        (lambda: R.scale_by_column(R.exact(), None), "name of a data column"),
    ],
)
def test_what_cannot_work_is_refused_when_built(build: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build()


def test_a_reward_lifted_again_scores_as_it_did() -> None:
    assert R.from_function(R.exact(), name="again", outcome=True).score([Rollout("x", answer="x")]).outcome_N.tolist() == [1.0]


def factory() -> R.Term:
    return R.exact()


@pytest.mark.parametrize(
    ("f", "said"),
    [(Scorer, "pass an instance"), (factory, "one rollout"), (trl_style, "R.from_trl"), (lambda a, b: 1.0, "one rollout")],
)
def test_what_cannot_be_called_with_one_rollout_is_refused_with_the_fix(f: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        R.from_function(f, name="f")
