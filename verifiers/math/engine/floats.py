"""Complex floats with a running bound on their error: rejects in microseconds, never accepts.

A value is a pair (complex, absolute error). Over the reals a subexpression that leaves them (the root or the logarithm of a negative
number) makes the value Undefined at that point; with `i` in the expression principal values are taken.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.nodes import Node

__all__ = ["Approx", "Beyond", "approximate", "differ"]

Approx = tuple[complex, float]
_EPS = 2.3e-16


class Beyond(Exception):
    """Outside floats or not a number: another stage decides."""


def approximate(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    """The value at a point and a bound on its error. Raises Undefined where it does not exist and Beyond where floats end."""
    try:
        value = _value(node, values, real)
    except (OverflowError, ZeroDivisionError, ValueError):
        raise Beyond from None
    if not (abs(value[0]) < 1e300 and value[1] < 1e300):
        raise Beyond
    return value


def differ(a: Approx, b: Approx) -> bool:
    """Whether two values are certainly different."""
    return abs(a[0] - b[0]) > 8 * (a[1] + b[1]) + 1e-300


def _value(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    kind = node.kind
    if kind == "num":
        return _literal(node.value)
    if kind == "dec":
        return _literal(node.value[0])
    if kind == "sym":
        if node.value not in values:
            raise Beyond
        return _literal(values[node.value])
    if kind == "const":
        return _CONSTANTS[node.value] if node.value in _CONSTANTS else _beyond()
    rule = _RULES.get(kind)
    if rule is None:
        raise Beyond
    return rule(node, values, real)


def _beyond() -> Approx:
    raise Beyond


_CONSTANTS: dict[str, Approx] = {"pi": (complex(math.pi), _EPS * 4), "e": (complex(math.e), _EPS * 4), "i": (1j, 0.0)}


def _literal(value: Fraction) -> Approx:
    number = value.numerator / value.denominator if value.denominator != 1 else float(value.numerator)
    return complex(number), abs(number) * _EPS + (1e-300 if not number and value else 0.0)


def _add(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    total, error = 0j, 0.0
    for arg in node.args:
        value, bound = _value(arg, values, real)
        total += value
        error += bound + abs(total) * _EPS
    return total, error


def _mul(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    total, error = _value(node.args[0], values, real)
    for arg in node.args[1:]:
        value, bound = _value(arg, values, real)
        error = abs(total) * bound + abs(value) * error + error * bound + abs(total * value) * 4 * _EPS
        total *= value
    return total, error


def _div(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    top, top_error = _value(node.args[0], values, real)
    bottom, bottom_error = _value(node.args[1], values, real)
    if abs(bottom) <= 2 * bottom_error:
        if bottom_error == 0.0 or abs(bottom) == 0.0:
            raise Undefined
        raise Beyond
    quotient = top / bottom
    return quotient, (top_error + abs(quotient) * bottom_error) / (abs(bottom) - bottom_error) + abs(quotient) * 4 * _EPS


def _neg(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    value, error = _value(node.args[0], values, real)
    return -value, error


def _percent(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    value, error = _value(node.args[0], values, real)
    return value / 100, error / 100 + abs(value) * _EPS


def _pow(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    exponent = node.args[1]
    base, error = _value(node.args[0], values, real)
    if exponent.kind == "num" and exponent.value.denominator == 1:
        return _integer_power(base, error, int(exponent.value))
    if exponent.kind in ("div", "num", "neg", "dec") and real and base.real < 0:
        ratio = _odd_ratio(exponent)
        if ratio is not None:  # (-8)^{1/3} is -2 over the reals
            root, bound = _power(-base, error, complex(float(ratio)), abs(float(ratio)) * _EPS)
            return (-root if ratio.numerator % 2 else root), bound
    power, power_error = _value(exponent, values, real)
    if power.imag == 0 and power.real == int(power.real) and abs(power.real) < 1e6 and power_error <= abs(power.real) * _EPS:
        return _integer_power(base, error, int(power.real))
    if real and (base.real < 0 or base.imag):
        raise Undefined
    return _power(base, error, power, power_error)


def _odd_ratio(exponent: Node) -> Fraction | None:
    from guerdon.verifiers.math.engine.exact import exact

    ratio = exact(exponent)
    return ratio if ratio is not None and ratio.denominator % 2 else None


def _integer_power(base: complex, error: float, power: int) -> Approx:
    if power < 0 and abs(base) <= 2 * error:
        if base == 0:
            raise Undefined
        raise Beyond
    if base == 0:
        if power == 0:
            raise Undefined
        return 0j, error**power if error else 0.0
    value = base**power
    return value, abs(value) * abs(power) * (error / abs(base) * 1.1 + 4 * _EPS)


def _power(base: complex, error: float, power: complex, power_error: float) -> Approx:
    if abs(base) <= 2 * error:
        raise Beyond
    value = base**power
    log = abs(cmath.log(base))
    return value, abs(value) * (abs(power) * error / (abs(base) - error) + log * power_error + (4 + abs(power) * log) * 2 * _EPS)


def _root(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    index = node.args[1]
    base, error = _value(node.args[0], values, real)
    if index.kind != "num" or index.value.denominator != 1 or index.value < 1:
        power, power_error = _value(index, values, real)
        if power == 0:
            raise Undefined
        if real and base.real < 0:
            raise Undefined
        return _power(base, error, 1 / power, (power_error / abs(power) + 2 * _EPS) / abs(power))
    n = int(index.value)
    negative = real and base.real < 0
    if negative and abs(base) <= 2 * error:
        raise Beyond
    if negative and n % 2 == 0:
        raise Undefined
    if abs(base) <= 2 * error:
        if base == 0 and error == 0:
            return 0j, 0.0
        raise Beyond
    value = cmath.sqrt(base) if n == 2 else -((-base) ** (1 / n)) if negative else base ** (1 / n)
    return value, abs(value) * (error / (abs(base) - error) + 8 * _EPS)


def _real_log(argument: complex, error: float, real: bool) -> Approx:
    if argument == 0:
        raise Undefined
    if abs(argument) <= 2 * error:
        raise Beyond
    if real and argument.real < 0:
        raise Undefined
    value = cmath.log(argument)
    return value, error / (abs(argument) - error) + abs(value) * 2 * _EPS


def _fn(node: Node, values: Mapping[str, Fraction], real: bool) -> Approx:
    name = node.value
    if name in ("factorial", "binom"):
        raise Beyond
    argument, error = _value(node.args[0], values, real)
    if name == "log" and len(node.args) == 2:
        top, top_error = _real_log(argument, error, real)
        base, base_error = _real_log(*_value(node.args[1], values, real), real)
        if abs(base) <= 2 * base_error:
            raise Undefined
        value = top / base
        return value, (top_error + abs(value) * base_error) / (abs(base) - base_error) + abs(value) * 4 * _EPS
    if name in ("ln", "log", "lg"):
        value, bound = _real_log(argument, error, real)
        scale = math.log(10) if name == "lg" else 1.0
        return value / scale, bound / scale + abs(value) * _EPS
    if name == "abs":
        return complex(abs(argument)), error
    return _smooth(name, argument, error, real)


def _smooth(name: str, argument: complex, error: float, real: bool) -> Approx:
    """Functions bounded by a difference: the error moves the value by at most twice what a small step does."""
    function = _FUNCTIONS.get(name)
    if function is None or abs(argument) > 1e8:
        raise Beyond
    if real and name in ("arcsin", "arccos"):
        if abs(argument.real) > 1 + 4 * error:
            raise Undefined
        if abs(argument.real) > 1 - 1e-6:
            raise Beyond
    value = function(argument)
    step = max(error, abs(argument) * _EPS, 1e-300)
    slope = abs(function(argument + 1e-6) - value) / 1e-6 + abs(function(argument - 1e-6) - value) / 1e-6
    if (abs(value) > 1e8 and name != "exp") or (slope > 1e12 and name != "exp"):
        raise Beyond
    return value, 2 * (slope + abs(value)) * step + abs(value) * 8 * _EPS


def _reciprocal(function: Callable[[complex], complex]) -> Callable[[complex], complex]:
    return lambda argument: 1 / function(argument)


_FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "exp": cmath.exp, "sinh": cmath.sinh, "cosh": cmath.cosh, "tanh": cmath.tanh,
    "arcsin": cmath.asin, "arccos": cmath.acos, "arctan": cmath.atan, "sec": _reciprocal(cmath.cos), "csc": _reciprocal(cmath.sin),
    "cot": _reciprocal(cmath.tan), "coth": _reciprocal(cmath.tanh), "arccot": lambda z: math.pi / 2 - cmath.atan(z),
}  # fmt: skip
_RULES = {"add": _add, "mul": _mul, "div": _div, "neg": _neg, "pow": _pow, "root": _root, "fn": _fn, "percent": _percent}
