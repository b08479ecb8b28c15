"""Unevaluated forms: an integral, a sum, a limit, a maximum, `1 + 2 + \\dots + n` restates the question.

It is an answer only where the reference has one.
"""

from __future__ import annotations

from guerdon.verifiers.math.engine.nodes import Node, replace, sym, walk

__all__ = ["as_symbols", "restates"]


def _forms(node: Node) -> set[str]:
    return {n.value if n.kind == "lazy" else "..." for n in walk(node) if n.kind in ("lazy", "dots")}


def restates(answer: Node, candidate: Node) -> bool:
    """Whether the candidate leaves something to compute that the reference has computed.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> restates(read("3"), read("\\\\lfloor\\\\pi\\\\rfloor")), restates(read("\\\\lceil n \\\\rceil"), read("\\\\lceil n\\\\rceil+0"))
    (True, False)
    """
    forms = _forms(candidate)
    if not forms:
        return False
    known = _forms(answer)
    for pair in ({"floor", "ceil"}, {"max", "min"}, {"gcd", "lcm"}):
        if known & pair:
            known |= pair
    return not forms <= known


def as_symbols(*nodes: Node) -> tuple[Node, ...]:
    """The trees with every unevaluated form as a symbol, equal forms as the same one."""
    seen: dict[Node, Node] = {}

    def change(n: Node) -> Node | None:
        return seen.setdefault(n, sym(f"lazy form {len(seen)}")) if n.kind == "lazy" else None

    return tuple(replace(node, change) for node in nodes)
