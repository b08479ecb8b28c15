"""Names before values: `x = 5`, `f(x) = x + 1`, `(p, q) = (1, 2)`, and chains of equations, which count only when they are true."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from guerdon.verifiers.math.engine.decimals import is_literal, rounds_to
from guerdon.verifiers.math.engine.equality import equal
from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.nodes import Node, has_kind, replace, sym, symbols

__all__ = ["Named", "as_symbol", "is_label", "key_of", "named", "renamed_argument"]


class Named(NamedTuple):
    """A value, the names it was given, and whether the chain of equations around it holds (None: could not be told)."""

    names: tuple[Node, ...]
    value: Node
    holds: bool | None = True


def is_label(node: Node) -> bool:
    """Whether an expression is a name for a value: a variable, `f(x)`, a tuple of variables, an angle, a segment or a ratio of segments."""
    kind = node.kind
    if kind in ("sym", "app"):
        return True
    if kind == "const":
        return node.value in ("e", "i")  # an eccentricity, an index; the number e is no name of 5, but as much as x
    if kind == "tuple":
        return all(arg.kind == "sym" for arg in node.args)
    if kind == "mul":
        return all(arg.kind == "sym" and arg.value[:1].isupper() for arg in node.args)
    if kind == "div":
        return all(arg.kind == "mul" and (is_label(arg) or _is_differential(arg)) for arg in node.args)
    if kind == "fn" and node.value == "abs":
        return node.args[0].kind in ("sym", "mul") and is_label(node.args[0]) and not str(node.args[0].value or "")[:1].islower()
    if kind == "ratio":
        return all(is_label(arg) for arg in node.args)
    if kind in ("cup", "cap", "minus"):
        return all(arg.kind == "sym" for arg in node.args)
    return kind == "degree" and is_label(node.args[0])


def _is_differential(node: Node) -> bool:
    """`dy`, `d^2 y`, `\\partial x`."""
    first = node.args[0].args[0] if node.args[0].kind == "pow" else node.args[0]
    return first.kind == "sym" and first.value in ("d", "partial")


def named(node: Node) -> Named | None:
    """A chain of `=` (and `\\approx`) as names and a value; None for what is no such chain or is an equation.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> [named(read(text)).holds for text in ("x = 5", "x = 7 = 5", "1 = 5", "2 + 3 = 5", "\\\\frac13 \\\\approx 0.333")]
    [True, False, False, True, True]
    """
    if node.kind != "rel" or any(mark not in ("=", "~", "equiv", "cong") for mark in node.value):
        return None
    operands, marks = list(node.args), list(node.value)
    if len(operands) == 2 and operands[1].kind in ("sym", "app") and not is_label(operands[0]) and not symbols(operands[0]):
        operands.reverse()
    first = 0
    while first < len(operands) - 1 and is_label(operands[first]):
        first += 1
    names, values = tuple(operands[:first]), operands[first:]
    if not names:
        if any(value.kind == "blank" for value in values):
            return None
        if any(symbols(value) for value in values):
            return _identity(values, marks)
    if len(values) == 1 and names and names[-1].kind == "sym" and names[-1].value in symbols(values[0]):
        return None  # x = x^2: an equation
    return _chained(names, values, marks[first:])


_NO_VALUES = ("pm", "tuple", "list", "set", "matrix", "text", "app", "ratio", "unit")


def _identity(values: list[Node], marks: list[str]) -> Named | None:
    """`x^2 - 1 = (x-1)(x+1)`: true for all values, so it ends in a value; any other is an equation."""
    if any(mark != "=" for mark in marks) or any(has_kind(value, *_NO_VALUES) for value in values):
        return None
    try:
        holds = all(equal(value, following) for value, following in pairwise(values))
    except Undefined:
        return None
    return Named((), values[-1], True) if holds else None


def _chained(names: tuple[Node, ...], values: list[Node], marks: list[str]) -> Named:
    holds: bool | None = True
    value = values[0]
    for mark, following in zip(marks, values[1:], strict=True):
        step = _step(value, following, mark)
        if step is not True and (symbols(value) or symbols(following)):
            step = None  # true or not for some values of the variables
        holds = False if step is False or holds is False else None if step is None else holds
        if mark == "=" or is_literal(value):
            value = following
    return Named(names, value, holds)


def _step(left: Node, right: Node, mark: str) -> bool | None:
    try:
        if equal(left, right):
            return True
        if mark == "=":
            return equal(left, right)
    except Undefined:
        return False
    return any(decimal.kind == "dec" and rounds_to(side, decimal) for side, decimal in ((left, right), (right, left)))


def key_of(name: Node) -> object:
    """What two equal names share: the function without its variable, `f(2)` with its argument, everything else as it stands."""
    if name.kind == "app":
        return (name.value, *(arg.value for arg in name.args if not arg.value[:1].isalpha()))
    return name


def as_symbol(node: Node) -> Node:
    """`f(x)` as one symbol, for equations."""
    return replace(node, lambda n: sym(f"{n.value}({','.join(str(a.value) for a in n.args)})") if n.kind == "app" else None)


def renamed_argument(answer: Named, candidate: Named) -> Named:
    """The candidate with its function's variables called as the reference calls them: `f(t) = t^2` for `f(x) = x^2`."""
    if not answer.names or not candidate.names:
        return candidate
    theirs, ours = answer.names[0], candidate.names[0]
    if theirs.kind != "app" or ours.kind != "app" or len(theirs.args) != len(ours.args) or theirs.args == ours.args:
        return candidate
    table = {old.value: new for old, new in zip(ours.args, theirs.args, strict=True) if old.value[:1].isalpha() and new.value[:1].isalpha()}
    for name in tuple(table.values()):  # f(y) = x is no f(x) = x
        table.setdefault(name.value, sym(f"free {name.value}"))
    value = replace(candidate.value, lambda n: table.get(n.value) if n.kind == "sym" else None)
    return candidate._replace(value=value)
