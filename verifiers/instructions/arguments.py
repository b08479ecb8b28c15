"""The kinds of arguments that constraints take: each reads one value of the reference or says what it expected.

A reader gives the value to use or raises ValueError with the words that follow "got ..., expected". Readers never change
the reference. Values that a data frame made of integers and lists (3.0, arrays) are read as what they were.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any, cast

from guerdon.verifiers.instructions.finding import Relation

__all__ = ["count", "is_null", "letter", "phrase", "phrases", "plain", "positive", "relation"]


def plain(value: Any) -> Any:
    """Arrays and array scalars as Python values; anything else as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def is_null(value: Any) -> bool:
    """Whether an argument is unused: None, or the NaN that a data frame puts in its place."""
    return value is None or (isinstance(value, float) and value != value)


def count(value: Any) -> int:
    """A whole number, 0 or more."""
    return _integer(value, 0)


def positive(value: Any) -> int:
    """A whole number, 1 or more: less than 0 holds never, at least 0 always."""
    return _integer(value, 1)


def _integer(value: Any, least: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (isinstance(value, float) and value.is_integer())) or value < least:
        raise ValueError(f"an integer of at least {least}")
    return int(value)


def relation(value: Any) -> Relation:
    """One of IFEval's two comparisons."""
    if value not in ("less than", "at least"):
        raise ValueError("'less than' or 'at least'")
    return cast(Relation, value)


def phrase(value: Any) -> str:
    """Text that is not blank, without white space around it."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("text that is not blank")
    return value.strip()


def phrases(value: Any) -> tuple[str, ...]:
    """One or more texts, none blank."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ValueError("a list of texts")
    return tuple(map(phrase, value))


def letter(value: Any) -> str:
    """One character: IFEval's data also counts `#` and `!`."""
    if not isinstance(value, str) or len(text := unicodedata.normalize("NFC", value.strip())) != 1:
        raise ValueError("one character")
    return text
