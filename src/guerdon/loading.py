"""Import strings: how a command line, a config or another process names a reward, verifier or sandbox.

`pkg.mod:obj` imports a module; `path/to/file.py:obj` runs a file once per process, which may import the modules beside it.
Nothing is registered anywhere.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from guerdon.errors import LoadError

__all__ = ["load", "spec_of"]

_lock = threading.RLock()  # re-entrant: a file may load others
_files: dict[str, str] = {}  # the path of each module that was loaded by path


def _after_fork_in_child() -> None:
    """A thread that does not exist here may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_after_fork_in_child)


def load(spec: str) -> Any:
    """The object that `pkg.mod:obj` or `file.py:obj` names. Attributes may be dotted (`mod:obj.attr`).

    Raises LoadError, in one line that says what, where and how to mend it.

    >>> load("math:tau") > 6
    True
    """
    where, _, path = spec.rpartition(":")
    if not where or not path:
        raise LoadError(f"{spec!r}: expected 'package.module:object' or 'file.py:object'")
    if where.endswith(".py"):
        with _lock:  # or another thread would find the module half run
            found: Any = _load_file(where, spec)
    else:
        found = _load_module(where, spec)
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError:
            names = ", ".join(sorted(n for n in vars(found) if not n.startswith("_"))[:12]) if hasattr(found, "__dict__") else ""
            raise LoadError(f"{spec!r}: {where} has no {attribute!r}" + (f"; it has {names}" if names else "")) from None
    return found


def spec_of(function: Any) -> str:
    """The import string of a function or class, for another process. Of one from a file loaded by path: `/path/file.py:name`.

    >>> spec_of(load)
    'guerdon.loading:load'
    """
    return f"{_files.get(function.__module__, function.__module__)}:{function.__qualname__}"


def _load_module(name: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise LoadError(f"{spec!r}: no module named {error.name!r}; for a file write 'file.py:object'") from None
        raise LoadError(f"{spec!r}: importing it failed: {error}") from error
    except Exception as error:
        raise LoadError(f"{spec!r}: importing it failed: {type(error).__name__}: {error}") from error


def _load_file(path: str, spec: str) -> ModuleType:
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise LoadError(f"{spec!r}: no such file: {file}")
    # One module per path and process; the hash keeps two files of one name apart.
    name = f"{file.stem}_{hashlib.blake2s(str(file).encode(errors='surrogateescape'), digest_size=4).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    module_spec = importlib.util.spec_from_file_location(name, file)
    if module_spec is None or module_spec.loader is None:
        raise LoadError(f"{spec!r}: {file} is not Python source")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    _files[name] = str(file)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # as for a script, but last: the modules beside it shadow nothing
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise LoadError(f"{spec!r}: running {_failing_line(file, error)} failed: {type(error).__name__}: {error}") from error
    return module


def _failing_line(file: Path, error: Exception) -> str:
    """`file:line` of the innermost frame of the file, or of its syntax error."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(file) else None
    at = error.__traceback__
    while at is not None:
        line = at.tb_lineno if at.tb_frame.f_code.co_filename == str(file) else line
        at = at.tb_next
    return f"{file}:{line}" if line else str(file)
