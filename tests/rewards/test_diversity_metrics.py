"""Diversity metrics of one group: worked values, bounds, and groups with nothing to measure."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.errors import ConfigError
from guerdon.rewards.diversity_metrics import (
    answer_entropy,
    collapsed,
    distinct_n,
    duplicate_counts,
    effective_answers,
    keep_first,
    reward_range,
    reward_std,
    unique_ratio,
    zero_spread_fraction,
)

TOKENS = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 5, 6], [7, 8, 9]]
GROUPS = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=6)


def test_worked_example_on_token_ids() -> None:
    assert unique_ratio(TOKENS) == 0.75
    assert distinct_n(TOKENS, 1) == 9 / 15
    assert distinct_n(TOKENS, 2) == 7 / 11
    assert distinct_n(TOKENS, 4) == 2 / 3
    assert keep_first(TOKENS) == [True, False, True, True]
    assert duplicate_counts(TOKENS) == [2, 2, 1, 1]


@given(GROUPS, st.integers(1, 4))
def test_texts_are_measured_like_the_lists_of_their_words(group: list[list[int]], n: int) -> None:
    texts = [" ".join(map(str, tokens)) for tokens in group]
    assert distinct_n(texts, n) == pytest.approx(distinct_n(group, n), nan_ok=True)
    assert unique_ratio(texts) == unique_ratio(group)
    assert keep_first(texts) == keep_first(group)


def test_texts_are_equal_to_the_letter() -> None:
    assert unique_ratio(["a b", "a  b", "A b"]) == 1.0
    assert distinct_n(["a b", "a  b"], 2) == 0.5


def test_a_text_is_not_its_own_token_list() -> None:
    assert unique_ratio(["a", ["a"]]) == 1.0


@given(GROUPS)
def test_counts_masks_and_ratio_agree(group: list[list[int]]) -> None:
    counts, kept = duplicate_counts(group), keep_first(group)
    assert sum(1 / count for count in counts) == pytest.approx(sum(kept))
    assert unique_ratio(group) == sum(kept) / len(group)


@given(GROUPS, st.integers(1, 4))
def test_repeating_a_group_divides_its_distinct_n(group: list[list[int]], n: int) -> None:
    assert distinct_n(group * 3, n) == pytest.approx(distinct_n(group, n) / 3, nan_ok=True)


@pytest.mark.parametrize("n", [0, -1])
def test_distinct_n_refuses_an_n_below_one(n: int) -> None:
    with pytest.raises(ConfigError, match=f"at least 1, got {n}"):
        distinct_n(["a"], n)


@pytest.mark.parametrize("text", ["", "\x00" * 9, "\ud800 \udfff", "مرحبا عالم", "x" * 100_000, "a " * 100_000])
def test_any_text_can_be_measured(text: str) -> None:
    assert unique_ratio([text, text]) == 0.5
    assert math.isnan(distinct_n([text], 2)) or 0 < distinct_n([text], 2) <= 1


@given(st.lists(st.sampled_from("abcd"), min_size=1))
def test_entropy_lies_between_zero_and_that_of_equal_frequencies(answers: list[str]) -> None:
    assert -1e-12 <= answer_entropy(answers) <= math.log(len(set(answers))) + 1e-12
    assert answer_entropy(answers) == pytest.approx(answer_entropy([*answers[::-1], None]))


@pytest.mark.parametrize("kinds", [1, 2, 7])
def test_equally_frequent_answers_are_counted(kinds: int) -> None:
    assert effective_answers(list(range(kinds)) * 3) == pytest.approx(kinds, rel=1e-14)


def test_rewards_that_are_missing_are_left_out() -> None:
    assert reward_std([1, None, 0, math.nan]) == 0.5
    assert reward_std([1, 0], ddof=1) == pytest.approx(math.sqrt(0.5))
    assert reward_range([None, 0.25, -1]) == 1.25


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_spread_of_rewards_of_any_size(scale: float) -> None:
    assert reward_std([scale, -scale]) == pytest.approx(scale)
    assert reward_std([0.1 * scale] * 7) == 0.0


def test_groups_that_differ_by_rounding_have_no_spread() -> None:
    assert zero_spread_fraction([[0.1 + 0.2, 0.3], [0, 0], [0, 1], [None], [1e-9, 2e-9]]) == 0.5


@pytest.mark.parametrize(
    "value",
    [
        unique_ratio([]),
        distinct_n([], 1),
        distinct_n(["a b"], 3),
        answer_entropy([None, None]),
        effective_answers([]),
        reward_std([None]),
        reward_std([1.0], ddof=1),
        reward_range([]),
        zero_spread_fraction([[None]]),
    ],
)
def test_nothing_to_measure_is_nan_and_not_zero(value: float) -> None:
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        ({"entropy": 0.4, "distinct_2": 0.2}, True),
        ({"entropy": 0.4, "distinct_2": 0.3}, False),
        ({"entropy": 0.4, "distinct_2": math.nan}, False),
        ({"entropy": 0.4}, False),
    ],
)
def test_alarm_needs_every_metric_to_have_fallen(current: dict[str, float], expected: bool) -> None:
    assert collapsed(current, {"entropy": 1.0, "distinct_2": 0.6}) is expected


def test_no_baseline_is_no_alarm() -> None:
    assert collapsed({"entropy": 0.0}, {}) is False


def test_importing_the_metrics_loads_no_numpy() -> None:
    code = "import sys, guerdon.rewards.diversity_metrics; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_tokens_may_be_arrays() -> None:
    np: Any = pytest.importorskip("numpy")
    assert keep_first(np.array([[1, 2], [1, 2], [2, 1]])) == [True, False, True]
    assert distinct_n(np.array([[1, 2], [1, 2]]), 2) == 0.5
