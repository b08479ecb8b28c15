"""Whether two expressions are equal: exactly, as an identity, or to hundreds of bits; never within a tolerance.

Cheapest first: the same tree; exact rationals; floats with an error bound, which only reject; rational functions modulo primes; and at
last high precision at several points, more bits than the terms are apart. An identity is one over the reals where both sides exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.floats import Beyond, approximate, differ
from guerdon.verifiers.math.engine.limits import MAX_PRECISION, Undefined
from guerdon.verifiers.math.engine.magnitude import differ_in_size
from guerdon.verifiers.math.engine.modular import identical, is_light, is_rational
from guerdon.verifiers.math.engine.nodes import Node, has_kind, num, replace, symbols, walk
from guerdon.verifiers.math.engine.points import Point, integer_points, real_points

__all__ = ["equal", "readings"]

_BITS = 320
_ENOUGH = 3
_PI = Node("const", (), "pi")


def equal(a: Node, b: Node) -> bool | None:
    """True, False, or None when this module cannot tell. Raises Undefined when a closed side has no value.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> equal(read("\\\\sqrt{2}\\\\sqrt{3}"), read("\\\\sqrt{6}")), equal(read("x"), read("|x|"))
    (True, False)
    """
    if a == b:
        return True
    if a.kind == "num" and b.kind == "num":
        return False
    verdict: bool | None = False
    for left, right in readings(a, b):
        answer = _equal(left, right)
        if answer:
            return True
        if answer is None:
            verdict = None
    return verdict


def readings(a: Node, b: Node) -> Iterator[tuple[Node, Node]]:
    """What ambiguous signs may mean: a bare `log` is natural or decimal, a degree on one side only may be dropped."""
    left, right = _marks(a), _marks(b)
    if "degree" in left or "degree" in right:
        turned = _in_radians(a), _in_radians(b)
        yield turned
        if ("degree" in left) != ("degree" in right):
            yield _bare(a), _bare(b)
        return
    yield a, b
    if "log" in left or "log" in right:
        yield _decimal_logs(a), _decimal_logs(b)


def _marks(node: Node) -> set[str]:
    found = set()
    for n in walk(node):
        if n.kind == "degree":
            found.add("degree")
        elif n.kind == "fn" and n.value == "log" and len(n.args) == 1:
            found.add("log")
    return found


def _in_radians(node: Node) -> Node:
    def change(n: Node) -> Node | None:
        return Node("div", (Node("mul", (_in_radians(n.args[0]), _PI)), num(180))) if n.kind == "degree" else None

    return replace(node, change)


def _bare(node: Node) -> Node:
    return replace(node, lambda n: _bare(n.args[0]) if n.kind == "degree" else None)


def _decimal_logs(node: Node) -> Node:
    def change(n: Node) -> Node | None:
        return Node("fn", (_decimal_logs(n.args[0]),), "lg") if n.kind == "fn" and n.value == "log" and len(n.args) == 1 else None

    return replace(node, change)


def _equal(a: Node, b: Node) -> bool | None:
    names = symbols(a) | symbols(b)
    if not names:
        x, y = exact(a), exact(b)
        if x is not None and y is not None:
            return x == y
    if _counts(a) or _counts(b):
        return _over_integers(a, b, names) if names else _closed(a, b)
    return _over_reals(a, b, names) if names else _closed(a, b)


def _counts(node: Node) -> bool:
    """Whether the tree speaks of integers: a factorial, a binomial, a floor."""
    stack = [node]
    while stack:
        kind, args, value = stack.pop()
        if kind == "lazy" or (kind == "fn" and value in ("factorial", "binom")):
            return True
        stack.extend(args)
    return False


def _is_real(a: Node, b: Node) -> bool:
    return not any(n.kind == "const" and n.value == "i" for side in (a, b) for n in walk(side))


def _folded(node: Node) -> Node:
    """Rational parts as numbers, where floats and digits have no rule for what stands there."""

    def change(n: Node) -> Node | None:
        value = exact(n) if n.kind in ("fn", "lazy", "div", "mul", "pow") else None
        return num(value) if value is not None else None

    return replace(node, change) if _counts(node) else node


def _closed(a: Node, b: Node) -> bool | None:
    a, b = _folded(a), _folded(b)
    real = _is_real(a, b)
    try:
        return _at_point(a, b, {}, real)
    except Undefined:
        if not real:
            raise
    return _at_point(a, b, {}, False)


def _at_point(a: Node, b: Node, point: Point, real: bool) -> bool | None:
    try:
        if differ(approximate(a, point, real), approximate(b, point, real)):
            return False
    except Beyond:
        pass
    verdict = _identical(a, b)
    if verdict is not None:
        return verdict
    if not point and differ_in_size(a, b):
        return False
    return _precisely(a, b, point, real)


def _identical(a: Node, b: Node) -> bool | None:
    """By primes alone; None where they have no say, or where what is written could be made for them: digits then confirm."""
    verdict = identical(a, b) if is_rational(a) and is_rational(b) else None
    return None if verdict and not is_light(a, b) else verdict


def _precisely(a: Node, b: Node, point: Point, real: bool) -> bool | None:
    from guerdon.verifiers.math.engine.precise import agree

    bits = _BITS
    while bits <= MAX_PRECISION:
        try:
            same, needed = agree(a, b, point, real, bits)
        except (Beyond, OverflowError, ValueError, ZeroDivisionError, NotImplementedError):
            return None
        if same is False:
            return False
        if same and bits >= needed:
            return True
        bits = max(needed, bits + 1_000)
    return None


def _over_reals(a: Node, b: Node, names: frozenset[str]) -> bool | None:
    real = _is_real(a, b)
    usable: list[Point] = []
    for point in real_points(names):
        try:
            if differ(approximate(a, point, real), approximate(b, point, real)):
                return False
        except Undefined:
            continue
        except Beyond:
            pass
        usable.append(point)
    verdict = _identical(a, b)
    if verdict is not None:
        return verdict
    if not usable:
        return _over_integers(a, b, names)
    return _at_points(a, b, usable, real)


def _at_points(a: Node, b: Node, points: list[Point], real: bool) -> bool | None:
    agreed = 0
    for point in points:
        try:
            verdict = _precisely(a, b, point, real)
        except Undefined:
            continue
        if verdict is False:
            return False
        agreed += verdict is True
        if agreed >= _ENOUGH:
            return True
    return True if agreed and agreed == len(points) else None


def _over_integers(a: Node, b: Node, names: frozenset[str]) -> bool | None:
    """At positive integers, where both sides exist there: `(-1)^n`, `n!`, `\\lceil n/2 \\rceil`."""
    agreed = 0
    rest: list[Point] = []
    for point in integer_points(names):
        try:
            x, y = exact(a, point), exact(b, point)
            if x is not None and y is not None:
                if x != y:
                    return False
                agreed += 1
                continue
            if differ(approximate(a, point, True), approximate(b, point, True)):
                return False
        except Undefined:
            continue
        except Beyond:
            pass
        rest.append(point)
    if agreed >= _ENOUGH:
        return True
    return _at_points(a, b, rest, True) if rest and not has_kind(a, "lazy") and not has_kind(b, "lazy") else None
