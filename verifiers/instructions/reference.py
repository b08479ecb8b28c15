"""Read the constraints of a row from its reference, checking every id and every argument.

Nothing is dropped and nothing is guessed: whatever cannot be read raises ValueError, saying which constraint and why.
References are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guerdon.verifiers.instructions.arguments import is_null, plain
from guerdon.verifiers.instructions.finding import Finding
from guerdon.verifiers.instructions.language import detector
from guerdon.verifiers.instructions.table import TABLE

__all__ = ["Constraint", "read_alternatives"]

_SHAPES = (
    'expected {"instruction_id_list": [...], "kwargs": [...]}, a list of {"instruction_id": ..., <arguments>} '
    'or {"id": ..., "kwargs": {...}}, or {"any_of": [...]} of these'
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its checked arguments."""

    id: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def check(self, text: str) -> Finding:
        """Whether the text meets the constraint, and why."""
        return TABLE[self.id].check(text, **dict(self.arguments))


def read_alternatives(reference: Any) -> list[list[Constraint]]:
    """The alternatives of a reference, each a list of constraints of which all are asked for.

    Raises ValueError for what cannot be read, MissingExtra when a constraint needs a package that is not installed.

    >>> read_alternatives([{"instruction_id": "detectable_format:number_bullet_lists", "num_bullets": 3}])
    [[Constraint(id='detectable_format:number_bullet_lists', arguments=(('num_bullets', 3),))]]
    """
    reference = _decode(reference)
    if not (isinstance(reference, Mapping) and "any_of" in reference):
        return [_read(reference)]
    alternatives = _decode(reference["any_of"])
    if set(reference) != {"any_of"} or not _is_list(alternatives) or not alternatives:
        raise ValueError("any_of: expected one or more references and nothing beside them")
    return [_read(_decode(alternative)) for alternative in alternatives]


def _read(reference: Any) -> list[Constraint]:
    """The constraints of one alternative, in their order; an id that occurs twice counts twice."""
    pairs = _pairs(reference)
    if not pairs:
        raise ValueError("no constraints: the list of instruction ids is empty")
    return [_compile(number, name, arguments) for number, (name, arguments) in enumerate(pairs, 1)]


def _pairs(reference: Any) -> list[tuple[Any, Any]]:
    """Each constraint's id and its raw arguments."""
    if isinstance(reference, Mapping) and "instruction_id_list" in reference:
        ids, arguments = _decode(reference["instruction_id_list"]), _decode(reference.get("kwargs"))
        if not _is_list(ids) or not _is_list(arguments):
            raise ValueError(f"instruction_id_list and kwargs: expected two lists, got {_show(ids)} and {_show(arguments)}")
        if len(ids) != len(arguments):
            raise ValueError(f"{len(ids)} instruction ids but {len(arguments)} kwargs: the lists must have one length")
        return [(name, _decode(raw, f"constraint {number}: ")) for number, (name, raw) in enumerate(zip(ids, arguments, strict=True), 1)]
    if _is_list(reference):
        return [_entry(f"constraint {number}: ", entry) for number, entry in enumerate(reference, 1)]
    raise ValueError(f"{_SHAPES}, got {_show(reference)}")


def _entry(where: str, entry: Any) -> tuple[Any, Any]:
    """One constraint of a list: arguments beside the id, or in `kwargs`."""
    entry = _decode(entry, where)
    if isinstance(entry, Mapping) and set(entry) in ({"id", "kwargs"}, {"id"}):
        return entry["id"], _decode(entry.get("kwargs"), where)
    if isinstance(entry, Mapping) and "instruction_id" in entry:
        return entry["instruction_id"], {name: value for name, value in entry.items() if name != "instruction_id"}
    raise ValueError(f"{where}{_SHAPES}, got {_show(entry)}")


def _compile(number: int, name: Any, raw: Any) -> Constraint:
    """The constraint, its arguments checked; arguments that are null are ignored."""
    instruction = TABLE.get(name) if isinstance(name, str) else None
    if instruction is None:
        raise ValueError(f"constraint {number}: unknown instruction id {_show(name)}")
    where = f"constraint {number} ({name})"
    raw = {} if is_null(raw) else raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"{where}: expected a mapping of arguments, got {_show(raw)}")
    given = {key: value for key, value in raw.items() if not is_null(value)}
    if unknown := sorted(map(str, set(given) - set(instruction.arguments))):
        raise ValueError(f"{where}: unknown argument {unknown[0]!r}, expected {', '.join(instruction.arguments) or 'none'}")
    if instruction.detects_language:
        detector()
    values = []
    for key, reader in instruction.arguments.items():
        if key not in given:
            raise ValueError(f"{where}: argument {key!r} is missing")
        try:
            values.append((key, reader(plain(given[key]))))
        except ValueError as error:
            raise ValueError(f"{where}: argument {key!r}: got {_show(given[key])}, expected {error}") from None
    constraint = Constraint(name, tuple(values))
    if name == "length_constraints:nth_paragraph_first_word" and dict(values)["nth_paragraph"] > dict(values)["num_paragraphs"]:
        raise ValueError(f"{where}: argument 'nth_paragraph': expected at most num_paragraphs, got {constraint.arguments}")
    return constraint


def _decode(value: Any, where: str = "") -> Any:
    """JSON text decoded, arrays as lists; anything else as it is."""
    if not isinstance(value, str):
        return plain(value)
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}not JSON ({error}); {_SHAPES}, got {_show(value)}") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _show(value: Any) -> str:
    return f"{value!r:.60}"
