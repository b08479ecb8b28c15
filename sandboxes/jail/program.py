"""The child of a run: locks itself in and becomes the program.

From the fork until `_run_python` or execve it is our code with shrinking rights; whatever fails on that way is reported as the
sandbox's failure, never as the program's. It imports nothing of the trainer's and holds no value that the program must not see.
"""

from __future__ import annotations

import _thread
import atexit
import marshal
import os
import resource
import signal
import sys
import threading
import types
from dataclasses import dataclass, field
from typing import Any, NoReturn

from guerdon.sandboxes.jail import syscalls as kernel
from guerdon.sandboxes.jail.bpf import Filter
from guerdon.sandboxes.jail.landlock import Ruleset
from guerdon.sandboxes.jail.namespaces import Tree, fresh_run

__all__ = ["COMPILE_ERROR", "JOB_FD", "REPORT_FD", "SETUP_ERROR", "Cell", "Run", "become", "prepare"]

COMPILE_ERROR, SETUP_ERROR = b"C", b"E"
REPORT_FD, JOB_FD = 4, 5
_MB = 1 << 20
_STREAMS = ((0, "r", "surrogateescape"), (1, "w", "surrogateescape"), (2, "w", "backslashreplace"))  # as Python has them in C.UTF-8


@dataclass(slots=True)
class Run:
    """One request. `argv` empty: run `source` in this interpreter; else execute it with `env`. Sizes in MB, times in seconds."""

    source: bytes
    files: list[tuple[str, bytes]]
    argv: list[str]
    args: list[str]
    env: dict[str, str]
    cpu_s: float
    wall_s: float
    memory_mb: int
    output_kb: int
    disk_mb: int
    processes: int
    open_files: int
    channel: bool = False
    fork: bool = False  # may start processes even without a process namespace: trusted programs such as compilers
    address_space: bool = True  # whether memory_mb bounds reserved address space (or only what is writable: JVM, node, Go)
    stack_mb: int = 64


@dataclass(slots=True)
class Cell:
    """What stays the same from run to run: how this zygote locks its children in."""

    workdir: str
    uid: int | None = None  # to become; None: stay who we are
    tree: Tree | None = None
    ruleset: Ruleset | None = None
    filter: Filter | None = None  # None where it depends on the child's pid, or cannot be had
    lone_filter: bool = False
    capable: bool = False  # holds capabilities that must be dropped
    base_bytes: int = 0  # address space of the warm interpreter
    hard: dict[int, int] = field(default_factory=dict)  # hard limits: they cannot be raised, only met
    scope: dict[str, Any] = field(default_factory=dict)  # the namespace of `__main__`


def become(cell: Cell, fds: list[int]) -> NoReturn:
    """In the child: become the program. `fds` become 0 to 3 (the channel), REPORT_FD and JOB_FD, where the job is read from."""
    try:
        os.setsid()  # or kill(0) from within would reach the zygote by the process group they share, across namespaces
        kernel.prctl(4, 1)  # dumpable, unlike the zygote: else /proc/self would be root's
        for number, fd in enumerate(fds):
            os.dup2(fd, number, inheritable=number < REPORT_FD)
        run = Run(**marshal.loads(os.read(JOB_FD, os.fstat(JOB_FD).st_size)))
        if not run.channel:
            os.close(REPORT_FD - 1)
        _lock_in(run, cell)
        if run.argv:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.execve(run.argv[0], run.argv, _at_home(run.env, cell))
    except BaseException as error:
        os.write(REPORT_FD, SETUP_ERROR + f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:4000])
        os._exit(1)
    _run_python(run, cell)


def _lock_in(run: Run, cell: Cell) -> None:
    _write("/proc/self/oom_score_adj", b"1000", os.O_WRONLY)  # when memory runs out, the kernel takes the run first
    spare_kb = 64 + 8 * len(run.files) + (len(run.source) + sum(len(content) for _, content in run.files)) // 1024
    if cell.tree is not None:
        fresh_run(cell.tree, run.disk_mb * 1024 + spare_kb, 1024 + 4 * len(run.files))
    else:
        os.chdir(cell.workdir)
    if cell.uid is not None:
        os.setgroups([])
        os.setresgid(cell.uid, cell.uid, cell.uid)
        os.setresuid(cell.uid, cell.uid, cell.uid)
    if cell.tree is None:
        kernel.prctl(1, 9)  # die with the zygote: there is no process namespace to see to it
    for path, content in run.files if run.argv else [("solution.py", run.source), *run.files]:
        if "/" in path:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        _write(path, content, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    if run.argv and run.argv[0].startswith("./"):
        os.chmod(run.argv[0], 0o755)
    _limit(run, cell)
    if cell.capable:
        kernel.drop_capabilities()
    kernel.prctl(38, 1)  # no_new_privs
    kernel.prctl(4, 1)  # the change of user took it away, and /dev/stdin with it
    if cell.ruleset is not None:
        cell.ruleset.enforce()
    kernel.close_from(REPORT_FD + 1)
    if cell.filter is not None:
        cell.filter.install()
    elif cell.lone_filter:
        Filter(lone=True, pid=os.getpid(), fork=run.fork).install()


def _write(path: str, content: bytes, flags: int) -> None:
    """Without the io module: its objects cost more than the write."""
    fd = os.open(path, flags, 0o644)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.close(fd)


def _at_home(env: dict[str, str], cell: Cell) -> dict[str, str]:
    """Where there is no /tmp of our own, what points there points to the run's folder."""
    if cell.tree is not None:
        return env
    return {name: cell.workdir + value[4:] if value == "/tmp" or value.startswith("/tmp/") else value for name, value in env.items()}


def _limit(run: Run, cell: Cell) -> None:
    memory = run.memory_mb * _MB
    limits = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, run.open_files),
        (resource.RLIMIT_FSIZE, run.disk_mb * _MB),
        (resource.RLIMIT_STACK, run.stack_mb * _MB),
        (resource.RLIMIT_CPU, int(run.cpu_s) + 2),  # whole seconds and per process: the zygote's clock is the finer one
        (resource.RLIMIT_AS if run.address_space else resource.RLIMIT_DATA, memory + (0 if run.argv else cell.base_bytes)),
    ]
    if cell.uid is not None or cell.tree is not None:  # else it would count all that this user runs
        limits.append((resource.RLIMIT_NPROC, run.processes + (2 if cell.uid is None else 0)))
    for limit, value in limits:
        hard = cell.hard[limit]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def prepare(cell: Cell) -> None:
    """In the zygote, before any fork: what would cost every run the same.

    Standard streams of the kinds that runs get (a file, two pipes) are opened here once and find other files behind their numbers in
    the child. `random` starts from one state in every run: the same program earns the same reward.
    """
    import random

    kept = [os.dup(fd) for fd in (0, 1, 2)]
    stand_in, (end, pipe) = os.memfd_create("stdin"), os.pipe()
    for number, fd in enumerate((stand_in, pipe, pipe)):
        os.dup2(fd, number)
    streams = [open(fd, mode, 1 if fd == 2 else -1, "utf-8", errors, closefd=False) for fd, mode, errors in _STREAMS]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc, assignment]
    for number, fd in enumerate(kept):
        os.dup2(fd, number)
    for fd in (*kept, stand_in, end, pipe):
        os.close(fd)
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    cell.hard = {limit: resource.getrlimit(limit)[1] for name, limit in vars(resource).items() if name.startswith("RLIMIT_")}
    os.environ.update(_at_home(dict(os.environ), cell))
    sys.path.insert(0, cell.workdir or "/tmp")
    for name in [name for name in sys.modules if name.partition(".")[0] == "guerdon"]:
        del sys.modules[name]  # ours: a program that imports guerdon finds none, or the installed one
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    cell.scope = vars(main)
    cell.scope.update(__builtins__=__builtins__, __file__="solution.py", __annotations__={})


def _run_python(run: Run, cell: Cell) -> NoReturn:
    try:
        code = compile(run.source, "solution.py", "exec", dont_inherit=True)
    except BaseException as error:
        import traceback

        text = "".join(traceback.format_exception_only(error))
        os.write(REPORT_FD, COMPILE_ERROR + text.encode("utf-8", "replace")[:8000])
        os._exit(1)
    os.close(REPORT_FD)
    sys.argv = ["solution.py", *run.args]
    if run.channel:
        os.environ["GUERDON_CHANNEL"] = str(REPORT_FD - 1)
    os._exit(_execute(code, cell.scope))


def _execute(code: types.CodeType, scope: dict[str, Any]) -> int:
    """Run the program as `python solution.py` would, to the end of its threads and exit handlers; the exit code."""
    status = 0
    try:
        exec(code, scope)
    except SystemExit as error:
        status = _exit_code(error.code)
    except BaseException as error:
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # without this frame
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    try:
        if _thread._count():
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        status = status or 120
    return status


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0) & 255
    print(code, file=sys.stderr)
    return 1
