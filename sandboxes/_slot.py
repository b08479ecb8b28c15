"""One zygote process as its owner sees it: started, sent a request, asked for the reply, ended and reaped.

Not shared between threads. A reply that does not come, or is no frame, means that the zygote is lost: the caller replaces it.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from guerdon.errors import SandboxError
from guerdon.sandboxes._boot import BOOT, ENVIRONMENT, preamble

__all__ = ["Reply", "Slot", "frame"]

START_S = 60.0
"""A zygote that is not ready by then is given up: importing numpy and sympy takes 0.7 s, on a loaded host ten times that."""
_END_S = 2.0  # a zygote that is told to end takes milliseconds
_MAX_FRAME = 1 << 30
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Reply:
    """A frame from a zygote."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...]


def frame(header: dict[str, Any], *blobs: bytes) -> bytes:
    """A request: two lengths, a header of JSON with the sizes of the blobs, the blobs."""
    head = json.dumps({**header, "sizes": [len(blob) for blob in blobs]}).encode()
    return b"".join((struct.pack("<II", len(head), sum(map(len, blobs))), head, *blobs))


class Slot:
    """A zygote process. It is started at once and becomes ready on its own; requests may be sent before."""

    def __init__(self, python: str, config: dict[str, Any]) -> None:
        name = f"guerdon-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [python, "-s", "-P", "-B", "-c", BOOT],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env=ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxError(f"cannot start {python!r} for a sandbox: {error}") from error
        finally:
            theirs.close()
        self._socket = ours
        self._socket.settimeout(START_S)
        self.ready: Reply | None = None
        self.failure = ""
        with suppress(OSError):  # then it is dead, and receiving says so
            self._socket.sendall(preamble({**config, "name": name}), socket.MSG_NOSIGNAL)
        self.fd, self.pid = ours.fileno(), self._process.pid

    def send(self, data: bytes) -> bool:
        """Send a request; False if the zygote is lost."""
        try:
            if self.ready is not None and select.select([self._socket], [], [], 0)[0]:
                return False  # an idle zygote says nothing: this is its end
            self._socket.sendall(data, socket.MSG_NOSIGNAL)
        except (OSError, ValueError):
            return False
        return True

    def wait_ready(self) -> Reply | None:
        """The first frame, None (and `failure` says why) if the zygote could not be set up."""
        reply = self._receive()
        if reply is None:
            self.failure = "it ended while it was starting"
        elif "failed" in reply.header:
            self.failure, reply = str(reply.header["failed"]), None
        self.ready = reply
        return reply

    def receive(self) -> Reply | None:
        """The reply to a request, None if the zygote is lost."""
        return self._receive() if self.ready or self.wait_ready() else None

    def _receive(self) -> Reply | None:
        try:
            prefix = self._exactly(8)
            sizes = struct.unpack("<II", prefix)
            header = json.loads(self._exactly(sizes[0]))
            body = memoryview(self._exactly(sizes[1]))
            blobs, at = [], 0
            for size in header["sizes"]:
                blobs.append(bytes(body[at : at + size]))
                at += size
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Reply(header, tuple(blobs))

    def _exactly(self, count: int) -> bytearray:
        if count > _MAX_FRAME:
            raise ValueError(f"a frame of {count} bytes")
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise OSError("end of stream")
            at += got
        return data

    def close(self) -> None:
        """End the zygote and what it runs; reap it. Its guard removes what they left, or we do if the guard was killed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # also where a fork of ours holds a copy
        self._socket.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:  # stopped, or hanging in the kernel
            self._process.kill()  # the zygote goes with its guard
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        header = self.ready.header if self.ready else {}
        for folder in header.get("cgroup", ()):
            _remove_cgroup(folder)
        if os.path.isdir(header.get("folder") or ""):
            shutil.rmtree(header["folder"], ignore_errors=True)

    def disown(self) -> None:
        """In a forked child: close its copy of the socket. The process is not ours to reap."""
        self._socket.close()
        self._process.returncode = 0  # or its destructor would complain of a child that still runs


def _remove_cgroup(folder: str) -> None:
    """It is there, and busy, until its last process is gone."""
    end = time.monotonic() + _END_S
    while os.path.isdir(folder) and time.monotonic() < end:
        try:
            os.rmdir(folder)
        except OSError:
            time.sleep(0.01)
