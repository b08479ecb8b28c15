"""Run a server until it is told to stop: the socket, the event loop, the signals. Several fronts are `supervise`'s business."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from guerdon.backends.serve.lifeline import follow_parent
from guerdon.backends.serve.settings import Settings, require_extra
from guerdon.errors import ConfigError, GuerdonError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from guerdon.backends.serve.app import Front

__all__ = ["check", "listen", "run_front", "serve", "url"]

log = logging.getLogger("guerdon.serve")

DRAIN_S = 5.0
"""How much longer than a request's deadline a drain may take."""
KEEP_ALIVE_S = 30
BACKLOG = 4096


def _say(line: str) -> None:
    print(line, flush=True)  # a parent may read it through a pipe


def serve(settings: Settings, announce: Callable[[str], None] = _say) -> int:
    """Serve until SIGTERM or SIGINT, then finish what is in flight; the exit code. `announce` gets one line, with the address, once ready.

    0: drained; 1: requests were cut, by a second signal or because the drain took too long. Raises LoadError if the reward cannot be
    loaded, ConfigError if the address cannot be had, MissingExtra without the extra `serve`.
    """
    require_extra()
    logging.basicConfig(level=settings.log_level.upper(), format="guerdon: %(levelname)s: %(message)s")
    with listen(settings) as sock:
        if settings.processes > 1:
            from guerdon.backends.serve.supervise import supervise

            return supervise(settings, sock, announce)
        return run_front(settings, sock, lambda front: announce(greeting(settings, sock, front.dispatcher.staff.size)))


def check(settings: Settings) -> dict[str, Any]:
    """Load the reward in a worker and say what it is; nothing is served."""
    require_extra()

    async def load() -> dict[str, Any]:
        from dataclasses import replace

        from guerdon.backends.serve.app import Front

        front = Front(replace(settings, workers=1, processes=1))
        try:
            await front.open()
            return dict(front.dispatcher.staff.info or {})
        finally:
            await front.close()

    return asyncio.run(load())


def greeting(settings: Settings, sock: socket.socket, workers: int) -> str:
    """The line that says where."""
    fronts = f"{settings.processes} processes with " if settings.processes > 1 else ""
    return f"guerdon: serving {settings.reward} at {url(sock)} ({fronts}{workers} worker{'s' if workers > 1 else ''})"


def url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(settings: Settings) -> socket.socket:
    """The listening socket. Raises ConfigError if the address cannot be had."""
    sock = None
    try:
        family, kind, proto, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        if sock is not None:
            sock.close()
        raise ConfigError(f"cannot listen at {settings.host} port {settings.port}: {error}; choose another --port or --host") from None
    return sock


def run_front(settings: Settings, sock: socket.socket, on_ready: Callable[[Front], None]) -> int:
    """One front on an open socket: the exit code, as `serve`."""
    import gc

    factory = None
    with suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        gc.freeze()
        return runner.run(_front(settings, sock, on_ready))


async def _front(settings: Settings, sock: socket.socket, on_ready: Callable[[Front], None]) -> int:
    from guerdon.backends.serve.app import Front
    from guerdon.backends.serve.guard import sweep

    front = Front(settings)
    server = _server(front, settings)
    stop, force = asyncio.Event(), asyncio.Event()
    with _signals(stop, force):
        serving = asyncio.ensure_future(server.serve(sockets=[sock]))
        guarding = asyncio.ensure_future(sweep(server.server_state.connections, settings.read_s))
        opening = asyncio.ensure_future(front.open())
        stopped, forced = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(force.wait())
        try:
            await asyncio.wait({opening, stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
                on_ready(front)
                await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
            draining = asyncio.ensure_future(front.drain(settings.deadline_s + DRAIN_S))
            await asyncio.wait({draining, forced}, return_when=asyncio.FIRST_COMPLETED)
            return 1 if front.dispatcher.in_flight else 0
        finally:
            for task in (opening, guarding, stopped, forced):
                task.cancel()
            await front.close()
            server.force_exit = force.is_set()
            server.should_exit = True
            await asyncio.wait({serving})


def _server(front: Front, settings: Settings) -> Any:
    import resource

    from uvicorn import Config, Server

    from guerdon.backends.serve.guard import Guarded

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    Guarded.max_connections = max(16, soft - 256)

    class Quiet(Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:  # ours are set
            yield

    config = Config(
        front.app,
        http=Guarded,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="error" if settings.log_level != "debug" else "debug",
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2,
    )
    return Quiet(config)


@contextmanager
def _signals(stop: asyncio.Event, force: asyncio.Event) -> Iterator[None]:
    """The first SIGTERM or SIGINT sets `stop`, the next one `force`."""
    loop = asyncio.get_running_loop()

    def caught() -> None:
        (force if stop.is_set() else stop).set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, caught)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def main() -> None:
    """A front as a child of `supervise`: settings on stdin, the socket's descriptor in argv; `ready` or what failed on stdout."""
    follow_parent(signal.SIGTERM)
    settings = Settings.from_json(sys.stdin.buffer.read())
    logging.basicConfig(level=settings.log_level.upper(), format=f"guerdon: process {os.getpid()}: %(levelname)s: %(message)s")
    sock = socket.socket(fileno=int(sys.argv[1]))
    try:
        code = run_front(settings, sock, lambda _: print("ready", flush=True))
    except GuerdonError as error:
        print(f"failed {error}", flush=True)
        code = 2
    sys.exit(code)
