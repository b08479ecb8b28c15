"""What `--columns` says: which keys of a file hold what. How rows become rollouts stands in `guerdon.backends.rows`."""

from __future__ import annotations

import difflib

from guerdon.backends.rows import NAMES, Layout
from guerdon.errors import ConfigError

__all__ = ["NAMES", "Layout", "parse_columns"]


def parse_columns(text: str | None) -> dict[str, str]:
    """`answer=solution,completion=text`: from what a rollout calls it to the key in the file. Other names are aliases of columns.

    >>> parse_columns("answer=solution, tests=test")
    {'answer': 'solution', 'tests': 'test'}
    """
    mapping: dict[str, str] = {}
    for part in filter(str.strip, (text or "").split(",")):
        name, equals, key = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not key:
            raise ConfigError(f"--columns: expected name=key pairs such as answer=solution,completion=text, got {part.strip()!r}")
        near = [] if name in NAMES else difflib.get_close_matches(name, NAMES, cutoff=0.75)
        if near:
            raise ConfigError(f"--columns: no part of a rollout is called {name!r}; did you mean {near[0]!r}?")
        mapping[name] = key
    return mapping
