"""The syntax tree: one small immutable node, and what is asked of a tree.

`kind` is one of
- values: `num` (value: Fraction), `dec` (a decimal literal; value: (Fraction, places, digits)), `sym` (value: name),
  `const` (pi, e, i, inf),
  `add`, `mul`, `div`, `neg`, `pow`, `root` (radicand, index), `fn` (value: name), `pm` (value: "+-" or "-+"), `app` (f(x); value: f),
  `percent`, `degree`, `unit` (value: phrase), `based` (value: (digits, base)), `lazy` (an unevaluated form; value: its operator);
- structures: `list` (value: "," "and" "or"), `tuple` (value: its two brackets), `set`, `builder`, `cup`, `cap`, `minus`,
  `matrix` (rows of `row`),
  `rel` (a chain; value: its operators), `ratio`, `cond` (value: the condition), `quant`, `reals`, `empty`, `dots`,
  `text` (value: words).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

__all__ = ["INTEGER_MARK", "Node", "has_kind", "negated", "num", "replace", "size_of", "sym", "symbols", "walk"]


INTEGER_MARK = " in Z"
"""Ends the name of a variable that the answer declares to be an integer."""


class Node(NamedTuple):
    """One node. Equal nodes are the same tree."""

    kind: str
    args: tuple[Node, ...] = ()
    value: Any = None


def num(value: int | Fraction) -> Node:
    """An exact number."""
    return Node("num", (), value if isinstance(value, Fraction) else Fraction(value))


def sym(name: str) -> Node:
    """A variable or a named constant."""
    return Node("sym", (), name)


def negated(node: Node) -> Node:
    """The node with its sign changed; a literal stays a literal."""
    if node.kind == "num":
        return Node("num", (), -node.value)
    if node.kind == "dec":
        return Node("dec", (), (-node.value[0], *node.value[1:]))
    return node.args[0] if node.kind == "neg" else Node("neg", (node,))


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it. A stack, not recursion: it is called on every comparison."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(top.args)


def size_of(node: Node) -> int:
    """How many nodes there are."""
    return sum(1 for _ in walk(node))


def has_kind(node: Node, *kinds: str) -> bool:
    """Whether any node below is of one of these kinds."""
    stack = [node]  # not `walk`: asked several times per comparison, and a generator costs twice as much
    while stack:
        kind, args, _ = stack.pop()
        if kind in kinds:
            return True
        stack.extend(args)
    return False


def symbols(node: Node) -> frozenset[str]:
    """The names of the variables below, function names (`f` of `f(x)`) left out."""
    found, stack = set(), [node]
    while stack:
        kind, args, value = stack.pop()
        if kind == "sym":
            found.add(value)
        stack.extend(args)
    return frozenset(found)


def replace(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with every node for which `change` gives another replaced, from the top down; replaced parts are not entered."""
    changed = change(node)
    if changed is not None:
        return changed
    if not node.args:
        return node
    return Node(node.kind, tuple(replace(arg, change) for arg in node.args), node.value)
