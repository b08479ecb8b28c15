"""Sets of real numbers as sorted pieces: union, intersection and difference of intervals and points with exact end points."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cmp_to_key
from typing import NamedTuple

from guerdon.verifiers.math.engine.equality import equal
from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.floats import Beyond, approximate
from guerdon.verifiers.math.engine.limits import MAX_ITEMS, TooLarge, Undefined
from guerdon.verifiers.math.engine.nodes import Node, symbols

__all__ = ["EVERYTHING", "Piece", "compare_ends", "complement", "intersection", "merged", "order", "point", "same_pieces", "union"]


class Piece(NamedTuple):
    """An interval; None is an infinite end. A point has two equal closed ends."""

    low: Node | None
    low_closed: bool
    high: Node | None
    high_closed: bool


Pieces = tuple[Piece, ...]
EVERYTHING: Pieces = (Piece(None, False, None, False),)


def point(node: Node) -> Piece:
    """One number."""
    return Piece(node, True, node, True)


def order(a: Node, b: Node) -> int:
    """-1, 0 or 1. Raises Beyond when the order of two end points cannot be told (symbols in them, equal but for digits never seen)."""
    if a == b:
        return 0
    if symbols(a) or symbols(b):
        raise Beyond
    x, y = exact(a), exact(b)
    if x is not None and y is not None:
        return (x > y) - (x < y)
    try:
        (u, u_error), (v, v_error) = approximate(a, {}, True), approximate(b, {}, True)
    except Undefined:
        raise Beyond from None
    if u.imag or v.imag:
        raise Beyond
    if abs(u.real - v.real) > 8 * (u_error + v_error):
        return 1 if u.real > v.real else -1
    if equal(a, b):
        return 0
    raise Beyond


def compare_ends(a: Piece, b: Piece) -> int:
    """By lower end; an open one comes after a closed one."""
    if a.low is None or b.low is None:
        return (a.low is not None) - (b.low is not None)
    return order(a.low, b.low) or (b.low_closed - a.low_closed)


def _is_empty(piece: Piece) -> bool:
    if piece.low is None or piece.high is None:
        return False
    where = order(piece.low, piece.high)
    return where > 0 or (where == 0 and not (piece.low_closed and piece.high_closed))


def merged(pieces: Pieces) -> Pieces:
    """Sorted, empty ones dropped, touching ones joined."""
    if len(pieces) > MAX_ITEMS:
        raise TooLarge
    result: list[Piece] = []
    for piece in sorted((p for p in pieces if not _is_empty(p)), key=cmp_to_key(compare_ends)):
        last = result[-1] if result else None
        if last is None or not _touch(last, piece):
            result.append(piece)
        elif last.high is not None:
            high, closed = _higher(last, piece)
            result[-1] = last._replace(high=high, high_closed=closed)
    return tuple(result)


def _touch(a: Piece, b: Piece) -> bool:
    if a.high is None or b.low is None:
        return True
    where = order(a.high, b.low)
    return where > 0 or (where == 0 and (a.high_closed or b.low_closed))


def _higher(a: Piece, b: Piece) -> tuple[Node | None, bool]:
    if a.high is None or b.high is None:
        return None, False
    where = order(a.high, b.high)
    if where == 0:
        return a.high, a.high_closed or b.high_closed
    return (a.high, a.high_closed) if where > 0 else (b.high, b.high_closed)


def union(a: Pieces, b: Pieces) -> Pieces:
    """All of both."""
    return merged((*a, *b))


def complement(pieces: Pieces) -> Pieces:
    """The real line without the pieces."""
    result: list[Piece] = []
    low: Node | None = None
    closed = False
    open_start = True
    for piece in merged(pieces):
        if piece.low is not None:
            result.append(Piece(None if open_start else low, closed, piece.low, not piece.low_closed))
        if piece.high is None:
            return tuple(result)
        low, closed, open_start = piece.high, not piece.high_closed, False
    result.append(Piece(None if open_start else low, closed, None, False))
    return tuple(result)


def intersection(a: Pieces, b: Pieces) -> Pieces:
    """What both have."""
    return complement(union(complement(a), complement(b)))


def same_pieces(a: Pieces, b: Pieces) -> bool | None:
    """Whether two sets are equal; with symbols in end points, whether they are written with equal pieces."""
    with suppress(Beyond):
        a, b = merged(a), merged(b)
    return _pairwise(a, b, equal)


def _pairwise(a: Pieces, b: Pieces, same: Callable[[Node, Node], bool | None]) -> bool | None:
    if len(a) != len(b):
        return False
    verdict: bool | None = True
    for p, q in zip(a, b, strict=True):
        if (p.low_closed, p.high_closed) != (q.low_closed, q.high_closed):
            return False
        for x, y in ((p.low, q.low), (p.high, q.high)):
            if x is None or y is None:
                if x is not y:
                    return False
                continue
            found = same(x, y)
            if found is False:
                return False
            verdict = verdict and found
    return verdict
