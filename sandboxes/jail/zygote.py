"""The zygote: a warm interpreter inside the walls that does nothing but fork.

For each run it gets descriptors from the guard, forks a child that reads its job from one of them, reports the child's end, and
has neither read nor kept anything of it. Everything it has loaded, every run must copy: it loads little beyond what was asked for.
"""

from __future__ import annotations

import _socket
import _thread
import gc
import importlib
import json
import os
import signal
import struct
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from guerdon.sandboxes.jail import bpf, landlock, namespaces
from guerdon.sandboxes.jail import syscalls as kernel
from guerdon.sandboxes.jail.cgroups import Cgroup
from guerdon.sandboxes.jail.program import Cell, become, prepare

__all__ = ["END", "FAILED", "STARTED", "main"]

STARTED, END, FAILED = b"S", b"E", b"F"  # with a pidfd; with struct END_FORMAT; with a text
END_FORMAT = "<idq"  # wait status, CPU seconds, peak kB
_DEVICES = ("/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_FDS = 6


def main(config: dict[str, Any], uid: int | None, cgroup: Cgroup | None, workdir: str, line: _socket.socket) -> NoReturn:
    """Lock in, warm up, say so, and fork on demand until the line ends."""
    kernel.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # the guard's death is ours
    notes: list[str] = []
    try:
        cell = _settle(config, uid, cgroup, workdir, notes)
    except BaseException as error:
        line.send(json.dumps({"failed": f"{type(error).__name__}: {error}"[:2000]}).encode())
        os._exit(1)
    fork = kernel.fork if _thread._count() == 0 else os.fork
    line.send(json.dumps({"ready": True, "notes": notes}).encode())
    kernel.prctl(_PR_SET_DUMPABLE, 0)
    space = _socket.CMSG_SPACE(4 * _FDS)
    while True:
        said, ancillary, _, _ = line.recvmsg(1, space)
        if not said:
            os._exit(0)
        fds = memoryview(ancillary[0][2]).cast("i").tolist()
        try:
            if cell.tree is not None:
                kernel.unshare(kernel.NEWPID)
            try:
                pid = fork()
                if pid == 0:
                    become(cell, fds)
            finally:
                if cell.tree is not None:
                    kernel.setns(cell.tree.own_pid_ns, kernel.NEWPID)
        except OSError as error:
            line.send(FAILED + str(error).encode())
            continue
        finally:
            for fd in fds:
                os.close(fd)
        pidfd = os.pidfd_open(pid)
        line.sendmsg([STARTED], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", pidfd))])
        os.close(pidfd)
        _, status, usage = os.wait4(pid, 0)
        if cell.tree is None:
            _end_orphans()
        line.send(END + struct.pack(END_FORMAT, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))


def _settle(config: dict[str, Any], uid: int | None, cgroup: Cgroup | None, workdir: str, notes: list[str]) -> Cell:
    """Join the cgroup, enter the namespaces or prepare the rules, import the modules."""
    if cgroup is not None:
        cgroup.join()
    level = config["level"]
    cell = Cell(workdir=workdir, uid=uid, capable=os.geteuid() == 0 or level == "namespaces")
    unfilterable = bpf.supported()
    if level == "namespaces":
        cell.filter = None if unfilterable else bpf.Filter(lone=False)
        owner = os.geteuid() if uid is None else uid
        cell.tree = namespaces.build_root(config["readable"], owner, owner)
        if not cell.tree.proc:
            notes.append("no private /proc: the one in sight is masked")
    else:
        cell.lone_filter = not unfilterable
        kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if level == "landlock":
        if unfilterable or not landlock.abi():
            raise OSError(unfilterable or "the kernel has no Landlock (5.13 and later, if enabled at boot)")
        cell.ruleset = landlock.Ruleset([*config["readable"], *_DEVICES], [workdir, "/dev/null"])
    if unfilterable:
        notes.append(f"no system call filter: {unfilterable}")
    if cell.capable:
        kernel.drop_bounding_set()  # ours stay until a run drops them; nothing it executes can gain any
    sys.path += [path for path in config.get("packages", ()) if path not in sys.path]
    for name in config["preload"]:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise ImportError(f"cannot preload {name!r}: {type(error).__name__}: {error}") from error
    prepare(cell)
    gc.collect()
    gc.freeze()  # the collector would write to, and so copy, pages shared with the children
    with open("/proc/self/statm") as file:
        cell.base_bytes = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return cell


def _end_orphans() -> None:
    """Without a process namespace what a run left running comes to us, its reaper."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for name in os.listdir("/proc"):
            if name.isdigit() and _parent(name) == os.getpid():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(int(name), signal.SIGKILL)
        time.sleep(0.001)


def _parent(pid: str) -> int:
    with suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return 0
