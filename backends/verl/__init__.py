"""guerdon inside verl 0.9: the reward function, the reward manager and advantage estimators, all named in verl's own configuration.

Importing this loads neither verl nor torch. See the page on verl for a complete example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guerdon.backends.verl.estimators import ESTIMATORS, Estimator, gdpo_overrides, register
from guerdon.backends.verl.score import ABSTAINED, ComputeScore, acompute_score, acompute_score_from, compute_score, compute_score_from

if TYPE_CHECKING:
    from guerdon.backends.verl.manager import GuerdonRewardManager

__all__ = [
    "ABSTAINED",
    "ESTIMATORS",
    "ComputeScore",
    "Estimator",
    "GuerdonRewardManager",
    "acompute_score",
    "acompute_score_from",
    "compute_score",
    "compute_score_from",
    "gdpo_overrides",
    "register",
]


def __getattr__(name: str) -> Any:
    if name == "GuerdonRewardManager":  # its base class is verl's
        from guerdon.backends.verl.manager import GuerdonRewardManager

        return GuerdonRewardManager
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
