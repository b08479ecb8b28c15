"""The guard: speaks to the sandbox's owner, has a zygote fork the runs, supervises them, and clears up at the end.

It stays outside the namespaces and never forks a run itself, so nothing of an earlier program, its input or its output is in the memory
that a later program inherits. Frames on one descriptor, one run at a time. It trusts who sends requests and nothing that a run
writes. It ends when its requests end, or its zygote does.
"""

from __future__ import annotations

import _socket
import json
import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from guerdon.sandboxes.jail import cgroups, namespaces, supervisor, zygote
from guerdon.sandboxes.jail import syscalls as kernel
from guerdon.sandboxes.jail.program import JOB_FD

__all__ = ["main"]

_FIRST_UID, _UIDS = 20000, 4096
_PR_SET_DUMPABLE = 4


@dataclass(slots=True)
class _Den:
    """What the guard makes before the zygote is born, and removes after its death."""

    uid: int | None
    cgroup: cgroups.Cgroup | None
    workdir: str
    notes: list[str]


def main(config: dict[str, Any], requests: int, replies: int) -> NoReturn:
    """Set up at `config["level"]` (namespaces, landlock or rlimits) and serve until `requests` ends.

    `config`: `name` (unique on this machine), `readable` (paths that programs may read), `preload` (modules),
    `packages` (more folders to import them from), `uids` (whether root gives the runs of each zygote a user of their own), `temp`
    (where the run's folder goes if there is no tmpfs).
    """
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what the owner blocks or ignores came through the exec
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) <= JOB_FD:
        pass  # what a child gets as 0 to 5 must not overwrite a descriptor that it still needs
    try:
        den = _den(config)
    except OSError as error:
        supervisor.send(replies, {"failed": str(error)})
        os._exit(1)
    pid, line, hello = _bear(config, den, (requests, replies))
    hello.update(notes=[*den.notes, *hello.get("notes", ())], cgroup=den.cgroup.folders if den.cgroup else [], folder=den.workdir)
    supervisor.send(replies, hello)
    kernel.prctl(_PR_SET_DUMPABLE, 0)  # no process of the same user can look into this one
    if "failed" not in hello:
        _serve(supervisor.Supervisor(line, requests, den.cgroup, den.workdir), line, requests, replies)
    line.close()  # so the zygote ends, and with it whatever it runs
    if pid:
        os.waitpid(pid, 0)
    _remove(den)
    os._exit(0)


def _serve(supervise: supervisor.Supervisor, line: _socket.socket, requests: int, replies: int) -> None:
    while line.fileno() not in select.select([requests, line.fileno()], [], [])[0]:  # an idle zygote says nothing: that would be its end
        request = supervisor.receive(requests)
        if request is None:
            return
        header, (source, stdin, *contents) = request
        header["files"] = list(zip(header["files"], contents, strict=True))
        try:
            reply = supervise.run(header | {"source": source}, stdin)
        except (EOFError, ConnectionError):  # the zygote is gone, or whom we work for
            return
        except Exception as error:  # no process, no descriptor, no memory: the host's doing
            reply = {"failed": f"{type(error).__name__}: {error}"}, b"", b"", b""
        supervisor.send(replies, *reply)


def _bear(config: dict[str, Any], den: _Den, pipes: tuple[int, int]) -> tuple[int, _socket.socket, dict[str, Any]]:
    """The zygote's pid, the line to it, and what it says once it is ready (or why it failed)."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        if config["level"] == "namespaces":
            namespaces.detach(os.geteuid(), os.getegid())
        pid = os.fork()
    except OSError as error:
        return 0, ours, {"failed": f"{type(error).__name__}: {error}"}
    if pid == 0:
        ours.close()
        for fd in {*pipes}:
            os.close(fd)
        zygote.main(config, den.uid, den.cgroup, den.workdir, theirs)
    theirs.close()
    said = ours.recv(1 << 16)
    return pid, ours, json.loads(said) if said else {"failed": "the zygote died while it was starting"}


def _den(config: dict[str, Any]) -> _Den:
    """Before any namespace is entered: a user id nobody else uses, a cgroup, a folder where there will be no tmpfs."""
    notes: list[str] = []
    uid = _claim_uid() if os.geteuid() == 0 and config["uids"] else None
    if uid is not None and config["level"] != "namespaces" and not _open_to_all(os.__file__):
        notes.append(f"{os.__file__} is not readable by other users: runs keep user 0, without its capabilities")
        uid = None
    cgroup = cgroups.create(config["name"])
    if isinstance(cgroup, str):
        notes.append(f"{cgroup}: memory is bounded per process, not in sum")
    workdir = ""
    if config["level"] != "namespaces":
        workdir = f"{config['temp']}/{config['name']}"
        os.mkdir(workdir, 0o700)
        os.chown(workdir, -1 if uid is None else uid, -1)
    return _Den(uid, None if isinstance(cgroup, str) else cgroup, workdir, notes)


def _open_to_all(path: str) -> bool:
    """Whether any user can read a file: not so where an interpreter lives below a home of mode 0700."""
    path = os.path.realpath(path)
    while path != "/":
        if not os.stat(path).st_mode & (0o001 if os.path.isdir(path) else 0o004):
            return False
        path = os.path.dirname(path)
    return True


_claims: list[_socket.socket] = []


def _claim_uid() -> int:
    """A user id for this zygote: process limits count per user. An abstract socket's name is the lock, gone when we are."""
    for uid in range(_FIRST_UID, _FIRST_UID + _UIDS):
        claim = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            claim.bind(f"\0guerdon-uid-{uid}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return uid
    raise OSError(f"no free user id from {_FIRST_UID} to {_FIRST_UID + _UIDS}")


def _remove(den: _Den) -> None:
    if den.cgroup is not None:
        cgroups.remove(den.cgroup.folders)
    if den.workdir:
        import shutil

        with suppress(OSError):
            shutil.rmtree(den.workdir)
