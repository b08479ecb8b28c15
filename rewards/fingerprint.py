"""Fingerprints: one hash of everything that decides a term's verdicts.

Import path, class VERSION, fields, versions of the deciding packages; user functions by their source. None means
"do not cache": a part whose behaviour cannot be named (a lambda from a prompt, a closure over a live object).
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from guerdon.rewards.term import Term

__all__ = ["fingerprint", "source_of"]


def fingerprint(term: Term) -> str | None:
    """32 hex digits, equal in every process for equal terms; None when results must not be cached."""
    described = _describe(term)
    return None if described is None else hashlib.blake2s(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _describe(value: Any) -> str | None:
    if value is None or isinstance(value, str | bytes | bool | int | float | complex):
        return repr(value) if not isinstance(value, Enum) else f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, list | tuple):
        return _joined("()", [_describe(v) for v in value])
    if isinstance(value, set | frozenset):
        described = [_describe(v) for v in value]
        return None if None in described else _joined("{}", sorted(d for d in described if d is not None))
    if isinstance(value, Mapping):
        return _joined("{}", [_describe(pair) for pair in sorted(value.items(), key=lambda pair: repr(pair[0]))])
    if isinstance(value, Term) and type(value).fingerprint is not Term.fingerprint:
        own = value.fingerprint
        return None if own is None else f"{_path(type(value))}:{own}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _describe_instance(value)
    if isinstance(value, Callable):  # type: ignore[arg-type]
        return source_of(value)
    own = getattr(value, "fingerprint", None)
    return f"{_path(type(value))}:{own}" if isinstance(own, str) else None


def _describe_instance(value: Any) -> str | None:
    kind = type(value)
    fields = [_describe((f.name, getattr(value, f.name))) for f in dataclasses.fields(value)]
    packages = [f"{name}={_version(name)}" for name in getattr(kind, "PACKAGES", ())]
    if kind.__module__ == "__main__":
        fields.append(source_of(kind))
    return _joined(f"{_path(kind)}@{getattr(kind, 'VERSION', 1)}[{','.join(packages)}]", fields)


def _joined(head: str, described: Sequence[str | None]) -> str | None:
    return None if None in described else f"{head}({','.join(d for d in described if d is not None)})"


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@lru_cache(maxsize=64)
def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def source_of(f: Any) -> str | None:
    """The source of a function or class with the plain values it closes over; None when either cannot be had."""
    f = inspect.unwrap(f) if inspect.isfunction(f) else f
    if not (inspect.isfunction(f) or inspect.isclass(f)):
        return None
    try:
        source = inspect.getsource(f)
    except (OSError, TypeError):
        return None
    held = [_describe(cell.cell_contents) for cell in (getattr(f, "__closure__", None) or ())]
    held += [_describe(getattr(f, "__defaults__", None)), _describe(getattr(f, "__kwdefaults__", None))]
    return _joined(f"source:{source}", held)
