"""Decimals that stand for exact values, by the precision they are written with.

A reference without a finite decimal accepts a decimal of at least four significant digits that rounds to it; a decimal reference of
at least three significant digits accepts an exact value that rounds to it. Integers, finite decimals and two decimals are compared exactly.
"""

from __future__ import annotations

from fractions import Fraction

from guerdon.verifiers.math.engine.exact import exact, is_terminating
from guerdon.verifiers.math.engine.floats import Beyond, approximate
from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.nodes import Node, symbols

__all__ = ["is_literal", "rounds_to", "same_by_rounding"]

_CANDIDATE_DIGITS = 4
_REFERENCE_DIGITS = 3
_DOUBLE_DIGITS = 15
"""From here on a decimal may be a printed double, whose last digit is not a rounding."""


def is_literal(node: Node) -> bool:
    """A number as written: digits, perhaps with a point."""
    return node.kind in ("num", "dec") or (node.kind == "neg" and is_literal(node.args[0]))


def same_by_rounding(answer: Node, candidate: Node) -> bool:
    """Whether one side is a decimal for the other, exact one.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> same_by_rounding(read("\\\\frac{600}{7}"), read("85.71")), same_by_rounding(read("\\\\frac{1}{8}"), read("0.1250001"))
    (True, False)
    >>> same_by_rounding(read("33.3"), read("\\\\frac{100}{3}")), same_by_rounding(read("3.3"), read("\\\\frac{10}{3}"))
    (True, False)
    """
    if is_literal(answer) == is_literal(candidate):
        return False
    if candidate.kind == "dec":
        value = exact(answer) if not symbols(answer) else None
        return candidate.value[2] >= _CANDIDATE_DIGITS and (value is None or not is_terminating(value)) and rounds_to(answer, candidate)
    written = answer.kind == "dec" and answer.value[2] >= _REFERENCE_DIGITS and answer.value[0].denominator != 1  # 12.0 is an integer
    return written and rounds_to(candidate, answer)


def rounds_to(node: Node, decimal: Node) -> bool:
    """Whether a closed value, rounded as the decimal is written, gives the decimal."""
    written, places, digits = decimal.value
    value = _valued(node, digits)
    if value is None:
        return False
    ulp = Fraction(10) ** -places if abs(places) < 5_000 else Fraction(0)
    return bool(abs(value - written) <= (ulp if digits >= _DOUBLE_DIGITS else ulp / 2))


def _valued(node: Node, digits: int) -> Fraction | None:
    """The value of a closed real expression to somewhat more than `digits` digits."""
    if symbols(node):
        return None
    try:
        value = exact(node)
        if value is not None:
            return value
        if digits <= 10:
            number, error = approximate(node, {}, True)
            return Fraction(number.real) if not number.imag and error < 1e-12 * abs(number) else None
        return _precise_value(node, 64 + 4 * digits)
    except (Beyond, Undefined, OverflowError, ValueError):
        return None


def _precise_value(node: Node, bits: int) -> Fraction | None:
    from guerdon.verifiers.math.engine.precise import Precise

    if bits > 2_000:
        return None
    real, imaginary = Precise({}, True, bits).of(node)
    sign, mantissa, exponent, _ = real
    if imaginary[1]:
        return None
    size = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -size if sign else size
