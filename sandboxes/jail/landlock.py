"""Landlock: which paths a process and its children may touch, without any privilege. Kernel 5.13 and later.

Covers reading, writing, executing and making files, TCP (ABI 4), and signals and abstract sockets to outsiders (ABI 6). Not
covered by any version: metadata (stat, chmod, times) and UDP; the seccomp filter refuses what it can of these.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from guerdon.sandboxes.jail.syscalls import prctl, raw

__all__ = ["Ruleset", "abi"]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # the rights a rule on a plain file may grant
_READ = _EXECUTE | _READ_FILE | _READ_DIR


def abi() -> int:
    """The kernel's version of Landlock, 0 if there is none."""
    try:
        return raw("landlock_create", None, 0, 1)
    except OSError:
        return 0


class Ruleset:
    """Read and execute below `readable`, everything below `writable`, nothing else."""

    def __init__(self, readable: Iterable[str], writable: Iterable[str]) -> None:
        version = abi()
        self._handled = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
        network, scope = 3 if version >= 4 else 0, 3 if version >= 6 else 0
        attributes = struct.pack("QQQ", self._handled, network, scope)
        size = 24 if version >= 6 else 16 if version >= 4 else 8
        self.fd = raw("landlock_create", attributes, size, 0)
        for path in readable:
            self._allow(path, _READ)
        for path in writable:
            self._allow(path, self._handled)

    def _allow(self, path: str, rights: int) -> None:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return  # a path that is not there needs no rule
        try:
            rights &= self._handled if os.path.isdir(path) else self._handled & _FILE
            raw("landlock_add", self.fd, 1, struct.pack("=Qi", rights, fd), 0)
        finally:
            os.close(fd)

    def enforce(self) -> None:
        """From here on, for this thread and all it starts. Sets no_new_privs."""
        prctl(38, 1)
        raw("landlock_restrict", self.fd, 0)
