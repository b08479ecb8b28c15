"""System calls that the standard library lacks, by ctypes. Linux on x86-64 and aarch64 only."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

__all__ = [
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_RDONLY",
    "NEWIPC",
    "NEWNET",
    "NEWNS",
    "NEWPID",
    "NEWUSER",
    "NEWUTS",
    "NUMBERS",
    "Blob",
    "check",
    "close_from",
    "drop_bounding_set",
    "drop_capabilities",
    "fork",
    "mount",
    "prctl",
    "raw",
    "setns",
    "unmount",
    "unshare",
]

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8

NUMBERS: dict[str, int] = {
    "x86_64": {"pivot_root": 155, "seccomp": 317, "capset": 126},
    "aarch64": {"pivot_root": 41, "seccomp": 277, "capset": 91},
}.get(platform.machine(), {})
NUMBERS |= {"close_range": 436, "mount_setattr": 442, "landlock_create": 444, "landlock_add": 445, "landlock_restrict": 446}

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.restype = ctypes.c_long


class Blob:
    """Bytes at a fixed address, for structures handed to the kernel."""

    def __init__(self, content: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(content, len(content))
        self.address = ctypes.addressof(self._buffer)


_fork: Any = ctypes.PyDLL(None).fork  # keeps the interpreter lock


def fork() -> int:
    """fork(2) without the interpreter's hooks, for a process with one thread: they touch 180 pages, a quarter of a run's time.

    What they would do is not needed then (no lock is held by another thread), but for the reseeding of `random`.
    """
    return check(_fork(), "fork")


def check(result: int, what: str) -> int:
    """The result, or OSError that says which call failed."""
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def raw(name: str, *args: int | bytes | None) -> int:
    """A call by number; integers travel as 64-bit words, bytes as pointers."""
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return check(_libc.syscall(ctypes.c_long(NUMBERS[name]), *words), name)


def unshare(flags: int) -> None:
    check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, flags: int) -> None:
    check(_libc.setns(fd, flags), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, data)]
    check(_libc.mount(words[0], words[1], words[2], flags, words[3]), f"mount {kind or source or ''} on {target}")


def unmount(target: str) -> None:
    """Detach a mount and all below it."""
    check(_libc.umount2(target.encode(), 2), f"umount {target}")


def prctl(option: int, value: int = 0) -> None:
    check(_libc.prctl(option, value, 0, 0, 0), f"prctl({option})")


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    try:
        raw("close_range", first, 0xFFFFFFFF, 0)
    except OSError:
        os.closerange(first, 65536)


_NO_CAPABILITIES = bytes(24)
_CAPSET_HEADER = (0x20080522).to_bytes(4, "little") + bytes(4)
_CAP_LAST = 63


def drop_bounding_set() -> None:
    """Nothing executed later can gain a capability. Needs CAP_SETPCAP; without it no_new_privs has to do."""
    for capability in range(_CAP_LAST + 1):
        if _libc.prctl(24, capability, 0, 0, 0) == -1:
            return


def drop_capabilities() -> None:
    raw("capset", _CAPSET_HEADER, _NO_CAPABILITIES)
