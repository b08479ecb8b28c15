"""Fingerprints: one hash of everything that decides a term's verdicts.

Import path, class VERSION, fields, versions of the deciding packages; user functions by their source and the values they
use. None means "do not cache": a part whose behaviour cannot be named (a bound method, a closure over a live object).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from types import ModuleType
from typing import Any

from guerdon.rewards.term import Term

__all__ = ["describe", "fingerprint", "version_of"]


def fingerprint(term: Term) -> str | None:
    """32 hex digits, equal in every process for equal terms; None when results must not be cached."""
    try:
        described = _describe_instance(term, ()) if dataclasses.is_dataclass(term) else None
    except RecursionError:  # a value that holds itself
        return None
    return None if described is None else hashlib.blake2s(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def describe(value: Any, seen: tuple[Any, ...] = ()) -> str | None:
    """A value as text that is equal only for values that act alike; None where that cannot be told. `seen`: functions being described."""
    if isinstance(value, Enum):
        return f"{_path(type(value))}.{value.name}"
    if value is None or isinstance(value, str | bytes | bool | int | float | complex):
        return repr(value)
    if isinstance(value, list | tuple):
        return joined("()", [describe(v, seen) for v in value])
    if isinstance(value, set | frozenset):
        described = [describe(v, seen) for v in value]
        return None if None in described else joined("{}", sorted(d for d in described if d is not None))
    if isinstance(value, Mapping):
        return joined("{}", [describe(pair, seen) for pair in sorted(value.items(), key=lambda pair: repr(pair[0]))])
    if isinstance(value, re.Pattern):
        return f"re({value.pattern!r},{value.flags})"
    if isinstance(value, Term) and type(value).fingerprint is not Term.fingerprint:
        own = value.fingerprint
        return None if own is None else f"{_path(type(value))}:{own}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _describe_instance(value, seen)
    if isinstance(value, functools.partial):
        return joined("partial", [describe(part, seen) for part in (value.func, value.args, value.keywords)])
    if isinstance(value, ModuleType) or callable(value):
        from guerdon.rewards.source import describe_code

        return describe_code(value, seen)
    own = getattr(value, "fingerprint", None)
    return f"{_path(type(value))}:{own}" if isinstance(own, str) else None


def _describe_instance(value: Any, seen: tuple[Any, ...]) -> str | None:
    kind = type(value)
    fields = [describe((f.name, getattr(value, f.name)), seen) for f in dataclasses.fields(value)]
    packages = [f"{name}={version_of(name) or 'absent'}" for name in getattr(kind, "PACKAGES", ())]
    if kind.__module__ == "__main__":
        from guerdon.rewards.source import source_of

        fields.append(source_of(kind, seen))
    return joined(f"{_path(kind)}@{getattr(kind, 'VERSION', 1)}[{','.join(packages)}]", fields)


def joined(head: str, described: Sequence[str | None]) -> str | None:
    """One text of several, or None if one of them is."""
    return None if None in described else f"{head}({','.join(d for d in described if d is not None)})"


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(maxsize=64)
def version_of(package: str) -> str | None:
    """The version of an installed distribution, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None
