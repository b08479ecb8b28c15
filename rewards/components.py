"""A reward flattened to its named components, with the weight each has on each row.

Sums and routes dissolve; everything else is one component. Pure structure: nothing here computes a verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guerdon.errors import ConfigError
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.rewards.route import ByColumn
    from guerdon.rewards.term import Term

__all__ = ["OFF_ROUTE", "Component", "flatten"]

OFF_ROUTE = Verdict.of(Status.NOT_APPLICABLE, "off_route")


Step = tuple["ByColumn", int, float]


@dataclass(frozen=True)
class Component:
    """One named part of a reward. `shares` holds, for each place it has in the reward, the route to it and its weight.

    A route is a tuple of steps (column router, branch number, weight of the router): all must hold on a row for the share to
    count there. A row that a router does not know is lost with the router's weight.
    """

    name: str
    term: Term
    shares: tuple[tuple[tuple[Step, ...], float], ...]

    @property
    def weight(self) -> float | None:
        """The weight, if it is the same on every row; None for a routed component."""
        return self.shares[0][1] if len(self.shares) == 1 and not self.shares[0][0] else None

    def times(self, weight: float) -> Component:
        """The same component with every weight multiplied."""
        shares = [(tuple((r, branch, weight * w) for r, branch, w in route), weight * share) for route, share in self.shares]
        return replace(self, shares=tuple(shares))

    def under(self, router: ByColumn, branch: int) -> Component:
        """The same component, reached only through `branch` of `router`."""
        return replace(self, shares=tuple((((router, branch, 1.0), *route), share) for route, share in self.shares))

    def on_rows(self, rollouts: Sequence[Rollout], verdicts: Sequence[Verdict]) -> tuple[list[float], list[Verdict]]:
        """Weight and verdict on each row: OFF_ROUTE where no share leads there, the router's verdict where it is lost."""
        if self.weight is not None:
            return [self.weight] * len(rollouts), list(verdicts)
        weights, out = [0.0] * len(rollouts), [OFF_ROUTE] * len(rollouts)
        for route, weight in self.shares:
            branches = [(router.branches(rollouts), branch) for router, branch, _ in route]
            for i in range(len(rollouts)):
                at = next((k for k, (taken, branch) in enumerate(branches) if taken[i] != branch), None)
                if at is None:
                    weights[i], out[i] = weights[i] + weight, verdicts[i]
                elif branches[at][0][i] is None:
                    weights[i], out[i] = route[at][2], route[at][0].unknown(rollouts[i])
        return weights, out


def flatten(term: Term) -> tuple[Component, ...]:
    """The components of a reward, in order. Raises ConfigError when two of them share a name."""
    from guerdon.rewards.route import ByColumn
    from guerdon.rewards.sums import WeightedSum

    if isinstance(term, WeightedSum):
        found = [c.times(weight) for weight, part in term.terms for c in flatten(part)]
    elif isinstance(term, ByColumn):
        found = _merge_branches(term)
    else:
        return (Component(term.name, term, (((), 1.0),)),)
    names = [c.name for c in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two terms share the name {name!r}: give one of them another, with name=")
    return tuple(found)


def _merge_branches(router: ByColumn) -> list[Component]:
    """Equal terms of one name merge; unequal terms of one name become `value/name`."""
    merged: list[Component] = []
    labels: list[str] = []
    for branch, (label, part) in enumerate(router.labelled()):
        for component in flatten(part):
            routed = component.under(router, branch)
            for k, known in enumerate(merged):
                if (known.name, known.term) == (routed.name, routed.term):
                    merged[k] = replace(known, shares=known.shares + routed.shares)
                    break
            else:
                merged.append(routed)
                labels.append(label)
    names = [c.name for c in merged]
    return [replace(c, name=f"{label}/{c.name}") if names.count(c.name) > 1 else c for c, label in zip(merged, labels, strict=True)]
