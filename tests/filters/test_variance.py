"""Zero variance: on the outcome, on the components, and what is left out of both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from guerdon.errors import ConfigError
from guerdon.filters import Decision, ZeroVariance

NAN = float("nan")


def group(
    outcomes: list[float],
    values: list[list[float]] | None = None,
    weights: list[float] | None = None,
    valid: list[bool] | None = None,
) -> Any:
    """The part of the scores of one group that the filter reads; without values, the outcome is the one component."""
    values_NK = np.array(values or [[o] for o in outcomes], dtype=float).reshape(len(outcomes), -1 if outcomes else 1)
    weights_NK = np.broadcast_to(np.array(weights if weights is not None else [1.0] * values_NK.shape[1]), values_NK.shape)
    valid_N = np.array(valid if valid is not None else ~np.isnan(values_NK).all(axis=1), dtype=bool)
    return SimpleNamespace(outcome_N=np.array(outcomes, dtype=float), values_NK=values_NK, weights_NK=weights_NK, valid_N=valid_N)


@pytest.mark.parametrize(
    ("outcomes", "decision"),
    [
        ([1, 0, 1], Decision.KEEP),
        ([1, 1, 1], Decision.ZERO_VARIANCE),
        ([0, 0, 0], Decision.ZERO_VARIANCE),
        ([0.5, 0.5], Decision.ZERO_VARIANCE),
        ([1, NAN, 1], Decision.ZERO_VARIANCE),
        ([1, NAN, 0], Decision.KEEP),
        ([0, NAN, NAN], Decision.UNSCORABLE),
        ([NAN, NAN], Decision.UNSCORABLE),
        ([], Decision.UNSCORABLE),
    ],
)
def test_outcomes_decide(outcomes: list[float], decision: Decision) -> None:
    assert ZeroVariance().decide(group(outcomes)) is decision


def test_the_outcome_is_asked_and_not_the_shaping() -> None:
    shaped = group([1, 1], [[1, 0.3], [1, 0.9]])
    assert ZeroVariance("outcome").decide(shaped) is Decision.ZERO_VARIANCE
    assert ZeroVariance("components").decide(shaped) is Decision.KEEP


def test_a_component_that_only_watches_does_not_count() -> None:
    assert ZeroVariance("components").decide(group([1, 1], [[1, 0.3], [1, 0.9]], [1.0, 0.0])) is Decision.ZERO_VARIANCE


def test_an_invalid_row_does_not_count() -> None:
    rows = group([1, 1, 0], [[1], [1], [0]], valid=[True, True, False])
    assert ZeroVariance("components").decide(rows) is Decision.ZERO_VARIANCE


def test_a_component_that_skips_a_row_does_not_differ_there() -> None:
    assert ZeroVariance("components").decide(group([1, 1], [[1, 0.5], [1, NAN]])) is Decision.ZERO_VARIANCE


@pytest.mark.parametrize("on", ["outcome", "components"])
def test_rounding_is_no_variance(on: Literal["outcome", "components"]) -> None:
    assert ZeroVariance(on).decide(group([0.1 + 0.2, 0.3])) is Decision.ZERO_VARIANCE


def test_min_total_counts_what_could_be_scored() -> None:
    assert ZeroVariance(min_total=3).decide(group([1, 0, NAN])) is Decision.UNSCORABLE


@pytest.mark.parametrize("arguments", [{"on": "total"}, {"min_total": 1}, {"min_total": 2.0}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="ZeroVariance"):
        ZeroVariance(**arguments)
