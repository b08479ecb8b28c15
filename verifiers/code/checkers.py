"""Is the output right? Comparison of what a program printed with what was expected. Pure functions of two texts.

Named checkers follow testlib's: `tokens` (wcmp), `lines` (lcmp), `exact` (fcmp), `float` (rcmp), `yesno` (nyesno). All split at
ASCII white space only, and none takes a prefix, a set or a NaN for the answer. `Float(abs_tol, rel_tol)`, a `Program` or a
function `f(input, output, expected) -> bool | float` (or its import string) does what no named checker can.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from guerdon.errors import ConfigError

__all__ = ["CHECKERS", "Checker", "Exact", "Float", "Lines", "Program", "Tokens", "compare"]

_SPACE = " \t\n\r\v\f"
_INT = re.compile(r"[+-]?[0-9]+").fullmatch
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?").fullmatch


@dataclass(frozen=True, slots=True)
class Tokens:
    """Equal words in equal order and number.

    `by_line`: the line structure must agree too, after blank ends of lines and of the text are dropped. `ignore_case`: ASCII case
    does not count. `numbers`: "text" compares words as written; "exact" also takes numbers of exactly equal value (1.0 for 1,
    Decimal arithmetic); "close" also takes numbers within `abs_tol`, or `rel_tol` of the expected one, but two whole numbers must
    be equal. A NaN or an infinity equals only the same word. `any_order`: words or lines as a multiset.
    """

    by_line: bool = False
    ignore_case: bool = False
    numbers: Literal["text", "exact", "close"] = "text"
    abs_tol: float = 0.0
    rel_tol: float = 0.0
    any_order: Literal["", "tokens", "lines"] = ""

    def __post_init__(self) -> None:
        for name in ("abs_tol", "rel_tol"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ConfigError(f"Tokens: {name} must be finite and at least 0, got {value!r}")
        if self.numbers not in ("text", "exact", "close") or self.any_order not in ("", "tokens", "lines"):
            raise ConfigError(f"Tokens: unknown numbers={self.numbers!r} or any_order={self.any_order!r}")
        if self.any_order and self.numbers != "text":
            raise ConfigError("Tokens: any_order compares words as written; leave numbers='text'")

    def __call__(self, output: str, expected: str) -> bool:
        if self.ignore_case:
            output, expected = _lower(output), _lower(expected)
        if self.any_order == "tokens":
            return Counter(_words(output)) == Counter(_words(expected))
        if self.any_order == "lines":
            return _multiset(output) == _multiset(expected)
        if self.by_line:
            got, wanted = _line_words(output), _line_words(expected)
            return len(got) == len(wanted) and all(self._same_words(g, w) for g, w in zip(got, wanted, strict=True))
        return self._same_words(_words(output), _words(expected))

    def _same_words(self, got: list[str], wanted: list[str]) -> bool:
        if len(got) != len(wanted):
            return False
        return got == wanted or (self.numbers != "text" and all(map(self._same_word, got, wanted)))

    def _same_word(self, got: str, wanted: str) -> bool:
        if got == wanted:
            return True
        if not (_NUMBER(got) and _NUMBER(wanted)):
            return False
        if _INT(got) and _INT(wanted):
            return _whole(got) == _whole(wanted)
        return _equal(got, wanted) if self.numbers == "exact" else _close(float(got), float(wanted), self.abs_tol, self.rel_tol)


def Float(abs_tol: float = 1e-6, rel_tol: float = 1e-6) -> Tokens:
    """Words, with numbers within `abs_tol` or `rel_tol` of the expected one."""
    return Tokens(numbers="close", abs_tol=abs_tol, rel_tol=rel_tol)


@dataclass(frozen=True, slots=True)
class Lines:
    """Equal lines; blanks at the ends of lines and blank lines at the end do not count."""

    def __call__(self, output: str, expected: str) -> bool:
        return _lines(output) == _lines(expected)


@dataclass(frozen=True, slots=True)
class Exact:
    """Equal text, to the byte."""

    def __call__(self, output: str, expected: str) -> bool:
        return output == expected


@dataclass(frozen=True, slots=True)
class Program:
    """A checker program in a jail of its own: `checker input.txt output.txt answer.txt`, testlib exit codes.

    0 accepts, 1 and 2 reject, 7 gives the points it prints as `points 0.5` (or `partially correct (50)`, in percent); 3, any other
    code, and a checker that overruns or dies is a broken checker: ERROR.
    """

    source: str
    language: str = "python"
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source.strip():
            raise ConfigError("Program: source must be the checker's source text; read the file first")


Checker = Tokens | Lines | Exact | Program | Callable[[str, str, str], Any]

CHECKERS: dict[str, Tokens | Lines | Exact] = {
    "tokens": Tokens(),
    "lines": Lines(),
    "exact": Exact(),
    "float": Float(),
    "yesno": Tokens(ignore_case=True),
    "unordered_tokens": Tokens(any_order="tokens"),
    "unordered_lines": Tokens(any_order="lines"),
    # Line by line, words by exact decimal value, as in LiveCodeBench's own checker. It also takes Unicode digits and non-breaking
    # spaces; here both are other words.
    "livecodebench": Tokens(by_line=True, numbers="exact"),
    # APPS tries lines, then tokens, then numpy.allclose, then sets of lines and of words rounded to three decimals. Here lines and
    # floats to 1e-6, whole numbers exactly; not the sets, by which an unsorted echo solves a sorting problem.
    "apps": Tokens(by_line=True, numbers="close", abs_tol=1e-6, rel_tol=1e-6),
    # Words without regard to case, numbers to 1e-5. The data set's own rule is not published in full: this is the usual reading.
    "code_contests": Tokens(ignore_case=True, numbers="close", abs_tol=1e-5, rel_tol=1e-5),
}


def compare(checker: Tokens | Lines | Exact, output: bytes, expected: str) -> bool:
    """Whether the bytes a program printed are the expected text. Bytes that are not UTF-8 equal no text.

    >>> compare(CHECKERS["tokens"], b"1  2\\r\\n", "1 2"), compare(CHECKERS["tokens"], b"2 1", "1 2")
    (True, False)
    """
    return checker(output.decode("utf-8", "surrogateescape"), expected)


def _lower(text: str) -> str:
    return text.translate(_ASCII_LOWER)


_ASCII_LOWER = {c: c + 32 for c in range(65, 91)}


def _words(text: str) -> list[str]:
    """Split at ASCII white space: str.split also splits at U+00A0 and its like. Spaces in a row cost no regular expression."""
    for space in _SPACE[1:]:
        text = text.replace(space, " ")
    return [word for word in text.split(" ") if word]


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(_SPACE) for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _line_words(text: str) -> list[list[str]]:
    return [_words(line) for line in _lines(text.strip(_SPACE))]


def _multiset(text: str) -> Counter[tuple[str, ...]]:
    return Counter(tuple(_words(line)) for line in _lines(text))


def _whole(text: str) -> str:
    """A whole number in normal form. As text: int() refuses 4,300 digits, and takes quadratic time."""
    digits = text.lstrip("+-").lstrip("0")
    return ("-" if text.startswith("-") and digits else "") + digits


def _equal(got: str, wanted: str) -> bool:
    if len(got) > 400 or len(wanted) > 400:
        return False
    try:
        return Decimal(got) == Decimal(wanted)
    except InvalidOperation:
        return False


def _close(got: float, wanted: float, abs_tol: float, rel_tol: float) -> bool:
    """Written so that a NaN fails. The tolerance scales with the expected value only."""
    if not (math.isfinite(got) and math.isfinite(wanted)):
        return False
    return abs(got - wanted) <= max(abs_tol, rel_tol * abs(wanted))
