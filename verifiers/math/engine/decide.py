"""Whether two trees say the same: which convention applies to which pair of structures."""

from __future__ import annotations

from guerdon.verifiers.math.engine.equations import renamings, same_equation, same_inequality, solved_by
from guerdon.verifiers.math.engine.exact import exact
from guerdon.verifiers.math.engine.lazy import as_symbols
from guerdon.verifiers.math.engine.lists import as_items, same_items
from guerdon.verifiers.math.engine.matrices import evaluated
from guerdon.verifiers.math.engine.names import Named, key_of, named, renamed_argument
from guerdon.verifiers.math.engine.nodes import Node, has_kind
from guerdon.verifiers.math.engine.quantities import Context, same_based, same_quantity, same_ratio
from guerdon.verifiers.math.engine.sets import is_inequality, is_set_like, same_set

__all__ = ["same"]

_WORDS = frozenset(("text", "quant", "dots", "blank", "cases"))
_ARITHMETIC = frozenset(("num", "dec", "div", "neg", "add", "mul", "pow"))
_COMPOUND = ("list", "tuple", "set", "builder", "cup", "cap", "minus", "text", "empty", "matrix", "rel")
_INF = Node("const", (), "inf")
_STRUCTURES = frozenset(("list", "tuple", "set", "matrix"))


def same(answer: Node, candidate: Node, context: Context) -> bool | None:
    """True, False, or None when no convention decides. Both trees are prepared (`forms.prepared`)."""
    if answer == candidate:
        return True
    if answer.kind in _ARITHMETIC and candidate.kind in _ARITHMETIC and (verdict := _arithmetic(answer, candidate)) is not None:
        return verdict
    if answer.kind == "cond" or candidate.kind == "cond":
        return _without_conditions(answer, candidate, context)
    kinds = (answer.kind, candidate.kind)
    if "mod" in kinds:
        return kinds == ("mod", "mod") and _congruent(answer, candidate, context)
    if kinds == ("cases", "cases") and len(answer.args) == len(candidate.args):
        return _each(answer.args, candidate.args, context)
    if answer.kind in _WORDS or candidate.kind in _WORDS:
        return False
    if "rel" in kinds:
        settled, verdict = _named(answer, candidate, context)
        if settled:
            return verdict
    if kinds != ("tuple", "tuple") and (is_set_like(answer) or is_set_like(candidate)):
        return _sets(answer, candidate, context)
    if "empty" in kinds:
        return False
    if "rel" in kinds:
        return _equations(answer, candidate, context)
    if has_kind(answer, "matrix") or has_kind(candidate, "matrix"):
        answer, candidate = evaluated(answer), evaluated(candidate)
        if answer.kind == candidate.kind == "matrix" and _shape(answer) != _shape(candidate):
            return _flat_vectors(answer, candidate, context)
    if answer.kind in _STRUCTURES or candidate.kind in _STRUCTURES:
        return _collections(answer, candidate, context)
    return _values(answer, candidate, context)


def _arithmetic(answer: Node, candidate: Node) -> bool | None:
    """Rational numbers, decided before anything else is asked; decimals only when they are equal."""
    x = exact(answer)
    y = exact(candidate) if x is not None else None
    if x is None or y is None:
        return None
    return True if x == y else None if answer.kind == "dec" or candidate.kind == "dec" else False


def _without_conditions(answer: Node, candidate: Node, context: Context) -> bool | None:
    """A condition on one side only is a remark; two conditions that select (`if`) must be the same."""
    inner = [node.args[0] if node.kind == "cond" else node for node in (answer, candidate)]
    verdict = same(inner[0], inner[1], context)
    if answer.kind == candidate.kind == "cond" and answer.value != candidate.value and (_selects(answer) or _selects(candidate)):
        return None if verdict else False
    return verdict


def _congruent(answer: Node, candidate: Node, context: Context) -> bool | None:
    """`n \\equiv 3 \\pmod 7` and `n \\equiv -4 \\pmod 7`."""
    (left, modulus), (right, other) = answer.args, candidate.args
    period = exact(modulus)
    if not period or period != exact(other):
        return same(left, right, context) if modulus == other else False
    a, b = named(left), named(right)
    x, y = (exact(chain.value if chain is not None else side) for side, chain in ((left, a), (right, b)))
    if x is None or y is None or (a is not None and b is not None and a.names != b.names):
        return same(left, right, context)
    return bool((x - y) % period == 0)


def _selects(node: Node) -> bool:
    return str(node.value).split(" ", 1)[0].lower() in ("if", "when")


def _named(answer: Node, candidate: Node, context: Context) -> tuple[bool, bool | None]:
    """Names taken off: whether that settles it, and the verdict. Left are relations that name nothing."""
    a = named(answer) if answer.kind == "rel" else None
    b = named(candidate) if candidate.kind == "rel" else None
    if b is not None and b.holds is False:
        return True, False
    if a is not None and b is not None:
        return True, _both_named(answer, candidate, a, b, context)
    if (answer.kind == candidate.kind == "rel") or (a is None and b is None):
        return False, None
    if a is not None:
        verdict = same(a.value, candidate, context)
        return True, _solved(answer, candidate) if verdict is False else verdict
    return True, same(answer, b.value, context) if b is not None else None


def _solved(answer: Node, candidate: Node) -> bool:
    return len(answer.args) == 2 and candidate.kind not in _STRUCTURES and solved_by(answer, candidate)


def _both_named(answer: Node, candidate: Node, a: Named, b: Named, context: Context) -> bool | None:
    if not a.names or not b.names:
        return same(a.value, b.value, context)
    keys = {key_of(name) for name in a.names}
    if keys & {key_of(name) for name in b.names} or _same_function(a, b):
        return same(a.value, renamed_argument(a, b).value, context)
    if (
        len(answer.args) == len(candidate.args) == 2
        and not has_kind(answer, "tuple", "list", "set")
        and not has_kind(candidate, "tuple", "list", "set")
    ):
        return same_equation(answer, candidate)
    return False


def _same_function(a: Named, b: Named) -> bool:
    """`y = x + 1` beside `y(x) = x + 1`."""
    first, second = a.names[0], b.names[0]
    if {first.kind, second.kind} != {"sym", "app"}:
        return False
    return bool(first.value == second.value)


def _sets(answer: Node, candidate: Node, context: Context) -> bool | None:
    verdict = same_set(answer, candidate)
    if verdict is not None:
        return verdict
    if _is_member(answer) or _is_member(candidate):  # (x, y) \in \{(1, 2), (2, 1)\}
        a, b = (node.args[1] if _is_member(node) else node for node in (answer, candidate))
        return same(a, b, context)
    if answer.kind == candidate.kind == "rel":
        if len(answer.args) == len(candidate.args) == 2 and is_inequality(answer) and is_inequality(candidate):
            if "!=" in answer.value or "!=" in candidate.value:
                return same_equation(answer, candidate) if answer.value == candidate.value else False
            return same_inequality(answer, candidate)
        return _chains(answer, candidate, context)
    if answer.kind in _STRUCTURES and candidate.kind in _STRUCTURES:
        return _collections(answer, candidate, context)
    if answer.kind == candidate.kind and answer.kind in ("cup", "cap", "minus", "builder"):
        return _each(answer.args, candidate.args, context)
    return None if _may_be_set(answer) and _may_be_set(candidate) else False


def _is_member(node: Node) -> bool:
    return node.kind == "rel" and node.value == ("in",) and node.args[1].kind == "set"


def _may_be_set(node: Node) -> bool:
    return node.kind in ("tuple", "set", "cup", "cap", "minus", "builder", "reals") or (node.kind in ("rel", "list") and is_set_like(node))


_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _chains(answer: Node, candidate: Node, context: Context) -> bool | None:
    """`a < b < c` and `c > b > a`."""
    flipped = Node("rel", tuple(reversed(candidate.args)), tuple(_FLIPPED.get(mark, mark) for mark in reversed(candidate.value)))
    for other in (candidate, flipped):
        if other.value == answer.value and len(other.args) == len(answer.args):
            verdict = _each(answer.args, other.args, context)
            if verdict:
                return True
    return False


def _each(answers: tuple[Node, ...], candidates: tuple[Node, ...], context: Context) -> bool | None:
    verdict: bool | None = True
    for a, b in zip(answers, candidates, strict=True):
        found = same(a, b, context)
        if found is False:
            return False
        verdict = verdict and found
    return verdict


def _equations(answer: Node, candidate: Node, context: Context) -> bool | None:
    if answer.kind == candidate.kind == "rel":
        if answer.value != candidate.value or len(answer.args) != len(candidate.args):
            return False
        if answer.value == ("=",) and not _has_structures(answer) and not _has_structures(candidate):
            verdict = same_equation(answer, candidate)
            return verdict or _lazily(answer, candidate, context, verdict)
        return _each(answer.args, candidate.args, context)
    if answer.kind == "rel" and answer.value == ("=",) and not _has_structures(answer) and candidate.kind not in _STRUCTURES:
        return solved_by(answer, candidate)
    return False


def _has_structures(node: Node) -> bool:
    return has_kind(node, "tuple", "list", "set", "matrix", "ratio", "builder", "cup", "blank", "unit")


def _flat_vectors(answer: Node, candidate: Node, context: Context) -> bool | None:
    """A row against a column."""
    if min(_shape(answer)) != 1 or min(_shape(candidate)) != 1:
        return False
    return _collections(answer, candidate, context)


def _alone(node: Node) -> Node:
    """The member of a set of one."""
    return node.args[0] if node.kind == "set" and len(node.args) == 1 else node


def _brackets(node: Node) -> str:
    """The ends of an interval, open where they are infinite; of longer tuples only that they match."""
    if len(node.args) != 2:
        return "()" if node.value == "[]" else str(node.value)
    low, high = ("()"[k] if _is_infinite(arg) else node.value[k] for k, arg in enumerate(node.args))
    return low + high


def _is_infinite(node: Node) -> bool:
    return node == _INF or (node.kind == "neg" and node.args[0] == _INF)


def _shape(matrix: Node) -> tuple[int, int]:
    return len(matrix.args), len(matrix.args[0].args)


def _collections(answer: Node, candidate: Node, context: Context) -> bool | None:
    if answer.kind == candidate.kind == "tuple" and _brackets(answer) != _brackets(candidate):
        return False  # an open interval and a closed one
    if answer.kind == candidate.kind == "matrix" and _shape(answer) == _shape(candidate):
        cells = [tuple(cell for row in node.args for cell in row.args) for node in (answer, candidate)]
        return _each(cells[0], cells[1], context)
    if {answer.kind, candidate.kind} == {"set", "tuple"}:
        answer, candidate = _alone(answer), _alone(candidate)
        if answer.kind == candidate.kind == "tuple":
            return _collections(answer, candidate, context)
    a, b = as_items(answer), as_items(candidate)
    if a is None or b is None:
        return False
    if answer.kind == "list" and answer.value == "or" and candidate.kind not in _STRUCTURES:  # \frac35 or 0.6
        return all(same(value, candidate, context) for value in a.values)
    verdict = same_items(a, b, lambda x, y: same(x, y, context))
    if verdict is False and {answer.kind, candidate.kind} == {"list", "set"} and (a.name or b.name or a.names or b.names):
        return same_items(a._replace(name=None), b._replace(name=None), lambda x, y: same(x, y, context))
    return verdict


def _values(answer: Node, candidate: Node, context: Context) -> bool | None:
    if has_kind(answer, "based") or has_kind(candidate, "based"):
        return same_based(answer, candidate)
    if has_kind(answer, "ratio") or has_kind(candidate, "ratio"):
        return same_ratio(answer, candidate, context)
    if "reals" in (answer.kind, candidate.kind):
        return False
    if has_kind(candidate, *_COMPOUND) and not has_kind(answer, *_COMPOUND):
        return None if has_kind(candidate, "lazy") else False
    verdict = same_quantity(answer, candidate, context)
    if verdict:
        return True
    for renamed in renamings(answer, candidate):
        if same_quantity(answer, renamed, context):
            return True
    return verdict or _lazily(answer, candidate, context, verdict)


def _lazily(answer: Node, candidate: Node, context: Context, verdict: bool | None) -> bool | None:
    """Unevaluated forms as symbols: equal ones are equal; of different ones nothing is known."""
    if not has_kind(answer, "lazy"):
        return None if verdict is False and has_kind(candidate, "lazy") and exact(candidate) is None else verdict
    a, b = as_symbols(answer, candidate)
    if a.kind == "rel":
        return True if same_equation(a, b) else None
    return True if same_quantity(a, b, context) else verdict
