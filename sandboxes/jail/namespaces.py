"""Namespaces: a tree of its own, no network, no other process in sight. As root, or as an ordinary user by a user namespace.

Entered once per zygote (`detach`, `build_root`) and again, in part, for every run (`fresh_run`): process, mount and IPC
namespaces are new each time, network and host name are empty from the start. The tree holds read-only views of the paths it is
given and nothing else; what a run writes goes to a sized tmpfs that dies with it.
"""

from __future__ import annotations

import os
import struct

from guerdon.sandboxes.jail import syscalls as kernel

__all__ = ["Tree", "build_root", "detach", "fresh_run"]

_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18
_RECURSIVE, _FDCWD = 0x8000, -100
_RDONLY, _NOSUID, _NODEV = 1, 2, 4
_DEVICES = ("null", "zero", "full", "urandom", "random")
_LINKS = {"shm": "/tmp", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_PASSWD = "root:x:0:0:root:/tmp:/bin/sh\nrunner:x:{uid}:{gid}:runner:/tmp:/bin/sh\n"
_GROUP = "root:x:0:\nrunner:x:{gid}:\n"


class Tree:
    """What the jail's root holds, for the mounts that every run repeats."""

    def __init__(self, own_pid_ns: int, proc: bool, hidden: list[tuple[str, str]]) -> None:
        self.own_pid_ns = own_pid_ns  # a descriptor, to come back to after each run
        self.proc = proc  # whether a private procfs can be mounted here
        self.hidden = hidden  # (kept copy, path): read-only paths below /tmp, which the run's tmpfs would hide


def detach(uid: int, gid: int) -> None:
    """Leave the process namespace (children are in a new one) and, unless root, become the owner of a user namespace."""
    if uid == 0:
        kernel.unshare(kernel.NEWPID)
        return
    kernel.unshare(kernel.NEWUSER | kernel.NEWPID)  # the zygote must be inside a process namespace that it owns, or it cannot return to it
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def build_root(readable: list[str], uid: int, gid: int) -> Tree:
    """As process 1 of a new process namespace: build the tree from read-only views of `readable`, enter it, lose the old one."""
    kernel.unshare(kernel.NEWNS | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWNET)
    kernel.mount(None, "/", None, _REC | _PRIVATE)
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    views, links = _plan(readable)
    devices = [f"/dev/{name}" for name in _DEVICES]
    sources = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in [*views, *devices]]  # before /tmp is covered
    root = "/tmp"
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID, "size=4m,mode=755")
    for name in ("tmp", "proc", "dev", "etc", "old", "keep"):
        os.mkdir(f"{root}/{name}")
    hidden: list[tuple[str, str]] = []
    for number, (path, fd) in enumerate(sources):
        targets = [path]
        if path.startswith("/tmp/"):
            targets.append(f"/keep/{number}")
            hidden.append((f"/keep/{number}", path))
        for target in targets:
            _view(fd, root + target, writable=path in devices)
        os.close(fd)
    for name, target in [*((f"/dev/{name}", target) for name, target in _LINKS.items()), *links]:
        if not os.path.lexists(root + name):
            os.makedirs(os.path.dirname(root + name), exist_ok=True)
            os.symlink(target, root + name)
    for name, text in (("passwd", _PASSWD), ("group", _GROUP)):
        with open(f"{root}/etc/{name}", "w") as file:
            file.write(text.format(uid=uid, gid=gid))
    os.chdir(root)
    kernel.raw("pivot_root", b".", b"old")
    os.chdir("/")
    proc = _mount_proc()
    kernel.unmount("/old")
    os.rmdir("/old")
    _set_attributes("/", _RDONLY | _NOSUID | _NODEV, 0)
    return Tree(own, proc, hidden)


def _plan(readable: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The real paths to show, none inside another, and the symbolic links that lead to them."""
    real = sorted({os.path.realpath(path) for path in readable if os.path.exists(path)})
    views: list[str] = []
    for path in real:
        if path == "/":
            raise ValueError("the root directory cannot be shown to programs; name the folders they need")
        if not any(path.startswith(view + "/") for view in views):
            views.append(path)
    links = [(path, os.readlink(path)) for path in readable if os.path.islink(path)]
    links += [(path, os.path.realpath(path)) for path in readable if not os.path.islink(path) and os.path.realpath(path) != path]
    return views, [(path, to) for path, to in links if not any(path.startswith(view + "/") for view in views)]


def _view(fd: int, target: str, *, writable: bool) -> None:
    """Bind what a descriptor refers to, read-only with all that is mounted below it."""
    source = f"/proc/self/fd/{fd}"
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
    kernel.mount(source, target, None, _BIND | _REC)
    if not writable:  # device nodes: nodev would disable them, and they are no files to fill
        _set_attributes(target, _RDONLY | _NOSUID | _NODEV, _RECURSIVE)


def _set_attributes(path: str, attributes: int, flags: int) -> None:
    kernel.raw("mount_setattr", _FDCWD, path.encode(), flags, struct.pack("QQQQ", attributes, 0, 0, 0), 32)


def _mount_proc() -> bool:
    """In a user namespace only possible where an unmasked procfs is in sight: mounted before the old root goes, it stays in sight."""
    try:
        kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    except OSError:
        return False
    return True


def fresh_run(tree: Tree, disk_kb: int, inodes: int) -> None:
    """As process 1 of a run: own mount and IPC namespaces, an empty sized /tmp, a procfs that shows this run only."""
    kernel.unshare(kernel.NEWNS | kernel.NEWIPC)
    kernel.mount("tmpfs", "/tmp", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"size={disk_kb}k,nr_inodes={inodes},mode=1777")
    for kept, path in tree.hidden:
        if os.path.isdir(kept):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w").close()
        kernel.mount(kept, path, None, _BIND | _REC)
    if tree.proc:
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC | kernel.MS_RDONLY
        kernel.mount("proc", "/proc", "proc", flags)
    os.chdir("/tmp")
