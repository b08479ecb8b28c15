"""Lists, tuples, finite sets: bare lists are multisets, tuples keep their order, a braced set is no tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from guerdon.verifiers.math.engine.names import key_of, named
from guerdon.verifiers.math.engine.nodes import Node, has_kind

__all__ = ["Items", "as_items", "same_items"]

Same = Callable[[Node, Node], "bool | None"]


class Items(NamedTuple):
    """The members of a list: `name` when all are values of one thing (`x = 1, x = 5`), `names` when each has its own (`a = 1, b = 5`)."""

    values: tuple[Node, ...]
    name: Node | None = None
    names: tuple[Node, ...] = ()
    ordered: bool = False
    braced: bool = False


def as_items(node: Node) -> Items | None:
    """A list, tuple, set, column or one value as members; None where a chain of equations inside it is false.

    >>> from guerdon.verifiers.math.engine.reading import read
    >>> [len(as_items(read(text)).names) for text in ("x = 1, x = 5", "a = 1, b = 5", "a = 1, 5")]
    [0, 2, 0]
    """
    if node.kind == "tuple":
        return Items(node.args, ordered=True)
    if node.kind == "set":
        return Items(node.args, braced=True)
    if node.kind == "matrix":
        return Items(_flat(node), ordered=True)
    if node.kind != "list":
        return Items((node,))
    return _named_list(node)


def _flat(node: Node) -> tuple[Node, ...]:
    if all(len(row.args) == 1 for row in node.args):
        return tuple(row.args[0] for row in node.args)
    return node.args[0].args if len(node.args) == 1 else tuple(Node("tuple", row.args, "()") for row in node.args)


def _named_list(node: Node) -> Items | None:
    found = [named(item) if item.kind == "rel" else None for item in node.args]
    if any(chain is not None and chain.holds is False for chain in found):
        return None
    labelled = [chain for chain in found if chain is not None and chain.names]
    if not labelled or has_kind(node, "cond"):
        return Items(node.args, ordered=any(item.kind == "dots" for item in node.args))
    if len(labelled) == len(node.args):
        keys = {key_of(chain.names[0]) for chain in labelled}
        values = tuple(chain.value for chain in labelled)
        if len(keys) == 1:
            return Items(values, name=labelled[0].names[0])
        return Items(values, names=tuple(chain.names[0] for chain in labelled)) if len(keys) == len(values) else Items(node.args)
    if found[0] is not None and len(labelled) == 1 and all(item.kind != "rel" for item in node.args[1:]):
        return Items((found[0].value, *node.args[1:]), name=found[0].names[0])
    return Items(node.args)


def same_items(answer: Items, candidate: Items, same: Same) -> bool | None:
    """Member by member: in order where either side is ordered or only one side names its members, else as multisets."""
    if len(answer.values) != len(candidate.values):
        return False
    if answer.name is not None and candidate.name is not None and key_of(answer.name) != key_of(candidate.name):
        return False
    if answer.names and candidate.names:
        return _by_name(answer, candidate, same)
    if (answer.braced and candidate.ordered) or (candidate.braced and answer.ordered):
        return False
    if answer.ordered or candidate.ordered or ((answer.names or candidate.names) and not (answer.braced or candidate.braced)):
        return _in_order(answer.values, candidate.values, same)
    return _as_multisets(answer.values, candidate.values, same)


def _in_order(answers: tuple[Node, ...], candidates: tuple[Node, ...], same: Same) -> bool | None:
    verdict: bool | None = True
    for a, b in zip(answers, candidates, strict=True):
        found = same(a, b)
        if found is False:
            return False
        verdict = verdict and found
    return verdict


def _by_name(answer: Items, candidate: Items, same: Same) -> bool | None:
    table = {key_of(name): value for name, value in zip(candidate.names, candidate.values, strict=True)}
    ours = tuple(table.get(key_of(name)) for name in answer.names)
    if any(value is None for value in ours):
        return False
    return _in_order(answer.values, tuple(value for value in ours if value is not None), same)


def _as_multisets(answers: tuple[Node, ...], candidates: tuple[Node, ...], same: Same) -> bool | None:
    """Each reference takes the first candidate equal to it: equality is transitive but for roundings."""
    left = list(candidates)
    unsure = False
    for answer in answers:
        for k, candidate in enumerate(left):
            found = same(answer, candidate)
            if found:
                del left[k]
                break
            unsure = unsure or found is None
        else:
            return None if unsure else False
    return True
