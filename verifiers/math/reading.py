"""What one answer's text says: a normal form of the text, its exact value if it has one, its unit, and how precisely it is written.

Linear in the length of the text, whatever it holds. Comparing two readings is `compare`'s work.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from guerdon.verifiers.math.exact import Value, rational
from guerdon.verifiers.math.vocabulary import ALIASES, CHARACTERS, EMPTY, FUNCTIONS, MEASURES, NOT_UNITS, REWRITES, SCALES, SHORT_UNITS

__all__ = ["Reading", "normal", "read", "unbalanced", "words"]

_PLAIN = re.compile(r"-?\d{1,15}", re.ASCII).fullmatch
_NAME = r"(?:\\(?:angle|triangle) )?[A-Za-z]{1,8}(?:_(?:\w|\{[^{}=]{1,12}\}))?'?(?:\([A-Za-z]\))?|\\[a-zA-Z]{2,8}(?: ?[A-Za-z])?"
_NAMES = r"\((?: ?[A-Za-z] ?,){1,4} ?[A-Za-z] ?\)"
_LABEL = re.compile(rf"({_NAME}|{_NAMES})\s?(?:=|\\approx|\\in(?![a-zA-Z]))").match
_BUILDER = re.compile(r"\\\{ ?[a-z] ?(?:\||:|\\mid(?![a-zA-Z])) ?(.*)\\\}").fullmatch
_DECIMAL = re.compile(r"[-+]?([\d,]*)\.(\d+)(?:\s?(?:\*\s?10\^\{?|[eE])([-+]?\d{1,4})\}?)?", re.ASCII).fullmatch
_BASE = re.compile(r"\(?(\d{1,1000})\)?_\{?(\d{1,2})\}?", re.ASCII).fullmatch
_UNIT = re.compile(r"[A-Za-z]+\.?(?:[ /-]{1,3}[A-Za-z]+\.?){0,4}").fullmatch
_UNIT_POWER = re.compile(r"(?<=[A-Za-z])\s?\^\{?([23])\}?$")
_UNIT_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ./-"
_WORD = re.compile(r"(?<![\\a-zA-Z])(?:[a-zA-Z]{3,}|(?:no|is|if|to|be|we|of|it)(?![a-zA-Z]))")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[a-z*]{0,16}\}")


@dataclass(frozen=True, slots=True)
class Reading:
    """`text` is the normal form; `body` is it without a leading `x =` (then `label` is `x`), unit, and trailing `\\approx ...`.

    `value` is the exact value of the body, or None. `places` and `digits` are set for decimals: digits after the point (less the
    power of ten) and significant digits. `wordy` says that the original held \\text or the like.
    """

    text: str
    body: str
    label: str = ""
    value: Value | None = field(default=None, repr=False)  # its digits could take long to write out
    unit: str = ""
    percent: bool = False
    places: int | None = None
    digits: int = 0
    wordy: bool = False

    @property
    def key(self) -> str:
        """The normal form without spaces, except between digits, and without braces around one character."""
        return _key(self.text)


@lru_cache(maxsize=2048)
def _key(text: str) -> str:
    text = re.sub(r"(?<=\d) (?=\d)", "\x00", text).replace(" ", "")
    text = re.sub(r"\{([A-Za-z0-9])\}", r"\1", text)
    return "\\emptyset" if text.lower() in EMPTY else text


def words(text: str) -> list[str]:
    """The words of a text that are neither LaTeX commands nor functions; most pairs of letters are products.

    >>> words("x = 5 or \\\\sin xy, so it seems")
    ['it', 'seems']
    """
    text = _ENVIRONMENT.sub("", text) if "\\begin" in text else text
    return [word for word in _WORD.findall(text) if word not in FUNCTIONS]


def unbalanced(text: str) -> bool:
    """Whether a bracket is never closed or never opened; round and square ones pair, as in half-open intervals."""
    braces = text.count("{") - text.count("\\{") - text.count("}") + text.count("\\}")
    return braces != 0 or text.count("(") + text.count("[") != text.count(")") + text.count("]")


def normal(raw: str) -> str:
    """The normal form of an answer: delimiters, spacing, fonts, currency and degree signs dropped, synonyms unified.

    >>> normal(r"$\\left( 3,\\, \\dfrac12\\right)$")
    '( 3,\\\\frac{1}{2})'
    """
    text = raw if raw.isascii() else unicodedata.normalize("NFKC", raw.translate(CHARACTERS))
    if "$" in text or "`" in text or "\x00" in text or not text.isascii():
        text = text.replace("\\$", "").translate(CHARACTERS)
    text = text.strip("* \t\r\n")
    if "\\" in text:
        for pattern, new in REWRITES if "\\begin" not in text else REWRITES[1:]:
            text = pattern.sub(new, text)
    else:
        text = " ".join(text.replace("<=", "\\le ").replace(">=", "\\ge ").replace("!=", "\\ne ").split())
    text = text.strip("* ").rstrip(".,;: *")
    core = text.strip("{}")
    outer = text.find(core)
    return core.strip() if core and "{" not in core and text == "{" * outer + core + "}" * outer else text


@lru_cache(maxsize=2048)
def read(raw: str) -> Reading:
    """Read one answer.

    >>> reading = read("x = 1,234.50 \\\\text{ km}")
    >>> reading.label, reading.value, reading.unit, reading.places
    ('x', Fraction(2469, 2), 'km', 2)
    """
    if _PLAIN(raw):
        return Reading(raw, raw, value=Fraction(raw))
    text = normal(raw)
    wordy = "\\text" in raw or "\\mathrm" in raw or "\\mbox" in raw
    body, label = text, ""
    while match := _LABEL(body):  # x = y = 5
        label, body = label or match[1].replace(" ", ""), body[match.end() :].strip()
    body = body.partition("\\approx")[0].strip() or body
    if builder := _BUILDER(body):  # {x | 1 < x}
        body = builder[1]
    if base := _BASE(body):
        return Reading(text, body, label, Fraction(base[1]), f"_{base[2]}", wordy=wordy)
    core, unit = _split_unit(body)
    first, _, others = unit.partition(" ")
    percent = core.endswith("%") or first in ("percent", "percentage", "pct")
    core = core.rstrip("% ")
    value = rational(core)
    if value is None and core.count(":") == 1:  # 5:8
        value = rational(core.replace(":", "/"))
    if value is None:
        known = unit != "" and all(name in MEASURES for name in unit.partition("^")[0].split())
        return Reading(text, core.strip() if known else body, label, unit=unit if known else "", wordy=wordy)
    if first in SCALES:
        return Reading(text, body, label, value * SCALES[first], others, wordy=wordy)
    places, digits = _precision(core)
    return Reading(text, core + "%" * percent, label, value, "" if percent else unit, percent, places, digits, wordy)


def _split_unit(body: str) -> tuple[str, str]:
    """The body without its unit, and the unit: `35 cm^2` is ("35", "cm^2"). What is no unit stays in the body."""
    power = _UNIT_POWER.search(body)
    rest = body[: power.start()] if power else body
    core = rest.rstrip(_UNIT_CHARACTERS)
    tail = rest[len(core) :]
    unit = tail.strip(" .-")
    if not unit or core.endswith(("%", "\\")) or _UNIT(unit) is None:
        return body, ""
    names = re.split(r"[ ./-]+", unit.rstrip("."))
    if any(name.lower() in NOT_UNITS for name in names) or any(len(name) < 3 and name not in SHORT_UNITS for name in names):
        return body, ""
    if tail[0] not in " ." and (names[0] not in SHORT_UNITS or len(names[0]) == 1):  # 5x and 5ab are products, 35cm is not
        return body, ""
    singular = (name if name in SHORT_UNITS else name.lower().rstrip("s") for name in names)
    unit = " ".join(" ".join(ALIASES.get(name, name) for name in singular).split())
    return core, "" if unit.endswith("unit") else unit + (f"^{power[1]}" if power else "")


def _precision(core: str) -> tuple[int | None, int]:
    """Digits after the point and significant digits of a decimal; (None, 0) for anything else."""
    match = _DECIMAL(core)
    if match is None:
        return None, 0
    whole = match[1].replace(",", "").lstrip("0")
    digits = len(whole) + len(match[2]) if whole else len(match[2].lstrip("0"))
    return len(match[2]) - int(match[3] or 0), digits
