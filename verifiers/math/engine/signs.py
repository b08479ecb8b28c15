"""Plus-minus: `1 \\pm \\sqrt{2}` is two values; two plus-minus signs are independent unless a minus-plus ties them."""

from __future__ import annotations

from itertools import product

from guerdon.verifiers.math.engine.limits import TooLarge
from guerdon.verifiers.math.engine.nodes import Node, negated, walk

__all__ = ["expanded"]

_MOST = 4
"""Signs in one value: sixteen values."""


def expanded(node: Node) -> tuple[Node, ...]:
    """The values an expression with plus-minus signs stands for; the node itself when it has none.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> len(expanded(read("(\\\\pm 1, \\\\pm 2)"))), len(expanded(read("(\\\\pm 1, \\\\mp 2)")))
    (4, 2)
    """
    signs = [n.value for n in walk(node) if n.kind == "pm"]
    if not signs:
        return (node,)
    if len(signs) > _MOST:
        raise TooLarge
    tied = [(True,) * len(signs), (False,) * len(signs)]
    choices = tied if "-+" in signs else product((True, False), repeat=len(signs))
    return tuple(_chosen(node, list(choice)) for choice in choices)


def _chosen(node: Node, choice: list[bool]) -> Node:
    if node.kind == "pm":
        plus = choice.pop(0) == (node.value == "+-")
        left, right = (_chosen(arg, choice) for arg in node.args)
        right = right if plus else negated(right)
        return right if left.kind == "num" and not left.value else Node("add", (left, right))
    if not node.args:
        return node
    return Node(node.kind, tuple(_chosen(arg, choice) for arg in node.args), node.value)
