"""What a worker's answer, or its death, means for the job."""

from __future__ import annotations

import pickle
import signal

from guerdon.sandboxes._process import Frame, ending
from guerdon.sandboxes._worker import DONE, EXCEPTION
from guerdon.sandboxes.workers import Done, Failed, Kind

__all__ = ["cause_of_death", "result_of"]


def result_of(frame: Frame, phase: str) -> Done | Failed:
    """A worker's answer to one job, as the caller gets it."""
    kind, _, seconds, cpu_seconds, body = frame
    if kind == EXCEPTION:
        return Failed("exception", body.decode("utf-8", "replace"), phase, seconds)
    if kind != DONE:
        return Failed("memory", "MemoryError under the worker's limit", phase, seconds)
    try:
        return Done(pickle.loads(body), seconds, cpu_seconds)
    except Exception as error:
        return Failed("exception", f"the result cannot be unpickled here: {type(error).__name__}: {error}"[:500], phase, seconds)


def cause_of_death(code: int | None, elapsed: float, *, overran: bool, timeout_s: float, cpu_s: float) -> tuple[Kind, str]:
    """Why a worker died over a job, and in words.

    `code` is its exit code as in `Popen.returncode`, None where someone else collected it: then only the clock can tell.
    `overran` says that the parent had to kill it after the wall limit.

    >>> cause_of_death(-signal.SIGPROF, 1.0, overran=False, timeout_s=2.0, cpu_s=1.0)
    ('cpu', 'used up its CPU limit of 1 s')
    """
    if code == -signal.SIGPROF or (code is None and cpu_s <= elapsed < timeout_s):
        return "cpu", f"used up its CPU limit of {cpu_s:g} s"
    if code == -signal.SIGALRM or (code in (None, -signal.SIGKILL) and (overran or elapsed >= timeout_s)):
        return "wall", f"still running after {timeout_s:g} s"
    hint = "; C code that meets the memory limit can die so" if code in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS) else ""
    return "lost", f"its worker died: {ending(code)}{hint}"
