"""Routes: another reward for each value of a data column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guerdon.errors import ConfigError
from guerdon.rewards.components import OFF_ROUTE, flatten
from guerdon.rewards.grading import shown
from guerdon.rewards.term import Combinator, Term, require_name, require_term
from guerdon.types import Rollout, Status, Verdict

__all__ = ["ByColumn", "by_column"]


@dataclass(frozen=True)
class ByColumn(Combinator):
    """See `by_column`. `values[k]` names the rows of `terms[k]`; a last term without a value takes the others."""

    column: str
    values: tuple[Any, ...]
    terms: tuple[Term, ...]
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ConfigError(f"by_column: column must be the name of a data column, got {self.column!r:.60}")
        if not self.values:
            raise ConfigError("by_column: expected at least one route, got none")
        for term in self.terms:
            require_term(term, f"by_column({self.column!r})")
        require_name(self.name, "by_column")
        flatten(self)

    @property
    def parts(self) -> tuple[Term, ...]:
        return self.terms

    @property
    def own_reads(self) -> frozenset[str]:
        return frozenset({self.column})

    def labelled(self) -> list[tuple[str, Term]]:
        """Each branch with the label its terms carry when a name clashes."""
        labels = [str(value) for value in self.values] + ["default"] * (len(self.terms) - len(self.values))
        return list(zip(labels, self.terms, strict=True))

    def branches(self, rollouts: Sequence[Rollout]) -> list[int | None]:
        """The branch each row takes; None where no route names its value."""
        known = {value: k for k, value in enumerate(self.values)}
        other = len(self.values) if len(self.terms) > len(self.values) else None
        kinds = [type(value) is bool for value in self.values]
        found = [(value, _lookup(known, value)) for value in (rollout.column(self.column) for rollout in rollouts)]
        # True == 1 in Python, but a flag is no number
        return [other if k is None or kinds[k] != (type(value) is bool) else k for value, k in found]

    def unknown(self, rollout: Rollout) -> Verdict:
        """The verdict of a row that no route names."""
        value = rollout.column(self.column)
        return Verdict.of(
            Status.BAD_REFERENCE,
            "unknown_route",
            f"column {self.column!r} holds {shown(value, 60)}; the routes are {list(self.values)!r:.200}",
        )

    def routes(self, rollouts: Sequence[Rollout], rows: Sequence[int]) -> list[Sequence[int]]:
        taken = self.branches(rollouts)
        return [[i for i in rows if taken[i] == k] for k in range(len(self.terms))]

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        taken = self.branches(rollouts)
        return [self.unknown(r) if k is None else values[k][i] for i, (r, k) in enumerate(zip(rollouts, taken, strict=True))]

    def outcome_term(self) -> Term | None:
        found = [term.outcome_term() for term in self.terms]
        if not any(found):
            return None
        return replace(self, terms=tuple(Nothing() if term is None else term for term in found))


@dataclass(frozen=True)
class Nothing(Combinator):
    """Applies to no row. Stands for the outcome of a route that has none."""

    name: str = "nothing"

    def combine(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[Verdict]]) -> list[Verdict]:
        return [OFF_ROUTE] * len(rollouts)


def _lookup(known: Mapping[Any, int], value: Any) -> int | None:
    try:
        return known.get(value)
    except TypeError:  # unhashable: no route can name it
        return None


def by_column(column: str, routes: Mapping[Any, Term], *, default: Term | None = None, name: str | None = None) -> ByColumn:
    """Another reward for each value of `column`, e.g. `by_column("data_source", {"gsm8k": math, "mbpp": code})`.

    The components are the union of the branches' terms with weights per row: equal terms merge, unequal terms of one
    name become `value/name`, terms off a row's route are NOT_APPLICABLE there and not computed. A value that no route
    names makes the row BAD_REFERENCE, unless `default=` takes it.

    >>> import guerdon.rewards as R
    >>> from guerdon import Rollout
    >>> reward = R.by_column("kind", {"a": 1.0 * R.exact(), "b": 0.5 * R.exact()})
    >>> reward([Rollout("x", answer="x", columns={"kind": k}) for k in "abc"])
    [1.0, 0.5, None]
    """
    if not isinstance(routes, Mapping):
        raise ConfigError(f"by_column: expected a mapping from values of {column!r} to rewards, got {type(routes).__name__}")
    terms = (*routes.values(), *(() if default is None else (default,)))
    return ByColumn(column, tuple(routes), terms, name or f"by_{column}")
