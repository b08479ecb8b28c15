"""Gates, Kleene logic, clip, statuses, columns: each semantics, by table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status
from guerdon.errors import ConfigError, MissingInput

from .conftest import CODES, Shape, check

A, B = check(0), Shape(1)


def one(reward: R.Term, codes: str, **fields: object) -> tuple[float | None, Status]:
    verdict = reward.verdicts([Rollout(codes, **fields)])[0]  # type: ignore[arg-type]
    return verdict.score, verdict.status


@pytest.mark.parametrize(
    ("codes", "score"),
    [
        ("C1", 1.0), ("I1", 0.0), ("P1", 0.5), ("C0", -2.0), ("I0", -2.0), ("Ch", -2.0),  # open, closed
        ("E0", -2.0), ("U0", -2.0), ("B0", -2.0),                                        # closed: even if the inner abstains
        ("C-", 1.0), ("I-", 0.0),                                                        # on not applicable: the inner reward
        ("CE", None), ("CU", None), ("CB", None), ("IE", None),                          # on abstains: abstains
        ("E1", None), ("E-", None), ("-1", None), ("-0", -2.0),
    ],
)  # fmt: skip
def test_gate(codes: str, score: float | None) -> None:
    assert one(R.gate(A, on=B, otherwise=-2.0), codes)[0] == score


def test_a_gate_opens_at_its_threshold() -> None:
    assert one(R.gate(A, on=B, threshold=0.5), "Ch")[0] == 1.0


def test_a_closed_gate_says_so() -> None:
    verdict = R.gate(A, on=B).verdicts([Rollout("C0")])[0]
    assert (verdict.status, verdict.reason) == (Status.SCORED, "gate_closed")


KLEENE = [  # codes, all_of, any_of
    ("C1", 1.0, 1.0), ("CI", 0.0, 1.0), ("II", 0.0, 0.0), ("Ch", 0.5, 1.0), ("hh", 0.5, 0.5),
    ("CE", None, 1.0), ("IE", 0.0, None), ("hE", None, None), ("EU", None, None),
    ("C-", 1.0, 1.0), ("I-", 0.0, 0.0), ("--", None, None), ("E-", None, None), ("nE", -1.0, None), ("2E", None, 2.0),
]  # fmt: skip


@pytest.mark.parametrize(("codes", "all_of", "any_of"), KLEENE)
def test_kleene_logic_is_symmetric(codes: str, all_of: float | None, any_of: float | None) -> None:
    for order in (codes, codes[::-1]):
        assert one(R.all_of(Shape(0, "a"), Shape(1, "b")), order)[0] == all_of
        assert one(R.any_of(Shape(0, "a"), Shape(1, "b")), order)[0] == any_of


@pytest.mark.parametrize(
    ("codes", "status"), [("EB", Status.ERROR), ("BU", Status.BAD_REFERENCE), ("UE", Status.ERROR), ("--", Status.NOT_APPLICABLE)]
)
def test_several_abstentions_report_the_worst(codes: str, status: Status) -> None:
    assert one(R.all_of(Shape(0, "a"), Shape(1, "b")), codes) == (None, status)
    assert one(Shape(0, "a") + Shape(1, "b"), codes) == (None, status)


def test_clip_limits_scores_and_keeps_the_rest() -> None:
    clipped = R.clip(A, low=-0.5, high=0.75)
    assert [one(clipped, c) for c in "CPE"] == [(0.75, Status.SCORED), (0.5, Status.PARTIAL), (None, Status.ERROR)]


def test_by_status_maps_named_statuses_and_keeps_the_others() -> None:
    mapped = R.by_status(A, {Status.CORRECT: 1, "incorrect": -1, "no_answer": None})
    assert [one(mapped, c)[0] for c in "CINPE"] == [1.0, -1.0, None, 0.5, None]
    assert one(mapped, "N")[1] is Status.UNSCORED


@pytest.mark.parametrize("rewards", [{"error": 0}, {"bad_reference": 0}, {"nonsense": 1}, {"correct": math.inf}])
def test_by_status_refuses_to_turn_a_broken_check_into_a_reward(rewards: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        R.by_status(A, rewards)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "score"), [(2, 2.0), (0.5, 0.5), (None, None), ("2", None), (True, None), (math.nan, None)])
def test_scale_by_column_multiplies_or_blames_the_reference(value: object, score: float | None) -> None:
    scaled = R.scale_by_column(A, "difficulty")
    rows = [Rollout("C", columns={"difficulty": value}), Rollout("C", columns={"difficulty": 1})]
    verdict = scaled.verdicts(rows)[0]
    assert verdict.score == score
    assert score is not None or verdict.status is Status.BAD_REFERENCE


def test_a_truncated_rollout_abstains_and_has_no_outcome() -> None:
    scores = R.abstain_if_truncated(A).score([Rollout("C", truncated=True), Rollout("C", truncated=False)])
    assert scores.totals() == [None, 1.0]
    assert math.isnan(scores.outcome_N[0])


def test_a_column_that_no_rollout_has_is_a_configuration_error() -> None:
    with pytest.raises(MissingInput, match="difficulty"):
        R.scale_by_column(A, "difficulty").score([Rollout("C")])
    with pytest.raises(MissingInput, match="truncated"):
        R.abstain_if_truncated(A).score([Rollout("C")])


@pytest.mark.parametrize(
    "build",
    [
        lambda: R.gate(A, on=len),
        lambda: R.gate(A, on=B, threshold=math.nan),
        lambda: R.clip(A, 1, 0),
        lambda: R.all_of(),
        lambda: R.any_of(A, 3),
        lambda: R.optional(3),
        lambda: R.by_column("k", {}),
        lambda: R.by_column("k", [A]),
        lambda: R.clip(A, name="two words"),
    ],
)
def test_arguments_are_checked_when_built(build: object) -> None:
    with pytest.raises(ConfigError):
        build()  # type: ignore[operator]


def test_codes_cover_every_status() -> None:
    assert {v.status for v in CODES.values()} >= set(Status) - {Status.UNPARSEABLE, Status.TIMEOUT}


@pytest.mark.parametrize(
    "factor", [10**400, 10**5000, True, "2", None, math.nan], ids=["huge", "unprintable", "flag", "text", "none", "nan"]
)
def test_a_factor_that_is_no_finite_number_is_a_bad_reference(factor: object) -> None:
    rows = [Rollout("C", columns={"w": factor}), Rollout("C", columns={"w": np.float32(2)})]
    assert R.scale_by_column(check(0), "w")(rows) == [None, 2.0]


@pytest.mark.parametrize("number", [10**400, "1", None, math.nan], ids=["huge", "text", "none", "nan"])
def test_numbers_are_checked_when_built(number: Any) -> None:
    for build in (
        lambda: R.gate(check(0), on=check(1), threshold=number),
        lambda: R.gate(check(0), on=check(1), otherwise=number),
        lambda: R.clip(check(0), low=number),
        lambda: R.by_status(check(0), {"correct": [number]}),  # type: ignore[dict-item]
        lambda: number * check(0),
    ):
        with pytest.raises((ConfigError, TypeError), match=r"expected|number|statuses"):
            build()


def test_equal_numbers_make_equal_terms_with_one_fingerprint() -> None:
    for one, other in [
        (R.gate(check(0), on=check(1), threshold=1), R.gate(check(0), on=check(1), threshold=1.0)),
        (R.clip(check(0), 0, 1), R.clip(check(0), 0.0, 1.0)),
    ]:
        assert one == other
        assert one.fingerprint == other.fingerprint
