"""The result of scoring a batch: components, totals, outcomes, and the way to advantages.

Suffixes: N rollouts, K components. Nothing here runs a check.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guerdon.rewards.components import flatten
from guerdon.rewards.grading import failed
from guerdon.types import Rollout, Status, Verdict, group_ids

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from guerdon.rewards.advantages import AdvantageSpec
    from guerdon.rewards.evaluate import Batch
    from guerdon.rewards.term import Term

    Floats = npt.NDArray[np.float64]

__all__ = ["ComponentSummary", "Scores", "lost_scores", "make_scores"]


@dataclass(frozen=True)
class ComponentSummary:
    """One component over a batch: mean and population std of the scored rows, status and reason counts, seconds."""

    name: str
    scored: int
    mean: float
    std: float
    statuses: Mapping[str, int]
    reasons: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, eq=False)
class Scores:
    """What a reward gave to N rollouts, in K named components.

    `weights_NK` and `values_NK` (NaN: no score) give `total_N` (NaN where the row is invalid), `valid_N` says which
    rows have a total, `outcome_N` is correctness in 0..1 before shaping (NaN: no outcome), `verdicts[name][row]` says
    why. `groups_N` numbers the groups, `num_tokens_N` is NaN where unknown. `seconds` is wall time by component.
    """

    names: tuple[str, ...]
    weights_NK: Floats
    values_NK: Floats
    verdicts: Mapping[str, list[Verdict]]
    valid_N: npt.NDArray[np.bool_]
    total_N: Floats
    outcome_N: Floats
    outcomes: list[Verdict]
    groups_N: npt.NDArray[np.int64]
    num_tokens_N: Floats
    seconds: Mapping[str, float]

    def __len__(self) -> int:
        return len(self.total_N)

    def totals(self) -> list[float | None]:
        """`total_N` as plain floats, None where the row abstains."""
        return [total if valid else None for total, valid in zip(self.total_N.tolist(), self.valid_N.tolist(), strict=True)]

    def components(self, row: int) -> dict[str, Verdict]:
        """The verdict of every component on one row."""
        return {name: verdicts[row] for name, verdicts in self.verdicts.items()}

    def __repr__(self) -> str:
        means = ", ".join(f"{s.name} {s.mean:.3g}" for s in self.summary())
        return f"Scores(N={len(self)}, valid {int(self.valid_N.sum())}, means: {means})"

    def advantages(self, spec: AdvantageSpec | None = None) -> Floats:
        """Advantages of the batch under `spec` (None: GRPO): invalid rows are outside all statistics and get 0."""
        import numpy as np

        from guerdon.rewards.advantages import GRPO, advantages

        tokens = None if np.isnan(self.num_tokens_N).any() else self.num_tokens_N
        return advantages(self.values_NK, self.groups_N, self.weights_NK, spec or GRPO, valid_N=self.valid_N, num_tokens_N=tokens)

    def summary(self) -> list[ComponentSummary]:
        """One line a component, for tables and metrics."""
        return [_summarise(name, verdicts, self.seconds[name]) for name, verdicts in self.verdicts.items()]


def _summarise(name: str, verdicts: list[Verdict], seconds: float) -> ComponentSummary:
    scored = [v.score for v in verdicts if v.score is not None]
    mean = math.fsum(scored) / len(scored) if scored else math.nan
    std = math.sqrt(math.fsum((s - mean) ** 2 for s in scored) / len(scored)) if scored else math.nan
    statuses = Counter(v.status.value for v in verdicts)
    reasons = Counter(v.reason for v in verdicts if v.reason)
    return ComponentSummary(name, len(scored), mean, std, dict(statuses), dict(reasons), seconds)


def make_scores(reward: Term, batch: Batch) -> Scores:
    """Read the components, totals and outcomes of a batch that has run."""
    import numpy as np

    rollouts = batch.rollouts
    components = flatten(reward)
    weights, verdicts = [], {}
    for component in components:
        row_weights, verdicts[component.name] = component.on_rows(rollouts, batch.value(component.term))
        weights.append(row_weights)
    shape = (len(components), len(rollouts))
    weights_NK = np.array(weights, dtype=float).reshape(shape).T
    values_NK = np.array([[math.nan if v.score is None else v.score for v in vs] for vs in verdicts.values()], dtype=float).reshape(shape).T
    lost_NK = np.array([[v.status.is_abstention for v in vs] for vs in verdicts.values()], dtype=bool).reshape(shape).T
    total_N, valid_N = _totals(weights_NK, values_NK, lost_NK)
    outcome = reward.outcome_term()
    outcomes = [_NO_OUTCOME] * len(rollouts) if outcome is None else [_as_outcome(v) for v in batch.value(outcome)]
    return Scores(
        names=tuple(verdicts),
        weights_NK=weights_NK,
        values_NK=values_NK,
        verdicts=verdicts,
        valid_N=valid_N,
        total_N=total_N,
        outcome_N=np.array([math.nan if v.score is None else v.score for v in outcomes], dtype=float),
        outcomes=outcomes,
        groups_N=np.array(group_ids(rollouts), dtype=np.int64),
        num_tokens_N=np.array([math.nan if r.num_tokens is None else r.num_tokens for r in rollouts], dtype=float),
        seconds={c.name: batch.seconds(c.term) for c in components},
    )


def lost_scores(reward: Term, rollouts: Sequence[Rollout], error: BaseException) -> Scores:
    """The scores of a call that broke as a whole: every component is ERROR on every row, and nothing has a total."""
    import numpy as np

    components, n = flatten(reward), len(rollouts)
    lost = failed(reward.name, error)
    nothing_N = np.full(n, math.nan)
    return Scores(
        names=tuple(c.name for c in components),
        weights_NK=np.tile([1.0 if c.weight is None else c.weight for c in components], (n, 1)),
        values_NK=np.full((n, len(components)), math.nan),
        verdicts={c.name: [lost] * n for c in components},
        valid_N=np.zeros(n, dtype=bool),
        total_N=nothing_N,
        outcome_N=nothing_N.copy(),
        outcomes=[lost] * n,
        groups_N=np.array(group_ids(rollouts), dtype=np.int64),
        num_tokens_N=np.array([math.nan if r.num_tokens is None else r.num_tokens for r in rollouts], dtype=float),
        seconds=dict.fromkeys((c.name for c in components), 0.0),
    )


_NO_OUTCOME = Verdict.of(Status.NOT_APPLICABLE, "not_concerned", "nothing in this reward is backed by a verifier")


def _as_outcome(verdict: Verdict) -> Verdict:
    if verdict.score is None or 0.0 <= verdict.score <= 1.0:
        return verdict
    return Verdict.of(Status.ERROR, "out_of_range", f"an outcome lies within 0..1, got {verdict.score}")


def _totals(weights_NK: Floats, values_NK: Floats, lost_NK: Any) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Totals (NaN: invalid) and validity. The same rule as a nested sum's: see `guerdon.rewards.sums`."""
    import numpy as np

    weighted_NK = weights_NK != 0
    scored_NK = ~np.isnan(values_NK)
    with np.errstate(over="ignore", invalid="ignore"):
        total_N = np.where(scored_NK & weighted_NK, weights_NK * np.nan_to_num(values_NK), 0.0).sum(axis=1)
    applies_N = (scored_NK & weighted_NK).any(axis=1) | (~weighted_NK.any(axis=1) & scored_NK.any(axis=1))
    valid_N = applies_N & ~(lost_NK & weighted_NK).any(axis=1) & np.isfinite(total_N)
    return np.where(valid_N, total_N, np.nan), valid_N
