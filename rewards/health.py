"""Watches for a reward that is broken rather than strict: the share of rows whose check or reference failed.

Counts rows, over the last 1,024 of each reward in this process, in which a weighted component was ERROR or
BAD_REFERENCE. Of fewer than 128 rows the share is taken as if they were 128, so that a short call alone raises no alarm.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import Counter, deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

from guerdon.errors import BrokenRewardError, ConfigError

if TYPE_CHECKING:
    from guerdon.rewards.scores import Scores
    from guerdon.rewards.term import Term

__all__ = ["FEW", "WINDOW", "forget", "watch"]

WINDOW = 1024
"""Rows remembered for each reward."""

FEW = 128
"""A share is of at least so many rows: below, one bad reference in a test would be an alarm."""

DETAIL = 120
"""Characters of a verdict's detail that a message shows."""


_Row = tuple[str, str]
"""What broke a row (the component, the status and the reason) and the verdict's detail; or two empty texts."""


class _Window:
    """What broke the last rows. Counted as they come and go: doors that score single rows ask after each."""

    def __init__(self) -> None:
        self.rows: deque[_Row] = deque()
        self.count = 0

    def extend(self, rows: list[_Row]) -> None:
        for row in rows[-WINDOW:]:
            self.rows.append(row)
            self.count += row[0] != ""
            if len(self.rows) > WINDOW:
                self.count -= self.rows.popleft()[0] != ""

    def most_frequent(self) -> str:
        """The three most frequent reasons, each with how often and the first detail: `math_equal error deadline (32, e.g. ...)`."""
        counts = Counter(reason for reason, _ in self.rows if reason)
        found = []
        for reason, n in counts.most_common(3):
            detail = next((detail for known, detail in self.rows if known == reason and detail), "")
            found.append(f"{reason} ({n}, e.g. {detail})" if detail else f"{reason} ({n})")
        return ", ".join(found)


_rows: dict[Hashable, _Window] = {}
_warned: set[Hashable] = set()
_lock = threading.Lock()


def forget() -> None:
    """Drop what is remembered of every reward in this process."""
    with _lock:
        _rows.clear()
        _warned.clear()


def _after_fork_in_child() -> None:
    """A thread that does not exist here may have held the lock."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)


def watch(reward: Term, scores: Scores, warn_broken: float, max_broken: float) -> Scores:
    """Record the rows of `scores` and return them; warn above `warn_broken`, raise BrokenRewardError above `max_broken`."""
    for name, value in (("warn_broken", warn_broken), ("max_broken", max_broken)):
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{name}: expected a share in 0..1, got {value!r}")
    broken = _broken_rows(scores)
    key = _key(reward)
    with _lock:
        if len(_rows) > 256 and key not in _rows:
            _rows.clear()  # short-lived rewards; what counts is the one being trained on
            _warned.clear()
        window = _rows.setdefault(key, _Window())
        window.extend(broken)
        count, seen = window.count, len(window.rows)
        rows = max(seen, FEW)
        first_warning = count > warn_broken * rows and key not in _warned
        if first_warning:
            _warned.add(key)
        elif count <= warn_broken * rows:
            _warned.discard(key)
        alarmed = first_warning or count > max_broken * rows
        what = window.most_frequent() if alarmed else ""
    if count > max_broken * rows:
        raise BrokenRewardError(_message(reward, count, seen, what) + "; fix it, or pass max_broken=1.0 to go on")
    if first_warning:
        warnings.warn(_message(reward, count, seen, what), RuntimeWarning, stacklevel=4)
    return scores


def _broken_rows(scores: Scores) -> list[_Row]:
    """For each row what broke it, if anything did."""
    out = [("", "")] * len(scores)
    for k, name in enumerate(scores.names):
        for i, verdict in enumerate(scores.verdicts[name]):
            if verdict.status.is_broken and scores.weights_NK[i, k] != 0 and not out[i][0]:
                out[i] = (f"{name} {verdict.status} {verdict.reason}", " ".join(verdict.detail[: 4 * DETAIL].split())[:DETAIL])
    return out


def _message(reward: Term, count: int, seen: int, what: str) -> str:
    return f"reward {reward.name!r}: {count} of the last {seen} rows could not be scored: {what}"


def _key(reward: Term) -> Hashable:
    try:
        hash(reward)
    except TypeError:
        return id(reward)
    return reward
