"""One value against one value, whatever it wears: units, currency, percent, degrees, a base, a ratio."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from guerdon.verifiers.math.engine.decimals import same_by_rounding
from guerdon.verifiers.math.engine.equality import equal
from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.nodes import Node, has_kind, negated, num, symbols
from guerdon.verifiers.math.engine.units import UNITS, canonical_unit

__all__ = ["Context", "same_based", "same_number", "same_quantity", "same_ratio"]


_HALF_DAYS = ((("morning", 1),), (("afternoon", 1),))


class Context(NamedTuple):
    """The choices of the caller that reach this far."""

    rounding: bool = True
    allow_unevaluated: bool = False


class Peeled(NamedTuple):
    """A value and what it wears."""

    core: Node
    unit: str = ""
    percent: bool = False
    degree: bool = False


def peel(node: Node) -> Peeled:
    """Take unit, percent and degree off the outside of a value."""
    unit, percent, degree, minus = "", False, False, False
    while True:
        if node.kind == "unit":
            unit, node = f"{unit} {node.value}".strip(), node.args[0]
        elif node.kind == "percent" and not percent:
            percent, node = True, node.args[0]
        elif node.kind == "degree":
            degree, node = True, node.args[0]
        elif node.kind == "neg" and node.args[0].kind in ("unit", "percent", "degree"):
            minus, node = not minus, node.args[0]
        else:
            return Peeled(negated(node) if minus else node, unit, percent, degree)


def same_quantity(answer: Node, candidate: Node, context: Context) -> bool | None:
    """A unit, currency or percent sign on one side only is dropped; two units must agree, and are converted.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> pairs = [("5 cm", "5"), ("5 cm", "5 km"), ("1 m", "100 cm"), ("0.335", "33.5\\\\%"), ("90^\\\\circ", "\\\\frac{\\\\pi}{2}")]
    >>> [same_quantity(read(a), read(b), Context()) for a, b in pairs]
    [True, False, True, True, True]
    """
    a, b = peel(answer), peel(candidate)
    if a.unit or b.unit:
        a, b = _symbol_units(a, b)
        (dimensions, size), (others, other_size) = canonical_unit(a.unit), canonical_unit(b.unit)
        if a.unit and b.unit and dimensions and others:
            if dimensions != others:
                return False
            if size != other_size:
                return same_number(_scaled(a.core, size), _scaled(b.core, other_size), context)
    if a.percent or b.percent:
        return _same_percent(a, b, context)
    if a.degree != b.degree:
        turned = _turned(a, b, context)
        return turned if "radian" in a.unit + b.unit else _either(turned, same_number(a.core, b.core, context))
    return same_number(a.core, b.core, context)


def _either(*verdicts: bool | None) -> bool | None:
    return True if True in verdicts else None if None in verdicts else False


def _symbol_units(a: Peeled, b: Peeled) -> tuple[Peeled, Peeled]:
    """`5m` beside `5 \\text{ m}`: the symbol is the unit."""
    if a.unit and not b.unit:
        return a, _with_symbol_unit(b)
    return (_with_symbol_unit(a), b) if b.unit and not a.unit else (a, b)


def _with_symbol_unit(peeled: Peeled) -> Peeled:
    core = peeled.core
    if core.kind == "div" and (bottom := _symbol_unit(core.args[1])):  # 20m/s
        top = _with_symbol_unit(peeled._replace(core=core.args[0]))
        return top._replace(unit=f"{top.unit} / {bottom}") if top.unit else peeled
    if core.kind != "mul":
        return peeled
    unit = _symbol_unit(core.args[-1])
    if not unit:
        return peeled
    rest = core.args[:-1]
    return peeled._replace(core=rest[0] if len(rest) == 1 else Node("mul", rest), unit=unit)


def _symbol_unit(node: Node) -> str:
    """`m`, `m^2`, `\\frac{m}{s}` as a unit phrase; "" for anything else."""
    if node.kind == "sym" and node.value in UNITS:
        return str(node.value)
    if node.kind == "pow" and node.args[1].kind == "num" and (inner := _symbol_unit(node.args[0])):
        return f"{inner} ^ {node.args[1].value}"
    if node.kind == "div" and (top := _symbol_unit(node.args[0])) and (bottom := _symbol_unit(node.args[1])):
        return f"{top} / {bottom}"
    return ""


def _scaled(node: Node, size: Fraction) -> Node:
    if node.kind == "dec" and size.numerator in (1, 10, 100, 1000) and size.denominator in (1, 10, 100, 1000):
        value, places, digits = node.value
        return Node("dec", (), (value * size, places + len(str(size.denominator)) - len(str(size.numerator)), digits))
    return Node("mul", (num(size), node))


def _turned(a: Peeled, b: Peeled, context: Context) -> bool | None:
    pi = Node("const", (), "pi")
    cores = [Node("div", (Node("mul", (p.core, pi)), num(180))) if p.degree else p.core for p in (a, b)]
    return same_number(cores[0], cores[1], context)


def _same_percent(a: Peeled, b: Peeled, context: Context) -> bool | None:
    plain = same_number(a.core, b.core, context)
    if plain or (a.percent and b.percent):
        return plain
    hundredth = Fraction(1, 100)
    left = _scaled(a.core, hundredth) if a.percent else a.core
    right = _scaled(b.core, hundredth) if b.percent else b.core
    return _either(plain, same_number(left, right, context))


def same_number(answer: Node, candidate: Node, context: Context) -> bool | None:
    """Equal, or one the decimal of the other. A candidate without a value is wrong."""
    for node in (answer, candidate):
        if node.kind == "const" and node.value == "inf":
            return answer == candidate
    if symbols(candidate) and not symbols(answer):
        return False  # x/x for 1: not worked out
    try:
        verdict = equal(answer, candidate)
    except Undefined:
        return False
    if verdict or not context.rounding:
        return verdict
    return True if same_by_rounding(answer, candidate) else verdict


def same_based(answer: Node, candidate: Node) -> bool:
    """The same digits in the same base; a base left out is the other side's.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> [same_based(read("2516_8"), read(text)) for text in ("2516", "2516_{8}", "2516_7", "1358")]
    [True, True, False, False]
    """
    a, b = (_digits(node) for node in (answer, candidate))
    if a is None or b is None or a[0] != b[0]:
        return False
    return a[1] is None or b[1] is None or a[1] == b[1]


def _digits(node: Node) -> tuple[str, int | None] | None:
    if node.kind == "based":
        return node.value[0], node.value[1]
    if node.kind == "neg" and node.args[0].kind == "based":
        digits, base = node.args[0].value
        return "-" + digits, base
    if node.kind == "num" and node.value.denominator == 1:
        return str(node.value.numerator), None
    return None


def same_ratio(answer: Node, candidate: Node, context: Context) -> bool | None:
    """`a:b` is `a/b`; longer ratios are proportional. With a zero part (`12:00`) it is a time of day, compared part by part.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> [same_ratio(read(a), read(b), Context()) for a, b in [("5:8", "\\\\frac58"), ("1:2:3", "2:4:6"), ("12:00", "1:00")]]
    [True, True, False]
    """
    (answer, unit, *_), (candidate, other_unit, *_) = peel(answer), peel(candidate)
    dimensions, others = canonical_unit(unit)[0], canonical_unit(other_unit)[0]
    if dimensions and others and dimensions != others:
        return False
    if answer.kind != "ratio" or candidate.kind != "ratio":
        ratio, other = (answer, candidate) if answer.kind == "ratio" else (candidate, answer)
        if ratio.kind != "ratio" or len(ratio.args) != 2 or has_kind(other, "ratio"):
            return False
        if ratio.args[1] == num(0) and (dimensions or others)[:1] in _HALF_DAYS:  # 3:00 pm and 3 pm
            return same_number(ratio.args[0], peel(other).core, context)
        quotient = Node("div", ratio.args)
        return same_quantity(quotient, other, context) if answer.kind == "ratio" else same_quantity(other, quotient, context)
    left, right = answer.args, candidate.args
    if len(left) != len(right):
        return False
    if any(part == num(0) for part in (*left, *right)):
        return left == right
    verdicts = []
    for x, y in zip(left[1:], right[1:], strict=True):
        try:
            verdicts.append(equal(Node("mul", (x, right[0])), Node("mul", (y, left[0]))))
        except Undefined:
            return False
    return False if False in verdicts else None if None in verdicts else True
