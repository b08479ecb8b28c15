"""Exact rational values, within a cap on bits.

`exact(node)` is the value of a closed expression as a Fraction, or None when it is irrational, complex, too large or not a number.
Raises Undefined for a division by exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from guerdon.verifiers.math.engine.limits import MAX_BITS, MAX_FACTORIAL, Undefined
from guerdon.verifiers.math.engine.nodes import Node

__all__ = ["Exact", "exact", "exact_root", "is_terminating"]

_ZERO = Fraction(0)
_ONE = Fraction(1)


class Exact(Exception):
    """Not a rational number this module can hold."""


def exact(node: Node, values: Mapping[str, Fraction] | None = None) -> Fraction | None:
    """The exact value, symbols taken from `values`.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> exact(read("\\\\frac{2^{10}}{4!}")), exact(read("\\\\sqrt{2}")), exact(read("2^{2^{99}}"))
    (Fraction(128, 3), None, None)
    """
    try:
        return _value(node, values or {})
    except (Exact, OverflowError):
        return None


def _value(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    kind = node.kind
    if kind == "num":
        return node.value  # type: ignore[no-any-return]
    if kind == "dec":
        return node.value[0]  # type: ignore[no-any-return]
    if kind == "sym":
        if node.value in values:
            return values[node.value]
        raise Exact
    rule = _RULES.get(kind)
    if rule is None:
        raise Exact
    return rule(node, values)


def _small(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise Exact
    return value


def _add(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    total = _ZERO
    for arg in node.args:
        total += _value(arg, values)
    return _small(total)


def _mul(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    total = _ONE
    for arg in node.args:
        total = _small(total * _value(arg, values))
    return total


def _div(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    top, bottom = _value(node.args[0], values), _value(node.args[1], values)
    if not bottom:
        raise Undefined
    return _small(top / bottom)


def _neg(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    return -_value(node.args[0], values)


def _percent(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    return _value(node.args[0], values) / 100


def _pow(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    base, power = _value(node.args[0], values), _value(node.args[1], values)
    if power.denominator != 1:
        if power.denominator > 64:
            raise Exact
        base, power = exact_root(base, power.denominator), Fraction(power.numerator)
    if base in (0, 1) and (base or power > 0):
        return base
    if base == -1:
        return _ONE if power.numerator % 2 == 0 else -_ONE
    if not base and power <= 0:
        raise Undefined
    if abs(power) * max(base.numerator.bit_length(), base.denominator.bit_length()) > MAX_BITS:
        raise Exact
    return Fraction(base ** int(power))


def exact_root(value: Fraction, index: int) -> Fraction:
    """The real root if it is rational; gives up otherwise."""
    if value < 0:
        if index % 2 == 0:
            raise Exact
        return -exact_root(-value, index)
    return Fraction(_integer_root(value.numerator, index), _integer_root(value.denominator, index))


def _integer_root(value: int, index: int) -> int:
    if value < 2:
        return value
    if index == 2:
        root = math.isqrt(value)
    else:
        bits = value.bit_length()
        if bits > 4_096:
            raise Exact
        root = 1 << -(-bits // index)
        while True:  # Newton from above
            step = ((index - 1) * root + value // root ** (index - 1)) // index
            if step >= root:
                break
            root = step
    if root**index != value:
        raise Exact
    return root


def _root(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    index = _value(node.args[1], values)
    if index.denominator != 1 or not 2 <= index <= 64:
        raise Exact
    return exact_root(_value(node.args[0], values), int(index))


def _integer(value: Fraction, cap: int) -> int:
    if value.denominator != 1 or abs(value) > cap:
        raise Exact
    return value.numerator


def _fn(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    name = node.value
    if name not in ("abs", "factorial", "binom", "sgn", "Re"):
        raise Exact
    first = _value(node.args[0], values)
    if name == "abs":
        return abs(first)
    if name == "Re":
        return first
    if name == "sgn":
        return Fraction((first > 0) - (first < 0))
    n = _integer(first, MAX_FACTORIAL)
    if n < 0:
        raise Undefined
    if name == "factorial":
        return Fraction(math.factorial(n))
    k = _integer(_value(node.args[1], values), MAX_FACTORIAL)
    return Fraction(math.comb(n, k)) if k >= 0 else _ZERO


def _lazy(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    name, args = node.value, node.args
    if name in ("floor", "ceil") and len(args) == 1:
        value = _value(args[0], values)
        return Fraction(math.floor(value) if name == "floor" else math.ceil(value))
    if name in ("max", "min", "gcd", "lcm") and len(args) == 1 and args[0].kind in ("list", "set", "tuple"):
        members = [_value(arg, values) for arg in args[0].args]
        if name in ("max", "min"):
            return max(members) if name == "max" else min(members)
        whole = [_integer(member, 1 << 200) for member in members]
        return Fraction(math.gcd(*whole) if name == "gcd" else math.lcm(*whole))
    raise Exact


_RULES = {
    "add": _add, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow, "root": _root, "fn": _fn, "lazy": _lazy, "percent": _percent,
}  # fmt: skip


def is_terminating(value: Fraction) -> bool:
    """Whether the value has a finite decimal expansion of reasonable length.

    >>> is_terminating(Fraction(3, 40)), is_terminating(Fraction(1, 3))
    (True, False)
    """
    rest = value.denominator
    for factor in (2, 5):
        for _ in range(400):
            if rest % factor:
                break
            rest //= factor
    return rest == 1
