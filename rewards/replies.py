"""Reading a score from what a judge wrote: a number, a verdict, a field of JSON, a pattern of your own.

A reader takes the reply and returns a number, or None where it finds none: it never guesses, and the row is then an ERROR, not a 0.
Where several places fit, the last one counts, as judges are asked to end with their score; reasoning up to `</think>` is not read.
Frozen values, picklable, equal by value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError
from guerdon.rewards._reading import concluded, grade, last_plain_number, objects, score_said, verdict_said

__all__ = ["READERS", "JsonField", "Pattern", "last_number", "score_0_10", "verdict"]

_WORDS = {
    **dict.fromkeys(("correct", "yes", "true", "pass", "right"), 1.0),
    **dict.fromkeys(("incorrect", "no", "false", "fail", "wrong"), 0.0),
}
_ALONE = re.compile(r"\d{1,4}(?:\.\d{1,9})?(?:\s?(?:/|out of)\s?\d{1,4})?\.?")


def score_0_10(reply: str) -> float | None:
    """The last "Score: N" (or a reply that is nothing but N), N from 0 to 10, as N / 10.

    A sentence ("the score is N") counts where no "Score:" stands. No score: where the last "Score:" holds no such N (5-6, 70, 7/100,
    8,5, n/a), or a later sentence names another.

    >>> score_0_10("Clear, one slip. Score: 7/10"), score_0_10("**Score:** 8.5"), score_0_10("9"), score_0_10("Score: 70")
    (0.7, 0.85, 0.9, None)
    """
    text = concluded(reply)
    alone = text.strip(" \t\r\n*_`\"'")
    found = grade(alone) if _ALONE.fullmatch(alone) else score_said(text)
    return None if found is None else _scaled(float(found), 0.0, 10.0)


def last_number(reply: str) -> float | None:
    """The last number, as it stands. No score: where it is no plain number (3-4, 1,000), or counts what another is a part of (7/10).

    >>> last_number("first 3, then -1.5"), last_number("none"), last_number("10 out of 100")
    (-1.5, None, None)
    """
    found = last_plain_number(concluded(reply))
    return None if found is None else _scaled(float(found), None, None)


def verdict(reply: str) -> float | None:
    """1 or 0 for the last "Verdict: correct" or "Verdict: incorrect" (yes, true, pass, right; no, false, fail, wrong), or that word alone.

    The word must end its clause ("Verdict: no errors" is no verdict), and the last "Verdict:" must be one.

    >>> verdict("It adds up.\\nVerdict: correct"), verdict("No."), verdict("Verdict: partly correct")
    (1.0, 0.0, None)
    """
    text = concluded(reply)
    alone = text.strip(" \t\r\n*_`\"'.!").lower()
    return _WORDS.get(alone if alone in _WORDS else verdict_said(text) or "")


@dataclass(frozen=True)
class Pattern:
    """The one group of a regular expression, at its last match, read as a number. `low` to `high` becomes 0 to 1; outside: no score.

    >>> Pattern(r"Rating: \\[\\[(\\d+)\\]\\]", low=1, high=5)("Good. Rating: [[4]]")
    0.75
    """

    regex: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        _check_range("Pattern", self.low, self.high)
        try:
            groups = re.compile(self.regex).groups
        except (re.error, TypeError) as error:
            raise ConfigError(f"Pattern: {self.regex!r} is no regular expression: {error}") from None
        if groups != 1:
            raise ConfigError(f"Pattern: {self.regex!r} must have one group, the number; it has {groups} (write others as (?:...))")

    def __call__(self, reply: str) -> float | None:
        found = None
        for found in re.finditer(self.regex, concluded(reply)):  # noqa: B007
            pass
        try:
            return None if found is None else _scaled(float(found[1]), self.low, self.high)
        except (TypeError, ValueError):  # the group did not take part, or is no number
            return None


@dataclass(frozen=True)
class JsonField:
    """A number (or true, false) in the last JSON object of the reply that has it, wherever it stands. `path`: dotted keys.

    `low` to `high` becomes 0 to 1; outside: no score.

    >>> JsonField("grade.value", high=10)('```json\\n{"why": "a slip", "grade": {"value": 7}}\\n```')
    0.7
    """

    path: str
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not all(self.path.split(".")):
            raise ConfigError(f"JsonField: path must be keys like 'score' or 'grade.value', got {self.path!r}")
        _check_range("JsonField", self.low, self.high)

    def __call__(self, reply: str) -> float | None:
        found = _at(self.path.split("."), concluded(reply))
        if not isinstance(found, int | float):
            return None
        return _scaled(float(found), self.low, self.high)


READERS: dict[str, Callable[[str], float | None]] = {"score_0_10": score_0_10, "last_number": last_number, "verdict": verdict}
"""The readers that `parse=` knows by name."""


def _scaled(value: float, low: float | None, high: float | None) -> float | None:
    if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
        return None
    return value if high is None else (value - (low or 0.0)) / (high - (low or 0.0))


def _check_range(where: str, low: Any, high: Any) -> None:
    for value in (low, high):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)):
            raise ConfigError(f"{where}: low and high must be finite numbers or None, got {value!r}")
    if high is not None and not high > (low or 0.0):
        raise ConfigError(f"{where}: high must be above low, got low={low!r}, high={high!r}")


def _at(path: Sequence[str], text: str) -> Any:
    """What the last of a reply's JSON objects that has the path has there."""
    for found in reversed(objects(text)):
        value: Any = found
        for key in path:
            value = value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is not _ABSENT:
            return value
    return None


_ABSENT = object()
