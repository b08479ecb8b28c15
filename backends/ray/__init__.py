"""Rewards in Ray pipelines: `score_dataset` puts a scoring stage on a Ray Data set, `RewardActor` is the stage itself.

Nothing here samples, filters or trains, and nothing imports Ray before it is used: `pip install 'guerdon[ray]'`.
"""

from __future__ import annotations

from guerdon.backends.ray.actor import RewardActor
from guerdon.backends.ray.dataset import score_dataset

__all__ = ["RewardActor", "score_dataset"]
