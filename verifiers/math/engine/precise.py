"""Values to any number of bits: what floats could not tell apart.

Every value comes with the largest and smallest magnitude met among the terms of sums below it; precision follows that spread, so that
a tiny term beside a huge one is never lost. mpmath's function layer is used without its contexts: no global state, safe in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from guerdon.verifiers.math.engine.floats import Beyond
from guerdon.verifiers.math.engine.limits import MAX_PRECISION, MAX_WORK, Undefined
from guerdon.verifiers.math.engine.nodes import Node, size_of

__all__ = ["Precise", "agree"]

Number = Any
"""An mpc of mpmath.libmp: a pair of mpf tuples."""
_MAGNITUDE = 3_000
"""Bits of the largest power evaluated."""


@lru_cache(maxsize=1)
def _library() -> Any:
    """mpmath's function layer, its constants computed once at full length.

    It keeps a constant's digits and their number in two variables, written one after the other: a thread between them would read
    a wrong pi. With all digits there from the start nothing is written again.
    """
    import mpmath.libmp as lib

    for constant in (lib.mpf_pi, lib.mpf_e, lib.mpf_ln2, lib.mpf_ln10):
        constant(MAX_PRECISION + 1_000)
    return lib


def magnitude(value: Number) -> int | None:
    """The exponent of a value in bits; None for zero."""
    sizes = [part[2] + part[3] for part in value if part[1]]
    return max(sizes) if sizes else None


class Precise:
    """An evaluation at one point and precision. `low` and `high` bound the magnitudes (in bits) of all terms met."""

    def __init__(self, values: Mapping[str, Fraction], real: bool, bits: int) -> None:
        lib = _library()
        self.lib, self.values, self.real, self.bits = lib, values, real, bits
        self.low = self.high = 0
        self.zero = (lib.fzero, lib.fzero)
        self.one = (lib.fone, lib.fzero)

    def note(self, value: Number) -> None:
        size = magnitude(value)
        if size is not None:
            self.low, self.high = min(self.low, size), max(self.high, size)
            if self.high - self.low > _MAGNITUDE:
                raise Beyond

    def literal(self, value: Fraction) -> Number:
        return (self.lib.from_rational(value.numerator, value.denominator, self.bits), self.lib.fzero)

    def of(self, node: Node) -> Number:
        """The value of a tree."""
        kind = node.kind
        if kind == "num":
            return self.literal(node.value)
        if kind == "dec":
            return self.literal(node.value[0])
        if kind == "sym":
            if node.value not in self.values:
                raise Beyond
            return self.literal(self.values[node.value])
        if kind == "const":
            return self.constant(node.value)
        rule = getattr(self, f"on_{kind}", None)
        if rule is None:
            raise Beyond
        return rule(node)

    def constant(self, name: str) -> Number:
        lib = self.lib
        if name == "pi":
            return (lib.mpf_pi(self.bits), lib.fzero)
        if name == "e":
            return (lib.mpf_e(self.bits), lib.fzero)
        if name == "i":
            return (lib.fzero, lib.fone)
        raise Beyond

    def on_add(self, node: Node) -> Number:
        total = self.zero
        for arg in node.args:
            value = self.of(arg)
            self.note(value)
            total = self.lib.mpc_add(total, value, self.bits)
        return self.settled(total)

    def settled(self, value: Number) -> Number:
        """A sum far below its terms is zero at this precision; what follows from its digits would be noise."""
        size = magnitude(value)
        if size is not None and size < self.high - self.bits * 3 // 4 and size < self.low - self.bits // 2:
            return self.zero
        return value

    def on_mul(self, node: Node) -> Number:
        total = self.one
        for arg in node.args:
            total = self.lib.mpc_mul(total, self.of(arg), self.bits)
        return total

    def on_neg(self, node: Node) -> Number:
        return self.lib.mpc_neg(self.of(node.args[0]))

    def on_percent(self, node: Node) -> Number:
        return self.lib.mpc_mul(self.of(node.args[0]), self.literal(Fraction(1, 100)), self.bits)

    def on_div(self, node: Node) -> Number:
        bottom = self.of(node.args[1])
        if bottom == self.zero:
            raise Undefined
        return self.lib.mpc_div(self.of(node.args[0]), bottom, self.bits)

    def on_pow(self, node: Node) -> Number:
        from guerdon.verifiers.math.engine.exact import exact

        base = self.of(node.args[0])
        exponent = exact(node.args[1], self.values)
        if exponent is not None:
            return self.rational_power(base, exponent)
        power = self.of(node.args[1])
        if base == self.zero:
            raise Undefined
        if self.real and base[0][0]:
            raise Undefined
        size = magnitude(power) or 0
        if size > 11:
            raise Beyond
        return self.noted(self.lib.mpc_pow(base, power, self.bits))

    def noted(self, value: Number) -> Number:
        self.note(value)
        return value

    def rational_power(self, base: Number, power: Fraction) -> Number:
        if base == self.zero:
            if power <= 0:
                raise Undefined
            return self.zero
        size = magnitude(base) or 0
        if max(abs(size), abs(size - 1)) * abs(power) > 2 * _MAGNITUDE:
            raise Beyond
        if power.denominator == 1:
            return self.noted(self.lib.mpc_pow_int(base, int(power), self.bits))
        root = self.nth_root(base, power.denominator)
        return self.noted(self.lib.mpc_pow_int(root, power.numerator, self.bits))

    def nth_root(self, base: Number, n: int) -> Number:
        if base == self.zero:
            return self.zero
        if self.real and base[0][0]:
            if n % 2 == 0:
                raise Undefined
            return self.lib.mpc_neg(self.nth_root(self.lib.mpc_neg(base), n))
        if n > 200:
            raise Beyond
        return self.lib.mpc_sqrt(base, self.bits) if n == 2 else self.lib.mpc_nthroot(base, n, self.bits)

    def on_root(self, node: Node) -> Number:
        index = node.args[1]
        if index.kind == "num" and index.value.denominator == 1 and index.value > 0:
            return self.nth_root(self.of(node.args[0]), int(index.value))
        return self.on_pow(Node("pow", (node.args[0], Node("div", (Node("num", (), Fraction(1)), index)))))

    def log(self, value: Number) -> Number:
        if value == self.zero or (self.real and value[0][0]):
            raise Undefined
        return self.lib.mpc_log(value, self.bits)

    def on_fn(self, node: Node) -> Number:
        name, lib = node.value, self.lib
        argument = self.of(node.args[0])
        if name == "abs":
            return (lib.mpc_abs(argument, self.bits), lib.fzero)
        if name in ("ln", "log", "lg"):
            top = self.log(argument)
            if name == "ln" or (name == "log" and len(node.args) == 1):
                return top
            bottom = self.log(self.literal(Fraction(10)) if name == "lg" else self.of(node.args[1]))
            if bottom == self.zero:
                raise Undefined
            return lib.mpc_div(top, bottom, self.bits)
        if (magnitude(argument) or 0) > (11 if name in ("exp", "sinh", "cosh", "tanh", "coth") else 64):
            raise Beyond
        value = self.smooth(name, argument)
        return self.noted(value) if name in ("exp", "sinh", "cosh") else value

    def smooth(self, name: str, argument: Number) -> Number:
        lib, bits = self.lib, self.bits
        direct: dict[str, Callable[..., Number]] = {
            "sin": lib.mpc_sin, "cos": lib.mpc_cos, "tan": lib.mpc_tan, "exp": lib.mpc_exp, "sinh": lib.mpc_sinh, "cosh": lib.mpc_cosh,
            "tanh": lib.mpc_tanh, "arctan": lib.mpc_atan,
        }  # fmt: skip
        if name in direct:
            return direct[name](argument, bits)
        inverse = {"sec": "cos", "csc": "sin", "cot": "tan", "coth": "tanh"}.get(name)
        if inverse is not None:
            bottom = self.settled(direct[inverse](argument, bits))
            if bottom == self.zero:
                raise Undefined
            return lib.mpc_div(self.one, bottom, bits)
        if name in ("arcsin", "arccos"):
            value = (lib.mpc_asin if name == "arcsin" else lib.mpc_acos)(argument, bits)
            if self.real and value[1][1] and (magnitude((lib.fzero, value[1])) or 0) > -bits // 2:
                raise Undefined
            return (value[0], lib.fzero) if self.real else value
        if name == "arccot":
            half = (lib.mpf_shift(lib.mpf_pi(bits), -1), lib.fzero)
            return lib.mpc_sub(half, lib.mpc_atan(argument, bits), bits)
        raise Beyond


Evaluated = tuple[Number, int, int]
PointKey = tuple[tuple[str, Fraction], ...]


@lru_cache(maxsize=256)
def _evaluated(node: Node, point: PointKey, real: bool, bits: int) -> Evaluated:
    """The value and the magnitudes met. Cached: one reference meets many candidates, one member of a list many members."""
    evaluation = Precise(dict(point), real, bits)
    value = evaluation.of(node)
    return value, evaluation.low, evaluation.high


def agree(a: Node, b: Node, values: Mapping[str, Fraction], real: bool, bits: int) -> tuple[bool | None, int]:
    """Whether two values agree to all bits but 64 (True), differ far above the last of them (False), or neither; and the bits needed.

    What is needed follows from the spread s of magnitudes met: noise lies at most s above the last bit, and a term that was lost beside
    another moves the value by as little as 2^-s; hence 2 s and a margin. Raises Beyond where that is too much work.
    """
    lib = _library()
    if (size_of(a) + size_of(b)) * bits > MAX_WORK:
        raise Beyond
    point = tuple(sorted(values.items()))
    (x, x_low, x_high), (y, y_low, y_high) = _evaluated(a, point, real, bits), _evaluated(b, point, real, bits)
    high = max(x_high, y_high)
    needed = 2 * (high - min(x_low, y_low)) + 200
    size = magnitude(lib.mpc_sub(x, y, bits))
    scale = max(magnitude(x) or 0, magnitude(y) or 0, high)
    if size is None or size < scale - bits + 64:
        return True, needed
    return (False if size > scale - bits + 64 + min(bits // 2, 256) else None), needed
