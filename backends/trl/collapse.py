"""Is the policy collapsing, running from its reference, or gaming its reward? Alarms from the numbers that a trainer logs.

`CollapseDetector` is plain arithmetic on logged metrics: no torch, no trainer. `guerdon.backends.trl.CollapseMonitor` feeds it. It sees
what is logged and nothing else; thresholds are choices of this library, not of a paper.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from types import MappingProxyType
from typing import Any, Literal

from guerdon.errors import ConfigError
from guerdon.rewards.diversity_metrics import collapsed

__all__ = ["KEYS", "Alarm", "CollapseDetector"]

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "entropy": ("entropy",),
        "distinct": ("guerdon/distinct_2",),
        "spread": ("guerdon/group_reward_std", "guerdon/reward_std", "reward_std"),
        "kl": ("kl",),
        "reward": ("guerdon/reward", "reward"),
        "outcome": ("guerdon/outcome",),
    }
)
"""Where each number is found in a log: the first of the names that has ever been there. What was read under a later one is dropped."""

Kind = Literal["collapse", "kl_surge", "reward_hacking"]
Record = dict[str, float]

MEMORY = 100
"""Past windows that are kept to compare with."""
IMPROVING = 5
"""Past windows over which an outcome that rises is learning."""
BURST = 3
"""Logs whose median KL counts as now."""
REPEATS = "the policy repeats itself: lower the learning rate, raise entropy_coef or the upper clip, look at the completions"
UNKNOWN = "; without guerdon/outcome in the log this cannot be told from a solved task"
REWARD_RISE = 0.02
"""A reward that rose by less than this share of itself has not risen."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """What was seen, at which step. `now` and `then` are medians, by the names of `KEYS`."""

    kind: Kind
    step: int
    message: str
    now: Mapping[str, float] = field(default_factory=dict)
    then: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        seen = ", ".join(f"{name} {self.then[name]:.3g} -> {value:.3g}" for name, value in self.now.items() if name in self.then)
        return f"{self.kind} at step {self.step}: {seen}; {self.message}"


class CollapseDetector:
    """Feed it every training log; it gives each alarm once an episode.

    Numbers are compared as medians: the last `window` logs now, against each earlier window of `window` logs. No alarm comes before two
    windows are full. A window counts for a number if at least half of its logs have it; NaN, None and infinity are gaps.

    - `collapse`: reward spread *and* token entropy or distinct n-grams (both, where both are logged) have fallen below `ratio` times
      what they were together in one earlier window, while the outcome, where it is logged, is below `solved` and no longer rising. One
      of these numbers alone falls in healthy training, and all of them where the task is solved.
    - `kl_surge`: the median KL of the last 3 logs exceeds `kl_factor` times that of the window before them, and `kl_floor` (nats a token).
    - `reward_hacking`: against one earlier window the outcome has fallen by `outcome_drop` or more while the reward has risen, each by
      more than `noise` standard errors of its medians.

    An episode ends when the condition has not held for `window` logs. Data that change in difficulty (a curriculum) can look like a
    fall of the outcome.

    >>> detector = CollapseDetector(window=4)
    >>> sick = [alarm for step in range(20) for alarm in detector.update(step, {"entropy": 0.9**step, "reward_std": 0.4 * 0.9**step})]
    >>> [(alarm.kind, alarm.step) for alarm in sick]
    [('collapse', 10)]
    """

    def __init__(
        self,
        *,
        window: int = 10,
        ratio: float = 0.5,
        solved: float = 0.9,
        kl_factor: float = 4.0,
        kl_floor: float = 0.1,
        outcome_drop: float = 0.1,
        noise: float = 4.0,
        keys: Mapping[str, Sequence[str]] = KEYS,
    ) -> None:
        if type(window) is not int or window < 4:
            raise ConfigError(f"CollapseDetector: window expects a whole number of logs, at least 4; got {window!r}")
        for name, value, low, high in (("ratio", ratio, 0.0, 1.0), ("kl_factor", kl_factor, 1.0, math.inf)):
            if not low < value < high:
                raise ConfigError(f"CollapseDetector: {name} expects a number above {low:g} and below {high:g}, got {value!r}")
        for name, value in (("solved", solved), ("kl_floor", kl_floor), ("outcome_drop", outcome_drop), ("noise", noise)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"CollapseDetector: {name} expects a finite number of at least 0, got {value!r}")
        if unknown := sorted(keys.keys() - KEYS.keys()):
            raise ConfigError(f"CollapseDetector: keys are named {', '.join(KEYS)}; got {', '.join(unknown)}")
        self.window, self.ratio, self.solved, self.noise = window, ratio, solved, noise
        self.kl_factor, self.kl_floor, self.outcome_drop = kl_factor, kl_floor, outcome_drop
        self.keys = {name: (given,) if isinstance(given, str) else tuple(given) for name, given in {**KEYS, **keys}.items()}
        self.tail: deque[Record] = deque(maxlen=2 * window)
        self.blocks: deque[Record] = deque(maxlen=MEMORY)
        self.seen = 0
        self.chosen: dict[str, str] = {}
        self.calm: dict[str, int] = {}

    @property
    def active(self) -> int:
        """Alarms whose episode goes on."""
        return len(self.calm)

    def update(self, step: int, metrics: Mapping[str, Any]) -> list[Alarm]:
        """The alarms that begin with this log. A log with none of the numbers (evaluation, the end of training) changes nothing."""
        record = self._read(metrics)
        if not record:
            return []
        self.tail.append(record)
        self.seen += 1
        if self.seen < 2 * self.window:
            return []
        if self.seen % self.window == 0:
            self.blocks.append(_summary(list(self.tail)[: self.window]))
        now = _summary(list(self.tail)[self.window :])
        found = [self._collapse(step, now), self._kl_surge(step), self._reward_hacking(step, now)]
        return self._begun([alarm for alarm in found if alarm is not None])

    def state(self) -> dict[str, Any]:
        """What it has seen, as JSON holds it. Settings are not in it."""
        held = {"tail": list(self.tail), "blocks": list(self.blocks), "seen": self.seen, "chosen": self.chosen, "calm": self.calm}
        return {name: value.copy() if isinstance(value, dict | list) else value for name, value in held.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self.tail = deque(state["tail"], maxlen=2 * self.window)
        self.blocks = deque(state["blocks"], maxlen=MEMORY)
        self.seen, self.chosen, self.calm = int(state["seen"]), dict(state["chosen"]), dict(state["calm"])

    def _read(self, metrics: Mapping[str, Any]) -> Record:
        record = {}
        for name, keys in self.keys.items():
            known = self.chosen.get(name)
            better = keys[: keys.index(known)] if known in keys else keys
            key = next((key for key in better if _number(metrics.get(key)) is not None), known)
            if key is None:
                continue
            if known is not None and key != known:  # other numbers: not to be compared with those before
                for past in (*self.tail, *self.blocks):
                    past.pop(name, None)
                    past.pop(f"{name} error", None)
            self.chosen[name] = key
            if (value := _number(metrics.get(key))) is not None:
                record[name] = value
        return record

    def _begun(self, holding: list[Alarm]) -> list[Alarm]:
        begun = [alarm for alarm in holding if alarm.kind not in self.calm]
        kinds = {alarm.kind for alarm in holding}
        waited = {kind: logs + 1 for kind, logs in self.calm.items() if kind not in kinds}
        self.calm = {kind: logs for kind, logs in waited.items() if logs < self.window} | dict.fromkeys(sorted(kinds), 0)
        return begun

    def _collapse(self, step: int, now: Record) -> Alarm | None:
        wanted = [name for name in ("entropy", "distinct", "spread") if name in self.chosen]
        if "spread" not in wanted or len(wanted) < 2 or self._learning(now):
            return None
        for block in reversed(self.blocks):
            then: Record = {name: block[name] for name in wanted if name in block}
            if len(then) == len(wanted) and collapsed(now, then, self.ratio):
                return Alarm(
                    "collapse", step, REPEATS if "outcome" in now else REPEATS + UNKNOWN, {name: now[name] for name in wanted}, then
                )
        return None

    def _learning(self, now: Record) -> bool:
        """Whether the outcome excuses a fall: the task is solved, or the outcome has risen over the last few windows, or is not known just
        now. An episode that has begun is not ended by a rise, which may be noise."""
        if "outcome" not in self.chosen:
            return False
        if now.get("outcome", 1.0) >= self.solved:
            return True
        before = next((block for block in list(self.blocks)[-IMPROVING:] if "outcome" in block), None)
        if before is None or "collapse" in self.calm:
            return False
        return now["outcome"] - before["outcome"] > self.noise / 2 * self._error("outcome", before, now)  # a doubt delays the alarm

    def _kl_surge(self, step: int) -> Alarm | None:
        values = [record.get("kl") for record in self.tail]
        before = [value for value in values[-self.window - BURST : -BURST] if value is not None]
        last = [value for value in values[-BURST:] if value is not None]
        if len(last) < 2 or 2 * len(before) < self.window:
            return None
        now, then = median(last), median(before)
        if now <= self.kl_floor or now <= self.kl_factor * then:
            return None
        return Alarm("kl_surge", step, "the policy leaves its reference: lower the learning rate or raise beta", {"kl": now}, {"kl": then})

    def _reward_hacking(self, step: int, now: Record) -> Alarm | None:
        if "outcome" not in now or "reward" not in now:
            return None
        for block in reversed(self.blocks):
            if "outcome" not in block or "reward" not in block:
                continue
            drop, rise = block["outcome"] - now["outcome"], now["reward"] - block["reward"]
            if drop < self.outcome_drop or rise <= 0 or drop <= self.noise * self._error("outcome", block, now):
                continue
            if rise > max(self.noise * self._error("reward", block, now), REWARD_RISE * abs(block["reward"])):
                advice = "the reward pays for something else than being right: read the completions with the highest reward"
                names = ("reward", "outcome")
                return Alarm("reward_hacking", step, advice, {n: now[n] for n in names}, {n: block[n] for n in names})
        return None

    def _error(self, name: str, block: Record, now: Record) -> float:
        """Standard error of the difference of two medians; neither is taken to be more exact than is usual."""
        key = f"{name} error"
        usual = median(b[key] for b in self.blocks if key in b)
        return math.hypot(max(block[key], usual), max(now[key], usual))


def _summary(window: Sequence[Record]) -> Record:
    """Median of each number that at least half of the window has, and its standard error, 1.2533 sigma/sqrt(n). Sigma comes from the
    steps between neighbours, so that a trend is no noise."""
    summary: Record = {}
    for name in KEYS:
        values = [record[name] for record in window if name in record]
        if 2 * len(values) >= len(window) and len(values) > 1:
            summary[name] = median(values)
            sigma = 1.4826 / math.sqrt(2) * median(abs(b - a) for a, b in pairwise(values))
            summary[f"{name} error"] = 1.2533 * sigma / math.sqrt(len(values))
    return summary


def _number(value: Any) -> float | None:
    """A finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
