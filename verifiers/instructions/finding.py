"""What a constraint's check finds: whether it holds and, in a few words, why."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Finding", "Relation", "compare"]

Relation = Literal["less than", "at least"]


class Finding(NamedTuple):
    """Whether a constraint holds, and a short explanation either way."""

    holds: bool
    why: str


def compare(found: int, relation: Relation, wanted: int, things: str) -> Finding:
    """A count against its limit; the limit itself is `at least` enough and not `less than` it.

    >>> compare(3, "less than", 3, "commas")
    Finding(holds=False, why='3 commas, wanted less than 3')
    """
    holds = found < wanted if relation == "less than" else found >= wanted
    return Finding(holds, f"{found} {things}, wanted {relation} {wanted}")
