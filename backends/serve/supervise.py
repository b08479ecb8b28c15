"""Several fronts on one socket, each with workers of its own: started, restarted when they die, drained together.

The socket is shared, so that connections waiting at a front that died are taken by another. Metrics are added up through files in a
temporary folder.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from guerdon.backends.serve.settings import Settings
from guerdon.backends.serve.staff import worker_count
from guerdon.errors import LoadError

__all__ = ["supervise"]

log = logging.getLogger("guerdon.serve")

GLANCE_S = 0.2
RESTARTS_PER_MINUTE = 10


def supervise(settings: Settings, sock: socket.socket, announce: Callable[[str], None]) -> int:
    """Run the fronts until SIGTERM or SIGINT; the exit code: the worst of theirs."""
    from guerdon.backends.serve.run import DRAIN_S, greeting

    settings = replace(settings, workers=worker_count(settings))
    fronts: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="guerdon-metrics-") as folder:
        asked = _catch_signals()
        try:
            fronts += [_start(settings, sock, folder) for _ in range(settings.processes)]
            if _wait_ready(fronts, asked):
                announce(greeting(settings, sock, settings.workers or 1))
            restarts: list[float] = []
            while not asked:
                time.sleep(GLANCE_S)
                _restart_dead(fronts, settings, sock, folder, restarts)
            return _end(fronts, asked, settings.deadline_s + DRAIN_S + 5.0)
        finally:
            for front in fronts:
                if front.poll() is None:
                    front.kill()
                front.wait()
                if front.stdout is not None:
                    front.stdout.close()


def _catch_signals() -> list[int]:
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda caught, _frame: asked.append(caught))
    return asked


def _start(settings: Settings, sock: socket.socket, folder: str) -> subprocess.Popen[bytes]:
    command = "from guerdon.backends.serve.run import main; main()"
    front = subprocess.Popen(
        [sys.executable, "-P", "-c", command, str(sock.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(sock.fileno(),),
        env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": folder},
        start_new_session=True,  # the terminal's Ctrl-C comes to the supervisor alone
    )
    assert front.stdin is not None
    with suppress(BrokenPipeError):
        front.stdin.write(settings.to_json().encode())  # not in argv: it holds the token
        front.stdin.close()
    return front


def _wait_ready(fronts: list[subprocess.Popen[bytes]], asked: list[int]) -> bool:
    """Until every front is ready; False if a signal came first. LoadError if one cannot load the reward."""
    waiting = set(fronts)
    with selectors.DefaultSelector() as selector:
        for front in fronts:
            assert front.stdout is not None
            selector.register(front.stdout, selectors.EVENT_READ, front)
        while waiting and not asked:
            for key, _ in selector.select(GLANCE_S):
                word, _, why = os.read(key.fd, 4096).decode("utf-8", "replace").partition(" ")
                if word.strip() != "ready":
                    raise LoadError(why.strip() or f"a server process ended while it started (exit code {key.data.wait()})")
                waiting.discard(key.data)
                selector.unregister(key.fd)
    return not asked


def _restart_dead(
    fronts: list[subprocess.Popen[bytes]], settings: Settings, sock: socket.socket, folder: str, restarts: list[float]
) -> None:
    for i, front in enumerate(fronts):
        if front.poll() is None:
            continue
        restarts[:] = [at for at in restarts if at > time.monotonic() - 60]
        if len(restarts) >= RESTARTS_PER_MINUTE:
            return  # looked at again in a moment: the others go on meanwhile
        restarts.append(time.monotonic())
        log.warning("server process %d ended (exit code %d) and is started again", front.pid, front.returncode)
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(front.pid, folder)  # type: ignore[no-untyped-call]
        if front.stdout is not None:
            front.stdout.close()
        fronts[i] = _start(settings, sock, folder)


def _end(fronts: list[subprocess.Popen[bytes]], asked: list[int], timeout_s: float) -> int:
    """Drain all; a second signal, or the time, forces."""
    end, seen = time.monotonic() + timeout_s, 0
    while any(front.poll() is None for front in fronts) and time.monotonic() < end:
        if len(asked) > seen:
            seen = min(2, len(asked))
            for front in fronts:
                if front.poll() is None:
                    front.send_signal(signal.SIGTERM)
        time.sleep(0.02)
    codes = [1 if front.poll() is None else front.returncode for front in fronts]
    return max((abs(code) for code in codes if code != -signal.SIGTERM), default=0)  # that one was still starting
