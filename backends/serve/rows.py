"""What became of one rollout, in the two forms that answers are made of: scored by a worker, or lost on the way.

A lost row is what the front says when no worker could: ERROR in every component, counted as such, never a bare 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.types import Status, Verdict

if TYPE_CHECKING:
    from guerdon.backends.openrlhf.answers import Answers
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.term import Term

__all__ = ["Lost", "Scored", "late_rows", "lost_info", "scored_rows"]


@dataclass(frozen=True, slots=True)
class Scored:
    """One row of a batch of scores."""

    scores: Scores
    index: int
    total: float | None
    logs: Answers

    @property
    def outcome(self) -> float | None:
        return self.scores.outcomes[self.index].score

    def flat(self) -> dict[str, float]:
        return self.logs.row(self.scores, self.index)

    def statuses(self) -> tuple[tuple[str, str], ...]:
        return tuple([(name, found[self.index].status.value) for name, found in self.scores.verdicts.items()])

    def components(self) -> dict[str, dict[str, Any]]:
        scores, index = self.scores, self.index
        weights = scores.weights_NK[index].tolist()
        return {name: _part(found[index], weight) for (name, found), weight in zip(scores.verdicts.items(), weights, strict=True)}


@dataclass(frozen=True, slots=True)
class Lost:
    """A row that nobody scored. `info` is `lost_info` of the reward."""

    info: Mapping[str, Any]
    reason: str
    detail: str

    @property
    def total(self) -> None:
        return None

    @property
    def outcome(self) -> None:
        return None

    def flat(self) -> dict[str, float]:
        return dict(self.info["flat"])

    def statuses(self) -> tuple[tuple[str, str], ...]:
        return tuple([(name, Status.ERROR.value) for name in self.info["components"]])

    def components(self) -> dict[str, dict[str, Any]]:
        verdict = Verdict.of(Status.ERROR, self.reason, self.detail)
        return {name: _part(verdict, weight) for name, weight in self.info["components"].items()}


def _part(verdict: Verdict, weight: float) -> dict[str, Any]:
    return {
        "score": verdict.score,
        "weight": weight,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "detail": verdict.detail,
        "extracted": verdict.extracted,
        "seconds": verdict.seconds,
    }


def scored_rows(scores: Scores, logs: Answers) -> list[Scored]:
    """The rows of a batch, in order."""
    return [Scored(scores, index, total, logs) for index, total in enumerate(scores.totals())]


def lost_info(reward: Term, keys: Sequence[str]) -> dict[str, Any]:
    """What `Lost` needs to know of a reward: weights by component (1 for those that depend on the row), and the flat row of an ERROR."""
    from guerdon.backends.door import flat_row
    from guerdon.rewards.components import flatten
    from guerdon.rewards.scores import lost_scores
    from guerdon.types import Rollout

    weights = {c.name: 1.0 if c.weight is None else c.weight for c in flatten(reward)}
    flat = flat_row(lost_scores(reward, [Rollout("")], RuntimeError("lost")), 0)
    return {"components": weights, "flat": dict.fromkeys(keys, 0.0) | flat}


def late_rows(scores: Scores) -> set[int]:
    """The rows in which some check was cut by the deadline."""
    columns: Sequence[list[Verdict]] = [*scores.verdicts.values(), scores.outcomes]
    return {i for column in columns for i, v in enumerate(column) if v.status is Status.ERROR and v.reason == "deadline"}
