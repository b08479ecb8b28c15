"""What a door (trainer adapter, server, file) does with rows that have no reward. Scoring itself never asks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from guerdon.errors import AbstentionError, ConfigError

__all__ = ["OnAbstain"]


@dataclass(frozen=True, slots=True)
class OnAbstain:
    """What a door (trainer adapter, server, file) does with a row that has no reward.

    `drop` leaves the row out as the stack allows, `fill` puts the finite `value` in its place, `raise` stops.

    >>> OnAbstain("fill", -1.0).apply([1.0, None])
    [1.0, -1.0]
    """

    policy: Literal["drop", "fill", "raise"] = "drop"
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.policy not in ("drop", "fill", "raise"):
            raise ConfigError(f"OnAbstain: expected 'drop', 'fill' or 'raise', got {self.policy!r}")
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not abs(self.value) < math.inf:
            raise ConfigError(f"OnAbstain: the fill value must be a finite number, got {self.value!r:.80}")

    def apply(self, totals: Sequence[float | None]) -> list[float | None]:
        """The totals with every None kept (`drop`), filled, or refused with AbstentionError (`raise`)."""
        if self.policy == "raise" and None in totals:
            rows = [i for i, total in enumerate(totals) if total is None]
            raise AbstentionError(f"{len(rows)} of {len(totals)} rows have no reward (first: row {rows[0]}); see their verdicts")
        return [self.value if total is None and self.policy == "fill" else total for total in totals]
