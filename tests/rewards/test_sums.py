"""Weighted sums: the two operators, totals, abstention, names."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import guerdon.rewards as R
from guerdon import Rollout, Status
from guerdon.errors import ConfigError
from guerdon.rewards.components import flatten

from .conftest import CODES, Shape, check


def test_sums_flatten_and_weights_multiply() -> None:
    reward = 2 * (0.5 * check(0) + check(1)) + 3 * check(2)
    assert [(c.name, c.weight) for c in flatten(reward)] == [("check0", 1.0), ("check1", 2.0), ("check2", 3.0)]


@pytest.mark.parametrize("weight", [0.5, np.float64(0.5), np.float32(0.5), 1])
def test_a_weight_is_any_real_number_on_either_side(weight: float) -> None:
    assert (weight * check(0)).terms == (check(0) * weight).terms == ((float(weight), check(0)),)


@pytest.mark.parametrize("weight", [math.nan, math.inf, True, "1", None, 1j])
def test_a_weight_that_is_not_a_finite_number_is_refused(weight: object) -> None:
    with pytest.raises((ConfigError, TypeError)):
        weight * check(0)  # type: ignore[operator]


def test_the_builtin_sum_adds_rewards() -> None:
    assert sum([check(0), check(1)]) == check(0) + check(1)


@pytest.mark.parametrize("other", [0.2, "x", None, [1]])
def test_adding_something_else_says_what_was_expected(other: object) -> None:
    with pytest.raises(TypeError, match="expected a reward"):
        check(0) + other  # type: ignore[operator]


def test_a_bare_function_is_not_a_term_until_lifted() -> None:
    with pytest.raises(TypeError, match="from_function"):
        check(0) + len  # type: ignore[operator]


def test_two_rewards_cannot_be_multiplied() -> None:
    with pytest.raises(TypeError, match="gate"):
        check(0) * check(1)  # type: ignore[operator]


def test_a_name_clash_raises_and_names_the_fix() -> None:
    with pytest.raises(ConfigError, match=r"'check0'.*name="):
        check(0) + check(0)


def test_an_equal_reward_pickles_equal_and_hashes_equal() -> None:
    reward = 0.8 * R.gate(check(0), on=Shape(1)) + 0.2 * Shape(1)
    copy = pickle.loads(pickle.dumps(reward))
    assert copy == reward
    assert hash(copy) == hash(reward)


# Two terms, weights 1 and 0.5: the codes of a row and the total it must get.
TOTALS = [
    ("C1", 1.5),
    ("I1", 0.5),
    ("Ch", 1.25),
    ("C-", 1.0),
    ("-1", 0.5),
    ("--", None),
    ("E1", None),
    ("CE", None),
    ("B1", None),
    ("U1", None),
    ("N1", 0.5),
    ("E-", None),
]


@pytest.mark.parametrize(("codes", "total"), TOTALS)
def test_the_total_sums_the_terms_that_apply_and_abstains_with_any(codes: str, total: float | None) -> None:
    reward = check(0) + 0.5 * Shape(1)
    assert reward([Rollout(codes)]) == [total]


@pytest.mark.parametrize(("codes", "total"), TOTALS)
def test_a_nested_sum_follows_the_same_rule(codes: str, total: float | None) -> None:
    inner = check(0) + 0.5 * Shape(1)
    assert R.clip(inner)([Rollout(codes)]) == [total]


@pytest.mark.parametrize("code", ["E", "B", "U", "-", "1", "C"])
def test_a_zero_weight_term_never_decides_a_row(code: str) -> None:
    reward = check(0) + 0 * Shape(1)
    scores = reward.score([Rollout("C" + code)])
    assert scores.totals() == [1.0]
    assert scores.verdicts["shape"][0].status == CODES[code].status


@pytest.mark.parametrize("code", ["E", "B", "U"])
def test_optional_drops_only_the_term_and_keeps_its_reason(code: str) -> None:
    reward = check(0) + R.optional(Shape(1))
    scores = reward.score([Rollout("C" + code)])
    assert scores.totals() == [1.0]
    verdict = scores.verdicts["shape"][0]
    assert verdict.status is Status.NOT_APPLICABLE
    assert verdict.info["was"] == CODES[code].status


@given(st.lists(st.text(alphabet="CINP-UBE", min_size=2, max_size=2), min_size=1, max_size=20))
def test_rows_are_scored_independently_and_in_order(rows: list[str]) -> None:
    reward = check(0) + 0.25 * check(1)
    together = reward.score([Rollout(r) for r in rows], max_broken=1.0, warn_broken=1.0).totals()
    alone = [reward.score([Rollout(r)], max_broken=1.0, warn_broken=1.0).totals()[0] for r in rows]
    assert together == alone


def test_a_total_that_overflows_is_invalid_not_infinite() -> None:
    huge = R.from_function(lambda r: 1e308, name="huge")
    assert (10 * huge)([Rollout("x")]) == [None]


def test_an_empty_batch_scores_to_an_empty_result() -> None:
    scores = (check(0) + Shape(1)).score([])
    assert scores.totals() == []
    assert scores.values_NK.shape == (0, 2)
    assert len(scores) == 0


def test_scores_keep_components_weights_and_values_apart() -> None:
    scores = (check(0) + 0.5 * Shape(1)).score([Rollout("C1"), Rollout("I-"), Rollout("E1")])
    assert scores.names == ("check0", "shape")
    np.testing.assert_array_equal(scores.weights_NK, [[1, 0.5]] * 3)
    np.testing.assert_array_equal(scores.values_NK, [[1, 1], [0, math.nan], [math.nan, 1]])
    assert scores.valid_N.tolist() == [True, True, False]
    np.testing.assert_array_equal(scores.total_N, [1.5, 0.0, math.nan])
    np.testing.assert_array_equal(scores.outcome_N, [1.0, 0.0, math.nan])
