"""The JSON document in a completion: where it stands, and a strict parser for it. Schemas are `guerdon.verifiers.json_schema`."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from guerdon.verifiers.base import strip_reasoning
from guerdon.verifiers.exact import final_text

__all__ = ["MAX_CHARS", "MAX_DEPTH", "Refused", "document", "measure", "parse", "parse_constant", "parse_pairs"]

MAX_CHARS = 1_000_000
"""Longer documents are UNPARSEABLE `too_large`."""
MAX_DEPTH = 100
"""Deeper ones, too. Validation takes about ten Python frames a level."""

_LONG = re.compile(r"[0-9]{309}")
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)


def document(completion: str) -> str:
    """The text that should be JSON: after the reasoning, the last ```json block, else the last fenced block, else all of it.

    An `<answer>` span is looked into first, unless the rest begins with JSON or a fence. A last block that is never closed runs to the end.

    >>> document('Here you are: \\n```json\\n{"a": 1}\\n```\\nDone.')
    '{"a": 1}'
    """
    rest = strip_reasoning(completion).strip()
    text = rest if rest[:1] in ("{", "[", '"', "`") else final_text(rest).strip()
    blocks = list(_blocks(text))
    named = [content for info, content in blocks if info == "json"]
    if named or blocks:
        return (named or [content for _, content in blocks])[-1].strip()
    inline = re.fullmatch(r"`{3,}(?:json)?(.*[^`])`{3,}", text, re.DOTALL | re.IGNORECASE)
    return inline[1].strip() if inline else text


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a text: info string and content."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and not fence[2].strip():
            yield opened[2].strip().lower(), text[opened.end() : fence.start()]
            opened = None
    if opened is not None:
        yield opened[2].strip().lower(), text[opened.end() :]


class Refused(ValueError):
    """The text is no JSON that may be checked: reason and detail."""


def parse(text: str) -> Any:
    """The one JSON value of a text: no duplicate keys, NaN, Infinity, numbers beyond a float, or text around it. Raises Refused.

    >>> parse('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    guerdon.verifiers.json_text.Refused: ('not_json', "duplicate key 'a'")
    """
    if len(text) > MAX_CHARS:
        raise Refused("too_large", f"{len(text)} characters, at most {MAX_CHARS} are read")
    as_int = _int if _LONG.search(text) else None
    try:
        return json.loads(text, object_pairs_hook=parse_pairs, parse_constant=parse_constant, parse_float=_float, parse_int=as_int)
    except RecursionError:
        raise Refused("too_large", "nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, or from the hooks
        raise Refused("not_json", str(error)[:300]) from None


def parse_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """`object_pairs_hook`: ValueError for a key that occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"duplicate key {twice!r:.80}")
    return found


def parse_constant(name: str) -> Any:
    """`parse_constant`: ValueError for NaN and Infinity."""
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"the number {text:.40} is beyond a float")
    return value


def _int(text: str) -> int:
    if len(text) > 308:
        raise ValueError(f"the number {text:.40}... is beyond a float")
    return int(text)


def measure(value: Any) -> int:
    """How many values a document holds. Raises Refused when they nest deeper than MAX_DEPTH."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [child for v in inner for child in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return count
    raise Refused("too_large", f"nested more than {MAX_DEPTH} deep")
