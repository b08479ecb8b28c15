"""The watch over broken rows: the last 1,024, warns above a fifth, raises above a half, both settable."""

from __future__ import annotations

import warnings

import pytest

import guerdon.rewards as R
from guerdon import Rollout
from guerdon.errors import BrokenRewardError, ConfigError
from guerdon.rewards.health import DETAIL, FEW, WINDOW, forget

from .conftest import Shape, check

REWARD = check(0) + 0 * Shape(1)


def rows(broken: int, good: int, code: str = "E") -> list[Rollout]:
    return [Rollout(code + "1")] * broken + [Rollout("C1")] * good


@pytest.mark.parametrize("code", ["E", "B"])
def test_more_than_half_of_the_window_broken_raises_and_names_the_reason(code: str) -> None:
    with pytest.raises(BrokenRewardError, match=r"check0"):
        REWARD.score(rows(WINDOW // 2 + 1, 0, code))


def test_half_of_a_full_window_passes_and_one_more_row_raises() -> None:
    REWARD.score(rows(0, WINDOW // 2) + rows(WINDOW // 2, 0), warn_broken=1.0)
    with pytest.raises(BrokenRewardError, match=f"{WINDOW // 2 + 1} of the last {WINDOW} rows"):
        REWARD.score(rows(1, 0), warn_broken=1.0)


def test_a_reward_that_fails_on_every_row_raises_long_before_the_window_is_full() -> None:
    REWARD.score(rows(FEW // 2, 0), warn_broken=1.0)
    with pytest.raises(BrokenRewardError, match=f"{FEW // 2 + 1} of the last {FEW // 2 + 1} rows"):
        REWARD.score(rows(1, 0), warn_broken=1.0)


def test_more_than_a_fifth_warns_once() -> None:
    with pytest.warns(RuntimeWarning, match="check0 error lost_worker"):
        REWARD.score(rows(WINDOW // 5 + 1, WINDOW // 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        REWARD.score(rows(1, 1))


@pytest.mark.parametrize("code", ["U", "N", "-", "I"])
def test_deliberate_abstention_and_wrong_answers_are_not_broken(code: str) -> None:
    assert len(REWARD.score(rows(2 * WINDOW, 0, code))) == 2 * WINDOW


def test_the_message_shows_what_one_bad_reference_is() -> None:
    math = R.math_equal()
    prose = [Rollout("5", answer="He has 2 + 3 = 5.\n#### 5")] * FEW
    with pytest.raises(BrokenRewardError, match=rf"malformed_reference \({FEW}, e\.g\. it is a whole solution.* follows ####\); fix it"):
        math.score(prose)
    forget()
    with pytest.warns(RuntimeWarning, match="e\\.g\\. it is a whole solution"):
        math.score(prose, max_broken=1.0)


def test_a_detail_in_the_message_is_one_short_line() -> None:
    def broken(rollout: Rollout) -> float:
        raise ValueError("a\nb " * 10_000)

    with pytest.raises(BrokenRewardError) as raised:
        R.from_function(broken).score([Rollout("x")] * FEW)
    message = str(raised.value)
    assert "e.g. broken: ValueError: a b a b" in message
    assert "\n" not in message
    assert len(message) < DETAIL + 200


def test_a_zero_weight_term_does_not_count() -> None:
    assert len(REWARD.score([Rollout("CE")] * WINDOW)) == WINDOW


def test_a_few_broken_rows_of_a_short_call_raise_no_alarm() -> None:
    assert REWARD([Rollout("E1")] * (FEW // 5)) == [None] * (FEW // 5)


def test_the_window_forgets_what_is_long_past() -> None:
    REWARD.score(rows(WINDOW // 6, WINDOW - WINDOW // 6))
    REWARD.score(rows(0, WINDOW))
    assert len(REWARD.score(rows(WINDOW // 6, 0))) == WINDOW // 6


def test_both_limits_can_be_set() -> None:
    assert len(REWARD.score(rows(WINDOW, 0), max_broken=1.0, warn_broken=1.0)) == WINDOW
    with pytest.raises(ConfigError, match="max_broken"):
        REWARD.score(rows(1, 0), max_broken=2.0)
