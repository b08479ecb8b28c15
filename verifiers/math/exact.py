"""Exact rational arithmetic on text: `12+41`, `1.5*10^3`, `\\frac{3}{4}`, `2\\frac{1}{2}`, `1/2004!`.

A bounded recursive descent over numbers, + - * / ^ !, brackets and \\frac; no floats, no eval, no sympy. Whatever else the
text holds, and whatever would get too large to compute, is not decided here (None) - except that a number whose size provably
exceeds 2**70000 is HUGE: it differs from every number computed exactly, and no worker has to be killed over it.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

__all__ = ["HUGE", "rational"]

HUGE = math.inf
_BITS, _HUGE_BITS = 1 << 15, 70_000
"""Exact values stay under 2**32768 (enough for 1/2006!); sums of a text's worth of them stay far under HUGE."""
_TOKENS, _DEPTH, _DIGITS = 200, 40, 4_000

_TOKEN = re.compile(
    r"\s*(?:(\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?|(\\frac|\*\*|[-+*/^!(){}]))", re.ASCII
)
_MIXED = re.compile(r"([-+]?)\s*(\d{1,9})\s+(\d{1,9})\s*/\s*(\d{1,9})", re.ASCII)
_REPEATING = re.compile(r"([-+]?)(\d{0,99})\.(\d{0,99})\\(?:overline|bar|dot) ?\{?(\d{1,99})\}?", re.ASCII)

Value = Fraction | float


class _Undecided(Exception):
    pass


def rational(text: str) -> Value | None:
    """The value of an arithmetic text: a Fraction, HUGE or -HUGE, or None when it is anything else.

    >>> rational("1,234.5"), rational("0.1\\\\overline{6}"), rational("9^{9^9}"), rational("2\\\\pi")
    (Fraction(2469, 2), Fraction(1, 6), inf, None)
    """
    if mixed := _MIXED.fullmatch(text):
        sign, whole, top, bottom = mixed[1], *(int(g) for g in mixed.groups()[1:])
        return (Fraction(top, bottom) + whole) * (-1 if sign == "-" else 1) if 0 < top < bottom else None
    if repeating := _REPEATING.fullmatch(text):
        sign, before, after, period = repeating.groups()
        tail = Fraction(int(period), int("9" * len(period)))
        return (int(before + after or "0") + tail) / int("1" + "0" * len(after)) * (-1 if sign == "-" else 1)
    try:
        parser = _Parser(_tokens(text))
        value = parser.sum(0)
        return value if parser.at == len(parser.tokens) else None
    except (_Undecided, ZeroDivisionError):
        return None


def _tokens(text: str) -> list[str | Fraction]:
    found: list[str | Fraction] = []
    at, end, bracketed = 0, len(text.rstrip()), "(" in text
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or len(found) >= _TOKENS:
            raise _Undecided
        at, (number, power, mark) = token.end(), token.groups()
        if mark:
            found.append("^" if mark == "**" else mark)
            continue
        pair = "," in number and (bracketed or number.startswith("0"))  # (1,234), 0,123
        if pair or len(number) > _DIGITS or (power and abs(int(power[1:])) > _DIGITS):
            raise _Undecided
        found.append(Fraction(number.replace(",", "") + (power or "")))
    return found


class _Parser:
    def __init__(self, tokens: list[str | Fraction]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self) -> str | Fraction | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, *marks: str) -> str | None:
        token = self.peek()
        if isinstance(token, str) and token in marks:
            self.at += 1
            return token
        return None

    def expect(self, mark: str) -> None:
        if self.take(mark) is None:
            raise _Undecided

    def sum(self, depth: int) -> Value:
        if depth > _DEPTH:
            raise _Undecided
        value = self.product(depth)
        while mark := self.take("+", "-"):
            other = self.product(depth)
            value = _add(value, other if mark == "+" else -other)
        return value

    def product(self, depth: int) -> Value:
        value = self.signed(depth)
        while True:
            if mark := self.take("*", "/"):
                value = (_times if mark == "*" else _over)(value, self.signed(depth))
            elif self.peek() in ("(", "\\frac"):
                value = _times(value, self.power(depth))
            else:
                return value

    def signed(self, depth: int) -> Value:
        negative = False
        while mark := self.take("-", "+"):
            negative ^= mark == "-"
        value = self.power(depth)
        return -value if negative else value

    def power(self, depth: int) -> Value:
        if depth > _DEPTH:
            raise _Undecided
        value = self.atom(depth)
        while self.take("!"):
            value = _factorial(value)
        if self.take("^"):  # binds to the right: 2^{3^4}
            negative = bool(self.take("-"))
            exponent = self.power(depth + 1)
            value = _power(value, -exponent if negative else exponent)
        return value

    def atom(self, depth: int) -> Value:
        token = self.peek()
        self.at += 1
        if isinstance(token, Fraction):
            return self.mixed(token, depth) if self.peek() == "\\frac" else token
        if token in ("(", "{"):
            value = self.sum(depth + 1)
            self.expect(")" if token == "(" else "}")
            return value
        if token == "\\frac":
            return _over(self.argument(depth), self.argument(depth))
        raise _Undecided

    def mixed(self, whole: Fraction, depth: int) -> Value:
        """`2\\frac{1}{2}`: read as two and a half; with an improper fraction it could be meant as a product."""
        self.at += 1
        top, bottom = self.argument(depth), self.argument(depth)
        if whole.denominator != 1 or not isinstance(top, Fraction) or not isinstance(bottom, Fraction) or not 0 < top < bottom:
            raise _Undecided
        return whole + top / bottom

    def argument(self, depth: int) -> Value:
        """A braced group, or TeX's single digit: `\\frac12`, `\\frac{1}2`; the normal form has split `12` into `1 2`."""
        token = self.peek()
        if isinstance(token, Fraction) and token.denominator == 1 and token < 10:
            self.at += 1
            return token
        self.expect("{")
        value = self.sum(depth + 1)
        self.expect("}")
        return value


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > _BITS or value.denominator.bit_length() > _BITS:
        raise _Undecided
    return value


def _add(a: Value, b: Value) -> Value:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return _checked(a + b)
    if isinstance(a, float) and isinstance(b, float) and a != b:
        raise _Undecided  # HUGE - HUGE
    return a if isinstance(a, float) else b


def _times(a: Value, b: Value) -> Value:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return _checked(a * b)
    if -1 < a < 1 or -1 < b < 1:
        raise _Undecided
    return HUGE if (a > 0) == (b > 0) else -HUGE


def _over(a: Value, b: Value) -> Value:
    if not isinstance(a, Fraction) or not isinstance(b, Fraction):
        raise _Undecided
    return _checked(a / b)


def _factorial(n: Value) -> Value:
    if n < 0 or (isinstance(n, Fraction) and n.denominator != 1):
        raise _Undecided
    if n > 8_000:  # 8000! has 92,180 bits
        return HUGE
    if n > 3_000:
        raise _Undecided
    return Fraction(math.factorial(int(n)))


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(base, Fraction) and abs(base) in (0, 1):
        if isinstance(exponent, Fraction) and exponent.denominator == 1 and abs(exponent) < 1_000_000 and (base or exponent > 0):
            return base ** int(exponent)
        raise _Undecided
    if isinstance(exponent, float) or isinstance(base, float):
        if base >= 2 and exponent >= 1:
            return HUGE
        raise _Undecided
    if exponent.denominator != 1:
        raise _Undecided
    times = abs(exponent.numerator)
    if times * max(base.numerator.bit_length(), base.denominator.bit_length()) <= _BITS:
        return Fraction(base**exponent.numerator)
    if base >= 2 and exponent > 0 and times * (math.floor(base).bit_length() - 1) > _HUGE_BITS:
        return HUGE
    raise _Undecided
