"""Structures brought to one form before they are compared: plus-minus written out, lists flattened, remarks on domains dropped."""

from __future__ import annotations

from guerdon.verifiers.math.engine.limits import MAX_ITEMS, TooLarge
from guerdon.verifiers.math.engine.names import is_label
from guerdon.verifiers.math.engine.nodes import INTEGER_MARK, Node, has_kind, negated, num, replace, sym, symbols, walk
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
    if node.kind in ("add", "mul") and (found := _point(node) or _components(node)) is not None:
        return found
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


def _point(node: Node) -> Node | None:
    """`P(3, -2)`: a name and a tuple."""
    if node.kind != "mul" or len(node.args) != 2:
        return None
    name, value = node.args
    is_name = name.kind == "sym" and name.value[:1].isupper() and value.kind == "tuple" and value.value == "()"
    return Node("rel", (name, value), ("=",)) if is_name else None


_AXES = {"i": 0, "j": 1, "k": 2}


def _components(node: Node) -> Node | None:
    """`2\\mathbf{i} - 3\\mathbf{j} + \\mathbf{k}`: the tuple of its coefficients. There is a j in it, so that i is no imaginary unit."""
    parts: dict[int, Node] = {}
    for term in node.args if node.kind == "add" else ():
        inner = term.args[0] if term.kind == "neg" else term
        factors = inner.args if inner.kind == "mul" else (inner,)
        axes = [_axis(factor) for factor in factors]
        found = [axis for axis in axes if axis is not None]
        if len(found) != 1 or found[0] in parts or any(_axis(n) is not None for f in factors if _axis(f) is None for n in walk(f)):
            return None
        rest = tuple(factor for factor, axis in zip(factors, axes, strict=True) if axis is None)
        value = Node("mul", rest) if len(rest) > 1 else rest[0] if rest else num(1)
        parts[found[0]] = negated(value) if term.kind == "neg" else value
    return Node("tuple", tuple(parts.get(axis, num(0)) for axis in range(3 if 2 in parts else 2)), "()") if 1 in parts else None


def _axis(node: Node) -> int | None:
    return _AXES.get(str(node.value).removeprefix("hat ")) if node.kind in ("sym", "const") else None


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
    kept = [item for item in items if not _is_domain(item) and not _excludes(item, items)]
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


def _excludes(item: Node, items: list[Node]) -> bool:
    """`x \\ne 1` after a value in x: where it is defined."""
    if len(items) != 2 or item is not items[1] or item.kind != "rel" or item.value != ("!=",) or item.args[0].kind != "sym":
        return False
    value = items[0]
    return value.kind in ("add", "mul", "div", "neg", "pow", "fn", "root") and item.args[0].value in symbols(value)


def _is_domain(node: Node) -> bool:
    """`k \\in \\mathbb{Z}`."""
    if node.kind != "rel" or node.value != ("in",):
        return False
    return is_label(node.args[0]) and node.args[1].kind in ("reals", "pow") and has_kind(node.args[1], "reals")
