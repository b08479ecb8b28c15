"""What runs inside a worker process: import one function, then call it on jobs read from a pipe until the pipe closes.

Standard library only, and as little of it as possible: this module is the start-up cost of every worker.
A template does no jobs: it imports the function and forks the workers that do.
Each job is bounded by two kernel timers whose default action kills the process, so that C code which never gives the
interpreter a chance (`9**9**9`) cannot outlive them. The parent learns the cause from the signal the worker died of.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from guerdon.sandboxes._forking import descriptors, fork_on_demand, unfit

__all__ = ["main", "mark"]

HEAD = struct.Struct("<BBddQ")
"""Worker to parent: kind, state, seconds, CPU seconds, length of the body that follows."""
SIZE = struct.Struct("<Q")
"""Parent to worker: length of the pickled batch `(timeout_s, cpu_s, [pickled arguments, ...])` that follows."""

READY, BROKEN, MARK, DONE, EXCEPTION, MEMORY = range(6)
"""Kinds. Body: why no workers can be forked (of templates), text, phase, pickled value, text, none."""
MORE, OVER, WORN = range(3)
"""States: the batch goes on; it ends here; it ends here and the worker should be replaced."""

SLOW_S = 0.02
"""A batch ends after its first job slower than this: what is behind it goes back to the queue, for any worker."""
MAX_JOBS = 50_000
"""A worker is replaced after this many jobs: caches grow, and the import (about 1 s for sympy) is then 0.5 % of 4 ms jobs."""

_results: int | None = None
_pid: int | None = None
_phase = ""


def mark(phase: str) -> None:
    """Say which phase of the job begins (e.g. "candidate"): a job that is killed is reported with its last phase.

    Costs one small write when the phase changes. Does nothing outside a worker, so marked functions also run in-process.

    >>> mark("candidate")
    """
    global _phase
    if _results is not None and phase != _phase and os.getpid() == _pid:
        _phase = phase
        _send(MARK, body=phase[:64].encode("utf-8", "backslashreplace"))


def inside() -> bool:
    """Whether this process is a worker."""
    return _results is not None


def main(jobs_fd: int, results_fd: int, control_fd: int, target: str, memory_mb: int) -> None:
    """Serve jobs, or fork those who do where there is a control socket, until the parent closes the pipe or dies. Never returns."""
    global _results, _pid
    _results, _pid = results_fd, os.getpid()
    _reset_signals()
    before = descriptors() if control_fd >= 0 else set()
    _limit(memory_mb)
    try:
        from guerdon.loading import load

        if (file := target.rpartition(":")[0]).endswith(".py"):
            sys.path.append(os.path.dirname(file))  # as for a script, but last: the modules beside it shadow nothing
        function = load(target)
        if not callable(function):
            raise TypeError(f"it is a {type(function).__name__}, expected a function")
    except BaseException as error:
        _send(BROKEN, body=describe(error))
        os._exit(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):  # prints go nowhere; the protocol has descriptors of its own
        os.dup2(null, fd)
    os.close(null)
    if control_fd >= 0:
        os.close(jobs_fd)
        _send(READY, body=unfit(before).encode())
        jobs_fd, results = fork_on_demand(control_fd)
        os.close(results_fd)
        _results, _pid = results, os.getpid()
    _send(READY)
    with suppress(OSError, EOFError), open(jobs_fd, "rb") as jobs:
        _serve(function, jobs, memory_mb)
    os._exit(0)  # no atexit, no joining of threads the function may have left


def _serve(function: Callable[..., Any], jobs: BinaryIO, memory_mb: int) -> None:
    count = 0
    while len(head := jobs.read(SIZE.size)) == SIZE.size:
        timeout_s, cpu_s, payloads = pickle.loads(jobs.read(*SIZE.unpack(head)))
        for number, payload in enumerate(payloads, 1):
            kind, seconds, cpu_seconds, body = run(function, payload, timeout_s, cpu_s)
            count += 1
            state = MORE
            if number == len(payloads) or seconds > SLOW_S:
                state = WORN if count >= MAX_JOBS or _resident_mb() > memory_mb / 2 else OVER
            if os.getpid() != _pid:  # the function forked, and this is the copy
                os._exit(0)
            _send(kind, state, seconds, cpu_seconds, body)
            if state != MORE:
                break


def run(function: Callable[..., Any], payload: bytes, timeout_s: float, cpu_s: float) -> tuple[int, float, float, bytes]:
    """Call the function on pickled arguments under both timers: kind, seconds, CPU seconds, body.

    Reading the arguments and writing the result count as part of the job.
    """
    global _phase
    _phase = ""
    cpu, wall = time.process_time(), time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    blame = b""
    try:
        value = function(*pickle.loads(payload))
        blame = b"the result cannot be pickled: "
        kind, body = DONE, pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        kind, body = MEMORY, b""
    except BaseException as error:  # SystemExit, and libraries whose timeouts derive from BaseException
        kind, body = EXCEPTION, blame + describe(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    return kind, time.perf_counter() - wall, time.process_time() - cpu, body


def describe(error: BaseException) -> bytes:
    """One line: type, message, and where it was raised. Survives exceptions whose message raises."""
    try:
        text, trace = " ".join(f"{type(error).__qualname__}: {error}"[:500].splitlines()), error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            text += f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
        return text.encode("utf-8", "backslashreplace")
    except BaseException:
        return type(error).__qualname__.encode("utf-8", "backslashreplace")


def _send(kind: int, state: int = OVER, seconds: float = 0.0, cpu_seconds: float = 0.0, body: bytes = b"") -> None:
    assert _results is not None
    view = memoryview(HEAD.pack(kind, state, seconds, cpu_seconds, len(body)) + body)
    while view:
        view = view[os.write(_results, view) :]


def _reset_signals() -> None:
    """Default action for the timers' signals, whatever the parent ignored or blocked; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _limit(memory_mb: int) -> None:
    import resource

    for name, value in (("RLIMIT_AS", memory_mb << 20), ("RLIMIT_CORE", 0)):
        with suppress(AttributeError, ValueError, OSError):  # not every system has them or lets them be set
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (limit, limit))


def _resident_mb() -> float:
    """Resident memory, or 0 where /proc is missing. Not getrusage: after vfork its peak is the parent's."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except OSError:
        return 0.0
