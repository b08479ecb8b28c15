"""What runs inside a template: fork a worker for whoever asks over a socket. Standard library only.

See `_template`, the parent's side.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

__all__ = ["ENDED", "FORK", "REPLY", "REQUEST", "RUNNING", "WAIT", "descriptors", "fork_on_demand", "unfit"]

REQUEST = struct.Struct("<Bi")
"""FORK (with the worker's two descriptors) or WAIT, and a pid."""
REPLY = struct.Struct("<i")
"""The pid, or -1 if none could be forked. The status of waitpid, RUNNING, or ENDED if somebody else took it."""

FORK, WAIT = range(2)
RUNNING, ENDED = -1, -2


def descriptors() -> set[int]:
    """What this process has open."""
    found = set()
    with suppress(OSError):
        for fd in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):  # that of the listing
                os.fstat(fd)
                found.add(fd)
    return found


def unfit(before: set[int]) -> str:
    """Why no workers can be forked from this process, which had `before` open before its import; empty if they can."""
    try:
        os.close(os.pidfd_open(os.getpid()))
        threads = len(os.listdir("/proc/self/task"))
    except (AttributeError, OSError):
        return f"{sys.platform} here has no pidfd or no /proc"
    if threads > 1:
        return "the import started threads"
    return "the import left files or connections open" if descriptors() - before else ""


def fork_on_demand(control_fd: int) -> tuple[int, int]:
    """Serve a control socket until it closes. Returns only in the workers: the descriptors of their jobs and results."""
    import ctypes
    import gc
    import socket

    prctl, me = ctypes.CDLL(None).prctl, os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, nobody hears how a child ended
    gc.collect()
    gc.freeze()  # collections in workers leave the shared pages alone
    with socket.socket(fileno=control_fd) as control:
        while True:
            request, fds, *_ = socket.recv_fds(control, REQUEST.size, 2)
            if len(request) < REQUEST.size:
                os._exit(0)  # and the workers with this process
            what, pid = REQUEST.unpack(request)
            answer = _status(pid) if what == WAIT else _fork()
            if answer == 0 and what == FORK:
                prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                if os.getppid() != me:
                    os._exit(1)
                os.setsid()  # a group that can be killed with its children
                return fds[0], fds[1]
            _answer(control, answer, fds)


def _answer(control: socket.socket, answer: int, fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
    control.sendall(REPLY.pack(answer))


def _fork() -> int:
    try:
        return os.fork()
    except OSError:
        return -1


def _status(pid: int) -> int:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return ENDED
    return status if ended else RUNNING
