"""Numbers too large to write: bounds on the logarithm of a value tell `100000!` from 1 and `9^{9^9}` from `10^{10^{10}}`.

`differ_in_size` is True only when the two bounds do not meet. Nothing is ever found equal here.
"""

from __future__ import annotations

import math
from fractions import Fraction

from guerdon.verifiers.math.engine.nodes import Node, negated

__all__ = ["differ_in_size"]

Bounds = tuple[float, float]
"""Natural logarithm of a positive value, from below and above."""
_SLACK = 1e-9


def _widen(low: float, high: float) -> Bounds:
    return low - abs(low) * _SLACK - _SLACK, high + abs(high) * _SLACK + _SLACK


def _log(node: Node) -> Bounds | None:
    """Bounds for a value known to be positive."""
    kind, args = node.kind, node.args
    if kind in ("num", "dec"):
        value: Fraction = node.value if kind == "num" else node.value[0]
        return _widen(*(2 * (math.log(value.numerator) - math.log(value.denominator),))) if value > 0 else None
    if kind == "const":
        return {"pi": _widen(math.log(math.pi), math.log(math.pi)), "e": (1.0, 1.0)}.get(node.value)
    if kind == "pow":
        return _log_power(_log(args[0]), args[1])
    if kind == "root":
        bounds = _log(args[0])
        index = args[1].value if args[1].kind == "num" else 0
        return _widen(bounds[0] / float(index), bounds[1] / float(index)) if bounds and index else None
    if kind == "fn" and node.value in ("factorial", "binom"):
        return _log_combinatorial(node)
    if kind not in ("mul", "div", "add"):
        return None
    parts = [_log(arg) for arg in args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if kind == "mul":
        return _widen(sum(low for low, _ in known), sum(high for _, high in known))
    if kind == "div":
        return _widen(known[0][0] - known[1][1], known[0][1] - known[1][0])
    low, high = max(low for low, _ in known), max(high for _, high in known)
    return _widen(low, high + math.log(len(known)))


def _log_power(base: Bounds | None, exponent: Node) -> Bounds | None:
    if exponent.kind == "neg":
        bounds = _log_power(base, exponent.args[0])
        return (-bounds[1], -bounds[0]) if bounds else None
    power = _log(exponent)
    if base is None or power is None or base[0] < 0:
        return None
    low, high = (math.exp(min(edge, 700.0)) for edge in power)
    return _widen(base[0] * low, base[1] * high if power[1] < 700 else math.inf)


def _log_combinatorial(node: Node) -> Bounds | None:
    arguments = [_log(arg) for arg in node.args]
    if any(bounds is None or not bounds[0] >= 0 for bounds in arguments):
        return None
    low, high = (math.exp(min(edge, 600.0)) for edge in arguments[0] or (0.0, 0.0))
    if node.value == "factorial":
        return _widen(math.lgamma(low + 1) if low < 1e290 else 1e290, math.lgamma(high + 1) if high < 1e290 else math.inf)
    below, above = (math.exp(min(edge, 600.0)) for edge in arguments[1] or (0.0, 0.0))
    if high > 1e15 or above > low:
        return None
    n, k = (low + high) / 2, (below + above) / 2
    value = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    slack = 1e-6 * (math.lgamma(n + 1) + 1)
    return value - slack, value + slack


def _unsigned(node: Node) -> tuple[bool, Node]:
    negative = node.kind == "neg" or (node.kind == "num" and node.value < 0)
    return negative, negated(node) if negative else node


def differ_in_size(a: Node, b: Node) -> bool:
    """Whether two closed expressions certainly have different magnitudes.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> differ_in_size(read("100000!"), read("1")), differ_in_size(read("2^{2^{99}}"), read("4^{2^{98}}"))
    (True, False)
    """
    (minus, a), (other_minus, b) = _unsigned(a), _unsigned(b)
    try:
        left, right = _log(a), _log(b)
    except (OverflowError, ValueError):
        return False
    if (left is None) != (right is None):
        return (b if right is None else a) == Node("num", (), Fraction(0))
    if left is None or right is None or math.isnan(sum(left) + sum(right)):
        return False
    if minus != other_minus:
        return True
    return left[1] < right[0] or right[1] < left[0]
