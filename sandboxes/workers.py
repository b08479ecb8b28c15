"""A killable pool for slow pure functions: every job is bounded in CPU time, wall time and memory, from any thread.

Meant for guerdon's own functions and for user functions that may hang (the math fallback: `\\boxed{9^{9^9}}` holds the
interpreter lock for ever, and only killing the process ends it). Workers are exec'd interpreters or forks of one, never of the
caller, so it works in scripts without a `__main__` guard, on stdin, in notebooks, threads, running event loops, forked and spawned
processes and Ray actors, and leaves the caller's signals and timers alone.

Not a security boundary: functions run with the user's rights and results come back as pickles. Text that wants to be *executed*
belongs in a sandbox. A job may run twice (if its worker is lost, or if it waited behind a slow one), so functions should be pure;
they should leave no threads behind, whose CPU time would be charged to later jobs, and keep off SIGALRM and SIGPROF.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from guerdon.errors import ConfigError, SandboxError
from guerdon.sandboxes import _worker, registry
from guerdon.sandboxes.deadline import remaining

if TYPE_CHECKING:
    from guerdon.sandboxes._crew import Crew

__all__ = ["Done", "Failed", "Pool", "PoolSpec", "default_workers", "pool"]

Kind = Literal["cpu", "wall", "memory", "lost", "deadline", "exception"]


@dataclass(frozen=True, slots=True)
class Done:
    """The function returned `value`, after `seconds` of wall and `cpu_seconds` of CPU time in the worker."""

    value: Any
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The job has no value. `phase` is the last one the function marked, `seconds` how long the job ran (`deadline`: since the call).

    `cpu` and `wall`: it overran that limit and was killed. `memory`: MemoryError under the pool's limit. `exception`: the function
    raised; `detail` is the exception's line and place. `lost`: its worker died of something else, twice. `deadline`: the call's
    deadline passed first. `wall`, `lost` and `deadline` can be the host's doing, the others are the job's.
    """

    kind: Kind
    detail: str = ""
    phase: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Which function a pool runs, and in how many workers of what size.

    `target` is `"pkg.mod:function"` or `"file.py:function"` (kept as an absolute path). `workers=None` means one per usable CPU
    divided by LOCAL_WORLD_SIZE, or GUERDON_WORKERS. `memory_mb` limits the address space of each worker; one that holds half
    of it after a job is replaced. With `warm_spares`, replacing a killed one is instant: on Linux workers are forked from a process
    that has imported the function and does nothing else; elsewhere, and where the import leaves threads or connections behind, so many
    imported workers are kept ready.

    >>> PoolSpec("math:factorial", workers=2).target
    'math:factorial'
    """

    target: str
    workers: int | None = None
    memory_mb: int = 2048
    warm_spares: int = 1

    def __post_init__(self) -> None:
        where, colon, name = self.target.rpartition(":") if isinstance(self.target, str) else ("", "", "")
        if not colon or not where or not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(f"PoolSpec: target must be 'pkg.mod:function' or 'file.py:function', got {self.target!r}")
        if where == "__main__":
            raise ConfigError(f"PoolSpec: {self.target!r} cannot be imported by a worker; name the file instead: 'script.py:{name}'")
        if where.endswith(".py"):
            if not os.path.isfile(where):
                raise ConfigError(f"PoolSpec: no file {where!r} (working directory: {os.getcwd()}); expected 'file.py:function'")
            object.__setattr__(self, "target", f"{os.path.abspath(where)}:{name}")
        for field, value, least in (("workers", self.workers, 1), ("memory_mb", self.memory_mb, 64), ("warm_spares", self.warm_spares, 0)):
            if (value is not None or field != "workers") and (type(value) is not int or value < least):
                raise ConfigError(f"PoolSpec: {field} must be an integer of at least {least}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Pool:
    """The handle of a pool: `map` and `amap` use this process's live workers of `spec`, started on first use.

    It holds nothing but the spec, so it pickles, survives forks, and starts afresh after `close`. Threads and tasks may share it:
    their calls take turns, batch by batch, and a job that hangs occupies one worker only.
    """

    spec: PoolSpec

    def map(self, jobs: Sequence[tuple[Any, ...]], timeout_s: float, cpu_s: float | None = None) -> list[Done | Failed]:
        """Run `function(*job)` for each job; one result per job, in order.

        `timeout_s` bounds the wall time and `cpu_s` the CPU time of each job, counted in the worker from the moment it starts on
        the job. `cpu_s` defaults to half of `timeout_s`: a computation that never ends then dies of its CPU limit, not of the
        wall, even on a host so busy that it gets only half a core, and what dies of the wall was waiting for something else. The
        contextual deadline (`guerdon.sandboxes.until`) bounds the whole call. Returns at most 0.3 s after a limit.

        Raises ConfigError for wrong arguments and SandboxError if no worker can be started or the pool is closed meanwhile; never
        for what a job does.
        """
        import threading

        cpu_s, left = _limits(jobs, timeout_s, cpu_s), remaining()
        if not jobs or left == 0.0:
            return [_EXPIRED for _ in jobs]
        done = threading.Event()
        crew = self._crew()
        call = crew.submit(jobs, timeout_s, cpu_s, done.set)
        try:
            done.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        finally:  # also on KeyboardInterrupt
            crew.abandon(call)
        return call.answers()

    async def amap(self, jobs: Sequence[tuple[Any, ...]], timeout_s: float, cpu_s: float | None = None) -> list[Done | Failed]:
        """`map` without blocking the event loop; cancelling it kills what runs and drops what waits."""
        import asyncio

        cpu_s, left = _limits(jobs, timeout_s, cpu_s), remaining()
        if not jobs or left == 0.0:
            return [_EXPIRED for _ in jobs]
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(done.set)

        crew = self._crew()
        call = crew.submit(jobs, timeout_s, cpu_s, wake)
        try:
            async with asyncio.timeout(left):
                await done.wait()
        except TimeoutError:
            pass
        finally:
            crew.abandon(call)
        return call.answers()

    def close(self) -> None:
        """End this process's workers of this spec; later use starts afresh."""
        registry.drop(self.spec)

    def _crew(self) -> Crew:
        if _worker.inside():
            raise SandboxError(
                "a worker started to use a pool of its own: the file or module of its function does so when imported; "
                'put that under `if __name__ == "__main__":` or the function in a module of its own'
            )
        from guerdon.sandboxes._crew import Crew

        return registry.get(self.spec, Crew)


_EXPIRED = Failed("deadline", "the deadline had passed before the call")


def pool(spec: PoolSpec) -> Pool:
    """The pool of a spec. Equal specs share their workers within a process.

    >>> pool(PoolSpec("math:factorial", workers=1, warm_spares=0)).map([(3,), (-1,)], timeout_s=5.0)[0].value
    6
    """
    return Pool(spec)


def default_workers() -> int:
    """Usable CPUs divided by LOCAL_WORLD_SIZE (the trainer's processes on this host), at least 1; GUERDON_WORKERS overrides."""
    if (own := _positive("GUERDON_WORKERS")) is not None:
        return own
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cpus // (_positive("LOCAL_WORLD_SIZE") or 1))


def _positive(variable: str) -> int | None:
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{variable}={text!r}: expected a whole number of at least 1; mend it or unset it")
    return int(text)


def _limits(jobs: Sequence[tuple[Any, ...]], timeout_s: float, cpu_s: float | None) -> float:
    """Check the arguments of a call; the CPU limit."""
    cpu_s = timeout_s / 2 if cpu_s is None else cpu_s
    for name, value in (("timeout_s", timeout_s), ("cpu_s", cpu_s)):
        if not 0.001 <= value < math.inf:
            raise ConfigError(f"Pool.map: {name} must be at least 0.001 seconds and finite, got {value!r}")
    for job in jobs:
        if not isinstance(job, tuple):
            raise ConfigError(f"Pool.map: each job is a tuple of arguments, got {type(job).__name__}; write (value,)")
    return cpu_s
