"""A memory and process cgroup around a zygote, where one can be written: the sum of a run's processes is bounded, not each alone.

Version 1 and 2, always below the cgroup we are in, so that a container's or a cluster's own limits still hold. The zygote joins once and
its runs inherit: moving a process costs milliseconds. Where nothing can be written there is none, and the caller says so.
"""

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["Cgroup", "create", "remove"]

_HEADROOM = 64 << 20  # for the zygote's own buffers


class Cgroup:
    """An open cgroup: descriptors survive the loss of /sys when the old root goes."""

    def __init__(self, folders: list[str], v2: bool) -> None:
        self.folders = folders
        memory, pids = folders[0], folders[-1]
        self._join = [os.open(f"{folder}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for folder in folders]
        self._memory = os.open(f"{memory}/{'memory.max' if v2 else 'memory.limit_in_bytes'}", os.O_WRONLY | os.O_CLOEXEC)
        self._usage = os.open(f"{memory}/{'memory.current' if v2 else 'memory.usage_in_bytes'}", os.O_RDONLY | os.O_CLOEXEC)
        self._events = os.open(f"{memory}/{'memory.events' if v2 else 'memory.oom_control'}", os.O_RDONLY | os.O_CLOEXEC)
        self._pids = os.open(f"{pids}/pids.max", os.O_WRONLY | os.O_CLOEXEC)
        self._base, self._set = 0, (0, 0)

    def join(self) -> None:
        for fd in self._join:
            os.write(fd, b"0")
            os.close(fd)

    def settle(self) -> None:
        """Call when warm: what the zygote holds by now is not charged to the runs."""
        self._base = int(os.pread(self._usage, 64, 0)) + _HEADROOM

    def limit(self, memory: int, processes: int) -> None:
        """Set the limits of the next run; a limit that cannot be set now (still too full) is tried again with the next."""
        if self._set != (memory, processes):
            with suppress(OSError):
                os.pwrite(self._memory, str(self._base + memory).encode(), 0)
                os.pwrite(self._pids, str(processes + 1).encode(), 0)
                self._set = (memory, processes)

    def kills(self) -> int:
        """How often the kernel has killed for memory in here."""
        for line in os.pread(self._events, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0


def create(name: str) -> Cgroup | str:
    """A new cgroup, or why there is none."""
    made: list[str] = []
    try:
        parents, v2 = _parents()
        for parent in parents:
            os.mkdir(f"{parent}/{name}")
            made.append(f"{parent}/{name}")
        return Cgroup(made, v2)
    except (OSError, ValueError, KeyError) as error:
        remove(made)
        return f"no writable memory and pids cgroup ({error})"


def remove(folders: list[str]) -> None:
    for folder in folders:
        with suppress(OSError):
            os.rmdir(folder)


def _parents() -> tuple[list[str], bool]:
    """Our own cgroup's folders: of memory and pids, or the single one of version 2."""
    own: dict[str, str] = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own.update(dict.fromkeys(controllers.split(","), path))
    if "memory" in own and "pids" in own:
        found = []
        for controller in ("memory", "pids"):
            top = f"/sys/fs/cgroup/{controller}"
            nested = top + own[controller].rstrip("/")
            found.append(nested if os.path.isdir(nested) else top)
        return found, False
    folder = "/sys/fs/cgroup" + own[""].rstrip("/")
    with open(f"{folder}/cgroup.subtree_control") as file:
        if not {"memory", "pids"} <= set(file.read().split()):
            raise ValueError(f"{folder} does not hand memory and pids on to its children")
    return [folder], True
