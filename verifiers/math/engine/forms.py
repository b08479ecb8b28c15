"""Structures brought to one form before they are compared: plus-minus written out, lists flattened, remarks on domains dropped."""

from __future__ import annotations

from guerdon.verifiers.math.engine.limits import MAX_ITEMS, TooLarge
from guerdon.verifiers.math.engine.names import is_label
from guerdon.verifiers.math.engine.nodes import INTEGER_MARK, Node, has_kind, replace, sym
from guerdon.verifiers.math.engine.signs import expanded

__all__ = ["prepared"]

_PLAIN = frozenset(("num", "dec", "sym", "const", "text", "empty", "reals", "quant", "based"))


def prepared(node: Node) -> Node:
    """The form that comparison works on.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> prepared(read("x = \\\\pm 2")) == read("x = 2 or x = -2")
    True
    >>> prepared(read("2k, k \\\\in \\\\mathbb{Z}")).args[1]
    Node(kind='sym', args=(), value='k in Z')
    """
    if node.kind in _PLAIN:
        return node
    if node.kind == "cond":
        return Node("cond", (prepared(node.args[0]),), node.value)
    if node.kind == "list":
        return _list(node)
    if node.kind == "builder" and (declared := _declared(node.args[1])):
        return prepared(_with_integers(node.args[0], declared))
    if node.kind == "set":
        members = _expanded_all(node.args)
        return Node("set", members)
    if has_kind(node, "pm"):
        values = expanded(node)
        return _list(Node("list", values, "or")) if len(values) > 1 else values[0]
    return node


def _expanded_all(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        result.extend(expanded(node))
        if len(result) > MAX_ITEMS:
            raise TooLarge
    return tuple(result)


def _list(node: Node) -> Node:
    items: list[Node] = []
    for item in node.args:
        inner = prepared(item)
        if inner.kind == "list" and inner.args:
            items.extend(inner.args)
        else:
            items.append(inner)
        if len(items) > MAX_ITEMS:
            raise TooLarge
    kept = [item for item in items if not _is_domain(item)]
    if kept and len(kept) < len(items):
        declared = frozenset(name for item in items for name in _declared(item))
        items = [_with_integers(item, declared) for item in kept]
    return items[0] if len(items) == 1 else Node("list", tuple(items), node.value)


def _declared(node: Node) -> frozenset[str]:
    """The variables that a remark `k \\in \\mathbb{Z}` makes integer parameters."""
    if not _is_domain(node) or node.args[0].kind != "sym" or str(node.args[1].value)[:1] not in ("Z", "N"):
        return frozenset()
    return frozenset((node.args[0].value,))


def _with_integers(node: Node, names: frozenset[str]) -> Node:
    """The tree with declared integers marked in their names: any may be called like any other."""
    if node.kind == "rel" and node.value != ("=",):
        return node  # n \\ge 2 is about n
    return replace(node, lambda n: sym(n.value + INTEGER_MARK) if n.kind == "sym" and n.value in names else None) if names else node


def _is_domain(node: Node) -> bool:
    """`k \\in \\mathbb{Z}`."""
    if node.kind != "rel" or node.value != ("in",):
        return False
    return is_label(node.args[0]) and node.args[1].kind in ("reals", "pow") and has_kind(node.args[1], "reals")
