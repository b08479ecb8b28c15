"""What bench_serve.py serves."""

from __future__ import annotations

import time

import guerdon.rewards as R
from guerdon import Rollout

STUCK = "never ends"


def _stuck(rollout: Rollout) -> float:
    """As a user's function may be: it hangs for some rows."""
    while STUCK in rollout.completion:
        pass
    return 0.0


def _slow(rollouts: list[Rollout]) -> list[float]:
    time.sleep(1)
    return [0.0] * len(rollouts)


reward = R.math_equal()
with_stuck = reward + 0.1 * R.from_function(_stuck, name="stuck")
with_slow = reward + 0.1 * R.from_function(_slow, name="slow", batch=True)
