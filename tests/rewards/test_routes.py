"""Routes by column: union of components, weights per row, unknown values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status
from guerdon.errors import ConfigError, MissingInput

from .conftest import Shape, check


def row(kind: object, codes: str = "CC1", **columns: object) -> Rollout:
    return Rollout(codes, columns={"kind": kind, **columns})


ROUTED = R.by_column("kind", {"math": 0.8 * check(0) + 0.2 * Shape(2), "code": check(1) + 0.1 * Shape(2)})


def test_components_are_the_union_with_weights_per_row() -> None:
    scores = ROUTED.score([row("math"), row("code")])
    assert scores.names == ("check0", "shape", "check1")
    np.testing.assert_allclose(scores.weights_NK, [[0.8, 0.2, 0], [0, 0.1, 1]])
    np.testing.assert_allclose(scores.total_N, [1.0, 1.1])


def test_a_term_off_the_route_is_not_applicable_and_not_computed() -> None:
    seen: list[str] = []

    def spy(rollout: Rollout) -> float:
        seen.append(str(rollout.columns["kind"]))
        return 1.0

    reward = R.by_column("kind", {"a": R.from_function(spy, name="spy"), "b": check(0)})
    scores = reward.score([row("a"), row("b"), row("a")])
    assert seen == ["a", "a"]
    assert [v.status for v in scores.verdicts["spy"]] == [Status.SCORED, Status.NOT_APPLICABLE, Status.SCORED]
    assert scores.totals() == [1.0, 1.0, 1.0]


def test_equal_leaves_merge_and_unequal_leaves_of_one_name_are_told_apart() -> None:
    reward = R.by_column("kind", {"a": check(0, "x") + Shape(2), "b": check(1, "x") + Shape(2)})
    scores = reward.score([row("a", "CI1"), row("b", "CI1")])
    assert scores.names == ("a/x", "shape", "b/x")
    assert scores.totals() == [2.0, 1.0]


def test_an_unknown_value_marks_the_row_bad_reference() -> None:
    scores = (ROUTED + Shape(2, "extra")).score([row("poetry"), row("math")])
    assert scores.totals() == [None, 2.0]
    assert {v.status for n, v in scores.components(0).items() if n != "extra"} == {Status.BAD_REFERENCE}
    assert "poetry" in scores.verdicts["check0"][0].detail


@pytest.mark.parametrize("value", ["poetry", None, [1]])
def test_default_takes_every_other_value(value: object) -> None:
    reward = R.by_column("kind", {"a": check(0)}, default=Shape(2))
    assert reward([row(value, "I.1"), row("a", "I.1")]) == [1.0, 0.0]


def test_routes_nest() -> None:
    inner = R.by_column("level", {1: check(0), 2: check(1)})
    reward = R.by_column("kind", {"math": inner, "other": Shape(2)})
    rows = [row("math", "CI1", level=1), row("math", "CI1", level=2), row("other", "CI1", level=9), row("math", "CI1", level=9)]
    assert reward([*rows]) == [1.0, 0.0, 1.0, None]


def test_a_route_inside_a_combinator_gives_the_rows_branch() -> None:
    reward = R.clip(ROUTED, high=0.9)
    assert reward([row("math"), row("code"), row("poetry")]) == [0.9, 0.9, None]


def test_the_outcome_is_read_through_routes() -> None:
    scores = ROUTED.score([row("math", "IC1"), row("code", "IC1"), row("poetry")])
    np.testing.assert_array_equal(scores.outcome_N, [0.0, 1.0, math.nan])


def test_a_route_without_an_outcome_leaves_the_row_without_one() -> None:
    reward = R.by_column("kind", {"a": check(0), "b": Shape(2)})
    assert np.isnan(reward.score([row("b"), row("a")]).outcome_N).tolist() == [True, False]


def test_group_terms_see_all_siblings_whatever_the_route() -> None:
    sizes = R.from_function(lambda rollouts: [len(rollouts)] * len(rollouts), name="size", batch=True, reads=("group",))
    reward = R.by_column("kind", {"a": sizes, "b": check(0)})
    assert reward([row("a"), row("b"), row("a")]) == [3.0, 1.0, 3.0]


def test_a_routing_column_that_no_rollout_has_is_a_configuration_error() -> None:
    with pytest.raises(MissingInput, match="kind"):
        ROUTED.score([Rollout("CC1")])


def test_a_clash_between_a_route_and_a_term_beside_it_raises() -> None:
    with pytest.raises(ConfigError, match="shape"):
        ROUTED + Shape(2)


def test_a_route_of_no_weight_never_costs_a_row() -> None:
    beside = Shape(2, "beside")
    rows = [row("poetry", "C.2"), row("a", "C.2")]
    assert (0 * R.by_column("kind", {"a": check(0)}) + beside)(rows) == [2.0, 2.0]
    assert (0.5 * R.by_column("kind", {"a": 0 * check(0)}) + beside)(rows) == [None, 2.0]


def test_a_flag_is_no_number() -> None:
    reward = R.by_column("kind", {1: check(0), 0: Shape(2)})
    assert reward([row(1), row(1.0), row(True), row(False), row(0)]) == [1.0, 1.0, None, None, 1.0]


@pytest.mark.parametrize("value", [10**5000, math.nan, {"a": 1}], ids=["huge", "nan", "unhashable"])
def test_a_value_that_cannot_be_shown_or_compared_is_an_unknown_one(value: object) -> None:
    assert ROUTED.score([row(value), row("math")]).verdicts["check0"][0].status is Status.BAD_REFERENCE
