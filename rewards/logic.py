"""Combinators over several rewards: gates, Kleene `all_of` and `any_of`, first applicable.

They read scores and statuses and nothing else. A row's abstention is never turned into a 0 here: it passes through,
unless a deciding score makes it irrelevant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from guerdon.errors import ConfigError
from guerdon.rewards.grading import shown
from guerdon.rewards.term import Combinator, Term, finite, require_name, require_term
from guerdon.types import Rollout, Status, Verdict

__all__ = ["AllOf", "AnyOf", "FirstApplicable", "Gate", "all_of", "any_of", "gate", "worst"]

_SEVERITY = {Status.ERROR: 2, Status.BAD_REFERENCE: 1, Status.UNSCORED: 0}


def worst(abstentions: Sequence[Verdict]) -> Verdict:
    """The abstention to report for several: ERROR before BAD_REFERENCE before UNSCORED, the first of equals."""
    return max(abstentions, key=lambda v: _SEVERITY[v.status])


@dataclass(frozen=True)
class Gate(Combinator):
    """See `gate`."""

    reward: Term
    on: Term
    threshold: float
    otherwise: float
    name: str

    def __post_init__(self) -> None:
        require_term(self.reward, "gate(reward)")
        require_term(self.on, "gate(on=)")
        for label, value in (("threshold", self.threshold), ("otherwise", self.otherwise)):
            number = finite(value)
            if number is None:
                raise ConfigError(f"gate: {label} must be a finite number, got {shown(value)}")
            object.__setattr__(self, label, number)  # 1 and 1.0 are one gate, with one fingerprint
        require_name(self.name, "gate")

    @property
    def parts(self) -> tuple[Term, ...]:
        return (self.reward, self.on)

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [self._one(inner, on) for inner, on in zip(*values, strict=True)]

    def _one(self, inner: Verdict, on: Verdict) -> Verdict:
        if on.score is None:
            return inner if on.status is Status.NOT_APPLICABLE else on
        if on.score >= self.threshold:
            return inner
        why = f"{self.on.name} gave {on.score:g}, the gate opens at {self.threshold:g}"
        return Verdict(self.otherwise, Status.SCORED, "gate_closed", why, inner.extracted)

    def outcome_term(self) -> Term | None:
        return self.reward.outcome_term() or self.on.outcome_term()


def gate(reward: Term, *, on: Term, threshold: float = 1.0, otherwise: float = 0.0, name: str | None = None) -> Gate:
    """`reward` where `on` scores at least `threshold`, else `otherwise`.

    Closed: `otherwise`, even if the inner reward abstains. `on` not applicable: the inner reward. `on` abstains: abstains.
    Both are computed on every row. The outcome is the inner reward's: a closed gate does not make a right answer wrong.

    >>> import guerdon.rewards as R
    >>> from guerdon import Rollout
    >>> R.gate(R.exact(), on=R.think_format())([Rollout("4", answer="4"), Rollout("<think>2+2</think>4", answer="4")])
    [0.0, 1.0]
    """
    return Gate(reward, on, threshold, otherwise, name or require_term(reward, "gate").name)


@dataclass(frozen=True)
class _Kleene(Combinator):
    """Several rewards, decided by their least or greatest score."""

    terms: tuple[Term, ...]
    name: str

    def __post_init__(self) -> None:
        if not self.terms:
            raise ConfigError(f"{self.name}: expected at least one reward, got none")
        for term in self.terms:
            require_term(term, self.name)
        require_name(self.name, type(self).__name__)

    @property
    def parts(self) -> tuple[Term, ...]:
        return self.terms

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [self._one([v for v in row if v.status is not Status.NOT_APPLICABLE]) for row in zip(*values, strict=True)]

    def _one(self, row: list[Verdict]) -> Verdict:
        if not row:
            return Verdict.of(Status.NOT_APPLICABLE, "not_concerned")
        scored = [v for v in row if v.score is not None]
        best = self._pick(scored) if scored else None
        if best is not None and (len(scored) == len(row) or self._decides(best)):
            return best
        return worst([v for v in row if v.score is None])

    def _pick(self, scored: list[Verdict]) -> Verdict:
        raise NotImplementedError

    def _decides(self, best: Verdict) -> bool:
        raise NotImplementedError

    def outcome_term(self) -> Term | None:
        found = tuple(o for term in self.terms if (o := term.outcome_term()) is not None)
        return None if not found else found[0] if len(found) == 1 else replace(self, terms=found)


class AllOf(_Kleene):
    """See `all_of`."""

    def _pick(self, scored: list[Verdict]) -> Verdict:
        return min(scored, key=lambda v: v.score or 0.0)

    def _decides(self, best: Verdict) -> bool:
        return (best.score or 0.0) <= 0.0


class AnyOf(_Kleene):
    """See `any_of`."""

    def _pick(self, scored: list[Verdict]) -> Verdict:
        return max(scored, key=lambda v: v.score or 0.0)

    def _decides(self, best: Verdict) -> bool:
        return (best.score or 0.0) >= 1.0


def all_of(*rewards: Term, name: str = "all_of") -> AllOf:
    """The least score (Kleene's strong conjunction): a 0 decides even if others abstain, else an abstention passes through.

    Terms that do not apply to the row are ignored. The outcome combines the terms backed by a verifier the same way.
    """
    return AllOf(tuple(rewards), name)


def any_of(*rewards: Term, name: str = "any_of") -> AnyOf:
    """The greatest score (Kleene's strong disjunction): a 1 decides even if others abstain, else an abstention passes through.

    Terms that do not apply to the row are ignored. The outcome combines the terms backed by a verifier the same way.
    """
    return AnyOf(tuple(rewards), name)


@dataclass(frozen=True)
class FirstApplicable(Combinator):
    """The verdict of the first term that applies to the row. Used for the outcome of sums."""

    terms: tuple[Term, ...]
    name: str = "outcome"

    @property
    def parts(self) -> tuple[Term, ...]:
        return self.terms

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [next((v for v in row if v.status is not Status.NOT_APPLICABLE), row[0]) for row in zip(*values, strict=True)]

    def outcome_term(self) -> Term | None:
        return self
