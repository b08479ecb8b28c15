"""Running totals over the chunks of a file: means, spreads, statuses, time. Memory does not grow with the file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from guerdon.cli.broken import Broken, Place

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from guerdon.rewards.scores import Scores

__all__ = ["TIMED_S", "ComponentTotals", "Moments", "Summary"]

TIMED_S = 2.0
"""Below this many seconds no times and rates are shown: worker processes take up to a second to start, and that says nothing of a file."""


@dataclass(slots=True)
class Moments:
    """Count, mean and population spread of numbers that come in chunks (Chan, Golub and LeVeque, 1983)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, count: int, mean: float, std: float) -> None:
        """Take in a chunk by its count, mean and population std (NaN when empty)."""
        if not count:
            return
        total, delta = self.count + count, mean - self.mean
        self.squares += std * std * count + delta * delta * self.count * count / total
        self.mean += delta * count / total
        self.count = total

    def add_array(self, values: npt.NDArray[np.float64]) -> None:
        """Take in the numbers of an array that are not NaN."""
        found = values[values == values]
        if len(found):
            self.add(len(found), float(found.mean()), float(found.std()))

    @property
    def std(self) -> float:
        return math.sqrt(self.squares / self.count) if self.count else math.nan

    def document(self) -> dict[str, Any]:
        """As JSON: null where there is nothing."""
        return {"count": self.count, "mean": self.mean if self.count else None, "std": self.std if self.count else None}


@dataclass(slots=True)
class ComponentTotals:
    """One component over a file. `slowest` is the longest single verdict, in seconds; 0 where verdicts are not timed."""

    weight: float | None
    moments: Moments = field(default_factory=Moments)
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    broken: Broken = field(default_factory=Broken)
    seconds: float = 0.0
    slowest: float = 0.0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "weight": self.weight,
            **self.moments.document(),
            "statuses": dict(self.statuses),
            "reasons": dict(self.reasons),
            "broken": self.broken.document(),
            "seconds": self.seconds,
            "slowest_s": self.slowest,
        }


@dataclass(slots=True)
class Summary:
    """A file of scores."""

    rollouts: int = 0
    components: dict[str, ComponentTotals] = field(default_factory=dict)
    total: Moments = field(default_factory=Moments)
    outcome: Moments = field(default_factory=Moments)

    def add(self, scores: Scores, place: Callable[[int], Place] | None = None) -> None:
        """Take in the scores of a chunk; `place` tells where in the file its n-th rollout is."""
        self.rollouts += len(scores)
        self.total.add_array(scores.total_N)
        self.outcome.add_array(scores.outcome_N)
        for k, chunk in enumerate(scores.summary()):
            weights_N = scores.weights_NK[:, k]
            weight = float(weights_N[0]) if (weights_N == weights_N[0]).all() else None
            mine = self.components.setdefault(chunk.name, ComponentTotals(weight))
            mine.weight = mine.weight if mine.weight == weight else None
            mine.moments.add(chunk.scored, chunk.mean, chunk.std)
            mine.statuses.update(chunk.statuses)
            mine.reasons.update(chunk.reasons)
            mine.broken.add(scores.verdicts[chunk.name], place)
            mine.seconds += chunk.seconds
            mine.slowest = max(mine.slowest, max(verdict.seconds for verdict in scores.verdicts[chunk.name]))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rollouts": self.rollouts,
            "total": {**self.total.document(), "abstained": self.rollouts - self.total.count},
            "outcome": self.outcome.document(),
            "components": {name: totals.document() for name, totals in self.components.items()},
        }

    def reasons(self, label: str) -> list[str]:
        """For people: the reasons of each component's verdicts, the most frequent first, then what broke, with its first place."""
        from guerdon.cli.tables import shares

        lines = []
        for name, c in self.components.items():
            told = c.reasons - Counter({reason: found.count for (_, reason), found in c.broken.found.items()})
            lines += [f"{name}: {shares(dict(told.most_common(6)))}"] if told else []
            lines += c.broken.lines(name, label)
        return lines

    def why_no_total(self, label: str) -> str:
        """What stood in the way of the totals: what broke, or else the statuses of the components that count."""
        weighted = {name: c for name, c in self.components.items() if c.weight != 0} or self.components
        broken = [line for name, c in weighted.items() for line in c.broken.lines(name, label)]
        statuses = [f"{name}: " + ", ".join(f"{status} {count:,}" for status, count in c.statuses.items()) for name, c in weighted.items()]
        return "; ".join(broken[:3] or statuses)

    def table(self) -> Any:
        """For people. Times are left out where they say nothing."""
        from guerdon.cli.tables import TIE, duration, number, shares, table

        timed = sum(c.seconds for c in self.components.values()) >= TIMED_S
        slowest = timed and any(c.slowest for c in self.components.values())
        headers = ["component", "weight", "mean", "std", "statuses", *["time"] * timed, *["slowest"] * slowest]
        rows = [
            [
                name,
                "varies" if c.weight is None else f"{c.weight:g}",
                number(c.moments.mean if c.moments.count else None),
                number(c.moments.std),
                shares(c.statuses),
                duration(c.seconds),
                duration(c.slowest) if c.slowest else "-",
            ]
            for name, c in self.components.items()
        ]
        lost = self.rollouts - self.total.count
        total = f"{self.total.count:,}{TIE}scored" + (f", {lost:,}{TIE}abstained" if lost else "")
        rows.append(["total", "", number(self.total.mean if self.total.count else None), number(self.total.std), total, "", ""])
        return table(headers, [row[: len(headers)] for row in rows], left=(0, 4))
