"""Statuses, verdicts, rollouts, abstention policy: each rule of the contract, one test."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon import Message, OnAbstain, Rollout, Status, Verdict
from guerdon.errors import AbstentionError, ConfigError
from guerdon.reasons import REASONS
from guerdon.types import group_ids

ZERO = [Status.INCORRECT, Status.NO_ANSWER, Status.UNPARSEABLE, Status.TIMEOUT]
NO_SCORE = [Status.NOT_APPLICABLE, Status.UNSCORED, Status.BAD_REFERENCE, Status.ERROR]


def test_statuses_fall_into_the_four_kinds_of_the_contract() -> None:
    assert [s for s in Status if s.is_verified] == [Status.CORRECT, Status.PARTIAL, *ZERO]
    assert [s for s in Status if s.has_score and not s.is_verified] == [Status.SCORED]
    assert [s for s in Status if s.is_abstention] == [Status.UNSCORED, Status.BAD_REFERENCE, Status.ERROR]
    assert [s for s in Status if s.is_broken] == [Status.BAD_REFERENCE, Status.ERROR]


@pytest.mark.parametrize("status", ZERO)
def test_what_the_completion_does_wrong_scores_zero(status: Status) -> None:
    assert Verdict.of(status).score == 0.0


@pytest.mark.parametrize("status", NO_SCORE)
def test_what_is_not_the_completions_doing_has_no_score(status: Status) -> None:
    assert Verdict.of(status).score is None
    with pytest.raises(ConfigError, match="has no score"):
        Verdict(0.0, status)


@pytest.mark.parametrize(
    ("score", "status"),
    [
        (0.5, Status.CORRECT),
        (1.0, Status.INCORRECT),
        (None, Status.CORRECT),
        (0.0, Status.PARTIAL),
        (1.0, Status.PARTIAL),
        (None, Status.SCORED),
    ],
)
def test_a_score_that_contradicts_its_status_is_refused(score: float | None, status: Status) -> None:
    with pytest.raises(ConfigError):
        Verdict(score, status)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("status", [Status.SCORED, Status.PARTIAL, Status.CORRECT])
def test_a_score_that_is_not_finite_becomes_an_error(score: float, status: Status) -> None:
    verdict = Verdict(score, status)
    assert (verdict.score, verdict.status, verdict.reason) == (None, Status.ERROR, "non_finite")


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_graded_scores_are_in_the_unit_interval_or_errors(fraction: float) -> None:
    verdict = Verdict.graded(fraction)
    if 0 <= fraction <= 1:
        assert verdict.score == fraction
        assert verdict.status is (Status.CORRECT if fraction == 1 else Status.INCORRECT if fraction == 0 else Status.PARTIAL)
    else:
        assert verdict.status is Status.ERROR


@pytest.mark.parametrize("reason", ["No box", "no-box", "x" * 60, "1st"])
def test_a_reason_is_a_machine_code(reason: str) -> None:
    with pytest.raises(ConfigError, match="machine code"):
        Verdict.of(Status.NO_ANSWER, reason)


def test_every_reason_in_the_table_is_a_valid_reason() -> None:
    for reason in REASONS:
        assert Verdict.of(Status.ERROR, reason).reason == reason


@pytest.mark.parametrize(
    "value", [Verdict.of(Status.ERROR, "deadline"), Rollout("x", answer=3, columns={"a": [1]}), Message("user", "hi"), OnAbstain("fill")]
)
def test_values_pickle_equal_and_are_frozen(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [Verdict.of(Status.ERROR), Rollout("x")])
def test_values_with_mappings_have_no_hash(value: object) -> None:
    with pytest.raises(TypeError):
        hash(value)


def test_a_completion_must_be_text() -> None:
    with pytest.raises(ConfigError, match="from_messages"):
        Rollout([{"role": "assistant", "content": "4"}])  # type: ignore[arg-type]


def test_a_prompt_is_text_or_a_tuple() -> None:
    with pytest.raises(ConfigError, match=r"got list; for a chat use Rollout\.from_messages\("):
        Rollout("4", prompt=[{"role": "user", "content": "2+2?"}])  # type: ignore[arg-type]


def test_groups_are_equal_group_else_equal_prompt() -> None:
    chat = (Message("user", "p", tool_calls=({"id": 1},)),)
    rollouts = [
        Rollout("", prompt="p"),
        Rollout("", prompt="p", group=7),
        Rollout("", prompt=chat),
        Rollout("", prompt="p"),
        Rollout("", prompt=chat),
    ]
    assert group_ids(rollouts) == [0, 1, 2, 0, 2]


def test_on_abstain_drops_fills_or_raises() -> None:
    assert OnAbstain().apply([1.0, None]) == [1.0, None]
    assert OnAbstain("fill", -1.0).apply([1.0, None]) == [1.0, -1.0]
    assert OnAbstain("raise").apply([1.0, 0.0]) == [1.0, 0.0]
    with pytest.raises(AbstentionError, match="row 1"):
        OnAbstain("raise").apply([1.0, None])


@pytest.mark.parametrize("arguments", [("skip", 0.0), ("fill", math.nan), ("fill", "0"), ("fill", None)])
def test_on_abstain_checks_its_arguments(arguments: tuple[str, float]) -> None:
    with pytest.raises(ConfigError):
        OnAbstain(*arguments)  # type: ignore[arg-type]


def test_a_group_must_be_hashable() -> None:
    with pytest.raises(ConfigError, match="group must be hashable"):
        Rollout("x", group=["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, ""), ("", ""), ([1, 2], "12"), (5, "5"), (0, "0"), ({"sum": 4}, "{'sum': 4}"), ([{"type": "image"}, {"text": "a"}, "b"], "ab")],
)
def test_a_message_holds_text_whatever_a_tool_returned(content: object, text: str) -> None:
    assert Message.of({"role": "tool", "content": content}).content == text
