"""The outcome: correctness before shaping, read through the tree."""

from __future__ import annotations

import math

import pytest

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.errors import ConfigError

from .conftest import Shape, check

A, B, S = check(0), check(1), Shape(2)


def outcome(reward: R.Term, codes: str, **fields: object) -> float | None:
    value = float(reward.score([Rollout(codes, **fields)]).outcome_N[0])  # type: ignore[arg-type]
    return None if math.isnan(value) else value


@pytest.mark.parametrize(
    ("reward", "codes", "expected"),
    [
        (A, "C", 1.0),
        (0.1 * A + S, "C.0", 1.0),
        (S + A, "C.0", 1.0),
        (A + B, "CI", 1.0),
        (A + B, "-I", 0.0),
        (A + B, "EC", None),
        (0 * A + S, "C.0", 1.0),
        (R.gate(A, on=S), "C.0", 1.0),
        (R.gate(S, on=A), "C.0", 1.0),
        (R.clip(A, high=0.2), "C", 1.0),
        (R.by_status(A, {"correct": -5}), "C", 1.0),
        (R.scale_by_column(A, "w"), "C", 1.0),
        (R.optional(A) + S, "E.1", None),
        (R.any_of(A, B), "IC", 1.0),
        (R.all_of(A, B), "IC", 0.0),
        (R.all_of(A, S), "C.0", 1.0),
        (S, "..1", None),
        (A + S, "P.1", 0.5),
    ],
)
def test_the_outcome_is_the_first_verified_score_that_applies(reward: R.Term, codes: str, expected: float | None) -> None:
    assert outcome(reward, codes, columns={"w": 3.0}) == expected


def test_with_outcome_overrides_by_name() -> None:
    assert outcome((A + B).with_outcome("check1"), "CI") == 0.0
    assert outcome(2 * (A + B).with_outcome("check1") + S, "CI1") == 0.0


def test_with_outcome_may_name_a_leaf_inside_a_combinator() -> None:
    reward = (R.gate(A, on=B, name="gated") + S).with_outcome("check1")
    assert outcome(reward, "IC1") == 1.0


def test_with_outcome_may_name_a_shaping_term_within_the_unit_interval() -> None:
    reward = (A + S).with_outcome("shape")
    assert outcome(reward, "C.h") == 0.5
    assert outcome(reward, "C.2") is None


def test_an_unknown_outcome_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"check0, shape"):
        (A + S).with_outcome("nope")


def test_two_sums_that_name_different_outcomes_cannot_be_added() -> None:
    with pytest.raises(ConfigError, match="different outcomes"):
        (1.0 * A).with_outcome("check0") + (1.0 * B).with_outcome("check1")


def test_a_function_declared_as_outcome_is_one() -> None:
    f = R.from_function(lambda r: 0.5, name="f", outcome=True)
    assert outcome(S + f, "..1") == 0.5
