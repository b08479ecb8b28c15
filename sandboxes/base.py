"""What every sandbox shares: a job, its limits, its result, and the protocol of the thing that runs it.

A sandbox runs a program that nobody trusts and says what came out: bytes, an exit code, the time it took, and at which level of
isolation. It does not grade: expected values never enter a sandbox, comparison happens outside it. Independent of the rest of
guerdon but for its errors.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, get_args, runtime_checkable

from guerdon.errors import ConfigError, SandboxError
from guerdon.sandboxes import registry

__all__ = [
    "CHANNEL_FD",
    "LEVELS",
    "Capabilities",
    "Job",
    "Level",
    "Limits",
    "RunResult",
    "RunStatus",
    "Sandbox",
    "SandboxSpec",
    "at_least",
    "check_level",
    "sandbox",
]

Level = Literal["none", "rlimits", "landlock", "namespaces", "container", "remote"]
"""How strongly a run was isolated, weakest first. `remote`: whatever the service does, on another machine."""
LEVELS: tuple[Level, ...] = get_args(Level)

RunStatus = Literal["ok", "nonzero", "signal", "timeout", "memory", "output_limit", "compile_error", "infra_error"]
CHANNEL_FD = 3
"""Where a job with `channel=True` may write its private result; also in the environment variable GUERDON_CHANNEL."""


def at_least(level: Level, minimum: Level) -> bool:
    """Whether `level` isolates at least as strongly as `minimum`.

    >>> at_least("namespaces", "landlock"), at_least("rlimits", "landlock")
    (True, False)
    """
    return LEVELS.index(level) >= LEVELS.index(minimum)


def check_level(owner: str, value: object) -> None:
    """Raise ConfigError unless `value` is a Level. For the `__post_init__` of specs."""
    if value not in LEVELS:
        raise ConfigError(f"{owner}: min_isolation must be one of {', '.join(LEVELS)}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use. A run that meets a limit is ended, or its system call fails, and the status says which.

    `cpu_s` bounds CPU time, `wall_s` the time from start to end. `memory_mb` bounds each process beyond what the warm interpreter
    already maps, and the sum of all processes where a memory cgroup can be written. `output_kb` bounds each of stdout, stderr
    and the channel. `disk_mb` bounds what is written to files. `processes` counts threads too.

    >>> Limits(cpu_s=2).wall_s
    30.0
    """

    cpu_s: float = 10.0
    wall_s: float = 30.0
    memory_mb: int = 512
    output_kb: int = 4096
    disk_mb: int = 16
    processes: int = 64
    open_files: int = 128

    def __post_init__(self) -> None:
        for name in ("cpu_s", "wall_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value < math.inf):
                raise ConfigError(f"Limits: {name} must be a finite number of seconds above 0, got {value!r}")
            object.__setattr__(self, name, float(value))
        for name, least in (("memory_mb", 16), ("output_kb", 1), ("disk_mb", 1), ("processes", 1), ("open_files", 16)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigError(f"Limits: {name} must be an integer of at least {least}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Job:
    """One program to run once.

    `files` are (relative path, content) pairs put into the working directory, which is empty otherwise. `args` are the program's
    arguments, `flags` the compiler's (the interpreter's for JavaScript and Bash; none for Python). `limits=None`: those of the
    sandbox. With `channel=True` the program may write to descriptor 3 (number in GUERDON_CHANNEL) what comes back as
    `RunResult.channel`: it is private in that nothing else is written there, not secret from the program.

    Raises ConfigError for paths that are absolute or climb, and for arguments no operating system takes. A source of any text is
    taken, lone surrogates and NULs too: whether it compiles is the run's result.
    """

    source: str
    language: str = "python"
    stdin: bytes = b""
    files: tuple[tuple[str, bytes], ...] = ()
    args: tuple[str, ...] = ()
    limits: Limits | None = None
    channel: bool = False
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.source, str):
            raise ConfigError(f"Job: source must be str, got {type(self.source).__name__}")
        if not isinstance(self.stdin, bytes):
            raise ConfigError(f"Job: stdin must be bytes, got {type(self.stdin).__name__}; encode text as UTF-8")
        if not isinstance(self.language, str) or not self.language:
            raise ConfigError(f"Job: language must be a name such as 'python', got {self.language!r}")
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise ConfigError(f"Job: limits must be Limits or None, got {self.limits!r}")
        if self.language == "python" and self.flags:
            raise ConfigError(f"Job: Python runs in a warm interpreter and takes no flags, got {self.flags!r}")
        for word in (*self.args, *self.flags):
            if not isinstance(word, str) or "\0" in word:
                raise ConfigError(f"Job: args and flags must be str without NUL, got {word!r}")
        for path, content in self.files:
            parts = path.split("/") if isinstance(path, str) else [""]
            if any(part in ("", ".", "..") or "\0" in part for part in parts) or not isinstance(content, bytes):
                raise ConfigError(f"Job: files must be (relative path, bytes) pairs, got {path!r}: {type(content).__name__}")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came out of a run.

    `status`: `ok` (exit code 0), `nonzero`, `signal`, `timeout` (`timed_out_by` says whether CPU or wall time), `memory`,
    `output_limit` (stdout or the channel met its limit; the run was ended there), `compile_error` (never started; the compiler's
    words are in `stderr`), `infra_error` (the sandbox's or the host's doing: no statement about the program; `detail` says why,
    and `timed_out_by` is "deadline" if the deadline of the call passed first). `dropped` counts bytes seen beyond the limits of
    the three streams; `cpu_s` and `maxrss_mb` are the program's where the backend knows them, else 0.
    """

    status: RunStatus
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    channel: bytes = b""
    dropped: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    maxrss_mb: float = 0.0
    level: Level = "none"
    backend: str = ""
    detail: str = ""
    timed_out_by: Literal["", "cpu", "wall", "deadline"] = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a live sandbox can do here: its level, the languages that run, how many run at once, and why it is not better."""

    backend: str
    level: Level
    languages: tuple[str, ...]
    slots: int
    why: str = ""
    notes: tuple[str, ...] = ()


@runtime_checkable
class Sandbox(Protocol):
    """Runs jobs. Safe to share between threads and tasks; `run_many` keeps order and runs over all slots at once.

    Running never raises for what a program does. It raises SandboxError if the sandbox cannot be started, is below the
    `min_isolation` asked for, or is closed meanwhile. The contextual deadline (`guerdon.sandboxes.until`) bounds every call:
    jobs not done by then are `infra_error` with `timed_out_by="deadline"`. A sandbox lost under a job is replaced and the job run
    once more, then it is `infra_error`; other jobs are unaffected.
    """

    def run(self, job: Job) -> RunResult: ...
    def run_many(self, jobs: Sequence[Job]) -> list[RunResult]: ...
    async def arun(self, job: Job) -> RunResult: ...
    async def arun_many(self, jobs: Sequence[Job]) -> list[RunResult]: ...
    def capabilities(self) -> Capabilities: ...
    def close(self) -> None: ...
    def disown(self) -> None:
        """In a forked child: close this process's copies of descriptors and touch nothing else, locks included."""

    def __enter__(self) -> Sandbox: ...
    def __exit__(self, *exc: object) -> None: ...


@runtime_checkable
class SandboxSpec(Protocol):
    """What a reward holds: frozen, hashable, picklable, checked when built. `start` gives a live sandbox of this process."""

    def start(self) -> Sandbox: ...


def sandbox(spec: SandboxSpec | str) -> Sandbox:
    """The live sandbox of a spec in this process: started on first use, shared, dropped after fork, closed by `guerdon.close()`.

    `spec` is a spec or an import string of one (`pkg.mod:obj`, `file.py:obj`). Raises SandboxError if it cannot be started, or
    isolates less than the spec's `min_isolation`.
    """
    if isinstance(spec, str):
        from guerdon.loading import load

        spec = cast("SandboxSpec", load(spec))
    if not isinstance(spec, SandboxSpec):
        raise ConfigError(f"sandbox: expected a spec such as Zygote(), or an import string of one, got {spec!r}")
    live = registry.get(cast("Hashable", spec), _start)
    level = live.capabilities().level
    minimum: Level = getattr(spec, "min_isolation", "none")
    if not at_least(level, minimum):
        registry.drop(cast("Hashable", spec))
        raise SandboxError(f"{spec!r} reached level {level!r} here, below min_isolation={minimum!r}: {live.capabilities().why}")
    return live


def _start(spec: Hashable) -> Sandbox:
    return cast("SandboxSpec", spec).start()
