"""Compile once, run per test: artefacts kept in memory by a hash of language, flags and source.

The compiler runs in a jail, by a small trusted driver that hands the artefact out through the channel; whoever runs it hands it
back in as files. Nothing is written on the host and nothing outlives the sandbox. What failed for want of time or by the host's doing
is not kept.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass

from guerdon.sandboxes.base import Job, Limits, RunResult
from guerdon.sandboxes.languages import Language

__all__ = ["Artefact", "CompileCache", "compile_job", "key", "unpack"]

_CACHE_BYTES = 256 << 20

_DRIVER = r"""
import json, os, subprocess, sys
command, output, environment = json.loads(sys.argv[1])
os.environ.update(environment)
done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2)
if done.returncode:
    os._exit(done.returncode if done.returncode > 0 else 1)
paths = [output] if os.path.isfile(output) else sorted(os.path.join(at, name) for at, _, names in os.walk(output) for name in names)
contents = [open(path, "rb").read() for path in paths]
with open(3, "wb") as channel:
    channel.write(json.dumps([[path, len(content)] for path, content in zip(paths, contents)]).encode() + b"\n")
    channel.writelines(contents)
"""


@dataclass(frozen=True, slots=True)
class Artefact:
    """What compiling gave: the files of the program, or the result that says why there is none."""

    files: tuple[tuple[str, bytes], ...] = ()
    failure: RunResult | None = None

    @property
    def size(self) -> int:
        return 1000 + sum(len(content) for _, content in self.files)


def key(language: str, flags: tuple[str, ...], source: str) -> str:
    """The address of an artefact."""
    text = json.dumps([language, flags, source])  # ASCII: takes lone surrogates
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def compile_job(language: Language, source: str, flags: tuple[str, ...], limits: Limits) -> Job:
    """The job that compiles a program: its source is ours, the program's is data."""
    command = json.dumps([language.compile_command(source, flags), language.output, dict(language.env)])
    files = ((language.source_name(source), source.encode("utf-8", "surrogatepass")),)
    return Job(_DRIVER, files=files, args=(command,), limits=limits, channel=True)


def unpack(result: RunResult) -> Artefact:
    """Read what the driver sent. It ran beside the compiler, so its word is taken as data: odd names and sizes are refused."""
    if result.status == "infra_error":
        return Artefact(failure=result)
    if result.status != "ok":
        why = {"timeout": f"compiling took too long ({result.timed_out_by})", "memory": "compiling took too much memory"}
        return Artefact(failure=_failure(result, why.get(result.status, "")))
    head, _, body = result.channel.partition(b"\n")
    files, at = [], 0
    try:
        for path, size in json.loads(head):
            files.append((path, body[at : at + size]))
            at += size
        Job("", files=tuple(files))  # checks the paths
    except (ValueError, TypeError):
        return Artefact(failure=_failure(result, "the compiler's output could not be read"))
    return Artefact(tuple(files))


def _failure(result: RunResult, detail: str) -> RunResult:
    return RunResult(
        "compile_error",
        exit_code=result.exit_code,
        signal=result.signal,
        stderr=result.stderr,
        cpu_s=result.cpu_s,
        wall_s=result.wall_s,
        maxrss_mb=result.maxrss_mb,
        level=result.level,
        backend=result.backend,
        detail=detail,
        timed_out_by=result.timed_out_by,
    )


class CompileCache:
    """Artefacts by key, the least recently used leave first."""

    def __init__(self, room: int = _CACHE_BYTES) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Artefact] = OrderedDict()
        self._room = room

    def get(self, key: str) -> Artefact | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, artefact: Artefact) -> None:
        failure = artefact.failure
        if failure is not None and (failure.status == "infra_error" or failure.timed_out_by):
            return
        with self._lock:
            old = self._kept.pop(key, None)
            self._room += old.size if old is not None else 0
            self._kept[key] = artefact
            self._room -= artefact.size
            while self._room < 0 and len(self._kept) > 1:
                self._room += self._kept.popitem(last=False)[1].size
