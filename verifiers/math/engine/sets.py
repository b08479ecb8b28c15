"""Intervals, inequalities, set-builders, finite sets, unions and complements: one thing in many notations."""

from __future__ import annotations

from collections.abc import Callable

from guerdon.verifiers.math.engine.equality import equal
from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.floats import Beyond, approximate
from guerdon.verifiers.math.engine.limits import MAX_BOUNDS, TooLarge, Undefined
from guerdon.verifiers.math.engine.names import is_label
from guerdon.verifiers.math.engine.nodes import Node, negated, num, replace, symbols
from guerdon.verifiers.math.engine.realsets import (
    EVERYTHING,
    Piece,
    Pieces,
    complement,
    intersection,
    merged,
    order,
    point,
    same_pieces,
    union,
)

__all__ = ["is_inequality", "is_set_like", "same_set"]

_ORDERED = frozenset(("<", "<=", ">", ">="))
_INF = Node("const", (), "inf")
_MINUS_INF = negated(_INF)


_ZERO = num(0)
_HALVES: dict[str, Pieces] = {
    "R": EVERYTHING,
    "R+": (Piece(_ZERO, False, None, False),),
    "R-": (Piece(None, False, _ZERO, False),),
    "R>0": (Piece(_ZERO, False, None, False),),
}


class _NotASet(Exception):
    pass


def is_inequality(node: Node) -> bool:
    """A chain of `<`, `>` and the like, or `\\neq`."""
    return (node.kind == "rel" and all(mark in _ORDERED for mark in node.value)) or (node.kind == "rel" and node.value == ("!=",))


def is_set_like(node: Node) -> bool:
    """Whether the notation can only mean a set of numbers."""
    if node.kind in ("cup", "cap", "minus", "builder", "reals"):
        return True
    if node.kind == "rel":
        return is_inequality(node) or node.value in (("in",), ("notin",))
    if node.kind == "tuple":
        return len(node.args) == 2 and (node.value != "()" or any(arg in (_INF, _MINUS_INF) for arg in node.args))
    return node.kind == "list" and any(is_inequality(arg) or arg.kind in ("cup", "builder") for arg in node.args)


def same_set(answer: Node, candidate: Node) -> bool | None:
    """Whether two notations mean the same set; None when one of them is none. A name on both sides must be the same.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> same_set(read("1 < x \\\\le 2"), read("(1, 2]")), same_set(read("(1,2)"), read("[1,2]"))
    (True, False)
    >>> same_set(read("x \\\\ne 3"), read("(-\\\\infty,3)\\\\cup(3,\\\\infty)")), same_set(read("x < 5"), read("y < 5"))
    (True, False)
    """
    try:
        (a, name), (b, other) = _pieces(answer), _pieces(candidate)
        if name is not None and other is not None and name != other:
            return False
        return same_pieces(a, b)
    except (_NotASet, Beyond):
        return None
    except Undefined:
        return False


Found = tuple[Pieces, Node | None]


def _pieces(node: Node) -> Found:
    """The set and the name of its variable, if it has one."""
    kind, args = node.kind, node.args
    if kind == "tuple" and len(args) == 2:
        return (_interval(node),), None
    if kind == "set":
        return _points(args), None
    if kind == "empty":
        return (), None
    if kind == "reals" and node.value in _HALVES:
        return _HALVES[node.value], None
    if kind == "cup":
        return _both(args, union)
    if kind == "cap":
        return _both(args, intersection)
    if kind == "minus":
        (a, name), (b, _) = _pieces(args[0]), _pieces(args[1])
        return intersection(a, complement(b)), name
    if kind == "builder":
        return _builder(node), None
    if kind == "rel":
        return _relation(node)
    if kind == "list":
        return _list(node)
    if not symbols(node) and kind not in ("matrix", "text", "const", "lazy"):
        return (point(node),), None
    raise _NotASet


def _both(args: tuple[Node, ...], join: Callable[[Pieces, Pieces], Pieces]) -> Found:
    (a, name), (b, other) = _pieces(args[0]), _pieces(args[1])
    if name is not None and other is not None and name != other:
        raise _NotASet
    return join(a, b), name or other


def _points(members: tuple[Node, ...]) -> Pieces:
    return merged(tuple(point(member) for member in members))


def _interval(node: Node) -> Piece:
    """Two ends in order: `(2, 1)` is a pair, never an empty interval."""
    low, high = node.args
    piece = Piece(
        None if low == _MINUS_INF else low,
        low != _MINUS_INF and node.value[0] == "[",
        None if high == _INF else high,
        high != _INF and node.value[1] == "]",
    )
    if piece.low is not None and piece.high is not None and not symbols(low) and not symbols(high):
        where = order(low, high)
        if where > 0 or (where == 0 and node.value != "[]"):
            raise _NotASet
    return piece


def _builder(node: Node) -> Pieces:
    head, condition = node.args
    if head.kind == "rel" and head.value == ("in",):
        if head.args[1] != Node("reals", (), "R"):
            raise _NotASet
        head = head.args[0]
    pieces, name = _pieces(_without_domain(condition, head))
    if name is not None and name != head:
        raise _NotASet
    return pieces


def _without_domain(condition: Node, head: Node) -> Node:
    """`x > 0, x \\in \\mathbb{R}` without the second part."""
    if condition.kind != "list":
        return condition
    kept = tuple(c for c in condition.args if not (c.kind == "rel" and c.value == ("in",) and c.args == (head, Node("reals", (), "R"))))
    return kept[0] if len(kept) == 1 else Node("list", kept, condition.value)


def _list(node: Node) -> Found:
    """`or` joins; `and` and commas intersect, unless nothing is left (`x < 1, x > 5`)."""
    if len(node.args) > MAX_BOUNDS:
        raise TooLarge
    found = [_pieces(arg) for arg in node.args]
    names = {name for _, name in found if name is not None}
    if len(names) > 1:
        raise _NotASet
    joined = common = found[0][0]
    for pieces, _ in found[1:]:
        joined, common = union(joined, pieces), intersection(common, pieces)
    return (joined if node.value == "or" or not common or not names else common), next(iter(names), None)


def _relation(node: Node) -> Found:
    marks, args = node.value, node.args
    if marks == ("in",) or marks == ("notin",):
        if not is_label(args[0]):
            raise _NotASet
        pieces, _ = _pieces(args[1])
        return (complement(pieces) if marks[0] == "notin" else pieces), args[0]
    if marks == ("=",) and is_label(args[0]):
        return (point(args[1]),), args[0]
    if marks == ("!=",):
        if args[0].kind == "blank":
            raise _NotASet
        left, right = (args[1], args[0]) if not symbols(args[0]) and symbols(args[1]) else args
        if not is_label(left):
            raise _NotASet
        return complement((point(right),)), left
    if not all(mark in _ORDERED for mark in marks):
        raise _NotASet
    return _chain(node)


def _chain(node: Node) -> Found:
    """`a < x \\le b`: one operand is the variable."""
    args, marks = node.args, node.value
    at = _variable(args)
    pieces = EVERYTHING
    name: Node | None = None
    for k, mark in enumerate(marks):
        left, right = args[k], args[k + 1]
        if k + 1 == at:
            left, right, mark = right, left, _FLIPPED[mark]
        elif k != at:
            raise _NotASet
        half, name = _half(left, mark, right)
        pieces = half if pieces is EVERYTHING else _met(pieces, half)
    return pieces, name


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _met(a: Pieces, b: Pieces) -> Pieces:
    """Two half lines; symbolic ends are taken to be in order."""
    if len(a) == len(b) == 1 and (a[0].low is None) != (b[0].low is None) and (a[0].high is None) != (b[0].high is None):
        low, high = (a[0], b[0]) if a[0].low is not None else (b[0], a[0])
        return (Piece(low.low, low.low_closed, high.high, high.high_closed),)
    return intersection(a, b)


def _variable(args: tuple[Node, ...]) -> int:
    if len(args) == 3:
        return 1
    if len(args) != 2:
        raise _NotASet
    if is_label(args[0]) or not symbols(args[1]):
        return 0
    return 1


def _half(left: Node, mark: str, right: Node) -> Found:
    """`left mark right` with the variable on the left: a half line, or two for an absolute value."""
    closed = mark.endswith("=")
    if right in (_INF, _MINUS_INF):
        if (right == _INF) != (mark[0] == "<"):
            raise _NotASet
        return EVERYTHING, left
    if left.kind == "fn" and left.value == "abs" and left.args[0].kind == "sym":
        if mark[0] == "<":
            return (Piece(negated(right), closed, right, closed),), left.args[0]
        return (Piece(None, False, negated(right), closed), Piece(right, closed, None, False)), left.args[0]
    if is_label(left):
        return (Piece(right, closed, None, False) if mark[0] == ">" else Piece(None, False, right, closed),), left
    return _linear(left, mark, right)


def _linear(left: Node, mark: str, right: Node) -> Found:
    """`2x + 1 > 5`: solved, if it is linear in its only variable."""
    names = symbols(left) | symbols(right)
    if len(names) != 1:
        raise _NotASet
    variable = Node("sym", (), next(iter(names)))
    difference = Node("add", (left, negated(right)))
    at = [replace(difference, lambda n, k=k: num(k) if n == variable else None) for k in (0, 1, 3)]  # type: ignore[misc]
    slope = Node("add", (at[1], negated(at[0])))
    if not equal(Node("add", (at[2], negated(at[0]))), Node("mul", (num(3), slope))):
        raise _NotASet
    rate = approximate(slope, {}, True)[0].real
    if abs(rate) < 1e-9:
        raise _NotASet
    root = negated(Node("div", (at[0], slope)))
    value = exact(root)
    return _half(variable, mark if rate > 0 else _FLIPPED[mark], num(value) if value is not None else root)
