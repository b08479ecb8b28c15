"""From a zygote's reply to a RunResult: one pure function, so that every backend with a zygote inside says the same."""

from __future__ import annotations

import re
import signal
from typing import Literal

from guerdon.sandboxes._slot import Reply
from guerdon.sandboxes.base import Level, Limits, RunResult, RunStatus

__all__ = ["lost", "outcome"]

# What runtimes say when an allocation fails; on the last lines of stderr. It only ever colours a failure.
_MEMORY = re.compile(
    rb"^(?:\w+\.)*_?(?:Array)?MemoryError\b|std::bad_alloc|OutOfMemoryError|heap out of memory|runtime: out of memory"
    rb"|memory allocation of \d{1,20} bytes failed|[Cc]annot allocate\b|insufficient memory for the Java",
    re.MULTILINE,
)


def lost(why: str, level: Level, backend: str) -> RunResult:
    """The result of a job whose sandbox died under it twice (`why`), or that the deadline of its call overtook (empty)."""
    if why:
        return RunResult("infra_error", level=level, backend=backend, detail=f"the sandbox was lost twice under this job: {why}")
    detail = "the deadline passed before this run was done"
    return RunResult("infra_error", level=level, backend=backend, detail=detail, timed_out_by="deadline")


def outcome(reply: Reply, limits: Limits, level: Level, backend: str) -> RunResult:
    """What a reply says about the program."""
    header = reply.header
    if "failed" in header:
        return RunResult("infra_error", level=level, backend=backend, detail=header["failed"])
    stdout, stderr, channel = reply.blobs
    status, detail, timed_out_by = _status(reply, limits)
    report = str(header["report"])
    return RunResult(
        status,
        exit_code=header["exit"],
        signal=header["signal"],
        stdout=stdout,
        stderr=report[1:].encode() if status == "compile_error" else stderr,
        channel=channel,
        dropped=header["dropped"],
        cpu_s=header["cpu"],
        wall_s=header["wall"],
        maxrss_mb=header["rss"],
        level=level,
        backend=backend,
        detail=detail,
        timed_out_by=timed_out_by,
    )


def _status(reply: Reply, limits: Limits) -> tuple[RunStatus, str, Literal["", "cpu", "wall"]]:
    header, stderr = reply.header, reply.blobs[1]
    report, ended_by, killer = header["report"], header["ended_by"], header["signal"]
    if report.startswith("E"):
        return "infra_error", f"the jail could not be set up: {report[1:]}", ""
    if report.startswith("C"):
        return "compile_error", "", ""
    if ended_by == "cpu":
        return "timeout", f"still running after {limits.cpu_s:g} s of CPU time", "cpu"
    if ended_by == "wall":
        return "timeout", f"still running after {limits.wall_s:g} s", "wall"
    if ended_by == "output":
        return "output_limit", f"more than {limits.output_kb} kB of output", ""
    if ended_by == "disk":
        return "output_limit", f"more than {limits.disk_mb} MB in files", ""
    if killer == signal.SIGXCPU or (killer == signal.SIGKILL and header["cpu"] >= limits.cpu_s):
        return "timeout", f"used up its CPU limit of {limits.cpu_s:g} s", "cpu"
    if header["exit"] == 0:
        return "ok", "", ""
    if header["oom"]:
        return "memory", f"its processes together needed more than {limits.memory_mb} MB", ""
    if _MEMORY.search(stderr[-4096:]):
        return "memory", f"an allocation failed under the limit of {limits.memory_mb} MB", ""
    if killer is not None:
        return "signal", f"killed by {_name(killer)}", ""
    return "nonzero", f"exit code {header['exit']}", ""


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
