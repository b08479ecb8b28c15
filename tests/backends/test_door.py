"""What every door shares: taking a reward, refusing what the stack cannot carry, scoring without raising, flat rows."""

from __future__ import annotations

import asyncio
import logging
import math
import time
import warnings
from typing import Any

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status
from guerdon.backends.door import FLAGS, as_reward, ascore_safely, flat_keys, flat_row, refuse_reads, require_outcome, score_safely
from guerdon.errors import ConfigError, MissingInput

ROWS = [Rollout("\\boxed{4}", answer="4"), Rollout("\\boxed{5}", answer="4"), Rollout("?", answer="4")]


def composed() -> Any:
    return R.math_equal() + 0.2 * R.boxed_format()


def test_a_reward_comes_from_an_import_string(tmp_path: Any) -> None:
    (tmp_path / "mine.py").write_text("import guerdon.rewards as R\nreward = R.exact()\n")
    assert as_reward(f"{tmp_path}/mine.py:reward", "the door") == R.exact()


def test_what_is_no_reward_is_refused_with_the_fix() -> None:
    with pytest.raises(ConfigError, match="the door: expected a reward, got int"):
        as_reward(3, "the door")


def test_reads_are_refused_through_combinators_and_name_the_term() -> None:
    reward = R.math_equal() + R.gate(R.soft_overlong(max_tokens=8, cache=2), on=R.math_equal(), name="gated")
    with pytest.raises(MissingInput, match=r"gated reads 'num_tokens'.*use the agent"):
        refuse_reads(reward, "the file", {"num_tokens": "use the agent"})


def test_reads_the_door_carries_are_not_refused() -> None:
    reward = composed()
    assert "answer" in reward.reads
    refuse_reads(reward, "the file", {"num_tokens": "use the agent", "group": "use the agent"})  # raises nothing


def test_a_reward_without_outcome_is_refused() -> None:
    require_outcome(composed(), "scores")
    with pytest.raises(ConfigError, match="scores needs an outcome"):
        require_outcome(R.boxed_format(), "scores")


def broken_input(how: str) -> tuple[Any, list[Rollout]]:
    if how == "missing column":
        return R.math_equal(column="gold"), ROWS
    if how == "not rollouts":
        return R.math_equal(), ["text"]  # type: ignore[list-item]

    class Breaks(R.Combinator):
        name = "breaks"

        def combine(self, rollouts: Any, values: Any) -> Any:
            raise RuntimeError("combine broke")

    return Breaks(), ROWS


@pytest.mark.parametrize("how", ["missing column", "combine"])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_what_breaks_the_whole_call_is_error_on_every_row_and_logged(how: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    reward, rows = broken_input(how)
    with caplog.at_level(logging.ERROR, "guerdon"):
        scores = score_safely(reward, rows, 5.0) if way == "sync" else asyncio.run(ascore_safely(reward, rows, 5.0))
    assert scores.totals() == [None] * 3
    assert [v.status for v in scores.verdicts[scores.names[0]]] == [Status.ERROR] * 3
    assert [v.status for v in scores.outcomes] == [Status.ERROR] * 3
    assert "3 rows could not be scored" in caplog.text
    assert (scores.advantages() == 0).all()


def test_a_broken_reward_is_a_log_line_and_not_an_exception_where_warnings_are_errors(caplog: pytest.LogCaptureFixture) -> None:
    def broken(rollout: Rollout) -> float:
        raise ValueError("no")

    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "guerdon"):
        warnings.simplefilter("error")
        scores = score_safely(R.from_function(broken), [Rollout("x")] * 400, 5.0)
    assert scores.totals() == [None] * 400
    assert "could not be scored" in caplog.text


def test_a_hanging_term_loses_its_rows_only() -> None:
    def hangs(rollout: Rollout) -> float:
        if rollout.completion == "?":
            time.sleep(3.0)
        return 1.0

    start = time.monotonic()
    scores = score_safely(R.math_equal() + R.from_function(hangs), ROWS, 0.5)
    assert time.monotonic() - start < 2.5
    assert scores.totals() == [2.0, 1.0, None]


def test_the_flat_row_has_the_same_finite_keys_whatever_happened() -> None:
    def odd(rollout: Rollout) -> float | None:
        return {"\\boxed{4}": math.nan, "\\boxed{5}": None}.get(rollout.completion, 3.0)

    reward = composed() + R.from_function(odd)
    scores = score_safely(reward, ROWS, 5.0)
    rows = [flat_row(scores, i) for i in range(3)]
    assert all(tuple(row) == flat_keys(reward) for row in rows)
    assert all(math.isfinite(v) for row in rows for v in row.values())
    assert [row["guerdon/abstained"] for row in rows] == [1.0, 0.0, 0.0]
    assert [row["guerdon/odd/scored"] for row in rows] == [0.0, 0.0, 1.0]
    assert [row["guerdon/rows/error"] for row in rows] == [1.0, 0.0, 0.0]
    assert [row["guerdon/rows/no_answer"] for row in rows] == [0.0, 0.0, 1.0]


def test_a_zero_weight_term_raises_no_flag() -> None:
    def breaks(rollout: Rollout) -> float:
        raise ValueError("no")

    row = flat_row(score_safely(R.math_equal() + 0.0 * R.from_function(breaks), ROWS[:1], 5.0), 0)
    assert [row[key] for key in FLAGS] == [0.0] * len(FLAGS)
    assert row["guerdon/breaks/scored"] == 0.0


def test_a_name_that_would_hide_a_flag_is_refused() -> None:
    with pytest.raises(ConfigError, match="guerdon/abstained"):
        flat_keys(R.math_equal() + R.exact(name="abstained"))
