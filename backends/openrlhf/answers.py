"""What both doors to OpenRLHF answer for a row: finite floats under constant keys, and a log line for the first of each fault.

Nothing here scores. OpenRLHF makes float32 tensors of the values and squares them, so a number that is finite only in double precision
is not one here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from guerdon.backends.door import PREFIX, flat_keys, flat_row
from guerdon.errors import ConfigError
from guerdon.rewards.components import flatten
from guerdon.rewards.scores import lost_scores
from guerdon.types import Rollout, Status, Verdict

if TYPE_CHECKING:
    from guerdon.abstention import OnAbstain
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.term import Term

__all__ = ["ABSTAINED", "LARGEST", "TOTAL", "Answers", "check_fill", "weight_key"]

log = logging.getLogger("guerdon")

ABSTAINED = f"{PREFIX}abstained"
TOTAL = f"{PREFIX}total"
"""Where the reward goes when its place is taken by an advantage."""
LARGEST = 1e18
"""OpenRLHF's statistics square rewards in float32: anything larger would become infinite there, and NaN for the rest of its group."""


def weight_key(name: str) -> str:
    """Where a component that is weighted row by row (`R.by_column`) says its weight."""
    return f"{PREFIX}{name}/weight"


def check_fill(on_abstain: OnAbstain, where: str) -> OnAbstain:
    """ConfigError for a fill value that float32 statistics cannot bear."""
    if abs(on_abstain.value) > LARGEST:
        raise ConfigError(f"{where}: on_abstain expects a value within {LARGEST:g}, as OpenRLHF squares rewards, got {on_abstain.value!r}")
    return on_abstain


class Answers:
    """The extra logs of one reward: `keys` never change, `row` and `lost` give every one of them. Remembers what it has logged."""

    def __init__(self, reward: Term, *more: str) -> None:
        self.reward = reward
        components = flatten(reward)
        self.routed = tuple((k, weight_key(c.name)) for k, c in enumerate(components) if c.weight is None)
        own = (*more, *(key for _, key in self.routed))
        self.keys = (*flat_keys(reward), *own)
        if len(set(self.keys)) < len(self.keys):
            twice = next(key for key in own if self.keys.count(key) > 1)
            raise ConfigError(f"the metric {twice!r} would stand for two things: give a term another name, with name=")
        self._logged: set[tuple[str, str]] = set()
        verdict = Verdict.of(Status.ERROR, "bad_column")
        scores = lost_scores(reward, [Rollout("")], ValueError())
        scores = replace(scores, verdicts={name: [verdict] for name in scores.names}, outcomes=[verdict])
        self._lost = {**flat_row(scores, 0), **dict.fromkeys(own, 0.0)}

    def row(self, scores: Scores, row: int) -> dict[str, float]:
        """The logs of one row. A value beyond LARGEST counts as one that was not scored, and the row as abstained."""
        flat = flat_row(scores, row)
        for k, key in self.routed:
            flat[key] = float(scores.weights_NK[row, k])
        if abs(scores.total_N[row]) > LARGEST:
            flat |= {ABSTAINED: 1.0, f"{PREFIX}rows/error": 1.0}
        for name in scores.names:
            key = f"{PREFIX}{name}"
            if abs(flat[key]) > LARGEST:
                flat |= {key: 0.0, f"{key}/scored": 0.0, ABSTAINED: 1.0, f"{PREFIX}rows/error": 1.0}
        if flat[ABSTAINED]:
            self._explain(scores, row)
        return flat

    def lost(self, why: str) -> dict[str, float]:
        """The logs of a row that is no rollout: ERROR `bad_column` in everything."""
        self._once("bad_column", "", f"reward {self.reward.name!r}: a row could not be read, so it is not scored: {why}")
        return dict(self._lost)

    def _explain(self, scores: Scores, row: int) -> None:
        for name, verdicts in scores.verdicts.items():
            verdict = verdicts[row]
            if verdict.status.is_abstention:
                what = f"{verdict.status.value} {verdict.reason}"
                self._once(name, what, f"reward {self.reward.name!r}: a row abstains: {name} is {what}: {verdict.detail[:300]}")

    def _once(self, where: str, what: str, message: str) -> None:
        if (where, what) not in self._logged:
            self._logged.add((where, what))
            log.warning("%s (further rows like it are counted in %s, not logged)", message, ABSTAINED)
