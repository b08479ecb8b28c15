"""Programs run as plain child processes: no isolation at all.

For tests of what sits above a sandbox, and for machines without Linux, with programs one wrote oneself. A program run here can read and
delete this user's files, use the network and kill the trainer. Wall time is bounded, output cut, and CPU time, memory and file size
limited where the platform can; nothing else is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from guerdon.errors import ConfigError
from guerdon.sandboxes.base import Capabilities, Job, Level, Limits, RunResult, RunStatus
from guerdon.sandboxes.deadline import remaining

__all__ = ["Inline", "InlineSandbox"]

# Puts the channel at descriptor 3, sets what limits there are, and becomes the program.
_STARTER = """
import os, runpy, sys
cpu_s, memory_mb, file_kb, channel = map(int, sys.argv[1:5])
if channel >= 0:
    os.dup2(channel, 3)
try:
    import resource
    for limit, value in ((resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_DATA, memory_mb << 20), (resource.RLIMIT_FSIZE, file_kb << 10)):
        resource.setrlimit(limit, (value, value))
except (ImportError, ValueError, OSError):
    pass
sys.argv[:] = ["solution.py", *sys.argv[5:]]
sys.path.insert(0, os.getcwd())
runpy.run_path("solution.py", run_name="__main__")
"""


@dataclass(frozen=True, slots=True)
class Inline:
    """The spec of a sandbox that is none. Python only. Refuses to be built without `allow_unsafe=True`."""

    allow_unsafe: bool = False
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    min_isolation: Level = "none"

    def __post_init__(self) -> None:
        if self.allow_unsafe is not True:
            raise ConfigError("Inline runs programs with your rights and no isolation; pass allow_unsafe=True if you wrote them yourself")
        if self.min_isolation != "none":
            raise ConfigError(f"Inline isolates nothing, min_isolation={self.min_isolation!r} needs another sandbox, such as Zygote()")
        if type(self.workers) is not int or self.workers < 1:
            raise ConfigError(f"Inline: workers must be an integer of at least 1, got {self.workers!r}")

    def start(self) -> InlineSandbox:
        """A live one."""
        return InlineSandbox(self)


class InlineSandbox:
    """The live side of Inline: a subprocess per job, a thread per worker."""

    def __init__(self, spec: Inline) -> None:
        self._spec = spec

    def run(self, job: Job) -> RunResult:
        limits, left = job.limits or self._spec.limits, remaining()
        if job.language != "python":
            return RunResult("infra_error", backend="inline", detail=f"the inline sandbox runs Python only, not {job.language!r}")
        if left == 0.0:
            return _late()
        result = _spawn(job, limits, limits.wall_s if left is None else min(left, limits.wall_s))
        overdue = left is not None and left < limits.wall_s and result.timed_out_by == "wall"
        return _late() if overdue else result

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        import contextvars

        if not jobs:
            return []
        with ThreadPoolExecutor(min(self._spec.workers, len(jobs))) as pool:
            return [waiting.result() for waiting in [pool.submit(contextvars.copy_context().run, self.run, job) for job in jobs]]

    async def arun(self, job: Job) -> RunResult:
        return (await self.arun_many([job]))[0]

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        import asyncio

        return await asyncio.to_thread(self.run_many, jobs)

    def capabilities(self) -> Capabilities:
        return Capabilities("inline", "none", ("python",), self._spec.workers, "it isolates nothing, by design")

    def close(self) -> None:
        """Nothing is kept between runs."""

    def disown(self) -> None:
        """Nothing is kept between runs."""

    def __enter__(self) -> InlineSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _late() -> RunResult:
    detail = "the deadline passed before this run was done"
    return RunResult("infra_error", backend="inline", detail=detail, timed_out_by="deadline")


def _spawn(job: Job, limits: Limits, wall_s: float) -> RunResult:
    with tempfile.TemporaryDirectory(prefix="guerdon-inline-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        for path, content in [("solution.py", job.source.encode("utf-8", "surrogatepass")), *job.files]:
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        stdin, *streams = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(4))
        stdin.write(job.stdin)
        stdin.seek(0)
        file_kb = max(limits.output_kb + 1, limits.disk_mb * 1024)
        channel = streams[2].fileno() if job.channel else -1
        numbers = [str(int(limits.cpu_s) + 1), str(limits.memory_mb), str(file_kb), str(channel)]
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-s", "-P", "-B", "-c", _STARTER, *numbers, *job.args],
            stdin=stdin,
            stdout=streams[0],
            stderr=streams[1],
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", **({"GUERDON_CHANNEL": "3"} if job.channel else {})},
            pass_fds=(channel,) if job.channel else (),
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(wall_s)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        return _result(code, [_head(stream, limits) for stream in streams], limits, time.monotonic() - started)


def _head(stream: IO[bytes], limits: Limits) -> tuple[bytes, int]:
    """What a stream holds up to the limit, and how much more there is."""
    stream.seek(0)
    kept = stream.read(limits.output_kb * 1024)
    return kept, stream.seek(0, os.SEEK_END) - len(kept)


def _result(code: int | None, streams: list[tuple[bytes, int]], limits: Limits, wall_s: float) -> RunResult:
    (stdout, more), (stderr, _), (channel, hidden) = streams
    tail = stderr.rstrip().rpartition(b"\n")[2]
    status: RunStatus = "ok" if code == 0 else "nonzero"
    if code is None or code in (-getattr(signal, "SIGXCPU", 24), -9):
        status = "timeout"
    elif more or hidden:
        status = "output_limit"
    elif code < 0:
        status = "signal"
    elif code and tail.startswith((b"SyntaxError", b"IndentationError")) and b"solution.py" in stderr:
        status = "compile_error"
    elif code and tail.startswith(b"MemoryError"):
        status = "memory"
    return RunResult(
        status,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=stdout,
        stderr=stderr,
        channel=channel,
        dropped=sum(count for _, count in streams),
        wall_s=wall_s,
        backend="inline",
        timed_out_by="" if status != "timeout" else "wall" if code is None else "cpu",
    )
