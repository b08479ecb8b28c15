"""Matrices: products, multiples and sums of small ones are worked out; then cell by cell."""

from __future__ import annotations

from fractions import Fraction

from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.limits import TooLarge, Undefined
from guerdon.verifiers.math.engine.nodes import Node, has_kind, num, size_of

__all__ = ["evaluated"]

_SIDE = 6
_CELL = 150
"""Nodes of one cell of a product."""


def _cells(node: Node) -> tuple[tuple[Node, ...], ...]:
    return tuple(row.args for row in node.args)


def _matrix(rows: list[tuple[Node, ...]]) -> Node:
    return Node("matrix", tuple(Node("row", row) for row in rows))


def evaluated(node: Node) -> Node:
    """The matrix an expression of matrices stands for; the node itself where it is none or too large.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> evaluated(read("\\\\frac12 \\\\begin{pmatrix} 2 \\\\\\\\ 4 \\\\end{pmatrix}")).kind
    'matrix'
    """
    kind, args = node.kind, node.args
    if kind == "matrix" or not has_kind(node, "matrix"):
        return node
    if kind == "neg":
        inner = evaluated(args[0])
        return _scaled(inner, num(-1)) if inner.kind == "matrix" else node
    if kind == "mul":
        return _product(node)
    if kind == "add":
        parts = [evaluated(arg) for arg in args]
        shapes = {(len(part.args), len(part.args[0].args)) if part.kind == "matrix" else None for part in parts}
        if len(shapes) == 1 and None not in shapes:
            rows = zip(*(_cells(part) for part in parts), strict=True)
            return _matrix([tuple(Node("add", cells) for cells in zip(*row, strict=True)) for row in rows])
    if kind == "tuple" and len(args) == 1:
        return evaluated(args[0])
    return _power(args[0], args[1], node) if kind == "pow" and args[0].kind == "matrix" else node


def _power(matrix: Node, exponent: Node, whole: Node) -> Node:
    """Small powers, the inverse, and the transpose (`^T`)."""
    if exponent.kind == "sym" and exponent.value in ("T", "t"):
        return _matrix(list(zip(*_cells(matrix), strict=True)))
    if exponent.kind != "num" or len(matrix.args) != len(matrix.args[0].args):
        return whole
    if exponent.value in (2, 3, 4):
        return _product(Node("mul", (matrix,) * int(exponent.value)))
    return _inverse(matrix, whole) if exponent.value == -1 else whole


def _inverse(matrix: Node, whole: Node) -> Node:
    """By Gauss, exactly; of rational cells only."""
    size = len(matrix.args)
    rows = []
    for k, cells in enumerate(_cells(matrix)):
        values = [exact(cell) for cell in cells]
        if size > _SIDE or any(value is None for value in values):
            return whole
        rows.append([value or Fraction(0) for value in values] + [Fraction(int(j == k)) for j in range(size)])
    for column in range(size):
        pivot = next((k for k in range(column, size) if rows[k][column]), None)
        if pivot is None:
            raise Undefined
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for k in range(size):
            if k != column:
                rows[k] = [x - rows[k][column] * y for x, y in zip(rows[k], rows[column], strict=True)]
    return _matrix([tuple(num(value) for value in row[size:]) for row in rows])


def _product(node: Node) -> Node:
    factors = [evaluated(arg) for arg in node.args]
    scalars = [f for f in factors if not has_kind(f, "matrix")]
    matrices = [f for f in factors if f.kind == "matrix"]
    if len(scalars) + len(matrices) < len(factors):
        return node
    product = matrices[0]
    for factor in matrices[1:]:
        if len(product.args[0].args) != len(factor.args) or max(len(product.args), len(factor.args), len(factor.args[0].args)) > _SIDE:
            return node
        columns = list(zip(*_cells(factor), strict=True))
        product = _matrix([tuple(_dot(row, column) for column in columns) for row in _cells(product)])
    for scalar in scalars:
        product = _scaled(product, scalar)
    return product


def _dot(row: tuple[Node, ...], column: tuple[Node, ...]) -> Node:
    return _settled(Node("add", tuple(Node("mul", pair) for pair in zip(row, column, strict=True))))


def _settled(cell: Node) -> Node:
    """A cell as a number where it is one, so that repeated products do not grow."""
    value = exact(cell)
    if value is not None:
        return num(value)
    if size_of(cell) > _CELL:
        raise TooLarge
    return cell


def _scaled(matrix: Node, scalar: Node) -> Node:
    return _matrix([tuple(Node("mul", (scalar, cell)) for cell in row) for row in _cells(matrix)])
