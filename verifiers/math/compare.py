"""Whether two readings agree, as far as that is certain without computer algebra; otherwise the question for a worker.

The guards against what algebra systems take for equal stand here: the last member of a false equation, a value that words take
back, repeated members of a list, other units. Nothing here is worse than linear, but for lists of at most 64 members.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from guerdon.verifiers.math.exact import Value
from guerdon.verifiers.math.reading import Reading, read, words
from guerdon.verifiers.math.rules import MathRules
from guerdon.verifiers.math.vocabulary import MEASURES

__all__ = ["Question", "ask", "is_text", "same"]

_SYMBOLS = re.compile(r"[\\0-9=+*/^<>_%|]").search
_INEQUALITY = re.compile(r"[<>]|\\[lg]e ").search
_UNEQUAL = re.compile(r"\\ne |\\not(?:in)?(?![a-zA-Z])").search
_UNEVALUATED = re.compile(r"\\(?:i?int|oint|sum|prod|lim(?:sup|inf)?|lfloor|lceil)(?![a-zA-Z])|\b(?:max|min|gcd|lcm|det)\b").search
_INDEFINITE = re.compile(r"\\(?:pm|mp|[lc]?dots)(?![a-zA-Z])|\.\.\.").search
_REGION = re.compile(r"[(\[<>]|\\(?:[{]|cup|in|begin|mathbb|[lg]e )").search
_CHOICE = re.compile(r"\(?([A-J])\)?(?:[.:)] ?.*)?", re.DOTALL).fullmatch
_JOINT = re.compile(r"(?<![a-zA-Z\\])(?:, ?)?(?:and|or)(?![a-zA-Z])|;")
_EQUALS = re.compile(r"(?<![<>!=:])=+")
_BRACKETS = "()[]{}\\ "
_ITEMS, _DEPTH = 64, 4


@dataclass(frozen=True, slots=True)
class Question:
    """Does every part equal the reference? `tolerance` is set when one side is a decimal: 0 if it may not be rounded."""

    reference: str
    parts: tuple[str, ...]
    tolerance: Fraction | None = None


def same(reference: Reading, candidate: Reading, rules: MathRules, depth: int = 0) -> bool | None:
    """True or False where certain, None where it takes algebra."""
    if reference.key == candidate.key:
        return True
    if reference.value is not None and candidate.value is not None:
        return _same_number(reference, candidate, rules)
    if is_text(reference):
        return _letters(reference.text) == _letters(candidate.text)
    if (wanted := _CHOICE(reference.text)) and (chosen := _CHOICE(candidate.text)):
        return wanted[1] == chosen[1]
    if _units_clash(reference, candidate) or _differ_in_kind(reference, candidate, rules):
        return False
    if (members := _chain(reference, candidate)) and depth < _DEPTH:
        return _every([same(reference, read(member), rules, depth + 1) for member in members])
    return _same_list(reference, candidate, rules, depth) if depth < _DEPTH else None


def ask(reference: Reading, candidate: Reading, rules: MathRules) -> Question:
    """The question that `same` left open."""
    if members := _chain(reference, candidate):
        wanted, parts = reference.body, members
    elif "=" in reference.text and "=" in candidate.text:
        wanted, parts = reference.text, (candidate.text.partition("\\approx")[0],)
    else:
        wanted, parts = reference.body, (candidate.body,)
    rounded = reference.places is not None or candidate.places is not None
    tolerance = (_allowance(reference.value, reference, candidate, rules) or Fraction(0)) if rounded else None
    return Question(_latex(wanted), tuple(_latex(part) for part in parts), tolerance)


def is_text(reading: Reading) -> bool:
    """Words and nothing else: `Evelyn`, `no solution`, `\\text{odd}`."""
    return not _SYMBOLS(reading.text) and bool(words(reading.text) or (reading.wordy and len(_letters(reading.text)) > 1))


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _every(verdicts: list[bool | None]) -> bool | None:
    return False if False in verdicts else None if None in verdicts else True


# numbers


def _same_number(reference: Reading, candidate: Reading, rules: MathRules) -> bool | None:
    wanted, given = reference.value, candidate.value
    if (reference.label and candidate.label and reference.label != candidate.label) or _units_clash(reference, candidate):
        return False
    if not isinstance(wanted, Fraction) or not isinstance(given, Fraction):
        return None if wanted == given else False  # HUGE exceeds every Fraction; two of them may differ
    if _close(wanted, given, reference, candidate, rules):
        return True
    if reference.percent and not candidate.percent:
        return _close(wanted / 100, given, reference, candidate, rules)
    # 33.5 % is 0.335 and 100 % is 1, but nobody writes 500 % for 5.
    scaled = candidate.percent and not reference.percent and (wanted.denominator > 1 or abs(wanted) <= 1)
    return scaled and _close(wanted, given / 100, reference, candidate, rules)


def _close(wanted: Fraction, given: Fraction, reference: Reading, candidate: Reading, rules: MathRules) -> bool:
    tolerance = _allowance(wanted, reference, candidate, rules)
    return wanted == given or (tolerance is not None and abs(wanted - given) <= tolerance)


def _allowance(wanted: Value | None, reference: Reading, candidate: Reading, rules: MathRules) -> Fraction | None:
    """Half a unit of the last digit of the one decimal among the two, if it is precise enough to stand for an exact value."""
    if not rules.rounding or (reference.places is None) == (candidate.places is None):
        return None
    if reference.places is not None:
        whole = isinstance(reference.value, Fraction) and reference.value.denominator == 1  # 36.0 is 36
        return None if reference.digits < 3 or whole else _half_unit(reference)
    finite = isinstance(wanted, Fraction) and pow(10, wanted.denominator.bit_length(), wanted.denominator) == 0
    return None if candidate.digits < 4 or finite else _half_unit(candidate)


def _half_unit(reading: Reading) -> Fraction:
    return Fraction(1, 2) / Fraction(10) ** (reading.places or 0) / (100 if reading.percent else 1)


def _units_clash(reference: Reading, candidate: Reading) -> bool:
    """A unit on one side only is dropped. A base on the reference only is implied; on the candidate only, it is another number."""
    mine, theirs = reference.unit, candidate.unit
    if theirs.startswith("_") and theirs != "_10":
        return mine != theirs
    if not mine or not theirs or mine == theirs or mine.startswith("_"):
        return False
    a, b = set(mine.split()), set(theirs.split())
    return not (a <= b or b <= a) or any("^" in name or name in MEASURES for name in a ^ b)


# kinds, chains, lists


def _differ_in_kind(reference: Reading, candidate: Reading, rules: MathRules) -> bool:
    """Whether the candidate is another kind of thing than the reference, so that no algebra should make them equal."""
    mine, theirs = reference.text, candidate.text
    if words(candidate.body) and not words(mine):
        return True
    if reference.value is not None and candidate.body.lstrip("+- ") == "\\infty":
        return True
    if bool(_UNEQUAL(mine)) != bool(_UNEQUAL(theirs)):
        return True
    if not rules.allow_unevaluated and _UNEVALUATED(theirs) and not _UNEVALUATED(mine):
        return True
    if (_INEQUALITY(theirs) and not _REGION(mine)) or (_INEQUALITY(mine) and candidate.value is not None):
        return True
    if len(mine) == len(theirs) == 1 or _INDEFINITE(mine) or _INDEFINITE(theirs):
        return len(mine) == len(theirs) == 1  # two letters
    (kind, items), (other, others) = _items(reference), _items(candidate)
    if kind and other and (kind == "{}") != (other == "{}"):
        return len(items) == len(others)
    return len(items) != len(others) and not (kind and other) and not (_REGION(mine.strip(_BRACKETS)) or _REGION(theirs.strip(_BRACKETS)))


def _chain(reference: Reading, candidate: Reading) -> tuple[str, ...]:
    """The members of an equation given for a plain reference: all of them must equal it (`7=5` is not 5)."""
    if "=" in reference.body or "=" not in candidate.body or (reference.label and not candidate.label) or len(_items(candidate)[1]) > 1:
        return ()
    members = tuple(part.strip() for part in _EQUALS.split(candidate.body))
    return members if 1 < len(members) <= _ITEMS and all(members) else ()


def _same_list(reference: Reading, candidate: Reading, rules: MathRules, depth: int) -> bool | None:
    (kind, items), (other, others) = _items(reference), _items(candidate)
    if len(items) != len(others) or len(items) < 2:
        return None
    mine, theirs = [read(item) for item in items], [read(item) for item in others]
    named, renamed = all(r.label for r in mine), all(r.label for r in theirs)
    if named == renamed and (named or (kind in ("", "{}") and other in ("", "{}"))):
        return _same_members(mine, theirs, rules, depth)
    interval = len(items) == 2 and kind != other and any("[" in k or "]" in k for k in (kind, other))
    if interval or (kind and other and kind != other):
        return False
    return _every([same(a, b, rules, depth + 1) for a, b in zip(mine, theirs, strict=True)])


def _same_members(mine: list[Reading], theirs: list[Reading], rules: MathRules, depth: int) -> bool | None:
    """Lists and sets without order, members counted as often as they stand there."""
    left, undecided = list(theirs), False
    for reading in mine:
        verdicts = [same(reading, other, rules, depth + 1) for other in left]
        if True in verdicts:
            del left[verdicts.index(True)]
        elif None not in verdicts:
            return False
        else:
            undecided = True
    return None if undecided else True


def _items(reading: Reading) -> tuple[str, tuple[str, ...]]:
    named = "=" in reading.body and len(_split_list(reading.text)[1]) > 1  # x=1, y=2: the body lacks the first label
    return _split_list(reading.text if named else reading.body)


@lru_cache(maxsize=1024)
def _split_list(text: str) -> tuple[str, tuple[str, ...]]:
    """The brackets of a list ("()", "[)", "{}", "" for none) and its members: `(1, 2)` is ("()", ("1", "2"))."""
    text = _JOINT.sub(",", text)
    kind, inner = "", text
    if text.startswith("\\{") and text.endswith("\\}"):
        kind, inner = "{}", text[2:-2]
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]"):
        kind, inner = text[0] + text[-1], text[1:-1]
    items = _split(inner)
    if items is None and kind:
        kind, items = "", _split(text)
    items = tuple(item for item in items or (text,) if item) or (text,)
    return (kind, items) if len(items) > 1 or kind == "{}" else ("", (text,))


def _split(text: str) -> tuple[str, ...] | None:
    """Split at commas outside brackets; None when a bracket closes that was not opened here, or there are too many members."""
    items, start, depth = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                return None
        elif char == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    items.append(text[start:].strip())
    return tuple(items) if len(items) <= _ITEMS else None


# for the worker

_CALL = re.compile(r"\\?(sqrt|exp)\(([^()]{0,200})\)")
_NAMES = re.compile(r"(?<![\\a-zA-Z])(pi|sin|cos|tan|cot|sec|csc|log|ln|arcsin|arccos|arctan|sqrt)(?![a-zA-Z])")


def _latex(text: str) -> str:
    """Calculator notation as LaTeX: `sqrt(2)*pi` is `\\sqrt{2}*\\pi`."""
    text = _CALL.sub(lambda call: f"\\sqrt{{{call[2]}}}" if call[1] == "sqrt" else f"e^{{{call[2]}}}", text)
    return _NAMES.sub(r"\\\1", text)
