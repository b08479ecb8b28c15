"""The default sandbox: warm interpreters that fork one jailed child per run. No daemon, no privilege needed.

Three rungs, the best that works here is used and every result says which. `namespaces`: no network, no file but a read-only view of
the system's programs and libraries and an empty sized /tmp, no other process in sight, bounded time, memory, processes, output and
disk, nothing survives a run. `landlock`, where a container forbids namespaces: the same files, no network, no signals out, but
programs can start threads only, file metadata can be seen, and the folder's size is watched rather than fixed. `rlimits`: limits
and a system call filter only; warns, and is refused unless `min_isolation` allows it.

Not promised at any rung: kernel bugs and side channels. For hostile tenants put a virtual machine around it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guerdon.errors import ConfigError
from guerdon.sandboxes.base import Level, Limits, at_least, check_level

if TYPE_CHECKING:
    from guerdon.sandboxes._zygote import ZygoteSandbox

__all__ = ["COMPILE_LIMITS", "RUNGS", "Zygote"]

RUNGS: tuple[Level, ...] = ("namespaces", "landlock", "rlimits")
COMPILE_LIMITS = Limits(cpu_s=30.0, wall_s=90.0, memory_mb=2048, output_kb=65536, disk_mb=256, processes=64, open_files=256)


@dataclass(frozen=True, slots=True)
class Zygote:
    """The spec of a zygote sandbox.

    `workers`: how many programs run at once; None is GUERDON_WORKERS, or two per usable CPU divided by LOCAL_WORLD_SIZE. `limits`
    hold for jobs that bring none. `preload`: modules imported once, before any program runs (numpy and sympy: a run takes 3 ms
    instead of 300). `readable`: more paths that programs may read. `level`: use this rung and no other. `python`: the interpreter;
    None is this one.

    >>> Zygote(workers=2, preload=("numpy",)).min_isolation
    'landlock'
    """

    workers: int | None = None
    limits: Limits = field(default_factory=Limits)
    min_isolation: Level = "landlock"
    preload: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    compile_limits: Limits = COMPILE_LIMITS
    level: Level | None = None
    python: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and (type(self.workers) is not int or self.workers < 1):
            raise ConfigError(f"Zygote: workers must be an integer of at least 1 or None, got {self.workers!r}")
        check_level("Zygote", self.min_isolation)
        if not at_least("namespaces", self.min_isolation):
            raise ConfigError(f"Zygote reaches {RUNGS[0]!r} at best, min_isolation={self.min_isolation!r} needs another sandbox")
        if self.level is not None and self.level not in RUNGS:
            raise ConfigError(f"Zygote: level must be one of {', '.join(RUNGS)} or None, got {self.level!r}")
        if self.level is not None and not at_least(self.level, self.min_isolation):
            raise ConfigError(f"Zygote: level={self.level!r} is below min_isolation={self.min_isolation!r}; lower min_isolation too")
        for name in ("preload", "readable"):
            words = getattr(self, name)
            if isinstance(words, str) or not all(isinstance(word, str) and word for word in words):
                raise ConfigError(f"Zygote: {name} must be a tuple of names, got {words!r}")
            object.__setattr__(self, name, tuple(words))
        for path in self.readable:
            if not os.path.isabs(path) or os.path.realpath(path) == "/":
                raise ConfigError(f"Zygote: readable must hold absolute paths below /, got {path!r}")
        for name in ("limits", "compile_limits"):
            if not isinstance(getattr(self, name), Limits):
                raise ConfigError(f"Zygote: {name} must be Limits, got {getattr(self, name)!r}")

    def start(self) -> ZygoteSandbox:
        """A live sandbox of one's own; `guerdon.sandboxes.sandbox(spec)` gives the shared one."""
        from guerdon.sandboxes._zygote import ZygoteSandbox  # processes, sockets: not for those who only hold a spec

        return ZygoteSandbox(self)
