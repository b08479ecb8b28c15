"""Equations: equal up to a scale factor, or solved for a variable; arbitrary constants under other names."""

from __future__ import annotations

from itertools import permutations

from guerdon.verifiers.math.engine.equality import equal
from guerdon.verifiers.math.engine.floats import Beyond, approximate
from guerdon.verifiers.math.engine.limits import Undefined
from guerdon.verifiers.math.engine.names import as_symbol
from guerdon.verifiers.math.engine.nodes import INTEGER_MARK, Node, negated, num, replace, sym, symbols, walk
from guerdon.verifiers.math.engine.points import Point, real_points

__all__ = ["difference", "renamings", "same_equation", "same_inequality", "solved_by"]

_words = str.split


def difference(node: Node) -> Node:
    """`left = right` as `left - right`, function names as symbols."""
    left, right = (as_symbol(arg) for arg in node.args)
    return Node("add", (left, negated(right)))


def _put(node: Node, name: str, value: Node) -> Node:
    return replace(node, lambda n: value if n.kind == "sym" and n.value == name else None)


def _at(node: Node, point: Point) -> Node:
    return replace(node, lambda n: num(point[n.value]) if n.kind == "sym" else None)


def _scale(a: Node, b: Node, names: frozenset[str]) -> tuple[Node, Node, float] | None:
    """The two sides at a point where neither vanishes, and the sign of their quotient."""
    for point in real_points(names):
        try:
            (x, x_error), (y, y_error) = approximate(a, point, True), approximate(b, point, True)
        except (Beyond, Undefined):
            continue
        if abs(x) > 100 * x_error + 1e-12 and abs(y) > 100 * y_error + 1e-12:
            return _at(a, point), _at(b, point), (x / y).real
    return None


def same_equation(answer: Node, candidate: Node) -> bool | None:
    """Two equations with the same solutions by scale or by substitution.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> same_equation(read("2x+4y-3=0"), read("y=-\\\\frac12 x+\\\\frac34")), same_equation(read("x+y=3"), read("0x+0y=0"))
    (True, False)
    """
    a, b = difference(answer), difference(candidate)
    names = symbols(a) | symbols(b)
    if not names:
        return None
    verdict = _proportional(a, b, names)
    if verdict:
        return True
    for solved, other in ((candidate, a), (answer, b)):
        for name, value in _solved_forms(solved):
            if _solves(other, name, value):
                return True
    return verdict


def _proportional(a: Node, b: Node, names: frozenset[str]) -> bool | None:
    scale = _scale(a, b, names)
    if scale is None:
        return False
    at_a, at_b, _ = scale
    try:
        return equal(Node("mul", (a, at_b)), Node("mul", (b, at_a)))
    except Undefined:
        return False


def _solved_forms(node: Node) -> list[tuple[str, Node]]:
    left, right = (as_symbol(arg) for arg in node.args)
    pairs = ((left, right), (right, left))
    return [(name.value, value) for name, value in pairs if name.kind == "sym" and name.value not in symbols(value)]


def _solves(equation: Node, name: str, value: Node) -> bool:
    """Whether the equation is linear in the variable and the value is its root, whatever the other variables are."""
    if name not in symbols(equation):
        return False
    try:
        if equal(_put(equation, name, value), num(0)) is not True:
            return False
        at = [_put(equation, name, num(k)) for k in (-101, 2, 105)]  # on both sides of the kinks of `|x|`
        slope = Node("add", (at[1], negated(at[0])))
        if equal(slope, num(0)) is not False:
            return False
        return equal(Node("mul", (num(103), Node("add", (at[2], negated(at[0]))))), Node("mul", (num(206), slope))) is True
    except Undefined:
        return False


def solved_by(equation: Node, value: Node) -> bool:
    """Whether an expression is the reference equation solved for a variable the expression does not hold.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> solved_by(read("y + 1 = -(2x-1)^2"), read("-4x^2+4x-2")), solved_by(read("2x+z=1"), read("1"))
    (True, False)
    """
    whole = difference(equation)
    names, used = symbols(whole), symbols(value)
    if len(names) > 8 or not used <= names or len(names) != len(used) + 1:
        return False
    return any(_solves(whole, name, value) for name in names - used)


def same_inequality(answer: Node, candidate: Node) -> bool | None:
    """`x + y < 3` and `6 > 2x + 2y`: the same side of the same curve."""
    (left, strict), (right, other_strict) = _positive(answer), _positive(candidate)
    if strict != other_strict:
        return False
    scale = _scale(left, right, symbols(left) | symbols(right))
    if scale is None or scale[2] <= 0:
        return False
    return _proportional(left, right, symbols(left) | symbols(right))


def _positive(node: Node) -> tuple[Node, str]:
    mark = node.value[0]
    whole = difference(node)
    return (whole if mark[0] == ">" else negated(whole)), mark[1:]


_CONSTANTS = frozenset(_words("C c K k D A B C_1 C_2 c_1 c_2 k_1 k_2 A_1 B_1 C_0 c_0"))
_PARAMETERS = frozenset(_words("k n m l t j p q r s N K z"))


def _is_arbitrary(tree: Node, name: str) -> bool:
    """An additive constant beside a function, or an integer that multiplies a period."""
    if name.endswith(INTEGER_MARK):
        return True
    if (
        name in _CONSTANTS
        and len(symbols(tree)) > 1
        and any(n.kind == "add" and any(_is_constant_term(arg, name) for arg in n.args) for n in walk(tree))
    ):
        return True
    return name in _PARAMETERS and any(_is_period(n, name) for n in walk(tree))


def _is_constant_term(node: Node, name: str) -> bool:
    return symbols(node) == {name} and node.kind in ("sym", "neg", "mul")


def _is_period(node: Node, name: str) -> bool:
    if node.kind == "degree":
        return name in symbols(node)
    return node.kind in ("mul", "div") and name in symbols(node) and any(n == Node("const", (), "pi") for n in walk(node))


def renamings(answer: Node, candidate: Node) -> list[Node]:
    """The candidate with its arbitrary constants and integer parameters called as in the reference; nothing else is renamed.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> len(renamings(read("x^2 + C"), read("x^2 + K"))), len(renamings(read("x^2"), read("y^2")))
    (1, 0)
    """
    ours, theirs = symbols(candidate), symbols(answer)
    mine, yours = sorted(ours - theirs), sorted(theirs - ours)
    if not mine or len(mine) != len(yours) or len(mine) > 2:
        return []
    bare = {name.removesuffix(INTEGER_MARK) for name in (*mine, *yours) if name.endswith(INTEGER_MARK)}
    if not all(name in bare or _is_arbitrary(candidate, name) for name in mine):
        return []
    if not all(name in bare or _is_arbitrary(answer, name) for name in yours):
        return []
    results = []
    for chosen in permutations(yours):
        table = dict(zip(mine, chosen, strict=True))
        results.append(replace(candidate, lambda n, t=table: sym(t[n.value]) if n.kind == "sym" and n.value in t else None))  # type: ignore[misc]
    return results
