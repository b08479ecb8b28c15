"""Reading a score from what a judge wrote: a number, a verdict, a field of JSON, a pattern of your own.

A reader takes the reply and returns a number, or None where it finds none: it never guesses, and the row is then an ERROR, not a 0.
Where several places fit, the last one counts, as judges are asked to end with their score. Frozen values, picklable, equal by value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from guerdon.errors import ConfigError

__all__ = ["READERS", "JsonField", "Pattern", "last_number", "score_0_10", "verdict"]

_QUIET = r"[\s*_`\"']"
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?!\w)")
_SCORE = re.compile(
    rf"\bscore\b{_QUIET}{{0,6}}(?:\([^()\n]{{0,20}}\))?{_QUIET}{{0,6}}(?:[:=]|is\b|of\b)?{_QUIET}{{0,6}}(\d{{1,4}}(?:\.\d{{1,9}})?)(?![\d.]*\d)"
    rf"(?:{_QUIET}{{0,3}}(?:/|out of){_QUIET}{{0,3}}(\d{{1,4}}))?",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"{_QUIET}{{0,9}}(\d{{1,4}}(?:\.\d{{1,9}})?)(?:\s?/\s?(\d{{1,4}}))?{_QUIET}{{0,9}}\.?\s{{0,9}}")
_VERDICT = re.compile(
    rf"\b(?:verdict|judge?ment|decision)\b{_QUIET}{{0,6}}(?:[:=]|is\b)?{_QUIET}{{0,6}}\b([a-z]{{2,9}})\b(?![/-])", re.IGNORECASE
)
_WORDS = {
    **dict.fromkeys(("correct", "yes", "true", "pass", "right"), 1.0),
    **dict.fromkeys(("incorrect", "no", "false", "fail", "wrong"), 0.0),
}


def score_0_10(reply: str) -> float | None:
    """The last "Score: N" (or a reply that is nothing but N), N from 0 to 10, as N / 10.

    >>> score_0_10("Clear, one slip. Score: 7/10"), score_0_10("**Score:** 8.5"), score_0_10("9"), score_0_10("Score: 70")
    (0.7, 0.85, 0.9, None)
    """
    found = _ALONE.fullmatch(reply) or _last(_SCORE, reply)
    if found is None or found[2] not in (None, "10"):
        return None
    return _scaled(float(found[1]), 0.0, 10.0)


def last_number(reply: str) -> float | None:
    """The last number, as it stands.

    >>> last_number("first 3, then -1.5"), last_number("none")
    (-1.5, None)
    """
    found = _last(_NUMBER, reply)
    return None if found is None else _scaled(float(found[0]), None, None)


def verdict(reply: str) -> float | None:
    """1 or 0 for the last "Verdict: correct" or "Verdict: incorrect" (yes, true, pass, right; no, false, fail, wrong), or that word alone.

    >>> verdict("It adds up.\\nVerdict: correct"), verdict("No."), verdict("Verdict: partly correct")
    (1.0, 0.0, None)
    """
    alone = reply.strip(" \t\r\n*_`\"'.!").lower()
    if alone in _WORDS:
        return _WORDS[alone]
    found = _last(_VERDICT, reply)
    return None if found is None else _WORDS.get(found[1].lower())


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
        found = _last(re.compile(self.regex), reply)
        try:
            return None if found is None else _scaled(float(found[1]), self.low, self.high)
        except (TypeError, ValueError):  # the group did not take part, or is no number
            return None


@dataclass(frozen=True)
class JsonField:
    """A number (or true, false) in the JSON object that the reply is, ends with or holds in a ``` block. `path`: dotted keys.

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
        found = _object(reply)
        for key in self.path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, int | float):
            return None
        return _scaled(float(found), self.low, self.high)


READERS: dict[str, Callable[[str], float | None]] = {"score_0_10": score_0_10, "last_number": last_number, "verdict": verdict}
"""The readers that `parse=` knows by name."""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007
        pass
    return found


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


def _object(reply: str) -> Any:
    """The JSON object of a reply, or None: a ``` block or the whole, else from the first brace to the last."""
    from guerdon.verifiers.json_text import Refused, document, parse

    for text in (document(reply), reply[reply.find("{") : reply.rfind("}") + 1]):
        try:
            found = parse(text)
        except Refused:
            continue
        if isinstance(found, dict):
            return found
    return None
