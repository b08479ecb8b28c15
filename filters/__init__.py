"""Which prompts? Pass rates and the rules that keep or drop a prompt by them.

A filter decides on what one group of rollouts showed; it generates nothing, scores nothing and reads no files. Filters
look at the outcome (correctness before shaping), never at the shaped total.
"""

from __future__ import annotations

from guerdon.filters.decision import Decision, Filter
from guerdon.filters.goldilocks import Goldilocks
from guerdon.filters.pass_rate import PassRate
from guerdon.filters.variance import ZeroVariance

__all__ = ["Decision", "Filter", "Goldilocks", "PassRate", "ZeroVariance"]
