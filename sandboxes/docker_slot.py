"""Containers as the slots of a fleet: how one is made, spoken to over its attached stream, and removed."""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from guerdon.errors import SandboxError
from guerdon.sandboxes._boot import BOOT, ENVIRONMENT, preamble
from guerdon.sandboxes._fleet import Fleet
from guerdon.sandboxes._slot import START_S, Reply, Slot
from guerdon.sandboxes.docker import Docker
from guerdon.sandboxes.docker_image import PACKAGES

__all__ = ["LABEL", "ContainerFleet", "ContainerSlot", "container_options", "first_line"]

LABEL = "guerdon.sandbox"
"""On every container, with the process that owns it as value."""
_NOBODY = "65534:65534"
_OVERHEAD_MB = 256  # the warm interpreter, its guard, and the streams the guard holds
_SPARE_MB = 32  # in the container's /tmp beside the run's folder
_numbers = itertools.count()


def container_options(spec: Docker, image: str) -> dict[str, Any]:
    """How a container is made. What is not needed is not there: network, capabilities, a writable root, logs, shared memory."""
    limits = spec.limits
    memory = f"{limits.memory_mb + limits.disk_mb + _SPARE_MB + _OVERHEAD_MB}m"
    return {
        "image": image,
        "entrypoint": ["python3", "-s", "-P", "-B", "-c", BOOT],
        "environment": {**ENVIRONMENT, **({"PYTHONPATH": PACKAGES} if spec.packages else {})},
        "hostname": "sandbox",
        "working_dir": "/tmp",
        "labels": {LABEL: str(os.getpid())},
        "stdin_open": True,  # never /dev/null: runc 1.1.5 gives the host's to the container's user
        "auto_remove": True,  # its input ends with us, so it does, and so it goes
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,mode=1777,size={limits.disk_mb + _SPARE_MB}m"},
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": limits.processes + 8,
        "nano_cpus": 10**9,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "user": _NOBODY,
        "ipc_mode": "none",
        "ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "log_config": {"Type": "none", "Config": {}},
        "runtime": spec.runtime,
    }


class ContainerSlot(Slot):
    """A zygote in a container of its own. One that could not be started is there all the same, and lost from the first."""

    def __init__(self, client: Any, options: dict[str, Any], config: dict[str, Any], janitor: Executor) -> None:
        self.ready: Reply | None = None
        self.failure = ""
        self.runs = 0
        self.pid = 0
        self._client, self._janitor, self._left = client, janitor, 0
        self.container: Any = None
        self._stream: Any = None
        try:
            self._socket = self._begin(options, config)
        except Exception as error:  # the SDK's own, requests' and the system's: all mean that there is no container
            self.failure = f"no container could be started: {first_line(error)}"
            self._remove()
            self._socket, other = socket.socketpair()
            other.close()
        self.fd = self._socket.fileno()

    def _begin(self, options: dict[str, Any], config: dict[str, Any]) -> socket.socket:
        name = f"guerdon-{os.getpid()}-{next(_numbers)}-{os.urandom(3).hex()}"
        self.container = self._client.containers.create(name=name, **options)
        params = {"stdin": 1, "stdout": 1, "stream": 1}
        self._stream = self._client.api.attach_socket(self.container.id, params=params)  # before the start: nothing is missed
        raw: socket.socket = getattr(self._stream, "_sock", self._stream)
        raw.settimeout(START_S)
        self.container.start()
        raw.sendall(preamble({**config, "name": name}))
        return raw

    def send(self, data: bytes) -> bool:
        self.runs += 1
        return not self.failure and super().send(data)

    def wait_ready(self) -> Reply | None:
        return None if self.failure else super().wait_ready()

    def _exactly(self, count: int) -> bytearray:
        """Bytes of the container's standard output, freed from the frames the daemon puts them in: a stream number and a length."""
        data = bytearray()
        while len(data) < count:
            if not self._left:
                self._left = struct.unpack(">4xI", super()._exactly(8))[0]
            part = super()._exactly(min(self._left, count - len(data)))
            self._left -= len(part)
            data += part
        return data

    def close(self) -> None:
        """Have the container killed and removed; nothing in it outlives that. Its input ends at once, so it does by itself, too."""
        self.disown()
        self._remove()

    def disown(self) -> None:
        self._socket.close()
        for end in (getattr(self._stream, "_response", None), self._stream):
            with suppress(Exception):
                if end is not None:
                    end.close()

    def _remove(self) -> None:
        container, self.container = self.container, None
        if container is not None:
            try:
                self._janitor.submit(_remove, container)
            except RuntimeError:  # the interpreter is ending: threads are over
                _remove(container)


def _remove(container: Any) -> None:
    with suppress(Exception):  # gone already, going, or the daemon is: then it goes when the daemon comes back
        container.remove(force=True)


class ContainerFleet(Fleet):
    """Slots made by a function, and replaced once they have run enough."""

    def __init__(self, make: Callable[[], ContainerSlot], slots: Sequence[ContainerSlot], recycle_after: int) -> None:
        super().__init__("", {}, len(slots), slots[0])
        self._make, self._recycle_after = make, recycle_after
        self._free.extend(slots[1:])
        self._all.update(slots)

    def _hire(self) -> Slot:
        slot: Slot | None = None
        try:
            slot = self._make()
        finally:
            with self._wake:
                self._starting -= 1
                closed = self._closed
                if slot is not None and not closed:
                    self._all.add(slot)
                self._wake.notify()
        if closed:
            slot.close()
            raise SandboxError("the sandbox was closed while a call was running")
        return slot

    def _give(self, slot: Slot) -> None:
        if isinstance(slot, ContainerSlot) and slot.runs >= self._recycle_after:
            self._discard(slot)
        else:
            super()._give(slot)

    def containers(self) -> list[str]:
        """The live containers, for tests."""
        slots = [slot for slot in list(self._all) if isinstance(slot, ContainerSlot)]
        return [slot.container.id for slot in slots if slot.container]


def first_line(error: BaseException) -> str:
    """An error's class and the beginning of what it says: the SDK's go on for pages."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]
