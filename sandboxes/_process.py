"""One worker process as its parent sees it: start it, exchange frames with it, kill it, reap it.

Workers are exec'd interpreters over pipes, or forks of one (`_template`), never `multiprocessing`: the user's `__main__` is not
imported, nothing is forked from a process with threads or CUDA, and they start the same from scripts, stdin, notebooks, threads and
actors. Not a security boundary: results are pickles, and the function runs with this user's rights.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import guerdon
from guerdon.errors import SandboxError
from guerdon.sandboxes._worker import HEAD, MARK, READY, SIZE

__all__ = ["START_S", "Frame", "Worker", "above_standard", "ending"]

START_S = 60.0
"""A worker that has not imported its function after this long is given up (a cold sympy from a network disk takes 10 s)."""

# The parent's paths are appended, so that a `types.py` or `verifiers/` in the working directory shadows nothing; guerdon itself
# is loaded from the parent's very files, because another version may be installed in site-packages.
BOOTSTRAP = """
import sys
init, jobs, results, control, target, memory_mb, *paths = sys.argv[1:]
sys.path += [path for path in paths if path not in sys.path]
from importlib import util
spec = util.spec_from_file_location("guerdon", init)
sys.modules["guerdon"] = package = util.module_from_spec(spec)
spec.loader.exec_module(package)
from guerdon.sandboxes._worker import main
main(int(jobs), int(results), int(control), target, int(memory_mb))
"""

Frame = tuple[int, int, float, float, bytes]
"""kind, state, seconds, CPU seconds, body: see `_worker.HEAD`."""


class Worker:
    """A worker process. One thread owns it; `kill` alone may be called from others."""

    def __init__(self, target: str, memory_mb: int) -> None:
        self.phase = ""
        self.dead = False
        self._target, self._memory_mb = target, memory_mb
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._exit: int | None = None
        self._buffer = bytearray()
        fds: list[int] = []
        try:
            for _ in range(3):
                fds += above_standard(os.pipe())
        except OSError as error:
            _close(fds)
            raise SandboxError(f"cannot open pipes for a worker: {error}; raise the limit of open files (ulimit -n)") from error
        jobs, self._jobs, self._results, results, self._errors, errors = fds
        self._theirs: tuple[int, ...] = (jobs, results, errors)
        self._open = set(fds)
        self._readable = select.poll()
        self._readable.register(self._results, select.POLLIN)
        os.set_blocking(self._jobs, False)

    def start(self) -> None:
        """Exec the interpreter; does not wait for it. Raises SandboxError if there is none."""
        import subprocess

        jobs, results, errors, *control = self._theirs
        own = [str(guerdon.__file__), str(jobs), str(results), str(control[0] if control else -1), self._target, str(self._memory_mb)]
        try:
            process = subprocess.Popen(
                # -s -P and no PYTHON* variables is what -I does, save that -I would also ignore the fixed PYTHONHASHSEED
                [sys.executable or "", "-s", "-P", "-c", BOOTSTRAP, *own, *_paths()],
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(jobs, results, *control),
                env=_environment(),
                start_new_session=True,  # no Ctrl-C from the terminal, and a group that can be killed with its children
            )
        except OSError as error:
            fix = "set sys.executable to a Python interpreter that has guerdon's dependencies"
            raise SandboxError(f"cannot start a worker with sys.executable={sys.executable!r}: {error}; {fix}") from error
        finally:
            self._shut(self._theirs)
        self._pid = process.pid
        process.returncode = 0  # reaped here, by pid: Popen must neither wait for it nor warn about it

    def wait_ready(self, timeout_s: float = START_S) -> str:
        """Wait until the function is imported; what it has to say then. SandboxError with the reason and the end of its stderr."""
        deadline, noise, alive, frame = time.monotonic() + timeout_s, b"", True, None
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        poll.register(self._errors, select.POLLIN)
        while alive and frame is None and (events := poll.poll(max(0.0, deadline - time.monotonic()) * 1000)):
            for fd, _ in events:
                chunk = os.read(fd, 65536)
                if fd == self._results:
                    self._buffer += chunk
                    alive, frame = bool(chunk), self._frame()
                elif chunk:
                    noise = (noise + chunk)[-2000:]
                else:
                    poll.unregister(fd)
        self.dead = not alive
        if frame is not None and frame[0] == READY:
            self._shut([self._errors])
            return frame[4].decode("utf-8", "replace")
        self.kill()
        os.set_blocking(self._errors, False)
        with suppress(BlockingIOError):
            noise = (noise + os.read(self._errors, 65536))[-2000:]
        if frame is not None:
            why = frame[4].decode("utf-8", "replace")
        else:
            why = f"not ready after {timeout_s:g} s" if alive else f"it died ({ending(self.reap())})"
        tail = noise.decode("utf-8", "replace").strip()
        raise SandboxError(f"a worker cannot load {self._target!r}: {why}" + (f"; its stderr ends: {tail}" if tail else ""))

    def send(self, batch: object, timeout_s: float) -> bool:
        """Send a batch; False if the worker is gone or does not take it in time. SIGPIPE must be ignored or blocked."""
        body = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
        view, deadline = memoryview(SIZE.pack(len(body)) + body), time.monotonic() + timeout_s
        while view:
            try:
                view = view[os.write(self._jobs, view) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._jobs, select.POLLOUT)
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    return False
            except OSError:
                return False
        return True

    def receive(self, until: float) -> Frame | None:
        """The next result, or None at `until` (monotonic clock) or when the worker is `dead`. Notes phases on the way."""
        while (frame := self._frame()) is None:
            if self.dead or not self._readable.poll(max(0.0, until - time.monotonic()) * 1000):
                return None
            chunk = os.read(self._results, 65536)
            self.dead = not chunk
            self._buffer += chunk
        return frame

    def _frame(self) -> Frame | None:
        """Cut one whole frame off the buffer; phase marks are noted and skipped."""
        buffer = self._buffer
        while len(buffer) >= HEAD.size:
            kind, state, seconds, cpu_seconds, size = HEAD.unpack_from(buffer)
            if size > self._memory_mb << 20:  # more than it can hold: something else wrote to the pipe
                self.dead = True
                return None
            end = HEAD.size + size
            if len(buffer) < end:
                return None
            body = bytes(buffer[HEAD.size : end])
            del buffer[:end]
            if kind != MARK:
                return kind, state, seconds, cpu_seconds, body
            self.phase = body.decode("utf-8", "replace")
        return None

    def kill(self) -> None:
        """SIGKILL to the worker and its process group; safe from any thread, at any time."""
        with self._lock:
            self._kill()

    def _kill(self) -> None:
        if self._pid is not None:
            for send in (os.kill, os.killpg):
                with suppress(OSError):
                    send(self._pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """Make sure it is dead, collect it, close everything. The exit code as `Popen.returncode`; None if someone else took it.

        A process already dying keeps the cause it is dying of: the kill comes too late to change it.
        """
        with self._lock:
            self._kill()
            pid, self._pid = self._pid, None  # no kill from here on: the number may be given away again
        if pid is not None:
            self._exit = self._collect(pid)
        self.disown()
        return self._exit

    def _collect(self, pid: int) -> int | None:
        with suppress(ChildProcessError):  # SIGCHLD ignored, or a foreign waitpid(-1)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return None

    @property
    def was_killed(self) -> bool:
        """Whether it died of a signal, and not of this process's."""
        return self.dead and self._exit is not None and self._exit < 0

    def disown(self) -> None:
        """Close this process's descriptors, nothing more."""
        self._shut(list(self._open))

    def _shut(self, fds: Iterable[int]) -> None:
        mine = self._open.intersection(fds)
        self._open -= mine  # first: a fork in between must not close a number that was given away again
        _close(mine)


def ending(code: int | None) -> str:
    """An exit code in words.

    >>> ending(-11), ending(3)
    ('SIGSEGV', 'exit code 3')
    """
    if code is None:
        return "cause unknown: another part of this process collected it"
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def above_standard(pair: tuple[int, int]) -> tuple[int, int]:
    """A pair above the standard descriptors, also where those are closed (daemons): the child's would be overwritten."""
    if min(pair) > 2:
        return pair
    high = (fcntl.fcntl(pair[0], fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(pair[1], fcntl.F_DUPFD_CLOEXEC, 3))
    _close(pair)
    return high


def _paths() -> list[str]:
    paths = []
    for path in sys.path:
        with suppress(OSError):  # "" in a working directory that was removed
            paths.append(os.path.abspath(path))
    return paths


def _environment() -> dict[str, str]:
    """This process's environment, less what would change how an interpreter starts, plus what makes verdicts repeatable."""
    kept = ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") or name in kept}
    env |= {"PYTHONHASHSEED": "0", "SYMPY_GROUND_TYPES": "python"}  # sets iterate alike everywhere; gmpy2 and flint ignore signals
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | env  # one worker per core already
