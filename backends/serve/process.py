"""A worker process as the front sees it: started over a socket pair, spoken to on the event loop, killed and reaped.

An exec'd interpreter, never a fork: fronts have threads and connections. Its end is one callback, whatever ended it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from guerdon.backends.serve.frames import BROKEN, READY, Frames, pack
from guerdon.errors import LoadError

__all__ = ["Process"]


class Process(asyncio.Protocol):
    """One worker. `on_message(process, message)` gets what it says once it is ready, `on_end(process)` is called once, after its end."""

    def __init__(self, on_message: Callable[[Process, Any], None], on_end: Callable[[Process], None]) -> None:
        self._on_message, self._on_end = on_message, on_end
        self._frames = Frames()
        self._popen: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.ready.add_done_callback(lambda future: future.cancelled() or future.exception())  # asked or not
        self.ended = False

    async def start(self, options: dict[str, Any], env: dict[str, str]) -> None:
        """Exec it; does not wait until it is ready."""
        ours, theirs = socket.socketpair()
        command = "from guerdon.backends.serve.worker import main; main()"
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-c", command, str(theirs.fileno()), json.dumps(options)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=env,
                start_new_session=True,  # no Ctrl-C from the terminal, and a group that can be killed with its children
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=ours)

    @property
    def pid(self) -> int:
        return 0 if self._popen is None else self._popen.pid

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        for message in self._frames.feed(data):
            if message[0] == READY:
                if not self.ready.done():
                    self.ready.set_result(message[1])
            elif message[0] == BROKEN:
                self._fail(message[1])
            else:
                self._on_message(self, message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.kill()
        asyncio.get_running_loop().run_in_executor(None, self._reap).add_done_callback(self._finish)

    def _reap(self) -> int:
        return 0 if self._popen is None else self._popen.wait()

    def _finish(self, code: asyncio.Future[int]) -> None:
        self.ended = True
        self._fail(f"a worker died while it loaded the reward ({_ending(code.result())})")
        self._on_end(self)

    def _fail(self, why: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(LoadError(why))

    def send(self, message: Any) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack(message))

    def kill(self) -> None:
        """SIGKILL to it and its group; `on_end` follows."""
        if self._popen is not None and self._popen.returncode is None:
            for kill in (os.kill, os.killpg):
                with suppress(OSError):
                    kill(self._popen.pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.close()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
