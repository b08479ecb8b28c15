"""Plain numbers, decided without a parser: most answers of most data sets. A microsecond each."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

__all__ = ["plain_number"]

_PLAIN = re.compile(
    r"\s*(\\text\{)?\s*\$?(?:([a-df-hj-zA-DF-HJ-Z])\s?=\s?)?([+-]?)\s?(?:(\d{1,15})|([1-9]\d{0,2}(?:,\d{3}){1,4}))(?:\.(\d{0,15}))?\$?\s*(?(1)\})\.?\s*"
)


class Plain(NamedTuple):
    """A number as written; `name` is "" without one, `places` and `digits` are -1 without a decimal point."""

    value: int | Fraction
    name: str = ""
    places: int = -1
    digits: int = -1


def plain_number(text: str) -> Plain | None:
    """The value of a plain number and the name before it; None for everything else.

    >>> plain_number("-1,234.50"), plain_number("x = 9"), plain_number("2x")
    (Plain(value=Fraction(-2469, 2), name='', places=2, digits=6), Plain(value=9, name='x', places=-1, digits=-1), None)
    """
    found = _PLAIN.fullmatch(text) if len(text) < 48 else None
    if found is None:
        return None
    _, name, sign, whole, grouped, decimals = found.groups()
    digits = whole or grouped.replace(",", "")
    value: int | Fraction = int(digits)
    if decimals and decimals.strip("0"):
        value = Fraction(int(digits + decimals), 10 ** len(decimals))
    if sign == "-":
        value = -value
    if not decimals:
        return Plain(value, name or "")
    return Plain(value, name or "", len(decimals), len((digits + decimals).lstrip("0")) or 1)
