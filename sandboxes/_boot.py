"""Start a zygote: the modules of `jail/`, sent as source to an interpreter that has an empty environment and nothing of ours.

The far side needs a Python (3.11 or later) and two descriptors, so the same bytes start a zygote in a container over an attached
stream: run `interpreter -s -P -B -c BOOT`, write `preamble(config)`, and speak frames (`jail/supervisor.py`).
"""

from __future__ import annotations

import functools
import json
import struct
from importlib import resources
from typing import Any

__all__ = ["BOOT", "ENVIRONMENT", "WARM", "preamble"]

_MODULES = ("syscalls", "bpf", "landlock", "namespaces", "cgroups", "program", "zygote", "supervisor", "server")
_ROOM = "guerdon.sandboxes.jail"

BOOT = f"""
import json, os, sys, types
def read(count):
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part: os._exit(1)
        data += part
    return data
sent = json.loads(read(int.from_bytes(read(4), "little")))
for name in ("guerdon", "guerdon.sandboxes", "{_ROOM}"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, source in sent["modules"]:
    module = sys.modules["{_ROOM}." + name] = types.ModuleType("{_ROOM}." + name)
    setattr(sys.modules["{_ROOM}"], name, module)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
import fcntl
requests, replies = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (0, 1))
null = os.open("/dev/null", os.O_RDWR)
for fd in (0, 1): os.dup2(null, fd)
module.main(sent["config"], requests, replies)
"""

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",  # the same program gives the same output, and so the same reward
    "OPENBLAS_NUM_THREADS": "1",  # a pool of threads does not survive a fork
    "OMP_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # an arena reserves 64 MB of address space per thread: seven threads met a limit of 512 MB
}

WARM = (
    "array", "ast", "bisect", "cmath", "collections.abc", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions",
    "functools", "heapq", "io", "itertools", "json", "linecache", "math", "numbers", "operator", "random", "re", "signal", "statistics",
    "string", "struct", "textwrap", "threading", "time", "traceback", "types", "typing",
)  # fmt: skip
"""What solutions import: loaded once, and there even where the program's user could not read the interpreter's files."""


@functools.cache
def _sources() -> list[tuple[str, str]]:
    folder = resources.files(_ROOM)
    return [(name, folder.joinpath(f"{name}.py").read_text("utf-8")) for name in _MODULES]


def preamble(config: dict[str, Any]) -> bytes:
    """What to write to a booting interpreter; `jail/server.py` says what `config` holds. Then it sends a frame: ready or failed."""
    sent = json.dumps({"modules": _sources(), "config": config}).encode()
    return struct.pack("<I", len(sent)) + sent
