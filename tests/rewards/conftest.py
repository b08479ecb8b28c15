"""Terms whose verdicts the tests choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

import guerdon.rewards as R
from guerdon import Rollout, Status, Verdict
from guerdon.rewards.health import forget

CODES = {
    "C": Verdict.of(Status.CORRECT),
    "I": Verdict.of(Status.INCORRECT),
    "N": Verdict.of(Status.NO_ANSWER, "no_box"),
    "P": Verdict.graded(0.5),
    "-": Verdict.of(Status.NOT_APPLICABLE),
    "U": Verdict.of(Status.UNSCORED),
    "B": Verdict.of(Status.BAD_REFERENCE),
    "E": Verdict.of(Status.ERROR, "lost_worker"),
    "1": Verdict(1.0, Status.SCORED),
    "0": Verdict(0.0, Status.SCORED),
    "h": Verdict(0.5, Status.SCORED),
    "n": Verdict(-1.0, Status.SCORED),
    "2": Verdict(2.0, Status.SCORED),
}


@dataclass(frozen=True)
class Coded:
    """A verifier that reads its verdict from the completion: one code a letter, at `at`."""

    at: int = 0
    reads: frozenset[str] = frozenset()

    def judge(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [CODES[r.completion[self.at]] for r in rollouts]


def check(at: int, name: str = "") -> R.Term:
    """A verifier-backed leaf whose verdict is letter `at` of the completion."""
    return R.verified(Coded(at), name=name or f"check{at}")


@dataclass(frozen=True)
class Shape(R.Leaf):
    """A shaping leaf whose verdict is letter `at` of the completion."""

    at: int
    name: str = "shape"

    def verdicts(self, rollouts: Sequence[Rollout]) -> list[Verdict]:
        return [CODES[r.completion[self.at]] for r in rollouts]


@pytest.fixture(autouse=True)
def _no_memory_of_other_tests() -> None:
    forget()
