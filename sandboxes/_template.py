"""A process that has imported a pool's function and does no jobs: workers are forked from it in milliseconds.

An import of sympy takes a second of CPU time, and every job that has to be killed would cost one. What is forked is a fresh,
single-threaded interpreter that has done nothing but import, never a process of the caller's. Where the import left threads or open
descriptors, which copies would share, it says so and is not used. Linux only.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from array import array
from contextlib import suppress

from guerdon.errors import SandboxError
from guerdon.sandboxes._forking import ENDED, FORK, REPLY, REQUEST, RUNNING, WAIT
from guerdon.sandboxes._process import START_S, Worker, above_standard

__all__ = ["Forked", "Template"]

ANSWER_S = 10.0
"""A template that does not answer within this is given up; it takes a millisecond."""


class Template(Worker):
    """See the module. Its methods may be called from any thread."""

    def __init__(self, target: str, memory_mb: int) -> None:
        super().__init__(target, memory_mb)
        self._talk = threading.Lock()
        try:
            ours, theirs = above_standard(_socket_pair())
        except OSError as error:
            super().disown()
            raise SandboxError(f"cannot open a socket for a worker: {error}; raise the limit of open files (ulimit -n)") from error
        self._control = socket.socket(fileno=ours)
        self._control.settimeout(ANSWER_S)
        self._theirs = (*self._theirs, theirs)
        self._open.add(theirs)
        self._ready = False
        self._unfit = self._failure = ""

    def wait_ready(self, timeout_s: float = START_S) -> str:
        """Why no worker can be forked from it, empty if they can. SandboxError, to every caller, if the import failed."""
        with self._talk:
            if self._failure:
                raise SandboxError(self._failure)
            if not self._ready:
                try:
                    self._unfit = super().wait_ready(timeout_s)
                except SandboxError as error:
                    self._failure = str(error)
                    raise
                self._ready = True
        return self._unfit

    def kill_if_importing(self) -> None:
        """Later it is needed to reap its workers."""
        if not self._ready:
            self.kill()

    @property
    def is_ready(self) -> bool:
        """Whether workers can be forked from it, as far as is known."""
        return self._ready and not self.dead

    def fork(self, fds: tuple[int, int]) -> int:
        """The pid of a new worker that has these descriptors. Raises SandboxError if the template or the host cannot."""
        pid = self._ask(FORK, 0, fds)
        if pid < 0:
            raise SandboxError("cannot fork a worker: no more processes or memory")
        return pid

    def wait(self, pid: int) -> int | None:
        """The exit code of a worker that is ending, once it has; None if the template is gone: its workers end with it."""
        pause = 0.0005
        try:
            while (status := self._ask(WAIT, pid)) == RUNNING:
                time.sleep(pause)
                pause = min(0.02, 2 * pause)
        except SandboxError:
            return None
        return None if status == ENDED else os.waitstatus_to_exitcode(status)

    def _ask(self, what: int, pid: int, fds: tuple[int, ...] = ()) -> int:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        with self._talk:
            try:
                self._control.sendmsg([REQUEST.pack(what, pid)], rights, socket.MSG_NOSIGNAL)
                reply = self._control.recv(REPLY.size)
            except OSError:
                reply = b""
            if len(reply) != REPLY.size:  # it is gone, or out of step
                self.dead = True
                self.kill()
                raise SandboxError("the process that workers are forked from ended")
            return int(REPLY.unpack(reply)[0])

    def disown(self) -> None:
        super().disown()
        self._control.close()


class Forked(Worker):
    """A worker that is forked from a template, which reaps it when it is asked to."""

    def __init__(self, template: Template, target: str, memory_mb: int) -> None:
        super().__init__(target, memory_mb)
        self._template = template
        self._pidfd = -1

    def start(self) -> None:
        try:
            pid = self._template.fork((self._theirs[0], self._theirs[1]))
        finally:
            self._shut(self._theirs)
        with self._lock:
            try:
                self._pidfd = os.pidfd_open(pid)
            except OSError as error:  # it ends by itself: its pipes are closed
                raise SandboxError(f"cannot watch a worker: {error}; raise the limit of open files (ulimit -n)") from error
            self._open.add(self._pidfd)
            self._pid = pid

    def _kill(self) -> None:
        """Not by its number, which may be given away again if the template died, and with it the one that reaps."""
        if self._pid is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                os.killpg(self._pid, signal.SIGKILL)

    def _collect(self, pid: int) -> int | None:
        return self._template.wait(pid)


def _socket_pair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()
