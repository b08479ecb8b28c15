"""Functions and classes as text: their source, and whatever else of the program they use.

What a function closes over, its defaults, and the globals it names are described by value; functions among them by their own
source. A module or an installed package counts by its version. What cannot be followed (a name looked up at run time, a
module of the user's used through its attributes) is None: not cacheable. Nothing is executed.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Iterator
from types import CodeType, ModuleType
from typing import Any

from guerdon.rewards.fingerprint import describe, joined, version_of

__all__ = ["describe_code", "source_of"]


def source_of(f: Any, seen: tuple[Any, ...] = ()) -> str | None:
    """The source of a function or class with the values it uses; None when either cannot be had."""
    if f in seen:
        return f"again:{seen.index(f)}"
    try:
        if inspect.isclass(f):
            return _of_class(f, (*seen, f))
        return _of_function(f, (*seen, f)) if inspect.isfunction(f) else None
    except (OSError, TypeError, ValueError, RecursionError):  # no source; an empty cell; a value that holds itself
        return None


def describe_code(value: Any, seen: tuple[Any, ...]) -> str | None:
    """A module, function, class or other callable that a function uses."""
    if isinstance(value, functools.partial):
        return describe(value, seen)
    if isinstance(value, functools._lru_cache_wrapper):
        return describe_code(value.__wrapped__, seen)
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    home = _home(name) if isinstance(name, str) else None
    if home is None:
        return source_of(value, seen)
    return (
        f"{home}:{name}.{getattr(value, '__qualname__', '')}" if isinstance(value, ModuleType) or hasattr(value, "__qualname__") else None
    )


def _home(module: str) -> str | None:
    """What stands for everything in an installed module: its package and version. None for the user's own."""
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names and package != "__main__":
        return package
    version = version_of(package) or version_of(package.replace("_", "-"))
    return None if version is None else f"{package}@{version}"


def _of_function(f: Any, seen: tuple[Any, ...]) -> str | None:
    code = f.__code__
    source = inspect.getsource(code)  # of the function itself: a decorated one's own source is its wrapper's
    if f.__name__ == "<lambda>" and source.count("lambda") != 1:
        return None  # which of them it is cannot be told
    held = [cell.cell_contents for cell in f.__closure__ or ()]
    used = [describe(value, seen) for value in (held, f.__defaults__, f.__kwdefaults__)]
    for opcode, name in sorted(set(_names(code))):
        if opcode == "STORE_GLOBAL":
            return None  # what it does depends on what it did
        if opcode == "IMPORT_NAME":
            used.append(_home(name))
        elif name in f.__globals__:
            used.append(joined(name, [describe(f.__globals__[name], seen)]))
    return joined(f"source:{source}", used)


def _names(code: CodeType) -> Iterator[tuple[str, str]]:
    """The globals and modules that some code names, nested functions included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "IMPORT_NAME"):
            yield instruction.opname, str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _of_class(kind: type, seen: tuple[Any, ...]) -> str | None:
    members = [getattr(member, "__func__", getattr(member, "fget", member)) for member in vars(kind).values()]
    written = [m for m in members if inspect.isfunction(m) and not m.__code__.co_filename.startswith("<string>")]  # not dataclass's
    parts = [*(source_of(m, seen) for m in written), *(describe_code(base, seen) for base in kind.__bases__)]
    return joined(f"source:{inspect.getsource(kind)}", parts)
