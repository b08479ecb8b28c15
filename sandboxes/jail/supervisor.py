"""One run from its start to a reply without a verdict: has it forked, reads what it writes, ends it at its limits, clears up after it.

Also the frames that requests and replies travel in. Holds at most the output limit of each stream in memory, drops the rest, and ends
the run when stdout or the channel overruns it.
"""

from __future__ import annotations

import _socket
import errno
import fcntl
import json
import marshal
import math
import os
import select
import signal
import struct
import time
from contextlib import suppress
from typing import Any

from guerdon.sandboxes.jail.cgroups import Cgroup
from guerdon.sandboxes.jail.zygote import END, END_FORMAT, FAILED, STARTED

__all__ = ["Supervisor", "receive", "send"]

_SEALS = 0x400 + 9, 0xF  # F_ADD_SEALS: seal, shrink, grow, write
_WATCH_S = 0.05  # how often a folder that is no sized tmpfs is measured
_CPUS = len(os.sched_getaffinity(0))
_STDERR = 1
Reply = tuple[dict[str, Any], bytes, bytes, bytes]


def send(fd: int, header: dict[str, Any], *blobs: bytes) -> None:
    """One frame: two lengths, a header of JSON, and the blobs end to end (their sizes go into the header)."""
    head = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    data = memoryview(b"".join((struct.pack("<II", len(head), sum(map(len, blobs))), head, *blobs)))
    while data:
        data = data[os.write(fd, data) :]


def receive(fd: int) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next frame, None at the end of the stream."""
    prefix = _exactly(fd, 8)
    if prefix is None:
        return None
    sizes = struct.unpack("<II", prefix)
    head, body = _exactly(fd, sizes[0]), _exactly(fd, sizes[1])
    if head is None or body is None:
        return None
    header = json.loads(head)
    blobs, at = [], 0
    for size in header.pop("sizes"):
        blobs.append(bytes(body[at : at + size]))
        at += size
    return header, blobs


def _exactly(fd: int, count: int) -> bytearray | None:
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        got = os.readv(fd, [view[at:]])
        if not got:
            return None
        at += got
    return data


class Supervisor:
    """Has one zygote run one job after the other. `requests` is watched while a job runs: when it hangs up, the run is over."""

    def __init__(self, line: _socket.socket, requests: int, cgroup: Cgroup | None, folder: str) -> None:
        self._line, self._requests, self._cgroup, self._folder = line, requests, cgroup, folder
        if cgroup is not None:
            cgroup.settle()

    def run(self, job: dict[str, Any], stdin: bytes) -> Reply:
        """`job` holds the fields of `program.Run`. Raises EOFError when the zygote or the owner is gone, OSError if nothing ran."""
        kills = 0
        if self._cgroup is not None:
            self._cgroup.limit((job["memory_mb"] + job["disk_mb"] + 32) << 20, job["processes"])
            kills = self._cgroup.kills()
        out, err, report, *channel = [os.pipe2(os.O_CLOEXEC) for _ in range(4 if job["channel"] else 3)]
        given = [_sealed(stdin), out[1], err[1], channel[0][1] if channel else os.dup(out[1]), report[1], _sealed(marshal.dumps(job))]
        for fd in given[1:4]:
            os.fchmod(fd, 0o622)  # so that /dev/stdout can be opened
        started = time.monotonic()
        self._line.sendmsg([b"R"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("6i", *given))])
        for fd in given:
            os.close(fd)
        watch = _Watch(job, [out[0], err[0], *(end[0] for end in channel)], started, self._folder)
        try:
            status, cpu, peak = watch.follow(self._line, self._requests)
            wall = time.monotonic() - started
            said = os.read(report[0], 8192)
        finally:
            os.close(report[0])
            watch.close()
            if self._folder:
                _empty(self._folder)
        header = {
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "cpu": cpu,
            "wall": wall,
            "rss": peak / 1024,
            "ended_by": watch.ended_by,
            "oom": self._cgroup is not None and self._cgroup.kills() > kills,
            "report": said.decode("utf-8", "replace"),
            "dropped": watch.dropped,
        }
        stdout, stderr, private = (b"".join(chunks) for chunks in watch.chunks)
        return header, stdout, stderr, private


def _sealed(content: bytes) -> int:
    """A file in memory that nobody can change: nothing to feed while the program runs."""
    fd = os.memfd_create("in", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.fchmod(fd, 0o444)
    fcntl.fcntl(fd, *_SEALS)
    return fd


class _Watch:
    """Reads the streams of a run and ends it at its limits."""

    def __init__(self, job: dict[str, Any], streams: list[int], started: float, folder: str) -> None:
        self._cpu_s: float = job["cpu_s"]
        self._wall_s: float = job["wall_s"]
        self._disk, self._started = job["disk_mb"] << 20, started
        self._folder, self._pidfd = folder, -1
        self._streams = {fd: number for number, fd in enumerate(streams)}
        self._room = [job["output_kb"] * 1024] * 3
        self.chunks: list[list[bytes]] = [[], [], []]
        self.dropped = 0
        self.ended_by = ""

    def follow(self, line: _socket.socket, requests: int) -> tuple[int, float, int]:
        """Until the run is dead and reaped: its wait status, CPU seconds and peak memory in kB."""
        poller = select.poll()
        poller.register(line, select.POLLIN)
        poller.register(requests, 0)  # only its hang-up
        for fd in self._streams:
            os.set_blocking(fd, False)
            poller.register(fd, select.POLLIN)
        end: bytes = b""
        while not end:
            for fd, _ in poller.poll(self._patience() * 1000):
                if fd == line.fileno():
                    end = self._listen(line)
                elif fd == requests:
                    self._kill("owner")
                    raise EOFError
                elif not self._read(fd):
                    poller.unregister(fd)
                    self._close(fd)
        for fd in list(self._streams):
            for _ in range(64):  # what is left in the pipe; a survivor must not keep us
                if not self._read(fd):
                    break
        status, cpu, peak = struct.unpack(END_FORMAT, end)
        return status, cpu, peak

    def _listen(self, line: _socket.socket) -> bytes:
        """A message of the zygote: the struct at the end of the run, else nothing."""
        said, ancillary, _, _ = line.recvmsg(4096, _socket.CMSG_SPACE(4))
        if said.startswith(STARTED):
            self._pidfd = struct.unpack("i", ancillary[0][2])[0]
            if self.ended_by:
                self._kill(self.ended_by)
        elif said.startswith(END):
            return said[1:]
        elif said.startswith(FAILED):
            raise OSError(said[1:].decode("utf-8", "replace"))
        else:
            raise EOFError
        return b""

    def _patience(self) -> float:
        """Seconds until the next limit could be met; ends the run if one is."""
        if self.ended_by:
            return 1.0
        wall = time.monotonic() - self._started
        cpu = self._cpu() if wall * _CPUS >= self._cpu_s else 0.0  # it cannot have used more than all of the time
        if cpu >= self._cpu_s:
            self._kill("cpu")
        elif wall >= self._wall_s:
            self._kill("wall")
        elif self._folder and _size(self._folder) > self._disk:
            self._kill("disk")
        left = min(self._wall_s - wall, max(0.002, (self._cpu_s - cpu) / _CPUS))
        return max(0.0, min(left, _WATCH_S) if self._folder else left) + 0.001

    def _cpu(self) -> float:
        """The CPU time of the run's first process so far."""
        with suppress(OSError, IndexError, ValueError):
            with open(f"/proc/self/fdinfo/{self._pidfd}") as file:
                pid = int(file.read().split("Pid:")[1].split()[0])
            used: float = time.clock_gettime((~pid << 3) | 2)  # the clock of another process
            return used
        return 0.0

    def _kill(self, why: str) -> None:
        self.ended_by = why
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _read(self, fd: int) -> bool:
        """Take what is there; False at the end of the stream or when there is nothing."""
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return False
        if not data:
            return False
        number = self._streams[fd]
        room = self._room[number]
        if len(data) > room:
            self.dropped += len(data) - room
            data = data[:room]
            if number != _STDERR and not self.ended_by:
                self._kill("output")
        if data:
            self.chunks[number].append(data)
            self._room[number] = room - len(data)
        return True

    def _close(self, fd: int) -> None:
        del self._streams[fd]
        os.close(fd)

    def close(self) -> None:
        for fd in list(self._streams):
            self._close(fd)
        if self._pidfd >= 0:
            os.close(self._pidfd)


def _size(folder: str) -> float:
    """Bytes in the files below a folder, and 4 kB for each; infinite if it is nested beyond what a path can say."""
    total, todo = 0, [folder]
    while todo:
        try:
            for entry in os.scandir(todo.pop()):
                total += 4096
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return math.inf
    return total


def _empty(folder: str) -> None:
    """Remove all that is in a folder, however deep: what lies below is moved up first, as no path may reach it."""
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for below in list(os.scandir(entry.path)):
                if below.is_dir(follow_symlinks=False):
                    os.chmod(below.path, 0o700)
                os.rename(below.path, f"{folder}/{os.urandom(12).hex()}")
            os.rmdir(entry.path)
