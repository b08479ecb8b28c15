"""Combinators over one reward: clip, statuses to rewards, scale by a column, abstain on truncation, optional.

Each keeps the inner verdict where it changes nothing, so that statuses and reasons survive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from guerdon.errors import ConfigError
from guerdon.rewards.grading import shown
from guerdon.rewards.term import Combinator, Term, finite, require_name, require_term
from guerdon.types import Rollout, Status, Verdict

__all__ = [
    "AbstainIfTruncated",
    "ByStatus",
    "Clip",
    "Optional",
    "ScaleByColumn",
    "abstain_if_truncated",
    "by_status",
    "clip",
    "optional",
    "scale_by_column",
]


@dataclass(frozen=True)
class _Adjusted(Combinator):
    """One reward, each of whose verdicts may be changed."""

    reward: Term
    name: str

    def __post_init__(self) -> None:
        require_term(self.reward, type(self).__name__)
        require_name(self.name, type(self).__name__)

    @property
    def parts(self) -> tuple[Term, ...]:
        return (self.reward,)

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [self._one(rollout, verdict) for rollout, verdict in zip(rollouts, values[0], strict=True)]

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        raise NotImplementedError

    def outcome_term(self) -> Term | None:
        return self.reward.outcome_term()


@dataclass(frozen=True)
class Clip(_Adjusted):
    """See `clip`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for label, value in (("low", self.low), ("high", self.high)):
            number = value if value in (-math.inf, math.inf) else finite(value)
            if number is None:
                raise ConfigError(f"clip: {label} must be a number, got {shown(value)}")
            object.__setattr__(self, label, float(number))  # 1 and 1.0 are one clip, with one fingerprint
        if self.low > self.high:
            raise ConfigError(f"clip: expected low <= high, got low={self.low}, high={self.high}")

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        if verdict.score is None or self.low <= verdict.score <= self.high:
            return verdict
        return replace(verdict, score=min(max(verdict.score, self.low), self.high), status=Status.SCORED)


def clip(reward: Term, low: float = -math.inf, high: float = math.inf, *, name: str | None = None) -> Clip:
    """`reward` limited to `low..high`. The outcome is the inner reward's, unclipped.

    >>> import guerdon.rewards as R
    >>> from guerdon import Rollout
    >>> R.clip(R.exact(), high=0.5)([Rollout("4", answer="4"), Rollout("5", answer="4")])
    [0.5, 0.0]
    """
    return Clip(reward, name or require_term(reward, "clip").name, low, high)


@dataclass(frozen=True)
class ByStatus(_Adjusted):
    """See `by_status`."""

    rewards: tuple[tuple[Status, float | None], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for status, value in self.rewards:
            if status.is_broken:
                raise ConfigError(
                    f"by_status: {status} means a broken check, not a bad completion; use OnAbstain at the trainer to fill it"
                )
            if value is not None and not math.isfinite(value):
                raise ConfigError(f"by_status: expected a finite reward for {status}, got {value!r}")

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        for status, value in self.rewards:
            if verdict.status is status:
                return replace(verdict, score=value, status=Status.UNSCORED if value is None else Status.SCORED)
        return verdict


def by_status(reward: Term, rewards: Mapping[Status | str, float | None], *, name: str | None = None) -> ByStatus:
    """Statuses to rewards: `{Status.CORRECT: 1, Status.INCORRECT: -1, Status.NO_ANSWER: -2}`.

    A status that is not named keeps its verdict; None abstains (UNSCORED). ERROR and BAD_REFERENCE cannot be given a
    reward here. The outcome is the inner reward's.

    >>> import guerdon.rewards as R
    >>> from guerdon import Rollout
    >>> R.by_status(R.exact(), {"correct": 1, "incorrect": -1})([Rollout("4", answer="4"), Rollout("5", answer="4")])
    [1.0, -1.0]
    """
    try:
        pairs = tuple((Status(status), None if value is None else float(value)) for status, value in rewards.items())
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"by_status: {error}; the statuses are {', '.join(Status)}") from None
    return ByStatus(reward, name or require_term(reward, "by_status").name, pairs)


@dataclass(frozen=True)
class ScaleByColumn(_Adjusted):
    """See `scale_by_column`."""

    column: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"scale_by_column: column must be the name of a data column, got {self.column!r:.60}")

    @property
    def own_reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        if verdict.score is None:
            return verdict
        factor = rollout.column(self.column)
        number = finite(factor)
        if number is None:
            return Verdict.of(
                Status.BAD_REFERENCE, "bad_column", f"column {self.column!r}: expected a finite number, got {shown(factor, 60)}"
            )
        return replace(verdict, score=verdict.score * number, status=Status.SCORED)


def scale_by_column(reward: Term, column: str, *, name: str | None = None) -> ScaleByColumn:
    """`reward` times the number in `column`. A row whose column is not a finite number is BAD_REFERENCE. Outcome: the inner reward's."""
    return ScaleByColumn(reward, name or require_term(reward, "scale_by_column").name, column)


@dataclass(frozen=True)
class AbstainIfTruncated(_Adjusted):
    """See `abstain_if_truncated`."""

    @property
    def own_reads(self) -> frozenset[str]:
        return frozenset({"truncated"})

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        if rollout.truncated and verdict.status is not Status.NOT_APPLICABLE:
            return Verdict.of(Status.UNSCORED, "truncated", "the length limit cut the completion")
        return verdict

    def outcome_term(self) -> Term | None:
        inner = self.reward.outcome_term()
        return None if inner is None else replace(self, reward=inner)


def abstain_if_truncated(reward: Term, *, name: str | None = None) -> AbstainIfTruncated:
    """`reward`, but a rollout that the length limit cut abstains (DAPO's overlong filtering, arXiv 2503.14476 section 3.4).

    Its row leaves the training signal and has no outcome.
    """
    return AbstainIfTruncated(reward, name or require_term(reward, "abstain_if_truncated").name)


@dataclass(frozen=True)
class Optional(_Adjusted):
    """See `optional`."""

    def _one(self, rollout: Rollout, verdict: Verdict) -> Verdict:
        if not verdict.status.is_abstention:
            return verdict
        return replace(verdict, status=Status.NOT_APPLICABLE, info={**verdict.info, "was": verdict.status.value})


def optional(reward: Term, *, name: str | None = None) -> Optional:
    """`reward`, but where it abstains only this term is left out of the row, not the row out of the batch.

    The verdict becomes NOT_APPLICABLE and keeps its reason; `info["was"]` holds the abstention's status.
    """
    return Optional(reward, name or require_term(reward, "optional").name)
