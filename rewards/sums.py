"""Weighted sums: `0.8 * math_equal() + 0.2 * think_format()`.

A `WeightedSum` keeps its named terms: sums flatten, weights multiply, a name clash raises. A negative weight is legal
(a penalty). Its total is the weighted sum of the terms that apply to a row; docs/concepts.md says how abstentions enter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError
from guerdon.rewards.components import flatten
from guerdon.rewards.grading import shown
from guerdon.rewards.logic import FirstApplicable, worst
from guerdon.rewards.term import Combinator, Term, finite
from guerdon.types import Rollout, Status, Verdict

__all__ = ["WeightedSum", "add", "with_outcome"]


@dataclass(frozen=True, repr=False)
class WeightedSum(Combinator):
    """The sum of `weight * term` over `terms`, kept apart by name. `outcome` names the term whose score is the outcome.

    >>> import guerdon.rewards as R
    >>> reward = 0.8 * R.exact() + 0.2 * R.think_format()
    >>> [(weight, term.name) for weight, term in reward.terms]
    [(0.8, 'exact'), (0.2, 'think_format')]
    """

    terms: tuple[tuple[float, Term], ...]
    name: str = "total"
    outcome: str | None = None

    def __post_init__(self) -> None:
        if not self.terms:
            raise ConfigError("WeightedSum: expected at least one (weight, term), got none")
        for weight, term in self.terms:
            check_weight(weight)
            if not isinstance(term, Term):
                raise ConfigError(f"WeightedSum: expected (weight, reward) pairs, got {term!r:.80}")
        flatten(self)
        if self.outcome is not None:
            find(self, self.outcome)

    def __repr__(self) -> str:
        return " + ".join(f"{weight:g} * {term!r}" for weight, term in self.terms)

    @property
    def parts(self) -> tuple[Term, ...]:
        return tuple(term for _, term in self.terms)

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        weights = [weight for weight, _ in self.terms]
        return [_total(weights, row) for row in zip(*values, strict=True)]

    def outcome_term(self) -> Term | None:
        if self.outcome is not None:
            return find(self, self.outcome)
        found = tuple(o for part in self.parts if (o := part.outcome_term()) is not None)
        return None if not found else found[0] if len(found) == 1 else FirstApplicable(found)


def _total(weights: Sequence[float], row: Sequence[Verdict]) -> Verdict:
    """The total of one row as a verdict: abstains if a weighted term does, not applicable if no weighted term applies."""
    total, applies, lost = 0.0, False, []
    for weight, verdict in zip(weights, row, strict=True):
        if verdict.score is not None:
            total += weight * verdict.score
            applies = applies or weight != 0
        elif weight != 0 and verdict.status.is_abstention:
            lost.append(verdict)
    if lost:
        return worst(lost)
    if not applies and (any(weights) or all(v.score is None for v in row)):
        return Verdict.of(Status.NOT_APPLICABLE, "not_concerned")
    return Verdict(total, Status.SCORED)


def check_weight(weight: Any) -> None:
    """ConfigError unless `weight` is a finite number."""
    if finite(weight) is None:
        raise ConfigError(f"weight: expected a finite number, got {shown(weight)}")


def weighted(weight: Any, term: Term) -> WeightedSum:
    """`weight * term`."""
    if hasattr(weight, "__float__") and hasattr(weight, "dtype") and getattr(weight, "shape", None) == ():
        weight = float(weight)  # numpy and torch scalars
    if isinstance(weight, Term):
        raise TypeError("cannot multiply two rewards: use R.gate(a, on=b) or R.all_of(a, b)")
    check_weight(weight)
    if isinstance(term, WeightedSum):
        return WeightedSum(tuple((weight * w, t) for w, t in term.terms), term.name, term.outcome)
    return WeightedSum(((float(weight), term),))


def add(left: Term, right: Any) -> WeightedSum:
    """`left + right`."""
    if not isinstance(right, Term):
        if hasattr(right, "verdicts") or callable(right):
            raise TypeError(f"cannot add {type(right).__name__} to a reward: lift it with R.from_function(...)")
        raise TypeError(f"cannot add {right!r} to a reward: expected a reward, e.g. 0.2 * think_format()")
    sums = [t if isinstance(t, WeightedSum) else weighted(1.0, t) for t in (left, right)]
    outcomes = {s.outcome for s in sums if s.outcome is not None}
    if len(outcomes) > 1:
        raise ConfigError(f"the two sums name different outcomes ({', '.join(sorted(outcomes))}): call with_outcome on the whole")
    names = {s.name for s in sums} - {"total"}
    name = names.pop() if len(names) == 1 else "total"
    return WeightedSum(tuple(pair for s in sums for pair in s.terms), name, outcomes.pop() if outcomes else None)


def with_outcome(term: Term, name: str) -> WeightedSum:
    """`term.with_outcome(name)`."""
    base = term if isinstance(term, WeightedSum) else weighted(1.0, term)
    return WeightedSum(base.terms, base.name, name)


def walk(term: Term) -> Iterator[Term]:
    """The term and everything below it, in order."""
    yield term
    for part in term.parts:
        yield from walk(part)


def find(reward: Term, name: str) -> Term:
    """The term called `name`: a component, else any term in the tree. ConfigError if there is none, or two differ."""
    components = [c.term for c in flatten(reward) if c.name == name]
    found = components or [t for t in walk(reward) if t is not reward and t.name == name]
    if not found:
        names = dict.fromkeys([c.name for c in flatten(reward)] + [t.name for t in walk(reward) if t is not reward])
        raise ConfigError(f"no term is called {name!r}; the terms are {', '.join(names)}")
    if any(other != found[0] for other in found):
        raise ConfigError(f"{name!r} names {len(found)} different terms: give them names of their own, with name=")
    return found[0]
