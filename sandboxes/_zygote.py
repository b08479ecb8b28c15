"""The live side of a Zygote spec: finds the best rung, compiles, sends jobs to the zygotes and reads their replies."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Sequence
from typing import Any

from guerdon.errors import SandboxError
from guerdon.sandboxes._boot import ENVIRONMENT, WARM
from guerdon.sandboxes._fleet import Fleet, Request
from guerdon.sandboxes._outcome import lost, outcome
from guerdon.sandboxes._slot import Reply, Slot, frame
from guerdon.sandboxes.base import Capabilities, Job, Level, Limits, RunResult, at_least
from guerdon.sandboxes.compile_cache import Artefact, CompileCache, compile_job, key, unpack
from guerdon.sandboxes.deadline import DEADLINE
from guerdon.sandboxes.languages import LANGUAGES, Language, available, find, trees
from guerdon.sandboxes.workers import default_workers
from guerdon.sandboxes.zygote import RUNGS, Zygote

__all__ = ["PYTHON", "ZygoteSandbox", "default_slots", "job_request"]


class ZygoteSandbox:
    """The live sandbox of a Zygote spec. See `Sandbox` for what it promises to callers.

    Raises SandboxError when built if no rung of at least `min_isolation` works here, and says why each did not.
    """

    def __init__(self, spec: Zygote) -> None:
        self._spec = spec
        python = spec.python or sys.executable
        if not sys.platform.startswith("linux") or not python:
            raise SandboxError("the zygote sandbox needs Linux and a Python executable; use a docker or remote sandbox here")
        slot, self._level, config, self._why = _climb(spec, python)
        self._notes = tuple(slot.ready.header.get("notes", ())) if slot.ready else ()
        self._size = spec.workers or default_slots()
        self._fleet = Fleet(python, config, self._size, slot)
        self._cache = CompileCache()

    # the protocol

    def run(self, job: Job) -> RunResult:
        return self.run_many([job])[0]

    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        return self._run(jobs, threading.Event())

    async def arun(self, job: Job) -> RunResult:
        return (await self.arun_many([job]))[0]

    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]:
        import asyncio

        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(self._run, jobs, cancelled)
        finally:
            cancelled.set()  # what runs is killed within a fraction of a second

    def capabilities(self) -> Capabilities:
        return Capabilities("zygote", self._level, available(), self._size, self._why, self._notes)

    def close(self) -> None:
        self._fleet.close()

    def disown(self) -> None:
        self._fleet.disown()

    def __enter__(self) -> ZygoteSandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # how

    def _run(self, jobs: Sequence[Job], cancelled: threading.Event) -> list[RunResult]:
        artefacts = self._compile(jobs, cancelled)
        results: dict[int, RunResult] = {}
        todo: dict[int, Job] = {}
        requests: list[Request] = []
        for index, job in enumerate(jobs):
            language = _language(job)
            artefact = artefacts.get(key(job.language, job.flags, job.source), Artefact())
            if isinstance(language, str):
                results[index] = RunResult("infra_error", level=self._level, backend="zygote", detail=language)
            elif artefact.failure is not None:
                results[index] = artefact.failure
            else:
                todo[index] = job
                requests.append(job_request(job, job.limits or self._spec.limits, language, artefact))
        results.update(zip(todo, self._drive(list(todo.values()), requests, cancelled), strict=True))
        return [results[index] for index in range(len(jobs))]

    def _compile(self, jobs: Sequence[Job], cancelled: threading.Event) -> dict[str, Artefact]:
        """The artefacts that the jobs need; each program not seen before is compiled once."""
        found: dict[str, Artefact] = {}
        todo: dict[str, Job] = {}
        for job in jobs:
            language = _language(job)
            if isinstance(language, str) or not language.compile:
                continue
            address = key(job.language, job.flags, job.source)
            if (artefact := self._cache.get(address)) is not None:
                found[address] = artefact
            elif address not in todo:
                todo[address] = compile_job(language, job.source, job.flags, self._spec.compile_limits)
        requests = [job_request(job, self._spec.compile_limits, PYTHON, Artefact(), trusted=True) for job in todo.values()]
        for address, result in zip(todo, self._drive(list(todo.values()), requests, cancelled), strict=True):
            found[address] = unpack(result)
            self._cache.put(address, found[address])
        return found

    def _drive(self, jobs: Sequence[Job], requests: Sequence[Request], cancelled: threading.Event) -> list[RunResult]:
        if not jobs:
            return []
        replies = self._fleet.drive(requests, DEADLINE.get(), cancelled)
        return [
            outcome(reply, job.limits or self._spec.limits, self._level, "zygote")
            if isinstance(reply, Reply)
            else lost(reply.why, self._level, "zygote")
            for job, reply in zip(jobs, replies, strict=True)
        ]


def default_slots() -> int:
    """Two per worker, unless GUERDON_WORKERS says how many: a third of a short run is waiting for the kernel, not computing."""
    return default_workers() * (1 if os.environ.get("GUERDON_WORKERS") else 2)


PYTHON = Language("python", "solution.py", (), address_space=False)  # the compile driver: what it starts is not all like Python


def _language(job: Job) -> Language | str:
    return find(job.language) if job.language in LANGUAGES else f"the zygote sandbox knows no language {job.language!r}"


def job_request(job: Job, limits: Limits, language: Language, artefact: Artefact, *, trusted: bool = False) -> Request:
    """The frame that runs a job. `trusted`: it may start processes even where there is no process namespace to hold them."""
    argv: list[str] = []
    files = list(job.files)
    if language.run:
        argv = [*language.run_command(job.source, job.flags, limits.memory_mb), *job.args]
        files = [*artefact.files, *files] if language.compile else [(language.source, _encode(job.source)), *files]
    header = {
        "files": [path for path, _ in files],
        "argv": argv,
        "args": list(job.args),
        "env": {**ENVIRONMENT, **dict(language.env), **({"GUERDON_CHANNEL": "3"} if job.channel else {})},
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "memory_mb": limits.memory_mb + language.overhead_mb,
        "output_kb": limits.output_kb,
        "disk_mb": limits.disk_mb,
        "processes": limits.processes,
        "open_files": limits.open_files,
        "channel": job.channel,
        "fork": trusted,
        "address_space": language.address_space,
        "stack_mb": language.stack_mb,
    }
    source = b"" if argv else _encode(job.source)
    return Request(frame(header, source, job.stdin, *(content for _, content in files)), limits.wall_s)


def _encode(source: str) -> bytes:
    return source.encode("utf-8", "surrogatepass")  # a lone surrogate becomes the program's own syntax error


def _climb(spec: Zygote, python: str) -> tuple[Slot, Level, dict[str, Any], str]:
    """The first rung that works: a zygote that has run an empty program, its level, its config, and why not a better one."""
    config = {
        "readable": _readable(spec, python),
        "packages": _packages(spec),
        "preload": [*WARM, *spec.preload],
        "uids": True,
        "temp": tempfile.gettempdir(),
    }
    rungs = [rung for rung in RUNGS if at_least(rung, spec.min_isolation) and spec.level in (None, rung)]
    reasons: list[str] = []
    for level in rungs:
        slot = Slot(python, {**config, "level": level})
        reason = _trial(slot, level)
        if not reason:
            if level == "rlimits":
                text = f"sandbox at level 'rlimits': programs can read this machine's files; {'; '.join(reasons)}"
                warnings.warn(text, RuntimeWarning, stacklevel=4)
            return slot, level, {**config, "level": level}, "; ".join(reasons)
        slot.close()
        if "cannot preload" in reason:  # as jail/zygote.py says it: no lower rung would be an answer
            raise SandboxError(f"{reason}; only what is installed for {python} can be preloaded")
        reasons.append(f"{level}: {reason}")
    raise SandboxError(f"no sandbox of level {spec.min_isolation!r} or better can be had here: {'; '.join(reasons)}")


def _trial(slot: Slot, level: Level) -> str:
    """Why a new zygote does not work; empty if it does."""
    if slot.wait_ready() is None:
        return slot.failure
    request = job_request(Job(""), Limits(), PYTHON, Artefact())
    reply = slot.receive() if slot.send(request.data) else None
    if reply is None:
        return "it died under an empty program"
    result = outcome(reply, Limits(), level, "zygote")
    return (
        "" if result.status == "ok" else f"an empty program gave {result.status}: {result.detail} {result.stderr.decode(errors='replace')}"
    )


def _packages(spec: Zygote) -> list[str]:
    """Where this interpreter finds installed packages: not always below its prefix (.pth files, user installs)."""
    return [] if spec.python else [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]


def _readable(spec: Zygote, python: str) -> list[str]:
    prefixes = [sys.prefix, sys.base_prefix]
    if spec.python is not None:
        code = "import sys; print(sys.prefix); print(sys.base_prefix)"
        asked = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=30)
        prefixes = asked.stdout.splitlines()
    paths = dict.fromkeys([*trees(), *prefixes, *_packages(spec), *spec.readable])
    return [path for path in paths if os.path.realpath(path) != "/"]
