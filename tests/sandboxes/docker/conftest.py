"""A pool of two containers shared by the tests, and a wire to the daemon that can be cut."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from guerdon.sandboxes import Docker, Limits
from guerdon.sandboxes.docker_image import host_image
from guerdon.sandboxes.docker_pool import connect
from guerdon.sandboxes.docker_slot import LABEL

LIMITS = Limits(cpu_s=5.0, wall_s=15.0)


@pytest.fixture(scope="session")
def daemon() -> Iterator[Any]:
    """A client of the daemon, which has the image. An image that the tests made is removed after them."""
    client = connect()
    before = {image.id for image in client.images.list()}
    name = host_image(client)
    yield client
    if client.images.get(name).id not in before:
        client.images.remove(name, force=True)
    client.close()


@pytest.fixture(scope="module")
def box(daemon: Any) -> Iterator[Any]:
    with Docker(workers=2, limits=LIMITS).start() as sandbox:
        yield sandbox


@pytest.fixture
def ours(daemon: Any) -> Callable[..., set[str]]:
    """The containers of a process, in any state."""

    def find(pid: int | None = None) -> set[str]:
        filters = {"label": f"{LABEL}={pid or os.getpid()}"}
        return {found["Id"] for found in daemon.api.containers(all=True, filters=filters)}

    return find


class Wire:
    """A socket that leads to the daemon until it is cut."""

    def __init__(self, path: Path, target: str) -> None:
        self.host, self._target, self._cut = f"unix://{path}", target, threading.Event()
        self._server = socket.socket(socket.AF_UNIX)
        self._ends = [self._server]
        self._server.bind(str(path))
        self._server.listen(64)
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def cut(self) -> None:
        """As if the daemon had died: what is connected ends, nothing new connects."""
        self._cut.set()
        self._thread.join()

    def _carry(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            while not self._cut.is_set():
                for key, _ in selector.select(0.05):
                    self._step(selector, key)
        for end in self._ends:
            end.close()

    def _step(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        if key.fileobj is self._server:
            near, far = self._server.accept()[0], socket.socket(socket.AF_UNIX)
            self._ends += [near, far]
            far.connect(self._target)
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            return
        data = b""
        with suppress(OSError):
            data = key.fileobj.recv(65536)  # type: ignore[union-attr]
        with suppress(OSError):
            if data:
                key.data.sendall(data)
            else:
                key.data.shutdown(socket.SHUT_WR)
        if not data:
            selector.unregister(key.fileobj)


@pytest.fixture
def wire(daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://"):
        pytest.skip("the daemon is not reached by a unix socket")
    made = Wire(tmp_path / "s", host.removeprefix("unix://"))
    monkeypatch.setenv("DOCKER_HOST", made.host)
    yield made
    made.cut()
