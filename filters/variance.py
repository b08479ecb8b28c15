"""Zero variance: drop the groups that teach nothing because all their rollouts got the same.

DAPO's dynamic sampling (arXiv 2503.14476, section 3.2) drops groups whose accuracy is 0 or 1 throughout. On the outcome
this is that rule for any outcome; on the components it asks what a group-normalised trainer can still learn from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from guerdon.errors import ConfigError
from guerdon.filters.decision import Decision

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

__all__ = ["GroupScores", "ZeroVariance"]


class GroupScores(Protocol):
    """The part of `guerdon.Scores` read here, for the rollouts of one group. NaN: no outcome, no score."""

    @property
    def outcome_N(self) -> Floats: ...
    @property
    def values_NK(self) -> Floats: ...
    @property
    def weights_NK(self) -> Floats: ...
    @property
    def valid_N(self) -> npt.NDArray[np.bool_]: ...


@dataclass(frozen=True, slots=True)
class ZeroVariance:
    """Keep a group iff its outcomes differ (`on="outcome"`), or iff any component differs (`on="components"`).

    Components are compared over the valid rows in which they apply with a weight other than 0; two rows that a
    component scores and skips do not differ. Fewer than `min_total` rows with an outcome (or valid rows) is UNSCORABLE.
    Values that differ by rounding alone (1e-12 of their size) count as equal.

    >>> import guerdon.rewards as R
    >>> from guerdon import Rollout
    >>> scores = R.exact().score([Rollout(text, answer="4") for text in ("4", "5", "4")])
    >>> str(ZeroVariance().decide(scores))
    'keep'
    """

    on: Literal["outcome", "components"] = "outcome"
    min_total: int = 2

    def __post_init__(self) -> None:
        if self.on not in ("outcome", "components"):
            raise ConfigError(f"ZeroVariance: on expects 'outcome' or 'components', got {self.on!r}")
        if isinstance(self.min_total, bool) or not isinstance(self.min_total, int) or self.min_total < 2:
            raise ConfigError(f"ZeroVariance: min_total expects a count of at least 2, got {self.min_total!r}")

    def decide(self, scores: GroupScores) -> Decision:
        """What becomes of the group. `scores` holds the rollouts of one group and no others."""
        import numpy as np

        if self.on == "outcome":
            columns = [scores.outcome_N[~np.isnan(scores.outcome_N)]]
            total = len(columns[0])
        else:
            counts_NK = scores.valid_N[:, None] & (scores.weights_NK != 0) & ~np.isnan(scores.values_NK)
            columns = [values_N[counts_N] for values_N, counts_N in zip(scores.values_NK.T, counts_NK.T, strict=True)]
            total = int(scores.valid_N.sum())
        if total < self.min_total:
            return Decision.UNSCORABLE
        return Decision.KEEP if any(_varies(column) for column in columns) else Decision.ZERO_VARIANCE


def _varies(values: Any) -> bool:
    return len(values) > 1 and float(values.max() - values.min()) > 1e-12 * float(abs(values).max())
