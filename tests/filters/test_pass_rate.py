"""Pass rates: what counts as passed, as scorable, and as neither."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guerdon.errors import ConfigError
from guerdon.filters import PassRate


def test_a_rollout_passes_at_an_outcome_of_at_least_pass_at() -> None:
    outcomes = [1.0, 0.8, 0.5, 0.0]
    assert [PassRate.of(outcomes, at).passed for at in (1.0, 0.8, 0.5, 0.1)] == [1, 2, 3, 3]


@pytest.mark.parametrize("lost", [None, math.nan, np.nan, np.float32("nan")])
def test_a_rollout_without_outcome_is_unscorable_and_not_failed(lost: float | None) -> None:
    assert PassRate.of([1.0, lost, 0.0]) == PassRate(1, 2, unscorable=1)


def test_outcomes_may_be_an_array() -> None:
    assert PassRate.of(np.array([1.0, 0.0, np.nan])) == PassRate(1, 2, 1)


def test_nothing_scorable_has_no_rate() -> None:
    assert PassRate.of([None, None]).rate is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1))), st.floats(0.01, 1))
def test_every_rollout_is_counted_once(outcomes: list[float | None], pass_at: float) -> None:
    rate = PassRate.of(outcomes, pass_at)
    assert rate.total + rate.unscorable == len(outcomes)
    assert rate.passed == sum(o is not None and o >= pass_at for o in outcomes)


@pytest.mark.parametrize("counts", [(3, 2), (-1, 2), (1, 2, -1), (1.0, 2), (True, 2)])
def test_impossible_counts_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="PassRate"):
        PassRate(*counts)


@pytest.mark.parametrize("pass_at", [0.0, -1.0, 1.1, math.nan, "1", None])
def test_a_pass_mark_that_nothing_or_everything_reaches_is_refused(pass_at: float) -> None:
    with pytest.raises(ConfigError, match="pass_at"):
        PassRate.of([1.0], pass_at)


def test_counts_may_be_sums_of_an_array() -> None:
    passed = np.array([1, 0, 1]) == 1
    assert repr(PassRate(passed.sum(), passed.size)) == "PassRate(passed=2, total=3, unscorable=0)"


def test_it_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(PassRate(1, 2))) == PassRate(1, 2)
    assert len({PassRate(1, 2), PassRate(1, 2)}) == 1
