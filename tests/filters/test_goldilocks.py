"""Goldilocks: inclusive, exact bounds, and no verdict on what could not be scored."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.errors import ConfigError
from guerdon.filters import Decision, Filter, Goldilocks, PassRate


def test_both_bounds_are_inside() -> None:
    decided = [Goldilocks(0.2, 0.8).decide(PassRate(passed, 10)) for passed in (1, 2, 8, 9)]
    assert decided == [Decision.TOO_HARD, Decision.KEEP, Decision.KEEP, Decision.TOO_EASY]


@given(st.integers(1, 200).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_a_rate_given_as_a_float_is_that_rate(counts: tuple[int, int]) -> None:
    passed, total = counts
    assert Goldilocks(passed / total, passed / total, min_total=1).decide(PassRate(passed, total)) is Decision.KEEP


@given(st.integers(0, 100), st.integers(0, 100), st.integers(4, 100), st.data())
def test_it_agrees_with_exact_fractions(low: int, high: int, total: int, data: st.DataObject) -> None:
    low, high = sorted((low, high))
    passed = data.draw(st.integers(0, total))
    rate = Fraction(passed, total)
    wanted = Decision.TOO_HARD if rate < Fraction(low, 100) else Decision.TOO_EASY if rate > Fraction(high, 100) else Decision.KEEP
    assert Goldilocks(low / 100, high / 100).decide(PassRate(passed, total)) is wanted


@pytest.mark.parametrize("passed", [0, 1, 3])
def test_too_few_scorable_rollouts_are_never_too_hard_or_too_easy(passed: int) -> None:
    assert Goldilocks(min_total=4).decide(PassRate(passed, 3, unscorable=5)) is Decision.UNSCORABLE
    assert Goldilocks(min_total=3).decide(PassRate(passed, 3, unscorable=5)) is not Decision.UNSCORABLE


@pytest.mark.parametrize("bounds", [(0.8, 0.2), (-0.1, 0.5), (0.5, 1.5), (math.nan, 0.5), (0.1, math.nan), ("0.2", 0.8), (None, 0.8)])
def test_bounds_that_are_no_band_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(ConfigError, match="low <= high"):
        Goldilocks(*bounds)


@pytest.mark.parametrize("min_total", [0, -1, 2.0, True])
def test_a_min_total_that_is_no_count_is_refused(min_total: int) -> None:
    with pytest.raises(ConfigError, match="min_total"):
        Goldilocks(min_total=min_total)


def test_it_is_a_filter_of_pass_rates() -> None:
    rule: Filter[PassRate] = Goldilocks()
    assert rule.decide(PassRate(4, 8)) is Decision.KEEP
